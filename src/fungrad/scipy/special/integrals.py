"""The integrals of scipy.special (sine, exponential, Fresnel, of Bessel functions), the Faddeeva
function, Voigt's profile and Owen's T.

Formulas: DLMF chapters 6, 7 and 10.43. A derivative is the integrand; a quotient with a limit at 0
is computed by a hypergeometric function. Needs SciPy when it is imported.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import elementwise, select
from fungrad.primitives.primitive import Primitive
from fungrad.scipy.optional import scipy_special, special
from fungrad.scipy.special.bessel import hyp0f1, i0, j0, k0, y0
from fungrad.scipy.special.logsumexp_erf import FAR, erf, tail
from fungrad.tracing.trace import registry

sp = scipy_special()


def declare_parts(name: str, parts: dict[str, Callable[..., Any]]) -> None:
    """Declares one primitive of one argument for each output of a ufunc, by its derivative."""
    ufunc = getattr(sp, name)

    def part(position: int) -> Callable[..., Any]:
        return lambda *args: ufunc(*args)[position]

    primitives = [
        elementwise(f"{name}_{output}", part(i), partials=[slope])
        for i, (output, slope) in enumerate(parts.items())
    ]
    registry.ufuncs[ufunc] = lambda x: tuple([primitive(x) for primitive in primitives])


# --- sine and cosine integrals --------------------------------------------------------------------

declare_parts(
    "sici",
    {"si": lambda y, x: hyp0f1(1.5, x * x * -0.25), "ci": lambda y, x: np.cos(x) / x},
)
declare_parts(
    "shichi",
    {"shi": lambda y, x: hyp0f1(1.5, x * x * 0.25), "chi": lambda y, x: np.cosh(x) / x},
)
declare_parts(
    "fresnel",
    {
        "s": lambda y, x: np.sin(x * x * (math.pi / 2)),
        "c": lambda y, x: np.cos(x * x * (math.pi / 2)),
    },
)


def _modified_fresnel(name: str, sign: float) -> None:
    """F(x), the integral of exp(+-i t^2) over t > x; K = exp(-+i (x^2 + pi/4)) F / sqrt(pi)."""
    constant = cmath.exp(-0.25j * math.pi * sign) / math.sqrt(math.pi)
    declare_parts(
        name,
        {
            "f": lambda y, x: -np.exp(x * x * (1j * sign)),
            "k": lambda y, x: y * x * (-2j * sign) - constant,
        },
    )


_modified_fresnel("modfresnelp", 1.0)
_modified_fresnel("modfresnelm", -1.0)

# --- exponential integrals ------------------------------------------------------------------------


def _expn_slope(y: Any, n: Any, x: Any) -> Any:
    lowest = n == 0
    below = expn(select(lowest, 1, n) - 1, x)
    return select(lowest, -y * (1.0 + 1.0 / x), -below)


expn: Primitive = special("expn", "n", _expn_slope)

# --- of Bessel functions --------------------------------------------------------------------------


def _bessel_over(x: Any, sign: float) -> Any:
    """(I0(x) - 1) / x, or (1 - J0(x)) / x; by the power series where that would cancel."""
    near = np.abs(x) < 1.0
    at = select(near, x, 0.0)
    t = at * at * (0.25 * sign)
    series: Any = 0.0
    for k in range(9, 0, -1):
        series = (series * t) + 1.0 / math.factorial(k) ** 2
    far = select(near, 1.0, x)
    value = (i0(far) - 1.0) / far if sign > 0 else (1.0 - j0(far)) / far
    return select(near, series * at * 0.25, value)


declare_parts("iti0k0", {"i0": lambda y, x: i0(x), "k0": lambda y, x: k0(x)})
declare_parts("itj0y0", {"j0": lambda y, x: j0(x), "y0": lambda y, x: y0(x)})
declare_parts("it2i0k0", {"i0": lambda y, x: _bessel_over(x, 1.0), "k0": lambda y, x: -k0(x) / x})
declare_parts("it2j0y0", {"j0": lambda y, x: _bessel_over(x, -1.0), "y0": lambda y, x: -y0(x) / x})


def _bessel_polynomial(y: Any, a: Any, lam: Any, nu: Any) -> Any:
    return besselpoly(a, lam + 1.0, nu - 1.0) - besselpoly(a, lam + 1.0, nu + 1.0)


besselpoly: Primitive = special("besselpoly", _bessel_polynomial, "lmb", "nu")
"""The integral of x^lmb J_nu(2 a x) over [0, 1]."""

# --- Struve's functions (DLMF 11.4.27, 11.4.29) ---------------------------------------------------


def _struve_slope(function: Callable[..., Any], v: Any, x: Any, sign: float) -> Any:
    half = np.power(x * 0.5, v) * sp.rgamma(v + 1.5) / math.sqrt(math.pi)
    return (function(v - 1.0, x) + sign * function(v + 1.0, x) + half) * 0.5


struve: Primitive = special("struve", "v", lambda y, v, x: _struve_slope(struve, v, x, -1.0))
modstruve: Primitive = special(
    "modstruve", "v", lambda y, v, x: _struve_slope(modstruve, v, x, 1.0)
)
itstruve0 = special("itstruve0", lambda y, x: struve(0.0, x))
itmodstruve0 = special("itmodstruve0", lambda y, x: modstruve(0.0, x))
it2struve0 = special("it2struve0", lambda y, x: -struve(0.0, x) / x)

# --- Faddeeva and Voigt ---------------------------------------------------------------------------


def _wofz_slope(w: Any, z: Any) -> Any:
    """-2 z w + 2i / sqrt(pi); for large z in the upper half plane by the asymptotic series."""
    constant = 2j / math.sqrt(math.pi)
    far = np.logical_and(np.abs(z) > FAR, np.imag(z) >= 0)
    return select(far, tail(select(far, z, FAR), 1.0) * -constant, w * z * -2.0 + constant)


wofz: Primitive = special("wofz", _wofz_slope)


def _voigt(x: Any, sigma: Any, gamma: Any) -> tuple[Any, Any, Any, Any]:
    """Flags where sigma is 0, sigma without zeros, w'(z) there, and the divisor of w."""
    narrow = sigma == 0
    sigma = select(narrow, 1.0, sigma)
    z = (x + gamma * 1j) / (sigma * math.sqrt(2.0))
    return narrow, sigma, _wofz_slope(wofz(z), z), sigma * sigma * (2.0 * math.sqrt(math.pi))


def _voigt_by_x(y: Any, x: Any, sigma: Any, gamma: Any) -> Any:
    narrow, _, slope, scale = _voigt(x, sigma, gamma)
    return select(narrow, y * x * -2.0 / (x * x + gamma * gamma), np.real(slope) / scale)


def _voigt_by_sigma(y: Any, x: Any, sigma: Any, gamma: Any) -> Any:
    """By Re w((x + i gamma) / (sigma sqrt 2)) / sigma, even in sigma; 0 at sigma = 0."""
    narrow, width, slope, _ = _voigt(x, sigma, gamma)
    z = (x + gamma * 1j) / (width * math.sqrt(2.0))
    moved = np.real(slope * z) / (width * math.sqrt(2.0 * math.pi))
    return select(narrow, 0.0, -(y + moved) / width)


def _voigt_by_gamma(y: Any, x: Any, sigma: Any, gamma: Any) -> Any:
    narrow, _, slope, scale = _voigt(x, sigma, gamma)
    lorentz = (x * x - gamma * gamma) / (math.pi * np.square(x * x + gamma * gamma))
    return select(narrow, lorentz, -np.imag(slope) / scale)


voigt_profile = special("voigt_profile", _voigt_by_x, _voigt_by_sigma, _voigt_by_gamma)

# --- Owen's T -------------------------------------------------------------------------------------

owens_t = special(
    "owens_t",
    lambda y, h, a: (
        np.exp(h * h * -0.5) * erf(a * h * math.sqrt(0.5)) / (-2.0 * math.sqrt(2.0 * math.pi))
    ),
    lambda y, h, a: np.exp(h * h * (1.0 + a * a) * -0.5) / ((1.0 + a * a) * (2.0 * math.pi)),
)
"""D. Owen, "Tables for computing bivariate normal probabilities" (1956)."""
