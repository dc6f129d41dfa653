"""The cost of a gradient in evaluations of the function: `python -m benchmarks.grad_cost`.

The cheap gradient principle promises a constant; the slope of a line through (cost of f, cost of
its gradient) is that constant without the overhead of a call. Two kinds of growth: more equations
on small arrays (eager and jit), and larger arrays. Times are medians of one interleaved run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks.timing import interleaved


def chain(steps: int) -> Callable[[Any], Any]:
    """A function of 5 * steps elementwise operations and a sum."""

    def f(x: Any) -> Any:
        for _ in range(steps):
            x = np.tanh(np.sin(x) * 1.01) + 0.1 * x
        return np.sum(x)

    return f


def network(x: Any, w: Any) -> Any:
    """Dense layers: products of matrices, whose gradients cost two products each."""
    for _ in range(4):
        x = np.tanh(x @ w)
    return np.sum(x * x)


Case = tuple[str, int, Callable[[], Any], Callable[[], Any]]


def measure(title: str, cases: Sequence[Case]) -> float:
    """Prints the costs of some sizes; returns the slope of the line through them."""
    calls: dict[str, Callable[[], Any]] = {}
    for name, size, f, gradient in cases:
        calls[f"{name} f {size}"] = f
        calls[f"{name} g {size}"] = gradient
    times = interleaved(calls, rounds=20)
    print(title)
    print(f"  {'size':>10}{'f, us':>12}{'grad, us':>12}{'ratio':>8}")
    plain, graded = [], []
    for name, size, _, _ in cases:
        plain.append(times[f"{name} f {size}"])
        graded.append(times[f"{name} g {size}"])
        ratio = graded[-1] / plain[-1]
        print(f"  {size:10}{plain[-1] * 1e6:12.1f}{graded[-1] * 1e6:12.1f}{ratio:8.2f}")
    slope = float(np.polyfit(plain, graded, 1)[0])
    print(f"  slope: one gradient costs {slope:.2f} evaluations of f\n")
    return slope


def main() -> None:
    """Prints the tables."""
    x = np.linspace(0.1, 0.9, 1000)
    lengths = (10, 40, 160)

    def eager(steps: int) -> Case:
        f, g = chain(steps), fg.grad(chain(steps))
        return "eager", steps, lambda: f(x), lambda: g(x)

    def staged(steps: int) -> Case:
        f, g = fg.jit(chain(steps)), fg.jit(fg.grad(chain(steps)))
        return "jit", steps, lambda: f(x), lambda: g(x)

    def wide(size: int) -> Case:
        f, g, v = chain(10), fg.grad(chain(10)), np.linspace(0.1, 0.9, size)
        return "wide", size, lambda: f(v), lambda: g(v)

    def dense(size: int) -> Case:
        x, w = np.random.default_rng(0).normal(size=(2, size, size)) / size**0.5
        g = fg.grad(network, argnums=(0, 1))
        return "dense", size, lambda: network(x, w), lambda: g(x, w)

    measure("longer chains on 1000 doubles, eager", [eager(n) for n in lengths])
    measure("longer chains on 1000 doubles, jit of both", [staged(n) for n in lengths])
    measure("a chain of 50 operations on longer arrays", [wide(n) for n in (1000, 10_000, 100_000)])
    measure("matrix products of growing size", [dense(n) for n in (20, 80, 240)])


if __name__ == "__main__":
    main()
