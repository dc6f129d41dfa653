"""Interpolation of values on a grid of several axes, and interp1d, as in scipy.interpolate.

Every method is linear in the values, so each axis is a matrix of weights, or a cell of two points.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.custom_rules.closures_and_arguments import valueless
from fungrad.errors import UnsupportedArgumentError
from fungrad.numpy.protocol.implements import known
from fungrad.numpy.protocol.operands import axis_index, float64_of, inexact_of
from fungrad.primitives.movement.gather import picked
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.interpolate.splines import CubicSpline, make_interp_spline
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of

_DEGREES = {"slinear": 1, "cubic": 3, "quintic": 5}


def _cells(grid: Any, x: Any) -> tuple[Any, Any]:
    """(the cell of each x, the position in it relative to the cell's length)."""
    last = max(shape_of(grid)[0] - 2, 0)
    cell = np.searchsorted(stop_gradient(grid), stop_gradient(x), side="right") - 1
    cell = np.clip(cell, 0, last)
    if shape_of(grid)[0] == 1:
        return cell, x * 0.0
    start = picked(grid, cell)
    return cell, (x - start) / (picked(grid, cell + 1) - start)


class RegularGridInterpolator:
    """Interpolation on a rectilinear grid, as scipy.interpolate.RegularGridInterpolator.

    Differentiable by the grid, the values and the points of evaluation. At a grid point "linear"
    has the slope of the cell that begins there; "nearest" has slope 0.

    Args:
      points: a vector for each axis, strictly ascending or descending. values: shape (m1, ..., mn,
        ...). method: "linear", "nearest", "slinear", "cubic" or "quintic". bounds_error: whether
        points outside are an error, where they are known; they are not under jit and vmap, and get
        fill_value. fill_value: a number, or None to extrapolate.

    >>> f = RegularGridInterpolator((np.arange(2.0), np.arange(3.0)), np.arange(6.0).reshape(2, 3))
    >>> f([[0.5, 1.5]])
    array([3.])
    """

    def __init__(
        self, points: Sequence[Any], values: Any, method: str = "linear", bounds_error: bool = True,
        fill_value: Any = np.nan,
    ) -> None:  # fmt: skip
        _check_method(method)
        self.method, self.bounds_error = method, bounds_error
        self.values = inexact_of(values)
        self.fill_value = fill_value
        if len(points) > len(shape_of(self.values)):
            raise ValueError(
                f"There are {len(points)} point arrays, but values has "
                f"{len(shape_of(self.values))} dimensions"
            )
        self.grid = []
        for axis, given in enumerate(points):
            line = float64_of(given)
            if len(shape_of(line)) != 1:
                raise ValueError(f"The points in dimension {axis} must be 1-dimensional")
            if shape_of(line)[0] != shape_of(self.values)[axis]:
                raise ValueError(
                    f"There are {shape_of(line)[0]} points and {shape_of(self.values)[axis]} "
                    f"values on dimension {axis}"
                )
            self.grid.append(self._ascending(line, axis))

    def _ascending(self, line: Any, axis: int) -> Any:
        if valueless():
            return line
        steps = np.diff(known(stop_gradient(line), "points"))
        if np.all(steps > 0):
            return line
        if np.all(steps < 0):
            self.values = np.flip(self.values, axis)
            return line[::-1]
        raise ValueError(f"The points in dimension {axis} must be strictly ascending or descending")

    def __call__(self, xi: Any, method: str | None = None) -> Any:
        """The values at points xi, of shape (..., n)."""
        method = self.method if method is None else method
        _check_method(method)
        at, ndim = _points(xi, len(self.grid)), len(self.grid)
        if shape_of(at)[-1] != ndim:
            raise ValueError(
                f"The requested sample points xi have dimension {shape_of(at)[-1]} but this "
                f"RegularGridInterpolator has dimension {ndim}"
            )
        lead = shape_of(at)[:-1]
        rows = [np.reshape(at[..., i], (-1,)) for i in range(ndim)]
        outside = self._outside(rows)
        if method in ("linear", "nearest"):
            value = self._in_cells(rows, method)
        else:
            value = self._by_weights(rows, _DEGREES[method])
        rest = shape_of(self.values)[ndim:]
        wide = (-1, *(1,) * len(rest))
        if self.fill_value is not None:
            value = np.where(np.reshape(outside, wide), self.fill_value, value)
        missing = rows[0] != rows[0]
        for row in rows[1:]:
            missing = np.logical_or(missing, row != row)
        value = np.where(np.reshape(missing, wide), np.nan, value)
        return np.reshape(value, (*lead, *rest))

    def _outside(self, rows: Sequence[Any]) -> Any:
        total: Any = False
        for axis, (line, row) in enumerate(zip(self.grid, rows, strict=True)):
            beyond = np.logical_or(row < line[0], row > line[-1])
            if self.bounds_error and not valueless() and np.any(known(beyond, "xi")):
                raise ValueError(f"One of the requested xi is out of bounds in dimension {axis}")
            total = np.logical_or(total, beyond)
        return total

    def _in_cells(self, rows: Sequence[Any], method: str) -> Any:
        cells = [_cells(line, row) for line, row in zip(self.grid, rows, strict=True)]
        if method == "nearest":
            indices = [np.where(part <= 0.5, cell, cell + 1) for cell, part in cells]
            return picked(self.values, *indices)
        wide = (-1, *(1,) * (len(shape_of(self.values)) - len(rows)))
        total: Any = 0.0
        for corner in itertools.product((0, 1), repeat=len(rows)):
            weight: Any = 1.0
            indices = []
            for side, (cell, part), line in zip(corner, cells, self.grid, strict=True):
                weight = weight * (part if side else 1.0 - part)
                indices.append(np.minimum(cell + side, shape_of(line)[0] - 1))
            total = total + np.reshape(weight, wide) * picked(self.values, *indices)
        return total

    def _by_weights(self, rows: Sequence[Any], degree: int) -> Any:
        value = self.values
        for axis, (line, row) in enumerate(zip(self.grid, rows, strict=True)):
            weights = make_interp_spline(line, np.eye(shape_of(line)[0]), degree)(row)
            weights = cast(weights, np.result_type(value.dtype, np.float64))
            letters = "pi,i...->p..." if axis == 0 else "pi,pi...->p..."
            value = np.einsum(letters, weights, value)
        return value


def _check_method(method: Any) -> None:
    if method in ("linear", "nearest", *_DEGREES):
        return
    if method in ("pchip", "splinef2d"):
        raise UnsupportedArgumentError(
            f"The method {method!r} on a grid{user_line()} is not supported: use 'cubic', or "
            "PchipInterpolator axis by axis."
        )
    raise ValueError(f"Method '{method}' is not defined")


def _points(xi: Any, ndim: int) -> Any:
    """Points as one array: given as one, or as a tuple with one array for each axis."""
    if isinstance(xi, tuple):
        parts = np.broadcast_arrays(*[float64_of(x) for x in xi])
        return np.stack(parts, axis=-1)
    at = float64_of(xi)
    return np.reshape(at, (-1, ndim)) if len(shape_of(at)) == 1 else at


def interpn(
    points: Sequence[Any], values: Any, xi: Any, method: str = "linear", bounds_error: bool = True,
    fill_value: Any = np.nan,
) -> Any:  # fmt: skip
    """Interpolation on a rectilinear grid, as scipy.interpolate.interpn.

    Args:
      points: the grid, a vector of coordinates for each of its axes. values: those at the grid's
        points; further axes are kept.
      xi: the points, along the last axis.
      method, bounds_error, fill_value: as for RegularGridInterpolator.

    >>> interpn((np.arange(3.0),), np.array([0.0, 1.0, 4.0]), np.array([1.5]))
    array([2.5])
    """
    made = RegularGridInterpolator(points, values, method, bounds_error, fill_value)
    return made(xi)


class interp1d:
    """Interpolation along one axis, as scipy.interpolate.interp1d.

    Differentiable by x, y and the points of evaluation; where the slope of "linear" changes, the
    derivative is the mean of both slopes.

    Args:
      x: points; sorted unless assume_sorted. y: values; axis: their axis along x.
      kind: "linear", "nearest", "nearest-up", "previous", "next" or "cubic". copy: taken and
        ignored. bounds_error: whether points outside are an error, where they are known; by default
        unless fill_value is given. fill_value: a number, a pair (below, above) or "extrapolate".

    >>> interp1d([0.0, 1.0, 2.0], [0.0, 1.0, 4.0])([0.5, 1.5])
    array([0.5, 2.5])
    """

    def __init__(
        self, x: Any, y: Any, kind: str = "linear", axis: int = -1, copy: bool = True,
        bounds_error: bool | None = None, fill_value: Any = np.nan, assume_sorted: bool = False,
    ) -> None:  # fmt: skip
        if kind not in ("linear", "nearest", "nearest-up", "previous", "next", "cubic"):
            raise NotImplementedError(
                f"{kind} is unsupported: Use fitpack routines for other types."
            )
        x, y = float64_of(x), inexact_of(y)
        axis = axis_index(axis, len(shape_of(y)))
        if len(shape_of(x)) != 1:
            raise ValueError("the x array must have exactly one dimension.")
        y = np.moveaxis(y, axis, 0)
        if shape_of(x)[0] != shape_of(y)[0]:
            raise ValueError("x and y arrays must be equal in length along interpolation axis.")
        if not assume_sorted:
            order = np.argsort(stop_gradient(x), kind="stable")
            x, y = x[order], y[order]
        self.x, self.kind, self.axis, self._y = x, kind, axis, y
        self._extrapolate = isinstance(fill_value, str) and fill_value == "extrapolate"
        self.fill_value = fill_value
        given = self._extrapolate or not (np.isscalar(fill_value) and fill_value != fill_value)
        self.bounds_error = bool((not given) if bounds_error is None else bounds_error)
        if self._extrapolate and bounds_error:
            raise ValueError("Cannot extrapolate and raise at the same time.")

    def __call__(self, x: Any) -> Any:
        """The values at x, of any shape."""
        at = float64_of(x)
        points = len(shape_of(at))
        wide = (*shape_of(at), *(1,) * (len(shape_of(self._y)) - 1))
        value = self._inside(at, wide)
        below, above = at < self.x[0], at > self.x[-1]
        if self.bounds_error and not valueless():
            for side, name in ((below, "below"), (above, "above")):
                if np.any(known(side, "x")):
                    raise ValueError(f"A value in x is {name} the interpolation range's bounds.")
        if not self._extrapolate:
            fills = self.fill_value
            low, high = fills if isinstance(fills, tuple) else (fills, fills)
            value = np.where(np.reshape(below, wide), low, value)
            value = np.where(np.reshape(above, wide), high, value)
        value = np.where(np.reshape(at != at, wide), np.nan, value)
        where = tuple(range(self.axis, self.axis + points))
        return np.moveaxis(value, tuple(range(points)), where)

    def _inside(self, at: Any, wide: tuple[int, ...]) -> Any:
        x, y, last = self.x, self._y, shape_of(self.x)[0] - 1
        if self.kind == "cubic":
            return CubicSpline(x, y)(at)
        left = np.searchsorted(stop_gradient(x), stop_gradient(at), side="left")
        right = np.searchsorted(stop_gradient(x), stop_gradient(at), side="right")
        if self.kind == "linear":
            sides = [self._line(np.clip(cell, 1, last), at, wide) for cell in (left, right)]
            return 0.5 * (sides[0] + sides[1])
        if self.kind == "next":
            return np.where(np.reshape(at > x[-1], wide), np.nan, picked(y, np.minimum(left, last)))
        if self.kind == "previous":
            values = picked(y, np.maximum(right - 1, 0))
            return np.where(np.reshape(at < x[0], wide), np.nan, values)
        middle = stop_gradient((x[1:] + x[:-1]) / 2.0)
        side: Any = "left" if self.kind == "nearest" else "right"
        return picked(y, np.searchsorted(middle, stop_gradient(at), side=side))

    def _line(self, cell: Any, at: Any, wide: tuple[int, ...]) -> Any:
        """The line between a point and the one before it, at `at`."""
        start = picked(self.x, cell - 1)
        part = np.reshape((at - start) / (picked(self.x, cell) - start), wide)
        low, high = picked(self._y, cell - 1), picked(self._y, cell)
        return low + part * (high - low)
