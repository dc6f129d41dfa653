"""Eager gradients against autograd, eager JAX and eager PyTorch: `python -m benchmarks.eager`.

The chain is 100 elementwise operations (sin, times, tanh, plus, exp, twenty times over) on 10
doubles, and a sum. Peers that are not installed are left out. Times are medians of one interleaved
run. Then the gradients of five loops of Python floats, in evaluations of the function: least CPU
times, in turn.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks.timing import interleaved, least_cpu_times, table

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


STEPS = 200


def polynomial(x: float) -> float:
    """Horner's rule, for coefficients that are all 0.5."""
    total = 0.0
    for _ in range(STEPS):
        total = total * x + 0.5
    return total


def logistic_map(x: float) -> float:
    """Steps of a map that is chaotic for larger factors."""
    for _ in range(STEPS):
        x = 3.2 * x * (1.0 - x)
    return x


def pendulum(angle: float) -> float:
    """Symplectic Euler steps of a pendulum."""
    speed = 0.0
    for _ in range(STEPS):
        speed = speed - 0.01 * math.sin(angle)
        angle = angle + 0.01 * speed
    return angle


def nested(x: float) -> float:
    """Functions of math around one another."""
    value = x
    for _ in range(STEPS):
        value = math.log1p(math.sqrt(math.exp(math.cos(value)) + math.pow(x, 1.5)))
    return value


def log_likelihood(x: float) -> float:
    """A sum of logarithms."""
    total = 0.0
    for i in range(STEPS):
        total = total + math.log(math.erf(x + 0.01 * i) + 1.0) - 0.5 * math.tanh(x)
    return total


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
    for loop in (polynomial, logistic_map, pendulum, nested, log_likelihood):
        slope = fg.grad(loop)
        before, after = least_cpu_times([lambda: loop(0.3), lambda: slope(0.3)], 20, 0.01)  # noqa: B023
        print(f"gradient of {loop.__name__}, Python floats: {after / before:.0f} evaluations of it")


if __name__ == "__main__":
    main()
