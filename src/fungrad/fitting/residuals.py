"""The residuals of a fit as a function of its free parameters, and their smallest sum of squares.

Data are one array or a tree of arrays. Each is divided by its standard deviations, or by the
Cholesky factor of its covariance. With errors in x, the shifts of x are parameters, too
(orthogonal distance regression: Boggs, Byrd and Schnabel 1987, SIAM J. Sci. Stat. Comput. 8).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.compiler.jit import jit
from fungrad.errors import ArgumentError
from fungrad.fitting.parameters import Parameters
from fungrad.scipy.optional import scipy_module
from fungrad.support import pytree
from fungrad.tracing.source_location import describe
from fungrad.transforms.jacobian import jacfwd

_scipy_optimize = scipy_module("scipy.optimize")

POLISHING = 100
"""The most Gauss-Newton steps after SciPy's method has stopped."""


class Data:
    """What is fitted: arrays, and the functions that divide their residuals by their errors.

    Args:
      y: an array of numbers, or a tree of them that is no list.
      sigma: None, or for each array standard deviations or a covariance matrix.
    """

    def __init__(self, y: Any, sigma: Any) -> None:
        if isinstance(y, (list, tuple)) and not hasattr(y, "_fields"):
            y = np.asarray(y, np.float64)
        leaves, self.treedef = pytree.flatten(y)
        self.arrays = [np.asarray(leaf, np.float64) for leaf in leaves]
        paths = ["ydata"]
        if self.treedef is not pytree.LEAF:
            paths = [f"ydata{path}" for path in pytree.paths(self.treedef)]
        sigmas = self._matched(sigma)
        self.whiten = []
        for path, array, one in zip(paths, self.arrays, sigmas, strict=True):
            check_finite(path, array)
            if one is not None:
                check_finite(path.replace("ydata", "sigma"), one)
            self.whiten.append(_whitening(one, array))
        self.known_errors = all(one is not None for one in sigmas)
        self.one_error = float(sigmas[0]) if self.known_errors and np.ndim(sigmas[0]) == 0 else None
        self.size = sum(array.size for array in self.arrays)

    def _matched(self, sigma: Any) -> list[Any]:
        if self.treedef is pytree.LEAF or sigma is None or isinstance(sigma, (int, float)):
            return [sigma] * len(self.arrays)
        children, structure = pytree.flatten(sigma, is_leaf=lambda s: isinstance(s, (int, float)))
        if structure != self.treedef:
            raise ArgumentError(
                "sigma must have an entry where ydata has an array: "
                f"{pytree.difference(self.treedef, structure)}."
            )
        return children

    def flat(self, f: Any, value: Any) -> list[Any]:
        """The arrays of a model's value.

        Raises:
          ArgumentError: if they do not have the structure and shapes of the data.
        """
        leaves, treedef = pytree.flatten(value)
        if treedef != self.treedef:
            raise ArgumentError(
                f"{describe(f)} must return a tree as ydata: "
                f"{pytree.difference(self.treedef, treedef)}."
            )
        for leaf, array in zip(leaves, self.arrays, strict=True):
            if np.shape(leaf) != array.shape:
                raise ArgumentError(
                    f"{describe(f)} returns an array of shape {np.shape(leaf)}, but ydata has "
                    f"shape {array.shape}. A model returns one number for each number of ydata."
                )
        return leaves

    def tree(self, vector: Any) -> Any:
        """A vector in the structure and shapes of the data."""
        ends = np.cumsum([array.size for array in self.arrays])[:-1]
        parts = np.split(vector, ends)
        arrays = [part.reshape(a.shape) for part, a in zip(parts, self.arrays, strict=True)]
        return pytree.unflatten(self.treedef, arrays)


class Residuals:
    """model - y in units of their deviations, as a float64 vector of the unknowns.

    Attributes:
      start, low, high: the unknowns at the start, and their bounds: free parameters, then shifts of
        x, in units of their errors, if x has errors.
      evaluations: the number of computations.
    """

    def __init__(
        self, f: Any, parameters: Parameters, x: Any, data: Data, sigma_x: Any, compiled: bool
    ) -> None:
        count = parameters.start.size
        self.start, self.low, self.high = parameters.start, parameters.low, parameters.high
        if sigma_x is not None:
            x = np.asarray(x, np.float64)
            check_finite("sigma_x", sigma_x)
            scale = np.broadcast_to(np.asarray(sigma_x, np.float64), x.shape)
            free = np.full(x.size, np.inf)
            self.start = np.concatenate([self.start, np.zeros(x.size)])
            self.low = np.concatenate([self.low, -free])
            self.high = np.concatenate([self.high, free])

        def at(v: Any) -> Any:
            return x if sigma_x is None else x + scale * np.reshape(v[count:], x.shape)

        def residuals(v: Any) -> Any:
            p = parameters.tree(parameters.vector(v[:count] if sigma_x is not None else v))
            values = data.flat(f, parameters.call(at(v), p))
            parts = [
                whiten(np.ravel(value) - y.ravel())
                for whiten, value, y in zip(data.whiten, values, data.arrays, strict=True)
            ]
            if sigma_x is not None:
                parts.append(v[count:])
            return np.concatenate(parts) if len(parts) > 1 else parts[0]

        stage: Callable[[Any], Any] = (
            functools.partial(jit, branches="guard") if compiled else lambda g: g
        )
        self.x_at = at
        self._values, self._slopes = stage(residuals), stage(jacfwd(residuals))
        self.evaluations = 0

    def __call__(self, v: Any) -> Any:
        self.evaluations += 1
        return np.asarray(self._values(v), np.float64)

    def jacobian(self, v: Any) -> Any:
        """The derivatives of the residuals with respect to the unknowns: float64[m, n]."""
        return np.asarray(self._slopes(v), np.float64)

    def smallest(self, method: str, options: dict[str, Any]) -> Any:
        """The vector with the smallest sum of squares: SciPy's, polished.

        Raises:
          RuntimeError: if SciPy finds none.
        """
        size = self.start.size
        tight = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15, "max_nfev": 2000 * max(size, 1)}
        minimum = _scipy_optimize.least_squares(
            self, self.start, self.jacobian, (self.low, self.high), method,
            **{"x_scale": "jac", **tight, **options},
        )  # fmt: skip
        if not minimum.success:
            raise RuntimeError(f"curve_fit found no minimum: {minimum.message} Give a nearer p0.")
        if np.any(minimum.active_mask) or options.get("loss", "linear") != "linear":
            return minimum.x
        return self.polished(minimum.x, np.arange(size))

    def polished(self, v: Any, free: Any) -> Any:
        """Gauss-Newton steps of some unknowns from a minimum, as long as they get shorter.

        SciPy's methods stop when the sum of squares no longer falls, with half of the digits
        correct; these steps end at the rounding errors of the residuals.
        """
        last = np.inf
        for _ in range(POLISHING):
            j = self.jacobian(v)[:, free]
            scale = np.linalg.norm(j, axis=0)
            scale = np.where(scale > 0, scale, 1.0)
            step = np.linalg.lstsq(j / scale, -self(v), rcond=None)[0]
            length = float(np.linalg.norm(step))
            new = v.copy()
            new[free] += step / scale
            if not length < 0.95 * last or np.any(new < self.low) or np.any(new > self.high):
                return v
            v, last = new, length
        return v


def check_finite(name: str, value: Any) -> None:
    """Refuses NaN and infinity in data."""
    bad = np.flatnonzero(~np.isfinite(np.asarray(value, np.float64)))
    if bad.size:
        raise ArgumentError(
            f"{name} is not finite at {bad.size} places, first at {bad[0]}. Leave those out: "
            "ok = np.isfinite(y); curve_fit(f, x[ok], y[ok])."
        )


def _whitening(sigma: Any, y: Any) -> Callable[[Any], Any]:
    """Divides residuals by their standard deviations, or by the Cholesky factor of a covariance."""
    if sigma is None:
        return lambda r: r
    sigma = np.asarray(sigma, np.float64)
    if sigma.shape == (y.size, y.size):
        inverse = np.linalg.inv(np.linalg.cholesky(sigma))
        return lambda r: inverse @ r
    if sigma.shape not in ((), y.shape):
        raise ArgumentError(
            f"sigma has shape {sigma.shape}, but ydata has shape {y.shape}: give one standard "
            "deviation for each number of ydata, or the covariance matrix of all."
        )
    return lambda r: r / sigma.ravel() if sigma.ndim else r / sigma


def inverse_of_squares(j: Any) -> Any:
    """(J'J)^-1 by the singular values of J; infinite if the data do not determine a parameter."""
    scale = np.linalg.norm(j, axis=0)
    if j.shape[0] < j.shape[1] or not np.all(scale > 0):
        return np.full((j.shape[1], j.shape[1]), np.inf)
    _, s, vt = np.linalg.svd(j / scale, full_matrices=False)
    if s[-1] <= np.finfo(np.float64).eps * max(j.shape) * s[0]:
        return np.full((j.shape[1], j.shape[1]), np.inf)
    half = (vt.T / s) / scale[:, None]
    return half @ half.T
