"""Derivatives of images by small filters, as scipy.ndimage has them: sobel, laplace and
others. Compositions of the filters along one axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.numpy.protocol.operands import axis_indices
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.scipy.ndimage.filters import correlate1d, gaussian_filter, prepared
from fungrad.tracing.trace import shape_of


def _modes(mode: Any, count: int) -> list[Any]:
    return [mode] * count if isinstance(mode, str) else list(mode)


def _difference(
    name: str, input: Any, axis: int, output: Any, mode: Any, cval: Any, smooth: list[float]
) -> Any:
    x, dtype = prepared(name, input, output)
    ndim = len(shape_of(x))
    axis = axis_indices(axis, ndim)[0]
    modes = _modes(mode, ndim)
    x = _rounded(correlate1d(x, [-1.0, 0.0, 1.0], axis, None, modes[axis], cval), dtype)
    for other in range(ndim):
        if other != axis:
            x = _rounded(correlate1d(x, smooth, other, None, modes[other], cval), dtype)
    return cast(x, dtype)


def _rounded(x: Any, dtype: Any) -> Any:
    """x as SciPy keeps it between two axes: in the dtype of the result where that is integer."""
    return cast(cast(x, dtype), x.dtype) if dtype.kind in "iu" else x


def sobel(
    input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Any:
    """Sobel's derivative along an axis, as scipy.ndimage.sobel.

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

    >>> prewitt(np.array([[0.0, 1.0, 2.0]] * 3))[1]
    array([3., 6., 3.])
    """
    return _difference("prewitt", input, axis, output, mode, cval, [1.0, 1.0, 1.0])


def laplace(input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    """The sum of the second differences along all axes, as scipy.ndimage.laplace.

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

    Where the gradient is zero the derivative of its length is 0.

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


__all__ = ["gaussian_gradient_magnitude", "gaussian_laplace", "laplace", "prewitt", "sobel"]
