"""The Hessian of Rosenbrock's function against peers: `python -m benchmarks.hessian`.

100 variables. Peers that are not installed are left out. Times are medians of one interleaved run;
every result is compared with the Hessian written by hand.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks.cases.elementwise import rosenbrock, rosenbrock_hessian_by_hand
from benchmarks.timing import interleaved, table


def candidates(x: Any) -> dict[str, Callable[[], Any]]:
    """One call of the Hessian in each library that is installed."""
    eager = fg.hessian(rosenbrock(np))
    staged = fg.jit(eager)
    result: dict[str, Callable[[], Any]] = {
        "fungrad jit": lambda: staged(x),
        "fungrad eager": lambda: eager(x),
    }
    if importlib.util.find_spec("autograd"):
        import autograd
        import autograd.numpy as anp

        peer = autograd.hessian(rosenbrock(anp))
        result["autograd"] = lambda: peer(x)
    if importlib.util.find_spec("jax"):
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        jax_hessian = jax.jit(jax.hessian(rosenbrock(jnp)))
        result["JAX jit"] = lambda: jax_hessian(x).block_until_ready()
    return result


def main() -> None:
    """Prints the table."""
    x = np.linspace(-1.2, 1.2, 100)
    calls = candidates(x)
    expected = rosenbrock_hessian_by_hand(x)
    for name, call in calls.items():
        np.testing.assert_allclose(
            np.asarray(call()),
            expected,
            rtol=1e-12,
            atol=1e-12 * np.abs(expected).max(),
            err_msg=name,
        )
    print(table("Hessian of rosenbrock, 100 doubles", interleaved(calls), "fungrad jit"))


if __name__ == "__main__":
    main()
