"""Half precision in native code: each result is rounded as NumPy rounds it; sums are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg
from fungrad.compiler.native.machine_code import host

pytestmark = pytest.mark.skipif(not host().halves, reason="no conversions of halves")
RNG = np.random.default_rng(16)
ALL = np.arange(1 << 16).astype(np.uint16).view(np.float16)
FINITE = ALL[np.isfinite(ALL)]


def same(found: Any, expected: Any) -> None:
    """Equal bits, but for those of NaN."""
    assert found.dtype == expected.dtype and found.shape == expected.shape
    with np.errstate(all="ignore"):
        wrong = ~((found == expected) | (np.isnan(found) & np.isnan(expected)))
    wrong |= (np.signbit(found) != np.signbit(expected)) & ~np.isnan(expected)
    assert not np.any(wrong), np.flatnonzero(wrong)[:5]


def in_a_kernel(f: Any, *args: Any) -> Any:
    """The result of a compiled function without parts on NumPy."""
    compiled = fg.jit(f)
    with np.errstate(all="ignore"):
        found = compiled(*args)
    lowered = compiled.lower(*args)
    assert lowered.kernels and not lowered.refused, lowered.refused
    return found


PROGRAMS = {
    "a polynomial": lambda x, y: ((x * 0.1 + 0.2) * x + 0.3) * y,
    "a quotient": lambda x, y: (x - y) / (x * y + 1),
    "extrema": lambda x, y: np.maximum(x, 0) * np.minimum(y, -0.0) + np.fmax(x, y) - np.fmin(x, 0),
    "a choice": lambda x, y: np.where(x > y, x, -y) * 3,
    "roots": lambda x, y: np.sqrt(np.abs(x)) + np.rint(y) * np.sign(x),
    "powers": lambda x, y: x**2 + y**-1 - np.abs(x) ** 0.5,
    "remainders": lambda x, y: x % y + np.floor_divide(x, y) * np.fmod(y, x),
    "by way of doubles": lambda x, y: (x.astype(np.float64) * np.pi + y).astype(np.float16),
    "with singles": lambda x, y: x * np.float32(1.1) + y,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_operation_is_rounded(native: None, name: str) -> None:
    f, y = PROGRAMS[name], RNG.permutation(ALL)
    with np.errstate(all="ignore"):
        expected = f(ALL, y)
    same(in_a_kernel(f, ALL, y), expected)


@pytest.mark.parametrize("n", [*range(1, 36), 255, 4097, 12_300])
def test_lengths_around_those_of_lanes(native: None, n: int) -> None:
    x = RNG.normal(size=n).astype(np.float16)
    f = lambda x: (x[::-1] * 0.7 - x * x) * 1.3  # noqa: E731
    same(fg.jit(f)(x), f(x))


FUNCTIONS = (
    np.exp, np.expm1, np.log, np.log1p, np.sin, np.cos, np.tan, np.tanh, np.sinh, np.cosh,
    np.arctan, np.arcsin, np.arcsinh, np.exp2, np.log2, np.cbrt,
)  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_are_rounded_once(native: None, function: Any) -> None:
    """The error is that of the last rounding, and of a few units in the last place of a float."""
    with np.errstate(all="ignore"):
        exact = function(FINITE.astype(np.float64))
        found = in_a_kernel(lambda x: function(x) * 1, FINITE)
        same(np.isfinite(found), np.isfinite(exact.astype(np.float16)))
        some = np.isfinite(found)
        units = np.spacing(np.abs(exact[some]).astype(np.float16)).astype(np.float64)
        assert np.max(np.abs(found[some] - exact[some]) / units) <= 0.5005


def test_doubles_are_rounded_once(native: None) -> None:
    """Numbers next to the middle of two halves would be rounded twice by way of a float."""
    middle = (FINITE[:-1].astype(float) + FINITE[1:].astype(float)) / 2
    next_ones = [np.nextafter(middle, end) for end in (-np.inf, np.inf)]
    ends = [65519.99, 65520.0, -65520.0, 1e300, np.inf, -np.inf, np.nan, 5e-324, -0.0, 2.0**-25]
    x = np.concatenate([middle, *next_ones, ends, RNG.normal(size=10_000)])
    with np.errstate(all="ignore"):
        expected = x.astype(np.float16) * np.float16(1)
    same(in_a_kernel(lambda x: x.astype(np.float16) * np.float16(1), x), expected)
    for numbers in (np.arange(-70_000, 70_000), RNG.normal(size=5_000) > 0):
        same(in_a_kernel(lambda x: x.astype(np.float16) + 1, numbers),
             numbers.astype(np.float16) + np.float16(1))  # fmt: skip


def test_a_number_is_rounded_twice_without_a_library(native: None) -> None:
    """LLVM calls a function for the sign of a scalar that is a double, then a half."""
    x, y = RNG.normal(size=(2, 5, 7)).astype(np.float16)
    f = lambda x, y: np.fmod(x * 9, y) + np.arctan(np.sinh(x)).sum(1, keepdims=True)  # noqa: E731
    same(fg.jit(f)(x, y), f(x, y))


@pytest.mark.parametrize("axes", [None, 0, 1, 2, (0, 1), (1, 2), (0, 1, 2), (0, 2)])
def test_sums_are_numpys(native: None, axes: Any) -> None:
    """Along the last axis in single precision, rounded at the end; along others row by row."""
    x = RNG.normal(size=(60, 41, 50)).astype(np.float16)
    for y in (x, np.ones((3_000, 4, 16), np.float16)):
        for f in (lambda x: np.sum(x, axes), lambda x: np.sum(x * x, axes) * 0.5):
            with np.errstate(all="ignore"):
                same(fg.jit(f)(y), f(y))
        same(fg.jit(lambda x: np.max(x * 2, axes))(y), np.max(y * 2, axes))


def test_operands_are_rounded_before_a_sum(native: None) -> None:
    x = RNG.normal(size=(300, 40))
    for axis in (0, 1):
        for part in (x, x[:3, :5]):
            f = lambda x, axis=axis: np.sum(x, axis, dtype=np.float16)  # noqa: E731
            same(fg.jit(f)(part), f(part))


def test_sums_along_axes_are_in_kernels(native: None) -> None:
    x = RNG.normal(size=(700, 300)).astype(np.float16)
    for axis in (0, 1):
        in_a_kernel(lambda x, axis=axis: np.sum(x, axis), x)
        in_a_kernel(lambda x, axis=axis: x - np.max(x, axis, keepdims=True), x)
    softmax = lambda x: np.exp(x) / np.sum(np.exp(x), 1, keepdims=True)  # noqa: E731
    same(in_a_kernel(softmax, x), softmax(x))


def test_running_sums_are_rounded_at_each_step(native: None) -> None:
    x = RNG.normal(size=(300, 200)).astype(np.float16)
    for axis in (0, 1):
        same(in_a_kernel(lambda x, axis=axis: np.cumsum(x, axis), x), np.cumsum(x, axis))
        same(in_a_kernel(lambda x, axis=axis: np.cumprod(x, axis), x), np.cumprod(x, axis))


LOSSES = {
    "functions": lambda x: np.sum(np.tanh(x) * np.exp(-x * x)),
    "columns": lambda x: np.sum(np.exp(np.sum(x * x, axis=0) * 1e-3)),
    "rows": lambda x: np.sum(np.log(np.sum(np.exp(x), axis=1))),
    "a stencil": lambda x: np.sum((x[1:] - 2 * x[:-1]) ** 3),
    "a layer norm": lambda x: np.sum(
        ((x - np.mean(x, 1, keepdims=True)) / np.sqrt(np.var(x, 1, keepdims=True) + 1e-2)) ** 3
    ),
    "repeated indices": lambda x: np.sum(x[np.arange(900) % 70] ** 2),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients(native: None, name: str) -> None:
    x = RNG.normal(size=(120, 90)).astype(np.float16)
    gradient = fg.grad(LOSSES[name])
    found, expected = fg.jit(gradient)(x), gradient(x)
    assert found.dtype == np.float16
    spacing = np.spacing(np.maximum(np.abs(expected), np.float16(0.05))).astype(np.float64)
    assert np.max(np.abs(found.astype(float) - expected.astype(float)) / spacing) <= 1


def _recurrent(w: Any, u: Any, x: Any) -> Any:
    def step(state: Any, number: Any) -> Any:
        state = np.tanh(w @ state + u * number)
        return state, np.sum(state * state)

    return np.sum(fg.lax.scan(step, np.zeros(4, np.float16), x)[1])


def _halved(x: Any) -> Any:
    return fg.lax.while_loop(
        lambda s: s[0] < 100, lambda s: (s[0] * 2 + 1, s[1] * np.float16(0.9)), (x * x + 1, x)
    )


SMALL = {
    "a sum": (lambda x: np.sum(np.sin(x) * x + 2), (9,)),
    "sums of columns": (lambda x: np.sum(x, 0) * np.sum(x, 0), (9, 3)),
    "sums of rows": (lambda x: np.sum(x, 1), (3, 9)),
    "a product": (lambda x: np.prod(x, 1), (4, 5)),
    "products of matrices": (lambda x, y: x @ y, (3, 4), (4, 5)),
    "a scan": (_recurrent, (4, 4), (4,), (40,)),
    "its gradient": (fg.grad(_recurrent, argnums=(0, 1, 2)), (4, 4), (4,), (40,)),
    "a loop": (_halved, ()),
    "a branch": (lambda x: fg.lax.cond(x > 0, np.exp, np.square, x), ()),
    "running sums": (lambda x: np.cumsum(x), (7,)),
    "an index": (lambda x, y: x[(y[0] > 0).astype(int)] * y, (7,), (7,)),
    "a sort": (lambda x: np.sort(x) * 2, (6,)),
}


@pytest.mark.parametrize("name", SMALL)
def test_programs_of_numbers(native: None, name: str) -> None:
    """Those that NumPy computes for the same Graph."""
    f, *shapes = SMALL[name]
    args = [np.asarray(0.4 * RNG.normal(size=shape), np.float16)[()] for shape in shapes]
    found = fg.tree_leaves(in_a_kernel(f, *args))
    fg.config.backend = "numpy"
    for x, y in zip(found, fg.tree_leaves(fg.jit(f)(*args)), strict=True):
        same(x, y)


def test_threads_do_not_change_sums(native: None) -> None:
    x, before = RNG.normal(size=(4_000, 100)).astype(np.float16), fg.config.num_threads
    gradient = fg.jit(fg.grad(lambda w, x: np.sum(np.tanh(x * w) * x), argnums=0))
    w, found = np.ones(100, np.float16), []
    try:
        for threads in (1, 2):
            fg.config.num_threads = threads
            found.append(gradient(w, x))
    finally:
        fg.config.num_threads = before
    same(found[0], found[1])
    with np.errstate(over="ignore"):
        same(found[0], fg.grad(lambda w, x: np.sum(np.tanh(x * w) * x))(w, x))


def test_without_conversions_halves_are_numpys(native: None, monkeypatch: Any) -> None:
    monkeypatch.setattr(host(), "halves", False)
    x = RNG.normal(size=5_000).astype(np.float16)
    compiled = fg.jit(lambda x: np.sin(x) * 0.25)
    same(compiled(x), np.sin(x) * np.float16(0.25))
    lowered = compiled.lower(x)
    assert not lowered.kernels and "dtype" in {refusal.code for refusal in lowered.refused}
