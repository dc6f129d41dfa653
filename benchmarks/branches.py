"""The cost of a branch on a value in a compiled function: `python -m benchmarks.branches`.

Each function is called as it is, compiled for its path without the questions, and compiled with
`branches="guard"`. Times are medians of one interleaved run.
"""

from __future__ import annotations

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


def main() -> None:
    """Prints the tables."""
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
