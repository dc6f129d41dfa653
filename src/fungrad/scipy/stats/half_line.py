"""Floor 8: the distributions of scipy.stats on half of the line, by the formulas of their standard
forms.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.primitives.elementwise import select
from fungrad.scipy.special_entropy import xlogy
from fungrad.scipy.special_error import erf, erfc, log_ndtr, ndtr, ndtri
from fungrad.scipy.special_gamma import (
    digamma,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammaln,
)
from fungrad.scipy.special_gamma import (
    gamma as gamma_function,
)
from fungrad.scipy.stats.continuous import Continuous

_LOG_2 = math.log(2.0)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_ROOT_HALF = math.sqrt(0.5)


def _above(x: Any, bound: float, formula: Any) -> Any:
    """The formula where x is above a bound, and inf below."""
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
    """tan(pi p / 2), of p and 1 - p."""
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
