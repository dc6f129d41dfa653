"""Floor 8: mean, var, std and average of traced values, with NumPy's signatures and dtypes.

Integers are averaged as float64, float16 is summed as float32 where NumPy does so. The standard deviation
of constant data, where it has a kink, has derivative 0 (docs/kinks.md).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.numpy.axes import axes_of, with_axes_kept
from fungrad.numpy.reductions import as_truth, only, sum
from fungrad.numpy.wrap import NO_VALUE, as_array, implements, refuse
from fungrad.primitives.elementwise import div, eq, mul, select, sub
from fungrad.primitives.shaping import broadcast_to, cast, conj, reduce_sum, reshape
from fungrad.primitives.ufuncs import maximum, real, sqrt, square
from fungrad.tracing.trace import registry, shape_of, typeof

Axes = tuple[int, ...]


def _count(shape: tuple[int, ...], axes: Axes, where: Any) -> Any:
    """How many elements are averaged: a number, or an array of them under a mask."""
    if where is NO_VALUE or where is True:
        return math.prod([shape[i] for i in axes])
    return reduce_sum(broadcast_to(as_truth(where), shape=shape), axes=axes)


def _quotient(total: Any, count: Any) -> Any:
    """total / count in the dtype of the total."""
    return cast(div(total, count), typeof(total).dtype)


def _sum_dtype(a: Any, dtype: Any) -> np.dtype[Any] | None:
    """The dtype that averages are made in, where it is not that of the array."""
    if dtype is not None:
        return np.dtype(dtype)
    return np.dtype(np.float64) if typeof(a).dtype.kind in "iub" else None


@implements(np.mean)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
    *, where: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The arithmetic mean over axes, as numpy.mean."""
    if out is not None:
        refuse("numpy.mean", out=out)
    a = as_array(a)
    wanted = _sum_dtype(a, dtype)
    half = wanted is None and typeof(a).dtype == np.float16
    if half:
        wanted = np.dtype(np.float32)
    if wanted is not None:
        a = cast(a, wanted)
    shape = shape_of(a)
    axes = axes_of(axis, len(shape))
    count = _count(shape, axes, where)
    y = div(reduce_sum(only(a, where, 0), axes=axes), count)
    if half:
        y = cast(y, np.float16)
    elif dtype is not None or count.__class__ is not int:
        y = cast(y, typeof(a).dtype if dtype is None else dtype)
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
    refuse("numpy.var", out=out)
    ddof = _degrees(ddof, correction)
    a = as_array(a)
    wanted = _sum_dtype(a, dtype)
    shape = shape_of(a)
    axes = axes_of(axis, len(shape))
    count = _count(shape, axes, where)
    kept = tuple([1 if i in axes else n for i, n in enumerate(shape)])
    if mean is NO_VALUE:
        summed = a if wanted is None else cast(a, wanted)
        total = reduce_sum(only(summed, where, 0), axes=axes)
        center = reshape(_quotient(total, count), shape=kept)
    else:
        center = as_array(mean)
    squares = squared_size(sub(a, center))
    if wanted is not None:
        squares = cast(squares, wanted)
    total = reduce_sum(only(squares, where, 0), axes=axes)
    if count.__class__ is int:
        free = max(count - ddof, 0)
    else:
        free = maximum(sub(count, ddof), 0)
    y = _quotient(total, free)
    return y if keepdims is NO_VALUE or not keepdims else reshape(y, shape=kept)


def root(variance: Any) -> Any:
    """The square root with derivative 0 at 0."""
    zero = eq(variance, 0)
    return select(zero, 0, sqrt(select(zero, 1, variance)))


@implements(np.std)
def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE, mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The standard deviation over axes, as numpy.std; its derivative is 0 where the data are constant."""
    refuse("numpy.std", out=out)
    variance = registry.functions[np.var]
    return root(
        variance(
            a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction
        )
    )


def _weights(weights: Any, shape: tuple[int, ...], axis: Any, axes: Axes) -> Any:
    """Weights as an array that broadcasts against the averaged one, as numpy.average reads them."""
    weights = as_array(weights)
    found = shape_of(weights)
    if found == shape:
        return weights
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    if found != tuple([shape[i] for i in axes]):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    order = sorted(range(len(axes)), key=axes.__getitem__)
    if order != list(range(len(axes))):
        weights = registry.functions[np.transpose](weights, tuple(order))
    return reshape(weights, shape=tuple([n if i in axes else 1 for i, n in enumerate(shape)]))


@implements(np.average)
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *,
    keepdims: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The weighted average over axes, as numpy.average (which raises where the weights sum to zero)."""
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
