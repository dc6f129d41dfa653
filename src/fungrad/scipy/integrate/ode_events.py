"""Events of an integration: zeros of functions of (t, y) along the solution.

They are found as in SciPy, step by step on known values, by the interpolant of the step. The time
of an event is differentiated as a root, by the implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.implicit import custom_root
from fungrad.numpy.protocol.implements import known
from fungrad.numpy.protocol.operands import array_of, float64_of
from fungrad.scipy.integrate.runge_kutta import Problem, State
from fungrad.scipy.optional import scipy_module
from fungrad.tracing.trace import shape_of

Event = Callable[[Any, Any], Any]

_EXACT = 4 * np.finfo(float).eps


class Watch:
    """Finds events in every step, and whether one ends the integration.

    Args:
      events: functions of (t, y). limits: the number of events of each that ends the integration.
      directions: the sign of the slope that counts, 0 for both.
    """

    def __init__(
        self, events: Sequence[Event], limits: Sequence[float], directions: Sequence[float]
    ) -> None:
        self.events, self.limits, self.directions = events, limits, directions
        self.times: list[list[float]] = [[] for _ in events]
        self.stopped: float | None = None
        self._before: list[float] = []

    @classmethod
    def of(cls, events: Any, args: tuple[Any, ...]) -> Watch:
        """SciPy's events: a function of (t, y, *args) or several, with their attributes."""
        given = (events,) if callable(events) else tuple(events)
        limits = []
        for event in given:
            terminal = getattr(event, "terminal", None)
            if terminal is not None and (int(terminal) != terminal or terminal < 0):
                raise ValueError("The `terminal` attribute of each event must be a count.")
            limits.append(float(terminal) if terminal else np.inf)
        functions = [lambda t, y, event=event: event(t, y, *args) for event in given]
        return cls(functions, limits, [getattr(event, "direction", 0) for event in given])

    def _numbers(self, t: Any, y: Any) -> list[float]:
        return [float(known(array_of(event(t, y)), "an event")) for event in self.events]

    def begin(self, t: Any, y: Any) -> None:
        """Stores the events' values at the start of the integration."""
        self._before = self._numbers(t, y)

    def __call__(self, problem: Problem, state: State) -> bool:
        """Stores the events in the step that ends in this state; True if one is the last."""
        values = self._numbers(state.t, state.y)
        roots = []
        for i, (g, new) in enumerate(zip(self._before, values, strict=True)):
            up, down = g <= 0 <= new, new <= 0 <= g
            sign = self.directions[i]
            if (up and sign > 0) or (down and sign < 0) or ((up or down) and sign == 0):
                roots.append((self._root(i, problem, state), i))
        self._before = values
        counts = {i: len(self.times[i]) + 1 for _, i in roots}
        if any(counts[i] >= self.limits[i] for _, i in roots):
            roots.sort(key=lambda root: root[0] if state.t > state.t_old else -root[0])
        for at, i in roots:
            self.times[i].append(at)
            if counts[i] >= self.limits[i]:
                self.stopped = at
                return True
        return False

    def _root(self, i: int, problem: Problem, state: State) -> float:
        method, (t, y, h) = problem.method, (state.t_old, state.y_old, state.h)
        parts = method.coefficients(problem.fun, t, y, state.y, h, state.slopes)

        def value(at: float) -> float:
            state = method.interpolated(parts, (np.float64(at) - t) / h, h, y)
            return float(known(array_of(self.events[i](at, state)), "an event"))

        root = scipy_module("scipy.optimize").brentq(
            value, float(t), float(state.t), xtol=_EXACT, rtol=_EXACT
        )
        return float(root)

    def moments(self, solution: Callable[[Any], Any]) -> tuple[list[Any], list[Any], Any]:
        """(the times of each event, the states there, the last time or None), differentiable."""
        times, states, last = [], [], None
        for event, found in zip(self.events, self.times, strict=True):
            moved = [_moment(event, at, solution) for at in found]
            if self.stopped in found:
                last = moved[found.index(self.stopped)]
            times.append(np.stack(moved) if moved else np.zeros(0))
            rows = [solution(t) for t in moved]
            size = shape_of(solution(np.float64(0.0)))[0] if not rows else 0
            states.append(np.stack(rows) if rows else np.zeros((0, size)))
        return times, states, last


def _moment(event: Event, at: float, solution: Callable[[Any], Any]) -> Any:
    def along(t: Any) -> Any:
        return np.reshape(float64_of(event(t, solution(t))), ())

    return custom_root(along, np.float64(at), lambda f, guess: guess, lambda g, y: y / g(1.0))
