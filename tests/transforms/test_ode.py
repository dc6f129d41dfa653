"""Solvers that loop until they are done, differentiated through: an adaptive Runge-Kutta against
its adjoint.
"""

from __future__ import annotations

import numpy as np

import fungrad as fg
from fungrad import lax

# Dormand & Prince 1980, A family of embedded Runge-Kutta formulae: RK5(4)7M.
A = [
    [],
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
]
ERROR = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]


def solve(f, y0, end, tolerance):
    """y(end) for y' = f(y), y(0) = y0, with steps chosen by the error estimate."""

    def step(carry):
        t, y, h = carry
        h = np.minimum(h, end - t)
        slopes = [f(y)]
        for row in A[1:]:
            slopes.append(f(y + h * sum(a * k for a, k in zip(row, slopes, strict=True) if a)))
        new = y + h * sum(a * k for a, k in zip(A[6], slopes, strict=False) if a)
        error = h * sum(e * k for e, k in zip(ERROR, slopes, strict=True) if e)
        size = np.sqrt(np.mean((error / (tolerance + tolerance * np.abs(y))) ** 2))
        grow = fg.stop_gradient(np.clip(0.9 * np.maximum(size, 1e-10) ** -0.2, 0.2, 5.0))
        good = size <= 1.0
        return np.where(good, t + h, t), np.where(good, new, y), h * grow

    start = (0.0, y0, np.float64(0.01))
    return lax.while_loop(lambda c: c[0] < end - 1e-12, step, start)[1]


def rate(theta):
    return lambda y: np.stack([y[1], -theta[0] * np.sin(y[0]) - theta[1] * y[1]])


THETA, Y0, END = np.array([1.3, 0.2]), np.array([1.0, 0.0]), 0.5


def objective(theta, y0, tolerance=1e-11):
    y = solve(rate(theta), y0, END, tolerance)
    return y[0] ** 2 + 0.5 * y[1]


def adjoint(theta, y0):
    """The gradient by the continuous adjoint equations (Pontryagin et al. 1962), solved
    backwards.
    """
    final = solve(rate(theta), y0, END, 1e-12)

    def backwards(state):
        y, costate = state[:2], state[2:4]
        slope, pullback = fg.vjp(lambda y, theta: rate(theta)(y), y, theta)
        by_y, by_theta = pullback(costate)
        return np.concatenate([-slope, by_y, by_theta])

    start = np.concatenate([final, [2 * final[0], 0.5], np.zeros(2)])
    end = solve(backwards, start, END, 1e-12)
    return end[4:], end[2:4]


def test_an_adaptive_solver_differentiates_to_the_adjoint_answer():
    by_theta, by_y0 = adjoint(THETA, Y0)
    for gradient in (fg.grad(objective, (0, 1)), fg.jit(fg.grad(objective, (0, 1)))):
        got_theta, got_y0 = gradient(THETA, Y0)
        np.testing.assert_allclose(got_theta, by_theta, rtol=0, atol=1e-8)
        np.testing.assert_allclose(got_y0, by_y0, rtol=0, atol=1e-8)


def test_little_memory_and_batches_change_nothing():
    def saved(theta):
        return objective(theta, Y0, 1e-6)

    expected = fg.grad(saved)(THETA)
    thetas = np.stack([THETA, 2 * THETA])
    batched = fg.vmap(fg.grad(saved))(thetas)
    np.testing.assert_allclose(batched[0], expected, rtol=1e-10)
    np.testing.assert_allclose(batched[1], fg.grad(saved)(thetas[1]), rtol=1e-10)
    forward = fg.vmap(lambda v: fg.jvp(saved, (THETA,), (v,))[1])(np.eye(2))
    np.testing.assert_allclose(forward, expected, rtol=1e-10)
