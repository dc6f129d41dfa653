"""scipy.special's solutions of equations y'' = p(x) y' + q(x) y.

SciPy computes y and y'; the derivative of y', and so all others, follow from the equation.
Formulas: DLMF chapters 9 (Airy), 10.61 (Kelvin), 12.2 (parabolic cylinder), 28 (Mathieu) and 30
(spheroidal). Needs SciPy when it is imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import elementwise, select
from fungrad.primitives.primitive import Primitive
from fungrad.scipy.optional import real, special, unknown
from fungrad.scipy.special.bessel import jv, yv
from fungrad.scipy.special.integrals import declare_parts, sp
from fungrad.tracing.trace import registry

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

    primitive = special(name, "v", slope)
    return primitive


hankel1, hankel1e = _hankel("hankel1", 0.0), _hankel("hankel1e", 1j)
hankel2, hankel2e = _hankel("hankel2", 0.0), _hankel("hankel2e", -1j)


def _scaled(name: str, plain: Primitive) -> Primitive:
    def slope(y: Any, v: Any, z: Any) -> Any:
        return (plain(v - 1.0, real(name, z)) - plain(v + 1.0, z)) * 0.5

    return special(name, "v", slope)


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


ber: Primitive = special("ber", lambda y, x: berp(x))
bei: Primitive = special("bei", lambda y, x: beip(x))
ker: Primitive = special("ker", lambda y, x: kerp(x))
kei: Primitive = special("kei", lambda y, x: keip(x))
berp: Primitive = special("berp", lambda y, x: -bei(x) - _over(y, x, True))
beip: Primitive = special("beip", lambda y, x: ber(x) - _over(y, x, False))
kerp: Primitive = special("kerp", lambda y, x: -kei(x) - y / x)
keip: Primitive = special("keip", lambda y, x: ker(x) - y / x)
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


mathieu_a = special("mathieu_a", "m", "q")
mathieu_b = special("mathieu_b", "m", "q")
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
    _cv = special(_name, *"mnc")
    for _part in ("ang1", "rad1", "rad2"):
        _slope = _spheroidal(_kind, _part != "ang1", _cv)
        _solution(f"{_kind}_{_part}", ("m", "n", "c"), _slope)
        _solution(f"{_kind}_{_part}_cv", ("m", "n", "c", "cv"), _slope)
