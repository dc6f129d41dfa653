"""Sorts of a few numbers as native code, alone and in loops, against NumPy's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg
from fungrad import lax
from fungrad.compiler.native.short_sorts import network

rng = np.random.default_rng(5)
pytestmark = pytest.mark.usefixtures("native")


def left(f: Any, *args: Any) -> bool:
    """Whether the program of a function is not native throughout."""
    return bool(fg.jit(f).lower(*args).refused)


def loop(x: Any) -> Any:
    """Sorts in a scan: the gradient sorts places, and moves cotangents by them."""
    step = lambda c, _: (np.sort(np.sin(c) - 0.1 * x), np.median(c))  # noqa: E731
    last, medians = lax.scan(step, x, None, length=3)
    return np.sum(last**3) + np.sum(medians**2)


def test_networks_sort_all_zeros_and_ones() -> None:
    """Then they sort all numbers (Knuth, 5.3.4, theorem Z)."""
    for count in range(11):
        for bits in itertools.product((0, 1), repeat=count):
            found = list(bits)
            for i, j in network(count):
                found[i], found[j] = min(found[i], found[j]), max(found[i], found[j])
            assert found == sorted(bits)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (3, 4), (0,), (2, 0)])
def test_sorts_and_places(shape: tuple[int, ...], dtype: Any) -> None:
    x = rng.normal(size=shape).astype(dtype)
    for axis in range(len(shape)):

        def f(x: Any, axis: int = axis) -> Any:
            y = x * 2.0
            return np.sort(y, axis), np.argsort(y, axis), np.argsort(-y, axis, kind="stable")

        for found, expected in zip(fg.jit(f)(x), f(x), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


def test_derivatives_in_loops() -> None:
    x, along = rng.normal(size=(2, 4))
    gradient = fg.grad(loop)
    for f in (
        loop,
        gradient,
        lambda x: fg.jvp(gradient, (x,), (along,))[1],
        lambda x: fg.grad(lambda x: gradient(x) @ along)(x),
    ):
        assert not left(f, x)
        np.testing.assert_allclose(fg.jit(f)(x), f(x), rtol=1e-12, atol=1e-14)


def test_batches_are_loops() -> None:
    x = rng.normal(size=(2, 4))
    found = fg.jit(fg.vmap(fg.grad(loop)))(x)
    np.testing.assert_allclose(found, [fg.grad(loop)(row) for row in x], rtol=1e-12)


@pytest.mark.parametrize(
    "x",
    [[1.0, 2.0, 1.0, 0.5], [np.nan, 1.0, np.nan, 0.0], [np.inf, -np.inf, 0.0, np.inf], [0.0] * 4],
    ids=["equal", "nan", "infinite", "zeros"],
)
def test_equal_numbers_and_nan_are_numpys(x: list[float]) -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        return np.sort(y), np.argsort(y), np.argsort(y, kind="stable")

    def g(x: Any) -> Any:
        return np.sum(np.sort(x) * np.arange(1.0, 5.0))

    given = np.array(x)
    for found, expected in zip(fg.jit(f)(given), f(given), strict=True):
        np.testing.assert_array_equal(found, expected)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(fg.jit(fg.grad(g))(given), fg.grad(g)(given))


def test_integers_are_left_to_numpy() -> None:
    def f(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, c: np.sort(-c), x)

    x = np.array([3, 1, 2])
    assert left(f, x)
    np.testing.assert_array_equal(fg.jit(f)(x), f(x))
