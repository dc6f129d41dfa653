"""Loops in Python beside the same loops as scans: `python -m benchmarks.python_loops`.

Each of 12 functions gets its loop as an argument: Python's, or `lax.scan`. Compiled gradients run
in turns; times are minima of CPU time, in microseconds, and the CPU time of the first call, in
seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import fungrad as fg
from fungrad import lax
from fungrad.compiler.cost_model import costs
from fungrad.tree_util import tree_leaves

Step = Callable[[Any, Any], tuple[Any, Any]]
Loop = Callable[[Step, Any, Any, int], tuple[Any, Any]]
ROUNDS = 40
RNG = np.random.default_rng(0)


def scanned(step: Step, start: Any, xs: Any, length: int) -> tuple[Any, Any]:
    """The loop as a scan."""
    return lax.scan(step, start, xs, length=length)


def python(step: Step, start: Any, xs: Any, length: int) -> tuple[Any, Any]:
    """The loop in Python; results of the steps are stacked."""
    carry, found = start, []
    for i in range(length):
        carry, y = step(carry, None if xs is None else xs[i])
        found.append(y)
    return carry, None if found[0] is None else np.stack(found)


class Case(NamedTuple):
    """A function of a loop and arrays, and its arguments."""

    f: Callable[..., Any]
    args: Sequence[Any]


def euler(loop: Loop, y: Any, v: Any) -> Any:
    """A pendulum, 1,000 explicit steps of two numbers."""

    def step(state: Any, _: Any) -> Any:
        y, v = state
        return (y + 0.01 * v, v - 0.01 * np.sin(y)), None

    return loop(step, (y, v), None, 1_000)[0][0]


def driven(loop: Loop, u: Any, a: Any) -> Any:
    """A relaxation driven by an array of 500 numbers."""

    def step(x: Any, u: Any) -> Any:
        return x + 0.1 * (np.tanh(u) - a * x), None

    return loop(step, a * 0.0, u, len(u))[0]


def rnn(loop: Loop, w: Any, v: Any, xs: Any) -> Any:
    """200 steps of a recurrent network of 16 units."""

    def step(h: Any, x: Any) -> Any:
        return np.tanh(w @ h + v @ x), None

    return np.sum(loop(step, np.zeros(16), xs, len(xs))[0] ** 2)


def pendulum(loop: Loop, y: Any, g: Any) -> Any:
    """300 Runge-Kutta steps of a pendulum with friction."""

    def f(y: Any) -> Any:
        return np.stack([y[1], -g * np.sin(y[0]) - 0.1 * y[1]])

    def step(y: Any, _: Any) -> Any:
        k1 = f(y)
        k2 = f(y + 0.005 * k1)
        k3 = f(y + 0.005 * k2)
        k4 = f(y + 0.01 * k3)
        return y + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return loop(step, y, None, 300)[0][0]


def trajectory(loop: Loop, y: Any, target: Any) -> Any:
    """400 states, compared with data."""

    def step(y: Any, _: Any) -> Any:
        y = 0.99 * y + 0.01 * np.sin(y)
        return y, y

    if loop is python:  # as people write it
        out = np.zeros(len(target))
        for i in range(len(target)):
            y, out[i] = step(y, None)
    else:
        _, out = loop(step, y, None, len(target))
    return np.sum((out - target) ** 2)


def newton(loop: Loop, e: Any, times: Any) -> Any:
    """Kepler's equation at 100 times, five Newton steps each."""

    def solve(total: Any, mean: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            return x - (x - e * np.sin(x) - mean) / (1 - e * np.cos(x)), None

        return total + np.cos(loop(step, mean, None, 5)[0]), None

    return loop(solve, e * 0.0, times, len(times))[0]


def adam(loop: Loop, rate: Any, start: Any, x: Any, y: Any) -> Any:
    """50 steps of Adam on a fit, and the gradient through them."""

    def loss(p: Any) -> Any:
        return np.mean((np.tanh(x @ p) - y) ** 2)

    def step(state: Any, _: Any) -> Any:
        p, m, v = state
        g = fg.grad(loss)(p)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return (p - rate * m / (np.sqrt(v) + 1e-8), m, v), None

    zeros = np.zeros_like(start)
    return loss(loop(step, (start, zeros, zeros), None, 50)[0][0])


def kalman(loop: Loop, a: Any, q: Any, ys: Any) -> Any:
    """The likelihood of a Kalman filter of 4 states, 200 observations."""

    def step(state: Any, y: Any) -> Any:
        m, p, total = state
        m, p = a @ m, a @ p @ a.T + q
        s = p[0, 0] + 0.1
        k, r = p[:, 0] / s, y - m[0]
        return (m + k * r, p - np.outer(k, p[0]), total + np.log(s) + r * r / s), None

    return loop(step, (np.zeros(4), np.eye(4), 0.0 * q[0, 0]), ys, len(ys))[0][2]


def hidden_markov(loop: Loop, transition: Any, emission: Any) -> Any:
    """The forward algorithm, 8 states, 500 observations."""

    def step(state: Any, e: Any) -> Any:
        alpha, total = state
        alpha = (alpha @ transition) * e
        scale = np.sum(alpha)
        return (alpha / scale, total + np.log(scale)), None

    return loop(step, (np.ones(8) / 8, 0.0 * transition[0, 0]), emission, len(emission))[0][1]


def diffusion(loop: Loop, u: Any, k: Any) -> Any:
    """150 steps of diffusion on a ring of 200 points."""

    def step(u: Any, _: Any) -> Any:
        return u + k * (np.roll(u, 1) - 2 * u + np.roll(u, -1)), None

    return np.sum(loop(step, u, None, 150)[0] ** 2)


def garch(loop: Loop, p: Any, r: Any) -> Any:
    """The likelihood of a GARCH(1, 1) process, 1,000 returns, parameters in one vector."""

    def step(state: Any, r: Any) -> Any:
        h, total = state
        return (p[0] + p[1] * r * r + p[2] * h, total + np.log(h) + r * r / h), None

    return loop(step, (p[0] / (1 - p[1] - p[2]), p[0] * 0.0), r, len(r))[0][1]


def small_system(loop: Loop, a: Any, x: Any) -> Any:
    """200 Euler steps of x' = tanh(a x), 4 states."""

    def step(x: Any, _: Any) -> Any:
        return x + 0.01 * np.tanh(a @ x), None

    return np.sum(loop(step, x, None, 200)[0])


def _positive(*shape: int) -> Any:
    return 0.5 + RNG.random(shape)


CASES: Mapping[str, Case] = {
    "Euler, two numbers, 1,000": Case(euler, (1.0, 0.5)),
    "driven by an array, 500": Case(driven, (RNG.normal(size=500), 0.3)),
    "RNN of 16, 200": Case(
        rnn, (RNG.normal(size=(16, 16)) / 5, RNG.normal(size=(16, 8)), RNG.normal(size=(200, 8)))
    ),
    "Runge-Kutta pendulum, 300": Case(pendulum, (np.array([1.0, 0.0]), 9.81)),
    "written trajectory, 400": Case(trajectory, (1.0, RNG.normal(size=400))),
    "100 Newton solves of 5": Case(newton, (0.3, np.linspace(0.1, 6.0, 100))),
    "50 steps of Adam": Case(
        adam, (0.1, RNG.normal(size=5), RNG.normal(size=(30, 5)), RNG.normal(size=30))
    ),
    "Kalman filter of 4, 200": Case(
        kalman,
        (np.eye(4) * 0.9 + 0.02 * RNG.normal(size=(4, 4)), np.eye(4) * 0.1, RNG.normal(size=200)),
    ),
    "HMM of 8, 500": Case(hidden_markov, (_positive(8, 8) / 8, _positive(500, 8))),
    "diffusion, 200 points, 150": Case(diffusion, (RNG.normal(size=200), 0.1)),
    "GARCH, 1,000": Case(garch, (np.array([0.1, 0.1, 0.8]), RNG.normal(size=1_000))),
    "tanh(a x) of 4, 200": Case(small_system, (RNG.normal(size=(4, 4)), RNG.normal(size=4))),
}


class Result(NamedTuple):
    """Microseconds of a call and seconds of the first, of the Python loop and of the scan; the
    largest relative difference of the gradients.
    """

    call: tuple[float, float]
    first: tuple[float, float]
    difference: float


def gradient(case: Case, loop: Loop) -> Callable[..., Any]:
    """The compiled gradient by all arguments."""

    def f(*args: Any) -> Any:
        return case.f(loop, *args)

    return fg.jit(fg.grad(f, tuple(range(len(case.args)))))


def measured(case: Case) -> Result:
    """The times of a case."""
    functions = [gradient(case, loop) for loop in (python, scanned)]
    first, values = [], []
    for f in functions:
        start = time.process_time()
        values.append([np.asarray(v) for v in tree_leaves(f(*case.args))])
        first.append(time.process_time() - start)
    best = [np.inf, np.inf]
    for _ in range(ROUNDS):
        for n, f in enumerate(functions):
            start = time.process_time()
            for _ in range(5):
                f(*case.args)
            best[n] = min(best[n], (time.process_time() - start) / 5)
    difference = max(float(np.max(np.abs(a - b)) / (np.max(np.abs(b)) or 1.0))
                     for a, b in zip(*values, strict=True))  # fmt: skip
    return Result((best[0] * 1e6, best[1] * 1e6), (first[0], first[1]), difference)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of the cases to run")
    parser.add_argument("--unrolled", action="store_true", help="without re-rolling")
    options = parser.parse_args()
    if options.unrolled:
        costs.rerolled_equations = 1 << 60
    fg.jit(fg.grad(lambda x: np.sum(np.sin(x))))(np.ones(1_000))  # the process's first build
    worst = 0.0
    print("| loop | Python, us | scan, us | ratio | first call, s | scan's, s | difference |")
    print("|---|---|---|---|---|---|---|")
    for name, case in CASES.items():
        if options.only in name:
            call, first, difference = measured(case)
            worst = max(worst, call[0] / call[1])
            print(f"| {name} | {call[0]:.1f} | {call[1]:.1f} | {call[0] / call[1]:.2f} | "
                  f"{first[0]:.2f} | {first[1]:.2f} | {difference:.0e} |", flush=True)  # fmt: skip
    print(f"worst ratio {worst:.2f}")


if __name__ == "__main__":
    main()
