"""The integrals of scipy.special (sine, exponential, Fresnel, of Bessel functions), the Faddeeva
function, Voigt's profile and Owen's T.

Formulas: DLMF chapters 6, 7 and 10.43. A derivative is the integrand; a quotient with a limit at 0
is computed by a hypergeometric function. Needs SciPy when it is imported.

Also the solutions of equations y'' = p(x) y' + q(x) y: SciPy computes y and y'; the derivative of
y', and so all others, follow from the equation. Formulas: DLMF chapters 9 (Airy), 10.61 (Kelvin),
12.2 (parabolic cylinder), 28 (Mathieu) and 30 (spheroidal).
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import elementwise, select
from fungrad.primitives.primitive import Primitive
from fungrad.scipy.optional import real, scipy_special, unknown
from fungrad.scipy.special.bessel import hyp0f1, i0, j0, jv, k0, y0, yv
from fungrad.scipy.special.logsumexp_erf import FAR, erf, tail
from fungrad.tracing.trace import registry

sp = scipy_special()


def declare_parts(name: str, parts: dict[str, Callable[..., Any]]) -> None:
    """Declares one primitive of one argument for each output of a ufunc, by its derivative."""
    ufunc = getattr(sp, name)

    def part(position: int) -> Callable[..., Any]:
        return lambda *args: ufunc(*args)[position]

    found = [
        elementwise(f"{name}_{output}", part(i), partials=[slope])
        for i, (output, slope) in enumerate(parts.items())
    ]
    registry.ufuncs[ufunc] = lambda x: tuple([primitive(x) for primitive in found])


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


expn: Primitive = elementwise("expn", sp.expn, partials=[unknown("expn", "n"), _expn_slope])

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


besselpoly: Primitive = elementwise(
    "besselpoly",
    sp.besselpoly,
    partials=[_bessel_polynomial, unknown("besselpoly", "lmb"), unknown("besselpoly", "nu")],
)
"""The integral of x^lmb J_nu(2 a x) over [0, 1]."""

# --- Struve's functions (DLMF 11.4.27, 11.4.29) ---------------------------------------------------


def _struve_slope(function: Callable[..., Any], v: Any, x: Any, sign: float) -> Any:
    half = np.power(x * 0.5, v) * sp.rgamma(v + 1.5) / math.sqrt(math.pi)
    return (function(v - 1.0, x) + sign * function(v + 1.0, x) + half) * 0.5


struve: Primitive = elementwise(
    "struve",
    sp.struve,
    partials=[unknown("struve", "v"), lambda y, v, x: _struve_slope(struve, v, x, -1.0)],
)
modstruve: Primitive = elementwise(
    "modstruve",
    sp.modstruve,
    partials=[unknown("modstruve", "v"), lambda y, v, x: _struve_slope(modstruve, v, x, 1.0)],
)
itstruve0 = elementwise("itstruve0", sp.itstruve0, partials=[lambda y, x: struve(0.0, x)])
itmodstruve0 = elementwise(
    "itmodstruve0", sp.itmodstruve0, partials=[lambda y, x: modstruve(0.0, x)]
)
it2struve0 = elementwise("it2struve0", sp.it2struve0, partials=[lambda y, x: -struve(0.0, x) / x])

# --- Faddeeva and Voigt ---------------------------------------------------------------------------


def _wofz_slope(w: Any, z: Any) -> Any:
    """-2 z w + 2i / sqrt(pi); for large z in the upper half plane by the asymptotic series."""
    constant = 2j / math.sqrt(math.pi)
    far = np.logical_and(np.abs(z) > FAR, np.imag(z) >= 0)
    return select(far, tail(select(far, z, FAR), 1.0) * -constant, w * z * -2.0 + constant)


wofz: Primitive = elementwise("wofz", sp.wofz, partials=[_wofz_slope])


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


voigt_profile = elementwise(
    "voigt_profile", sp.voigt_profile, partials=[_voigt_by_x, _voigt_by_sigma, _voigt_by_gamma]
)

# --- Owen's T -------------------------------------------------------------------------------------

owens_t = elementwise(
    "owens_t",
    sp.owens_t,
    partials=[
        lambda y, h, a: (
            np.exp(h * h * -0.5) * erf(a * h * math.sqrt(0.5)) / (-2.0 * math.sqrt(2.0 * math.pi))
        ),
        lambda y, h, a: np.exp(h * h * (1.0 + a * a) * -0.5) / ((1.0 + a * a) * (2.0 * math.pi)),
    ],
)
"""D. Owen, "Tables for computing bivariate normal probabilities" (1956)."""


# --- Airy -----------------------------------------------------------------------------------------


airy_ai: Primitive = elementwise(
    "airy_ai", lambda z: sp.airy(z)[0], partials=[lambda y, z: airy_aip(z)]
)
airy_aip: Primitive = elementwise(
    "airy_aip", lambda z: sp.airy(z)[1], partials=[lambda y, z: z * airy_ai(z)]
)
airy_bi: Primitive = elementwise(
    "airy_bi", lambda z: sp.airy(z)[2], partials=[lambda y, z: airy_bip(z)]
)
airy_bip: Primitive = elementwise(
    "airy_bip", lambda z: sp.airy(z)[3], partials=[lambda y, z: z * airy_bi(z)]
)
registry.ufuncs[sp.airy] = lambda z: (airy_ai(z), airy_aip(z), airy_bi(z), airy_bip(z))


def _root(z: Any) -> Any:
    """The derivative of airye's exponent 2/3 z^(3/2), where that is real."""
    z = real("airye", z)
    return np.sqrt(select(z > 0, z, 0.0))


airye_ai: Primitive = elementwise(
    "airye_ai", lambda z: sp.airye(z)[0], partials=[lambda y, z: airye_aip(z) + _root(z) * y]
)
airye_aip: Primitive = elementwise(
    "airye_aip", lambda z: sp.airye(z)[1], partials=[lambda y, z: z * airye_ai(z) + _root(z) * y]
)
airye_bi: Primitive = elementwise(
    "airye_bi", lambda z: sp.airye(z)[2], partials=[lambda y, z: airye_bip(z) - _root(z) * y]
)
airye_bip: Primitive = elementwise(
    "airye_bip", lambda z: sp.airye(z)[3], partials=[lambda y, z: z * airye_bi(z) - _root(z) * y]
)
registry.ufuncs[sp.airye] = lambda z: (airye_ai(z), airye_aip(z), airye_bi(z), airye_bip(z))
declare_parts(
    "itairy",
    {
        "ai": lambda y, x: airy_ai(x),
        "bi": lambda y, x: airy_bi(x),
        "ai_left": lambda y, x: airy_ai(-x),
        "bi_left": lambda y, x: airy_bi(-x),
    },
)

# --- Hankel, and Bessel scaled by exp(-|Im z|) ----------------------------------------------------


def _hankel(name: str, turn: complex) -> Primitive:
    def slope(y: Any, v: Any, z: Any) -> Any:
        return (primitive(v - 1.0, z) - primitive(v + 1.0, z)) * 0.5 - y * turn

    primitive = elementwise(name, getattr(sp, name), partials=[unknown(name, "v"), slope])
    return primitive


hankel1, hankel1e = _hankel("hankel1", 0.0), _hankel("hankel1e", 1j)
hankel2, hankel2e = _hankel("hankel2", 0.0), _hankel("hankel2e", -1j)


def _scaled(name: str, plain: Primitive) -> Primitive:
    def slope(y: Any, v: Any, z: Any) -> Any:
        return (plain(v - 1.0, real(name, z)) - plain(v + 1.0, z)) * 0.5

    return elementwise(name, getattr(sp, name), partials=[unknown(name, "v"), slope])


jve, yve = _scaled("jve", jv), _scaled("yve", yv)

# --- Kelvin: y'' = -y' / x + i y for y = ber + i bei, and ker + i kei -----------------------------


_BER = [(-1.0) ** (k + 1) * (k + 1) / math.factorial(2 * k + 2) ** 2 for k in range(6)]
_BEI = [(-1.0) ** k * (k + 0.5) / math.factorial(2 * k + 1) ** 2 for k in range(6)]


def _over(y: Any, x: Any, of_ber: bool) -> Any:
    """ber'(x) / x or bei'(x) / x; near 0 by the power series in (x / 2)^4."""
    near = np.abs(x) < 1.0
    square = np.square(select(near, x, 0.0) * 0.5)
    series: Any = 0.0
    for coefficient in reversed(_BER if of_ber else _BEI):
        series = series * (square * square) + coefficient
    if of_ber:
        series = series * square
    return select(near, series, y / select(near, 1.0, x))


ber: Primitive = elementwise("ber", sp.ber, partials=[lambda y, x: berp(x)])
bei: Primitive = elementwise("bei", sp.bei, partials=[lambda y, x: beip(x)])
ker: Primitive = elementwise("ker", sp.ker, partials=[lambda y, x: kerp(x)])
kei: Primitive = elementwise("kei", sp.kei, partials=[lambda y, x: keip(x)])
berp: Primitive = elementwise("berp", sp.berp, partials=[lambda y, x: -bei(x) - _over(y, x, True)])
beip: Primitive = elementwise("beip", sp.beip, partials=[lambda y, x: ber(x) - _over(y, x, False)])
kerp: Primitive = elementwise("kerp", sp.kerp, partials=[lambda y, x: -kei(x) - y / x])
keip: Primitive = elementwise("keip", sp.keip, partials=[lambda y, x: ker(x) - y / x])
registry.ufuncs[sp.kelvin] = lambda x: (
    ber(x) + bei(x) * 1j, ker(x) + kei(x) * 1j, berp(x) + beip(x) * 1j, kerp(x) + keip(x) * 1j
)  # fmt: skip

# --- solutions given with their derivative --------------------------------------------------------


def _solution(
    name: str, parameters: tuple[str, ...], slope: Callable[..., Any], unit: float = 1.0
) -> None:
    """Declares y and y', both of (*parameters, x), by y'' = slope(y, y', *parameters, x).

    `unit` is SciPy's unit of x in the unit of its y'.
    """
    ufunc = getattr(sp, name)
    lost = [unknown(name, argument) for argument in parameters]
    value: Primitive = elementwise(
        f"{name}_value",
        lambda *args: ufunc(*args)[0],
        partials=[*lost, lambda y, *args: derivative(*args) * unit],
    )
    derivative: Primitive = elementwise(
        f"{name}_slope",
        lambda *args: ufunc(*args)[1],
        partials=[*lost, lambda d, *args: slope(value(*args), d, *args) * unit],
    )
    registry.ufuncs[ufunc] = lambda *args: (value(*args), derivative(*args))


_solution("pbdv", ("v",), lambda y, d, v, x: (x * x * 0.25 - v - 0.5) * y)
_solution("pbvv", ("v",), lambda y, d, v, x: (x * x * 0.25 - v - 0.5) * y)
_solution("pbwa", ("a",), lambda y, d, a, x: (a - x * x * 0.25) * y)

_DEGREE = math.pi / 180.0


def _mathieu(name: str, characteristic: Any, hyperbolic: bool) -> None:
    def slope(y: Any, d: Any, m: Any, q: Any, x: Any) -> Any:
        if hyperbolic:
            return (characteristic(m, q) - 2.0 * q * np.cosh(2.0 * x)) * y
        return (2.0 * q * np.cos(x * (2.0 * _DEGREE)) - characteristic(m, q)) * y

    _solution(f"mathieu_{name}", ("m", "q"), slope, 1.0 if hyperbolic else _DEGREE)


mathieu_a = elementwise(
    "mathieu_a", sp.mathieu_a, partials=[unknown("mathieu_a", "m"), unknown("mathieu_a", "q")]
)
mathieu_b = elementwise(
    "mathieu_b", sp.mathieu_b, partials=[unknown("mathieu_b", "m"), unknown("mathieu_b", "q")]
)
_mathieu("cem", mathieu_a, False)
_mathieu("sem", mathieu_b, False)
_mathieu("modcem1", mathieu_a, True)
_mathieu("modcem2", mathieu_a, True)
_mathieu("modsem1", mathieu_b, True)
_mathieu("modsem2", mathieu_b, True)


def _spheroidal(kind: str, radial: bool, characteristic: Any) -> Callable[..., Any]:
    """y'' of prolate and oblate functions; oblate ones have i c for c, their radial ones i x."""
    oblate = kind == "obl"

    def slope(y: Any, d: Any, m: Any, n: Any, c: Any, *rest: Any) -> Any:
        x = rest[-1]
        cv = rest[0] if len(rest) == 2 else characteristic(m, n, c)
        gap = x * x + 1.0 if oblate and radial else x * x - 1.0
        turned = -1.0 if oblate else 1.0
        known = cv - c * c * x * x * (1.0 if radial else turned)
        known = known + m * m / gap * (turned if radial else 1.0)
        return (known * y - 2.0 * x * d) / gap

    return slope


for _kind in ("pro", "obl"):
    _name = f"{_kind}_cv"
    _cv = elementwise(_name, getattr(sp, _name), partials=[unknown(_name, a) for a in "mnc"])
    for _part in ("ang1", "rad1", "rad2"):
        _slope = _spheroidal(_kind, _part != "ang1", _cv)
        _solution(f"{_kind}_{_part}", ("m", "n", "c"), _slope)
        _solution(f"{_kind}_{_part}_cv", ("m", "n", "c", "cv"), _slope)
