"""scipy.ndimage for traced values (`fungrad.scipy.ndimage`).

The differentiable functions are in this package; all other names are SciPy's, which is only
imported for those.
"""

from __future__ import annotations

from fungrad.scipy.ndimage.filters import (
    convolve,
    convolve1d,
    correlate,
    correlate1d,
    gaussian_filter,
    gaussian_filter1d,
    maximum_filter,
    median_filter,
    minimum_filter,
    uniform_filter,
    uniform_filter1d,
)
from fungrad.scipy.ndimage.geometry import (
    affine_transform,
    gaussian_gradient_magnitude,
    gaussian_laplace,
    laplace,
    map_coordinates,
    prewitt,
    rotate,
    shift,
    sobel,
    zoom,
)
from fungrad.scipy.ndimage.splines import spline_filter, spline_filter1d
from fungrad.scipy.optional import rest_of_scipy

__all__ = [
    "affine_transform", "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter",
    "gaussian_filter1d", "gaussian_gradient_magnitude", "gaussian_laplace", "laplace",
    "map_coordinates", "maximum_filter", "median_filter", "minimum_filter", "prewitt", "rotate",
    "shift", "sobel", "spline_filter", "spline_filter1d", "uniform_filter", "uniform_filter1d",
    "zoom",
]  # fmt: skip


__getattr__, __dir__ = rest_of_scipy(globals())
