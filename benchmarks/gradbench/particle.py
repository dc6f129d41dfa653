"""The eval `particle`: where a charge has to stand for a particle to cross the axis at zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks.gradbench.descent import MODES, Gradient, minimum
from fungrad import lax

TIME_STEP = 0.1


def crossing(w: Any, gradient: Gradient) -> Any:
    """The square of where the particle crosses the axis; `gradient` gives its acceleration."""
    zero = 0.0 * w
    charges = np.stack([np.stack([zero + 10.0, 10.0 - w]), np.stack([zero + 10.0, zero])])

    def potential(x: Any) -> Any:
        return np.sum(1.0 / np.sqrt(np.sum((charges - x) ** 2, axis=1)))

    force = gradient(potential)

    def euler(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        x, v, _ = state
        return x + TIME_STEP * v, v - TIME_STEP * force(x), v

    # The last of the three is the velocity that led to x: the way back to the axis goes along it.
    start = np.array([0.0, 8.0]), np.array([0.75, 0.0]), np.zeros(2)
    x, _, v = lax.while_loop(lambda state: state[0][1] > 0.0, euler, start)
    return (x[0] - x[1] / v[1] * v[0]) ** 2


def solver(outer: str, inner: str) -> Callable[[Mapping[str, Any]], tuple[Any, Any]]:
    """The descent over w, with the modes of its gradient and of the particle's force."""
    solve = fg.jit(lambda w: minimum(lambda w: crossing(w, MODES[inner]), w, MODES[outer]))

    def prepare(given: Mapping[str, Any]) -> tuple[Any, Any]:
        w = np.float64(given["w"])
        return lambda: solve(w), float

    return prepare


FUNCTIONS = {modes: solver(modes[0], modes[1]) for modes in ("rr", "rf", "fr", "ff")}
