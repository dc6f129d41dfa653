"""Derivatives of the regularised incomplete beta function I_x(a, b) by its parameters.

As in incomplete_gamma.py, over s = log(t / (1 - t)), in two panels that meet at s = 0, near which
the integrand is not smooth. The side above the mean is the side below it with a and b exchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.primitives.primitive import Primitive
from fungrad.primitives.special.incomplete_gamma import (
    FALL,
    NOTHING,
    Array,
    bell,
    laguerre,
    legendre,
    reach,
    slope_primitive,
)
from fungrad.primitives.special.polygamma import digamma_difference, polygamma, polygamma_of

_POINTS = 32


class _Lower:
    """The integral from -infinity to z: the log density falls from there by `fall`."""

    def __init__(self, a: Array, b: Array, x: Array, log_x: Array, log_rest: Array) -> None:
        self.a, self.sum, self.x = a, a + b, x
        self.log_x, self.log_rest = log_x[:, None], log_rest[:, None]
        self.z = log_x - log_rest

    def correction(self, y: Array) -> Array:
        """log (1 - x) - log (1 - t) at the distance y."""
        moved: Array = np.log1p((self.x * np.expm1(-y.T)).T)
        return moved

    def fall(self, y: Array) -> Array:
        found: Array = (self.a * y.T).T + (self.sum * self.correction(y).T).T
        return found

    def slope(self, y: Array) -> Array:
        share = self.x * np.exp(-y) / (1.0 + self.x * np.expm1(-y))
        return self.a - self.sum * share

    def end(self) -> Array:
        """How far the density reaches; beyond t = e^-38 it is t^a."""
        bound = FALL / self.a + np.maximum(self.z, 0.0) + np.sqrt(2.0 * FALL / self.a)
        start = np.minimum(FALL / self.slope(np.zeros_like(self.x)), bound)
        end = reach(self.fall, self.slope, start)
        return np.minimum(end, np.maximum(self.z + NOTHING, 0.0))

    def logarithms(self, y: Array) -> tuple[Array, Array]:
        """log t and log (1 - t)."""
        correction = self.correction(y)
        return self.log_x - y - correction, self.log_rest - correction

    def integral(self, weight: Callable[[Array, Array], Any]) -> Array:
        """The integral of the density, 1 at z, times `weight(log t, log (1 - t))`."""
        end = self.end()
        middle = np.where(self.z > 0, np.minimum(self.z, end), end / 2.0)
        points, weights = legendre(_POINTS)
        total = np.zeros_like(end)
        for low, high in ((np.zeros_like(end), middle), (middle, end)):
            y = low[:, None] + (high - low)[:, None] * points
            height = np.exp(-self.fall(y))
            total += (high - low) * ((height * weight(*self.logarithms(y))) @ weights)
        points, weights = laguerre()
        y = end[:, None] + points / self.a[:, None]
        total += np.exp(-self.fall(end)) / self.a * (weight(*self.logarithms(y)) @ weights)
        return total


def _beta_slopes(a: Array, b: Array, x: Array, m: int, n: int) -> Array:
    """beta_slope for one-dimensional doubles."""
    below = x <= a / (a + b)
    log_x, log_rest = np.log(x), np.log1p(-x)
    lower = _Lower(
        np.where(below, a, b), np.where(below, b, a), np.where(below, x, 1.0 - x),
        np.where(below, log_x, log_rest), np.where(below, log_rest, log_x),
    )  # fmt: skip
    orders = [(i, j) for i in range(m + 1) for j in range(n + 1) if i + j]
    constant = {(i, j): _of_normaliser(polygamma_of, a, b, i, j)[:, None] for i, j in orders}
    constant[1, 0] = digamma_difference(a, b)[:, None]
    constant[0, 1] = digamma_difference(b, a)[:, None]
    flip = ~below[:, None]

    def weight(log_t: Array, log_u: Array) -> Any:
        log_t, log_u = np.where(flip, log_u, log_t), np.where(flip, log_t, log_u)
        by = {(1, 0): log_t, (0, 1): log_u}
        return bell(lambda i, j: constant[i, j] + by.get((i, j), 0.0), m, n)

    return np.where(below, 1.0, -1.0) * lower.integral(weight)


def _of_normaliser(psi: Callable[[Any, int], Any], a: Any, b: Any, i: int, j: int) -> Any:
    """The derivative of order (i, j) of -log B(a, b)."""
    whole = psi(a + b, i + j - 1)
    if i and j:
        return whole
    return whole - psi(a, i - 1) if i else whole - psi(b, j - 1)


def _beta_partials(y: Any, a: Any, b: Any, x: Any, m: int, n: int) -> list[Callable[[], Any]]:
    def of_log_density(i: int, j: int) -> Any:
        found = _of_normaliser(lambda v, k: polygamma(v, order=k), a, b, i, j)
        if i + j > 1:
            return found
        return found + (np.log(x) if i else np.log1p(-x))

    return [
        lambda: beta_slope(a, b, x, m=m + 1, n=n) - y * of_log_density(1, 0),
        lambda: beta_slope(a, b, x, m=m, n=n + 1) - y * of_log_density(0, 1),
        lambda: (bell(of_log_density, m, n) - y * (a - (a + b) * x)) / (x * (1.0 - x)),
    ]


beta_slope: Primitive = slope_primitive("beta_slope", _beta_slopes, _beta_partials)
"""`beta_slope(a, b, x, m=, n=)`: the derivative of I_x(a, b), m times by a and n times by b, over
x^a (1 - x)^b / B(a, b). For floats a, b > 0 and x between 0 and 1, m + n > 0."""

__all__ = ["beta_slope"]
