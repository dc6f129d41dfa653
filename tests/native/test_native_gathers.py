"""Native reads and writes by index arrays against NumPy: forms of indices, duplicates, bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg
from fungrad.compiler.native.fused import fused_kernel

RNG = np.random.default_rng(7)
N = 803
"""The number of indices: no multiple of any number of lanes."""
VECTOR, ROWS, MATRIX = RNG.normal(size=50), RNG.normal(size=(40, 16)), RNG.normal(size=(30, 50))
CUBE, POINTS = RNG.normal(size=(20, 5, 30)), RNG.normal(size=(60, 3))
FIRST, SECOND = RNG.integers(-20, 20, N), RNG.integers(0, 30, N)


@pytest.fixture(autouse=True)
def _natively(native: None) -> Iterator[None]:
    threads = fg.config.num_threads
    yield
    fg.config.num_threads = threads


READS: dict[str, tuple[Callable[..., Any], Any]] = {
    "elements": (lambda x, i, j: x[i], VECTOR),
    "differences": (lambda x, i, j: x[i] - x[j], VECTOR),
    "three reads": (lambda x, i, j: x[i] * x[j] + x[i + 1], VECTOR),
    "rows": (lambda x, i, j: x[i], ROWS),
    "short rows": (lambda x, i, j: np.sum((x[i] - x[j]) ** 2, axis=1), POINTS),
    "columns": (lambda x, i, j: x[:, j], MATRIX),
    "a column of rows": (lambda x, i, j: x[i, 3], ROWS),
    "two indices": (lambda x, i, j: x[i, j], MATRIX),
    "reversed rows": (lambda x, i, j: x[i, ::-1], ROWS),
    "part of the rows": (lambda x, i, j: x[i, None, 2:13], ROWS),
    "the middle axis": (lambda x, i, j: x[:, i % 5, 2:28], CUBE),
    "outer axes": (lambda x, i, j: x[i, :, j], CUBE),
    "a grid of indices": (lambda x, i, j: x[i[:100, None], j[None, :30]], MATRIX),
    "beside a sum": (lambda x, i, j: x[i] * np.sum(x), VECTOR),
    "of a result": (lambda x, i, j: np.tanh(x)[i], VECTOR),
    "of rows with their means": (lambda x, i, j: x[i] - np.mean(x[i], 1, keepdims=True), ROWS),
    "twice": (lambda x, i, j: np.exp(x[i])[j], VECTOR),
    "short": (lambda x, i, j: x[i % 7], VECTOR[:7]),
}


@pytest.mark.parametrize("name", READS)
def test_reads_and_their_gradients(name: str) -> None:
    read, x = READS[name]

    def loss(x: Any, i: Any, j: Any) -> Any:
        return np.sum(np.sin(read(x, i, j)) * 1.5)

    double, single = (np.float64, np.int64, 1e-12), (np.float32, np.int32, 2e-4)
    for f, (dtype, index, rounding) in ((fg.grad(loss), double), (loss, single)):
        given = x.astype(dtype), FIRST.astype(index), SECOND.astype(index)
        found, wanted = fg.jit(f)(*given), f(*given)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rounding, rounding)


@pytest.mark.parametrize("side", ["left", "right"])
def test_searches(side: Any) -> None:
    for length in (1, 2, 7, 64, 65):
        table = np.sort(RNG.integers(0, 9, length) * 0.5)
        table[-1:] = RNG.choice([np.nan, np.inf, 7.0])
        x = np.append(RNG.integers(-2, 22, N) * 0.25, [np.nan, np.inf, -np.inf, -0.0])
        for dtype in (np.float64, np.float32):
            given = table.astype(dtype), x.astype(dtype)
            found = fg.jit(lambda t, x: np.searchsorted(t, x, side) * 2)(*given)
            np.testing.assert_array_equal(found, np.searchsorted(*given, side) * 2)


def test_interpolation_and_its_gradient() -> None:
    at = np.linspace(-1.0, 1.0, 50)
    f = fg.grad(lambda x, table: np.sum(np.interp(x, at, table) ** 2), argnums=(0, 1))
    x = np.append(RNG.normal(size=N), [at[3], -1.0, 1.0, np.nan])
    for a, b in zip(fg.jit(f)(x, VECTOR), f(x, VECTOR), strict=True):
        np.testing.assert_allclose(a, b, 1e-12, 1e-12)


def test_one_read_or_write_by_constant_indices_is_a_kernel() -> None:
    """NumPy's loops over indices are slower, even alone."""
    i, j = RNG.integers(0, 200, 5000), RNG.integers(0, 50, 5000)

    def added(x: Any) -> Any:
        total = np.zeros(200)
        np.add.at(total, i, x)
        return total

    x = RNG.normal(size=(200, 50))
    for f, given in ((lambda x: x[i, j], x), (lambda x: x[i], x), (added, RNG.normal(size=5000))):
        assert fused_kernel(fg.jit(f).lower(given).optimised).units
        np.testing.assert_allclose(fg.jit(f)(given), f(given), 1e-13)


def test_a_gradient_of_reads_is_one_kernel() -> None:
    def springs(x: Any, i: Any, j: Any) -> Any:
        lengths = np.sqrt(np.sum((x[i] - x[j]) ** 2, axis=1) + 1e-6)
        return np.sum((lengths - 1.0) ** 2)

    lowered = fg.jit(fg.grad(springs)).lower(POINTS, FIRST, SECOND)
    assert not lowered.refused and len(lowered.kernels) == 1


def at(x: Any, i: Any) -> Any:
    return fg.numpy.at(x)[i]


WRITES: dict[str, Callable[..., Any]] = {
    "add": lambda x, v, i: at(x, i).add(np.sin(v)),
    "set": lambda x, v, i: at(x, i).set(np.sin(v)),
    "add twice": lambda x, v, i: at(at(x, i).add(np.sin(v)), i[::-1]).add(v * v),
    "set twice": lambda x, v, i: at(at(x, i).set(np.sin(v)), i[::-1]).set(v * v),
    "set, then add": lambda x, v, i: at(at(x, i).set(np.sin(v)), -i).add(v * v),
    "into a result": lambda x, v, i: at(np.exp(x), i).add(np.sin(v)),
    "truth values": lambda x, v, i: (at(x > 1, i).add(v > 0), at(x > 1, i).set(v > 0)),
    "and a read": lambda x, v, i: (at(x, i).add(np.sin(v)), np.cos(x[i])),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes(name: str) -> None:
    f = WRITES[name]
    given = VECTOR, RNG.normal(size=N), RNG.integers(-20, 20, N)
    found, wanted = fg.jit(f)(*given), f(*given)
    for a, b in zip(fg.tree_leaves(found), fg.tree_leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, 1e-12, 1e-12)


def test_an_index_out_of_bounds_is_numpys_error() -> None:
    f = fg.jit(lambda x, i: np.sin(x[i]) * 2.0)
    good = np.arange(N) % 50
    for bad in (50, -51, 2**62, -(2**63)):
        f(VECTOR, good)
        i = good.copy()
        i[700] = bad
        with pytest.raises(IndexError, match="out of bounds"):
            f(VECTOR, i)
    with pytest.raises(IndexError, match="out of bounds"):
        fg.jit(lambda x: np.sin(x[np.append(good, 50)]) * 2.0)(VECTOR)


def test_no_indices() -> None:
    f = fg.grad(lambda x, i: np.sum(np.sin(x[i]) * x[0]))
    np.testing.assert_array_equal(fg.jit(f)(VECTOR, FIRST[:0]), f(VECTOR, FIRST[:0]))


def test_the_sums_of_duplicates_do_not_depend_on_threads() -> None:
    x, i = RNG.normal(size=300), RNG.integers(0, 300, 60_001)
    g = fg.jit(fg.grad(lambda x, i: np.sum(np.sin(x[i] ** 2))))
    found = []
    for fg.config.num_threads in (1, 2):
        found.append(g(x, i))
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(
        found[0], fg.grad(lambda x, i: np.sum(np.sin(x[i] ** 2)))(x, i), 1e-11
    )


def test_special_values_reach_only_their_elements() -> None:
    x = VECTOR.copy()
    x[[3, 4, 5]] = np.nan, np.inf, -0.0
    i = RNG.integers(0, 20, N)
    f = fg.grad(lambda x, i: np.sum(np.sqrt(x[i] * x[i])))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(fg.jit(f)(x, i), f(x, i))
    negative = fg.jit(lambda x, i: -np.abs(x[i]))(x, i)
    np.testing.assert_array_equal(np.signbit(negative), np.signbit(-np.abs(x[i])))
