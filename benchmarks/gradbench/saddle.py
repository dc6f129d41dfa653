"""The eval `saddle`: the saddle point of |x|^2 - |y|^2, by a descent that contains an ascent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks.gradbench.descent import MODES, Gradient, minimum


def height(x: Any, y: Any) -> Any:
    """The surface."""
    return np.sum(x * x) - np.sum(y * y)


def highest(x: Any, start: Any, gradient: Gradient) -> Any:
    """The y for which the surface is highest, given x."""
    return minimum(lambda y: -height(x, y), start, gradient)


def saddle(start: Any, outer: Gradient, inner: Gradient) -> Any:
    """The saddle point [x0, x1, y0, y1]."""
    x = minimum(lambda x: height(x, highest(x, start, inner)), start, outer)
    return np.concatenate([x, highest(x, start, inner)])


def solver(outer: str, inner: str) -> Callable[[Mapping[str, Any]], tuple[Any, Any]]:
    """The modes of the outer and of the inner gradient."""
    solve = fg.jit(lambda start: saddle(start, MODES[outer], MODES[inner]))

    def prepare(given: Mapping[str, Any]) -> tuple[Any, Any]:
        start = np.asarray(given["start"], dtype=np.float64)
        return lambda: solve(start), lambda out: out.tolist()

    return prepare


FUNCTIONS = {modes: solver(modes[0], modes[1]) for modes in ("rr", "rf", "fr", "ff")}
