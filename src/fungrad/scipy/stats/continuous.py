"""Continuous distributions: density and its integral at (x - loc) / scale, quantiles,
moments. Knows no single distribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.stats.distribution import LIMITS, Distribution, is_infinite
from fungrad.scipy.stats.family import settled
from fungrad.tracing.trace import typeof

_SIDES = {"cdf": 1.0, "sf": -1.0, "logcdf": 1.0, "logsf": -1.0}
"""Whether they rise with x, or fall."""


class Continuous(Distribution):
    """A continuous distribution: location, scale, and density."""

    _parameters_of_place = ("loc", "scale")
    _densities = ("logpdf", "pdf")

    def _at(self, method: str, x: Any, args: Any, kwargs: Any, everywhere: bool = False) -> Any:
        """The standard form's function at (x - loc) / scale; a density also divided by scale.

        Its formula alone, without a look at the support, where it is right `everywhere`.
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
                found = self._on_support(method, y, shapes, closed=False)
                return cast(self._with_slopes(found, method, y, shapes), dtype)
            if not everywhere:
                return self._on_support(method, y, shapes, less=less)
            found = self._formula(method)(y, *shapes)
            return cast(found if less is None else found - less, dtype)

    def _ends(self, shapes: list[Any], power: int) -> list[tuple[Any, Any]]:
        """Both ends of the support, with the density there to a power: a constant, 0 where the
        density is infinite or the end does not belong to the support.
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
        """A probability at y; at an end of the support with the density there as its slope."""
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
        """
        return self._at("logpdf", x, args, kwargs, self._everywhere)

    def pdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The density at x: see logpdf."""
        return settled(np.exp(self._at("logpdf", x, args, kwargs)))

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
