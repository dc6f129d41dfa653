"""Gradient descent with an adaptive step, for `particle` and `saddle`: a loop that differentiates.

The loop is a `while_loop` whose condition depends on the data, and both modes go through it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fungrad as fg
from fungrad import lax

STEP, SMALL, STREAK = 1e-5, 1e-5, 10
Gradient = Callable[[Callable[[Any], Any]], Callable[[Any], Any]]

# The two modes of the gradient of a function of one array, by the letters of GradBench.
MODES: dict[str, Gradient] = {"r": fg.grad, "f": fg.jacfwd}


def norm(v: Any) -> Any:
    """The length of a vector, or the magnitude of a number."""
    return np.sqrt(np.sum(v * v))


def minimum(f: Callable[[Any], Any], start: Any, gradient: Gradient) -> Any:
    """Where f is smallest, by descent from `start`."""
    slope = gradient(f)

    def going(state: tuple[Any, ...]) -> Any:
        _, _, g, _, _, stuck = state
        return np.logical_and(norm(g) > SMALL, np.logical_not(stuck))

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        x, value, g, eta, streak, _ = state
        eta = np.where(streak == STREAK, 2.0 * eta, eta)
        streak = np.where(streak == STREAK, 0, streak)
        tried = x - eta * g
        stuck = norm(tried - x) <= SMALL
        lower = f(tried)

        def accept() -> tuple[Any, ...]:
            return tried, lower, slope(tried), eta, streak + 1, False

        def refuse() -> tuple[Any, ...]:
            return x, value, g, eta / 2.0, np.zeros_like(streak), False

        def stop() -> tuple[Any, ...]:
            return x, value, g, eta, streak, True

        return lax.cond(stuck, stop, lambda: lax.cond(lower < value, accept, refuse))

    state = (start, f(start), slope(start), np.float64(STEP), np.int64(0), np.bool_(False))
    return lax.while_loop(going, step, state)[0]
