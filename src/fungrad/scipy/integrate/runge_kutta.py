"""Explicit Runge-Kutta methods (a step, its error estimate, its interpolant), and adaptive
integration with SciPy's choice of steps.

RK45 is Dormand & Prince 1980 (RK5(4)7M) with the interpolant of Shampine 1986, RK23 Bogacki &
Shampine 1989, DOP853 Hairer, Norsett & Wanner, Solving Ordinary Differential Equations I, with
SciPy's table.

The same step runs in a while_loop (`solve_at`, for given output times) and in a Python loop
(`grid`, for known values). Step lengths are constants to derivatives, except the last one, which
ends at the end of the interval.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.errors import AbstractValueError
from fungrad.lax.control import scan, while_loop
from fungrad.numpy.protocol.implements import known
from fungrad.primitives.movement.gather import picked
from fungrad.primitives.stop_gradient import no_gradient, stop_gradient
from fungrad.scipy.optional import scipy_module
from fungrad.tracing.trace import EVAL, current

Slope = Callable[[Any, Any], Any]


def combined(weights: Sequence[float], slopes: Sequence[Any]) -> Any:
    """The weighted sum of the slopes, without zero weights."""
    total: Any = None
    for weight, slope in zip(weights, slopes, strict=False):
        if weight:
            term = weight * slope
            total = term if total is None else total + term
    return total


class RungeKutta:
    """An embedded pair.

    Args:
      a: for each stage the weights of the slopes before it. b, c: the weights of the solution,
        and the stages' times.
      e: the weights of the error estimate, the slope at the end of the step last.
      p: the interpolant: a row for each slope, a column for each power of x = (t - t_old) / h.
      error_order: the order of the error estimate.
    """

    def __init__(self, a: Any, b: Any, c: Any, e: Any, p: Any, error_order: int) -> None:
        self.a, self.b, self.c, self.e = a, b, c, e
        self.p = np.asarray(p)
        self.error_order = error_order
        self.stages = len(b)

    def step(self, fun: Slope, t: Any, y: Any, f: Any, h: Any) -> tuple[Any, Any, Any]:
        """(y, its slope, all slopes stacked) after a step of h from t, y and its slope f."""
        slopes = [f]
        for row, node in zip(self.a[1:], self.c[1:], strict=True):
            slopes.append(fun(t + node * h, y + combined(row, slopes) * h))
        new = y + h * combined(self.b, slopes)
        slopes.append(fun(t + h, new))
        return new, slopes[-1], np.stack(slopes)

    def error_norm(self, slopes: Any, h: Any, scale: Any) -> Any:
        """The root mean square of the error estimate in units of `scale`."""
        return _norm(combined(self.e, list(slopes)) * h / scale)

    def coefficients(
        self, fun: Slope, t: Any, y: Any, new: Any, h: Any, slopes: Any
    ) -> Any:  # fmt: skip
        """The coefficients of a step for `interpolated`, a row for each power."""
        return self.p.T @ slopes

    def interpolated(self, coefficients: Any, x: Any, h: Any, y: Any) -> Any:
        """The solution at x = (t - t_old) / h: coefficients (..., powers, n), x and h (...)."""
        powers = np.cumprod(np.stack([x] * self.p.shape[1], axis=-1), axis=-1)
        return y + h[..., None] * np.sum(coefficients * powers[..., None], axis=-2)


class DormandPrince853(RungeKutta):
    """The method of order 8 with error estimates of orders 5 and 3."""

    def __init__(self, table: Any) -> None:
        super().__init__(
            [row[:i].tolist() for i, row in enumerate(table.A)], table.B.tolist(),
            table.C.tolist(), table.E5.tolist(), np.zeros((0, 7)), 7,
        )  # fmt: skip
        self.e3 = table.E3.tolist()
        self.extra = list(zip(table.A_EXTRA.tolist(), table.C_EXTRA.tolist(), strict=True))
        self.d = table.D

    def error_norm(self, slopes: Any, h: Any, scale: Any) -> Any:
        slopes = list(slopes)
        fifth, third = (
            np.sum(np.square(np.abs(combined(e, slopes) / scale))) for e in (self.e, self.e3)
        )
        total = fifth + 0.01 * third
        count = scale.size if hasattr(scale, "size") else 1
        safe = np.where(total == 0.0, 1.0, total)
        return np.abs(h) * fifth / np.sqrt(safe * count)

    def coefficients(
        self, fun: Slope, t: Any, y: Any, new: Any, h: Any, slopes: Any
    ) -> Any:  # fmt: skip
        stages = list(slopes)
        for row, node in self.extra:
            stages.append(fun(t + node * h, y + combined(row, stages) * h))
        change = new - y
        first, last = stages[0], stages[self.stages]
        rows = [change, h * first - change, 2.0 * change - h * (last + first)]
        return np.concatenate([np.stack(rows), h * (self.d @ np.stack(stages))])

    def interpolated(self, coefficients: Any, x: Any, h: Any, y: Any) -> Any:
        x = x[..., None]
        total = np.zeros(1)
        for i in range(7):
            total = (total + coefficients[..., 6 - i, :]) * (1.0 - x if i % 2 else x)
        return total + y


def _norm(x: Any) -> Any:
    return np.sqrt(np.mean(np.square(np.abs(x))))


RK45 = RungeKutta(
    a=[
        [],
        [1 / 5],
        [3 / 40, 9 / 40],
        [44 / 45, -56 / 15, 32 / 9],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    ],
    b=[35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    c=[0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1],
    e=[-71 / 57600, 0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40],
    p=[
        [1, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432],
        [0, 0, 0, 0],
        [0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799],
        [0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072],
        [0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632],
        [0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844],
        [0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423],
    ],
    error_order=4,
)
RK23 = RungeKutta(
    a=[[], [1 / 2], [0, 3 / 4]],
    b=[2 / 9, 1 / 3, 4 / 9],
    c=[0, 1 / 2, 3 / 4],
    e=[5 / 72, -1 / 12, -1 / 9, 1 / 8],
    p=[[1, -4 / 3, 5 / 9], [0, 1, -2 / 3], [0, 4 / 3, -8 / 9], [0, -1, 1]],
    error_order=2,
)

EXPLICIT = ("RK45", "RK23", "DOP853")
"""The methods that run here; all others are SciPy's."""


@lru_cache(maxsize=8)
def explicit_method(name: str) -> RungeKutta:
    """One of EXPLICIT, by its name."""
    if name == "DOP853":
        return DormandPrince853(scipy_module("scipy.integrate").DOP853)
    return {"RK45": RK45, "RK23": RK23}[name]


SAFETY, MIN_FACTOR, MAX_FACTOR = 0.9, 0.2, 10.0


class Tolerances(NamedTuple):
    """The settings of the steps: SciPy's options, and the number of elements that they control."""

    rtol: Any
    atol: Any
    max_step: float = np.inf
    first_step: float | None = None
    controlled: int | None = None


class State(NamedTuple):
    """The state of an integration: time, y, slope, the next step length, and the last step."""

    t: Any
    y: Any
    f: Any
    h_abs: Any
    rejected: Any
    failed: Any
    evaluations: Any
    t_old: Any
    y_old: Any
    h: Any
    slopes: Any


class Problem(NamedTuple):
    """An initial value problem and its method."""

    method: RungeKutta
    fun: Slope
    t0: Any
    y0: Any
    bound: Any
    tolerances: Tolerances


def _part(problem: Problem, x: Any) -> Any:
    """The elements of y, or of slopes, in the error norm."""
    count = problem.tolerances.controlled
    return x if count is None else x[..., :count]


def _direction(problem: Problem) -> Any:
    return np.where(problem.bound >= problem.t0, 1.0, -1.0)


def _first_step(problem: Problem, f: Any) -> Any:
    """The initial step of Hairer, Norsett & Wanner, II.4, as in SciPy."""
    options, length = problem.tolerances, np.abs(problem.bound - problem.t0)
    if problem.y0.size == 0:
        return length
    y0, slope, direction = _part(problem, problem.y0), _part(problem, f), _direction(problem)
    scale = options.atol + np.abs(y0) * options.rtol
    d0, d1 = _norm(y0 / scale), _norm(slope / scale)
    tiny = np.logical_or(d0 < 1e-5, d1 < 1e-5)
    h0 = np.minimum(np.where(tiny, 1e-6, 0.01 * d0 / np.where(tiny, 1.0, d1)), length)
    moved = problem.y0 + h0 * direction * f
    slope1 = _part(problem, problem.fun(problem.t0 + h0 * direction, moved))
    d2 = _norm((slope1 - slope) / scale) / np.where(length == 0.0, 1.0, h0)
    top = np.maximum(d1, d2)
    still = np.logical_and(d1 <= 1e-15, d2 <= 1e-15)
    power = 1 / (problem.method.error_order + 1)
    h1 = np.where(still, np.maximum(1e-6, h0 * 1e-3), (0.01 / np.where(still, 1.0, top)) ** power)
    return np.minimum(np.minimum(100 * h0, h1), np.minimum(length, options.max_step))


def _start(problem: Problem) -> State:
    t0, y0 = problem.t0, problem.y0
    f = problem.fun(t0, y0)
    given = problem.tolerances.first_step
    evaluations = 1 if given is not None or problem.y0.size == 0 else 2
    with no_gradient("step_size"):
        h_abs = np.float64(given) if given is not None else _first_step(problem, f)
    slopes = np.zeros((problem.method.stages + 1, *y0.shape), y0.dtype)
    return State(
        t0, y0, f, stop_gradient(h_abs), np.bool_(False), np.bool_(False), np.int64(evaluations),
        t0, y0, t0 * 0.0, slopes,
    )  # fmt: skip


def _attempt(problem: Problem, state: State) -> State:
    """Attempts a step: it is accepted if the error is small, else the next one is shorter."""
    options, direction = problem.tolerances, _direction(problem)
    t, y = state.t, state.y
    with no_gradient("step_size"):
        least = 10 * np.abs(np.nextafter(t, direction * np.inf) - t)
        clipped = np.minimum(np.maximum(state.h_abs, least), options.max_step)
        h_abs = np.where(state.rejected, state.h_abs, clipped)
        failed = h_abs < least
        last = direction * (t + h_abs * direction - problem.bound) > 0
        length = h_abs * direction
    new_t = np.where(last, problem.bound, t + stop_gradient(length))
    h = new_t - t
    new, slope, slopes = problem.method.step(problem.fun, t, y, state.f, h)
    with no_gradient("step_size"):
        ends = _part(problem, y), _part(problem, new)
        scale = options.atol + np.maximum(np.abs(ends[0]), np.abs(ends[1])) * options.rtol
        error = np.float64(0.0)
        if y.size:
            error = problem.method.error_norm(_part(problem, slopes), h, scale)
        taken = error < 1
        exponent = -1 / (problem.method.error_order + 1)
        none = error == 0.0
        grow = np.where(none, np.inf, SAFETY * np.where(none, 1.0, error) ** exponent)
        grow = np.minimum(np.where(state.rejected, 1.0, MAX_FACTOR), grow)
        shrink = np.fmax(MIN_FACTOR, grow)
        h_abs = np.abs(h) * np.where(taken, grow, shrink)
    taken = np.logical_and(taken, np.logical_not(failed))
    after = State(
        new_t, new, slope, stop_gradient(h_abs), np.bool_(False), failed,
        state.evaluations, t, y, h, slopes,
    )  # fmt: skip
    chosen = State(*[np.where(taken, a, b) for a, b in zip(after, state, strict=True)])
    return chosen._replace(
        h_abs=np.where(failed, state.h_abs, after.h_abs),
        rejected=np.logical_not(taken), failed=failed,
        evaluations=state.evaluations + np.where(failed, 0, problem.method.stages),
    )  # fmt: skip


def _nonzero(h: Any) -> Any:
    return np.where(h == 0.0, 1.0, h)


def solve_at(problem: Problem, times: Any) -> tuple[Any, Any, Any]:
    """(ys, evaluations, failed): the solution at times in the order of integration, as (m, n).

    Values after a failure are NaN.
    """
    direction, method = _direction(problem), problem.method
    targets = np.concatenate([times, np.reshape(problem.bound, (1,))])

    def before(state: State, target: Any) -> Any:
        none_yet = np.logical_and(state.h == 0.0, state.t != problem.bound)
        ahead = np.logical_or(direction * (target - state.t) > 0, none_yet)
        return np.logical_and(ahead, np.logical_not(state.failed))

    def to(state: State, target: Any) -> tuple[State, Any]:
        state = while_loop(lambda s: before(s, target), lambda s: _attempt(problem, s), state)
        h = _nonzero(state.h)
        coefficients = method.coefficients(
            problem.fun, state.t_old, state.y_old, state.y, h, state.slopes
        )
        found = method.interpolated(coefficients, (target - state.t_old) / h, h, state.y_old)
        reached = direction * (target - state.t) <= 0
        return state, np.where(reached, found, np.nan)

    state, ys = scan(to, _start(problem), targets)
    return ys[:-1], state.evaluations, state.failed


class Grid(NamedTuple):
    """The accepted steps: their ends, the solution there, and the interpolants between."""

    times: Any
    ys: Any
    coefficients: Any
    evaluations: Any
    failed: Any


def grid(problem: Problem, dense: bool, watch: Any = None) -> Grid:
    """Integrates adaptively, which needs known values. `watch` may end it early (see ode_events).

    Raises:
      AbstractValueError: if values are not known, under jit and vmap.
    """
    if current() is EVAL:
        return _walked(problem, dense, watch)
    constants = [stop_gradient(x) for x in (problem.t0, problem.y0, problem.bound)]
    with no_gradient("steps"):
        given = problem._replace(t0=constants[0], y0=constants[1], bound=constants[2])
        walked = _walked(given, False, watch)
    times = problem.t0 + (walked.times - walked.times[0])
    ended = watch is not None and watch.stopped is not None
    if not (walked.failed or ended) and len(walked.times) > 1:
        times = np.concatenate([times[:-1], np.reshape(problem.bound, (1,))])

    def step(carry: Any, ends: Any) -> Any:
        (y, f), (t, new_t) = carry, ends
        h = new_t - t
        new, slope, slopes = problem.method.step(problem.fun, t, y, f, h)
        parts = _coefficients(problem, t, y, new, h, slopes) if dense else ()
        return (new, slope), (new, parts)

    carry = (problem.y0, problem.fun(problem.t0, problem.y0))
    if current().records or not 2 <= len(times) <= costs.eager_steps:
        _, (ys, coefficients) = scan(step, carry, (times[:-1], times[1:]))
    else:
        rows = []
        for ends in itertools.pairwise(times):
            carry, row = step(carry, ends)
            rows.append(row)
        ys = np.stack([y for y, _ in rows])
        coefficients = np.stack([parts for _, parts in rows]) if dense else ()
    ys = np.concatenate([problem.y0[None], ys])
    return Grid(times, ys, coefficients, walked.evaluations, walked.failed)


def _coefficients(problem: Problem, t: Any, y: Any, new: Any, h: Any, slopes: Any) -> Any:
    return problem.method.coefficients(problem.fun, t, y, new, h, slopes)


def _walked(problem: Problem, dense: bool, watch: Any) -> Grid:
    """The steps by a Python loop over known values."""
    state = _known(_start(problem))
    times, ys, parts = [state.t], [state.y], []
    if watch is not None:
        watch.begin(state.t, state.y)
    while state.t != problem.bound and not state.failed:
        state = _known(_attempt(problem, state))
        if state.rejected or state.failed:
            continue
        times.append(state.t)
        ys.append(state.y)
        if dense:
            parts.append(
                _coefficients(problem, state.t_old, state.y_old, state.y, state.h, state.slopes)
            )
        if watch is not None and watch(problem, state):
            break
    return Grid(
        np.array(times), np.array(ys), np.array(parts), state.evaluations, bool(state.failed)
    )


def _known(state: State) -> State:
    try:
        return State(*[known(x, "the steps of an integration") for x in state])
    except AbstractValueError as error:
        raise AbstractValueError(
            "The number of steps of an integration depends on values, so under jit and vmap the "
            "shape of its result is not known: give the times that you want by t_eval, and leave "
            "out dense_output."
        ) from error


def evaluated(found: Grid, method: RungeKutta, t: Any) -> Any:
    """The solution at times t of any shape, as (*shape, n), from the interpolants of a grid."""
    times = found.times
    if len(times) == 1:
        return np.broadcast_to(found.ys[0], (*np.shape(t), *found.ys[0].shape))
    sign = np.where(times[-1] >= times[0], 1.0, -1.0)
    node = np.searchsorted(stop_gradient(times * sign), stop_gradient(t * sign), side="left")
    node = np.clip(node - 1, 0, len(times) - 2)
    start = picked(times, node)
    h = picked(times, node + 1) - start
    return method.interpolated(
        picked(found.coefficients, node), (t - start) / h, h, picked(found.ys, node)
    )
