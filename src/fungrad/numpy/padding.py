"""np.pad for traced values: every mode, one axis after another, as in NumPy.

A border of copies is read by an index; one of other values is concatenated, and has their
derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.numpy.creation import linspace
from fungrad.numpy.protocol.implements import implements, known, of_arrays
from fungrad.numpy.protocol.operands import are_zeros, array_of, axis_index
from fungrad.numpy.protocol.result_order import results_in_order
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement.gather import ARRAY, Index, getitem
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.tracing.aliasing import private
from fungrad.tracing.trace import Tracer, is_integer

Pair = tuple[Any, Any]
"""A value for the border before an axis, and one for the border after it."""

_OPTIONS = {
    "constant": "constant_values", "edge": "", "empty": "", "linear_ramp": "end_values",
    "maximum": "stat_length", "mean": "stat_length", "median": "stat_length",
    "minimum": "stat_length", "reflect": "reflect_type", "symmetric": "reflect_type", "wrap": "",
}  # fmt: skip
"""The modes, and the one option that each takes."""

_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": np.max, "mean": np.mean, "median": np.median, "minimum": np.min,
}  # fmt: skip


@implements(np.pad)
@of_arrays
@results_in_order("A")
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """The array with a border, as np.pad.

    mode="empty" pads with zeros. A function as the mode writes into vectors: it gets them as arrays
    of objects, whose items are traced.
    """
    x = private(array_of(array))
    widths = _widths(pad_width, len(x.shape))
    if callable(mode):
        return _by_function(x, widths, mode, kwargs)
    if mode not in _OPTIONS:
        raise ValueError(f"mode '{mode}' is not supported")
    if set(kwargs) - {_OPTIONS[mode]}:
        wrong = set(kwargs) - {_OPTIONS[mode]}
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {wrong}")
    if mode == "constant":
        return _by_constants(x, widths, kwargs.get("constant_values", 0))
    if mode == "empty":
        return s.pad(x, widths=tuple(widths)) if any(map(any, widths)) else x
    for axis, width in enumerate(widths):
        if not x.shape[axis] and any(width):
            raise ValueError(
                f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'"
            )
    if not x.size:
        return s.pad(x, widths=tuple(widths))
    if mode in _STATISTICS:
        return _by_statistics(x, widths, _STATISTICS[mode], kwargs.get("stat_length"))
    if mode == "linear_ramp":
        return _by_ramps(x, widths, kwargs.get("end_values", 0))
    odd = kwargs.get("reflect_type", "even") == "odd"
    for axis, width in enumerate(widths):
        if width == (0, 0):
            continue
        if odd and x.shape[axis] > 1:
            x = _reflected(x, axis, width, mode == "symmetric")
        else:
            x = _taken(x, axis, np.pad(np.arange(x.shape[axis]), width, mode=mode))
    return x


_RUNS = 5
"""The most runs of positions that are joined: a border on both sides, of one period each."""


def _taken(x: Any, axis: int, positions: Any) -> Any:
    """The items of x at some positions along an axis: as slices, if they are in few runs."""
    runs = _runs(positions.tolist())
    if len(runs) > _RUNS:
        return getitem(x, positions, index=Index((*[slice(None)] * axis, ARRAY)))
    parts = []
    for first, count, step in runs:
        leading = (slice(None),) * axis
        if step:
            stop = first + step * count
            parts.append(x[(*leading, slice(first, stop if stop >= 0 else None, step))])
        else:
            one = x[(*leading, slice(first, first + 1))]
            shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
            parts.append(s.broadcast_to(one, shape=shape))
    return s.concatenate(*parts, axis=axis)


def _runs(positions: list[int]) -> list[tuple[int, int, int]]:
    """Positions as runs of one step, -1, 0 or 1: the first, the number, and the step."""
    runs, first = list[tuple[int, int, int]](), 0
    while first < len(positions):
        last, step = first + 1, 1
        if last < len(positions) and abs(positions[last] - positions[first]) <= 1:
            step = positions[last] - positions[first]
            while last < len(positions) and positions[last] - positions[last - 1] == step:
                last += 1
        runs.append((positions[first], last - first, step))
        first = last
    return runs


# --- arguments as pairs for each axis -------------------------------------------------------------


def _widths(width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(width, dict):
        pairs = [(0, 0)] * ndim
        for axis, given in width.items():
            before, after = (given, given) if is_integer(given) else given
            pairs[axis_index(axis, ndim)] = (before, after)
        return pairs
    widths = np.asarray(known(width, "the pad_width of np.pad"))
    if widths.dtype.kind != "i":
        raise TypeError("`pad_width` must be of integral type.")
    if np.any(widths < 0):
        raise ValueError("index can't contain negative values")
    return [(int(before), int(after)) for before, after in np.broadcast_to(widths, (ndim, 2))]


def _pairs(values: Any, ndim: int) -> list[Pair]:
    """Values for each border of each axis, one for all, or a pair for all axes."""
    values = array_of(values)
    if np.size(values) == 1:
        return [(s.reshape(values, shape=()),) * 2] * ndim
    wide = s.broadcast_to(values, shape=(ndim, 2))
    if type(values) is Tracer or values.shape in ((2,), (1, 2)):
        return [(wide[axis, 0], wide[axis, 1]) for axis in range(ndim)]
    return [(before, after) for before, after in np.broadcast_to(values, (ndim, 2)).tolist()]


def _joined(x: Any, axis: int, before: Any, after: Any) -> Any:
    """x between two borders, in its own dtype."""
    return s.concatenate(cast(before, x.dtype), x, cast(after, x.dtype), axis=axis)


def _spread(value: Any, x: Any, axis: int, width: int) -> Any:
    """A border of a width, of one value, or of one for each line along the axis."""
    shape = (*x.shape[:axis], width, *x.shape[axis + 1 :])
    return s.broadcast_to(cast(value, x.dtype), shape=shape)


# --- borders --------------------------------------------------------------------------------------


def _by_constants(x: Any, widths: list[tuple[int, int]], values: Any) -> Any:
    values = array_of(values)
    if not any(map(any, widths)):
        return x
    if are_zeros(values):
        return s.pad(x, widths=tuple(widths))
    for axis, (width, pair) in enumerate(zip(widths, _pairs(values, len(widths)), strict=True)):
        before, after = (_spread(v, x, axis, w) for v, w in zip(pair, width, strict=True))
        x = _joined(x, axis, before, after)
    return x


def _part(x: Any, axis: int, start: int, stop: int) -> Any:
    return s.slice_axis(x, axis=axis, start=start, stop=stop)


_EXTREMES = (np.max, np.min)


def _by_statistics(
    x: Any, widths: list[tuple[int, int]], function: Callable[..., Any], lengths: Any
) -> Any:
    pairs: list[Pair] = [(None, None)] * len(widths)
    if lengths is not None:
        given = np.round(known(lengths, "the stat_length of np.pad")).astype(np.intp)
        if np.any(given < 0):
            raise ValueError("index can't contain negative values")
        pairs = [(int(a), int(b)) for a, b in np.broadcast_to(given, (len(widths), 2))]
    for axis, (width, pair) in enumerate(zip(widths, pairs, strict=True)):
        whole = x.shape[axis]
        first, last = (whole if n is None else min(n, whole) for n in pair)
        if 0 in (first, last) and function in _EXTREMES:
            raise ValueError("stat_length of 0 yields no value for padding")
        before = _statistic(x, function, axis, 0, first)
        after = before
        if not first == last == whole:
            after = _statistic(x, function, axis, whole - last, whole)
        x = _joined(x, axis, _spread(before, x, axis, width[0]), _spread(after, x, axis, width[1]))
    return x


def _statistic(x: Any, function: Callable[..., Any], axis: int, start: int, stop: int) -> Any:
    statistic = function(_part(x, axis, start, stop), axis=axis, keepdims=True)
    return np.round(statistic) if x.dtype.kind in "iu" else statistic


def _by_ramps(x: Any, widths: list[tuple[int, int]], ends: Any) -> Any:
    for axis, (width, pair) in enumerate(zip(widths, _pairs(ends, len(widths)), strict=True)):
        edges = x[(slice(None),) * axis + (0,)], x[(slice(None),) * axis + (-1,)]
        before, after = (
            linspace(end, edge, n, endpoint=False, dtype=x.dtype, axis=axis)
            for end, edge, n in zip(pair, edges, width, strict=True)
        )
        x = _joined(x, axis, before, s.flip(after, axes=(axis,)))
    return x


def _reflected(x: Any, axis: int, width: tuple[int, int], with_edge: bool) -> Any:
    """Padded by reflection at both ends, repeatedly if the width needs it."""
    period = x.shape[axis] if with_edge else x.shape[axis] - 1
    left, right = width
    while left or right:
        length = x.shape[axis]
        first, last = _part(x, axis, 0, 1), _part(x, axis, length - 1, length)
        whole = (length if with_edge else length - 1) // period * period
        skipped = 0 if with_edge else 1
        before, after = min(whole, left), min(whole, right)
        stop = length - skipped
        front = s.flip(_part(x, axis, skipped, skipped + before), axes=(axis,))
        back = s.flip(_part(x, axis, stop - after, stop), axes=(axis,))
        x = _joined(x, axis, 2 * first - front, 2 * last - back)
        left, right = left - before, right - after
    return x


def _by_function(
    x: Any, widths: list[tuple[int, int]], function: Callable[..., Any], options: dict[str, Any]
) -> Any:
    x = s.pad(x, widths=tuple(widths))
    dtype = x.dtype
    for axis, width in enumerate(widths):
        last = len(x.shape) - 1
        moved = s.moveaxis(x, axis, last)
        rows = np.empty(moved.shape, object)
        for index in np.ndindex(moved.shape):
            rows[index] = moved[index]
        for index in np.ndindex(moved.shape[:-1]):
            function(rows[index], width, axis, options)
        if rows.size:
            x = s.moveaxis(cast(array_of(rows), dtype), last, axis)
    return x


__all__ = ["pad"]
