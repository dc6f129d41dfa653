"""The result of `curve_fit`: parameters with their errors, and what is computed from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.fitting import plots
from fungrad.fitting.comparison import Comparison
from fungrad.fitting.profile_likelihood import Profile, profiled
from fungrad.fitting.tables import Rows, html_table, text_table
from fungrad.scipy.optional import scipy_module
from fungrad.support import pytree
from fungrad.support.lazy import Record
from fungrad.tracing.transformed_function import boundary
from fungrad.transforms.jacobian import jacfwd
from fungrad.tree_parts import ravel_pytree

_stdtrit = scipy_module("scipy.special").stdtrit  # scipy.stats takes a second to load
_ndtri = scipy_module("scipy.special").ndtri

SHOWN = 3
"""The number of correlations that are printed."""
SLIGHT = 0.1
"""The size below which a correlation is not printed."""


class Derived(Record):
    """A quantity computed from the parameters of a fit, with its error by linear propagation."""

    value: Any
    standard_error: Any
    covariance: Any


class CurveFit(tuple[Any, Any]):
    """The result of `curve_fit`: `parameters, covariance = fit` as in SciPy, and more.

    Attributes:
      parameters: the best ones: an array, or a tree as p0.
      covariance: float64[n, n], in the order of the raveled parameters; 0 for fixed ones.
      correlation: float64[n, n], the same in units of the standard errors.
      standard_errors: the roots of its diagonal, shaped as the parameters.
      names: of the parameters.
      residuals: (model - y), divided by sigma if given; an array, or a tree as ydata.
      pulls: (y - model) in units of its standard deviation, which is estimated if sigma is not
        absolute.
      sum_of_squares: of the residuals; with errors in x, those of x included.
      degrees_of_freedom: the number of residuals minus that of free parameters.
      aic, bic: the information criteria of Akaike and Schwarz, for normal errors.
      x: xdata; if it has errors, moved to where the fit is best.
      evaluations: the number of calls of the model.
    """

    parameters: Any
    covariance: Any
    standard_errors: Any
    names: tuple[str, ...]
    residuals: Any
    sum_of_squares: float
    degrees_of_freedom: int
    evaluations: int
    x: Any
    absolute: bool
    loss: Any
    _best: Any
    _parameters: Any
    _data: Any
    _residuals: Any

    def __new__(cls, parameters: Any, covariance: Any, **more: Any) -> CurveFit:
        made = super().__new__(cls, (parameters, covariance))
        made.parameters, made.covariance = parameters, covariance
        vars(made).update(more)
        return made

    # --- errors of parameters

    @property
    def correlation(self) -> Any:
        """float64[n, n]: the covariance in units of the standard errors."""
        errors = ravel_pytree(self.standard_errors)[0]
        sizes = np.where(errors > 0, errors, 1.0)
        with np.errstate(invalid="ignore"):
            return self.covariance / np.outer(sizes, sizes)

    def confidence_interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """(low, high) for each parameter, shaped as the parameters; by Student's t, or by the
        normal distribution if sigma is absolute.
        """
        spread = self._quantile(level)
        pairs = (self.parameters, self.standard_errors)
        return (
            pytree.map(lambda p, e: p - spread * e, *pairs),
            pytree.map(lambda p, e: p + spread * e, *pairs),
        )

    @boundary
    def profile(self, name: str, level: float = 0.95, points: int = 12) -> Profile:
        """The profile likelihood of one parameter, with the ends of its confidence interval.

        At each value of the parameter, all others are fitted again. So the interval is right
        where the model is not linear in its parameters, and may be lopsided (Bates and Watts 1988,
        Nonlinear Regression Analysis, section 6.1).

        Args:
          name: one of `names`, a free one.
          level: of the interval; 0.6827 gives the errors that physicists call asymmetric.
          points: the number of values at which the profile is computed.

        Raises:
          ArgumentError: for a fixed or tied parameter, or a fit by a robust loss.

        >>> import fungrad as fg
        >>> t, y = np.arange(6.0), np.array([5.1, 2.9, 2.1, 1.2, 0.8, 0.3])
        >>> fit = fg.curve_fit(lambda t, size, rate: size * np.exp(-rate * t), t, y)
        >>> fit.profile("rate", 0.6827)
        Profile of rate at level 0.6827
          value  0.4838657049
          low    0.4533318474 (-0.0305)
          high   0.5161570776 (+0.0323)
        """
        if self.loss != "linear":
            raise ArgumentError("fit.profile needs a fit by least squares, without loss=.")
        if name not in self.names:
            raise ArgumentError(f"{name!r} is none of the parameters {', '.join(self.names)}.")
        place = np.flatnonzero(self._parameters.free == self.names.index(name))
        if not place.size:
            raise ArgumentError(f"{name} is fixed or tied: it has no profile.")
        error = float(ravel_pytree(self.standard_errors)[0][self.names.index(name)])
        return profiled(
            name, self._residuals, self._best, int(place[0]), error, self._variance(),
            self._quantile(level), level, points,
        )  # fmt: skip

    @boundary
    def propagate(self, g: Callable[[Any], Any]) -> Derived:
        """A function of the parameters, with its error: g C g' by its exact derivatives.

        Args:
          g: `g(parameters)`, a number or an array, written with NumPy.

        Returns:
          Derived(value, standard_error, covariance); the covariance is that of the raveled value.

        >>> import fungrad as fg
        >>> t, y = np.arange(6.0), np.array([5.1, 2.9, 2.1, 1.2, 0.8, 0.3])
        >>> fit = fg.curve_fit(lambda t, size, rate: size * np.exp(-rate * t), t, y)
        >>> half_life = fit.propagate(lambda p: np.log(2.0) / p[1])
        >>> print(half_life.value.round(3), half_life.standard_error.round(3))
        1.433 0.081
        """
        vector, tree = ravel_pytree(self.parameters)
        value = np.asarray(g(self.parameters), np.float64)
        slopes = np.asarray(jacfwd(lambda p: g(tree(p)))(vector), np.float64)
        slopes = slopes.reshape(value.size, vector.size)
        covariance = slopes @ self.covariance @ slopes.T
        error = np.sqrt(np.diag(covariance)).reshape(value.shape)
        return Derived(value[()], error[()], covariance)

    # --- the model at other places

    def __call__(self, x: Any) -> Any:
        """The model at x, with the best parameters."""
        return self._parameters.call(x, self.parameters)

    @boundary
    def confidence_band(self, x: Any, level: float = 0.95) -> tuple[Any, Any]:
        """(low, high) for the model's mean at x, linearised in the parameters.

        The variance of f(x, p) is J C J' with the Jacobian J by the parameters and their covariance
        C (Seber and Wild 2003, Nonlinear Regression, section 5.1).
        """
        return self._band(x, level, 0.0)

    @boundary
    def prediction_band(self, x: Any, level: float = 0.95, sigma: Any = None) -> tuple[Any, Any]:
        """(low, high) for a new measurement at x: the confidence band, widened by the noise.

        Args:
          x: places, as xdata.
          level: the share of new measurements that are inside.
          sigma: the standard deviation of a new measurement, in the units of y. By default that of
            the fit: estimated, or the one number given as sigma.

        Raises:
          ArgumentError: if the fit has sigmas of its own for each datum, and sigma is not given.
        """
        if sigma is None:
            one = self._data.one_error
            if self._data.known_errors and one is None:
                raise ArgumentError(
                    "prediction_band needs sigma=, the standard deviation of a new measurement: "
                    "the data have one each."
                )
            sigma = (one or 1.0) * np.sqrt(self._variance())
        return self._band(x, level, sigma)

    def _band(self, x: Any, level: float, noise: Any) -> tuple[Any, Any]:
        vector, tree = ravel_pytree(self.parameters)

        def model(p: Any) -> Any:
            return self._parameters.call(x, tree(p))

        leaves, treedef = pytree.flatten(model(vector))
        slopes = pytree.leaves(jacfwd(model)(vector))
        low, high = [], []
        for value, jacobian in zip(map(np.asarray, leaves), slopes, strict=True):
            j = np.asarray(jacobian, np.float64).reshape(value.size, vector.size)
            variance = np.einsum("ij,jk,ik->i", j, self.covariance, j).reshape(value.shape)
            spread = self._quantile(level) * np.sqrt(variance + np.square(noise))
            low.append(value - spread)
            high.append(value + spread)
        return pytree.unflatten(treedef, low), pytree.unflatten(treedef, high)

    # --- how good the fit is

    @property
    def pulls(self) -> Any:
        """(y - model) in units of its standard deviation, shaped as the data."""
        return pytree.map(lambda r: -r / np.sqrt(self._variance()), self.residuals)

    @property
    def aic(self) -> float:
        """Akaike's information criterion: 2 k - 2 log L."""
        return self._deviance() + 2.0 * self._count()

    @property
    def bic(self) -> float:
        """Schwarz's information criterion: k log n - 2 log L."""
        return self._deviance() + self._count() * float(np.log(self._data.size))

    def compare(self, other: CurveFit) -> Comparison:
        """This fit beside another one of the same data: AIC, BIC, and the F test if it is nested.

        Raises:
          ArgumentError: if the data are not the same, or one of the fits uses a robust loss.
        """
        ours, theirs = self._data, other._data
        same = ours.treedef == theirs.treedef and all(
            map(np.array_equal, ours.arrays, theirs.arrays)
        )
        if not same:
            raise ArgumentError("fit.compare takes a fit of the same data; these have other ydata.")
        if {self.loss, other.loss} != {"linear"} or self.absolute != other.absolute:
            raise ArgumentError(
                "fit.compare takes two fits by least squares, both with absolute_sigma or both "
                "without."
            )
        return Comparison(self, other)

    def plot_residuals(self, axes: Any = None) -> Any:
        """Draws the residuals in order, one colour for each data set. Needs Matplotlib.

        Returns:
          The Axes.
        """
        return plots.residuals(self, axes)

    def plot_pulls(self, axes: Any = None) -> Any:
        """Draws the histogram of the pulls beside the standard normal density. Needs Matplotlib.

        Returns:
          The Axes.
        """
        return plots.pulls(self, axes)

    def _variance(self) -> float:
        """That of the residuals: 1 if sigma is absolute, else estimated."""
        if self.absolute or self.degrees_of_freedom <= 0:
            return 1.0
        return self.sum_of_squares / self.degrees_of_freedom

    def _quantile(self, level: float) -> float:
        if self.absolute:
            return float(_ndtri(0.5 + level / 2))
        return float(_stdtrit(max(self.degrees_of_freedom, 1), 0.5 + level / 2))

    def _deviance(self) -> float:
        """-2 log L up to a constant of the data."""
        if self.absolute:
            return self.sum_of_squares
        return int(self._data.size) * float(np.log(self.sum_of_squares / self._data.size))

    def _count(self) -> int:
        """The number of free parameters; an unknown variance is one more."""
        return int(self._parameters.free.size) + (not self.absolute)

    # --- printing

    def _rows(self) -> Rows:
        values, errors = ravel_pytree(self.parameters)[0], ravel_pytree(self.standard_errors)[0]
        rows = []
        for name, value, error in zip(self.names, values, errors, strict=True):
            shown = f"{value:.10g} +- {error:.3g}"
            if name in self._parameters.fixed:
                shown = f"{value:.10g} (fixed)"
            elif name in self._parameters.tied:
                shown += " (tied)"
            rows.append((name, shown))
        rows.append(("sum of squares", f"{self.sum_of_squares:.10g}"))
        rows.append(("degrees of freedom", str(self.degrees_of_freedom)))
        return rows + [("correlation", shown) for shown in self._strongest()]

    def _strongest(self) -> list[str]:
        """The largest correlations of free parameters."""
        if not np.all(np.isfinite(self.covariance)):
            return []
        free, correlation = self._parameters.free, self.correlation
        pairs = [(i, j) for i in free for j in free if i < j]
        pairs = [(i, j) for i, j in pairs if abs(correlation[i, j]) >= SLIGHT]
        pairs.sort(key=lambda pair: -abs(correlation[pair]))
        return [
            f"{self.names[i]}, {self.names[j]} {correlation[i, j]:.3f}" for i, j in pairs[:SHOWN]
        ]

    def __repr__(self) -> str:
        return text_table("Fit: parameter +- standard error", self._rows())

    def _repr_html_(self) -> str:
        return html_table("Fit: parameter &plusmn; standard error", self._rows())
