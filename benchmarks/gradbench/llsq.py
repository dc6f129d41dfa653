"""The eval `llsq`: least squares of a polynomial against the sign function.

The polynomial is evaluated by its coefficients in rows of eight: the rows are polynomials of low
degree (one matrix product with the low powers), which a few high powers combine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import fungrad as fg

ROW = 8


def powers(t: Any, count: int) -> Any:
    """t^0, ..., t^(count - 1), one a row."""
    rows = [np.ones_like(t), t]
    while len(rows) < count:
        half = len(rows) // 2
        rows.append(rows[half] * rows[len(rows) - half])
    return np.stack(rows[:count])


def least_squares(x: Any, n: int) -> Any:
    """1/2 sum_i (sign(t_i) - sum_j x_j t_i^j)^2 for n points t from -1 to 1."""
    t = -1.0 + np.arange(n) * (2.0 / (n - 1))
    rows = -(-x.shape[0] // ROW)
    coefficients = np.concatenate([x, np.zeros(rows * ROW - x.shape[0])]).reshape(rows, ROW)
    low = powers(t, ROW + 1)
    values = np.sum((coefficients @ low[:ROW]) * powers(low[ROW], rows), axis=0)
    return 0.5 * np.sum((np.sign(t) - values) ** 2)


def prepared(f: Callable[..., Any]) -> Callable[[Mapping[str, Any]], tuple[Any, Any]]:
    """Decodes the coefficients for a function of them and the number of points."""

    def prepare(given: Mapping[str, Any]) -> tuple[Any, Any]:
        x, n = np.asarray(given["x"]), given["n"]
        return lambda: f(x, n), lambda out: out.tolist()

    return prepare


FUNCTIONS = {
    "primal": prepared(fg.jit(least_squares, static_argnums=1)),
    "gradient": prepared(fg.jit(fg.grad(least_squares), static_argnums=1)),
}
