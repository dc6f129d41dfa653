"""Cumulative primitives along one axis, forwards or backwards.

All derivatives here use one primitive, the first-order linear recurrence h_j = a_j h_{j-1} + u_j,
which is closed under differentiation: its tangent and its adjoint are recurrences, too (Martin &
Cundy, Parallelizing Linear Recurrent Neural Nets, ICLR 2018, section 2.2). There is no division, so
products with zeros are right at every order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.ir.graph import Equation
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import elementwise, select
from fungrad.primitives.facts import EXACT, FACTORS, TERMS
from fungrad.primitives.movement.reshape_broadcast_cast import (
    concatenate,
    each_with_batch,
    slice_axis,
)
from fungrad.primitives.primitive import Primitive, full, linear
from fungrad.tracing.trace import shape_of, typeof


def _along(x: Any, axis: int, reverse: bool) -> Any:
    """A view of an array with the scanned axis first, in the direction of the scan."""
    x = np.moveaxis(np.asarray(x), axis, 0)
    return x[::-1] if reverse else x


def _accumulated(ufunc: np.ufunc, x: Any, axis: int, reverse: bool) -> Any:
    if not reverse:
        return ufunc.accumulate(x, axis)
    return np.flip(ufunc.accumulate(np.flip(x, axis), axis), axis)


def shifted(x: Any, axis: int, fill: int, reverse: bool) -> Any:
    """The element before each one in the direction of the scan; `fill` before the first."""
    shape = shape_of(x)
    length = shape[axis]
    if not length:
        return x
    edge_shape = (*shape[:axis], 1, *shape[axis + 1 :])
    edge = full(shape=edge_shape, value=fill, dtype=typeof(x).dtype)
    if reverse:
        return concatenate(slice_axis(x, axis=axis, start=1, stop=length), edge, axis=axis)
    return concatenate(edge, slice_axis(x, axis=axis, start=0, stop=length - 1), axis=axis)


# --- the linear recurrence ------------------------------------------------------------------------


def _eval_recurrence(a: Any, u: Any, *, axis: int, reverse: bool = False) -> Any:
    dtype = np.result_type(a, u)
    out = np.empty(np.shape(u), dtype)
    a, u, h = _along(a, axis, reverse), _along(u, axis, reverse), _along(out, axis, reverse)
    length = len(h)
    if not length:
        return out
    if length > 64 and h[0].size < 256:
        _doubled(a, u, h)
        if np.isfinite(h).all():  # partial products may overflow where the recurrence does not
            return out
    h[0] = u[0]
    for j in range(1, length):
        np.multiply(a[j], h[j - 1], out=h[j, ...])
        h[j] += u[j]
    return out


def _doubled(a: Any, u: Any, h: Any) -> None:
    """The recurrence in log2(length) passes over whole arrays (Hillis & Steele 1986)."""
    h[...] = u
    a = np.array(a, h.dtype)
    step = 1
    with np.errstate(all="ignore"):
        while step < len(h):
            h[step:] = a[step:] * h[:-step] + h[step:]
            a[step:] = a[step:] * a[:-step]
            step *= 2


def _vjp_recurrence(
    ct: Any, h: Any, args: Any, wanted: Any, *, axis: int, reverse: bool = False
) -> list[Any]:
    a = args[0]
    onward = shifted(a, axis, 0, not reverse)
    w = linear_recurrence(onward, ct, axis=axis, reverse=not reverse)
    return [w * shifted(h, axis, 0, reverse) if wanted[0] else None, w]


def _jvp_recurrence(primals: Any, tangents: Any, *, axis: int, reverse: bool = False) -> Any:
    a, u = primals
    da, du = tangents
    h = linear_recurrence(a, u, axis=axis, reverse=reverse)
    moved = du
    if da is not None:
        term = da * shifted(h, axis, 0, reverse)
        moved = term if du is None else term + du
    return h, linear_recurrence(a, moved, axis=axis, reverse=reverse)


def _batch_recurrence(
    args: Any, batched: Any, size: int, *, axis: int, reverse: bool = False
) -> Any:
    a, u = each_with_batch(args, batched, size)
    return linear_recurrence(a, u, axis=axis + 1, reverse=reverse)


linear_recurrence: Primitive = Primitive(
    "linear_recurrence",
    rounding=TERMS,
    cost=2,
    eval=_eval_recurrence,
    type=lambda a, u, *, axis, reverse=False: Type(u.shape, np.result_type(a.dtype, u.dtype)),
    jvp=_jvp_recurrence,
    vjp=_vjp_recurrence,
    batch=_batch_recurrence,
)
"""`linear_recurrence(a, u, axis=, reverse=)`: h_j = a_j h_{j-1} + u_j, from h = 0.

a and u have the same shape.
"""

# --- sums -----------------------------------------------------------------------------------------


def _type_cumulative(ufunc: np.ufunc, x: Type) -> Type:
    return Type(x.shape, ufunc.accumulate(np.ones((1,), x.dtype)).dtype)


def _cost_of_cumulative(equation: Equation) -> int:
    x = equation.inputs[0].type
    length = x.shape[equation.params["axis"]]
    return x.size - x.size // length if length else 0


cumsum: Primitive = linear(
    "cumsum",
    rounding=TERMS,
    order="example",
    cost=_cost_of_cumulative,
    eval=lambda x, *, axis, reverse=False: _accumulated(np.add, x, axis, reverse),
    type=lambda x, *, axis, reverse=False: _type_cumulative(np.add, x),
    transpose=lambda ct, x, *, axis, reverse=False: cumsum(ct, axis=axis, reverse=not reverse),
    batch=lambda args, batched, size, *, axis, reverse=False: cumsum(
        args[0], axis=axis + 1, reverse=reverse
    ),
)
"""`cumsum(x, axis=, reverse=)`: the sums up to each element (reverse: from each on)."""

# --- products -------------------------------------------------------------------------------------


def _vjp_cumprod(
    ct: Any, y: Any, args: Any, wanted: Any, *, axis: int, reverse: bool = False
) -> list[Any]:
    onward = shifted(args[0], axis, 0, not reverse)
    w = linear_recurrence(onward, ct, axis=axis, reverse=not reverse)
    return [w * shifted(y, axis, 1, reverse)]


def _jvp_cumprod(primals: Any, tangents: Any, *, axis: int, reverse: bool = False) -> Any:
    x = primals[0]
    y = cumprod(x, axis=axis, reverse=reverse)
    moved = tangents[0] * shifted(y, axis, 1, reverse)
    return y, linear_recurrence(x, moved, axis=axis, reverse=reverse)


cumprod: Primitive = Primitive(
    "cumprod",
    rounding=FACTORS,
    order="example",
    cost=_cost_of_cumulative,
    eval=lambda x, *, axis, reverse=False: _accumulated(np.multiply, x, axis, reverse),
    type=lambda x, *, axis, reverse=False: _type_cumulative(np.multiply, x),
    jvp=_jvp_cumprod,
    vjp=_vjp_cumprod,
    batch=lambda args, batched, size, *, axis, reverse=False: cumprod(
        args[0], axis=axis + 1, reverse=reverse
    ),
)
"""`cumprod(x, axis=, reverse=)`: the products up to each (reverse: from each on)."""

# --- running extrema: the elements that attain a value share its cotangent equally ----------------


def _eval_attains(x: Any, y: Any) -> Any:
    hit = np.equal(x, y)
    least = np.minimum.reduce(y if np.size(y) <= np.size(x) else x, None, initial=0)
    return hit if least == least else hit | (np.not_equal(x, x) & np.not_equal(y, y))


attains = elementwise(
    "attains",
    _eval_attains,
    partials=[None, None],
    cost=1,
    scalar="{0} == {1} or ({0} != {0} and {1} != {1})",
)
"""`attains(x, y)`: whether x equals y; NaN equals NaN."""


def _running(name: str, ufunc: np.ufunc) -> Primitive:
    def shares(x: Any, y: Any, axis: int, reverse: bool) -> tuple[Any, Any, Any]:
        """Whether an element attains the running extremum, whether that stays the same, and the
        number of elements that attain it.
        """
        one = typeof(x).dtype.type(1)
        none = one * 0
        hit = attains(x, y)
        same = select(attains(shifted(y, axis, 0, reverse), y), one, none)
        count = linear_recurrence(same, select(hit, one, none), axis=axis, reverse=reverse)
        return hit, same, count

    def vjp(
        ct: Any, y: Any, args: Any, wanted: Any, *, axis: int, reverse: bool = False
    ) -> list[Any]:
        hit, same, count = shares(args[0], y, axis, reverse)
        onward = shifted(same, axis, 0, not reverse)
        w = linear_recurrence(onward, ct / count, axis=axis, reverse=not reverse)
        return [select(hit, w, 0)]

    def jvp(primals: Any, tangents: Any, *, axis: int, reverse: bool = False) -> Any:
        y = primitive(primals[0], axis=axis, reverse=reverse)
        hit, same, count = shares(primals[0], y, axis, reverse)
        moved = select(hit, tangents[0], 0)
        return y, linear_recurrence(same, moved, axis=axis, reverse=reverse) / count

    def ties(x: Any, *, axis: int, reverse: bool = False) -> Any:
        """The mask of elements that attain the extremum of those before them."""
        x = _along(x, axis, reverse)
        return np.equal(x[1:], ufunc.accumulate(x, 0)[:-1])

    primitive = Primitive(
        name,
        rounding=EXACT,
        cost=_cost_of_cumulative,
        kink=ties,
        eval=lambda x, *, axis, reverse=False: _accumulated(ufunc, x, axis, reverse),
        type=lambda x, *, axis, reverse=False: _type_cumulative(ufunc, x),
        jvp=jvp,
        vjp=vjp,
        batch=lambda args, batched, size, *, axis, reverse=False: primitive(
            args[0], axis=axis + 1, reverse=reverse
        ),
    )
    return primitive


cummax = _running("cummax", np.maximum)
"""`cummax(x, axis=, reverse=)`: the largest of all elements up to each."""
cummin = _running("cummin", np.minimum)
"""`cummin(x, axis=, reverse=)`: the smallest of all elements up to each."""
