"""JAX's elementwise functions, reductions and products, with JAX's names and signatures.

Most are NumPy's ufuncs; others are compositions of primitives, as C's division of integers and
rounding away from zero. Special functions come from `fungrad.scipy.special`.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.lax.scans import dot_general
from fungrad.numpy.protocol.operands import array_of, axis_indices, promoted
from fungrad.primitives.elementwise.ufuncs import complex_of
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement.gather import Index, getitem
from fungrad.support import pytree
from fungrad.tracing.source_location import boundary, user_line
from fungrad.tracing.trace import shape_of, typeof

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


def _named(name: str, what: str, function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def reduction(operand: Any, axes: Sequence[int]) -> Any:
        return function(array_of(operand), axis=tuple(axes))

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"""The {what} of `operand` over `axes`, in its dtype.

    Args:
      operand: an array of any shape.
      axes: the axes that are reduced; the others stay.
    """
    return reduction


reduce_max = _named("reduce_max", "largest elements", np.max)
reduce_min = _named("reduce_min", "least elements", np.min)
reduce_sum = _named("reduce_sum", "sum", lambda x, axis: np.sum(x, axis=axis, dtype=x.dtype))
reduce_prod = _named("reduce_prod", "product", lambda x, axis: np.prod(x, axis=axis, dtype=x.dtype))


def _bitwise(name: str, ufunc: np.ufunc, identity: int) -> Callable[[Any, Any], Any]:
    def reduction(operand: Any, axes: Sequence[int]) -> Any:
        x = array_of(operand)
        if x.dtype.kind not in "iub":
            raise ArgumentError(f"lax.{name} of {typeof(x)}{user_line()}: integers are needed.")
        start = np.array(identity).astype(x.dtype)[()]
        return reduce(x, start, ufunc, tuple(axes))

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"""The elements of `operand` over `axes`, combined by np.{ufunc.__name__}.

    Args:
      operand: an array of integers or booleans.
      axes: the axes that are reduced; the others stay.
    """
    return reduction


reduce_and = _bitwise("reduce_and", np.bitwise_and, -1)
reduce_or = _bitwise("reduce_or", np.bitwise_or, 0)
reduce_xor = _bitwise("reduce_xor", np.bitwise_xor, 0)

_FAST: dict[Any, Callable[..., Any]] = {
    np.add: reduce_sum,
    np.multiply: reduce_prod,
    np.maximum: reduce_max,
    np.minimum: reduce_min,
}


def _halves(x: Any) -> tuple[Any, Any, Any]:
    """The items of even and of odd index along the first axis; an unpaired last item separately."""
    n = shape_of(x)[0]
    first = getitem(x, index=Index((slice(0, n - n % 2, 2),)))
    second = getitem(x, index=Index((slice(1, n, 2),)))
    return first, second, s.slice_axis(x, axis=0, start=n - n % 2, stop=n)


@boundary
def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: None = None,
) -> Any:
    """The elements over the axes `dimensions`, combined by an associative function.

    Args:
      operands: an array, or a tree of arrays of one shape that are reduced together.
      init_values: a number for each array, of its dtype; an identity of the function.
      computation: (a, b) -> their elementwise combination, on trees like operands. It is called
        O(log n) times on whole arrays; lax.add, lax.mul, lax.max and lax.min are fast.
      dimensions: the axes. out_sharding: None.

    Raises:
      ShapeError: if the arrays' shapes differ. ArgumentError: if an initial value is not a number.

    >>> values, places = np.array([3.0, 5.0, 4.0]), np.arange(3)
    >>> def larger(a, b):
    ...     keep = a[0] >= b[0]
    ...     return np.where(keep, a[0], b[0]), np.where(keep, a[1], b[1])
    >>> best, place = reduce((values, places), (-np.inf, 0), larger, (0,))
    >>> float(best), int(place)
    (5.0, 1)
    """
    leaves, treedef = pytree.flatten(operands)
    xs = [array_of(x) for x in leaves]
    inits = pytree.match(treedef, init_values, "init_values of lax.reduce")
    shapes = {shape_of(x) for x in xs}
    if len(shapes) != 1:
        raise ShapeError(f"lax.reduce of arrays of shapes {sorted(shapes)}{user_line()}.")
    if any(shape_of(init) for init in inits):
        raise ArgumentError(f"init_values of lax.reduce have to be numbers{user_line()}.")
    (shape,) = shapes
    axes = axis_indices(tuple(dimensions), len(shape))
    inits = [s.cast(array_of(init), x.dtype) for init, x in zip(inits, xs, strict=True)]
    left = tuple([axis for axis in range(len(shape)) if axis not in axes])
    count = int(np.prod([shape[axis] for axis in axes], dtype=int))
    kept = tuple([shape[axis] for axis in left])
    if len(xs) == 1 and count and type(computation) is np.ufunc and computation in _FAST:
        return pytree.unflatten(treedef, [computation(inits[0], _FAST[computation](xs[0], axes))])
    xs = [s.reshape(s.transpose(x, axes=(*axes, *left)), shape=(count, *kept)) for x in xs]

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        found = computation(pytree.unflatten(treedef, a), pytree.unflatten(treedef, b))
        return list(pytree.match(treedef, found, "result of the computation of lax.reduce"))

    results = [s.broadcast_to(init, shape=kept) for init in inits]
    return pytree.unflatten(treedef, _by_halves(xs, results, combine))


def _by_halves(
    xs: list[Any], results: list[Any], combine: Callable[[list[Any], list[Any]], list[Any]]
) -> list[Any]:
    """The items along the first axis combined in pairs until one is left, and with `results`."""
    count, *kept = shape_of(xs[0])
    while count:
        halves = [_halves(x) for x in xs]
        if count % 2:
            last = [s.reshape(odd, shape=tuple(kept)) for _, _, odd in halves]
            results = combine(last, results)
        count //= 2
        if count:
            xs = combine([a for a, _, _ in halves], [b for _, b, _ in halves])
    return results


def _place(name: str, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def place(operand: Any, axis: int, index_dtype: Any = np.intp) -> Any:
        return s.cast(function(array_of(operand), axis=axis), np.dtype(index_dtype))

    place.__name__ = place.__qualname__ = name
    place.__doc__ = f"""The index of the first {what} element along `axis`, of dtype `index_dtype`.

    Args:
      operand: a real array with at least one axis.
      axis: the axis that is reduced.
      index_dtype: an integer dtype.
    """
    return place


argmax = _place("argmax", "largest", np.argmax)
argmin = _place("argmin", "least", np.argmin)


def dot(
    lhs: Any, rhs: Any, *, dimension_numbers: Any = None, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: None = None,
) -> Any:  # fmt: skip
    """The product of vectors and matrices; with `dimension_numbers`, `dot_general`.

    Args:
      lhs, rhs: vectors or matrices; with `dimension_numbers` arrays of any shape.
      dimension_numbers: ((lhs contracted, rhs contracted), (lhs batch, rhs batch)), axes of each.
      precision: ignored: products have the precision of their dtype.
      preferred_element_type: the dtype of the result.
      out_sharding: None.

    >>> float(dot(np.array([1.0, 2.0]), np.array([3.0, 4.0])))
    11.0
    """
    x, y = array_of(lhs), array_of(rhs)
    if dimension_numbers is None:
        nx, ny = len(shape_of(x)), len(shape_of(y))
        if not (1 <= nx <= 2 and 1 <= ny <= 2):
            raise ShapeError(
                f"lax.dot of arrays of shapes {shape_of(x)} and {shape_of(y)}{user_line()}: it "
                "takes vectors and matrices; lax.dot_general takes any."
            )
        dimension_numbers = (([nx - 1], [0]), ([], []))
    return dot_general(x, y, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """The products of two stacks of matrices with the same leading axes.

    Args:
      lhs: shape (..., n, k).
      rhs: shape (..., k, m), with the same leading axes.
      precision: ignored: products have the precision of their dtype.

    >>> batch_matmul(np.ones((2, 3, 4)), np.ones((2, 4, 5))).shape
    (2, 3, 5)
    """
    x, y = array_of(lhs), array_of(rhs)
    if shape_of(x)[:-2] != shape_of(y)[:-2] or min(len(shape_of(x)), len(shape_of(y))) < 2:
        raise ShapeError(
            f"lax.batch_matmul of stacks of shapes {shape_of(x)} and {shape_of(y)}{user_line()}: "
            "the leading axes have to be the same. np.matmul broadcasts."
        )
    return np.matmul(x, y)


__all__ = [
    "SPECIAL",
    "RoundingMethod",
    "abs",
    "acos",
    "acosh",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "batch_matmul",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clz",
    "complex",
    "conj",
    "cos",
    "cosh",
    "div",
    "dot",
    "eq",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "ge",
    "gt",
    "imag",
    "integer_pow",
    "is_finite",
    "le",
    "log",
    "log1p",
    "logistic",
    "lt",
    "ne",
    "neg",
    "nextafter",
    "population_count",
    "pow",
    "real",
    "reciprocal",
    "reduce",
    "reduce_and",
    "reduce_max",
    "reduce_min",
    "reduce_or",
    "reduce_prod",
    "reduce_sum",
    "reduce_xor",
    "rem",
    "round",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "sub",
    "tan",
    "tanh",
]
