"""Calls of SciPy's functions, to measure their support for traced values.

`cases()` returns the calls by namespace. Those of scipy.special are the samples of the primitives
behind its ufuncs, so that new ones are included; distributions are called at their quantiles, with
the parameters of SciPy's own tests.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import samples  # noqa: F401 - fills SAMPLES
import scipy.special
import scipy.stats
from sampling import SAMPLES, Sample
from scipy.stats._distr_params import distcont
from surface_scipy_composed import COMPOSED, EXCLUDED
from surface_table import Case, draw

import fungrad as fg
from fungrad.primitives.primitive import Primitive
from fungrad.tracing.trace import registry

SQUARE = draw(3, 3) + 2.0 * np.eye(3)
SYMMETRIC = (SQUARE + SQUARE.T) / 2.0
RIGHT, ROW = draw(3, 2, seed=1), draw(3, seed=2)
LOWER = np.tril(SQUARE)
BANDED = np.array([[0.0, 0.4, 0.3], [2.0, 2.5, 3.0], [0.5, 0.2, 0.0]])
UPPER = np.array([[0.0, 0.4, 0.3], [2.0, 2.5, 3.0]])

LINALG: dict[str, Case] = {
    name: Case((SQUARE,))
    for name in "coshm cosm det expm inv logm pinv sinhm sinm sqrtm svdvals tanhm tanm".split()
}
LINALG |= {name: Case((ROW,)) for name in "circulant companion hankel toeplitz".split()}
LINALG |= {name: Case((SQUARE, RIGHT)) for name in "lstsq solve".split()}
LINALG |= {
    "block_diag": Case((SQUARE, RIGHT)),
    "cholesky": Case((SYMMETRIC,), lambda f, a: f((a + a.T) / 2.0)),
    "cho_solve": Case((LOWER, RIGHT), lambda f, a, b: f((a, True), b)),
    "eigh": Case((SYMMETRIC,), lambda f, a: f((a + a.T) / 2.0)[0]),
    "eigvalsh": Case((SYMMETRIC,), lambda f, a: f((a + a.T) / 2.0)),
    "expm_frechet": Case((SQUARE, SYMMETRIC)),
    "fractional_matrix_power": Case((SQUARE,), lambda f, a: np.real(f(a, 0.5))),
    "khatri_rao": Case((SQUARE, SYMMETRIC)),
    "lstsq": Case((SQUARE, RIGHT), lambda f, a, b: f(a, b)[0]),
    "lu": Case((SQUARE,)),
    "matmul_toeplitz": Case((ROW, RIGHT)),
    "norm": Case((SQUARE,)),
    "polar": Case((SQUARE,)),
    "qr": Case((SQUARE,)),
    "solve_banded": Case((BANDED, ROW), lambda f, a, b: f((1, 1), a, b)),
    "solve_circulant": Case((ROW + np.array([2.0, 0.0, 0.0]), RIGHT)),
    "solve_continuous_lyapunov": Case((SQUARE, SYMMETRIC)),
    "solve_discrete_lyapunov": Case((SQUARE / 5.0, SYMMETRIC)),
    "solve_sylvester": Case((SQUARE, SYMMETRIC, SQUARE)),
    "solve_toeplitz": Case((ROW + np.array([2.0, 0.0, 0.0]), RIGHT)),
    "solve_triangular": Case((SQUARE, RIGHT)),
    "solveh_banded": Case((UPPER, ROW)),
    "svd": Case((SQUARE,), lambda f, a: f(a)[1]),
}

INTEGRATE: dict[str, Case] = {
    "cumulative_simpson": Case((draw(5),), lambda f, y: f(y, dx=0.5)),
    "cumulative_trapezoid": Case((draw(5),), lambda f, y: f(y, dx=0.5)),
    "romb": Case((draw(5),)),
    "simpson": Case((draw(5),)),
    "trapezoid": Case((draw(5),)),
}

LONG, KERNEL, IMAGE, PATCH = draw(12), draw(3, seed=3), draw(5, 6), draw(3, 3, seed=4)
SECTIONS = np.array([[0.5, 0.2, 0.1, 1.0, -0.3, 0.2]])

SIGNAL: dict[str, Case] = {
    name: Case((LONG, KERNEL)) for name in "convolve correlate fftconvolve oaconvolve".split()
}
SIGNAL |= {name: Case((IMAGE, PATCH)) for name in "convolve2d correlate2d".split()}
SIGNAL |= {
    "coherence": Case((LONG, LONG[::-1].copy()), lambda f, x, y: f(x, y, nperseg=4)[1]),
    "csd": Case((LONG, LONG[::-1].copy()), lambda f, x, y: f(x, y, nperseg=4)[1].real),
    "detrend": Case((LONG,)),
    "filtfilt": Case((KERNEL, LONG), lambda f, b, x: f(b, [1.0, 0.3], x, padlen=3)),
    "hilbert": Case((LONG,), lambda f, x: f(x).imag),
    "lfilter": Case((KERNEL, np.array([1.0, 0.3]), LONG)),
    "lfilter_zi": Case((KERNEL, np.array([1.0, 0.3]))),
    "periodogram": Case((LONG,), lambda f, x: f(x)[1]),
    "resample": Case((LONG,), lambda f, x: f(x, 8)),
    "savgol_filter": Case((LONG,), lambda f, x: f(x, 5, 2)),
    "sosfilt": Case((LONG,), lambda f, x: f(SECTIONS, x)),
    "sosfiltfilt": Case((LONG,), lambda f, x: f(SECTIONS, x, padlen=3)),
    "stft": Case((LONG,), lambda f, x: f(x, nperseg=4)[2].real),
    "welch": Case((LONG,), lambda f, x: f(x, nperseg=4)[1]),
}

NDIMAGE: dict[str, Case] = {
    name: Case((IMAGE,)) for name in "laplace prewitt sobel spline_filter spline_filter1d".split()
}
NDIMAGE |= {name: Case((IMAGE, PATCH)) for name in "convolve correlate".split()}
NDIMAGE |= {name: Case((LONG, KERNEL)) for name in "convolve1d correlate1d".split()}
NDIMAGE |= {
    name: Case((IMAGE,), lambda f, x: f(x, 1.2))
    for name in (
        "gaussian_filter gaussian_filter1d gaussian_gradient_magnitude gaussian_laplace shift"
    ).split()
}
NDIMAGE |= {
    name: Case((IMAGE,), lambda f, x: f(x, 3))
    for name in (
        "maximum_filter median_filter minimum_filter uniform_filter uniform_filter1d"
    ).split()
}
NDIMAGE |= {
    "affine_transform": Case((IMAGE,), lambda f, x: f(x, np.array([[0.9, 0.1], [-0.1, 0.8]]))),
    "map_coordinates": Case((IMAGE, draw(2, 4) * 3.0), lambda f, x, at: f(x, at)),
    "rotate": Case((IMAGE,), lambda f, x: f(x, 20.0, reshape=False)),
    "zoom": Case((IMAGE,), lambda f, x: f(x, 1.4)),
}

AT = np.array([0.4, 1.7, 3.2])
INTERPOLATE: dict[str, Case] = {
    name: Case((draw(5), AT), lambda f, y, at: f(np.arange(5.0), y)(at))
    for name in (
        "Akima1DInterpolator CubicSpline InterpolatedUnivariateSpline PchipInterpolator interp1d "
        "make_interp_spline"
    ).split()
}
INTERPOLATE |= {
    "UnivariateSpline": Case(
        (draw(6), AT), lambda f, y, at: f(np.arange(6.0), y, s=0, ext=1)(at * 2.0, 1)
    ),
    "splrep": Case((draw(6),), lambda f, y: f(np.arange(6.0), y)[1]),
    "CubicHermiteSpline": Case(
        (draw(5), draw(5, seed=1), AT), lambda f, y, d, at: f(np.arange(5.0), y, d)(at)
    ),
    "RegularGridInterpolator": Case(
        (IMAGE, draw(4, 2) * 3.0), lambda f, v, at: f((np.arange(5.0), np.arange(6.0)), v)(at)
    ),
    "splev": Case((AT, np.arange(9.0), draw(9)), lambda f, at, t, c: f(at + 2.0, (t, c, 2))),
    "interpn": Case(
        (IMAGE, draw(4, 2) * 3.0), lambda f, v, at: f((np.arange(5.0), np.arange(6.0)), v, at)
    ),
}


def by_samples(ufunc: np.ufunc) -> Case | None:
    """The first sample of the primitive behind a ufunc; arguments without derivative are fixed."""
    primitive = registry.ufuncs[ufunc]
    found = SAMPLES.get(primitive.name, []) if isinstance(primitive, Primitive) else []
    for sample in found:
        if not sample.params and any(np.asarray(a).dtype == np.float64 for a in sample.args):
            return of_sample(sample)
    if ufunc.nout > 1 and ufunc.nin == 1:  # several results, each a primitive of its own
        return Case((draw(5),))
    return Case((draw(5), draw(5, seed=1))) if ufunc.nin == ufunc.nout - 2 == 2 else None


def of_sample(sample: Sample) -> Case:
    """The call of a sample as a function of its moving arguments."""
    held = {i: sample.args[i] for i in sample.fixed}
    held |= {i: a for i, a in enumerate(sample.args) if np.asarray(a).dtype.kind != "f"}
    moving = tuple(a for i, a in enumerate(sample.args) if i not in held)

    def call(f: Callable[..., Any], *args: Any) -> Any:
        given = iter(args)
        return f(*[held[i] if i in held else next(given) for i in range(len(sample.args))])

    return Case(moving, call, sample.order)


def unmeasured() -> list[str]:
    """The ufuncs of scipy.special that reach fungrad and have no call here."""
    found = special()
    return [
        name
        for name in dir(scipy.special)
        if isinstance(getattr(scipy.special, name), np.ufunc)
        and getattr(scipy.special, name) in registry.ufuncs
        and name not in found
    ]


def special() -> dict[str, Case]:
    """Calls of the ufuncs of scipy.special."""
    fg.grad(scipy.special.gammaln)(2.0)  # the first call on a traced value loads the rules
    importlib.import_module("fungrad.scipy.special")
    found = {}
    for name in dir(scipy.special):
        value = getattr(scipy.special, name)
        if isinstance(value, np.ufunc) and value in registry.ufuncs:
            case = by_samples(value)
            if case is not None:
                found[name] = case
    return found


def stats() -> dict[str, Case]:
    """The densities and distribution functions of the continuous distributions, by x."""
    found = {}
    for name, shapes in dict(reversed(distcont)).items():
        own = vars(fg.scipy.stats).get(str(name))
        if own is not None and type(own).__module__.startswith("fungrad"):
            x = getattr(scipy.stats, name).ppf([0.3, 0.45, 0.8], *shapes)
            for method in ("logpdf", "cdf"):

                def call(f: Any, x: Any, method: str = method, shapes: Any = shapes) -> Any:
                    return getattr(f, method)(x, *shapes)

                found[f"{name}.{method}"] = Case((x,), call)
    return found


def cases() -> dict[str, dict[str, Case]]:
    """All calls, by namespace and name."""
    written = {
        "linalg": LINALG,
        "integrate": INTEGRATE,
        "interpolate": INTERPOLATE,
        "ndimage": NDIMAGE,
        "signal": SIGNAL,
    }
    found = {"special": special(), **written, "stats": stats()}
    return {name: calls | COMPOSED.get(name, {}) for name, calls in found.items()}


def uncounted() -> list[str]:
    """SciPy's names that fungrad defines, and that have neither a call nor a reason."""
    names = []
    for namespace, calls in cases().items():
        measured = {call.split(".")[0] for call in calls}
        for name, value in vars(importlib.import_module(f"fungrad.scipy.{namespace}")).items():
            homes = (getattr(value, "__module__", None), type(value).__module__)
            if (
                not name.startswith("_")
                and hasattr(getattr(scipy, namespace), name)
                and any(str(home).startswith("fungrad.") for home in homes)
                and name not in measured
            ):
                names.append(f"{namespace}.{name}")
    return [name for name in names if name not in EXCLUDED]
