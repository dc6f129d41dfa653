"""Products with elementwise work around them, tile by tile: numbers, threads, remainders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg
from fungrad.compiler.cost_model import costs
from fungrad.compiler.native.tiling import row_access
from fungrad.compiler.native.tiling.clusters import clusters
from fungrad.compiler.native.tiling.tiles import tile_graph, with_tiles
from fungrad.compiler.numpy_backend.backend import build
from fungrad.compiler.passes.pipeline import optimised
from fungrad.ir.graph import Graph
from fungrad.runtime import blas_threads
from fungrad.runtime.thread_pool import num_threads, share
from fungrad.tracing.interpreter import evaluate

rng = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def one_blas_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products join clusters whatever the machine is, and small arrays are in tiles."""
    monkeypatch.setattr(costs, "fused_array", 1 << 13)
    monkeypatch.setattr(blas_threads, "single_blas", lambda: True)


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
    (cluster,) = clusters(graph_of(fg.value_and_grad(nearest), *args))
    assert cluster.length == rows


@pytest.mark.slow
@pytest.mark.parametrize("rows", [256, 389])
def test_attention(native: None, rows: int) -> None:
    args = [rng.normal(size=(rows, 16)) for _ in range(4)]
    f = fg.value_and_grad(attention, (0, 1, 2))
    near(f, *args)
    lowered = fg.jit(f).lower(*args)
    assert lowered.native.count("define ptr @fg_entry") >= 3
    assert lowered.source.count("native_cluster") >= 3 and "tiles(" in lowered.source


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
    (cluster,) = clusters(graph_of(f, *[rng.normal(size=(256, 16)) for _ in range(4)]))
    body, axes = cluster.body, cluster.axes
    given = [rng.normal(size=v.type.shape) for v in body.inputs]
    parts = [[x if axis is None else np.take(x, rows, axis)
              for x, axis in zip(given, [axes[v] for v in body.inputs], strict=True)]
             for rows in (range(100), range(100, 256))]  # fmt: skip
    counts = (100, 156)
    found = [evaluate(tile_graph(cluster, n), x) for n, x in zip(counts, parts, strict=True)]
    for v, y, pieces in zip(
        body.outputs, evaluate(body, given), zip(*found, strict=True), strict=True
    ):
        axis = axes[v]  # type: ignore[index]
        x = sum(pieces) if axis == row_access.REDUCED else np.concatenate(pieces, axis)
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12 * np.max(np.abs(y)))


def network(w1: Any, b1: Any, w2: Any, x: Any, y: Any) -> Any:
    z = np.tanh(x @ w1 + b1) @ w2
    z = z - np.max(z, 1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(z), 1)) - np.sum(y * z, 1))


def logistic(w: Any, x: Any, y: Any) -> Any:
    z = np.tanh(x @ np.outer(w, w)) @ w
    return np.mean(np.logaddexp(0.0, z) - y * z)


def gram(x: Any) -> Any:
    """A matrix that is read by rows and as a whole, and a sum that is read after the last tile."""
    y = np.exp(0.01 * (x @ x.T))
    return np.sum(np.sin(x @ x.T)) + np.sum(np.cos(x.T @ x)) + np.sum(y / np.sum(y) * np.tanh(y))


def columns(x: Any, y: Any) -> Any:
    """Products over the first axes, and of two arrays with rows."""
    z = np.sin(0.1 * (x.T @ y))
    return np.sum(np.exp(-np.abs(z)) * 0.1) + np.sum(np.tanh(z @ z.T))


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "gram": (gram, [(200, 45)]),
    "attention": (attention, [(130, 70), (90, 70), (90, 20), (130, 20)]),
    "k-means": (nearest, [(40, 16), (500, 16)]),
    "network": (network, [(30, 80), (80,), (80, 10), (300, 30), (300, 10)]),
    "logistic": (logistic, [(60,), (300, 60), (300,)]),
    "vector first": (
        lambda w, x, y: np.sum(np.tanh(w[:9] @ np.sin(x @ x[:9].T).T) * y) + np.sum((y * y) @ x),
        [(60,), (300, 60), (300,)],
    ),
    "outer": (
        lambda x, y: np.sum(np.sin(np.multiply.outer(x, y) @ np.outer(y, y)) * y), [(200,), (60,)],
    ),
    "columns": (columns, [(150, 150), (150, 100)]),
    "joined": (
        lambda x, y: np.sum(np.sin(np.concatenate([x, np.cos(x)], 1) @ y)), [(200, 30), (60, 9)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)])
def test_values_gradients_and_hessian_products(name: str, dtype: Any) -> None:
    """Of the tiles that NumPy runs, some rows each."""
    f, shapes = CASES[name]
    args = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    every = tuple(range(len(args)))

    def hessian_product(*xs: Any) -> Any:
        return fg.jvp(fg.grad(f, every), xs, xs)[1]

    with pytest.MonkeyPatch.context() as patch:
        small = {"fused_array": 2, "tile_elements": 300, "product_rows": 7}
        for constant, value in small.items():
            patch.setattr(costs, constant, value)
        for g in (fg.value_and_grad(f, every), hessian_product):
            graph = graph_of(g, *args)
            tiled = with_tiles(graph, lambda part, _: build(part))
            assert any(e.primitive.name == "tiles" for e in tiled.equations)
            for x, y in zip(build(tiled)(*args), evaluate(graph, args), strict=True):
                scale = np.max(np.abs(y), initial=1e-30)
                tolerance = 1e4 * np.finfo(dtype).eps
                np.testing.assert_allclose(x / scale, y / scale, rtol=0, atol=tolerance)


def test_a_blas_without_control_has_no_products_in_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_threads, "single_blas", lambda: False)
    monkeypatch.setattr(blas_threads, "one_blas_thread", lambda: None)
    assert not clusters(graph_of(fg.value_and_grad(nearest), *clouds(1200)))


def test_threads_of_the_pool_do_not_share_again() -> None:
    def inner(start: int, stop: int) -> tuple[int, int]:
        return start, stop

    def outer(start: int, stop: int) -> list[tuple[int, int]]:
        return share(inner, 8, 1, 2)

    first, last = share(outer, 2, 1, 2)
    assert first == [(0, 8)]
    assert last == [(0, 4), (4, 8)]
