"""Splines on regular grids, as in scipy.ndimage: the filter that computes their coefficients, and
their values at coordinates.

The filter is a linear recursion in both directions (Unser, Splines: a perfect fit for signal and
image processing, 1999; Briand & Monasse, Theory and practice of image B-spline interpolation,
2018).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.numpy.protocol.operands import axis_indices
from fungrad.primitives.movement.gather import picked
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.reduction.cumulative import linear_recurrence
from fungrad.scipy.ndimage.filters import PADDING, padded, prepared
from fungrad.tracing.trace import shape_of

_PREPADDING = 12
"""The number of elements that SciPy adds if a boundary has no exact filter."""


def _poles(order: int) -> list[float]:
    if order == 2:
        return [math.sqrt(8.0) - 3.0]
    if order == 3:
        return [math.sqrt(3.0) - 2.0]
    inner, outer, last = (
        (math.sqrt(438976.0), math.sqrt(304.0), 19.0)
        if order == 4
        else (math.sqrt(4436.25), math.sqrt(26.25), 6.5)
    )
    base = 664.0 if order == 4 else 67.5
    return [math.sqrt(base - inner) + outer - last, math.sqrt(base + inner) - outer - last]


def check_order(order: int, least: int = 0) -> None:
    """Raises SciPy's RuntimeError if the order of a spline is invalid."""
    if not least <= order <= 5:
        raise RuntimeError("spline order not supported")


def _ends(kind: str, n: int, z: float) -> tuple[Any, Any, Any]:
    """The weights of elements for the first causal result, those of causal results for the last
    coefficient, and the scale of the latter.
    """
    powers: Any = z ** np.arange(n)
    last = np.zeros(n)
    if kind == "wrap":
        first = np.roll(powers[::-1], 1) / (1.0 - z**n)
        last[:] = powers * z
        last[-1] = 1.0
        return first, last, z / (z**n - 1.0)
    if kind == "reflect":
        both = powers + z**n * powers[::-1]
        first = both * z / (1.0 - z ** (2 * n))
        first[0] += 1.0
        last[-1] = 1.0
        return first, last, z / (z - 1.0)
    first = 1.0 * powers
    first[1:-1] += (z ** (2 * (n - 1) - np.arange(n)))[1:-1]
    first /= 1.0 - z ** (2 * (n - 1))
    last[-2:] = z, 1.0
    return first, last, z / (z * z - 1.0)


def _filtered(x: Any, order: int, kind: str) -> Any:
    """The coefficients along the last axis."""
    n = shape_of(x)[-1]
    if n < 2 or order < 2:
        return x
    poles = _poles(order)
    x = x * math.prod((1.0 - z) * (1.0 - 1.0 / z) for z in poles)
    factor = np.dtype(x.dtype).type
    for z in poles:
        first, last, scale = _ends(kind, n, z)
        decay = np.full(shape_of(x), z, factor)
        start = np.sum(x * first, axis=-1, keepdims=True)
        causal = linear_recurrence(
            decay, np.concatenate([start, x[..., 1:]], axis=-1), axis=len(shape_of(x)) - 1
        )
        end = scale * np.sum(causal * last, axis=-1, keepdims=True)
        x = linear_recurrence(
            decay, np.concatenate([-z * causal[..., :-1], end], axis=-1),
            axis=len(shape_of(x)) - 1, reverse=True,
        )  # fmt: skip
    return x


def _boundary(mode: str) -> str:
    if mode not in PADDING:
        raise RuntimeError("boundary mode not supported")
    if mode == "grid-wrap":
        return "wrap"
    return "reflect" if mode in ("reflect", "grid-mirror", "nearest") else "mirror"


def spline_filter1d(
    input: Any, order: int = 3, axis: int = -1, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """The coefficients of a spline along an axis, as scipy.ndimage.spline_filter1d.

    Args:
      input: an array. order: 2 to 5; 0 and 1 change nothing. axis: the axis. output: a dtype.
      mode: the continuation of the spline outside.

    >>> np.round(spline_filter1d(np.array([0.0, 1.0, 0.0])), 6)
    array([-1.,  2., -1.])
    """
    check_order(order)
    x, dtype = prepared("spline_filter1d", input, output)
    axis = axis_indices(axis, len(shape_of(x)))[0] if shape_of(x) else 0
    if not shape_of(x):
        return cast(x, dtype)
    coefficients = _filtered(np.moveaxis(x, axis, -1), order, _boundary(mode))
    return cast(np.moveaxis(coefficients, -1, axis), dtype)


def spline_filter(
    input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """The coefficients of a spline along all axes, as scipy.ndimage.spline_filter.

    Args:
      input: an array. order: 2 to 5; 0 and 1 change nothing.
      output: a dtype. mode: the continuation of the spline outside.

    >>> spline_filter(np.ones((3, 3)))[1]
    array([1., 1., 1.])
    """
    check_order(order, 2)
    x, dtype = prepared("spline_filter", input, output)
    for axis in range(len(shape_of(x))):
        x = spline_filter1d(x, order, axis, None, mode)
    return cast(x, dtype)


def coefficients(
    x: Any, order: int, mode: str, cval: Any, prefilter: bool, axes: int
) -> tuple[Any, int]:
    """(the coefficients along the first axes, the number of elements added before each)."""
    if not prefilter or order < 2:
        return x, 0
    added = 0
    if mode in ("nearest", "grid-constant"):
        added = _PREPADDING
        widths = [(added, added)] * axes + [(0, 0)] * (len(shape_of(x)) - axes)
        x = padded(x, widths, mode, cval)
    for axis in range(axes):
        x = spline_filter1d(x, order, axis, None, mode)
    return x, added


# --- values at coordinates ------------------------------------------------------------------------


def _mapped(at: Any, n: int, mode: str) -> Any:
    """Coordinates mapped into the grid of n elements, as the boundary continues."""
    if mode in ("constant", "grid-constant", "nearest"):
        return at
    if n < 2:
        return at * 0.0
    if mode == "mirror":
        inside = np.mod(at, 2.0 * n - 2.0)
        return np.where(inside <= n - 1, inside, 2.0 * n - 2.0 - inside)
    if mode in ("reflect", "grid-mirror"):
        inside = np.mod(at + 0.5, 2.0 * n) - 0.5
        return np.where(inside <= n - 0.5, inside, 2.0 * n - 1.0 - inside)
    if mode == "wrap":  # both ends are one element
        below = at + (n - 1.0) * (np.floor(-at / (n - 1.0)) + 1.0)
        above = at - (n - 1.0) * np.floor(at / (n - 1.0))
        return np.where(at < 0, below, np.where(at > n - 1, above, at))
    return np.mod(at, float(n))


def _indices(indices: Any, n: int, mode: str) -> Any:
    """Integer positions mapped into the grid, as the spline's coefficients continue."""
    if n < 2:
        return indices * 0
    if mode == "grid-wrap":
        return np.mod(indices, n)
    if mode in ("reflect", "grid-mirror"):
        inside = np.mod(indices, 2 * n)
        return np.where(inside < n, inside, 2 * n - 1 - inside)
    if mode in ("nearest", "grid-constant"):
        return np.clip(indices, 0, n - 1)
    inside = np.mod(indices, 2 * n - 2)
    return np.where(inside < n, inside, 2 * n - 2 - inside)


def basis(t: Any, order: int) -> list[Any]:
    """The order + 1 B-splines that are not zero at t in [0, 1) of a cell (Cox & de Boor)."""
    values = [np.ones_like(t)]
    for k in range(1, order + 1):
        rows = []
        for j in range(k + 1):
            left = (t + (k - j)) / k * values[j - 1] if j else 0.0
            right = (1 + j - t) / k * values[j] if j < k else 0.0
            rows.append(left + right)
        values = rows
    return values


def along_axis(at: Any, n: int, order: int, mode: str) -> tuple[Any, Any, Any]:
    """(indices, weights, flags of indices inside) for coordinates along an axis of n elements.

    indices and weights have one more axis, the first, of order + 1 entries.
    """
    mapped = _mapped(at, n, mode)
    start = np.floor(mapped if order % 2 else mapped + 0.5)
    fraction = mapped - start if order % 2 else mapped + 0.5 - start
    weights = np.stack(basis(fraction, order))
    steps = np.arange(order + 1) - order // 2
    first = cast(start, np.dtype(np.int64))
    indices = first + np.reshape(steps, (-1, *(1,) * len(shape_of(at))))
    inside: Any = None
    if mode == "constant":
        inside = np.logical_and(at >= 0, at <= n - 1)
    elif mode == "grid-constant":
        inside = np.logical_and(indices >= 0, indices <= n - 1)
    return _indices(indices, n, mode), weights, inside


def sampled(
    x: Any, coordinates: Sequence[Any], order: int, mode: str, cval: Any, added: int
) -> Any:
    """The spline with coefficients x at coordinates, one array for each of its first axes."""
    count = len(coordinates)
    shape, points = shape_of(x), len(shape_of(coordinates[0]))
    rest = len(shape) - count
    rows = [
        along_axis(at + added, n, order, mode)
        for at, n in zip(coordinates, shape[:count], strict=True)
    ]
    index = []
    for axis, (indices, _, _) in enumerate(rows):
        lead = [1] * count
        lead[axis] = order + 1
        index.append(np.reshape(indices, (*lead, *shape_of(indices)[1:])))
    values = picked(x, *index)
    if mode == "grid-constant":
        for axis, (_, _, inside) in enumerate(rows):
            lead = [1] * count
            lead[axis] = order + 1
            known = np.reshape(inside, (*lead, *shape_of(inside)[1:], *(1,) * rest))
            values = np.where(known, values, cval)
    for axis, (_, weights, _) in enumerate(rows):
        trailing = (1,) * (count - 1 - axis)
        shaped = (order + 1, *trailing, *shape_of(weights)[1:], *(1,) * rest)
        values = np.sum(values * np.reshape(weights, shaped), axis=0)
    if mode == "constant":
        inside = rows[0][2]
        for _, _, other in rows[1:]:
            inside = np.logical_and(inside, other)
        values = np.where(np.reshape(inside, (*shape_of(inside), *(1,) * rest)), values, cval)
    assert len(shape_of(values)) == points + rest
    return values
