"""The elliptic integrals and functions of scipy.special, and agm.

Every derivative of one of Carlson's symmetric integrals (DLMF 19.16) is such an integral again,
with larger exponents: `carlson` computes it, also for equal arguments. Legendre's integrals are
expressed by them (DLMF 19.25). Needs SciPy when it is imported.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import elementwise, select
from fungrad.primitives.primitive import Primitive
from fungrad.scipy.optional import scipy_special, special
from fungrad.scipy.special.bessel import hyp2f1
from fungrad.tracing.trace import registry

sp = scipy_special()

# --- Carlson's ------------------------------------------------------------------------------------

_STEP = 0.35
_NODES = np.exp(np.arange(-100.0, 100.0, _STEP))


def _eval_carlson(*args: Any) -> Any:
    arguments, exponents = args[:4], args[4:]
    dtype = np.result_type(*arguments)
    dtype = dtype if dtype.kind in "fc" else np.dtype(np.float64)
    wide = np.complex128 if dtype.kind == "c" else np.float64
    scale: Any = 1e-300
    for x in arguments:
        scale = np.maximum(scale, np.abs(x))
    scale = np.asarray(scale, np.float64)[..., None]
    logarithm: Any = np.log(_NODES * _STEP)
    with np.errstate(all="ignore"):
        for x, b in zip(arguments, exponents, strict=True):
            part = np.asarray(x, wide)[..., None] / scale
            logarithm = logarithm - np.asarray(b)[..., None] * np.log(_NODES + part)
        total = np.exp(logarithm).sum(-1)
        power: Any = sum(np.asarray(b) for b in exponents)
        return (total * scale[..., 0] ** (1.0 - power)).astype(dtype)[()]


def _raised(position: int) -> Any:
    """The partial in one of the four arguments: its exponent is one larger."""

    def partial(y: Any, *args: Any) -> Any:
        b = list(args[4:])
        factor = -b[position]
        b[position] = b[position] + 1.0
        return carlson(*args[:4], *b) * factor

    return partial


carlson: Primitive = elementwise(
    "carlson", _eval_carlson, partials=[*[_raised(i) for i in range(4)], *[None] * 4]
)
"""`carlson(x, y, z, p, a, b, c, d)`: the integral of (t+x)^-a (t+y)^-b (t+z)^-c (t+p)^-d over all
t > 0, for x, y, z, p off the negative axis. The trapezoidal rule in log t converges geometrically
(L. Trefethen and J. Weideman, "The exponentially convergent trapezoidal rule", 2014)."""


def _rd(x: Any, y: Any, z: Any) -> Any:
    return elliprd(x, y, z)


def _times_rd(x: Any, y: Any, z: Any) -> Any:
    """z R_D(x, y, z), and its limit 0 at z = 0."""
    zero = z == 0
    return select(zero, 0.0, z) * elliprd(x, y, select(zero, 1.0, z))


elliprd: Primitive = special(
    "elliprd",
    lambda r, x, y, z: carlson(x, y, z, 1.0, 1.5, 0.5, 1.5, 0.0) * -0.75,
    lambda r, x, y, z: carlson(x, y, z, 1.0, 0.5, 1.5, 1.5, 0.0) * -0.75,
    lambda r, x, y, z: carlson(x, y, z, 1.0, 0.5, 0.5, 2.5, 0.0) * -2.25,
)
elliprf = special(
    "elliprf",
    lambda r, x, y, z: _rd(y, z, x) / -6.0,
    lambda r, x, y, z: _rd(z, x, y) / -6.0,
    lambda r, x, y, z: _rd(x, y, z) / -6.0,
)
elliprg = special(
    "elliprg",
    lambda r, x, y, z: (elliprf(x, y, z) * 3.0 - _times_rd(y, z, x)) / 12.0,
    lambda r, x, y, z: (elliprf(x, y, z) * 3.0 - _times_rd(z, x, y)) / 12.0,
    lambda r, x, y, z: (elliprf(x, y, z) * 3.0 - _times_rd(x, y, z)) / 12.0,
)
"""R_G is the mean of sqrt(x l^2 + y m^2 + z n^2) over the sphere, R_F that of its reciprocal."""

elliprj = special(
    "elliprj",
    lambda r, x, y, z, p: carlson(x, y, z, p, 1.5, 0.5, 0.5, 1.0) * -0.75,
    lambda r, x, y, z, p: carlson(x, y, z, p, 0.5, 1.5, 0.5, 1.0) * -0.75,
    lambda r, x, y, z, p: carlson(x, y, z, p, 0.5, 0.5, 1.5, 1.0) * -0.75,
    lambda r, x, y, z, p: carlson(x, y, z, p, 0.5, 0.5, 0.5, 2.0) * -1.5,
)


def _rc_slope(r: Any, x: Any, y: Any, by_first: bool) -> Any:
    """A partial of R_C: for y < 0 (Cauchy's principal value) by an elementary form, else by R_D."""
    negative = np.real(y) < 0
    safe = select(negative, 1.0, y)
    known = elliprd(safe, safe, x) / -6.0 if by_first else elliprd(x, safe, safe) / -3.0
    root = np.sqrt(x)
    rest = r - 1.0 / root if by_first else root / y - r
    gap = (y - x) * 2.0
    return select(negative, rest / select(negative, gap, 1.0), known)


elliprc = special(
    "elliprc", lambda r, x, y: _rc_slope(r, x, y, True), lambda r, x, y: _rc_slope(r, x, y, False)
)

# --- Legendre's and Jacobi's ----------------------------------------------------------------------


def _quarters(phi: Any) -> tuple[Any, Any]:
    """The number of half turns from [-pi/2, pi/2] to phi, and the rest."""
    turns = np.rint(phi / math.pi)
    return turns, phi - turns * math.pi


def _square_over_delta(phi: Any, m: Any, cubed: bool) -> Any:
    """The integral of sin^2 / Delta, or of sin^2 / Delta^3, with Delta^2 = 1 - m sin^2, to phi."""
    turns, psi = _quarters(phi)
    s, c = np.sin(psi), np.cos(psi)
    delta = 1.0 - m * s * s
    if cubed:
        part, whole = elliprd(c * c, 1.0, delta), elliprd(0.0, 1.0, _unless(turns, m))
    else:
        part, whole = elliprd(c * c, delta, 1.0), elliprd(0.0, _unless(turns, m), 1.0)
    return (s**3 * part + select(turns == 0, 0.0, turns * 2.0 * whole)) / 3.0


def _unless(turns: Any, m: Any) -> Any:
    """1 - m if a whole quarter is passed; else 1, so that nothing is infinite there."""
    return select(turns == 0, 1.0, 1.0 - m)


def _delta(phi: Any, m: Any) -> Any:
    return np.sqrt(1.0 - m * np.square(np.sin(phi)))


ellipkinc = special(
    "ellipkinc",
    lambda f, phi, m: 1.0 / _delta(phi, m),
    lambda f, phi, m: _square_over_delta(phi, m, True) * 0.5,
)
ellipeinc = special(
    "ellipeinc",
    lambda e, phi, m: _delta(phi, m),
    lambda e, phi, m: _square_over_delta(phi, m, False) * -0.5,
)


ellipkm1 = special("ellipkm1", lambda k, p: hyp2f1(0.5, 0.5, 2.0, 1.0 - p) / p * (-math.pi / 8))


def _amplitude_by_m(u: Any, m: Any) -> Any:
    """From F(phi, m) = u: Delta times the derivative of F in m."""
    return ellipj_dn(u, m) * _square_over_delta(ellipj_ph(u, m), m, True) * -0.5


ellipj_ph: Primitive = elementwise(
    "ellipj_ph",
    lambda u, m: sp.ellipj(u, m)[3],
    partials=[lambda ph, u, m: ellipj_dn(u, m), lambda ph, u, m: _amplitude_by_m(u, m)],
)
ellipj_sn: Primitive = elementwise(
    "ellipj_sn",
    lambda u, m: sp.ellipj(u, m)[0],
    partials=[
        lambda sn, u, m: ellipj_cn(u, m) * ellipj_dn(u, m),
        lambda sn, u, m: ellipj_cn(u, m) * _amplitude_by_m(u, m),
    ],
)
ellipj_cn: Primitive = elementwise(
    "ellipj_cn",
    lambda u, m: sp.ellipj(u, m)[1],
    partials=[
        lambda cn, u, m: -ellipj_sn(u, m) * ellipj_dn(u, m),
        lambda cn, u, m: -ellipj_sn(u, m) * _amplitude_by_m(u, m),
    ],
)


def _dn_by_m(dn: Any, u: Any, m: Any) -> Any:
    sn = ellipj_sn(u, m)
    turned = ellipj_cn(u, m) * _amplitude_by_m(u, m)
    return -(sn * sn * 0.5 + m * sn * turned) / dn


ellipj_dn: Primitive = elementwise(
    "ellipj_dn",
    lambda u, m: sp.ellipj(u, m)[2],
    partials=[lambda dn, u, m: -m * ellipj_sn(u, m) * ellipj_cn(u, m), _dn_by_m],
)
registry.ufuncs[sp.ellipj] = lambda u, m: (
    ellipj_sn(u, m), ellipj_cn(u, m), ellipj_dn(u, m), ellipj_ph(u, m)
)  # fmt: skip


def _mean_slope(mean: Any, a: Any, b: Any) -> Any:
    """The derivative in b: agm(a, b) = pi a / (2 K(1 - b^2 / a^2)) (DLMF 19.8.5)."""
    return mean / a * (mean / b) * hyp2f1(0.5, 0.5, 2.0, 1.0 - np.square(b / a)) * 0.5


agm = special("agm", lambda y, a, b: _mean_slope(y, b, a), lambda y, a, b: _mean_slope(y, a, b))
