"""Elementwise operations in native code give NumPy's results, to the bit."""

from __future__ import annotations

import functools
import itertools
import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from native_loops import element_loop, ours

import fungrad as fg
from fungrad.compiler.native.element_operations import apply, apply_equation, cost, known
from fungrad.compiler.refusal import Refused

FLOATS, INTEGERS, BOOLS = (np.float64, np.float32, np.float16), (np.int64, np.int32), (np.bool_,)
LANES = {np.float64: (1, 4, 8), np.int64: (1, 4, 8)}
"""Numbers of lanes of a first operand: one, and those of half and whole registers."""
_SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.0, np.inf, -np.inf, np.nan, 5e-324,
    -1e-310, 1e-45, 2.0**31, -(2.0**31), 2.0**31 - 0.5, -(2.0**31) - 0.5, 2.0**52 + 1, 2.0**63,
    -(2.0**63), 1e300, -1e300, 1.7e308, 3.4e38, 0.1, 1e-3, 12345.678,
]  # fmt: skip


@functools.cache
def points(dtype: Any) -> Any:
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        if dtype in FLOATS:
            wide = rng.normal(size=24) * 10.0 ** rng.integers(-8, 9, 24)
            return np.array([*_SPECIAL, *wide, *rng.integers(-9, 9, 9)]).astype(dtype)
    if dtype in BOOLS:
        return np.array([True, False])
    info = np.iinfo(dtype)
    ends = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, -1, 2, -2, 31, 32, 63, 64, -64]
    wide = [*rng.integers(info.min, info.max, 12), *rng.integers(-40, 40, 12)]
    return np.array([*ends, *wide], dtype)


def pairs(*dtypes: Any) -> list[Any]:
    grid = itertools.product(*[points(dtype) for dtype in dtypes])
    return [np.array(x, dtype) for x, dtype in zip(zip(*grid, strict=True), dtypes, strict=True)]


def same(found: Any, expected: Any) -> None:
    """Equal bits, but for those of NaN."""
    assert found.dtype == expected.dtype
    wrong = ~((found == expected) | ((found != found) & (expected != expected)))
    if found.dtype.kind == "f":
        wrong |= (np.signbit(found) != np.signbit(expected)) & (found == found)
    assert not wrong.any(), np.flatnonzero(wrong)[:5]


def check(name: str, ufunc: Any, *dtypes: Any, lanes: Any = None, params: Any = ()) -> None:
    arrays = pairs(*dtypes)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = ufunc(*arrays)
    for count in lanes or LANES.get(dtypes[0], (1, 8, 16)):
        rule = lambda code, *xs: apply(code, ours(name), xs, expected.dtype, dict(params))  # noqa: E731
        same(element_loop(rule, dtypes, expected.dtype, count)(*arrays), expected)


UNARY = {
    "neg": np.negative, "positive": np.positive, "abs": np.abs, "square": np.square,
    "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit,
    "logical_not": np.logical_not,
}  # fmt: skip
OF_FLOATS = {
    "sqrt": np.sqrt, "reciprocal": np.reciprocal, "fabs": np.fabs, "deg2rad": np.deg2rad,
    "rad2deg": np.rad2deg,
}  # fmt: skip
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}  # fmt: skip
ON_BITS = {
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
}  # fmt: skip


@pytest.mark.parametrize("name", [*UNARY, *OF_FLOATS, "invert"])
def test_operations_of_one_operand(name: str) -> None:
    table = {**UNARY, **OF_FLOATS, "invert": np.invert}
    dtypes = INTEGERS if name == "invert" else FLOATS if name in OF_FLOATS else FLOATS + INTEGERS
    for dtype in dtypes:
        check(name, table[name], dtype)


@pytest.mark.parametrize("name", [*BINARY, *ON_BITS, "left_shift", "right_shift"])
def test_operations_of_two_operands(name: str) -> None:
    shifts = {"left_shift": np.left_shift, "right_shift": np.right_shift}
    for dtype in FLOATS + INTEGERS if name in BINARY else INTEGERS:
        check(name, {**BINARY, **ON_BITS, **shifts}[name], dtype, dtype)


@pytest.mark.parametrize("name", ["copysign", "heaviside"])
def test_operations_of_two_floats(name: str) -> None:
    for dtype in FLOATS:
        check(name, getattr(np, name), dtype, dtype)


def test_operations_of_truth_values() -> None:
    for name in ("add", "mul", "maximum", "minimum", "lt", "le", "gt", "ge", "eq", "ne", *ON_BITS):
        check(name, {**BINARY, **ON_BITS}[name], np.bool_, np.bool_, lanes=(1, 8))
    for name in ("logical_and", "logical_or", "logical_xor"):
        check(name, BINARY[name], np.bool_, np.bool_, lanes=(1, 8))
    for name, ufunc in (("invert", np.invert), ("abs", np.abs), ("isfinite", np.isfinite)):
        check(name, ufunc, np.bool_, lanes=(1, 8))


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "div", "lt", "eq", "maximum", "floor_divide"]
)
def test_operands_of_two_dtypes_are_promoted(name: str) -> None:
    for first, second in itertools.permutations((*FLOATS, *INTEGERS, np.bool_), 2):
        if name == "floor_divide" and np.bool_ in (first, second):
            continue  # NumPy computes these in int8
        check(name, BINARY[name], first, second, lanes=(8,))


@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS, *BOOLS])
@pytest.mark.parametrize("target", [*FLOATS, *INTEGERS, *BOOLS])
def test_conversions(source: Any, target: Any) -> None:
    check("convert", lambda x: x.astype(target), source)


@pytest.mark.slow
def test_select_chooses_and_promotes() -> None:
    for dtype in (*FLOATS, *INTEGERS, *BOOLS):
        check("select", np.where, np.bool_, dtype, dtype, lanes=(1, 8))
    check("select", np.where, np.float32, np.float64, np.int64, lanes=(8,))
    check("select", np.where, np.int64, np.int32, np.bool_, lanes=(8,))


def test_numbers_are_weak() -> None:
    x = points(np.float32)
    for number in (0.1, 3, True):
        for name in ("add", "maximum", "lt", "eq"):
            ufunc = BINARY[name]
            with np.errstate(all="ignore"):
                expected = ufunc(x, number)
            rule = lambda code, x: apply(code, ours(name), [x, number], expected.dtype)  # noqa: B023, E731
            same(element_loop(rule, [np.float32], expected.dtype, 8)(x), expected)
    n = points(np.int32)
    rule = lambda code, x: apply(code, ours("lt"), [x, 0.5], np.bool_)  # noqa: E731
    same(element_loop(rule, [np.int32], np.bool_, 4)(n), n < 0.5)
    with pytest.raises(Refused, match="the integer"):
        element_loop(
            lambda code, x: apply(code, ours("lt"), [x, 2**40], np.bool_), [np.int32], np.bool_
        )


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_powers_by_numbers(dtype: Any) -> None:
    x = points(dtype)
    for n in (0, 1, 2, -1, 0.5) if dtype in FLOATS else (0, 1, 2, 3, 7, 64):
        with np.errstate(all="ignore"):
            expected = x**n
        rule = lambda code, x: apply(code, ours("power"), [x, n], dtype)  # noqa: B023, E731
        same(element_loop(rule, [dtype], dtype, 8)(x), expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1.5, -0.5, -2.5, 63.5])
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no longer floats than doubles")
def test_powers_by_halves_are_rounded_correctly(n: float, dtype: Any) -> None:
    x = np.exp(np.random.default_rng(0).uniform(-40, 40, 2_000) / abs(n)).astype(dtype)
    rule = lambda code, x: apply(code, ours("power"), [x, n], dtype)  # noqa: E731
    found = element_loop(rule, [dtype], dtype, 8)(x)
    exact = x.astype(np.longdouble) ** np.longdouble(n)
    assert np.max(np.abs(found - exact) / np.spacing(found)) <= 0.51
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, 4.0] * 2, dtype)
    with np.errstate(all="ignore"):
        same(element_loop(rule, [dtype], dtype, 8)(special), special**n)


def test_equations_compare_as_their_types_promote() -> None:
    x = points(np.float32)
    (equation,) = fg.make_jaxpr(lambda x: x < 0.1)(x).equations
    rule = lambda code, x: apply_equation(code, equation, [x, None])  # noqa: E731
    same(element_loop(rule, [np.float32], np.bool_, 8)(x), x < 0.1)


def test_what_is_not_known_is_refused() -> None:
    def refused(name: str, dtype: Any, result: Any, reason: str) -> None:
        with pytest.raises(Refused, match=reason):
            element_loop(lambda code, x: apply(code, ours(name), [x], result), [dtype], np.float64)

    refused("nextafter", np.float64, np.float64, "nextafter")
    refused("neg", np.bool_, np.bool_, "neg of bool")
    refused("sqrt", np.float64, np.complex128, "dtype complex128")
    assert known(ours("add")) and known(ours("arctan2")) and not known(ours("reduce_sum"))
    quotient, total = fg.make_jaxpr(lambda x: np.remainder(x, 0.3) + x)(np.float64(1.0)).equations
    assert 0 < cost(total) < cost(quotient)
