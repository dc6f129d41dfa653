"""Mean, var, std and average of traced values, with NumPy's signatures and dtypes.

Integers are averaged as float64, float16 is summed as float32 where NumPy does so. The standard
deviation has derivative 0 at constant data, its kink (docs/kinks.md).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.ir.canonical import canonical_dtype
from fungrad.numpy.protocol.implements import NO_VALUE, as_array, implements
from fungrad.numpy.protocol.operands import axes_of, with_axes_kept
from fungrad.numpy.reductions import as_truth, only, sum
from fungrad.primitives.elementwise.family import div, mul, sub
from fungrad.primitives.elementwise.ufuncs import maximum, real, square
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    cast,
    conj,
    reduce_sum,
    reshape,
)
from fungrad.primitives.reduction.reduce import root
from fungrad.tracing.trace import registry, shape_of, typeof

Axes = tuple[int, ...]


def _count(shape: tuple[int, ...], axes: Axes, where: Any) -> Any:
    """The number of averaged elements; under a mask, an array of numbers."""
    if where is NO_VALUE or where is True:
        return math.prod([shape[i] for i in axes])
    return reduce_sum(broadcast_to(as_truth(where), shape=shape), axes=axes)


def _sum_dtype(found: np.dtype[Any], dtype: Any) -> np.dtype[Any]:
    """The dtype of the average of an array."""
    if dtype is not None:
        wanted: np.dtype[Any] = canonical_dtype(dtype)
        return wanted
    return _FLOAT if found.kind in "iub" else found


_FLOAT: np.dtype[Any] = np.dtype(np.float64)
_HALF: np.dtype[Any] = np.dtype(np.float16)
_SINGLE: np.dtype[Any] = np.dtype(np.float32)


@implements(np.mean)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
    *, where: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The arithmetic mean over axes, as numpy.mean."""
    a = as_array(a)
    type_ = typeof(a)
    shape = type_.shape
    result = _sum_dtype(type_.dtype, dtype)
    summed = _SINGLE if dtype is None and result == _HALF else result
    if summed is not type_.dtype:
        a = cast(a, summed)
    axes = axes_of(axis, len(shape))
    count = _count(shape, axes, where)
    y = div(reduce_sum(only(a, where, 0), axes=axes), count)
    if result.kind in "iub" or summed is not result or type(count) is not int:
        y = cast(y, result)
    return y if keepdims is NO_VALUE or not keepdims else with_axes_kept(y, shape, axes)


def _degrees(ddof: Any, correction: Any) -> Any:
    if correction is NO_VALUE:
        return ddof
    if ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction


def squared_size(x: Any) -> Any:
    """|x|^2, a real number."""
    return real(mul(x, conj(x))) if typeof(x).dtype.kind == "c" else square(x)


@implements(np.var)
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE, mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The variance over axes, as numpy.var."""
    ddof = _degrees(ddof, correction)
    a = as_array(a)
    type_ = typeof(a)
    shape = type_.shape
    summed = _sum_dtype(type_.dtype, dtype)
    axes = axes_of(axis, len(shape))
    count = _count(shape, axes, where)
    if summed == _HALF and type(count) is int:  # which half precision may not hold
        count = np.float64(count)
    kept = tuple([1 if i in axes else n for i, n in enumerate(shape)])
    plain = summed.kind in "fc" and type(count) is int
    if mean is NO_VALUE:
        total = reduce_sum(only(cast(a, summed), where, 0), axes=axes)
        center = div(total, count)
        if not plain:
            center = cast(center, summed)
        if len(axes) < len(shape):
            center = reshape(center, shape=kept)
    else:
        center = as_array(mean)
    squares = squared_size(sub(a, center))
    if dtype is not None:
        squares = cast(squares, summed)
    total = reduce_sum(only(squares, where, 0), axes=axes)
    free = max(count - ddof, 0) if type(count) is int else maximum(sub(count, ddof), 0)
    y = div(total, free)
    if not plain:
        y = cast(y, typeof(total).dtype)
    return y if keepdims is NO_VALUE or not keepdims else reshape(y, shape=kept)


@implements(np.std)
def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE, mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The standard deviation over axes, as numpy.std; derivative 0 at constant data."""
    variance = registry.functions[np.var](
        a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction
    )
    kind = typeof(variance)
    if kind.inexact:
        return root(variance)
    if kind.shape:
        raise TypeError(f"Cannot cast ufunc 'sqrt' output from float64 to {kind.dtype}.")
    return cast(root(variance), kind.dtype)  # as NumPy does for dtype=int


def _weights(weights: Any, shape: tuple[int, ...], axis: Any, axes: Axes) -> Any:
    """Weights as an array that broadcasts against the averaged one, as numpy.average reads them."""
    weights = as_array(weights)
    given = shape_of(weights)
    if given == shape:
        return weights
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    if given != tuple([shape[i] for i in axes]):
        raise ValueError(
            "Shape of weights must be consistent with shape of a along specified axis."
        )
    order = sorted(range(len(axes)), key=axes.__getitem__)
    if order != list(range(len(axes))):
        weights = registry.functions[np.transpose](weights, tuple(order))
    return reshape(weights, shape=tuple([n if i in axes else 1 for i, n in enumerate(shape)]))


@implements(np.average)
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *,
    keepdims: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The weighted average over axes, as numpy.average."""
    a = as_array(a)
    shape = shape_of(a)
    axes = axes_of(axis, len(shape))
    if weights is None:
        result = mean(a, axis, keepdims=keepdims)
        if not returned:
            return result
        count = np.full(shape_of(result), math.prod([shape[i] for i in axes]), typeof(result).dtype)
        return result, count[()]
    weights = _weights(weights, shape, axis, axes)
    dtypes = [typeof(a).dtype, typeof(weights).dtype]
    if dtypes[0].kind in "iub":
        dtypes.append(np.dtype(np.float64))
    dtype = np.result_type(*dtypes)
    scale = sum(cast(weights, dtype), axes, keepdims=keepdims)
    result = div(sum(mul(cast(a, dtype), cast(weights, dtype)), axes, keepdims=keepdims), scale)
    if not returned:
        return result
    return result, broadcast_to(scale, shape=shape_of(result))


METHODS: dict[str, Any] = {
    "mean": registry.functions[np.mean],
    "var": registry.functions[np.var],
    "std": registry.functions[np.std],
}
"""ndarray's methods, by name."""

__all__ = ["average", "mean", "std", "var"]
