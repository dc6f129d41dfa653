"""Points where derivatives are easily wrong, with exact values and JAX's results; see
against_jax.py. `derivative(library, numpy of the library, *arguments)` computes one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Point(NamedTuple):
    """A derivative at a point."""

    derivative: Any
    args: tuple[Any, ...]
    exact: Any


def slope(f: Any) -> Any:
    """The derivative of f(numpy, x, ...) by x."""
    return lambda lib, m, *args: lib.grad(lambda x: f(m, x, *args[1:]))(args[0])


def curvature(f: Any) -> Any:
    """The matrix of second derivatives of f(numpy, x)."""
    return lambda lib, m, x: lib.hessian(lambda x: f(m, x))(x)


EQUAL = np.array([1.5, 1.5])
_R = np.hypot(*EQUAL)
HYPOT = np.array([[2.25, -2.25], [-2.25, 2.25]]) / _R**3
NAN_LEFT_OUT = np.array([0.4, np.nan, 0.7])

POINTS: dict[str, Point] = {
    "hessian of hypot(x, y), x = y": Point(
        curvature(lambda m, v: m.hypot(v[0], v[1])), (EQUAL,), HYPOT
    ),
    "std of one value": Point(slope(lambda m, x: m.std(x)), (np.array([2.0]),), 0.0),
    "x**0 at 0": Point(slope(lambda m, x: x**0), (0.0,), 0.0),
    "x**0.0, a float, at 0": Point(slope(lambda m, x, p: x**p), (0.0, 0.0), 0.0),
    "x**2.0 at 0": Point(slope(lambda m, x, p: x**p), (0.0, 2.0), 0.0),
    "second derivative of x**2.0 at 0": Point(
        lambda lib, m, x, p: lib.grad(lib.grad(lambda x: x**p))(x), (0.0, 2.0), 2.0
    ),
    "x**y by y at x = 0": Point(lambda lib, m, x, y: lib.grad(lambda y: x**y)(y), (0.0, 2.0), 0.0),
    "max of ties": Point(slope(lambda m, x: m.max(x)), (np.ones(4),), np.full(4, 0.25)),
    "sort of ties, first element": Point(
        slope(lambda m, x: m.sort(x)[0]), (np.ones(2),), [0.5, 0.5]
    ),
    "median of ties": Point(slope(lambda m, x: m.median(x)), (np.ones(3),), np.full(3, 1 / 3)),
    "maximum(x, x)": Point(slope(lambda m, x: m.maximum(x, x)), (1.3,), 1.0),
    "abs at 0": Point(slope(lambda m, x: m.abs(x)), (0.0,), 0.0),
    "norm at 0": Point(slope(lambda m, x: m.linalg.norm(x)), (np.zeros(2),), np.zeros(2)),
    "hypot at 0": Point(slope(lambda m, x: m.hypot(x, 0.0)), (0.0,), 0.0),
    "arctan2(y, 0) at 0": Point(slope(lambda m, y: m.arctan2(y, 0.0)), (0.0,), 0.0),
    "sinc at 0, second derivative": Point(
        lambda lib, m, x: lib.grad(lib.grad(m.sinc))(x), (0.0,), -(np.pi**2) / 3
    ),
    "where(x > 0, sqrt(x), 0) at 0": Point(
        slope(lambda m, x: m.where(x > 0, m.sqrt(x), 0.0)), (0.0,), 0.0
    ),
    "where(x > 0, log(x), 0) at -1": Point(
        slope(lambda m, x: m.where(x > 0, m.log(x), 0.0)), (-1.0,), 0.0
    ),
    "prod with a zero": Point(
        slope(lambda m, x: m.prod(x)), (np.array([0.0, 2.0, 3.0]),), [6.0, 0.0, 0.0]
    ),
    "cumprod with a zero, last": Point(
        slope(lambda m, x: m.cumprod(x)[-1]), (np.array([2.0, 0.0, 3.0]),), [0.0, 6.0, 0.0]
    ),
    "nansum of x**2 with a NaN": Point(
        slope(lambda m, x: m.nansum(x**2)), (NAN_LEFT_OUT,), [0.8, 0.0, 1.4]
    ),
    "nanmean with a NaN": Point(slope(lambda m, x: m.nanmean(x)), (NAN_LEFT_OUT,), [0.5, 0.0, 0.5]),
    "logaddexp(x, -inf)": Point(slope(lambda m, x: m.logaddexp(x, -np.inf)), (0.3,), 1.0),
    "logaddexp at -inf, both": Point(slope(lambda m, x: m.logaddexp(x, -np.inf)), (-np.inf,), 0.5),
    "sum of eigvalsh at equal ones": Point(
        slope(lambda m, a: m.sum(m.linalg.eigvalsh(a))), (np.eye(2),), np.eye(2)
    ),
    "sum of singular values at equal ones": Point(
        slope(lambda m, a: m.sum(m.linalg.svd(a, compute_uv=False))), (np.eye(2),), np.eye(2)
    ),
    "pinv of a matrix of zeros": Point(
        slope(lambda m, a: m.sum(m.linalg.pinv(a) ** 2)), (np.zeros((2, 2)),), np.zeros((2, 2))
    ),
    "det of a singular matrix": Point(
        slope(lambda m, a: m.linalg.det(a)),
        (np.array([[1.0, 2.0], [2.0, 4.0]]),),
        [[4.0, -2.0], [-2.0, 1.0]],
    ),
    "second derivative of abs(x)**3 at 0": Point(
        lambda lib, m, x: lib.grad(lib.grad(lambda x: m.abs(x) ** 3))(x), (0.0,), 0.0
    ),
    "clip at its bound": Point(slope(lambda m, x: m.clip(x, 0.0, 1.0)), (1.0,), 0.5),
    "interp at a point": Point(
        slope(lambda m, x: m.interp(x, np.arange(3.0), np.array([0.0, 1.0, 4.0]))), (1.0,), 2.0
    ),
    "spence at 1": Point(lambda lib, m, x: lib.grad(lib.scipy.special.spence)(x), (1.0,), -1.0),
    "spence at 1.5": Point(
        lambda lib, m, x: lib.grad(lib.scipy.special.spence)(x), (1.5,), -2.0 * np.log(1.5)
    ),
    "unique": Point(
        slope(lambda m, x: m.sum(m.unique(x) ** 2)), (np.array([1.0, 2.0]),), [2.0, 4.0]
    ),
}

UNLIKE: dict[str, str] = {
    "hessian of hypot(x, y), x = y": "JAX is wrong: its hypot takes a maximum, and a tie in it",
    "std of one value": "JAX is NaN, 0 times infinity; the function is flat",
    "x**0.0, a float, at 0": "JAX is NaN; the function is 1 everywhere",
    "sort of ties, first element": "a kink: JAX takes the first, here ties are shared",
    "median of ties": "a kink: JAX takes one, here ties are shared",
    "abs at 0": "a kink: JAX takes the slope on the right, here the mean of both",
    "norm at 0": "a kink: JAX is NaN, here the mean of all directions",
    "hypot at 0": "a kink: JAX takes half of the slope on the right, here the mean of both",
    "arctan2(y, 0) at 0": "a jump: JAX is NaN, here 0",
    "where(x > 0, sqrt(x), 0) at 0": "JAX is NaN, 0 times infinity in the branch not taken",
    "nansum of x**2 with a NaN": "JAX is NaN at the place that is left out",
    "logaddexp at -inf, both": "JAX is NaN; half each is the limit of equal arguments",
    "interp at a point": "a kink: JAX takes the slope on the right, here the mean of both",
    "spence at 1": "JAX is wrong: 0, the limit is -1",
    "spence at 1.5": "JAX is NaN above 1, up to 2",
    "unique": "JAX's derivative of unique is silently zero",
}
