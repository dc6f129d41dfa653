"""fungrad.random against NumPy's generators and JAX: a million numbers, and one of each of many
keys.

`python -m benchmarks.random_numbers`. NumPy's default generator (PCG64) and the one over Philox;
jitted JAX where it is installed. Ratios of medians of one interleaved run.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks.timing import interleaved, table

SIZE = 1_000_000
KEYS = 10_000
KEY = fg.random.key(0)
DRAWS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[np.random.Generator], Any]]] = {
    "uniform": (lambda r, k: r.uniform(k, (SIZE,)), lambda g: g.random(SIZE)),
    "normal": (lambda r, k: r.normal(k, (SIZE,)), lambda g: g.standard_normal(SIZE)),
    "exponential": (lambda r, k: r.exponential(k, (SIZE,)), lambda g: g.standard_exponential(SIZE)),
    "gamma": (lambda r, k: r.gamma(k, 3.0, (SIZE,)), lambda g: g.standard_gamma(3.0, SIZE)),
    "poisson": (lambda r, k: r.poisson(k, 15.0, (SIZE,)), lambda g: g.poisson(15.0, SIZE)),
    "randint": (lambda r, k: r.randint(k, (SIZE,), 0, 1000), lambda g: g.integers(0, 1000, SIZE)),
    "permutation": (lambda r, k: r.permutation(k, SIZE), lambda g: g.permutation(SIZE)),
}


def main() -> None:
    """Prints a table for each kind of number."""
    peer: Any = None
    if importlib.util.find_spec("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_default_prng_impl", "threefry2x32")
        peer = jax
    default, philox = np.random.default_rng(0), np.random.Generator(np.random.Philox(0))
    for name, (ours, theirs) in DRAWS.items():
        candidates: dict[str, Callable[[], Any]] = {
            "NumPy, PCG64": lambda theirs=theirs: theirs(default),
            "NumPy, Philox": lambda theirs=theirs: theirs(philox),
            "fungrad": lambda ours=ours: ours(fg.random, KEY),
        }
        if peer is not None:
            key = peer.random.key(0)
            draw = peer.jit(lambda k, ours=ours: ours(peer.random, k))
            candidates["JAX, jitted"] = lambda draw=draw, key=key: draw(key).block_until_ready()
        print(table(f"{name}, {SIZE} numbers", interleaved(candidates, rounds=12), "NumPy, PCG64"))
    keys = fg.random.split(KEY, KEYS)
    many = {
        "normal": lambda: fg.vmap(fg.random.normal)(keys),
        "gamma": lambda: fg.vmap(lambda k: fg.random.gamma(k, 3.0))(keys),
        "gradient of gamma": lambda: fg.vmap(
            fg.grad(lambda a, k: fg.random.gamma(k, a)), (None, 0)
        )(3.0, keys),
    }
    print(table(f"one number of each of {KEYS} keys", interleaved(many, rounds=12), "normal"))


if __name__ == "__main__":
    main()
