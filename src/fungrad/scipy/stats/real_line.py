"""The distributions of scipy.stats on the whole line, by the formulas of their standard
forms.

Source: N. Johnson, S. Kotz and N. Balakrishnan, "Continuous Univariate Distributions" (1994).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import select
from fungrad.scipy.special.error_functions import expit, log_expit, log_ndtr, logit, ndtr, ndtri
from fungrad.scipy.special.gamma_functions import (
    betaln,
    digamma,
    gamma,
    gammaincc,
    gammainccinv,
    gammaln,
    poch,
)
from fungrad.scipy.special.student_t import stdtr, stdtrit
from fungrad.scipy.stats.continuous import Continuous

_LOG_2 = math.log(2.0)
_LOG_PI = math.log(math.pi)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def _norm_logpdf(x: Any) -> Any:
    return x * x * -0.5 - _LOG_ROOT_TWO_PI


norm = Continuous(
    "norm",
    symmetric=True,
    everywhere=True,
    logpdf=_norm_logpdf,
    cdf=ndtr,
    logcdf=log_ndtr,
    ppf=ndtri,
    entropy=lambda: _LOG_ROOT_TWO_PI + 0.5,
    mean=lambda: 0.0,
    var=lambda: 1.0,
)


def _t_logpdf(x: Any, df: Any) -> Any:
    """Student's density, and its limit at df = inf."""
    normal = df == np.inf
    df = select(normal, 1.0, df)
    student = (
        np.log(poch(df * 0.5, 0.5))
        - (np.log(df) + _LOG_PI) * 0.5
        - (df + 1.0) * 0.5 * np.log1p(x * x / df)
    )
    return select(normal, _norm_logpdf(x), student)


def _t_cdf(x: Any, df: Any) -> Any:
    normal = df == np.inf
    return select(normal, ndtr(x), stdtr(select(normal, 1.0, df), x))


def _t_ppf(q: Any, df: Any) -> Any:
    normal = df == np.inf
    student = select(q == 0, -np.inf, stdtrit(select(normal, 1.0, df), q))
    return select(normal, ndtri(q), student)


def _t_entropy(df: Any) -> Any:
    """The closed form, or from df = 100 on, where it cancels, its expansion in r = 1 / df."""
    large = df >= 100
    half = select(large, 1.0, df) * 0.5
    closed = (
        (half + 0.5) * (digamma(half + 0.5) - digamma(half))
        + np.log(half * 2.0) * 0.5
        + betaln(half, 0.5)
    )
    r = 1.0 / select(large, df, 100.0)
    series = r * (1.0 + r * (1 / 4 + r * (-1 / 6 + r * (-1 / 8 + r * (3 / 10 + r / 4)))))
    return select(large, series + (_LOG_ROOT_TWO_PI + 0.5), closed)


def _t_var(df: Any) -> Any:
    wide = select((df > 2) & (df < np.inf), df, 3.0)
    large = select(df == np.inf, 1.0, wide / (wide - 2.0))
    return select(df > 2, large, select(df > 1, np.inf, np.nan))


t = Continuous(
    "t",
    "df",
    symmetric=True,
    logpdf=_t_logpdf,
    cdf=_t_cdf,
    ppf=_t_ppf,
    entropy=_t_entropy,
    mean=lambda df: select(df > 1, 0.0, np.inf),
    var=_t_var,
)


cauchy = Continuous(
    "cauchy",
    symmetric=True,
    logpdf=lambda x: np.log(np.hypot(1.0, x)) * -2.0 - _LOG_PI,
    cdf=lambda x: np.arctan2(1.0, -x) / math.pi,
    ppf=lambda q: select(q < 0.5, -1.0, 1.0) / np.tan(select(q < 0.5, q, 1.0 - q) * math.pi),
    isf=lambda q: select(q < 0.5, 1.0, -1.0) / np.tan(select(q < 0.5, q, 1.0 - q) * math.pi),
    entropy=lambda: math.log(4.0 * math.pi),
    mean=lambda: math.nan,
    var=lambda: math.nan,
)


def _laplace_cdf(x: Any) -> Any:
    left = np.exp(select(x < 0, x, 0.0)) * 0.5
    return select(x < 0, left, 1.0 - np.exp(-select(x < 0, 0.0, x)) * 0.5)


def _laplace_logcdf(x: Any) -> Any:
    right = np.log1p(np.exp(-select(x < 0, 0.0, x)) * -0.5)
    return select(x < 0, x - _LOG_2, right)


laplace = Continuous(
    "laplace",
    symmetric=True,
    everywhere=True,
    logpdf=lambda x: -np.abs(x) - _LOG_2,
    cdf=_laplace_cdf,
    logcdf=_laplace_logcdf,
    ppf=lambda q: select(q < 0.5, np.log(q * 2.0), -np.log((1.0 - q) * 2.0)),
    isf=lambda q: select(q < 0.5, -np.log(q * 2.0), np.log((1.0 - q) * 2.0)),
    entropy=lambda: _LOG_2 + 1.0,
    mean=lambda: 0.0,
    var=lambda: 2.0,
)


def _skewnorm_mean(a: Any) -> Any:
    return a / np.sqrt(1.0 + a * a) * math.sqrt(2.0 / math.pi)


skewnorm = Continuous(
    "skewnorm",
    "a",
    valid=lambda a: np.abs(a) < np.inf,
    logpdf=lambda x, a: _norm_logpdf(x) + log_ndtr(a * x) + _LOG_2,
    mean=_skewnorm_mean,
    var=lambda a: 1.0 - np.square(_skewnorm_mean(a)),
)

logistic = Continuous(
    "logistic",
    symmetric=True,
    logpdf=lambda x: log_expit(x) + log_expit(-x),
    cdf=expit,
    logcdf=log_expit,
    ppf=logit,
    entropy=lambda: 2.0,
    mean=lambda: 0.0,
    var=lambda: math.pi**2 / 3.0,
)

gumbel_r = Continuous(
    "gumbel_r",
    logpdf=lambda x: -x - np.exp(-x),
    logcdf=lambda x: -np.exp(-x),
    inverse=lambda v: -np.log(-v),
    entropy=lambda: np.euler_gamma + 1.0,
    mean=lambda: np.euler_gamma,
    var=lambda: math.pi**2 / 6.0,
)
gumbel_l = Continuous(
    "gumbel_l",
    logpdf=lambda x: x - np.exp(x),
    logsf=lambda x: -np.exp(x),
    inverse=lambda v: np.log(-v),
    entropy=lambda: np.euler_gamma + 1.0,
    mean=lambda: -np.euler_gamma,
    var=lambda: math.pi**2 / 6.0,
)


def _gennorm_logpdf(x: Any, beta: Any) -> Any:
    """With the slope 0 at x = 0, by its symmetry also where beta is less than 1."""
    cusp = (x == 0) & (beta < 1)
    power = np.abs(select(cusp, 1.0, x)) ** beta
    return np.log(beta * 0.5) - gammaln(1.0 / beta) - select(cusp, 0.0, power)


def _gennorm_cdf(x: Any, beta: Any) -> Any:
    """Of an incomplete gamma function, which has a corner at x = 0: there by its tangent."""
    power = np.abs(x) ** beta
    small, large = power == 0, power == np.inf
    at = select(small | large, 1.0, x)
    tail = select(large, 0.0, gammaincc(1.0 / beta, np.abs(at) ** beta) * 0.5)
    middle = x * np.exp(_gennorm_logpdf(0.0, beta)) + 0.5
    return select(small, middle, select(x < 0, tail, 1.0 - tail))


def _gennorm_ppf(q: Any, beta: Any) -> Any:
    """The inverse of _gennorm_cdf, with the same corner in its middle."""
    left = q < 0.5
    tail = select(q == 0.5, 0.1, select(left, q, 1.0 - q))
    size = gammainccinv(1.0 / beta, tail * 2.0) ** (1.0 / beta)
    middle = (q - 0.5) / np.exp(_gennorm_logpdf(0.0, beta))
    return select(q == 0.5, middle, select(left, -size, size))


gennorm = Continuous(
    "gennorm",
    "beta",
    symmetric=True,
    logpdf=_gennorm_logpdf,
    cdf=_gennorm_cdf,
    ppf=_gennorm_ppf,
    entropy=lambda beta: 1.0 / beta - np.log(beta * 0.5) + gammaln(1.0 / beta),
    mean=lambda beta: beta * 0.0,
    var=lambda beta: gamma(3.0 / beta) / gamma(1.0 / beta),
)
