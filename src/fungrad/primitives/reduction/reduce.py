"""Primitives that reduce axes: max, min, prod, logaddexp, any, all, argmax, argmin.

The sum is in movement/reshape_broadcast_cast.py, as the transpose of broadcasting. `axes` are
complete and not negative; the reduced axes are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.ir.graph import Equation
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import Masked, Over, elementwise, select
from fungrad.primitives.facts import ARITHMETIC, EXACT, FACTORS, Work
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    cast,
    cost_of_reduction,
    reduce_sum,
    reshape,
    transpose,
)
from fungrad.primitives.primitive import Primitive, general, linear
from fungrad.primitives.reduction.cumulative import attains, cumprod, linear_recurrence, shifted
from fungrad.tracing.trace import shape_of, typeof

Axes = tuple[int, ...]


def kept(y: Any, shape: tuple[int, ...], axes: Axes) -> Any:
    """A reduced value with axes of length 1 in place of those that were dropped from `shape`."""
    if len(axes) == len(shape):  # one number: it broadcasts
        return y
    return reshape(y, shape=tuple([1 if i in axes else n for i, n in enumerate(shape)]))


def _type_by_example(ufunc: np.ufunc, needs_items: bool = False) -> Callable[..., Type]:
    dtypes: dict[np.dtype[Any], np.dtype[Any]] = {}

    def result_type(x: Type, *, axes: Axes) -> Type:
        if needs_items and not x.size and any(x.shape[a] == 0 for a in axes):
            raise ShapeError(
                f"zero-size array to reduction operation {ufunc.__name__} which has no identity "
                f"(shape {x.shape}, axes {axes}; pass initial=)"
            )
        dtype = dtypes.get(x.dtype)
        if dtype is None:
            dtype = dtypes[x.dtype] = ufunc.reduce(np.ones((1,), x.dtype)).dtype
        return Type(tuple([n for i, n in enumerate(x.shape) if i not in axes]), dtype)

    return result_type


def _batch_axes(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    """The batch rule of a reduction, made before its primitive is declared."""

    def batch(args: Any, batched: Any, size: int, *, axes: Axes) -> Any:
        return primitive()(args[0], axes=tuple([a + 1 for a in axes]))

    return batch


# --- extrema --------------------------------------------------------------------------------------


def _extremum(name: str, ufunc: np.ufunc) -> Primitive:
    """The elements that attain the extremum share its derivative equally; NaN attains NaN."""

    def vjp(ct: Any, y: Any, args: Any, wanted: Any, *, axes: Axes) -> list[Any]:
        x = args[0]
        shape = shape_of(x)
        hit = attains(x, kept(y, shape, axes))
        share = ct / cast(reduce_sum(hit, axes=axes), typeof(y).dtype)
        return [Masked(select(hit, kept(share, shape, axes), 0), hit)]

    def jvp(primals: Any, tangents: Any, *, axes: Axes) -> Any:
        x = primals[0]
        y = primitive(x, axes=axes)
        hit = attains(x, kept(y, shape_of(x), axes))
        count = cast(reduce_sum(hit, axes=axes), typeof(y).dtype)
        return y, reduce_sum(select(hit, tangents[0], 0), axes=axes) / count

    def ties(x: Any, *, axes: Axes) -> Any:
        """The mask of results that several elements attain."""
        best = ufunc.reduce(x, axes, keepdims=True)
        return np.sum(np.equal(x, best), axis=axes) > 1

    primitive = Primitive(
        name,
        rounding=EXACT,
        cost=cost_of_reduction,
        kink=ties,
        reduces=ufunc,
        eval=lambda x, *, axes: ufunc.reduce(x, axes),
        type=_type_by_example(ufunc, needs_items=True),
        jvp=jvp,
        vjp=vjp,
        batch=_batch_axes(lambda: primitive),
    )
    return primitive


reduce_max = _extremum("reduce_max", np.maximum)
"""`reduce_max(x, axes=)`: the largest element; ties share the derivative equally."""
reduce_min = _extremum("reduce_min", np.minimum)
"""`reduce_min(x, axes=)`: the smallest element; ties share the derivative equally."""

# --- products -------------------------------------------------------------------------------------


def _eval_others(x: Any, *, axes: Axes) -> Any:
    x = np.asarray(x)
    rest = tuple([i for i in range(x.ndim) if i not in axes])
    rows = np.transpose(x, (*rest, *axes))
    length = math.prod([x.shape[i] for i in axes])
    flat = rows.reshape(*[x.shape[i] for i in rest], length)
    before, after = np.ones_like(flat), np.ones_like(flat)
    np.multiply.accumulate(flat[..., :-1], axis=-1, out=before[..., 1:])
    np.multiply.accumulate(flat[..., :0:-1], axis=-1, out=after[..., -2::-1])
    before *= after
    return np.transpose(before.reshape(rows.shape), np.argsort((*rest, *axes)))


def _flat_last(x: Any, axes: Axes) -> tuple[Any, Callable[[Any], Any]]:
    """x with the given axes last and flattened into one, and the inverse function."""
    shape = shape_of(x)
    order = (*[i for i in range(len(shape)) if i not in axes], *axes)
    inverse = tuple(sorted(range(len(shape)), key=order.__getitem__))
    rows = transpose(x, axes=order)
    moved = shape_of(rows)
    length = math.prod([shape[i] for i in axes])
    flat = reshape(rows, shape=(*moved[: len(shape) - len(axes)], length))
    return flat, lambda y: transpose(reshape(y, shape=moved), axes=inverse)


def _tangent_others(x: Any, dx: Any, axes: Axes) -> Any:
    """The derivative of `product_of_others` in the direction dx, without a division.

    The products before and after each element are cumulative ones, whose tangents are recurrences.
    """
    flat, undo = _flat_last(x, axes)
    dflat, _ = _flat_last(dx, axes)
    axis = len(shape_of(flat)) - 1
    sides = []
    for reverse in (False, True):
        factors = shifted(flat, axis, 1, reverse)
        product = cumprod(factors, axis=axis, reverse=reverse)
        moved = shifted(dflat, axis, 0, reverse) * shifted(product, axis, 1, reverse)
        sides.append((product, linear_recurrence(factors, moved, axis=axis, reverse=reverse)))
    (before, dbefore), (after, dafter) = sides
    return undo(before * dafter + dbefore * after)


product_of_others: Primitive = Primitive(
    "product_of_others",
    rounding=FACTORS,
    cost=3,
    eval=_eval_others,
    type=lambda x, *, axes: Type(x.shape, x.dtype),
    jvp=lambda primals, tangents, *, axes: (
        product_of_others(primals[0], axes=axes),
        _tangent_others(primals[0], tangents[0], axes),
    ),
    # It is a gradient (that of the product), so its Jacobian is a Hessian: symmetric.
    vjp=lambda ct, output, args, wanted, *, axes: [_tangent_others(args[0], ct, axes)],
    batch=_batch_axes(lambda: product_of_others),
)
"""`product_of_others(x, axes=)`: for each element, the product of all others along the axes."""


def _jvp_prod(primals: Any, tangents: Any, *, axes: Axes) -> Any:
    x = primals[0]
    tangent = reduce_sum(tangents[0] * product_of_others(x, axes=axes), axes=axes)
    return reduce_prod(x, axes=axes), tangent


def _vjp_prod(ct: Any, output: Any, args: Any, wanted: Any, *, axes: Axes) -> list[Any]:
    x = args[0]
    return [kept(ct, shape_of(x), axes) * product_of_others(x, axes=axes)]


reduce_prod: Primitive = Primitive(
    "reduce_prod",
    rounding=FACTORS,
    order="example",
    cost=cost_of_reduction,
    eval=lambda x, *, axes: np.multiply.reduce(x, axes),
    type=_type_by_example(np.multiply),
    jvp=_jvp_prod,
    vjp=_vjp_prod,
    batch=_batch_axes(lambda: reduce_prod),
)
"""`reduce_prod(x, axes=)`: the product; its derivatives are right where elements are zero."""

# --- log of a sum of exponentials -----------------------------------------------------------------


def _exp_difference(name: str, exponential: np.ufunc, slope: float) -> Primitive:
    def eval(x: Any, y: Any) -> Any:
        with np.errstate(invalid="ignore"):
            return exponential(np.where(np.equal(x, y), 0, np.subtract(x, y)))

    # Shares of a sum do not depend on y: it cancels in their quotient.
    return elementwise(name, eval, partials=[lambda z, x, y: z * slope, None], cost=Work(1, 1))


def _cost_of_log_sum(equation: Equation) -> Work:
    """The maximum, the differences from it, the sum of their exponentials, and its logarithm."""
    n, m = equation.inputs[0].type.size, equation.outputs[0].type.size
    return Work(3 * n - m if n else 0, n + m)


def _log_sum(name: str, ufunc: np.ufunc, exponential: Primitive, log: np.ufunc) -> Primitive:
    """The derivative is softmax; the elements that attain an infinite result share it equally.

    The value is the largest element plus the logarithm of the sum of exponentials of differences
    from it: NumPy's takes a logarithm for each element, and rounds at each.
    """
    result_type = _type_by_example(ufunc)

    def terms(x: Any, axes: Axes) -> tuple[Any, Any]:
        """The largest elements, and the exponentials of the differences from them."""
        most = reduce_max(x, axes=axes)
        return most, exponential(x, kept(most, shape_of(x), axes))

    def eval(x: Any, *, axes: Axes) -> Any:
        type_ = result_type(typeof(x), axes=axes)
        if not typeof(x).size:
            return np.full(type_.shape, -np.inf, type_.dtype)
        most, parts = terms(cast(x, type_.dtype), axes)
        return most + log(reduce_sum(parts, axes=axes))

    def shares(x: Any, axes: Axes) -> Any:
        if 0 in shape_of(x):
            return x
        _, parts = terms(x, axes)
        return parts / kept(reduce_sum(parts, axes=axes), shape_of(x), axes)

    def jvp(primals: Any, tangents: Any, *, axes: Axes) -> Any:
        y = primitive(primals[0], axes=axes)
        return y, reduce_sum(shares(primals[0], axes) * tangents[0], axes=axes)

    primitive = Primitive(
        name,
        cost=_cost_of_log_sum,
        inline=True,
        eval=eval,
        type=result_type,
        jvp=jvp,
        vjp=lambda ct, y, args, wanted, *, axes: [
            kept(ct, shape_of(args[0]), axes) * shares(args[0], axes)
        ],
        batch=_batch_axes(lambda: primitive),
    )
    return primitive


exp_difference = _exp_difference("exp_difference", np.exp, 1.0)
"""`exp_difference(x, y)`: exp(x - y), 1 where both are the same infinity; y has no derivative."""
exp2_difference = _exp_difference("exp2_difference", np.exp2, math.log(2.0))
"""`exp2_difference(x, y)`: 2^(x - y), 1 where both are the same infinity; y has no derivative."""

reduce_logaddexp = _log_sum("reduce_logaddexp", np.logaddexp, exp_difference, np.log)
"""`reduce_logaddexp(x, axes=)`: log of the sum of e^x."""
reduce_logaddexp2 = _log_sum("reduce_logaddexp2", np.logaddexp2, exp2_difference, np.log2)
"""`reduce_logaddexp2(x, axes=)`: log2 of the sum of 2^x."""

# --- the root of a sum of squares -----------------------------------------------------------------

root = elementwise(
    "root",
    lambda x: np.sqrt(x),  # not np.sqrt itself, which belongs to the plain square root
    rounding=ARITHMETIC,
    partials=[Over(lambda y, x: select(y == 0, np.inf, y * 2))],
    kink=lambda x: np.equal(x, 0),
)
"""`root(x)`: the square root of a sum of squares, a norm: derivative 0 at 0."""


def _eval_exact_sum(x: Any) -> Any:
    if x.ndim == 1:
        return math.fsum(x.tolist())
    sums = [math.fsum(row) for row in x.reshape(math.prod(x.shape[:-1]), x.shape[-1]).tolist()]
    return np.array(sums, np.float64).reshape(x.shape[:-1])


def _spread_last(cotangent: Any, x: Type) -> Any:
    return broadcast_to(reshape(cotangent, shape=(*x.shape[:-1], 1)), shape=x.shape)


exact_sum: Primitive = linear(
    "exact_sum",
    rounding=ARITHMETIC,
    order="example",
    cost=cost_of_reduction,
    eval=_eval_exact_sum,
    type=lambda x: Type(x.shape[:-1], np.float64, len(x.shape) == 1),
    transpose=_spread_last,
    batch=lambda args, batched, size: exact_sum(args[0]),
)
"""`exact_sum(x)`: the sums of doubles along the last axis, rounded once, as by math.fsum; for one
row a Python float.
"""

# --- without a derivative, on purpose -------------------------------------------------------------


def _truth(name: str, ufunc: np.ufunc) -> Primitive:
    primitive = general(
        name,
        cost=cost_of_reduction,
        reduces=ufunc,
        eval=lambda x, *, axes: ufunc.reduce(x, axes),
        type=_type_by_example(ufunc),
        batch=_batch_axes(lambda: primitive),
        cuts=True,
    )
    return primitive


reduce_any = _truth("reduce_any", np.logical_or)
"""`reduce_any(x, axes=)`: whether any element is true."""
reduce_all = _truth("reduce_all", np.logical_and)
"""`reduce_all(x, axes=)`: whether all elements are true."""


def _position(name: str, function: Callable[..., Any]) -> Primitive:
    def result_type(x: Type, *, axis: int) -> Type:
        if not x.shape[axis]:
            raise ShapeError(f"attempt to get {name} of an empty sequence")
        return Type((*x.shape[:axis], *x.shape[axis + 1 :]), np.intp)

    primitive = general(
        name,
        cost=cost_of_reduction,
        eval=lambda x, *, axis: function(x, axis),
        type=result_type,
        batch=lambda args, batched, size, *, axis: primitive(args[0], axis=axis + 1),
        cuts=True,
    )
    return primitive


argmax = _position("argmax", np.argmax)
"""`argmax(x, axis=)`: the position of the largest element, the first of them."""
argmin = _position("argmin", np.argmin)
"""`argmin(x, axis=)`: the position of the smallest element, the first of them."""
