"""NumPy's reductions and cumulative functions for traced values, with NumPy's signatures.

Averages are in mean_var.py, the functions that ignore NaN in statistics.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.numpy.protocol.implements import NO_VALUE, as_array, implements
from fungrad.numpy.protocol.operands import axis_index, flattened, reduced_axes, with_axes_kept
from fungrad.primitives.elementwise.family import add, mul, ne, neg, select, sub
from fungrad.primitives.elementwise.ufuncs import (
    fmax,
    fmin,
    logaddexp,
    logaddexp2,
    maximum,
    minimum,
    signbit,
)
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    cast,
    concatenate,
    full,
    reduce_sum,
)
from fungrad.primitives.reduction import cumulative
from fungrad.primitives.reduction import reduce as r
from fungrad.tracing.trace import Tracer, registry, shape_of, typeof


def reduced(primitive: Callable[..., Any], a: Any, axis: Any, keepdims: Any) -> Any:
    """`primitive` over the axes that NumPy's arguments name."""
    shape = shape_of(a)
    axes = tuple(range(len(shape))) if axis is None else reduced_axes(axis, len(shape))
    y = primitive(a, axes=axes)
    return y if keepdims is NO_VALUE or not keepdims else with_axes_kept(y, shape, axes)


def only(a: Any, where: Any, fill: Any) -> Any:
    """a where the mask holds, else `fill`."""
    return a if where is NO_VALUE or where is True else select(as_truth(where), a, fill)


def as_truth(condition: Any) -> Any:
    """A condition as booleans."""
    condition = as_array(condition)
    return condition if typeof(condition).dtype == np.bool_ else ne(condition, 0)


def _with_identity(
    primitive: Callable[..., Any],
    combine: Callable[..., Any],
    identity: Any,
    a: Any,
    axis: Any,
    dtype: Any,
    keepdims: Any,
    initial: Any,
    where: Any,
) -> Any:
    """A reduction whose result over no elements is `identity`."""
    if type(a) is not Tracer:
        a = as_array(a)
    if dtype is not None:
        a = cast(a, dtype)
    y = reduced(primitive, only(a, where, identity), axis, keepdims)
    if initial is not NO_VALUE and initial is not None:
        y = combine(y, cast(as_array(initial), typeof(y).dtype))
    return y if dtype is None else cast(y, dtype)


@implements(np.sum)
def sum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE, where: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The sum over axes, as numpy.sum."""
    if initial is NO_VALUE:  # the usual case
        return _with_identity(reduce_sum, add, 0, a, axis, dtype, keepdims, initial, where)
    if issubclass(type(initial), float | np.floating) and initial == 0 and np.signbit(initial):
        a = as_array(a)
        rest = axis, dtype, None, keepdims, NO_VALUE, where
        if typeof(a).dtype.kind == "f":  # zeros below zero add up to one
            signs = reduced(r.reduce_all, only(signbit(a), where, True), axis, keepdims)
            return select(signs, neg(sum(neg(a), *rest)), sum(a, *rest))
    return _with_identity(reduce_sum, add, 0, a, axis, dtype, keepdims, initial, where)


@implements(np.prod)
def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE, where: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The product over axes, as numpy.prod; its derivatives are right where elements are zero."""
    return _with_identity(r.reduce_prod, mul, 1, a, axis, dtype, keepdims, initial, where)


def _extremum(
    function: str,
    primitive: Callable[..., Any],
    combine: Callable[..., Any],
    a: Any,
    axis: Any,
    keepdims: Any,
    initial: Any,
    where: Any,
) -> Any:
    a = as_array(a)
    if initial is NO_VALUE or initial is None:
        if where is not NO_VALUE and where is not True:
            raise ValueError(
                f"reduction operation '{function}' does not have an identity, so to use a where "
                "mask one has to specify 'initial'"
            )
        return reduced(primitive, a, axis, keepdims)
    initial = cast(as_array(initial), typeof(a).dtype)
    a = only(a, where, initial)
    shape = shape_of(a)
    axes = reduced_axes(axis, len(shape))
    if 0 in [shape[i] for i in axes]:
        y = broadcast_to(initial, shape=tuple([n for i, n in enumerate(shape) if i not in axes]))
    else:
        y = combine(primitive(a, axes=axes), initial)
    return y if keepdims is NO_VALUE or not keepdims else with_axes_kept(y, shape, axes)


@implements(np.max, np.amax)
def max(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE, where: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The largest element over axes, as numpy.max; ties share the derivative equally."""
    return _extremum("numpy.max", r.reduce_max, maximum, a, axis, keepdims, initial, where)


@implements(np.min, np.amin)
def min(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE, where: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The smallest element over axes, as numpy.min; ties share the derivative equally."""
    return _extremum("numpy.min", r.reduce_min, minimum, a, axis, keepdims, initial, where)


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE) -> Any:
    """The range, largest minus smallest, as numpy.ptp."""
    return sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


@implements(np.any)
def any(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE
) -> Any:
    """Whether any element is true, as numpy.any; without a derivative."""
    return reduced(r.reduce_any, only(as_array(a), where, False), axis, keepdims)


@implements(np.all)
def all(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE
) -> Any:
    """Whether all elements are true, as numpy.all; without a derivative."""
    return reduced(r.reduce_all, only(as_array(a), where, True), axis, keepdims)


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """The number of nonzero elements, as numpy.count_nonzero; without a derivative."""
    return reduced(reduce_sum, as_truth(a), axis, keepdims)


def _position(primitive: Callable[..., Any], a: Any, axis: Any, keepdims: Any) -> Any:
    a = as_array(a)
    shape = shape_of(a)
    keep = keepdims is not NO_VALUE and keepdims
    if axis is None:
        y = primitive(flattened(a), axis=0)
        return with_axes_kept(y, shape, tuple(range(len(shape)))) if keep else y
    if not shape:
        a = flattened(a)
    position = axis_index(axis, len(shape_of(a)))
    y = primitive(a, axis=position)
    return with_axes_kept(y, shape, (position,)) if keep else y


@implements(np.argmax)
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
    """The position of the largest element, as numpy.argmax; without a derivative."""
    return _position(r.argmax, a, axis, keepdims)


@implements(np.argmin)
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
    """The position of the smallest element, as numpy.argmin; without a derivative."""
    return _position(r.argmin, a, axis, keepdims)


# --- cumulative -----------------------------------------------------------------------------------


def cumulated(primitive: Callable[..., Any], a: Any, axis: Any, dtype: Any) -> Any:
    """`primitive` along an axis; of the flattened array if that is None."""
    a = as_array(a)
    if dtype is not None:
        a = cast(a, dtype)
    if axis is None or not shape_of(a):
        a = flattened(a)
    y = primitive(a, axis=axis_index(0 if axis is None else axis, len(shape_of(a))))
    return y if dtype is None else cast(y, dtype)


@implements(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """The sums of the elements up to each, as numpy.cumsum."""
    return cumulated(cumulative.cumsum, a, axis, dtype)


@implements(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """The products of the elements up to each, as numpy.cumprod; right where elements are zero."""
    return cumulated(cumulative.cumprod, a, axis, dtype)


def _cumulative(
    primitive: Callable[..., Any], first: int, x: Any, axis: Any, dtype: Any,
    include_initial: bool,
) -> Any:  # fmt: skip
    x = as_array(x)
    if not shape_of(x):
        x = flattened(x)
    shape = shape_of(x)
    if axis is None:
        if len(shape) != 1:
            raise ValueError(
                "For arrays which have more than one dimension ``axis`` argument is required."
            )
        axis = 0
    y = cumulated(primitive, x, axis, dtype)
    if not include_initial:
        return y
    axis = axis_index(axis, len(shape))
    edge = (*shape[:axis], 1, *shape[axis + 1 :])
    return concatenate(full(shape=edge, value=first, dtype=typeof(y).dtype), y, axis=axis)


def cumulative_sum(
    x: Any,
    /,
    *,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
) -> Any:
    """The sums of the elements up to each, as numpy.cumulative_sum."""
    return _cumulative(cumulative.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Any,
    /,
    *,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
) -> Any:
    """The products of the elements up to each, as numpy.cumulative_prod."""
    return _cumulative(cumulative.cumprod, 1, x, axis, dtype, include_initial)


if hasattr(np, "cumulative_sum"):  # of NumPy 2.1
    cumulative_sum = implements(np.cumulative_sum)(cumulative_sum)
    cumulative_prod = implements(np.cumulative_prod)(cumulative_prod)


# --- ufunc.reduce and ufunc.accumulate ------------------------------------------------------------


def _reducer(
    ufunc: np.ufunc, primitive: Callable[..., Any], combine: Callable[..., Any], identity: Any
) -> Callable[..., Any]:
    def reduce(
        a: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
        initial: Any = NO_VALUE, where: Any = True,
    ) -> Any:  # fmt: skip
        if identity is None:
            name = f"numpy.{ufunc.__name__}.reduce"
            a = as_array(a) if dtype is None else cast(as_array(a), dtype)
            return _extremum(name, primitive, combine, a, axis, keepdims, initial, where)
        return _with_identity(
            primitive, combine, identity, a, axis, dtype, keepdims, initial, where
        )

    return reduce


def _ignoring_nan(primitive: Callable[..., Any], fill: float) -> Callable[..., Any]:
    """fmax and fmin: NaN only if all elements are NaN."""

    def reduce(a: Any, *, axes: tuple[int, ...]) -> Any:
        if typeof(a).dtype.kind not in "fc":
            return primitive(a, axes=axes)
        nan = ne(a, a)
        y = primitive(select(nan, fill, a), axes=axes)
        return select(r.reduce_all(nan, axes=axes), np.nan, y)

    return reduce


REDUCE: dict[np.ufunc, Callable[..., Any]] = {
    np.add: _reducer(np.add, reduce_sum, add, 0),
    np.multiply: _reducer(np.multiply, r.reduce_prod, mul, 1),
    np.maximum: _reducer(np.maximum, r.reduce_max, maximum, None),
    np.minimum: _reducer(np.minimum, r.reduce_min, minimum, None),
    np.fmax: _reducer(np.fmax, _ignoring_nan(r.reduce_max, -np.inf), fmax, None),
    np.fmin: _reducer(np.fmin, _ignoring_nan(r.reduce_min, np.inf), fmin, None),
    np.logaddexp: _reducer(np.logaddexp, r.reduce_logaddexp, logaddexp, -np.inf),
    np.logaddexp2: _reducer(np.logaddexp2, r.reduce_logaddexp2, logaddexp2, -np.inf),
}
"""By ufunc: its method `reduce`, with NumPy's signature."""


def _accumulator(ufunc: np.ufunc, primitive: Callable[..., Any]) -> Callable[..., Any]:
    def accumulate(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        return cumulated(primitive, array, axis, dtype)

    return accumulate


ACCUMULATE: dict[np.ufunc, Callable[..., Any]] = {
    np.add: _accumulator(np.add, cumulative.cumsum),
    np.multiply: _accumulator(np.multiply, cumulative.cumprod),
    np.maximum: _accumulator(np.maximum, cumulative.cummax),
    np.minimum: _accumulator(np.minimum, cumulative.cummin),
}
"""By ufunc: its method `accumulate`, with NumPy's signature."""

METHODS: dict[str, Any] = {
    function.__name__: registry.functions[function]
    for function in (
        np.sum, np.prod, np.max, np.min, np.any, np.all, np.argmax, np.argmin, np.cumsum,
        np.cumprod,
    )
}  # fmt: skip
"""ndarray's methods, by name."""

amax = max
amin = min

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "cumprod", "cumsum",
    "cumulative_prod", "cumulative_sum", "max", "min", "prod", "ptp", "sum",
]  # fmt: skip
