"""The distributions of scipy.stats on the half line, by the formulas of their standard forms.

Source: N. Johnson, S. Kotz and N. Balakrishnan, "Continuous Univariate Distributions" (1994).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import select
from fungrad.scipy.special.elementary import xlogy
from fungrad.scipy.special.gamma_functions import (
    betainc,
    betaincinv,
    betaln,
    digamma,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammaln,
)
from fungrad.scipy.special.gamma_functions import (
    gamma as gamma_function,
)
from fungrad.scipy.special.logsumexp_erf import erf, erfc, log_expit, log_ndtr, logit, ndtr, ndtri
from fungrad.scipy.stats.continuous import Continuous
from fungrad.scipy.stats.distribution import log1mexp

_LOG_2 = math.log(2.0)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_ROOT_HALF = math.sqrt(0.5)


def _above(x: Any, bound: float, formula: Any) -> Any:
    """The formula for x above a bound, inf below."""
    return select(x > bound, formula(select(x > bound, x, bound + 1.0)), np.inf)


expon = Continuous(
    "expon",
    support=(0.0, np.inf),
    logpdf=lambda x: -x,
    logsf=lambda x: -x,
    inverse=lambda v: -v,
    entropy=lambda: 1.0,
    mean=lambda: 1.0,
    var=lambda: 1.0,
)

gamma = Continuous(
    "gamma",
    "a",
    support=(0.0, np.inf),
    logpdf=lambda x, a: xlogy(a - 1.0, x) - x - gammaln(a),
    cdf=lambda x, a: gammainc(a, x),
    sf=lambda x, a: gammaincc(a, x),
    ppf=lambda q, a: gammaincinv(a, q),
    isf=lambda q, a: gammainccinv(a, q),
    entropy=lambda a: digamma(a) * (1.0 - a) + a + gammaln(a),
    mean=lambda a: a,
    var=lambda a: a,
)

chi2 = Continuous(
    "chi2",
    "df",
    support=(0.0, np.inf),
    logpdf=lambda x, df: (
        xlogy(df * 0.5 - 1.0, x) - x * 0.5 - gammaln(df * 0.5) - df * (_LOG_2 * 0.5)
    ),
    cdf=lambda x, df: gammainc(df * 0.5, x * 0.5),
    sf=lambda x, df: gammaincc(df * 0.5, x * 0.5),
    ppf=lambda q, df: gammaincinv(df * 0.5, q) * 2.0,
    isf=lambda q, df: gammainccinv(df * 0.5, q) * 2.0,
    entropy=lambda df: digamma(df * 0.5) * (1.0 - df * 0.5) + df * 0.5 + gammaln(df * 0.5) + _LOG_2,
    mean=lambda df: df,
    var=lambda df: df * 2.0,
)

invgamma = Continuous(
    "invgamma",
    "a",
    support=(0.0, np.inf),
    open=True,
    logpdf=lambda x, a: -(a + 1.0) * np.log(x) - gammaln(a) - 1.0 / x,
    cdf=lambda x, a: gammaincc(a, 1.0 / x),
    sf=lambda x, a: gammainc(a, 1.0 / x),
    ppf=lambda q, a: 1.0 / gammainccinv(a, q),
    isf=lambda q, a: 1.0 / gammaincinv(a, q),
    entropy=lambda a: a - (a + 1.0) * digamma(a) + gammaln(a),
    mean=lambda a: _above(a, 1.0, lambda a: 1.0 / (a - 1.0)),
    var=lambda a: _above(a, 2.0, lambda a: 1.0 / (np.square(a - 1.0) * (a - 2.0))),
)

lognorm = Continuous(
    "lognorm",
    "s",
    support=(0.0, np.inf),
    open=True,
    logpdf=lambda x, s: np.square(np.log(x) / s) * -0.5 - _LOG_ROOT_TWO_PI - np.log(s) - np.log(x),
    cdf=lambda x, s: ndtr(np.log(x) / s),
    sf=lambda x, s: ndtr(-np.log(x) / s),
    logcdf=lambda x, s: log_ndtr(np.log(x) / s),
    logsf=lambda x, s: log_ndtr(-np.log(x) / s),
    ppf=lambda q, s: np.exp(ndtri(q) * s),
    isf=lambda q, s: np.exp(-ndtri(q) * s),
    entropy=lambda s: np.log(s) + (_LOG_ROOT_TWO_PI + 0.5),
    mean=lambda s: np.exp(s * s * 0.5),
    var=lambda s: np.expm1(s * s) * np.exp(s * s),
)

pareto = Continuous(
    "pareto",
    "b",
    support=(1.0, np.inf),
    inner=2.0,
    logpdf=lambda x, b: np.log(b) - (b + 1.0) * np.log(x),
    logsf=lambda x, b: -b * np.log(x),
    inverse=lambda v, b: np.exp(-v / b),
    entropy=lambda b: 1.0 + 1.0 / b - np.log(b),
    mean=lambda b: _above(b, 1.0, lambda b: b / (b - 1.0)),
    var=lambda b: _above(b, 2.0, lambda b: b / (np.square(b - 1.0) * (b - 2.0))),
)

weibull_min = Continuous(
    "weibull_min",
    "c",
    support=(0.0, np.inf),
    logpdf=lambda x, c: np.log(c) + xlogy(c - 1.0, x) - x**c,
    logsf=lambda x, c: -(x**c),
    inverse=lambda v, c: (-v) ** (1.0 / c),
    entropy=lambda c: np.euler_gamma * (1.0 - 1.0 / c) - np.log(c) + 1.0,
    mean=lambda c: gamma_function(1.0 + 1.0 / c),
    var=lambda c: gamma_function(1.0 + 2.0 / c) - np.square(gamma_function(1.0 + 1.0 / c)),
)

rayleigh = Continuous(
    "rayleigh",
    support=(0.0, np.inf),
    logpdf=lambda x: np.log(x) - x * x * 0.5,
    logsf=lambda x: x * x * -0.5,
    inverse=lambda v: np.sqrt(v * -2.0),
    entropy=lambda: np.euler_gamma * 0.5 + 1.0 - _LOG_2 * 0.5,
    mean=lambda: math.sqrt(math.pi / 2.0),
    var=lambda: 2.0 - math.pi / 2.0,
)

lomax = Continuous(
    "lomax",
    "c",
    support=(0.0, np.inf),
    logpdf=lambda x, c: np.log(c) - (c + 1.0) * np.log1p(x),
    logsf=lambda x, c: -c * np.log1p(x),
    inverse=lambda v, c: np.expm1(-v / c),
    entropy=lambda c: 1.0 + 1.0 / c - np.log(c),
    mean=lambda c: _above(c, 1.0, lambda c: 1.0 / (c - 1.0)),
    var=lambda c: _above(c, 2.0, lambda c: c / (np.square(c - 1.0) * (c - 2.0))),
)

fisk = Continuous(
    "fisk",
    "c",
    support=(0.0, np.inf),
    logpdf=lambda x, c: np.log(c) + xlogy(c - 1.0, x) - np.log1p(x**c) * 2.0,
    logcdf=lambda x, c: log_expit(np.log(x) * c),
    logsf=lambda x, c: log_expit(np.log(x) * -c),
    ppf=lambda q, c: np.exp(logit(q) / c),
    isf=lambda q, c: np.exp(logit(q) / -c),
    entropy=lambda c: 2.0 - np.log(c),
)


def _f_logpdf(x: Any, dfn: Any, dfd: Any) -> Any:
    power = (dfn + dfd) * 0.5 * np.log1p(x * dfn / dfd)
    scale = dfn * 0.5 * np.log(dfn / dfd) - betaln(dfn * 0.5, dfd * 0.5)
    return scale + xlogy(dfn * 0.5 - 1.0, x) - power


def _f_sf(x: Any, dfn: Any, dfd: Any) -> Any:
    """The incomplete beta function of the share that does not cancel."""
    share = dfn * x / (dfn * x + dfd)
    below = betainc(dfn * 0.5, dfd * 0.5, share)
    rest = dfd / (dfn * x + dfd)
    return select(below < 0.5, 1.0 - below, betainc(dfd * 0.5, dfn * 0.5, rest))


def _f_ppf(q: Any, dfn: Any, dfd: Any) -> Any:
    low = q < 0.5
    share = betaincinv(dfn * 0.5, dfd * 0.5, select(low, q, 0.5))
    rest = betaincinv(dfd * 0.5, dfn * 0.5, select(low, 0.5, 1.0 - q))
    return dfd / dfn * select(low, share / (1.0 - share), (1.0 - rest) / rest)


def _f_entropy(dfn: Any, dfd: Any) -> Any:
    m, n = dfn * 0.5, dfd * 0.5
    return (
        np.log(dfd / dfn)
        + betaln(m, n)
        + (1.0 - m) * digamma(m)
        - (1.0 + n) * digamma(n)
        + (m + n) * digamma(m + n)
    )


def _f_var(dfn: Any, dfd: Any) -> Any:
    def finite(n: Any) -> Any:
        return 2.0 * n * n * (dfn + n - 2.0) / (dfn * np.square(n - 2.0) * (n - 4.0))

    return _above(dfd, 4.0, finite)


f = Continuous(
    "f",
    "dfn dfd",
    support=(0.0, np.inf),
    logpdf=_f_logpdf,
    cdf=lambda x, m, n: betainc(m * 0.5, n * 0.5, m * x / (m * x + n)),
    sf=_f_sf,
    ppf=_f_ppf,
    isf=lambda q, m, n: 1.0 / _f_ppf(q, n, m),
    entropy=_f_entropy,
    mean=lambda m, n: _above(n, 2.0, lambda n: n / (n - 2.0)) + m * 0.0,
    var=_f_var,
)


def _invgauss_tails(x: Any, mu: Any, side: float) -> Any:
    """log cdf (side 1) or log sf (side -1), of two normal probabilities.

    Shuster, On the inverse Gaussian distribution function (1968).
    """
    root = np.sqrt(x)
    first = log_ndtr((x / mu - 1.0) / root * side)
    second = 2.0 / mu + log_ndtr(-(x / mu + 1.0) / root)
    if side > 0:
        return np.logaddexp(first, second)
    return first + log1mexp(second - first)


invgauss = Continuous(
    "invgauss",
    "mu",
    support=(0.0, np.inf),
    open=True,
    logpdf=lambda x, mu: -_LOG_ROOT_TWO_PI - np.log(x) * 1.5 - np.square(x / mu - 1.0) / (x * 2.0),
    logcdf=lambda x, mu: _invgauss_tails(x, mu, 1.0),
    logsf=lambda x, mu: _invgauss_tails(x, mu, -1.0),
    mean=lambda mu: mu,
    var=lambda mu: mu**3,
)

halfnorm = Continuous(
    "halfnorm",
    support=(0.0, np.inf),
    logpdf=lambda x: x * x * -0.5 + (_LOG_2 - _LOG_ROOT_TWO_PI),
    cdf=lambda x: erf(x * _ROOT_HALF),
    sf=lambda x: erfc(x * _ROOT_HALF),
    logcdf=lambda x: np.log(erf(x * _ROOT_HALF)),
    logsf=lambda x: log_ndtr(-x) + _LOG_2,
    ppf=lambda q: ndtri((1.0 + q) * 0.5),
    isf=lambda q: -ndtri(q * 0.5),
    entropy=lambda: _LOG_ROOT_TWO_PI - _LOG_2 + 0.5,
    mean=lambda: math.sqrt(2.0 / math.pi),
    var=lambda: 1.0 - 2.0 / math.pi,
)


def _halfcauchy_quantile(p: Any, rest: Any) -> Any:
    """tan(pi p / 2), from p and 1 - p."""
    left = p < 0.5
    slope = np.tan(select(left, p, rest) * (math.pi / 2.0))
    return select(left, slope, 1.0 / slope)


halfcauchy = Continuous(
    "halfcauchy",
    support=(0.0, np.inf),
    logpdf=lambda x: -2.0 * np.log(np.hypot(1.0, x)) + math.log(2.0 / math.pi),
    cdf=lambda x: np.arctan(x) * (2.0 / math.pi),
    sf=lambda x: np.arctan2(1.0, x) * (2.0 / math.pi),
    ppf=lambda q: _halfcauchy_quantile(q, 1.0 - q),
    isf=lambda q: _halfcauchy_quantile(1.0 - q, q),
    entropy=lambda: math.log(2.0 * math.pi),
    mean=lambda: math.inf,
    var=lambda: math.inf,
)
