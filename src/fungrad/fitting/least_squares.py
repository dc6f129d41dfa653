"""`curve_fit`: a model fitted to data by least squares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.fitting.curve_fit_result import CurveFit
from fungrad.fitting.parameters import Parameters
from fungrad.fitting.residuals import Data, Residuals, inverse_of_squares
from fungrad.fitting.robust_loss import covariance_factor
from fungrad.tracing.transformed_function import boundary


@boundary
def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    *,
    sigma_x: Any = None,
    fixed: Any = None,
    tied: Any = None,
    compiled: bool = True,
    **options: Any,
) -> CurveFit:
    """Fits a model to data by least squares, with its exact Jacobian: scipy.optimize.curve_fit.

    >>> def model(t, amplitude, rate):
    ...     return amplitude * np.exp(-rate * t)
    >>> t = np.linspace(0.0, 4.0, 9)
    >>> y = model(t, 2.5, 1.3) + 0.01 * np.cos(7.0 * np.arange(9))
    >>> curve_fit(model, t, y)
    Fit: parameter +- standard error
      amplitude           2.512662503 +- 0.00612
      rate                1.307669503 +- 0.00606
      sum of squares      0.0002824645104
      degrees of freedom  7
      correlation         amplitude, rate 0.462

    SciPy's least_squares finds the parameters, scaled by the Jacobian; then Gauss-Newton steps
    improve the last digits, as long as they get shorter and stay within the bounds.

    Args:
      f: the model, `f(x, a, b, ...)`, or `f(x, parameters)` where p0 is a dict or another tree with
        names. It returns an array of the shape of ydata, or a tree of arrays as ydata.
      xdata: passed to the model unchanged; any object, a tree of arrays for several data sets.
      ydata: the data to fit: real numbers, or for several data sets a dict (or another tree that
        is no list) of arrays.
      p0: the start: numbers, or a tree. By default ones, as many as f takes.
      sigma: the standard deviations of ydata, or their covariance matrix; for several data sets
        one number for all, or a tree of these as ydata.
      absolute_sigma: whether sigma is absolute; otherwise only its ratios matter, and the
        covariance is scaled so that the residuals have variance 1.
      bounds: (low, high): numbers or arrays in the order of the raveled parameters; or pairs by the
        names of parameters, `{"rate": (0.0, None)}`, where None is no bound.
      method: "trf", "dogbox" or "lm".
      sigma_x: the standard deviations of xdata, an array, if it has errors. Each of its numbers is
        then unknown, too: for up to about a thousand of them.
      fixed: the names of parameters that keep the value of p0, or `{"offset": 0.0}`.
      tied: functions that compute parameters from others: `{"b": lambda p: 2.0 * p["a"]}`, where p
        is a dict of the others by name.
      compiled: whether the model is compiled (`fg.jit`).
      options: more arguments of scipy.optimize.least_squares: `loss` ("soft_l1", "huber", "cauchy",
        "arctan") with `f_scale` for outliers, max_nfev and others.

    Returns:
      A CurveFit: `parameters, covariance = curve_fit(...)` works as in SciPy. It prints, can be
      called with x, and has errors, correlations, bands, profiles, comparisons and plots.

    Raises:
      ArgumentError: if model and data do not fit together, or data are not finite.
      RuntimeError: if no minimum is found, as in SciPy.
    """
    parameters = Parameters(f, p0, bounds, fixed, tied)
    data = Data(ydata, sigma)
    residuals = Residuals(f, parameters, xdata, data, sigma_x, compiled)
    best = residuals.smallest(method, options)
    count = parameters.start.size
    rest = residuals(best)
    squares, freedom = float(rest @ rest), rest.size - best.size
    loss = options.get("loss", "linear")
    free = inverse_of_squares(residuals.jacobian(best))[:count, :count]
    if loss != "linear" and np.all(np.isfinite(free)):
        free = free * covariance_factor(rest, count, loss, options.get("f_scale", 1.0))
    elif not absolute_sigma and np.all(np.isfinite(free)):
        free = free * (squares / freedom) if freedom > 0 else free + np.inf
    slopes = parameters.slopes(best[:count])
    covariance = slopes @ free @ slopes.T if np.all(np.isfinite(free)) else _spread(slopes)
    vector = np.asarray(parameters.vector(best[:count]), np.float64)
    return CurveFit(
        parameters.tree(vector), covariance,
        standard_errors=parameters.tree(np.sqrt(np.diag(covariance))), names=parameters.names,
        residuals=data.tree(rest[: data.size]), sum_of_squares=squares, degrees_of_freedom=freedom,
        evaluations=residuals.evaluations, x=residuals.x_at(best), absolute=absolute_sigma,
        loss=loss, _best=best, _parameters=parameters, _data=data, _residuals=residuals,
    )  # fmt: skip


def _spread(slopes: Any) -> Any:
    """Infinite covariances, except of parameters that do not vary."""
    varies = np.any(slopes != 0.0, axis=1)
    return np.where(np.outer(varies, varies), np.inf, 0.0)
