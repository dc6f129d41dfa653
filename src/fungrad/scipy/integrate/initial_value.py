"""solve_ivp and odeint, SciPy's functions for ordinary differential equations.

The explicit Runge-Kutta methods run here with SciPy's steps, and are differentiated directly or by
their adjoint equation; SciPy's own solvers run as opaque code and have the adjoint.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.custom_rules.closures_and_arguments import captured, valueless
from fungrad.errors import ArgumentError, ShapeError, UnsupportedArgumentError
from fungrad.numpy.protocol.implements import known
from fungrad.numpy.protocol.operands import array_of, double_of, float64_of
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.integrate.ode_adjoint import ExplicitSolver, ScipySolver, flow
from fungrad.scipy.integrate.ode_events import Watch
from fungrad.scipy.integrate.runge_kutta import (
    EXPLICIT,
    Grid,
    Problem,
    RungeKutta,
    Tolerances,
    evaluated,
    explicit_method,
    grid,
    solve_at,
)
from fungrad.scipy.optional import scipy_module
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.source_location import describe, user_line
from fungrad.tracing.trace import EVAL, current, shape_of, typeof
from fungrad.tracing.transformed_function import boundary
from fungrad.tree_util import register_dataclass

GRADIENTS = ("direct", "adjoint")
_MESSAGES = {
    0: "The solver successfully reached the end of the integration interval.",
    1: "A termination event occurred.",
    -1: "Required step size is less than spacing between numbers.",
}


@dataclasses.dataclass
class OdeResult:
    """The result of solve_ivp: SciPy's attributes; those without a meaning are None.

    A tree, so that it can leave a jitted function. y has shape (n, number of times).
    """

    t: Any
    y: Any
    nfev: Any
    status: Any
    sol: Any = None
    t_events: Any = None
    y_events: Any = None
    njev: int = 0
    nlu: int = 0

    @property
    def success(self) -> Any:
        """Whether the end of the interval was reached."""
        return self.status >= 0

    @property
    def message(self) -> str:
        """SciPy's message for the status."""
        return _MESSAGES[int(self.status)]

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


register_dataclass(OdeResult)


class OdeSolution:
    """The solution between the steps: a function of times, as scipy.integrate.OdeSolution.

    Differentiable by the times and everything else on which the solution depends.
    """

    def __init__(self, found: Grid, method: RungeKutta) -> None:
        self._found = found
        self._method = method
        self.ts = found.times

    def __call__(self, t: Any) -> Any:
        t = float64_of(t)
        y = evaluated(self._found, self._method, t)
        return y if not shape_of(t) else np.moveaxis(y, -1, 0)


def _right_hand_side(
    fun: Callable[..., Any], args: tuple[Any, ...], y0: Any, vectorized: bool
) -> Callable[[Any, Any], Any]:
    """fun as a function from (t, y) to an array like y0."""

    def slope(t: Any, y: Any) -> Any:
        derivative = fun(t, y[:, None] if vectorized else y, *args)
        derivative = cast(array_of(derivative), y.dtype)
        if vectorized:
            derivative = np.reshape(derivative, (-1,))
        if shape_of(derivative) != shape_of(y):
            raise ShapeError(
                f"The right-hand side {describe(fun)} has to return an array of the shape "
                f"{shape_of(y)} of y{user_line()}, but returned {typeof(derivative)}."
            )
        return derivative

    return slope


def _initial(y0: Any) -> Any:
    y0 = double_of(y0)
    if len(shape_of(y0)) != 1:
        raise ValueError("`y0` must be 1-dimensional.")
    if not valueless() and not np.isfinite(known(stop_gradient(y0), "y0")).all():
        raise ValueError("All components of the initial state `y0` must be finite.")
    return y0


def _check_times(times: Any, t0: Any, bound: Any) -> None:
    """Makes SciPy's checks, if the numbers are known."""
    if len(shape_of(times)) != 1:
        raise ValueError("`t_eval` must be 1-dimensional.")
    if valueless():
        return
    times, t0, bound = (known(stop_gradient(x), "t_eval") for x in (times, t0, bound))
    if np.any(times < min(t0, bound)) or np.any(times > max(t0, bound)):
        raise ValueError("Values in `t_eval` are not within `t_span`.")
    steps = np.diff(times)
    if (bound > t0 and np.any(steps <= 0)) or (bound < t0 and np.any(steps >= 0)):
        raise ValueError("Values in `t_eval` are not properly sorted.")


def _tolerances(
    rtol: Any, atol: Any, max_step: float, first_step: float | None, size: int
) -> Tolerances:
    least = 100 * np.finfo(float).eps
    if np.any(np.asarray(rtol) < least):
        warnings.warn(f"`rtol` is too low, setting to `np.maximum(rtol, {least})`.", stacklevel=4)
        rtol = np.maximum(rtol, least)
    atol = np.asarray(atol)
    if atol.ndim > 0 and atol.shape != (size,):
        raise ValueError("`atol` has wrong shape.")
    if np.any(atol < 0):
        raise ValueError("`atol` must be positive.")
    if max_step <= 0:
        raise ValueError("`max_step` must be positive.")
    if first_step is not None and first_step <= 0:
        raise ValueError("`first_step` must be positive.")
    return Tolerances(rtol, atol, max_step, first_step)


def _by_adjoint(
    slope: Callable[..., Any], solver: Any, times: Any, y0: Any, bound: Any
) -> tuple[Any, Any, Any]:
    """The solution at times, as a flow; the first time is that of y0."""
    graph, closure = captured(lambda t, y: [slope(t, y)], [times[0], y0], slope)

    def right(parameters: Any, t: Any, y: Any) -> Any:
        return evaluate(graph, [*parameters, t, y])[0]

    solution = flow(right, solver, shape_of(y0)[0])
    return solution(closure, times, y0, stop_gradient(bound))  # type: ignore[no-any-return]


def _reached(start: Any, end: Any, t_eval: Any) -> Any:
    """The wanted times up to the end of the steps, which are known."""
    first, last, asked = (known(stop_gradient(x), "t_eval") for x in (start, end, t_eval))
    return t_eval[: int(np.sum(asked <= last if last >= first else asked >= last))]


def _at_steps(
    problem: Problem, t_eval: Any, dense: bool
) -> tuple[Any, Any, Any, Any, Any]:  # fmt: skip
    """(times, ys, the interpolated solution or None, evaluations, failed), by known steps."""
    result = grid(problem, dense or t_eval is not None)
    solution = OdeSolution(result, problem.method) if dense else None
    times, ys = result.times, result.ys
    if t_eval is not None:
        times = _reached(problem.t0, times[-1], t_eval)
        ys = evaluated(result, problem.method, times)
    return times, ys, solution, result.evaluations, result.failed


def _at_events(problem: Problem, watch: Watch, t_eval: Any, dense: bool) -> OdeResult:
    """The solution up to the last event, and the events, by known steps."""
    result = grid(problem, True, watch)
    solution = OdeSolution(result, problem.method)
    t_events, y_events, last = watch.moments(solution)
    times, ys = result.times, result.ys
    if last is not None:
        times = np.concatenate([times[:-1], np.reshape(last, (1,))])
        ys = np.concatenate([ys[:-1], solution(last)[None]])
    if t_eval is not None:
        times = _reached(problem.t0, times[-1], t_eval)
        ys = evaluated(result, problem.method, times)
    status = -1 if result.failed else 0 if last is None else 1
    sol = solution if dense else None
    return OdeResult(
        times, np.moveaxis(ys, 0, -1), result.evaluations, status, sol, t_events, y_events
    )


def _by_method(
    problem: Problem, t_eval: Any, dense: bool, gradient: str
) -> tuple[Any, Any, Any, Any, Any]:
    """The same as `_at_steps` by an explicit method, for known or traced values."""
    plain = current() is EVAL
    if gradient == "direct" or plain:
        if plain or t_eval is None or dense:
            return _at_steps(problem, t_eval, dense)
        return (t_eval, *_after_failure(solve_at(problem, t_eval)))
    if dense:
        raise UnsupportedArgumentError(
            f"solve_ivp(dense_output=True, gradient='adjoint'){user_line()}: the interpolants "
            "between the steps have no adjoint. Use gradient='direct', or t_eval."
        )
    given = t_eval is not None
    t0, y0, bound = problem.t0, problem.y0, problem.bound
    times = t_eval if given else stop_gradient(grid(problem, False).times)[1:-1]
    parts = [np.reshape(t0, (1,)), times, *([] if given else [np.reshape(bound, (1,))])]
    solver = ExplicitSolver(problem.method, problem.tolerances, shape_of(y0)[0])
    ys, evaluations, failed = _by_adjoint(problem.fun, solver, np.concatenate(parts), y0, bound)
    times = times if given else np.concatenate(parts)
    return (times, *_after_failure((ys[1:] if given else ys, evaluations, failed)))


def _after_failure(found: tuple[Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
    ys, evaluations, failed = found
    return ys, None, evaluations, failed


def _by_scipy(
    problem: Problem, method: Any, t_eval: Any, gradient: str, options: dict[str, Any]
) -> tuple[Any, Any, Any, Any, Any]:
    """The same as `_at_steps` by one of SciPy's solvers, under a transform."""
    if gradient != "adjoint" or t_eval is None:
        raise UnsupportedArgumentError(
            f"solve_ivp(method={method!r}) is differentiated, batched or recorded{user_line()}. "
            "This method runs in SciPy, which can only be differentiated by the adjoint equation "
            "at given times: pass gradient='adjoint' and t_eval, or take one of the methods "
            f"{', '.join(EXPLICIT)}."
        )
    y0 = problem.y0
    kept = {k: v for k, v in options.items() if k == "min_step"}
    solver = ScipySolver(method, problem.tolerances, shape_of(y0)[0], kept)
    times = np.concatenate([np.reshape(problem.t0, (1,)), t_eval])
    ys, evaluations, failed = _by_adjoint(problem.fun, solver, times, y0, problem.bound)
    return t_eval, ys[1:], None, evaluations, failed


@boundary
def solve_ivp(
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = None,
    *,
    gradient: str = "direct",
    rtol: Any = 1e-3,
    atol: Any = 1e-6,
    max_step: float = np.inf,
    first_step: float | None = None,
    **options: Any,
) -> Any:
    """Solves y' = fun(t, y), y(t0) = y0, as scipy.integrate.solve_ivp, with derivatives.

    Differentiable by y0, args, values that fun closes over, t_span and t_eval.

    Args:
      fun: `fun(t, y, *args)` -> the slope, an array or a list of n numbers.
      t_span: (t0, tf), tf on either side of t0.
      y0: real or complex, shape (n,).
      method: "RK45", "RK23", "DOP853", with SciPy's steps; or SciPy's own methods ("Radau", "BDF",
        "LSODA" for stiff problems), which need gradient="adjoint".
      t_eval: the times of the solution, needed under jit and vmap; by default the steps' ends.
      dense_output: whether `sol` is to be a function of t. Not under jit and vmap.
      events: as SciPy's; t_events and y_events are differentiable. Not under jit and vmap.
      args: a tuple of more arguments of fun, which may be trees.
      gradient: "direct" differentiates the computed steps exactly, to all orders; reverse mode
        keeps every step. "adjoint" solves the adjoint equation with the same method and tolerances,
        and keeps only the states at t_eval.
      vectorized, rtol, atol, max_step, first_step, options: as SciPy's.

    Returns:
      t, y of shape (n, times), sol, nfev, status, message, success. After a failure y is NaN.

    Raises:
      AbstractValueError: without t_eval under jit or vmap.
      UnsupportedArgumentError: for arguments without derivatives.

    >>> import fungrad as fg
    >>> def final(rate):
    ...     return solve_ivp(lambda t, y: -rate * y, (0.0, 1.0), [1.0], rtol=1e-8).y[0, -1]
    >>> bool(abs(fg.grad(final)(2.0) + np.exp(-2.0)) < 1e-6)
    True
    """
    if gradient not in GRADIENTS:
        raise ArgumentError(f"gradient={gradient!r} is not one of {GRADIENTS}.")
    explicit = isinstance(method, str) and method in EXPLICIT
    if current() is EVAL and not (explicit and events is None):
        return scipy_module("scipy.integrate").solve_ivp(
            fun, t_span, y0, method=method, t_eval=t_eval, dense_output=dense_output,
            events=events, vectorized=vectorized, args=args, rtol=rtol, atol=atol,
            max_step=max_step, first_step=first_step, **options,
        )  # fmt: skip
    asked = "events" if events is not None else "dense_output" if dense_output else ""
    if asked and (not explicit or (asked == "events" and gradient == "adjoint")):
        raise UnsupportedArgumentError(
            f"solve_ivp(method={method!r}, gradient={gradient!r}) was called with {asked}"
            f"{user_line()} under a transform. They have derivatives with gradient='direct' and "
            f"one of the methods {', '.join(EXPLICIT)}."
        )
    t0, bound = map(float64_of, t_span)
    y0 = _initial(y0)
    if t_eval is not None:
        t_eval = float64_of(t_eval)
        _check_times(t_eval, t0, bound)
    slope = _right_hand_side(fun, tuple(args or ()), y0, vectorized)
    tolerances = _tolerances(rtol, atol, max_step, first_step, shape_of(y0)[0])
    problem = Problem(explicit_method(method if explicit else "RK45"), slope, t0, y0, bound,
                      tolerances)  # fmt: skip
    if events is not None:
        watch = Watch.of(events, tuple(args or ()))
        return _at_events(problem, watch, t_eval, dense_output)
    if explicit:
        result = _by_method(problem, t_eval, dense_output, gradient)
    else:
        result = _by_scipy(problem, method, t_eval, gradient, options)
    times, ys, solution, evaluations, failed = result
    status: Any = np.where(failed, -1, 0)
    if current() is EVAL:
        evaluations, status = int(evaluations), int(status)
    return OdeResult(times, np.moveaxis(ys, 0, -1), evaluations, status, solution)
