"""NumPy's gradient, integrals, interpolation and convolutions of sampled functions, for
traced values.

Compositions of primitives, with NumPy's formulas, so that the numbers are NumPy's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.numpy.differences import diff
from fungrad.numpy.join_split import concatenate
from fungrad.numpy.protocol.implements import implements
from fungrad.numpy.protocol.operands import array_of, axis_index, axis_indices, common_dtype
from fungrad.numpy.protocol.result_order import results_in_order
from fungrad.primitives import sort as s
from fungrad.primitives.contraction import convolution as convolving
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.gather import picked
from fungrad.primitives.movement.reshape_broadcast_cast import (
    cast,
    flip,
    reduce_sum,
    reshape,
    slice_axis,
)
from fungrad.tracing.trace import Tracer, shape_of


def _items(x: Any, axis: int, start: int | None, stop: int | None) -> Any:
    """The elements of an axis from `start` to `stop`, as of a slice."""
    length = shape_of(x)[axis]
    first, last, _ = slice(start, stop).indices(length)
    return slice_axis(x, axis=axis, start=first, stop=max(first, last))


# --- gradient -------------------------------------------------------------------------------------


def _spacing(varargs: Any, f: Any, axes: tuple[int, ...]) -> list[Any]:
    """For each axis its step, or its steps if they differ."""
    if not varargs:
        return [1.0] * len(axes)
    if len(varargs) == 1 and not shape_of(array_of(varargs[0])):
        return [*varargs] * len(axes)
    if len(varargs) != len(axes):
        raise TypeError("invalid number of arguments")
    steps = []
    for given, axis in zip(varargs, axes, strict=True):
        x = array_of(given)
        if not x.shape:
            steps.append(given)
            continue
        if len(x.shape) != 1:
            raise ValueError("distances must be either scalars or 1d")
        if x.shape[0] != shape_of(f)[axis]:
            raise ValueError(
                "when 1d, distances must match the length of the corresponding dimension"
            )
        step = diff(cast(x, np.float64) if x.dtype.kind in "iu" else x)
        even = type(step) is not Tracer and bool(np.all(step == step[0]))
        steps.append(step[0] if even else step)
    return steps


@implements(np.gradient)
@results_in_order("K")
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Differences of second order inside, of first or second at the edges, as numpy.gradient."""
    f = array_of(f)
    if f.dtype.kind == "b" and f.shape:
        raise TypeError("numpy boolean subtract, the `-` operator, is not supported.")
    if f.dtype.kind not in "fc":
        f = cast(f, np.float64)
    shape = shape_of(f)
    axes = tuple(range(len(shape))) if axis is None else axis_indices(axis, len(shape))
    steps = _spacing(varargs, f, axes)
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    results = []
    for axis, step in zip(axes, steps, strict=True):
        if shape[axis] < edge_order + 1:
            raise ValueError(
                "Shape of array too small to calculate a numerical gradient, at least (edge_order "
                "+ 1) elements are required."
            )
        results.append(cast(_slopes(f, axis, step, edge_order), f.dtype))
    return results[0] if len(results) == 1 else tuple(results)


def _slopes(f: Any, axis: int, step: Any, edge_order: int) -> Any:
    even = not shape_of(step)
    before, at, after = (_items(f, axis, *ends) for ends in ((0, -2), (1, -1), (2, None)))
    if even:
        inside = (after - before) / (2.0 * step)
        first = last = step
    else:
        wide = tuple([-1 if i == axis else 1 for i in range(len(shape_of(f)))])
        h, k = (np.reshape(part, wide) for part in (step[:-1], step[1:]))
        inside = -k / (h * (h + k)) * before + (k - h) / (h * k) * at + h / (k * (h + k)) * after
        first, last = step[0], step[-1]
    if edge_order == 1:
        left = (_items(f, axis, 1, 2) - _items(f, axis, 0, 1)) / first
        right = (_items(f, axis, -1, None) - _items(f, axis, -2, -1)) / last
    else:
        h, k = (step, step) if even else (step[0], step[1])
        left = _three(
            f, axis, 0, -(2 * h + k) / (h * (h + k)), (h + k) / (h * k), -h / (k * (h + k))
        )
        h, k = (step, step) if even else (step[-2], step[-1])
        right = _three(
            f, axis, -3, k / (h * (h + k)), -(k + h) / (h * k), (2 * k + h) / (k * (h + k))
        )
    return concatenate([left, inside, right], axis)


def _three(f: Any, axis: int, start: int, a: Any, b: Any, c: Any) -> Any:
    """a f[start] + b f[start + 1] + c f[start + 2]."""
    items = [_items(f, axis, i, i + 1 or None) for i in range(start, start + 3)]
    return a * items[0] + b * items[1] + c * items[2]


# --- integral and unwrapping ----------------------------------------------------------------------


@implements(*[getattr(np, name) for name in ("trapezoid", "trapz") if name in np.__all__])
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral of samples by the trapezoidal rule, as numpy.trapezoid."""
    y = array_of(y)
    ndim = len(y.shape)
    axis = axis_index(axis, ndim)
    step = dx
    if x is not None:
        x = array_of(x)
        step = diff(x, axis=0 if len(x.shape) == 1 else axis)
        if len(x.shape) == 1:
            step = reshape(step, shape=tuple([step.size if i == axis else 1 for i in range(ndim)]))
    terms = step * (_items(y, axis, 1, None) + _items(y, axis, None, -1)) / 2.0
    return reduce_sum(terms, axes=(axis,))


@implements(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Any:
    """Angles without jumps by more than half a period, as numpy.unwrap."""
    p = array_of(p)
    axis = axis_index(axis, len(p.shape))
    steps = diff(p, axis=axis)
    discont = period / 2 if discont is None else discont
    dtype = common_dtype(steps, period)
    high, ambiguous = period / 2, True
    if dtype.kind in "iu":
        high, rest = divmod(period, 2)
        ambiguous = rest == 0
    inside = np.mod(steps + high, period) - high
    if ambiguous:
        inside = select(np.logical_and(inside == -high, steps > 0), high, inside)
    correction = select(np.abs(steps) < discont, 0, inside - steps)
    moved = _items(p, axis, 1, None) + np.cumsum(correction, axis=axis)
    return concatenate([cast(_items(p, axis, 0, 1), dtype), cast(moved, dtype)], axis)


# --- interpolation --------------------------------------------------------------------------------


@implements(np.interp)
def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Piecewise linear interpolation, as numpy.interp; also differentiable by the points.

    At a point where the slope changes, the derivative with respect to x is the mean of both slopes.
    """
    x, xp, fp = (array_of(v) for v in (x, xp, fp))
    for v, widest in ((x, np.float64), (xp, np.float64), (fp, np.complex128)):
        if not np.can_cast(v.dtype, widest):
            raise TypeError(f"Cannot cast {v.dtype} to {np.dtype(widest)} by the rule 'safe'")
    x, xp = cast(x, np.float64), cast(xp, np.float64)
    fp = cast(fp, np.complex128 if fp.dtype.kind == "c" else np.float64)
    if len(xp.shape) != 1 or len(fp.shape) != 1:
        raise ValueError("Data points must be 1-D sequences")
    if xp.shape != fp.shape:
        raise ValueError("fp and xp are not of the same length.")
    if not xp.shape[0]:
        raise ValueError("array of sample points is empty")
    if period is not None:
        if type(period) is not Tracer and period == 0:
            raise ValueError("period must be a non-zero value")
        period = np.abs(period)
        left = right = None
        x, xp = x % period, xp % period
        order = s.argsort(xp, axis=0, kind=None)
        xp, fp = (s.permuted(v, order, axis=0) for v in (xp, fp))
        xp = concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = concatenate([fp[-1:], fp, fp[:1]])
    last = shape_of(xp)[0] - 1
    widths = diff(xp)
    flat = widths == 0
    slopes = select(flat, 0.0, diff(fp) / select(flat, 1.0, widths))
    none = np.zeros(1, fp.dtype)
    slopes = concatenate([none, slopes, none])
    after = s.searchsorted(xp, x, side="right")
    base = np.maximum(after - 1, 0)
    start = picked(xp, base)
    offset = x - start
    slope = picked(slopes, after)
    knot = np.logical_and(offset == 0, after > 0)
    slope = select(knot, (picked(slopes, base) + slope) * 0.5, slope)
    below, above = x < xp[0], x > xp[last]
    outside = np.logical_or(below, above)
    result = picked(fp, base) + slope * select(outside, 0.0, offset)
    result = select(np.isnan(x), x, result)
    if left is not None:
        result = select(below, array_of(left), result)
    return result if right is None else select(above, array_of(right), result)


# --- convolution ----------------------------------------------------------------------------------


def _mode(mode: Any) -> str:
    for name, number in (("valid", 0), ("same", 1), ("full", 2)):
        if mode == number or (isinstance(mode, str) and mode == name):
            return name
    raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")


def _vectors(a: Any, v: Any) -> tuple[Any, Any]:
    a, v = (reshape(x, shape=(1,)) if not x.shape else x for x in (array_of(a), array_of(v)))
    if len(a.shape) != 1 or len(v.shape) != 1:
        raise ValueError("object too deep for desired array")
    return a, v


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    """The convolution of two vectors, as numpy.convolve."""
    a, v = _vectors(a, v)
    if not a.size or not v.size:
        raise ValueError(f"{'a' if not a.size else 'v'} cannot be empty")
    if v.size > a.size:
        a, v = v, a
    return _cut(a, v, _mode(mode), (v.size - 1) // 2)


def _cut(a: Any, v: Any, mode: str, start: int) -> Any:
    """The convolution of a with a shorter v; "same" begins at `start` of the full one."""
    if mode != "same":
        return convolving.convolve_nd(a, v, axes=1, mode=mode)
    whole = convolving.convolve_nd(a, v, axes=1, mode="full")
    return slice_axis(whole, axis=0, start=start, stop=start + a.size)


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    """The correlation of two vectors, as numpy.correlate."""
    a, v = array_of(a), array_of(v)
    if not a.shape or not v.shape:
        raise ValueError("object of too small depth for desired array")
    a, v = _vectors(a, v)
    if not a.size or not v.size:
        raise ValueError(f"{'first' if not a.size else 'second'} array argument cannot be empty")
    v = flip(np.conj(v), axes=(0,)) if v.dtype.kind == "c" else flip(v, axes=(0,))
    if v.size > a.size:
        return _cut(v, a, _mode(mode), a.size // 2)
    return _cut(a, v, _mode(mode), (v.size - 1) // 2)


__all__ = ["convolve", "correlate", "gradient", "interp", "trapezoid", "unwrap"]
