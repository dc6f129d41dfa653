"""NumPy's order statistics for traced values: median, quantile, percentile, and their variants that
ignore NaN.

All sort, read two positions, and weight between them (Hyndman & Fan, Sample Quantiles in
Statistical Packages, 1996); ties share the derivative equally, as in sort.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.numpy.protocol.implements import NO_VALUE, implements
from fungrad.numpy.protocol.operands import array_of, axes_of, with_axes_kept
from fungrad.numpy.protocol.result_order import results_in_order
from fungrad.primitives import sort as s
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.gather import ARRAY, Index, getitem
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    cast,
    moveaxis,
    reduce_sum,
    reshape,
    transpose,
)
from fungrad.tracing.trace import Tracer, is_weak, registry, shape_of

_POSITIONS: dict[str, Callable[[Any, Any], Any]] = {
    "inverted_cdf": lambda n, q: n * q - 1,
    "averaged_inverted_cdf": lambda n, q: n * q - 1,
    "closest_observation": lambda n, q: n * q - 1.5,
    "interpolated_inverted_cdf": lambda n, q: n * q + q * 0 - 1,
    "hazen": lambda n, q: n * q + 0.5 - 1,
    "weibull": lambda n, q: n * q + q - 1,
    "linear": lambda n, q: (n - 1) * q,
    "median_unbiased": lambda n, q: n * q + (1 / 3 + q * (1 - 1 / 3 - 1 / 3)) - 1,
    "normal_unbiased": lambda n, q: n * q + (3 / 8 + q * (1 - 3 / 8 - 3 / 8)) - 1,
    "lower": lambda n, q: np.floor((n - 1) * q),
    "higher": lambda n, q: np.ceil((n - 1) * q),
    "midpoint": lambda n, q: 0.5 * (np.floor((n - 1) * q) + np.ceil((n - 1) * q)),
    "nearest": lambda n, q: np.rint((n - 1) * q),
}
"""By method: the position of the quantile q in a sorted sample of n, counted from 0."""

_WHOLE = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
"""The methods that return an element of the sample."""


def _between(n: Any, q: Any, method: str) -> tuple[Any, Any, Any]:
    """The positions of both neighbours of a quantile, and the weight of the second."""
    position = _POSITIONS[method](n, q)
    below = np.floor(position)
    part = position - below
    if method in ("inverted_cdf", "closest_observation"):
        stays = part == 0
        if method == "closest_observation":
            stays = np.logical_and(stays, below % 2 == 1)
        below = select(stays, below, below + 1)
        part = part * 0
    elif method == "averaged_inverted_cdf":
        part = select(part == 0, 0.5, 1.0)
    elif method == "midpoint":
        part = select(part == 0, 0.0, 0.5)
    outside = np.logical_or(position < 0, position >= n - 1)
    part = select(outside, 1.0, part)  # both neighbours are one element: weight 1 keeps it exact
    below = np.minimum(np.maximum(below, 0), n - 1)
    return below, np.minimum(below + np.logical_not(outside), n - 1), part


def _lerp(a: Any, b: Any, t: Any, weak: bool) -> Any:
    """a + (b - a) t, exact at both ends, as NumPy computes it: a weak t is rounded to a's dtype."""
    step, rest, nearer = b - a, 1 - t, t >= 0.5
    if weak and a.dtype.kind == "f":
        t, rest = cast(t, a.dtype), cast(rest, a.dtype)
    return select(nearer, b - step * rest, a + step * t)


def _rows(a: Any, axis: Any) -> tuple[Any, tuple[int, ...]]:
    """The array with the reduced axes flattened into its last one; and those axes."""
    shape = shape_of(a)
    axes = axes_of(axis, len(shape))
    rest = [i for i in range(len(shape)) if i not in axes]
    if (*rest, *axes) != tuple(range(len(shape))):
        a = transpose(a, axes=(*rest, *axes))
    length = math.prod([shape[i] for i in axes])
    return reshape(a, shape=(*[shape[i] for i in rest], length)), axes


def _at(ordered: Any, indices: Any) -> Any:
    """The elements at positions of the last axis; the axes of `indices` come first."""
    indices = cast(indices, np.intp)
    result = getitem(ordered, indices, index=Index((Ellipsis, ARRAY)))
    count = len(shape_of(indices))
    ndim = len(shape_of(ordered)) - 1
    order = (*range(ndim, ndim + count), *range(ndim))
    return transpose(result, axes=order) if count and ndim else result


def _kept(y: Any, count: int, shape: tuple[int, ...], axes: Any, keepdims: Any) -> Any:
    """The result, with reduced axes of length 1 if `keepdims`; q's axes come first."""
    if keepdims is NO_VALUE or not keepdims:
        return y
    lead = shape_of(y)[:count]
    return with_axes_kept(y, (*lead, *shape), tuple([i + count for i in axes]))


def _checked_q(q: Any, top: float) -> Any:
    q = array_of(q)
    if q.dtype.kind in "iub":
        q = cast(q, np.float64)
    if len(q.shape) > 2:
        raise ValueError("q must be a scalar or 1d")
    if type(q) is not Tracer and not (np.all(q >= 0) and np.all(q <= top)):
        name = "Quantiles" if top == 1 else "Percentiles"
        raise ValueError(f"{name} must be in the range [0, {top}]")
    return q


def _checked_method(method: str, weights: Any) -> None:
    if method not in _POSITIONS:
        raise ValueError(f"{method!r} is not a valid method. Use one of: {list(_POSITIONS)}")
    if weights is not None and method != "inverted_cdf":
        raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")


def _result_type(a: Any, q: Any, weak: bool, method: str) -> Any:
    """The dtype of a quantile: that of the elements, or of the interpolation between them."""
    if method in _WHOLE:
        return a.dtype
    return np.result_type(a.dtype, 1.0 if weak else q.dtype)


def _weighted(ordered: Any, order: Any, weights: Any, q: Any, a: Any, axis: Any) -> Any:
    """The inverse of the weighted distribution function: the position of each q in each row."""
    shape = shape_of(a)
    weights = array_of(weights)
    if shape_of(weights) != shape:
        axes = axes_of(axis, len(shape))
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        if shape_of(weights) != tuple([shape[i] for i in axes]):
            raise ValueError(
                "Shape of weights must be consistent with shape of a along specified axis."
            )
        wide = tuple([n if i in axes else 1 for i, n in enumerate(shape)])
        weights = broadcast_to(reshape(weights, shape=wide), shape=shape)
    rows = s.permuted(_rows(weights, axis)[0], order, axis=len(shape_of(ordered)) - 1)
    total = registry.functions[np.cumsum](cast(rows, np.float64), axis=-1)
    share = total / total[..., -1:]
    share = select(share == 0, -1.0, share)
    lead = shape_of(rows)[:-1]
    wanted = broadcast_to(reshape(q, shape=(q.size,)), shape=(*lead, q.size))
    indices = s.searchsorted(share, wanted, side="left", lead=len(lead))
    return np.minimum(indices, shape_of(rows)[-1] - 1)


def _quantile(
    a: Any, q: Any, axis: Any, method: str, keepdims: Any, weights: Any, weak: bool, ignore: bool
) -> Any:
    _checked_method(method, weights)
    if ignore and not a.size:
        return registry.functions[np.nanmean](a, axis, keepdims=keepdims)
    shape = shape_of(a)
    nan = np.isnan(a) if a.dtype.kind == "f" else None
    ignore = ignore and nan is not None
    if ignore:
        a = select(nan, np.inf, a)  # first, so that a NaN has exactly no derivative
    rows, axes = _rows(a, axis)
    last = len(shape_of(rows)) - 1
    n = shape_of(rows)[-1]
    if not n:
        raise IndexError("cannot take a quantile of no elements")
    dtype = _result_type(a, q, weak, method)
    if rows.dtype.kind == "b":
        rows = cast(rows, np.uint8) if method in _WHOLE else rows
    count = len(q.shape)
    ordered = s.sort(rows, axis=last)
    if weights is not None:
        order = s.argsort(rows, axis=last, kind=None)
        indices = _weighted(ordered, order, weights, q, a, axis)
        chosen = registry.functions[np.take_along_axis](ordered, indices, -1)
        result = reshape(moveaxis(chosen, last, 0), shape=(*q.shape, *shape_of(ordered)[:-1]))
    elif ignore:
        number = reduce_sum(np.logical_not(_rows(nan, axis)[0]), axes=(last,))
        wide = reshape(q, shape=(*q.shape, *[1] * last))
        below, above, part = _between(np.maximum(number, 1), wide, method)
        picked = [_at_each(ordered, indices, count) for indices in (below, above)]
        result = picked[0] if method in _WHOLE else _lerp(picked[0], picked[1], part, weak)
        result = select(number == 0, np.nan, result)
        nan = None
    else:
        below, above, part = _between(n, q, method)
        result = _at(ordered, below)
        if method not in _WHOLE:
            part = reshape(part, shape=(*q.shape, *[1] * last))
            result = _lerp(result, _at(ordered, above), part, weak)
    if nan is not None:
        largest = getitem(ordered, index=Index((Ellipsis, -1)))
        result = select(np.isnan(largest), largest, result)
    return _kept(cast(result, dtype), count, shape, axes, keepdims)


def _at_each(ordered: Any, indices: Any, count: int) -> Any:
    """The elements at each row's positions; the first `count` axes of `indices` are q's."""
    indices = cast(indices, np.intp)
    shape = shape_of(indices)
    lead = shape_of(ordered)[:-1]
    flat = reshape(indices, shape=(math.prod(shape[:count]), *lead))
    chosen = registry.functions[np.take_along_axis](ordered, moveaxis(flat, 0, len(lead)), -1)
    return reshape(moveaxis(chosen, len(lead), 0), shape=(*shape[:count], *lead))


@implements(np.quantile)
@results_in_order("C")
def quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: Any = False, *, weights: Any = None,
    interpolation: Any = None,
) -> Any:  # fmt: skip
    """The quantiles over axes, as numpy.quantile; also differentiable by q."""
    weak = is_weak(q)
    return _quantile(
        _real(a), _checked_q(q, 1), axis, interpolation or method, keepdims, weights, weak, False
    )


@implements(np.percentile)
@results_in_order("C")
def percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: Any = False, *, weights: Any = None,
    interpolation: Any = None,
) -> Any:  # fmt: skip
    """The percentiles over axes, as numpy.percentile; also differentiable by q."""
    weak = is_weak(q)
    q = _checked_q(q, 100) / 100
    return _quantile(_real(a), q, axis, interpolation or method, keepdims, weights, weak, False)


@implements(np.nanquantile)
def nanquantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: Any = NO_VALUE, *, weights: Any = None,
    interpolation: Any = None,
) -> Any:  # fmt: skip
    """The quantiles, ignoring NaN, as numpy.nanquantile."""
    weak = is_weak(q)
    return _ignoring(a, _checked_q(q, 1), axis, interpolation or method, keepdims, weights, weak)


@implements(np.nanpercentile)
def nanpercentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: Any = NO_VALUE, *, weights: Any = None,
    interpolation: Any = None,
) -> Any:  # fmt: skip
    """The percentiles, ignoring NaN, as numpy.nanpercentile."""
    weak = is_weak(q)
    q = _checked_q(q, 100) / 100
    return _ignoring(a, q, axis, interpolation or method, keepdims, weights, weak)


def _ignoring(
    a: Any, q: Any, axis: Any, method: str, keepdims: Any, weights: Any, weak: bool
) -> Any:
    """A quantile that ignores NaN; NaN's weights count as 0."""
    a = _real(a)
    if weights is not None and a.dtype.kind == "f":
        _checked_method(method, weights)
        nan = np.isnan(a)
        weights = array_of(weights)
        if shape_of(weights) != shape_of(a) and axis is not None:
            axes = axes_of(axis, len(shape_of(a)))
            wide = tuple([n if i in axes else 1 for i, n in enumerate(shape_of(a))])
            weights = reshape(weights, shape=wide)
        weights = select(nan, 0.0, weights)
        a = select(nan, np.inf, a)
        return _quantile(a, q, axis, method, keepdims, weights, weak, False)
    return _quantile(a, q, axis, method, keepdims, weights, weak, True)


def _real(a: Any) -> Any:
    a = array_of(a)
    if a.dtype.kind == "c":
        raise TypeError("a must be an array of real numbers")
    return a


# --- median ---------------------------------------------------------------------------------------


@implements(np.median)
def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False
) -> Any:
    """The median over axes, as numpy.median; ties share the derivative equally."""
    a = array_of(a)
    shape = shape_of(a)
    rows, axes = _rows(a, axis)
    last = len(shape_of(rows)) - 1
    n = shape_of(rows)[-1]
    mean = registry.functions[np.mean]
    if not n:
        return _kept(mean(rows, -1), 0, shape, axes, keepdims)
    ordered = s.sort(rows, axis=last)
    middle = slice((n - 1) // 2, n // 2 + 1)
    result = mean(getitem(ordered, index=Index((Ellipsis, middle))), -1)
    if a.dtype.kind in "fc":
        largest = getitem(ordered, index=Index((Ellipsis, -1)))
        result = select(np.isnan(largest), largest, result)
    return _kept(result, 0, shape, axes, keepdims)


@implements(np.nanmedian)
def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    keepdims: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The median, ignoring NaN, as numpy.nanmedian."""
    a = array_of(a)
    if a.dtype.kind not in "fc":
        return median(a, axis, keepdims=keepdims is not NO_VALUE and bool(keepdims))
    shape = shape_of(a)
    nan = np.isnan(a)
    a = select(nan, np.inf, a)  # first, so that a NaN has exactly no derivative
    rows, axes = _rows(a, axis)
    last = len(shape_of(rows)) - 1
    n = shape_of(rows)[-1]
    if not n:
        return _kept(registry.functions[np.nanmean](rows, -1), 0, shape, axes, keepdims)
    number = reduce_sum(np.logical_not(_rows(nan, axis)[0]), axes=(last,))
    ordered = s.sort(rows, axis=last)
    low = _at_each(ordered, np.maximum(number - 1, 0) // 2, 0)
    high = _at_each(ordered, np.minimum(number // 2, n - 1), 0)
    result = select(number == 0, np.nan, (low + high) / 2)
    return _kept(cast(result, a.dtype), 0, shape, axes, keepdims)


__all__ = [
    "median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile",
]  # fmt: skip
