"""Loops of tiny bodies on native code, on NumPy and in JAX: `python -m benchmarks.native_loops`.

Value and gradient, in both precisions; each number is the least CPU time of interleaved rounds on
one core. Words on the command line choose cases by parts of their names.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import fungrad as fg

ROUNDS, BURST = 15, 0.01
BUDGET, LEAST = 1.0, 4
"""Seconds that a slow candidate may take in all, and the rounds that it takes part in even then."""
Program = Callable[..., Any]


def logistic(xp: Any, lax: Any, r: Any) -> Any:
    return lax.scan(lambda x, _: (r * x * (1 - x), None), r / 8, None, length=1000)[0]


def ar2(xp: Any, lax: Any, a: Any, noise: Any) -> Any:
    def step(carry: Any, e: Any) -> Any:
        x, y = carry
        new = a[0] * x + a[1] * y + e
        return (new, x), (new - e) * (new - e)

    return xp.sum(lax.scan(step, (noise[0], noise[1]), noise)[1])


def garch(xp: Any, lax: Any, p: Any, returns: Any) -> Any:
    def step(v: Any, r: Any) -> Any:
        v = p[0] + p[1] * r * r + p[2] * v
        return v, xp.log(v) + r * r / v

    return xp.sum(lax.scan(step, p[0], returns)[1])


def sir(xp: Any, lax: Any, p: Any, y: Any) -> Any:
    def step(y: Any, _: Any) -> Any:
        new, gone = p[0] * y[0] * y[1], p[1] * y[1]
        return y + p[2] * xp.stack([-new, new - gone, gone]), None

    return lax.scan(step, y, None, length=1000)[0][1]


def van_der_pol(xp: Any, lax: Any, p: Any, y: Any) -> Any:
    def slope(y: Any) -> Any:
        return xp.stack([y[1], p[0] * (1 - y[0] * y[0]) * y[1] - y[0]])

    def step(y: Any, _: Any) -> Any:
        half = y + p[1] / 2 * slope(y)
        return y + p[1] * slope(half), None

    return xp.sum(lax.scan(step, y, None, length=1000)[0])


def leapfrog(xp: Any, lax: Any, p: Any, q: Any) -> Any:
    def force(q: Any) -> Any:
        r = xp.sqrt(q[0] * q[0] + q[1] * q[1])
        return -q / (r * r * r)

    def step(carry: Any, _: Any) -> Any:
        q, v = carry
        v = v + force(q) / 512
        q = q + v / 256
        return (q, v + force(q) / 512), None

    return xp.sum(lax.scan(step, (q, p), None, length=1000)[0][0])


def metropolis(xp: Any, lax: Any, scale: Any, noise: Any) -> Any:
    def step(x: Any, e: Any) -> Any:
        new = x + scale[0] * e[0]
        accept = e[1] < xp.exp(scale[1] * (x * x - new * new))
        x = xp.where(accept, new, x)
        return x, x * x

    return xp.sum(lax.scan(step, scale[1], noise)[1])


def pendulum(xp: Any, lax: Any, p: Any, y: Any) -> Any:
    def step(y: Any, _: Any) -> Any:
        a, b, u, v = y[0], y[1], y[2], y[3]
        d, s = xp.cos(a - b), xp.sin(a - b)
        m = 2 - d * d
        du = (-u * u * d * s + p[0] * xp.sin(b) * d - v * v * s - 2 * p[0] * xp.sin(a)) / m
        dv = (v * v * d * s + 2 * p[0] * xp.sin(a) * d + 2 * u * u * s - 2 * p[0] * xp.sin(b)) / m
        return y + xp.stack([u, v, du, dv]) / 512, None

    return xp.sum(lax.scan(step, y, None, length=1000)[0])


def hmm(xp: Any, lax: Any, transition: Any, seen: Any) -> Any:
    def step(alpha: Any, e: Any) -> Any:
        inner = alpha[:, None] + transition
        top = xp.max(inner, axis=0)
        return top + xp.log(xp.sum(xp.exp(inner - top), axis=0)) + e, None

    last = lax.scan(step, seen[0], seen)[0]
    return xp.max(last) + xp.log(xp.sum(xp.exp(last - xp.max(last))))


def kalman(xp: Any, lax: Any, a: Any, zs: Any) -> Any:
    q = xp.eye(2, dtype=a.dtype) / 8

    def step(carry: Any, z: Any) -> Any:
        x, p = carry
        x, p = a @ x, a @ p @ a.T + q
        s = p[0, 0] + 1
        e, k = z - x[0], p[:, 0] / s
        return (x + k * e, p - xp.outer(k, p[0])), xp.log(s) + e * e / s

    return xp.sum(lax.scan(step, (q[0], q), zs)[1])


def gru(xp: Any, lax: Any, w: Any, xs: Any) -> Any:
    def sigmoid(x: Any) -> Any:
        return 1 / (1 + xp.exp(-x))

    def step(h: Any, x: Any) -> Any:
        both = xp.concatenate([x, h])
        r, z = sigmoid(w[0] @ both), sigmoid(w[1] @ both)
        n = xp.tanh(w[2] @ xp.concatenate([x, r * h]))
        return (1 - z) * n + z * h, None

    return xp.sum(lax.scan(step, xs[0, :4], xs)[0])


def newton(xp: Any, lax: Any, a: Any, targets: Any) -> Any:
    def root(total: Any, t: Any) -> Any:
        s = lax.fori_loop(0, 5, lambda _, s: s - (s * s * s - t) / (3 * s * s), t + a)
        return total + s, None

    return lax.scan(root, a, targets)[0]


def lorenz(xp: Any, lax: Any, p: Any, y: Any) -> Any:
    def step(y: Any, _: Any) -> Any:
        d = [p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]]
        return y + xp.stack(d) / 1024, None

    return xp.sum(lax.scan(step, y, None, length=1000)[0])


DRAW = np.random.default_rng(0)
NOISE = DRAW.normal(size=1000)
LORENZ = (np.array([10.0, 28.0, 2.6]), np.array([1.0, 1.0, 1.0]))
CASES: Mapping[str, tuple[Program, tuple[Any, ...]]] = {
    "logistic map": (logistic, (np.array(3.7),)),
    "AR(2)": (ar2, (np.array([0.5, -0.3]), NOISE)),
    "GARCH": (garch, (np.array([0.1, 0.2, 0.7]), NOISE)),
    "SIR": (sir, (np.array([0.5, 0.2, 0.01]), np.array([0.9, 0.1, 0.0]))),
    "Van der Pol": (van_der_pol, (np.array([1.5, 0.01]), np.array([1.0, 0.5]))),
    "leapfrog": (leapfrog, (np.array([0.1, 0.9]), np.array([1.0, 0.0]))),
    "Metropolis": (metropolis, (np.array([0.5, 0.5]), DRAW.uniform(size=(1000, 2)))),
    "double pendulum": (pendulum, (np.array([9.8]), np.array([1.0, 0.5, 0.0, 0.1]))),
    "HMM forward": (hmm, (DRAW.normal(size=(4, 4)), DRAW.normal(size=(300, 4)))),
    "Kalman 2x2": (kalman, (np.array([[1.0, 0.1], [0.0, 0.9]]), NOISE)),
    "GRU cell": (gru, (DRAW.normal(size=(3, 4, 8)) / 2, DRAW.normal(size=(100, 4)))),
    "Newton 1e4": (newton, (np.array(0.5), np.linspace(1.0, 9.0, 10_000))),
    "Lorenz by Euler": (lorenz, LORENZ),
}


def candidates(f: Program, args: tuple[Any, ...]) -> dict[str, Callable[[], Any]]:
    """Calls of the value and gradient by native code, by NumPy, and by JAX if it is installed."""

    def of(backend: str) -> Callable[[], Any]:
        fg.config.backend = backend
        compiled = fg.jit(fg.value_and_grad(lambda *a: f(np, fg.lax, *a)))
        compiled(*args)
        return lambda: compiled(*args)

    found: dict[str, Callable[[], Any]] = {}
    for backend in ("native", "numpy"):
        found[backend] = of(backend)
    try:
        import jax
    except ImportError:
        return found
    jax.config.update("jax_enable_x64", True)
    given = [jax.numpy.asarray(x) for x in args]
    theirs = jax.jit(jax.value_and_grad(lambda *a: f(jax.numpy, jax.lax, *a)))
    found["JAX"] = lambda: jax.block_until_ready(theirs(*given))
    return found


def chosen(name: str) -> None:
    """Sets the backend of a candidate."""
    fg.config.backend = name if name in ("auto", "native") else "numpy"


def least(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """The least CPU time of one call of each, in microseconds."""
    repeats, turns, best = {}, {}, dict.fromkeys(calls, np.inf)
    for name, call in calls.items():
        chosen(name)
        call()
        start = time.process_time()
        call()
        once = max(time.process_time() - start, 1e-6)
        repeats[name] = max(1, int(BURST / once))
        turns[name] = min(ROUNDS, max(LEAST, int(BUDGET / once)))
    for turn in range(ROUNDS):
        for name, call in calls.items():
            if turn >= turns[name]:
                continue
            chosen(name)
            call()
            start = time.process_time()
            for _ in range(repeats[name]):
                call()
            spent = (time.process_time() - start) / repeats[name]
            best[name] = min(best[name], spent * 1e6)
    return best


def main() -> None:
    """Prints the table."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    words = sys.argv[1:]
    print(f"{'us':>16} {'':8} {'native':>9} {'numpy':>10} {'JAX':>9} {'/numpy':>7} {'/JAX':>6}")
    for name, (f, args) in CASES.items():
        if words and not any(word in name for word in words):
            continue
        for dtype in (np.float64, np.float32):
            given = tuple([np.asarray(x, dtype) for x in args])
            calls = candidates(f, given)
            values = []
            for candidate, call in calls.items():
                chosen(candidate)
                values.append(float(np.asarray(call()[0])))
            us = least(calls)
            theirs = us.get("JAX", np.nan)
            print(
                f"{name:>16} {np.dtype(dtype).name:8} {us['native']:9.1f} "
                f"{us.get('numpy', np.nan):10.1f} {theirs:9.1f} "
                f"{us['native'] / us.get('numpy', np.nan):7.3f} {us['native'] / theirs:6.3f}  "
                f"{values[0]:.8g} {values[-1]:.8g}",
                flush=True,
            )


if __name__ == "__main__":
    main()
