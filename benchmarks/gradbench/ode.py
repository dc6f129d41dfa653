"""The eval `ode`: a chain of linear differential equations, solved by Runge and Kutta's method.

y_0' = x_0 and y_i' = x_i y_(i-1) from y = 0, over [0, 2] in s steps. The gradient is that of the
last component of the solution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import fungrad as fg
from fungrad import lax


def solve(x: Any, s: int) -> Any:
    """y(2)."""
    h = 2.0 / s

    one = np.ones(1)

    def slope(y: Any) -> Any:
        return x * np.concatenate([one, y[:-1]])

    @fg.checkpoint
    def step(y: Any) -> Any:
        k1 = slope(y)
        k2 = slope(y + (h / 2) * k1)
        k3 = slope(y + (h / 2) * k2)
        k4 = slope(y + h * k3)
        return y + (h / 6) * (k1 + 2.0 * k2 + 2.0 * k3 + k4)

    return lax.scan(lambda y, _: (step(y), None), np.zeros_like(x), None, length=s)[0]


def last(x: Any, s: int) -> Any:
    """The last component of y(2)."""
    return solve(x, s)[-1]


def prepared(f: Callable[..., Any]) -> Callable[[Mapping[str, Any]], tuple[Any, Any]]:
    """Decodes the parameters for a function of them and the number of steps."""

    def prepare(given: Mapping[str, Any]) -> tuple[Any, Any]:
        x, s = np.asarray(given["x"]), given["s"]
        return lambda: f(x, s), lambda out: out.tolist()

    return prepare


FUNCTIONS = {
    "primal": prepared(fg.jit(solve, static_argnums=1)),
    "gradient": prepared(fg.jit(fg.grad(last), static_argnums=1)),
}
