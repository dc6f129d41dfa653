"""scipy.interpolate for traced values (`fungrad.scipy.interpolate`).

The differentiable interpolators are in this package; all other names are SciPy's.
"""

from __future__ import annotations

from typing import Any

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
from fungrad.scipy.optional import scipy_module

__all__ = [
    "Akima1DInterpolator", "BSpline", "CubicHermiteSpline", "CubicSpline",
    "InterpolatedUnivariateSpline", "PPoly", "PchipInterpolator", "RegularGridInterpolator",
    "UnivariateSpline", "interp1d", "interpn", "make_interp_spline", "splev", "splrep",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(scipy_module("scipy.interpolate"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(scipy_module("scipy.interpolate"))})
