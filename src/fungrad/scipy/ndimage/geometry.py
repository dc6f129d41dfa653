"""Images at other coordinates, as in scipy.ndimage: map_coordinates, affine_transform, shift,
zoom, rotate.

Differentiable by the image and the coordinates. If the coordinates of each axis do not depend on
the others, one axis is sampled after the other.

Also derivatives of images by small filters (sobel, laplace and others), as compositions of filters
along one axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.numpy.protocol.implements import known
from fungrad.numpy.protocol.operands import axis_indices, float64_of
from fungrad.primitives.movement.gather import picked
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.ndimage.filters import PADDING, correlate1d, gaussian_filter, prepared, rounded
from fungrad.scipy.ndimage.splines import along_axis, check_order, coefficients, sampled
from fungrad.tracing.trace import EVAL, shape_of


def _stored(x: Any, dtype: Any) -> Any:
    """x cast to the dtype of the result; to integers with halves away from zero, as in SciPy."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        x = np.clip(np.trunc(x + np.copysign(0.5, x)), limits.min, limits.max)
    return cast(x, dtype)


def _checked(name: str, input: Any, output: Any, order: int, mode: str) -> tuple[Any, Any]:
    check_order(order)
    if mode not in PADDING:
        raise RuntimeError("boundary mode not supported")
    x, dtype = prepared(name, input, output)
    if not shape_of(x):
        raise RuntimeError("input and output rank must be > 0")
    return x, dtype


def map_coordinates(
    input: Any, coordinates: Any, output: Any = None, order: int = 3, mode: str = "constant",
    cval: Any = 0.0, prefilter: bool = True,
) -> Any:  # fmt: skip
    """An image at coordinates, by splines, as scipy.ndimage.map_coordinates.

    Differentiable by the image, to all orders by cval and, up to its order less one, by the
    coordinates. With order=1 the slope at a grid point is that of the cell that begins there; with
    order=0 it is 0.

    Args:
      input: an array of n axes. coordinates: n rows of coordinates, shape (n, ...), in elements.
      output: a dtype, by default that of the input (integers are rounded). order: 0 to 5.
      mode: the values outside: "constant", "nearest", "mirror", "reflect", "wrap", and
        SciPy's "grid-" modes. cval: the constant.
      prefilter: False if input holds spline coefficients.

    >>> x = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> map_coordinates(x, [[0.5], [0.5]], order=1)
    array([1.5])
    """
    x, dtype = _checked("map_coordinates", input, output, order, mode)
    at = float64_of(coordinates)
    if not shape_of(at) or shape_of(at)[0] != len(shape_of(x)):
        raise RuntimeError("invalid shape for coordinate array")
    rows = [at[i] for i in range(shape_of(at)[0])]
    filtered, added = coefficients(x, order, mode, cval, prefilter, len(rows))
    return _stored(sampled(filtered, rows, order, mode, cval, added), dtype)


def affine_transform(
    input: Any, matrix: Any, offset: Any = 0.0, output_shape: Any = None, output: Any = None,
    order: int = 3, mode: str = "constant", cval: Any = 0.0, prefilter: bool = True,
) -> Any:  # fmt: skip
    """An image at the coordinates matrix @ o + offset, as scipy.ndimage.affine_transform.

    Args:
      matrix: shape (n, n); its diagonal, (n,); or homogeneous, (n, n + 1) or (n + 1, n + 1), with
        the offset in the last column. offset: a vector, or one number.
      output_shape: that of the input by default.
      input, output, order, mode, cval, prefilter: as for map_coordinates.

    >>> affine_transform(np.arange(4.0), [1.0], 1.0, order=1)
    array([1., 2., 3., 0.])
    """
    x, dtype = _checked("affine_transform", input, output, order, mode)
    ndim = len(shape_of(x))
    matrix, offset = float64_of(matrix), float64_of(offset)
    shape = shape_of(x) if output_shape is None else tuple(output_shape)
    if len(shape_of(matrix)) not in (1, 2):
        raise RuntimeError("no proper affine matrix provided")
    if shape_of(matrix) in ((ndim, ndim + 1), (ndim + 1, ndim + 1)):
        matrix, offset = matrix[:ndim, :ndim], matrix[:ndim, ndim]
    if shape_of(matrix)[0] != ndim:
        raise RuntimeError("affine matrix has wrong number of rows")
    if shape_of(matrix)[-1] != ndim:
        raise RuntimeError("affine matrix has wrong number of columns")
    offset = np.broadcast_to(offset, (ndim,))
    if len(shape_of(matrix)) == 1:
        lines = [np.arange(n) * matrix[i] + offset[i] for i, n in enumerate(shape)]
        return _stored(_along_axes(x, lines, order, mode, cval, prefilter), dtype)
    grid = np.reshape(np.indices(shape, dtype=np.float64), (ndim, -1))
    at = np.reshape(matrix @ grid + offset[:, None], (ndim, *shape))
    rows = [at[i] for i in range(ndim)]
    filtered, added = coefficients(x, order, mode, cval, prefilter, ndim)
    return _stored(sampled(filtered, rows, order, mode, cval, added), dtype)


def _along_axes(
    x: Any, lines: Sequence[Any], order: int, mode: str, cval: Any, prefilter: bool
) -> Any:
    """The image at the product of one vector of coordinates for each axis."""
    x, added = coefficients(x, order, mode, cval, prefilter, len(lines))
    within: Any = True
    for axis, line in enumerate(lines):
        indices, weights, inside = along_axis(line + added, shape_of(x)[axis], order, mode)
        moved = np.moveaxis(x, axis, 0)
        trailing = (1,) * (len(shape_of(x)) - 1)
        values = picked(moved, indices)
        if mode == "grid-constant":
            values = np.where(np.reshape(inside, (*shape_of(inside), *trailing)), values, cval)
        moved = np.sum(values * np.reshape(weights, (*shape_of(weights), *trailing)), axis=0)
        x = np.moveaxis(moved, 0, axis)
        if mode == "constant":
            line_shape = [1] * len(lines)
            line_shape[axis] = -1
            within = np.logical_and(within, np.reshape(inside, line_shape))
    return np.where(within, x, cval) if mode == "constant" else x


def shift(
    input: Any, shift: Any, output: Any = None, order: int = 3, mode: str = "constant",
    cval: Any = 0.0, prefilter: bool = True,
) -> Any:  # fmt: skip
    """An image moved along its axes, as scipy.ndimage.shift; differentiable by shift.

    Args:
      shift: the distance in elements, one for all axes or each.
      input, output, order, mode, cval, prefilter: as for map_coordinates.

    >>> shift(np.arange(4.0), 0.5, order=1, cval=-1.0)
    array([-1. ,  0.5,  1.5,  2.5])
    """
    x, dtype = _checked("shift", input, output, order, mode)
    steps = np.broadcast_to(float64_of(shift), (len(shape_of(x)),))
    lines = [np.arange(n) - steps[i] for i, n in enumerate(shape_of(x))]
    return _stored(_along_axes(x, lines, order, mode, cval, prefilter), dtype)


def zoom(
    input: Any, zoom: Any, output: Any = None, order: int = 3, mode: str = "constant",
    cval: Any = 0.0, prefilter: bool = True, *, grid_mode: bool = False,
) -> Any:  # fmt: skip
    """An image with more or fewer elements, as scipy.ndimage.zoom.

    Args:
      zoom: the factor, one for all axes or each, a constant. grid_mode: whether elements are areas
        instead of points.
      input, output, order, mode, cval, prefilter: as for map_coordinates.

    >>> zoom(np.array([0.0, 1.0]), 2, order=1)
    array([0.        , 0.33333333, 0.66666667, 1.        ])
    """
    x, dtype = _checked("zoom", input, output, order, mode)
    factors = np.broadcast_to(np.asarray(zoom, np.float64), (len(shape_of(x)),))
    lines = []
    for n, factor in zip(shape_of(x), factors, strict=True):
        count = round(n * float(factor))
        if grid_mode:
            lines.append((np.arange(count) + 0.5) * (n / max(count, 1)) - 0.5)
        else:
            lines.append(np.arange(count) * ((n - 1) / (count - 1) if count > 1 else 1.0))
    return _stored(_along_axes(x, lines, order, mode, cval, prefilter), dtype)


def _rotation(angle: Any) -> Any:
    """The matrix of a rotation by an angle in degrees, exact for quarter turns."""
    quarters = stop_gradient(np.rint(angle / 90.0))
    rest = (angle - 90.0 * quarters) * (np.pi / 180.0)
    c, s = np.cos(rest), np.sin(rest)
    quarter = np.mod(quarters, 4.0)
    cosine = np.where(quarter == 0, c, np.where(quarter == 1, -s, np.where(quarter == 2, -c, s)))
    sine = np.where(quarter == 0, s, np.where(quarter == 1, c, np.where(quarter == 2, -s, -c)))
    return np.stack([np.stack([cosine, sine]), np.stack([-sine, cosine])])


def rotate(
    input: Any, angle: Any, axes: Any = (1, 0), reshape: bool = True, output: Any = None,
    order: int = 3, mode: str = "constant", cval: Any = 0.0, prefilter: bool = True,
) -> Any:  # fmt: skip
    """An image rotated in a plane, as scipy.ndimage.rotate; differentiable by angle.

    Args:
      angle: in degrees. axes: the plane. reshape: whether the result holds the whole rotated image;
        the angle has to be known then, which excludes jit and vmap.
      input, output, order, mode, cval, prefilter: as for map_coordinates.

    >>> rotate(np.array([[0.0, 1.0], [2.0, 3.0]]), 90.0, order=1)
    array([[1., 3.],
           [0., 2.]])
    """
    x, dtype = _checked("rotate", input, output, order, mode)
    ndim = len(shape_of(x))
    if ndim < 2:
        raise ValueError("input array should be at least 2D")
    if len(axes) != 2:
        raise ValueError("axes should contain exactly two values")
    pair = tuple(sorted(axis_indices(tuple(axes), ndim)))
    x = np.moveaxis(x, pair, (0, 1))
    matrix = _rotation(float64_of(angle))
    plane = np.array(shape_of(x)[:2])
    target: Any = plane
    if reshape:
        number = known(stop_gradient(angle), "the angle of rotate with reshape=True")
        turned = EVAL.run(lambda: _rotation(np.float64(number)))
        corners = turned @ np.array([[0, 0, plane[0], plane[0]], [0, plane[1], 0, plane[1]]])
        target = (np.ptp(corners, axis=1) + 0.5).astype(int)
    offset = (plane - 1) / 2.0 - matrix @ ((target - 1) / 2.0)
    grid = np.reshape(np.indices(target, dtype=np.float64), (2, -1))
    at = np.reshape(matrix @ grid + offset[:, None], (2, *target.tolist()))
    filtered, added = coefficients(x, order, mode, cval, prefilter, 2)
    rotated = sampled(filtered, [at[0], at[1]], order, mode, cval, added)
    return _stored(np.moveaxis(rotated, (0, 1), pair), dtype)


def _modes(mode: Any, count: int) -> list[Any]:
    return [mode] * count if isinstance(mode, str) else list(mode)


def _difference(
    name: str, input: Any, axis: int, output: Any, mode: Any, cval: Any, smooth: list[float]
) -> Any:
    x, dtype = prepared(name, input, output)
    ndim = len(shape_of(x))
    axis = axis_indices(axis, ndim)[0]
    modes = _modes(mode, ndim)
    x = rounded(correlate1d(x, [-1.0, 0.0, 1.0], axis, None, modes[axis], cval), dtype)
    for other in range(ndim):
        if other != axis:
            x = rounded(correlate1d(x, smooth, other, None, modes[other], cval), dtype)
    return cast(x, dtype)


def sobel(
    input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Any:
    """Sobel's derivative along an axis, as scipy.ndimage.sobel.

    Args:
      input, axis, output, mode, cval: as for correlate1d.

    >>> sobel(np.array([[0.0, 1.0, 2.0]] * 3))
    array([[4., 8., 4.],
           [4., 8., 4.],
           [4., 8., 4.]])
    """
    return _difference("sobel", input, axis, output, mode, cval, [1.0, 2.0, 1.0])


def prewitt(
    input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Any:
    """Prewitt's derivative along an axis, as scipy.ndimage.prewitt.

    Args:
      input, axis, output, mode, cval: as for correlate1d.

    >>> prewitt(np.array([[0.0, 1.0, 2.0]] * 3))[1]
    array([3., 6., 3.])
    """
    return _difference("prewitt", input, axis, output, mode, cval, [1.0, 1.0, 1.0])


def laplace(input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    """The sum of the second differences along all axes, as scipy.ndimage.laplace.

    Args:
      input, output, mode, cval: as for correlate.

    >>> laplace(np.array([1.0, 4.0, 9.0]))
    array([ 3.,  2., -5.])
    """
    x, dtype = prepared("laplace", input, output)
    modes = _modes(mode, len(shape_of(x)))
    parts = [
        cast(correlate1d(x, [1.0, -2.0, 1.0], axis, None, m, cval), dtype)
        for axis, m in enumerate(modes)
    ]
    return sum(parts[1:], parts[0])


def gaussian_laplace(
    input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    **options: Any,
) -> Any:  # fmt: skip
    """The sum of Gaussian second derivatives along all axes, as scipy.ndimage.gaussian_laplace.

    Args:
      input, sigma, output, mode, cval: as for gaussian_filter.
      options: further arguments of gaussian_filter1d: truncate, radius.

    >>> round(float(gaussian_laplace(np.arange(9.0) ** 2, 1.0)[4]), 1)
    2.0
    """
    x, dtype = prepared("gaussian_laplace", input, output)
    ndim = len(shape_of(x))
    parts = [
        gaussian_filter(x, sigma, [2 * (i == axis) for i in range(ndim)], dtype, mode, cval,
                        **options)
        for axis in range(ndim)
    ]  # fmt: skip
    return sum(parts[1:], parts[0])


def gaussian_gradient_magnitude(
    input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    **options: Any,
) -> Any:  # fmt: skip
    """The length of the Gaussian gradient, as scipy.ndimage.gaussian_gradient_magnitude.

    Where the gradient is zero, the derivative of its length is 0.

    Args:
      input, sigma, output, mode, cval: as for gaussian_filter.
      options: further arguments of gaussian_filter1d: truncate, radius.

    >>> round(float(gaussian_gradient_magnitude(np.arange(9.0), 1.0)[4]), 3)
    1.0
    """
    x, dtype = prepared("gaussian_gradient_magnitude", input, output)
    ndim = len(shape_of(x))
    parts = [
        gaussian_filter(x, sigma, [int(i == axis) for i in range(ndim)], None, mode, cval,
                        **options)
        for axis in range(ndim)
    ]  # fmt: skip
    return cast(np.linalg.norm(np.stack(parts), axis=0), dtype)
