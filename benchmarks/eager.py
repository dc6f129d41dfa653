"""Eager gradients against autograd, eager JAX and eager PyTorch: `python -m benchmarks.eager`.

The chain is 100 elementwise operations (sin, times, tanh, plus, exp, twenty times over) on 10
doubles, and a sum. Peers that are not installed are left out. Times are medians of one interleaved
run.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks.timing import interleaved, table

os.environ.setdefault("OMP_NUM_THREADS", "1")


def chain(library: Any) -> Callable[[Any], Any]:
    """The function, written with a library's own sin, tanh, exp and sum."""

    def f(x: Any) -> Any:
        for _ in range(20):
            x = library.sin(x)
            x = x * 1.01
            x = library.tanh(x)
            x = x + 0.1
            x = library.exp(x)
        return library.sum(x)

    return f


def quadratic(library: Any) -> Callable[[Any], Any]:
    """A tiny function, whose gradient is all overhead."""
    return lambda x: x**2 + x


def candidates(make: Callable[[Any], Callable[[Any], Any]], x: Any) -> dict[str, Callable[[], Any]]:
    """One call of the gradient in each library that is installed."""
    gradient = fg.grad(make(np))
    result: dict[str, Callable[[], Any]] = {"fungrad": lambda: gradient(x)}
    if importlib.util.find_spec("autograd"):
        import autograd
        import autograd.numpy as anp

        peer = autograd.grad(make(anp))
        result["autograd"] = lambda: peer(x)
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        f = make(torch)

        def torch_gradient() -> Any:
            t = torch.tensor(x, requires_grad=True)
            f(t).backward()
            return t.grad

        result["PyTorch eager"] = torch_gradient
    if importlib.util.find_spec("jax"):
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        jax_gradient = jax.grad(make(jnp))
        result["JAX eager"] = lambda: jax_gradient(x).block_until_ready()
    return result


def main() -> None:
    """Prints the tables."""
    x = np.linspace(0.1, 0.9, 10)
    cases: list[tuple[str, Any, Any]] = [
        ("gradient of a chain of 100 operations, 10 doubles", chain, x),
        ("gradient of x**2 + x, one double", quadratic, np.float64(2.0)),
    ]
    for title, make, argument in cases:
        calls = candidates(make, argument)
        reference = np.asarray(calls["fungrad"]())
        for name, call in calls.items():
            np.testing.assert_allclose(np.asarray(call()), reference, rtol=1e-12, err_msg=name)
        print(table(title, interleaved(calls), "fungrad"))
    f = chain(np)
    plain = interleaved({"before": lambda: f(x), "after": lambda: f(x)})
    print(table("the function alone, outside of any transform", plain, "before"))


if __name__ == "__main__":
    main()
