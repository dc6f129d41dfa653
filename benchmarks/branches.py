"""The cost of a branch on a value in a compiled function: `python -m benchmarks.branches`.

Each function is called as it is, compiled for its path without the questions, and compiled with
`branches="guard"`. Times are medians of one interleaved run. The last tables are of branches that
flip at random, beside the same function with `fg.lax.cond` and with `np.where`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks.timing import interleaved, table


def chosen(x: Any) -> Any:
    """One question, of one element."""
    return np.sum(np.tanh(x) ** 2) if x[0] > 0 else np.sum(np.sin(x))


def first(x: Any) -> Any:
    """The same without the question."""
    return np.sum(np.tanh(x) ** 2)


def total(x: Any) -> Any:
    """One question, of a sum of values that are also needed later."""
    y = np.exp(-x) * x
    return np.sum(y * x) if np.sum(y) > 0 else np.sum(y)


def total_first(x: Any) -> Any:
    """The same without the question."""
    return np.sum(np.exp(-x) * x * x)


def steps(x: Any, n: Any) -> Any:
    """A number of steps that is asked for."""
    for i in range(int(n)):
        x = np.sin(x) + 0.1 * i
    return np.sum(x)


def five(x: Any, n: Any) -> Any:
    """Five of them."""
    return steps(x, 5)


def root(x: Any) -> Any:
    """Newton's iteration for a square root: five questions."""
    y = x
    while abs(y * y - x) > 1e-10:
        y = 0.5 * (y + x / y)
    return y


def root_unrolled(x: Any) -> Any:
    """As many steps as it takes for 2."""
    y = x
    for _ in range(4):
        y = 0.5 * (y + x / y)
    return y


def flipping(x: Any) -> Any:
    """Twenty questions of one number, which flip independently."""
    total = 0.0
    for k in range(20):
        v = x * (k - 9.5)
        if np.sin(v * 37.0) > 0.1:
            total = total + v * v
        else:
            total = total - 0.5 * v
    return total


def flipping_cond(x: Any) -> Any:
    """The same with `fg.lax.cond`."""
    total: Any = 0.0
    for k in range(20):
        v = x * (k - 9.5)
        sides = lambda: total + v * v, lambda: total - 0.5 * v  # noqa: B023
        total = fg.lax.cond(np.sin(v * 37.0) > 0.1, *sides)
    return total


def flipping_where(x: Any) -> Any:
    """The same with `np.where`."""
    total = 0.0
    for k in range(20):
        v = x * (k - 9.5)
        total = np.where(np.sin(v * 37.0) > 0.1, total + v * v, total - 0.5 * v)
    return total


CASES: list[tuple[str, Callable[..., Any], Callable[..., Any], Callable[..., tuple[Any, ...]]]] = [
    ("one question of an element", chosen, first, lambda size: (np.linspace(0.1, 1.0, size),)),
    ("one question of a sum", total, total_first, lambda size: (np.linspace(0.1, 1.0, size),)),
    ("a number of steps", steps, five, lambda size: (np.linspace(0.1, 1.0, size), 5)),
    ("five questions of one number", root, root_unrolled, lambda size: (2.0,)),
]
"""The title, the function, the same without questions, and the arguments by their size."""


def candidates(
    f: Callable[..., Any], plain: Callable[..., Any], arguments: tuple[Any, ...]
) -> dict[str, Callable[[], Any]]:
    """One call each."""
    unguarded, guarded = fg.jit(plain), fg.jit(f, branches="guard")
    return {
        "Python": lambda: f(*arguments),
        "jit, no questions": lambda: unguarded(*arguments),
        "jit, guard": lambda: guarded(*arguments),
    }


def flips(transform: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    """One call each, at random numbers, after those that find the branches that flip."""
    numbers = np.random.default_rng(0).uniform(-3.0, 3.0, 256).tolist()
    found = {
        "Python": flipping,
        "jit": fg.jit(transform(flipping)),
        "jit, cond": fg.jit(transform(flipping_cond)),
        "jit, where": fg.jit(transform(flipping_where)),
    }
    for f in found.values():
        for x in numbers[:32]:
            f(x)
    given = itertools.cycle(numbers)
    return {name: lambda f=f: f(next(given)) for name, f in found.items()}


def main() -> None:
    """Prints the tables."""
    for title, transform in (("value", lambda f: f), ("gradient", fg.grad)):
        calls = flips(transform)
        print(table(f"twenty branches that flip, {title}", interleaved(calls), "jit, cond"))
    for size in (10, 1_000, 100_000):
        for title, f, plain, arguments in CASES:
            given = arguments(size)
            if size > 10 and np.ndim(given[0]) == 0:
                continue
            calls = candidates(f, plain, given)
            print(table(f"{title}, {size} doubles", interleaved(calls), "jit, no questions"))
            if np.ndim(given[0]):
                slopes = candidates(fg.grad(f), fg.grad(plain), given)
                title = f"  its gradient, {size} doubles"
                print(table(title, interleaved(slopes), "jit, no questions"))


if __name__ == "__main__":
    main()
