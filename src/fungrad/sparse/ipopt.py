"""A problem in the form that cyipopt asks for: exact sparse derivatives of plain functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.compiler.jit import jit
from fungrad.sparse.compressed import rows_of
from fungrad.sparse.public import hessian, jacobian
from fungrad.transforms.grad import grad


class IpoptProblem:
    """Objective, constraints and their derivatives, under the names that `cyipopt.Problem` calls.

    Args:
      objective: f(x) -> a number, of a vector x.
      constraints: c(x) -> a vector, or None.
      x: a point, for the types; the patterns hold for every point.

    Pass it as `cyipopt.Problem(n, m, problem_obj=problem, lb=, ub=, cl=, cu=)`.

    >>> problem = IpoptProblem(lambda x: np.sum(x**2), lambda x: x[1:] * x[:-1], np.ones(3))
    >>> problem.gradient(np.ones(3))
    array([2., 2., 2.])
    >>> problem.jacobianstructure()
    (array([0, 0, 1, 1]), array([0, 1, 1, 2]))
    >>> problem.jacobian(np.array([1.0, 2.0, 3.0]))
    array([2., 1., 3., 2.])
    """

    def __init__(
        self,
        objective: Callable[[Any], Any],
        constraints: Callable[[Any], Any] | None,
        x: Any,
    ) -> None:
        def lagrangian(x: Any, multipliers: Any, factor: Any) -> Any:
            value = factor * objective(x)
            return value if constraints is None else value + multipliers @ constraints(x)

        x = np.asarray(x, np.float64)
        self.objective = jit(objective)
        self.gradient = jit(grad(objective))
        self._hessian = hessian(lagrangian)
        count = 0
        if constraints is not None:
            self.constraints = jit(constraints)
            self._jacobian = jacobian(constraints)
            pattern = self._jacobian.pattern(x)
            count = pattern.shape[0]
            self._jacobian_structure = _entries(pattern)
        pattern = self._hessian.pattern(x, np.ones(count), 1.0)
        rows, columns = _entries(pattern)
        self._lower = rows >= columns
        self._hessian_structure = rows[self._lower], columns[self._lower]

    def jacobianstructure(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of the entries of the constraints' Jacobian."""
        return self._jacobian_structure

    def jacobian(self, x: Any) -> np.ndarray:
        """The entries of the constraints' Jacobian."""
        entries: np.ndarray = self._jacobian(x).data
        return entries

    def hessianstructure(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of the entries of the Lagrangian's Hessian, its lower triangle."""
        return self._hessian_structure

    def hessian(self, x: Any, multipliers: Any, factor: float) -> np.ndarray:
        """The entries of the lower triangle of `factor * objective + multipliers @ constraints`."""
        entries: np.ndarray = self._hessian(x, multipliers, float(factor)).data
        return entries[self._lower]


def _entries(pattern: Any) -> tuple[np.ndarray, np.ndarray]:
    return rows_of(pattern), np.asarray(pattern.indices, np.int64)


__all__ = ["IpoptProblem"]
