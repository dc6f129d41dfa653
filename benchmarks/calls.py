"""What a call of a small compiled function costs, by the form of the call, beside JAX's:
`python -m benchmarks.calls`.

The functions multiply or add arrays of 4 numbers. JAX gets its own arrays. Times are minima of CPU
time of one interleaved run, in microseconds.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import fungrad as fg

ROUNDS = 25
REPEATS = 1_000
COUNT = 100
"""The most arguments."""


def forms(jit: Callable[..., Any], grad: Callable[..., Any], x: Any) -> dict[str, Any]:
    """A call in each form, of functions that a library compiles."""
    product = jit(lambda x, y: x * y + x)
    power = jit(lambda x, n: x**n, static_argnums=1)
    named = jit(lambda x, mode="double": x + x, static_argnames="mode")
    shaped = jit(lambda x, y, shape: (x * y).reshape(shape), static_argnames="shape")
    of_tree = jit(lambda p: p["a"] * p["b"])
    gradient = jit(grad(lambda p: (p["a"] * p["b"]).sum()))
    total = jit(lambda *args: sum(args))
    of_list = jit(lambda numbers: sum(numbers))
    tree, many = {"a": x, "b": x}, [x] * COUNT
    return {
        "two positions": lambda: product(x, x),
        "one keyword": lambda: product(x, y=x),
        "two keywords": lambda: product(x=x, y=x),
        "static number": lambda: power(x, 2),
        "static word": lambda: named(x, mode="double"),
        "static default": lambda: named(x),
        "static shape, two keywords": lambda: shaped(x, y=x, shape=(2, 2)),
        "dict of two": lambda: of_tree(tree),
        "gradient by a dict of two": lambda: gradient(tree),
        f"{COUNT} arguments": lambda: total(*many),
        f"list of {COUNT}": lambda: of_list(many),
    }


def least(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """The least CPU time of one call of each, in microseconds."""
    best = dict.fromkeys(calls, np.inf)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()
            start = time.process_time()
            for _ in range(REPEATS):
                call()
            best[name] = min(best[name], (time.process_time() - start) / REPEATS * 1e6)
    return best


def main() -> None:
    """Prints the table."""
    x = np.linspace(0.0, 1.0, 4)
    ours, theirs = least(forms(fg.jit, fg.grad, x)), {}
    if importlib.util.find_spec("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
        theirs = least(forms(jax.jit, jax.grad, jax.numpy.asarray(x)))
    print("| call | fungrad, us | JAX, us | ratio |\n|---|---|---|---|")
    for name, us in ours.items():
        other = theirs.get(name, np.nan)
        print(f"| {name} | {us:.2f} | {other:.2f} | {us / other:.2f} |")


if __name__ == "__main__":
    main()
