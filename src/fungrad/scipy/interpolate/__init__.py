"""scipy.interpolate for traced values (`fungrad.scipy.interpolate`).

The differentiable interpolators are in this package; all other names are SciPy's.
"""

from __future__ import annotations

from fungrad.scipy.interpolate.grid import RegularGridInterpolator, interp1d, interpn
from fungrad.scipy.interpolate.piecewise import (
    Akima1DInterpolator,
    CubicHermiteSpline,
    PchipInterpolator,
    PPoly,
)
from fungrad.scipy.interpolate.splines import (
    BSpline,
    CubicSpline,
    InterpolatedUnivariateSpline,
    UnivariateSpline,
    make_interp_spline,
    splev,
    splrep,
)
from fungrad.scipy.optional import rest_of_scipy

__all__ = [
    "Akima1DInterpolator", "BSpline", "CubicHermiteSpline", "CubicSpline",
    "InterpolatedUnivariateSpline", "PPoly", "PchipInterpolator", "RegularGridInterpolator",
    "UnivariateSpline", "interp1d", "interpn", "make_interp_spline", "splev", "splrep",
]  # fmt: skip


__getattr__, __dir__ = rest_of_scipy(globals())
