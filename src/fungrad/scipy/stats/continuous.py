"""The common part of continuous distributions (density and its integral at (x - loc) / scale,
quantiles, moments), and those of scipy.stats on the whole line, by the formulas of their standard
forms.

Source: N. Johnson, S. Kotz and N. Balakrishnan, "Continuous Univariate Distributions" (1994).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.special.cdfs import stdtr, stdtrit
from fungrad.scipy.special.gamma_functions import (
    betaln,
    digamma,
    gamma,
    gammaincc,
    gammainccinv,
    gammaln,
    poch,
)
from fungrad.scipy.special.logsumexp_erf import expit, log_expit, log_ndtr, logit, ndtr, ndtri
from fungrad.scipy.stats.distribution import LIMITS, Distribution, is_infinite, settled
from fungrad.tracing.trace import typeof

_SIDES = {"cdf": 1.0, "sf": -1.0, "logcdf": 1.0, "logsf": -1.0}
"""The sign of each function's slope in x."""


class Continuous(Distribution):
    """A continuous distribution, with location, scale, and density."""

    _parameters_of_place = ("loc", "scale")
    _densities = ("logpdf", "pdf")

    def _at(self, method: str, x: Any, args: Any, kwargs: Any, everywhere: bool = False) -> Any:
        """The standard form's function at (x - loc) / scale; a density also divided by scale.

        If its formula is valid `everywhere`, the support is not checked.
        """
        with np.errstate(all="ignore"):
            y, shapes, loc, scale = self._prepared(method, x, args, kwargs)
            dtype = typeof(y).dtype
            validity = self._validity(shapes, scale)
            if validity is not None:
                scale = validity if scale is None else scale * validity
            y = y if loc is None else y - loc
            y = y if scale is None else y / scale
            less = np.log(scale) if method == "logpdf" and scale is not None else None
            if method in _SIDES:
                value = self._on_support(method, y, shapes, closed=False)
                return cast(self._with_slopes(value, method, y, shapes), dtype)
            if not everywhere:
                return self._on_support(method, y, shapes, less=less)
            value = self._formula(method)(y, *shapes)
            return cast(value if less is None else value - less, dtype)

    def _ends(self, shapes: list[Any], power: int) -> list[tuple[Any, Any]]:
        """Both ends of the support, with a power of the density there: a constant, 0 if the density
        is infinite or the end does not belong to the support.
        """
        lower, upper = self._support(*shapes)
        outside = self._open or is_infinite(lower), is_infinite(upper)
        return [
            (bound, 0.0 if out else self._density_at(bound, shapes, power))
            for bound, out in zip((lower, upper), outside, strict=True)
        ]

    def _density_at(self, bound: Any, shapes: list[Any], power: int) -> Any:
        bound = np.float64(bound) if type(bound) is float else bound
        log_density = self._formula("logpdf")(bound, *shapes)
        beyond = np.abs(log_density) == np.inf
        density = np.exp(select(beyond, 0.0, log_density) * power)
        return stop_gradient(select(beyond | np.isnan(density), 0.0, density))

    def _with_slopes(self, found: Any, method: str, y: Any, shapes: list[Any]) -> Any:
        """A probability at y; its slope at an end of the support is the density there."""
        for (bound, density), limit in zip(self._ends(shapes, 1), LIMITS[method], strict=True):
            if np.isfinite(limit) and type(density) is not float:
                end = (y == bound) & (np.abs(y) < np.inf)
                step = select(end, y - bound, 0.0) * (density * _SIDES[method])
                found = select(end, found + step, found)
        return found

    def logpdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of the density at x; -inf, with the derivative 0, outside of the support.

        Args:
          x: real numbers.
          *args, **kwargs: the shape parameters, loc and scale, which broadcast against x.

        Returns:
          Numbers of the common floating dtype; NaN where a parameter is invalid.

        Raises:
          TypeError: for missing or unknown parameters.

        >>> import fungrad as fg
        >>> float(fg.grad(norm.logpdf)(1.0, loc=0.5, scale=0.5))
        -2.0
        """
        return self._at("logpdf", x, args, kwargs, self._everywhere)

    def pdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The density at x: that of the standard form at (x - loc) / scale, over scale.

        Args:
          x: real numbers.
          *args, **kwargs: the shape parameters, loc and scale, which broadcast against x.

        Returns:
          Numbers of the common floating dtype; 0 outside of the support, NaN where a parameter is
          invalid.

        Raises:
          TypeError: for missing or unknown parameters.

        >>> import fungrad as fg
        >>> float(fg.grad(laplace.pdf)(1.0).round(6))
        -0.18394
        """
        return settled(np.exp(settled(self._at("logpdf", x, args, kwargs))))

    def _quantile(self, method: str, q: Any, args: Any, kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            q, shapes, loc, scale = self._prepared(method, q, args, kwargs)
            validity = self._validity(shapes, scale)
            q = select((q >= 0) & (q <= 1), q, np.nan)
            q = q if validity is None else q * validity
            y = self._formula(method)(select((q == 0) | (q == 1), 0.5, q), *shapes)
            ends, side = self._ends(shapes, -1), 1.0
            if method == "isf":
                ends, side = ends[::-1], -1.0
            for edge, (bound, slope) in zip((0.0, 1.0), ends, strict=True):
                step = select(q == edge, q - edge, 0.0) * (slope * side)
                y = select(q == edge, bound + step, y)
            y = y if scale is None else y * scale
            return cast(y if loc is None else y + loc, typeof(q).dtype)

    def _moment(self, method: str, args: Any, kwargs: Any) -> Any:
        power = {"entropy": None, "mean": 1, "var": 2}[method]
        with np.errstate(all="ignore"):
            _, shapes, loc, scale = self._prepared(method, None, args, kwargs)
            value = self._formula(method)(*shapes)
            given = [p for p in (*shapes, loc, scale) if p is not None]
            if not given:
                return np.float64(value)
            validity = self._validity(shapes, scale)
            value = value if validity is None else value * validity
            if scale is not None:
                value = value + np.log(scale) if power is None else value * scale**power
            if loc is not None:
                value = value + loc if power == 1 else select(loc == loc, value, np.nan)
            return cast(value, typeof(given[0]).dtype)


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
    """The closed form, or for df >= 100, where it cancels, its expansion in r = 1 / df."""
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
    """The log density, with slope 0 at x = 0 by symmetry, also for beta < 1."""
    cusp = (x == 0) & (beta < 1)
    power = np.abs(select(cusp, 1.0, x)) ** beta
    return np.log(beta * 0.5) - gammaln(1.0 / beta) - select(cusp, 0.0, power)


def _gennorm_cdf(x: Any, beta: Any) -> Any:
    """The cdf by an incomplete gamma function; at its corner x = 0 by the tangent."""
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
