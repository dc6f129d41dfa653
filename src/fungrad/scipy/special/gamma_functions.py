"""The gamma family of scipy.special: gamma, beta, zeta and the incomplete integrals.

Formulas: DLMF chapters 5 (gamma), 8 (incomplete) and 25.11 (zeta). Digamma's derivatives are those
of the Hurwitz zeta function. Needs SciPy when it is imported.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import Over, elementwise, select
from fungrad.primitives.primitive import Primitive
from fungrad.primitives.special.incomplete_beta import beta_slope
from fungrad.primitives.special.incomplete_gamma import gamma_slope
from fungrad.scipy.optional import real, scipy_special, unknown
from fungrad.scipy.special.entropy import xlog1py, xlogy

sp = scipy_special()

zeta: Primitive = elementwise(
    "zeta",
    lambda x, q: sp.zeta(x, q),
    ufunc=sp._ufuncs._zeta,
    partials=[unknown("zeta", "x"), lambda y, x, q: -x * zeta(x + 1.0, q)],
)
"""The Hurwitz zeta function (DLMF 25.11.17)."""

digamma = elementwise("digamma", sp.psi, partials=[lambda y, x: zeta(2.0, real("digamma", x))])
gammaln = elementwise("gammaln", sp.gammaln, partials=[lambda y, x: digamma(x)])
loggamma = elementwise("loggamma", sp.loggamma, partials=[lambda y, x: digamma(x)])
gamma = elementwise("gamma", sp.gamma, partials=[lambda y, x: y * digamma(x)])


def _rgamma_slope(y: Any, x: Any) -> Any:
    """Left of 1/2 by reflection (DLMF 5.5.3), which is smooth at the poles of gamma, too."""
    left = real("rgamma", x) < 0.5
    at = select(left, 1.0 - x, 1.0)
    turn = math.pi * x
    reflected = gamma(at) * (np.cos(turn) - np.sin(turn) * digamma(at) / math.pi)
    return select(left, reflected, -y * digamma(select(left, 1.0, x)))


rgamma = elementwise("rgamma", sp.rgamma, partials=[_rgamma_slope])
beta = elementwise(
    "beta",
    sp.beta,
    partials=[
        lambda z, a, b: z * (digamma(a) - digamma(a + b)),
        lambda z, a, b: z * (digamma(b) - digamma(a + b)),
    ],
)
betaln = elementwise(
    "betaln",
    sp.betaln,
    partials=[
        lambda z, a, b: digamma(a) - digamma(a + b),
        lambda z, a, b: digamma(b) - digamma(a + b),
    ],
)
poch = elementwise(
    "poch",
    sp.poch,
    partials=[
        lambda y, z, m: y * (digamma(z + m) - digamma(z)),
        lambda y, z, m: y * digamma(z + m),
    ],
)
binom = elementwise(
    "binom",
    sp.binom,
    partials=[
        lambda y, n, k: y * (digamma(n + 1.0) - digamma(n - k + 1.0)),
        lambda y, n, k: y * (digamma(n - k + 1.0) - digamma(k + 1.0)),
    ],
)

# --- incomplete integrals: by x the integrand, by a parameter an integral of its derivative -------


def gamma_density(a: Any, x: Any) -> Any:
    """x^(a-1) exp(-x) / Gamma(a)."""
    return np.exp(xlogy(a - 1.0, x) - x - gammaln(a))


def beta_density(a: Any, b: Any, x: Any) -> Any:
    """x^(a-1) (1-x)^(b-1) / B(a, b)."""
    return np.exp(xlogy(a - 1.0, x) + xlog1py(b - 1.0, -x) - betaln(a, b))


def _gamma_height(a: Any, x: Any) -> Any:
    """The density of log x, whose power of x does not overflow near 0."""
    return np.exp(xlogy(a, x) - x - gammaln(a))


def _beta_height(a: Any, b: Any, x: Any) -> Any:
    """The density of log(x / (1 - x))."""
    return np.exp(xlogy(a, x) + xlog1py(b, -x) - betaln(a, b))


def _gamma_by_a(a: Any, x: Any, height: Any = _gamma_height) -> Any:
    """The derivative of gammainc by a; 0 at both ends."""
    inside = np.logical_and(x > 0, x < np.inf)
    at = select(inside, x, 1.0)
    return select(inside, gamma_slope(a, np.log(at), order=1) * height(a, at), 0.0)


def _beta_by(a: Any, b: Any, x: Any, m: int, n: int, height: Any = _beta_height) -> Any:
    """The derivative of betainc by a (m = 1) or b (n = 1); 0 at both ends."""
    inside = np.logical_and(x > 0, x < 1)
    at = select(inside, x, 0.5)
    return select(inside, beta_slope(a, b, at, m=m, n=n) * height(a, b, at), 0.0)


def _gamma_inverse_by_a(a: Any, x: Any) -> Any:
    """The derivative by a of the x that has a given probability: the density cancels."""
    return -_gamma_by_a(a, x, lambda a, x: x)


def _beta_inverse_by(a: Any, b: Any, x: Any, m: int, n: int) -> Any:
    return -_beta_by(a, b, x, m, n, lambda a, b, x: x * (1.0 - x))


gammainc = elementwise(
    "gammainc",
    sp.gammainc,
    partials=[lambda y, a, x: _gamma_by_a(a, x), lambda y, a, x: gamma_density(a, x)],
)
gammaincc = elementwise(
    "gammaincc",
    sp.gammaincc,
    partials=[lambda y, a, x: -_gamma_by_a(a, x), lambda y, a, x: -gamma_density(a, x)],
)
gammaincinv = elementwise(
    "gammaincinv",
    sp.gammaincinv,
    partials=[
        lambda x, a, y: _gamma_inverse_by_a(a, x),
        Over(lambda x, a, y: gamma_density(a, x)),
    ],
)
gammainccinv = elementwise(
    "gammainccinv",
    sp.gammainccinv,
    partials=[
        lambda x, a, y: _gamma_inverse_by_a(a, x),
        Over(lambda x, a, y: -gamma_density(a, x)),
    ],
)
betainc = elementwise(
    "betainc",
    sp.betainc,
    partials=[
        lambda y, a, b, x: _beta_by(a, b, x, 1, 0),
        lambda y, a, b, x: _beta_by(a, b, x, 0, 1),
        lambda y, a, b, x: beta_density(a, b, x),
    ],
)
betaincinv = elementwise(
    "betaincinv",
    sp.betaincinv,
    partials=[
        lambda x, a, b, y: _beta_inverse_by(a, b, x, 1, 0),
        lambda x, a, b, y: _beta_inverse_by(a, b, x, 0, 1),
        Over(lambda x, a, b, y: beta_density(a, b, x)),
    ],
)
