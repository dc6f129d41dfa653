"""The discrete distributions of scipy.stats, by the formulas of their standard forms.

Values k (and loc, and integer parameters) have derivative 0 on purpose, and so have quantiles,
which SciPy computes.

Source: N. Johnson, A. Kemp and S. Kotz, "Univariate Discrete Distributions" (2005).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.host.external import pure_callback
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.special.elementary import entr, xlog1py, xlogy
from fungrad.scipy.special.gamma_functions import betainc, betaln, gammainc, gammaincc, gammaln
from fungrad.scipy.stats.distribution import Distribution
from fungrad.tracing.trace import Tracer, shape_of, typeof


class Discrete(Distribution):
    """A discrete distribution, with location and probabilities of integers."""

    _parameters_of_place = ("loc",)
    _densities = ("logpmf", "pmf")
    _by_scipy = ("ppf", "isf")

    def _at(self, method: str, k: Any, args: Any, kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            k, shapes, loc = self._prepared(method, k, args, kwargs)
            k = stop_gradient(k, name="k")
            k = k if loc is None else k - stop_gradient(loc, name="loc")
            whole = np.floor(k)
            broken = whole < k if method == "logpmf" else None
            value = self._on_support(method, whole, shapes, broken) * self._validity(shapes)
            return cast(value, typeof(shapes[0]).dtype)

    def logpmf(self, k: Any, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of the probability of k; -inf where it is 0, as for k not an integer.

        Args:
          k: real numbers, integers or not. The derivative in them is 0, on purpose.
          *args, **kwargs: the shape parameters and loc, which broadcast against k.

        Returns:
          Numbers of the common floating dtype; NaN where a parameter is invalid.

        Raises:
          TypeError: for missing or unknown parameters.

        >>> import fungrad as fg
        >>> float(fg.grad(lambda rate: poisson.logpmf(3, rate))(2.0))
        0.5
        """
        return self._at("logpmf", k, args, kwargs)

    def pmf(self, k: Any, *args: Any, **kwargs: Any) -> Any:
        """The probability of k; 0 for k not an integer.

        Args:
          k: real numbers, integers or not. The derivative in them is 0, on purpose.
          *args, **kwargs: the shape parameters and loc, which broadcast against k.

        Returns:
          Numbers in [0, 1] of the common floating dtype; NaN where a parameter is invalid.

        Raises:
          TypeError: for missing or unknown parameters.

        >>> import fungrad as fg
        >>> float(fg.grad(lambda p: bernoulli.pmf(1, p))(0.25).round(9))
        1.0
        """
        return np.exp(self.logpmf(k, *args, **kwargs))

    def _quantile(self, method: str, q: Any, args: Any, kwargs: Any) -> Any:
        """SciPy's quantile, by a callback if values are traced."""
        lead, shapes, loc = self._prepared(method, q, args, kwargs)
        values = [lead, *shapes, *(() if loc is None else (loc,))]
        type_ = Type(np.broadcast_shapes(*map(shape_of, values)), typeof(lead).dtype)

        def quantile(*arrays: Any) -> Any:
            with np.errstate(all="ignore"):
                return np.asarray(getattr(self._scipy, method)(*arrays), type_.dtype)

        if not any(type(value) is Tracer for value in values):
            return quantile(*values)[()]
        wide = [np.broadcast_to(stop_gradient(v), type_.shape) for v in values]
        return pure_callback(quantile, type_, *wide, vectorized=True)

    def _moment(self, method: str, args: Any, kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            _, shapes, loc = self._prepared(method, None, args, kwargs)
            value = self._formula(method)(*shapes) * self._validity(shapes)
            if loc is not None:
                value = value + loc if method == "mean" else select(loc == loc, value, np.nan)
            return cast(value, typeof(shapes[0]).dtype)


def _fraction(p: Any) -> Any:
    return (p >= 0) & (p <= 1)


def _count(n: Any) -> Any:
    return (n >= 0) & (np.floor(n) == n)


bernoulli = Discrete(
    "bernoulli",
    "p",
    support=(0.0, 1.0),
    inner=0.0,
    valid=_fraction,
    infinite=lambda k, p: select(k > 0, p == 0, p == 1),
    logpmf=lambda k, p: xlogy(k, p) + xlog1py(1.0 - k, -p),
    cdf=lambda k, p: 1.0 - (1.0 - k) * p,
    sf=lambda k, p: (1.0 - k) * p,
    entropy=lambda p: entr(p) + entr(1.0 - p),
    mean=lambda p: p,
    var=lambda p: p * (1.0 - p),
)


def _binom_tail(k: Any, n: Any, p: Any, above: bool) -> Any:
    """A tail by the incomplete beta function (DLMF 8.17.5), which is undefined at k = n."""
    last = k >= n
    i, j = select(last, 0.0, k) + 1.0, select(last, 1.0, n - k)
    tail = betainc(i, j, p) if above else betainc(j, i, 1.0 - p)
    return select(last, 0.0 if above else 1.0, tail)


binom = Discrete(
    "binom",
    "n p",
    support=lambda n, p: (0.0, n),
    inner=0.0,
    integers=("n",),
    valid=lambda n, p: _count(n) & _fraction(p),
    infinite=lambda k, n, p: ((k > 0) & (p == 0)) | ((k < n) & (p == 1)),
    logpmf=lambda k, n, p: (
        gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
        + xlogy(k, p) + xlog1py(n - k, -p)
    ),
    cdf=lambda k, n, p: _binom_tail(k, n, p, above=False),
    sf=lambda k, n, p: _binom_tail(k, n, p, above=True),
    mean=lambda n, p: n * p,
    var=lambda n, p: n * p * (1.0 - p),
)  # fmt: skip

betabinom = Discrete(
    "betabinom",
    "n a b",
    support=lambda n, a, b: (0.0, n),
    inner=0.0,
    integers=("n",),
    valid=lambda n, a, b: _count(n) & (a > 0) & (b > 0),
    infinite=lambda k, n, a, b: False,
    logpmf=lambda k, n, a, b: (
        -np.log(n + 1.0) - betaln(n - k + 1.0, k + 1.0) + betaln(k + a, n - k + b) - betaln(a, b)
    ),
    mean=lambda n, a, b: n * a / (a + b),
    var=lambda n, a, b: n * a * b * (a + b + n) / (np.square(a + b) * (a + b + 1.0)),
)

poisson = Discrete(
    "poisson",
    "mu",
    support=(0.0, np.inf),
    inner=0.0,
    valid=lambda mu: mu >= 0,
    infinite=lambda k, mu: (k > 0) & (mu == 0),
    logpmf=lambda k, mu: xlogy(k, mu) - gammaln(k + 1.0) - mu,
    cdf=lambda k, mu: gammaincc(k + 1.0, mu),
    sf=lambda k, mu: gammainc(k + 1.0, mu),
    mean=lambda mu: mu,
    var=lambda mu: mu,
)

nbinom = Discrete(
    "nbinom",
    "n p",
    support=(0.0, np.inf),
    inner=0.0,
    valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    infinite=lambda k, n, p: (k > 0) & (p == 1),
    logpmf=lambda k, n, p: (
        gammaln(n + k) - gammaln(k + 1.0) - gammaln(n) + n * np.log(p) + xlog1py(k, -p)
    ),
    cdf=lambda k, n, p: betainc(n, k + 1.0, p),
    sf=lambda k, n, p: betainc(k + 1.0, n, 1.0 - p),
    mean=lambda n, p: n * (1.0 - p) / p,
    var=lambda n, p: n * (1.0 - p) / np.square(p),
)

geom = Discrete(
    "geom",
    "p",
    support=(1.0, np.inf),
    inner=1.0,
    valid=lambda p: (p > 0) & (p <= 1),
    infinite=lambda k, p: (k > 1) & (p == 1),
    logpmf=lambda k, p: xlog1py(k - 1.0, -p) + np.log(p),
    logsf=lambda k, p: xlog1py(k, -p),
    mean=lambda p: 1.0 / p,
    var=lambda p: (1.0 - p) / np.square(p),
    entropy=lambda p: (entr(p) + entr(1.0 - p)) / p,
)
