"""JAX's elementwise functions, with JAX's names and signatures.

Most are NumPy's ufuncs; others are compositions of primitives, as C's division of integers and
rounding away from zero. Special functions come from `fungrad.scipy.special`.
"""

from __future__ import annotations

import enum
import operator
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.numpy.protocol.operands import array_of, promoted
from fungrad.primitives.elementwise.ufuncs import complex_of
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import typeof

abs, neg, sign, conj, real, imag = np.abs, np.negative, np.sign, np.conj, np.real, np.imag
acos, acosh, asin, asinh, atan, atan2, atanh = (
    np.arccos, np.arccosh, np.arcsin, np.arcsinh, np.arctan, np.arctan2, np.arctanh,
)  # fmt: skip
sin, cos, tan, sinh, cosh, tanh = np.sin, np.cos, np.tan, np.sinh, np.cosh, np.tanh
exp, exp2, expm1, log, log1p = np.exp, np.exp2, np.expm1, np.log, np.log1p
sqrt, cbrt, square, pow, reciprocal = np.sqrt, np.cbrt, np.square, np.power, np.reciprocal
sub, rem, nextafter, ceil, floor = np.subtract, np.fmod, np.nextafter, np.ceil, np.floor
eq, ne, lt, le, gt, ge = (
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
)  # fmt: skip
is_finite = np.isfinite
bitwise_and, bitwise_or, bitwise_xor, bitwise_not = (
    np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert,
)  # fmt: skip
shift_left, shift_right_arithmetic = np.left_shift, np.right_shift


def div(x: Any, y: Any) -> Any:
    """x / y; for integers the quotient rounded towards zero, as in C.

    Args:
      x, y: real or complex arrays or numbers that broadcast.

    >>> div(np.array([7, -7]), 2)
    array([ 3, -3])
    """
    x, y = array_of(x), array_of(y)
    if x.dtype.kind not in "iub" or y.dtype.kind not in "iub":
        return np.true_divide(x, y)
    down = np.floor_divide(x, y)
    inexact = np.not_equal(np.multiply(down, y), x)
    return np.where(np.logical_and(np.less(down, 0), inexact), down + 1, down)


def integer_pow(x: Any, y: int) -> Any:
    """x ** y for a Python integer y.

    Args:
      x: an array or number.
      y: the exponent, an int.

    >>> integer_pow(np.array([2.0, 3.0]), -1)
    array([0.5       , 0.33333333])
    """
    return np.power(array_of(x), operator.index(y))


def logistic(x: Any) -> Any:
    """1 / (1 + e^-x), to full relative precision on both sides.

    Args:
      x: an inexact array or number, of any shape.

    >>> logistic(np.array([-1000.0, 0.0, 1000.0]))
    array([0. , 0.5, 1. ])
    """
    x = array_of(x)
    if x.dtype.kind == "c":
        return 1.0 / (1.0 + np.exp(-x))
    positive = np.greater_equal(x, 0)
    small = np.exp(np.where(positive, -x, x))
    return (np.where(positive, 1.0, small) / (1.0 + small))[()]


class RoundingMethod(enum.Enum):
    """The rounding of numbers halfway between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """The nearest integer, halfway cases by `rounding_method`; its derivative is zero.

    Args:
      x: a real array or number.
      rounding_method: RoundingMethod.AWAY_FROM_ZERO or RoundingMethod.TO_NEAREST_EVEN.

    >>> round(np.array([-2.5, 0.5, 1.4]))
    array([-3.,  1.,  1.])
    """
    x = array_of(x)
    if rounding_method is RoundingMethod.TO_NEAREST_EVEN:
        return np.rint(x)
    if rounding_method is not RoundingMethod.AWAY_FROM_ZERO:
        raise ArgumentError(
            f"rounding_method={rounding_method!r}{user_line()} is not a RoundingMethod."
        )
    whole = np.trunc(x)
    # The difference is exact; x + 0.5 would be rounded.
    return np.where(np.greater_equal(np.abs(x - whole), 0.5), whole + np.sign(x), whole)


def complex(x: Any, y: Any) -> Any:
    """x + i y for two arrays of the same real dtype.

    Args:
      x: the real parts, float32 or float64.
      y: the imaginary parts, of the same shape and dtype.

    >>> complex(np.array([1.0]), np.array([-np.inf]))
    array([1.-infj])
    """
    x, y = promoted([array_of(x), array_of(y)])
    return complex_of(x, y)


# --- bits -----------------------------------------------------------------------------------------


def _unsigned(x: Any) -> tuple[Any, np.dtype[Any]]:
    """The bits of integers as unsigned integers, and the integers' dtype."""
    dtype = typeof(x).dtype
    if dtype.kind not in "iu":
        raise ArgumentError(f"The bits of {typeof(x)}{user_line()}: integers are needed.")
    return s.cast(x, np.dtype(f"u{dtype.itemsize}")), dtype


def shift_right_logical(x: Any, y: Any) -> Any:
    """The bits of x shifted right by y, filled with zeros.

    Args:
      x: an array of integers.
      y: the numbers of places, integers that broadcast with x.

    >>> int(shift_right_logical(np.int8(-1), np.int8(4)))
    15
    """
    bits, dtype = _unsigned(array_of(x))
    return s.cast(np.right_shift(bits, s.cast(array_of(y), bits.dtype)), dtype)


def population_count(x: Any) -> Any:
    """The number of set bits of each integer (np.bitwise_count takes the absolute value).

    Sums of neighbouring fields of bits: Warren 2012, Hacker's Delight, section 5-1.

    Args:
      x: an array of integers of any width, signed or not.

    >>> int(population_count(np.int8(-1)))
    8
    """
    bits, dtype = _unsigned(array_of(x))
    kind = bits.dtype.type
    ones = np.iinfo(kind).max
    pairs, fours, bytes_ = kind(ones // 3), kind(ones // 5), kind(ones // 17)

    def right(y: Any, places: int) -> Any:
        return np.right_shift(y, kind(places))

    bits = bits - np.bitwise_and(right(bits, 1), pairs)
    bits = np.bitwise_and(bits, fours) + np.bitwise_and(right(bits, 2), fours)
    bits = np.bitwise_and(bits + right(bits, 4), bytes_)
    with np.errstate(over="ignore"):
        total = bits * kind(ones // 255)
    return s.cast(right(total, 8 * dtype.itemsize - 8), dtype)


def clz(x: Any) -> Any:
    """The number of leading zero bits of each integer.

    Args:
      x: an array of integers of any width, signed or not.

    >>> int(clz(np.int32(1)))
    31
    """
    bits, dtype = _unsigned(array_of(x))
    width = 8 * dtype.itemsize
    step = 1
    while step < width:
        bits = np.bitwise_or(bits, np.right_shift(bits, bits.dtype.type(step)))
        step *= 2
    return width - s.cast(population_count(bits), dtype)


SPECIAL = {
    "bessel_i0e": "i0e",
    "bessel_i1e": "i1e",
    "betainc": "betainc",
    "digamma": "digamma",
    "erf": "erf",
    "erf_inv": "erfinv",
    "erfc": "erfc",
    "igamma": "gammainc",
    "igammac": "gammaincc",
    "lgamma": "gammaln",
    "polygamma": "polygamma",
    "zeta": "zeta",
}
"""JAX's names of functions, and their names in `fungrad.scipy.special`."""


add, mul, max, min = np.add, np.multiply, np.maximum, np.minimum
"""NumPy's ufuncs by JAX's names."""


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x).

    Args:
      x: an inexact array or number.

    >>> float(rsqrt(4.0))
    0.5
    """
    return 1.0 / np.sqrt(array_of(x))


__all__ = [
    "RoundingMethod", "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh",
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cbrt", "ceil", "clz", "complex",
    "conj", "cos", "cosh", "div", "eq", "exp", "exp2", "expm1", "floor", "ge", "gt", "imag",
    "integer_pow", "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul",
    "ne", "neg", "nextafter", "population_count", "pow", "real", "reciprocal", "rem", "round",
    "rsqrt", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin",
    "sinh", "sqrt", "square", "sub", "tan", "tanh",
]  # fmt: skip
