"""Gradients of six loops beside those derived by hand and compiled by numba:
`python -m benchmarks.numba_loops`.

fungrad gets the functions alone, as scans. What numba compiles keeps the states of the forward loop
and runs backwards; it has numba's defaults, no `fastmath`. Times are minima of CPU time of one
interleaved run, in microseconds; results are compared first.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numba
import numpy as np

import fungrad as fg
from benchmarks import python_loops
from benchmarks.timing import least_cpu_times
from fungrad import lax

ROUNDS, BURST = 40, 0.004
RNG = np.random.default_rng(0)
SOFT, STEP = 0.1, 0.01
by_hand = numba.njit(error_model="numpy")


def lorenz(p: Any, y: Any) -> Any:
    """The sum of the state after 1,000 Euler steps."""

    def step(y: Any, _: Any) -> Any:
        d = [p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]]
        return y + np.stack(d) / 1024, None

    return np.sum(lax.scan(step, y, None, length=1_000)[0])


@by_hand
def lorenz_by_hand(p, y):  # type: ignore[no-untyped-def]
    n, h = 1_000, 1 / 1024
    ys = np.empty((n + 1, 3))
    ys[0] = y
    for i in range(n):
        a, b, c = ys[i]
        ys[i + 1, 0] = a + p[0] * (b - a) * h
        ys[i + 1, 1] = b + (a * (p[1] - c) - b) * h
        ys[i + 1, 2] = c + (a * b - p[2] * c) * h
    da, db, dc, dp = 1.0, 1.0, 1.0, np.zeros(3)
    for i in range(n - 1, -1, -1):
        a, b, c = ys[i]
        dp[0] += da * (b - a) * h
        dp[1] += db * a * h
        dp[2] -= dc * c * h
        da, db, dc = (
            da * (1 - p[0] * h) + (db * (p[1] - c) + dc * b) * h,
            db * (1 - h) + (da * p[0] + dc * a) * h,
            dc * (1 - p[2] * h) - db * a * h,
        )
    return dp, np.array([da, db, dc])


def garch(p: Any, r: Any) -> Any:
    """The likelihood of a GARCH(1, 1) process of 1,000 returns."""

    def step(state: Any, r: Any) -> Any:
        h, total = state
        return (p[0] + p[1] * r * r + p[2] * h, total + np.log(h) + r * r / h), None

    return lax.scan(step, (p[0] / (1 - p[1] - p[2]), p[0] * 0.0), r)[0][1]


@by_hand
def garch_by_hand(p, r):  # type: ignore[no-untyped-def]
    n = r.size
    hs = np.empty(n)
    rest = 1 - p[1] - p[2]
    h = p[0] / rest
    for i in range(n):
        hs[i] = h
        h = p[0] + p[1] * r[i] * r[i] + p[2] * h
    dp, dr, dh = np.zeros(3), np.empty(n), 0.0
    for i in range(n - 1, -1, -1):
        h, x = hs[i], r[i]
        dp[0] += dh
        dp[1] += dh * x * x
        dp[2] += dh * h
        dr[i] = 2 * x * (dh * p[1] + 1 / h)
        dh = dh * p[2] + 1 / h - x * x / (h * h)
    dp[0] += dh / rest
    dp[1:] += dh * p[0] / (rest * rest)
    return dp, dr


def kalman(a: Any, q: Any, ys: Any) -> Any:
    """The likelihood of a Kalman filter of 4 states, 200 observations."""
    return python_loops.kalman(python_loops.scanned, a, q, ys)


@by_hand
def product(a, b, c):  # type: ignore[no-untyped-def]
    """Adds a @ b to c."""
    n = a.shape[0]
    for i in range(n):
        for k in range(n):
            for j in range(n):
                c[i, j] += a[i, k] * b[k, j]


@by_hand
def kalman_by_hand(a, q, ys):  # type: ignore[no-untyped-def]
    n, d = ys.size, a.shape[0]
    ms, ps = np.zeros((n + 1, d)), np.zeros((n + 1, d, d))
    half, made, priors, moved = (
        np.empty((n, d, d)),
        np.empty((n, d, d)),
        np.empty((n, d)),
        a.T.copy(),
    )
    ps[0] = np.eye(d)
    for t in range(n):
        half[t] = 0.0
        product(a, ps[t], half[t])
        made[t] = q
        product(half[t], moved, made[t])
        m, p = priors[t], made[t]
        for i in range(d):
            m[i] = 0.0
            for j in range(d):
                m[i] += a[i, j] * ms[t, j]
        s, r = p[0, 0] + 0.1, ys[t] - m[0]
        for i in range(d):
            k = p[i, 0] / s
            ms[t + 1, i] = m[i] + k * r
            for j in range(d):
                ps[t + 1, i, j] = p[i, j] - k * p[0, j]
    da, dq, dys = np.zeros((d, d)), np.zeros((d, d)), np.empty(n)
    dm, dp, dk, pm, pp = np.zeros(d), np.zeros((d, d)), np.empty(d), np.empty(d), np.empty((d, d))
    for t in range(n - 1, -1, -1):
        m, p = priors[t], made[t]
        s, r = p[0, 0] + 0.1, ys[t] - m[0]
        ds, dr = 1 / s - r * r / (s * s), 2 * r / s
        pm[:] = dm
        pp[:] = dp
        for i in range(d):
            k = p[i, 0] / s
            dk[i] = dm[i] * r
            dr += dm[i] * k
            for j in range(d):
                dk[i] -= dp[i, j] * p[0, j]
                pp[0, j] -= dp[i, j] * k
        for i in range(d):
            pp[i, 0] += dk[i] / s
            ds -= dk[i] * p[i, 0] / (s * s)
        pp[0, 0] += ds
        pm[0] -= dr
        dys[t] = dr
        dm[:] = 0.0
        dp[:] = 0.0
        for i in range(d):
            for j in range(d):
                dq[i, j] += pp[i, j]
                da[i, j] += pm[i] * ms[t, j]
                dm[j] += a[i, j] * pm[i]
        inner = np.zeros((d, d))
        product(pp, a, inner)  # by `half`
        product(moved, inner, dp)
        for i in range(d):
            for k in range(d):
                for j in range(d):
                    da[i, j] += pp[k, i] * half[t, k, j] + inner[i, k] * ps[t, j, k]
    return da, dq, dys


def hidden_markov(transition: Any, emission: Any) -> Any:
    """The forward algorithm, 8 states, 500 observations."""

    def step(state: Any, e: Any) -> Any:
        alpha, total = state
        alpha = (alpha @ transition) * e
        scale = np.sum(alpha)
        return (alpha / scale, total + np.log(scale)), None

    start = np.ones(8) / 8, 0.0 * transition[0, 0]
    return lax.scan(step, start, emission)[0][1]


@by_hand
def hidden_markov_by_hand(transition, emission):  # type: ignore[no-untyped-def]
    n, d = emission.shape
    alphas, scales, pushed = np.empty((n + 1, d)), np.empty(n), np.zeros((n, d))
    alphas[0] = 1 / d
    for t in range(n):
        for i in range(d):
            for j in range(d):
                pushed[t, j] += alphas[t, i] * transition[i, j]
        scale = 0.0
        for j in range(d):
            scale += pushed[t, j] * emission[t, j]
        scales[t] = scale
        for j in range(d):
            alphas[t + 1, j] = pushed[t, j] * emission[t, j] / scale
    by_transition, by_emission = np.zeros((d, d)), np.empty((n, d))
    back, step = np.zeros(d), np.empty(d)
    for t in range(n - 1, -1, -1):
        dot = 0.0
        for j in range(d):
            dot += back[j] * alphas[t + 1, j]
        for j in range(d):
            given = (back[j] - dot + 1.0) / scales[t]
            by_emission[t, j] = given * pushed[t, j]
            step[j] = given * emission[t, j]
        for i in range(d):
            back[i] = 0.0
            for j in range(d):
                by_transition[i, j] += alphas[t, i] * step[j]
                back[i] += transition[i, j] * step[j]
    return by_transition, by_emission


def lstm(w: Any, xs: Any) -> Any:
    """The squares of the last output of an LSTM of 8 units, 100 steps of 4 inputs."""

    def step(state: Any, x: Any) -> Any:
        h, c = state
        gates = w @ np.concatenate([h, x])
        forget, taken, out = (1 / (1 + np.exp(-gates[n : n + 8])) for n in (0, 8, 16))
        c = forget * c + taken * np.tanh(gates[24:])
        return (out * np.tanh(c), c), None

    return np.sum(lax.scan(step, (np.zeros(8), np.zeros(8)), xs)[0][0] ** 2)


@by_hand
def lstm_by_hand(w, xs):  # type: ignore[no-untyped-def]
    n, d = xs.shape
    u = w.shape[0] // 4
    given, cells, gates = np.zeros((n + 1, u + d)), np.zeros((n + 1, u)), np.empty((n, 4 * u))
    for t in range(n):
        given[t, u:] = xs[t]
        for i in range(4 * u):
            total = 0.0
            for j in range(u + d):
                total += w[i, j] * given[t, j]
            gates[t, i] = np.tanh(total) if i >= 3 * u else 1 / (1 + np.exp(-total))
        g = gates[t]
        for i in range(u):
            cells[t + 1, i] = g[i] * cells[t, i] + g[u + i] * g[3 * u + i]
            given[t + 1, i] = g[2 * u + i] * np.tanh(cells[t + 1, i])
    dw, dxs, dz = np.zeros(w.shape), np.empty(xs.shape), np.empty(4 * u)
    dc, back = np.zeros(u), np.zeros(u + d)
    back[:u] = 2 * given[n, :u]
    for t in range(n - 1, -1, -1):
        g = gates[t]
        for i in range(u):
            f, k, o, c = g[i], g[u + i], g[2 * u + i], g[3 * u + i]
            th = np.tanh(cells[t + 1, i])
            dc[i] += back[i] * o * (1 - th * th)
            dz[i] = dc[i] * cells[t, i] * f * (1 - f)
            dz[u + i] = dc[i] * c * k * (1 - k)
            dz[2 * u + i] = back[i] * th * o * (1 - o)
            dz[3 * u + i] = dc[i] * k * (1 - c * c)
            dc[i] *= f
        back[:] = 0.0
        for i in range(4 * u):
            for j in range(u + d):
                dw[i, j] += dz[i] * given[t, j]
                back[j] += w[i, j] * dz[i]
        dxs[t] = back[u:]
    return dw, dxs


def bodies(x: Any, v: Any) -> Any:
    """The squares of the positions of 5 bodies after 200 steps of the leapfrog."""

    def force(x: Any) -> Any:
        apart = x[None, :, :] - x[:, None, :]
        return np.sum(apart / (np.sum(apart**2, axis=2, keepdims=True) + SOFT) ** 1.5, axis=1)

    def step(state: Any, _: Any) -> Any:
        x, v = state
        v = v + STEP * force(x)
        return (x + STEP * v, v), None

    return np.sum(lax.scan(step, (x, v), None, length=200)[0][0] ** 2)


@by_hand
def bodies_by_hand(x, v):  # type: ignore[no-untyped-def]
    n, count = 200, x.shape[0]
    xs, v = np.empty((n + 1, count, 3)), v.copy()
    xs[0] = x
    for t in range(n):
        x = xs[t]
        for i in range(count):
            for j in range(i):
                a, b, c = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
                square = a * a + b * b + c * c + SOFT
                pull = STEP / (square * np.sqrt(square))
                v[i, 0] += pull * a
                v[i, 1] += pull * b
                v[i, 2] += pull * c
                v[j, 0] -= pull * a
                v[j, 1] -= pull * b
                v[j, 2] -= pull * c
        xs[t + 1] = x + STEP * v
    dx, dv = 2 * xs[n], np.zeros((count, 3))
    for t in range(n - 1, -1, -1):
        dv += STEP * dx
        x = xs[t]
        for i in range(count):
            for j in range(i):
                a, b, c = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
                p, q, r = dv[i, 0] - dv[j, 0], dv[i, 1] - dv[j, 1], dv[i, 2] - dv[j, 2]
                square = a * a + b * b + c * c + SOFT
                pull = STEP / (square * np.sqrt(square))
                bend = 3 * pull / square * (a * p + b * q + c * r)
                p, q, r = pull * p - bend * a, pull * q - bend * b, pull * r - bend * c
                dx[j, 0] += p
                dx[j, 1] += q
                dx[j, 2] += r
                dx[i, 0] -= p
                dx[i, 1] -= q
                dx[i, 2] -= r
    return dx, dv


CASES: Mapping[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "Lorenz, 1,000 steps": (lorenz, lorenz_by_hand, (np.array([10.0, 28.0, 2.6]), np.ones(3))),
    "GARCH, 1,000 returns": (
        garch, garch_by_hand, (np.array([0.1, 0.1, 0.8]), RNG.normal(size=1_000)),
    ),
    "Kalman filter of 4, 200 steps": (
        kalman, kalman_by_hand,
        (0.9 * np.eye(4) + 0.02 * RNG.normal(size=(4, 4)), 0.1 * np.eye(4), RNG.normal(size=200)),
    ),
    "HMM of 8, 500 steps": (
        hidden_markov, hidden_markov_by_hand,
        ((0.5 + RNG.random((8, 8))) / 8, 0.5 + RNG.random((500, 8))),
    ),
    "LSTM of 8, 100 steps": (
        lstm, lstm_by_hand, (RNG.normal(size=(32, 12)) / 3, RNG.normal(size=(100, 4))),
    ),
    "5 bodies, 200 steps": (
        bodies, bodies_by_hand, (RNG.normal(size=(5, 3)), RNG.normal(size=(5, 3))),
    ),
}  # fmt: skip


def main() -> None:
    """Prints the table."""
    ratios = []
    print(
        "| gradient | fungrad, us | numba by hand, us | ratio | difference |\n|---|---|---|---|---|"
    )
    for name, (f, derived, args) in CASES.items():
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        calls = (fg.jit(fg.grad(f, tuple(range(len(args))))), derived)
        pairs = zip(calls[0](*args), calls[1](*args), strict=True)
        apart = max(np.max(np.abs(a - b)) / np.max(np.abs(b)) for a, b in pairs)
        assert apart < 1e-8, (name, apart)
        best = least_cpu_times([partial(call, *args) for call in calls], ROUNDS, BURST)
        ratios.append(best[0] / best[1])
        us = f"{1e6 * best[0]:.1f} | {1e6 * best[1]:.1f}"
        print(f"| {name} | {us} | {ratios[-1]:.2f} | {apart:.0e} |", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
