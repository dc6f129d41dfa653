"""Blocked fusion against NumPy's own ufuncs, hand-written gradients and jitted JAX.

`python -m benchmarks.fusion`. The function is a chain of 20 elementwise operations and a sum; its
gradient is also written by hand. Ratios of medians of one interleaved run.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks.cases.elementwise import chain, chain_by_hand
from benchmarks.timing import interleaved, table
from fungrad.runtime import thread_pool


def main() -> None:
    """Prints a table for each size."""
    gradient = fg.grad(chain(np))
    jitted = fg.jit(gradient)
    peer: Any = None
    if importlib.util.find_spec("jax"):
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        peer = jax.jit(jax.grad(chain(jnp)))
    for size in (10, 1_000, 10_000, 200_000, 2_000_000):
        x = np.random.default_rng(0).uniform(size=size)
        np.testing.assert_allclose(jitted(x), chain_by_hand(x), rtol=1e-10)
        calls: dict[str, Callable[[], Any]] = {
            "written by hand": lambda x=x: chain_by_hand(x),
            "fungrad eager": lambda x=x: gradient(x),
            "fungrad jit": lambda x=x: jitted(x),
        }
        if peer is not None:
            calls["JAX jit"] = lambda x=x: np.asarray(peer(x))
        times = interleaved(calls, rounds=15)
        print(
            table(f"{size} doubles, {thread_pool.num_threads()} threads", times, "written by hand")
        )


if __name__ == "__main__":
    main()
