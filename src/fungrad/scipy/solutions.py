"""Solutions of scipy.optimize's functions, differentiated by the equation that they fulfil.

A package that calls `scipy.optimize.brentq(f, a, b)` gets SciPy's solution on plain numbers, and
its derivative by the values that f closes over: at a root f(x) = 0, at a minimum the gradient is
zero or points into a bound. The iterations of the search are not differentiated: their derivative
converges later than they do, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.custom_rules.closures_and_arguments import captured
from fungrad.custom_rules.custom_vjp_jvp import Custom
from fungrad.errors import ArgumentError, FungradError
from fungrad.host.external import external
from fungrad.ir.types import Type
from fungrad.numpy.protocol.implements import if_known, known
from fungrad.support import pytree
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import typeof
from fungrad.transforms.grad import jvp
from fungrad.transforms.jacobian import jacfwd

Function = Callable[[Any], Any]
Search = Callable[[Sequence[Function], Any, Any], tuple[Any, ...]]
"""`search(functions, start, options)` -> the solution and the numbers of its report: the integers
of iterations, calls and state, and whether it has converged."""
Equation = Callable[[Function, Any, Any], Any]
"""`equation(function, x, options)`, which is zero at the solution, and has its type."""
FAR = 1e-3
"""The longest Newton step, relative to the solution, from a point that counts as the solution."""
_COUNTS = (*[Type((), np.dtype(np.int64))] * 3, Type((), np.dtype(bool)))


class _Closed:
    """A function of one array that takes the traced values it closes over as an argument."""

    def __init__(self, f: Function, at: Any, once: bool) -> None:
        self._graph, self.closure = captured(lambda x: [np.asarray(f(x))], [at], f, once)

    def __call__(self, closure: Sequence[Any], x: Any) -> Any:
        return evaluate(self._graph, [*closure, x])[0]

    def at(self, closure: Sequence[Any]) -> Function:
        """The function with values of its closure."""
        return lambda x: self(closure, x)


def _plain(f: Function) -> Function:
    """A function that reads the value of its traced result."""

    def function(x: Any) -> Any:
        return known(np.asarray(f(x)), "a search of scipy.optimize")

    return function


def dense(push: Function, y: Any) -> Any:
    """The solution of push(x) = y, for a linear function of an array. A number that does not enter
    stays as it is.
    """
    if not y.ndim:
        return y / push(np.ones_like(y))
    size = y.size
    matrix = np.reshape(jacfwd(push)(np.zeros(y.shape, y.dtype)), (size, size))
    absent = (matrix == 0).all(0) & (matrix == 0).all(1)
    matrix = matrix + np.diag(np.where(absent, 1.0, 0.0))
    values = if_known(matrix)
    if values is not None and not np.linalg.cond(values) < 1e13:
        raise ArgumentError(
            f"A solution of scipy.optimize is not the only one near it{user_line()}: the matrix of "
            "its equations is singular, and the solution has no derivative. Fix what is free, or "
            'take differences: `with fg.opaque("differences"):`.'
        )
    return np.reshape(np.linalg.solve(matrix, np.reshape(y, size)), y.shape)


def diagonal(push: Function, y: Any) -> Any:
    """As `dense`, where each number of the result depends on one of the argument."""
    return y / push(np.ones_like(y))


def _check(step: Any, x: Any, tangent: Any) -> Any:
    """The tangent; NaN or an error where a Newton step from x is too long for a solution."""
    near = np.max(np.abs(step)) <= FAR * (1e-3 + np.max(np.abs(x))) if np.size(x) else np.True_
    found = if_known(near)
    if found is None:
        return tangent * np.where(near, 1.0, np.nan)  # NaN in both modes
    if not found:
        raise ArgumentError(
            f"scipy.optimize was called on a traced value{user_line()} and has not converged: "
            "Newton's step from its result is longer than a thousandth of it. The derivative of "
            "a solution is that of its equation, which does not hold there. Give a smaller "
            'tolerance, more iterations, or take differences: `with fg.opaque("differences"):`.'
        )
    return tangent


def solution(
    functions: Sequence[Function],
    start: Any,
    options: Any,
    search: Search,
    equation: Equation,
    linear: Callable[[Function, Any], Any] = dense,
    more: Sequence[Type] = (),
) -> tuple[Any, ...]:
    """The solution that a search of SciPy finds, and the numbers of its report.

    Args:
      functions: the functions that the search calls; the equation is that of the first.
      start: an array of the type of the solution.
      options: a tree of arrays, perhaps traced, for the search and the equation.
      search, equation: see `Search` and `Equation`.
      linear: `linear(push, y)`, the solution of push(x) = y.
      more: the types of further results of the search, which have no derivative.
    """
    ready: tuple[Any, ...] | None = None
    try:
        closed = [_Closed(f, start, False) for f in functions]
    except FungradError:  # a branch on the value: where values are known, it is followed
        given = pytree.map(lambda v: known(v, "an argument of scipy.optimize"), (start, options))
        ready = _arrays(search([_plain(f) for f in functions], *given))
        closed = [_Closed(functions[0], ready[0], True)]
    closures = [c.closure for c in closed]

    def on_host(closures: Any, start: Any, options: Any) -> Any:
        pairs = zip(closed, closures, strict=True)
        return _arrays(search([_number(c.at(held)) for c, held in pairs], start, options))

    types = (typeof(start), *_COUNTS, *more)
    host = external(on_host, shape=types)

    def find(closures: Any, start: Any, options: Any) -> Any:
        return host(closures, start, options) if ready is None else ready

    def rule(primals: Any, tangents: Any) -> Any:
        (first, *_), _, options = primals
        x, *report = implicit(*primals)
        moved = tangents[0][0], tangents[2]
        if all(t is None for t in pytree.leaves(list(moved))):
            return (x, *report), (None,) * len(types)

        def of_parameters(held: Any, options: Any) -> Any:
            return equation(closed[0].at(held), x, options)

        def of_solution(z: Any) -> Any:
            return equation(closed[0].at(first), z, options)

        _, residual = jvp(of_parameters, (first, options), moved)

        def push(v: Any) -> Any:
            return jvp(of_solution, (x,), (v,))[1]

        tangent = -linear(push, residual)
        return (x, *report), (
            _check(linear(push, of_solution(x)), x, tangent),
            *[None] * (len(types) - 1),
        )

    implicit = Custom(find, ())
    implicit.defjvp(rule, symbolic_zeros=True)
    return tuple(implicit(closures, start, options))


def _number(f: Function) -> Function:
    """A function whose results of one number are NumPy's numbers."""
    return lambda x: np.asarray(f(np.asarray(x)))[()]


def _arrays(found: tuple[Any, ...]) -> tuple[Any, ...]:
    """A solution and its report in their types."""
    x, *counts = found[:4]
    counts = [np.asarray(count, np.int64) for count in counts]
    return np.asarray(x, np.float64), *counts, np.asarray(bool(found[4])), *found[5:]
