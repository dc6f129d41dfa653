"""The distributions of scipy.stats on intervals and on the circle, by the formulas of
their standard forms.

Source: N. Johnson, S. Kotz and N. Balakrishnan, "Continuous Univariate Distributions" (1994).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import select
from fungrad.scipy.special.bessel import i0, i0e, i1, i1e
from fungrad.scipy.special.elementary import xlog1py, xlogy
from fungrad.scipy.special.gamma_functions import betainc, betaincinv, betaln, digamma
from fungrad.scipy.special.logsumexp_erf import log_ndtr, ndtri_exp
from fungrad.scipy.stats.continuous import Continuous
from fungrad.scipy.stats.distribution import log1mexp

_LOG_TWO_PI = math.log(2.0 * math.pi)

uniform = Continuous(
    "uniform",
    support=(0.0, 1.0),
    logpdf=lambda x: x * 0.0,
    cdf=lambda x: x,
    ppf=lambda q: q,
    entropy=lambda: 0.0,
    mean=lambda: 0.5,
    var=lambda: 1.0 / 12.0,
)


def _loguniform_var(a: Any, b: Any) -> Any:
    width = np.log(b) - np.log(a)
    return (b * b - a * a) * 0.5 / width - np.square((b - a) / width)


loguniform = Continuous(
    "loguniform",
    "a b",
    support=lambda a, b: (a, b),
    valid=lambda a, b: (a > 0) & (b > a),
    logpdf=lambda x, a, b: -np.log(x) - np.log(np.log(b) - np.log(a)),
    cdf=lambda x, a, b: (np.log(x) - np.log(a)) / (np.log(b) - np.log(a)),
    sf=lambda x, a, b: (np.log(b) - np.log(x)) / (np.log(b) - np.log(a)),
    ppf=lambda q, a, b: np.exp(np.log(a) + q * (np.log(b) - np.log(a))),
    isf=lambda q, a, b: np.exp(np.log(b) - q * (np.log(b) - np.log(a))),
    entropy=lambda a, b: (np.log(a) + np.log(b)) * 0.5 + np.log(np.log(b) - np.log(a)),
    mean=lambda a, b: (b - a) / (np.log(b) - np.log(a)),
    var=_loguniform_var,
)


def _beta_sf(x: Any, a: Any, b: Any) -> Any:
    """1 - I_x(a, b), by I_{1 - x}(b, a) if that is small (DLMF 8.17.4)."""
    below = betainc(a, b, x)
    return select(below < 0.5, 1.0 - below, betainc(b, a, 1.0 - x))


def _beta_isf(q: Any, a: Any, b: Any) -> Any:
    high = q < 0.5
    return select(high, 1.0 - betaincinv(b, a, q), betaincinv(a, b, 1.0 - q))


def _beta_entropy(a: Any, b: Any) -> Any:
    return (
        betaln(a, b)
        - (a - 1.0) * digamma(a)
        - (b - 1.0) * digamma(b)
        + (a + b - 2.0) * digamma(a + b)
    )


beta = Continuous(
    "beta",
    "a b",
    support=(0.0, 1.0),
    logpdf=lambda x, a, b: xlog1py(b - 1.0, -x) + xlogy(a - 1.0, x) - betaln(a, b),
    cdf=lambda x, a, b: betainc(a, b, x),
    sf=_beta_sf,
    ppf=lambda q, a, b: betaincinv(a, b, q),
    isf=_beta_isf,
    entropy=_beta_entropy,
    mean=lambda a, b: a / (a + b),
    var=lambda a, b: a * b / (np.square(a + b) * (a + b + 1.0)),
)

# --- the normal distribution between two bounds ---------------------------------------------------


def _log_ndtr(x: Any) -> Any:
    """log_ndtr, with derivatives of all orders 0 at infinity."""
    far = np.abs(x) == np.inf
    return select(far, select(x > 0, 0.0, -np.inf), log_ndtr(select(far, 0.0, x)))


def _lower_tail(a: Any, b: Any) -> tuple[Any, Any]:
    """log_ndtr of the upper bound of (a, b), mirrored if a > 0, and the difference of log_ndtr from
    it to the lower bound.
    """
    right = a > 0
    low, high = _log_ndtr(select(right, -b, a)), _log_ndtr(select(right, -a, b))
    return high, select(high == -np.inf, -1.0, low - high)


def _log_mass(a: Any, b: Any) -> Any:
    """The logarithm of the normal probability of (a, b)."""
    high, less = _lower_tail(a, b)
    return high + log1mexp(less)


def _share(x: Any, y: Any, a: Any, b: Any) -> Any:
    """The normal probability of (x, y) divided by that of (a, b)."""
    high, less = _lower_tail(x, y)
    return -np.exp(high - _log_mass(a, b)) * np.expm1(less)


def _truncnorm_logcdf(x: Any, a: Any, b: Any) -> Any:
    """The log cdf by the mass below x, or if that is almost all by the mass above."""
    total = _log_mass(a, b)
    below = _log_mass(a, x) - total
    return select(below > -0.1, log1mexp(np.minimum(_log_mass(x, b) - total, 0.0)), below)


def _truncnorm_ppf(q: Any, a: Any, b: Any) -> Any:
    """The quantile by the mass in the lower tail, or for a >= 0 in the upper."""
    left = a < 0
    part = select(left, np.log(q), np.log1p(-q))
    rest = np.logaddexp(_log_ndtr(select(left, a, -b)), part + _log_mass(a, b))
    quantile = ndtri_exp(select(rest > 0, 0.0, rest))
    return select(left, quantile, -quantile)


def _edges(a: Any, b: Any) -> tuple[Any, ...]:
    """The densities of the truncated distribution at both bounds, each also times its bound."""
    total = _log_mass(a, b)
    edges: list[Any] = []
    for bound in (a, b):
        far = np.abs(bound) == np.inf
        at = select(far, 0.0, bound)
        density = select(far, 0.0, np.exp(at * at * -0.5 - 0.5 * _LOG_TWO_PI - total))
        edges += [density, density * at]
    return tuple(edges)


def _truncnorm_entropy(a: Any, b: Any) -> Any:
    _, by_a, _, by_b = _edges(a, b)
    return _log_mass(a, b) + 0.5 * _LOG_TWO_PI + 0.5 + (by_a - by_b) * 0.5


def _truncnorm_mean(a: Any, b: Any) -> Any:
    at_a, _, at_b, _ = _edges(a, b)
    return at_a - at_b


def _truncnorm_var(a: Any, b: Any) -> Any:
    at_a, by_a, at_b, by_b = _edges(a, b)
    return 1.0 + by_a - by_b - np.square(at_a - at_b)


truncnorm = Continuous(
    "truncnorm",
    "a b",
    support=lambda a, b: (a, b),
    valid=lambda a, b: a < b,
    logpdf=lambda x, a, b: x * x * -0.5 - 0.5 * _LOG_TWO_PI - _log_mass(a, b),
    cdf=lambda x, a, b: _share(a, x, a, b),
    sf=lambda x, a, b: _share(x, b, a, b),
    logcdf=_truncnorm_logcdf,
    logsf=lambda x, a, b: _truncnorm_logcdf(-x, -b, -a),
    ppf=_truncnorm_ppf,
    isf=lambda q, a, b: -_truncnorm_ppf(q, -b, -a),
    entropy=_truncnorm_entropy,
    mean=_truncnorm_mean,
    var=_truncnorm_var,
)

# --- on the circle --------------------------------------------------------------------------------


def _log_i0e(kappa: Any) -> Any:
    """log(I_0(kappa) exp(-kappa)) for kappa >= 0, smooth at 0."""
    small = kappa < 1
    near = select(small, kappa, 0.0)
    return select(small, np.log(i0(near)) - near, np.log(i0e(select(small, 1.0, kappa))))


def _i1_by_i0(kappa: Any) -> Any:
    small = kappa < 1
    near, far = select(small, kappa, 0.0), select(small, 1.0, kappa)
    return select(small, i1(near) / i0(near), i1e(far) / i0e(far))


vonmises = Continuous(
    "vonmises",
    "kappa",
    valid=lambda kappa: kappa >= 0,
    logpdf=lambda x, kappa: (
        kappa * np.square(np.sin(x * 0.5)) * -2.0 - _LOG_TWO_PI - _log_i0e(kappa)
    ),
    entropy=lambda kappa: _LOG_TWO_PI + _log_i0e(kappa) + kappa * (1.0 - _i1_by_i0(kappa)),
)

wrapcauchy = Continuous(
    "wrapcauchy",
    "c",
    support=(0.0, 2.0 * math.pi),
    valid=lambda c: (c > 0) & (c < 1),
    logpdf=lambda x, c: np.log1p(-c * c) - np.log1p(c * c - 2.0 * c * np.cos(x)) - _LOG_TWO_PI,
    cdf=lambda x, c: np.arctan2((1.0 + c) * np.sin(x * 0.5), (1.0 - c) * np.cos(x * 0.5)) / math.pi,
    ppf=lambda q, c: (
        np.arctan2((1.0 - c) * np.sin(q * math.pi), (1.0 + c) * np.cos(q * math.pi)) * 2.0
    ),
    entropy=lambda c: np.log1p(-c * c) + _LOG_TWO_PI,
)
