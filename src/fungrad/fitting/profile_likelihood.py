"""Profile likelihoods: one parameter held at values, the others fitted again."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.fitting import plots
from fungrad.fitting.tables import Rows, html_table, text_table
from fungrad.scipy.optional import scipy_module

_scipy_optimize = scipy_module("scipy.optimize")

FARTHEST = 40
"""The most times that the distance to an end of the interval is enlarged."""


class Profile:
    """The profile likelihood of one parameter.

    Attributes:
      name: of the parameter.
      best: its value at the fit.
      values: its values, ascending: float64[k].
      roots: at each the signed root of the growth of the sum of squares, in units of its standard
        deviation: a straight line if the model is linear: float64[k].
      low, high: the ends of the confidence interval; a bound, or infinite where the sum of squares
        never grows enough.
      errors: (best - low, high - best).
      level: of the interval.
    """

    def __init__(
        self, name: str, best: float, ends: tuple[float, float], level: float, curve: Any
    ) -> None:
        self.name, self.best, self.level = name, best, level
        self.low, self.high = ends
        self.errors = (best - self.low, self.high - best)
        self.values, self.roots = curve

    def plot(self, axes: Any = None) -> Any:
        """Draws the growth of the sum of squares, and the interval. Needs Matplotlib.

        Returns:
          The Axes.
        """
        return plots.profile(self, axes)

    def _rows(self) -> Rows:
        return [
            ("value", f"{self.best:.10g}"),
            ("low", f"{self.low:.10g} (-{self.errors[0]:.3g})"),
            ("high", f"{self.high:.10g} (+{self.errors[1]:.3g})"),
        ]

    def __repr__(self) -> str:
        return text_table(f"Profile of {self.name} at level {self.level}", self._rows())

    def _repr_html_(self) -> str:
        return html_table(f"Profile of {self.name} at level {self.level}", self._rows())


class _Path:
    """The best other unknowns for values of one, each found from those of the nearest value."""

    def __init__(self, residuals: Any, best: Any, index: int, variance: float) -> None:
        self._residuals, self._index, self._variance = residuals, index, variance
        self._others = np.delete(np.arange(best.size), index)
        rest = residuals(best)
        self._smallest = float(rest @ rest)
        self.known = {float(best[index]): best}
        self.roots = {float(best[index]): 0.0}

    def root(self, value: float) -> float:
        """The signed root of the growth of the sum of squares, in standard deviations."""
        if value not in self.roots:
            near = min(self.known, key=lambda known: abs(known - value))
            v = self.known[near].copy()
            v[self._index] = value
            v = self._refitted(v)
            rest = self._residuals(v)
            growth = max(float(rest @ rest) - self._smallest, 0.0) / self._variance
            best = next(iter(self.known))
            self.known[value] = v
            self.roots[value] = float(np.copysign(np.sqrt(growth), value - best))
        return self.roots[value]

    def _refitted(self, v: Any) -> Any:
        others, residuals = self._others, self._residuals
        if not others.size:
            return v

        def full(w: Any) -> Any:
            moved = v.copy()
            moved[others] = w
            return moved

        bounds = (residuals.low[others], residuals.high[others])
        refitted = _scipy_optimize.least_squares(
            lambda w: residuals(full(w)), v[others],
            lambda w: residuals.jacobian(full(w))[:, others],
            bounds, x_scale="jac", ftol=1e-12, xtol=1e-12, gtol=1e-12,
        )  # fmt: skip
        return full(refitted.x)


def profiled(
    name: str, residuals: Any, best: Any, index: int, error: float, variance: float,
    quantile: float, level: float, points: int,
) -> Profile:  # fmt: skip
    """The profile of one unknown.

    Args:
      residuals: of the fit. best: its unknowns. index: of the one among them.
      error: its standard error, the first step.
      variance: of the residuals.
      quantile: the size of the root at the ends of the interval.
      level, points: see `CurveFit.profile`.
    """
    path = _Path(residuals, best, index, variance)
    centre = float(best[index])
    step = error if np.isfinite(error) and error > 0 else max(abs(centre), 1.0) * 1e-2
    limits = (float(residuals.low[index]), float(residuals.high[index]))
    ends = (
        _end(path, centre, -step * quantile, quantile, limits[0]),
        _end(path, centre, step * quantile, quantile, limits[1]),
    )
    finite = [end if np.isfinite(end) else max(path.known, key=lambda v: abs(v - centre))
              for end in ends]  # fmt: skip
    for share in np.linspace(-1.0, 1.0, max(points, 2)):
        reach = finite[0] if share < 0 else finite[1]
        path.root(centre + abs(share) * (reach - centre))
    values = np.array(sorted(path.roots))
    return Profile(name, centre, ends, level, (values, np.array([path.roots[v] for v in values])))


def _end(path: _Path, centre: float, step: float, quantile: float, limit: float) -> float:
    """The value beside the centre at which the root reaches the quantile; the limit if it is
    nearer; infinite if there is none.
    """
    inner, outer = centre, centre + step
    for _ in range(FARTHEST):
        beyond = (outer - limit) * step >= 0.0
        outer = limit if beyond else outer
        if abs(path.root(outer)) >= quantile:
            return float(
                _scipy_optimize.brentq(
                    lambda value: abs(path.root(value)) - quantile, inner, outer, rtol=1e-10,
                    xtol=1e-12 * abs(step),
                )
            )  # fmt: skip
        if beyond:
            return limit
        inner, outer = outer, outer + 2.0 * (outer - inner)
    return float(np.copysign(np.inf, step))
