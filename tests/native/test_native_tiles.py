"""Products with elementwise work around them, tile by tile: numbers, threads, remainders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg
from fungrad.compiler.native.tiles import tile_graph, tileable
from fungrad.compiler.numpy_backend.fusion.row_access import REDUCED
from fungrad.compiler.passes.pipeline import optimised
from fungrad.ir.graph import Graph
from fungrad.runtime import blas_threads
from fungrad.runtime.thread_pool import num_threads, share
from fungrad.tracing.interpreter import evaluate

rng = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def one_blas_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products join clusters whatever the machine is."""
    monkeypatch.setattr(blas_threads, "single_blas", lambda: True)
    monkeypatch.setattr(
        "fungrad.compiler.numpy_backend.fusion.row_access.single_blas", lambda: True
    )


@pytest.fixture
def threads() -> Iterator[None]:
    before = num_threads()
    yield
    fg.config.num_threads = before


def graph_of(f: Callable[..., Any], *args: Any) -> Graph:
    return optimised(fg.jit(f).lower(*args).graph)


def near(f: Callable[..., Any], *args: Any, tolerance: float = 1e-12) -> list[Any]:
    """The results, which are those of the Graph run equation by equation, to rounding."""
    expected = evaluate(graph_of(f, *args), args)
    found = fg.tree_util.tree_leaves(fg.jit(f)(*args))
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == y.dtype and np.shape(x) == np.shape(y)
        np.testing.assert_allclose(
            x, y, rtol=tolerance, atol=tolerance * np.nanmax(np.abs(y), initial=0.0)
        )
    return found


def nearest(centres: Any, points: Any) -> Any:
    squares = np.sum(centres * centres, 1) - 2.0 * (points @ centres.T)
    return np.sum(np.min(squares, 1)) + np.sum(points * points)


def attention(q: Any, k: Any, v: Any, target: Any) -> Any:
    scores = q @ k.T / 4.0
    e = np.exp(scores - np.max(scores, 1, keepdims=True))
    return np.mean((e / np.sum(e, 1, keepdims=True) @ v - target) ** 2)


def clouds(rows: int, dtype: Any = float) -> tuple[Any, Any]:
    return rng.uniform(size=(60, 8)).astype(dtype), rng.uniform(size=(rows, 8)).astype(dtype)


@pytest.mark.parametrize(
    ("rows", "dtype"), [(1200, np.float64), (1209, np.float64), (1201, np.float32)]
)
def test_nearest_centres(native: None, rows: int, dtype: Any) -> None:
    tolerance = 1e-11 if dtype == np.float64 else 3e-4
    args = clouds(rows, dtype)
    near(fg.value_and_grad(nearest), *args, tolerance=tolerance)
    (region,) = tileable(graph_of(fg.value_and_grad(nearest), *args))
    assert region.length == rows


@pytest.mark.slow
@pytest.mark.parametrize("rows", [256, 389])
def test_attention(native: None, rows: int) -> None:
    args = [rng.normal(size=(rows, 16)) for _ in range(4)]
    f = fg.value_and_grad(attention, (0, 1, 2))
    near(f, *args)
    lowered = fg.jit(f).lower(*args)
    assert lowered.native.count("define ptr @fg_entry") >= 3
    assert lowered.source.count(".each(programs") >= 3


def test_other_layouts(native: None) -> None:
    centres, points = clouds(1201)
    f = fg.jit(fg.value_and_grad(nearest))
    expected = f(centres, points)
    turned = np.asfortranarray(points), np.repeat(points, 2, 1)[:, ::2], points.copy()
    turned[2].setflags(write=False)
    for x in turned:
        for a, b in zip(f(np.asfortranarray(centres), x), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_rows_along_the_second_axis(native: None) -> None:
    def f(x: Any, w: Any) -> Any:
        y = np.tanh(w @ x) * 2.0
        return y.T @ w + 1.0, np.sum(y, 1), np.max(y * y, 1)

    near(f, rng.normal(size=(9, 2003)), rng.normal(size=(40, 9)))


@pytest.mark.slow
def test_numbers_do_not_depend_on_the_number_of_threads(native: None, threads: None) -> None:
    args = clouds(12_007)
    found = []
    for count in (1, 2, 3, 5):
        fg.config.num_threads = count
        found.append(fg.jit(fg.value_and_grad(lambda c, p: nearest(c, p)))(*args))
    for other in found[1:]:
        assert other[0] == found[0][0]
        np.testing.assert_array_equal(other[1], found[0][1])


def test_not_a_number_reaches_what_reads_it(native: None) -> None:
    def f(x: Any, w: Any) -> Any:
        y = x @ w
        return np.max(y, 0), np.sum(np.maximum(y, 0.0), 1), np.min(y - 1.0, 0)

    x, w = rng.normal(size=(1100, 4)), rng.normal(size=(4, 50))
    x[700, 2] = np.nan
    found = near(f, x, w)
    assert np.isnan(found[0]).all() and np.isnan(found[1]).sum() == 1 and np.isnan(found[2]).all()


def test_results_are_not_written_over(native: None) -> None:
    f = fg.jit(fg.value_and_grad(nearest))
    centres, points = clouds(1200)
    value, slope = f(centres, points)
    kept = slope.copy()
    f(centres * 2.0, points)
    np.testing.assert_array_equal(slope, kept)
    assert isinstance(value, np.float64)


def test_errors_that_raise_are_raised(native: None) -> None:
    def f(x: Any, w: Any) -> Any:
        y = x @ w
        return np.sum(1.0 / y + np.exp(y), 1)

    run = fg.jit(f)
    x, w = rng.normal(size=(1100, 4)), rng.normal(size=(4, 50))
    np.testing.assert_allclose(run(x, w), f(x, w), rtol=1e-12)
    x[5] = 0.0
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        run(x, w)
    x[5] = 1.0
    with np.errstate(divide="raise"):
        np.testing.assert_allclose(run(x, w), f(x, w), rtol=1e-12)


def test_the_graph_of_a_tile_does_the_work_of_some_rows(native: None) -> None:
    f = fg.value_and_grad(attention, (0, 1, 2))
    (region,) = tileable(graph_of(f, *[rng.normal(size=(256, 16)) for _ in range(4)]))
    given = [rng.normal(size=v.type.shape) for v in region.inputs]
    made = sorted([part for (part,) in region.made], key=lambda part: part.axis == REDUCED)
    outputs = tuple([part.value for part in made])
    whole = Graph(tuple(region.inputs), (), tuple(region.equations), outputs)
    parts = [[x if axis is None else np.take(x, rows, axis)
              for x, axis in zip(given, [region.axes[v] for v in region.body.inputs], strict=True)]
             for rows in (range(100), range(100, 256))]  # fmt: skip
    body = region.body.replace(outputs=outputs)
    found = [evaluate(tile_graph(body, region.axes, len(x[0])), x) for x in parts]
    for part, y, pieces in zip(made, evaluate(whole, given), zip(*found, strict=True), strict=True):
        x = sum(pieces) if part.axis == REDUCED else np.concatenate(pieces, part.axis)
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12 * np.max(np.abs(y)))


def test_threads_of_the_pool_do_not_share_again() -> None:
    def inner(start: int, stop: int) -> tuple[int, int]:
        return start, stop

    def outer(start: int, stop: int) -> list[tuple[int, int]]:
        return share(inner, 8, 1, 2)

    first, last = share(outer, 2, 1, 2)
    assert first == [(0, 8)]
    assert last == [(0, 4), (4, 8)]
