"""The eval `gmm`: the log-posterior of a mixture of normal distributions with a Wishart prior."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import fungrad as fg
from fungrad import lax

FREE = ("alpha", "mu", "q", "l")


def logsumexp(a: Any, axis: int) -> Any:
    """log(sum(exp(a))) along an axis."""
    shift = lax.stop_gradient(np.max(a, axis=axis, keepdims=True))
    return np.sum(shift, axis=axis) + np.log(np.sum(np.exp(a - shift), axis=axis))


def triangles(q: Any, l: Any) -> Any:  # noqa: E741
    """The lower triangular matrices: exp(q) on the diagonal, l below it, column by column."""
    k, d = q.shape
    if d == 1:
        return np.exp(q)[:, :, None]
    place = {
        (i, j): n for n, (j, i) in enumerate((j, i) for j in range(d) for i in range(j + 1, d))
    }
    # One zero behind [exp(q), l] for all that is above the diagonal.
    zero = d + l.shape[1]
    index = [
        [i if i == j else d + place[i, j] if i > j else zero for j in range(d)] for i in range(d)
    ]
    entries = np.concatenate([np.exp(q), l, np.zeros((k, 1))], axis=1)
    return entries[:, np.array(index)]


def objective(free: Mapping[str, Any], x: Any, m: int, gamma: float) -> Any:
    """The log-posterior of weights alpha, means mu and triangles (q, l), given points x."""
    alpha, mu, q, lower = (free[name] for name in FREE)
    (n, d), k = x.shape, alpha.shape[0]
    root = triangles(q, lower)
    # Q (x - mu) of all components and points: one matrix product.
    moved = (root.reshape(k * d, d) @ x.T).reshape(k, d, n) - root @ mu[:, :, None]
    inner = (alpha + np.sum(q, axis=1))[:, None] - 0.5 * np.sum(moved * moved, axis=1)
    nu = d + m + 1
    wishart = nu * d * math.log(gamma / math.sqrt(2.0)) - (
        0.25 * d * (d - 1) * math.log(math.pi)
        + sum(math.lgamma(0.5 * nu - 0.5 * j) for j in range(d))
    )
    return (
        -n * (0.5 * d * math.log(2.0 * math.pi) + logsumexp(alpha, 0))
        + np.sum(logsumexp(inner, 0))
        + k * wishart
        - 0.5 * gamma**2 * (np.sum(np.exp(2.0 * q)) + np.sum(lower**2))
        + m * np.sum(q)
    )


def prepared(f: Callable[..., Any], gradient: bool) -> Callable[[Mapping[str, Any]], Any]:
    """Decodes points and parameters for a function of them."""

    def encode(out: Any) -> Any:
        return {name: out[name].tolist() for name in FREE} if gradient else float(out)

    def prepare(given: Mapping[str, Any]) -> tuple[Any, Any]:
        free = {name: np.asarray(given[name], dtype=np.float64) for name in FREE}
        k, d = given["k"], given["d"]
        free["l"] = free["l"].reshape(k, d * (d - 1) // 2)
        x, m, gamma = np.asarray(given["x"]), given["m"], given["gamma"]
        return lambda: f(free, x, m, gamma), encode

    return prepare


FUNCTIONS = {
    "objective": prepared(fg.jit(objective, static_argnums=(2, 3)), False),
    "jacobian": prepared(fg.jit(fg.grad(objective), static_argnums=(2, 3)), True),
}
