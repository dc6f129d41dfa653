"""The expected size of the error that one operation makes by rounding, and of those it inherits.

`rounding_of` states bounds. Here each bound has the size that is to be expected: the root mean
square of the errors, taken as random numbers. Errors of a sum depend on its order: NumPy adds the
elements of a last axis pairwise, rows one after the other (Higham, Accuracy and Stability of
Numerical Algorithms, 4.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import (
    add,
    div,
    eq,
    logical_and,
    mul,
    neg,
    plain,
    select,
    sub,
)
from fungrad.primitives.elementwise.ufuncs import abs as absolute
from fungrad.primitives.elementwise.ufuncs import sqrt, square
from fungrad.primitives.facts import (
    ARITHMETIC,
    EXACT,
    FACTORS,
    FOREIGN,
    FUNCTION,
    OPERANDS,
    SPACES,
    TERMS,
    rounding_of,
)
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    cast,
    convert,
    reduce_sum,
    reshape,
)
from fungrad.primitives.primitive import Primitive
from fungrad.primitives.reduction.cumulative import cumsum
from fungrad.tracing.trace import typeof

NEAREST = 0.2123
"""The root mean square of the relative error of rounding to nearest, in eps: errors are uniform
within half a unit in the last place (1 / sqrt(12) of it), and numbers are distributed by Benford's
law, by which the mean of (unit / number)^2 is 0.54 eps^2.
"""
EXPECTED = {ARITHMETIC: NEAREST, FUNCTION: 0.3, FOREIGN: 0.5}
"""By the bound of an operation in units in the last place: the expected relative error, in eps.
NumPy's functions stay within 1 unit, most of SciPy's within a few.
"""
LANES = 8
"""The partial sums of a product of matrices, which BLAS adds in the end."""
FEW = 64
"""The most elements of a sum or difference whose error is computed."""
BACKWARD = 0.5
"""The expected backward error of factorisations, in eps times the norm of the column."""


class LocalError(NamedTuple):
    """The errors of one operation.

    Attributes:
      relative: the expected rounding error of its output, over the output.
      spread: the expected rounding error of each element, in place of `relative`; or None.
      found: the exact rounding error of each element, if it is known; or None.
      inherited: how far each element would move if the operands had relative errors of 1: a tuple
        of arrays, one for each operand or one for all; empty if it is no further than a few times
        the element.
    """

    relative: float = 0.0
    spread: Any = None
    found: Any = None
    inherited: tuple[Any, ...] = ()


def machine_epsilon(dtype: Any) -> float:
    """The distance from 1 to the next number of a dtype, or of its real part."""
    return float(np.finfo(dtype).eps)


def local_error(
    primitive: Primitive, args: Sequence[Any], params: dict[str, Any], output: Any,
    inexact: Sequence[bool],
) -> LocalError:  # fmt: skip
    """The errors of an operation with one inexact output, computed by primitives.

    Args:
      primitive: the operation; not one of those that are exact for other operands (OPERANDS).
      args: its operands.
      params: its parameters.
      output: its result.
      inexact: for each operand whether it has errors, which `inherited` counts.
    """
    type_ = typeof(output)
    rounding = rounding_of(primitive)
    eps = machine_epsilon(type_.dtype)
    if primitive is convert:
        return LocalError(NEAREST * eps)
    if rounding == TERMS:
        return _sum(primitive, args, params, output, eps)
    if rounding == FACTORS:
        count = max(typeof(a).size for a in args) / max(type_.size, 1)
        return LocalError(NEAREST * eps * math.sqrt(max(count, 1.0)))
    if primitive is add or primitive is sub:
        return _addition(primitive, args, output, type_, eps, inexact)
    assert isinstance(rounding, float)
    relative = EXPECTED.get(rounding, 0.42 * rounding) * eps
    if rounding == ARITHMETIC:
        return _rounded(primitive, args, output, type_, relative)
    return LocalError(relative, None, None, _condition(primitive, args, output, inexact))


def is_exact(primitive: Primitive, args: Sequence[Any], output: Any) -> bool:
    """Whether an operation with one inexact output never rounds."""
    if primitive is convert:
        before, after = typeof(args[0]), typeof(output)
        if not before.inexact or before.weak:
            return True
        return machine_epsilon(before.dtype) >= machine_epsilon(after.dtype)
    if primitive is mul:
        scale = [arg for arg in args if type(arg) in (int, float)]
        return any(math.frexp(c)[0] in (0.0, 0.5, -0.5) for c in scale)
    if primitive is reduce_sum:
        return bool(typeof(args[0]).size <= typeof(output).size)
    return rounding_of(primitive) == EXACT


def _addition(
    primitive: Primitive, args: Sequence[Any], output: Any, type_: Type, eps: float,
    inexact: Sequence[bool],
) -> LocalError:  # fmt: skip
    x, y = args
    inherited = tuple([arg for arg, has in zip(args, inexact, strict=True) if has])
    if type_.size > FEW or type_.dtype.kind != "f":
        return LocalError(NEAREST * eps, None, None, inherited)
    x, y = cast(x, type_.dtype), cast(y, type_.dtype)
    if primitive is sub:
        y = neg(y)
    # The error of a sum is a number of the same precision (Knuth's TwoSum).
    part = sub(output, x)
    lost = add(sub(x, sub(output, part)), sub(y, part))
    spread = select(eq(lost, 0.0), 0.0, mul(absolute(output), NEAREST * eps))
    return LocalError(0.0, spread, lost, inherited)


def _square(x: Any) -> Any:
    size = absolute(x) if typeof(x).dtype.kind == "c" else x
    return mul(size, size)


def _rounded(
    primitive: Primitive, args: Sequence[Any], output: Any, type_: Type, relative: float
) -> LocalError:
    """The error of a product, quotient or root: none where that of few numbers is exact."""
    if type_.size > FEW or type_.dtype.kind != "f" or primitive not in _PRODUCTS:
        return LocalError(relative)
    x, y, product = _PRODUCTS[primitive](output, *[cast(arg, type_.dtype) for arg in args])
    exact = eq(_error_of_product(x, y, product), 0.0)
    if primitive is not mul and primitive is not square:
        exact = logical_and(exact, eq(mul(x, y), product))
    return LocalError(0.0, select(exact, 0.0, mul(absolute(output), relative)))


_PRODUCTS: dict[Primitive, Any] = {
    mul: lambda z, x, y: (x, y, z),
    square: lambda z, x: (x, x, z),
    div: lambda z, x, y: (z, y, x),
    sqrt: lambda z, x: (z, z, x),
}
"""By an operation: the two factors, and the product, whose equality says that it is exact."""


def _error_of_product(x: Any, y: Any, product: Any) -> Any:
    """The exact error of a product (Dekker, A floating-point technique, 1971, 5)."""
    digits = np.finfo(typeof(x).dtype).nmant + 1
    factor = 2.0 ** ((digits + 1) // 2) + 1.0

    def halves(a: Any) -> tuple[Any, Any]:
        wide = mul(a, factor)
        high = sub(wide, sub(wide, a))
        return high, sub(a, high)

    (a, b), (c, d) = halves(x), halves(y)
    rest = add(add(sub(mul(a, c), product), mul(a, d)), mul(b, c))
    return add(rest, mul(b, d))


def _condition(
    primitive: Primitive, args: Sequence[Any], output: Any, inexact: Sequence[bool]
) -> tuple[Any, ...]:
    """How far an elementwise result moves with relative errors of its operands."""
    if primitive.partials is None or not any(inexact):
        return ()
    from_args = []
    for position, arg in enumerate(args):
        partial = primitive.partials[position]
        if partial is None or not inexact[position]:
            continue
        scaled = plain(partial(1.0, output, args))
        from_args.append(mul(scaled, arg))
    return tuple(from_args)


def _sum_of_squares(x: Any, axes: tuple[int, ...]) -> Any:
    if type(x) is np.ndarray and len(axes) == x.ndim and x.dtype.kind == "f":
        flat = x.ravel("K")
        return np.dot(flat, flat)
    return reduce_sum(_square(x), axes=axes)


def _sum(
    primitive: Primitive, args: Sequence[Any], params: dict[str, Any], output: Any, eps: float
) -> LocalError:
    size = NEAREST * eps
    if primitive is dot_general:
        x, y = args
        inner = math.prod([typeof(x).shape[axis] for axis in params["contract"][0]])
        squares = dot_general(_square(x), _square(y), **params)
        if inner <= 1:
            return LocalError(size)
        steps = inner / LANES
        total = add(mul(_square(output), steps / 3), mul(squares, 1 + steps / 2))
        return LocalError(0.0, mul(sqrt(total), size), None, (sqrt(squares),))
    if primitive is reduce_sum:
        (x,) = args
        type_ = typeof(x)
        count = type_.size // max(typeof(output).size, 1)
        squares = _sum_of_squares(x, params["axes"])
        if len(type_.shape) - 1 in params["axes"]:
            total = add(mul(_square(output), 2.0), mul(squares, math.log2(max(2, count))))
        else:
            total = add(mul(_square(output), count / 3), mul(squares, count / 2))
        error = None
        if type_.dtype.kind == "f" and type_.dtype.itemsize < 8:
            double = np.dtype(np.float64)
            exact = reduce_sum(cast(x, double), axes=params["axes"])
            error = sub(exact, cast(output, double))
        return LocalError(0.0, mul(sqrt(total), size), error, (sqrt(squares),))
    if primitive is cumsum:
        return LocalError(
            0.0,
            mul(sqrt(cumsum(_square(output), **params)), size),
            None,
            (sqrt(cumsum(_square(args[0]), **params)),),
        )
    return LocalError(size * math.sqrt(1 + math.log2(max(1, typeof(args[0]).size))))


def operand_error(primitive: Primitive, operand: Any) -> Any:
    """The expected backward error of each element of an operand of a backward stable algorithm.

    That of orthogonal factorisations is relative to the column, of spectra to the whole matrix, of
    elimination to row and column (Higham, Accuracy and Stability of Numerical Algorithms, 9 and
    19).
    """
    type_ = typeof(operand)
    size = BACKWARD * machine_epsilon(type_.dtype)
    if len(type_.shape) < 2 or 0 in type_.shape[-2:]:
        return mul(absolute(operand), size)
    rows, columns = len(type_.shape) - 2, len(type_.shape) - 1
    squares = _square(operand)

    def mean(*axes: int) -> Any:
        shape = tuple([1 if i in axes else n for i, n in enumerate(type_.shape)])
        count = math.prod([type_.shape[i] for i in axes])
        means = reshape(mul(reduce_sum(squares, axes=axes), 1.0 / count), shape=shape)
        return broadcast_to(sqrt(means), shape=type_.shape)

    if primitive.name == "qr":
        return mul(mean(rows), size)
    whole = mean(rows, columns)
    if primitive.name.startswith(_SPECTRAL):
        return mul(whole, size)
    scaled = div(mul(mean(rows), mean(columns)), select(eq(whole, 0.0), 1.0, whole))
    return mul(scaled, size)


_SPECTRAL = ("eig", "svd", "pinv")


def is_backward_stable(primitive: Primitive) -> bool:
    """Whether the error of an operation is that of slightly different operands."""
    return rounding_of(primitive) in (OPERANDS, SPACES)
