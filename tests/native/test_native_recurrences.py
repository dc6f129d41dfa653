"""Native cumulative operations, linear recurrences, and programs of several kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg
from fungrad import lax

RNG = np.random.default_rng(11)
LINE, TABLE = 1.0 + 0.01 * RNG.normal(size=3_001), RNG.normal(size=(37, 70))
CUBE = RNG.normal(size=(9, 41, 11))
INDICES = RNG.integers(-50, 50, 700)

CUMULATIVE: dict[str, tuple[Callable[..., Any], Any]] = {
    "a sum": (np.cumsum, LINE),
    "a product": (np.cumprod, LINE),
    "a sum backwards": (lambda x: np.cumsum(x[::-1])[::-1], LINE),
    "the largest": (lambda x: lax.cummax(x), LINE),
    "the smallest, backwards": (lambda x: lax.cummin(x, reverse=True), LINE),
    "rows": (lambda x: np.cumsum(x, axis=1), TABLE),
    "columns": (lambda x: np.cumprod(1.0 + 0.01 * x, axis=0), TABLE),
    "products of rows": (lambda x: np.prod(1.0 + 0.01 * x, axis=1), TABLE),
    "products of adjacent axes": (lambda x: np.prod(1.0 + 0.01 * x, axis=(0, 1)), CUBE),
    "products of all others": (
        lambda x: fg.grad(lambda x: np.sum(np.prod(1.0 + 0.01 * x, axis=1)))(x), CUBE),
    "a middle axis": (lambda x: np.cumsum(x * x, axis=1) * x, CUBE),
    "of integers": (lambda x: np.cumsum((x * 100).astype(np.int32)), LINE),
    "of truth values": (lambda x: np.cumsum(x > 1.0), LINE),
}  # fmt: skip


@pytest.mark.parametrize("name", CUMULATIVE)
def test_cumulative_operations_have_numpys_bits(native: None, name: str) -> None:
    f, x = CUMULATIVE[name]
    x = x.copy()
    x.reshape(-1)[7] = -0.0
    for given in (x, x.astype(np.float32)):
        found, wanted = fg.jit(f)(given), f(given)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    x.reshape(-1)[[100, 200]] = np.nan, np.inf
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.isnan(fg.jit(f)(x)), np.isnan(f(x)))


def test_gradients_of_cumulative_operations(native: None) -> None:
    for f, x in [CUMULATIVE[n] for n in ("a sum", "a product", "the largest", "rows", "columns")]:
        gradient = fg.grad(lambda x, f=f: np.sum(f(x) ** 2))
        np.testing.assert_allclose(fg.jit(gradient)(x), gradient(x), 1e-11, 1e-9)


def test_rows_do_not_depend_on_threads(native: None) -> None:
    x, before, found = RNG.normal(size=(1_001, 90)), fg.config.num_threads, []
    f = fg.jit(lambda x: np.cumsum(x, axis=1))
    for fg.config.num_threads in (1, 2):
        found.append(f(x))
    fg.config.num_threads = before
    np.testing.assert_array_equal(*found)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "sums between functions": lambda x, i: np.cumsum(np.tanh(np.cumsum(x * 0.1) * 0.1)),
    "a gather of a result": lambda x, i: np.exp(np.cumsum(x * 0.1)[i] * 0.01) * 2.0,
    "a gather in a loop": lambda x, i: lax.scan(
        lambda c, k: (c * 0.5 + np.tanh(x[i] * k), c.sum()), x[i], np.arange(3.0)),
    "uniform arrays": lambda x, i: np.concatenate([np.ones(5), np.tanh(x), np.zeros(3)]) * 2.0,
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_several_parts_are_one_kernel(native: None, name: str) -> None:
    f, x = PROGRAMS[name], LINE[:700]
    lowered = fg.jit(f).lower(x, INDICES)
    assert not lowered.refused and len(lowered.kernels) == 1
    found, wanted = fg.jit(f)(x, INDICES), f(x, INDICES)
    for a, b in zip(fg.tree_leaves(found), fg.tree_leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, 1e-12)


def test_an_index_out_of_bounds_leaves_a_program_of_several_parts(native: None) -> None:
    for f in (PROGRAMS["a gather of a result"], PROGRAMS["a gather in a loop"]):
        compiled = fg.jit(f)
        compiled(LINE[:700], INDICES)
        with pytest.raises(IndexError, match="out of bounds"):
            compiled(LINE[:700], INDICES + 700)
