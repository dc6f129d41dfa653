"""Elementwise functions of many doubles, and rosenbrock's in all its derivatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases.case import ELEMENTWISE, Case, normal, uniform

WAVES = 4
STEPS = 4
EAGER = "fungrad eager", "JAX eager", "autograd", "PyTorch"
"""They take seconds for a call, and gigabytes."""


def waves(np: Any, ad: Any) -> Any:
    """The gradient of a chain of sines and cosines."""

    def f(x: Any) -> Any:
        for _ in range(WAVES):
            x = 1.1 * np.sin(x) + np.cos(x)
        return np.sum(x)

    return ad.grad(f)


def waves_by_hand(x: Any) -> Any:
    """What is kept is each step's derivative."""
    slopes = []
    for _ in range(WAVES):
        s, c = np.sin(x), np.cos(x)
        slopes.append(1.1 * c - s)
        x = 1.1 * s + c
    g = slopes.pop()
    for slope in reversed(slopes):
        g *= slope
    return g


def chain(library: Any) -> Callable[[Any], Any]:
    """A sum behind a chain, with a library's tanh, exp, sqrt and sum."""

    def f(x: Any) -> Any:
        for _ in range(STEPS):
            x = library.tanh(x) * 1.01 + 0.1
            x = library.sqrt(library.exp(-x) + 1.0)
        return library.sum(x)

    return f


def chain_by_hand(x: Any) -> Any:
    """The gradient of the chain, as one would write it with NumPy."""
    kept = []
    for _ in range(STEPS):
        t = np.tanh(x)
        e = np.exp(-(t * 1.01 + 0.1))
        x = np.sqrt(e + 1.0)
        kept.append((t, e, x))
    g = np.ones_like(x)
    for t, e, root in reversed(kept):
        g = g / (2.0 * root) * -e * 1.01 * (1.0 - t * t)
    return g


def chain_gradient(np: Any, ad: Any) -> Any:
    """The gradient of the chain."""
    return ad.grad(chain(np))


def tanh_fifth(np: Any, ad: Any) -> Any:
    """The fifth derivative of tanh."""
    return ad.nth_derivative(np.tanh, 5)


def tanh_fifth_by_hand(x: Any) -> Any:
    """A polynomial in tanh."""
    square = np.tanh(x) ** 2
    return (1.0 - square) * (16.0 + square * (120.0 * square - 120.0))


def black_scholes(np: Any, ad: Any) -> Any:
    """The price of European calls, and the derivatives by all five arguments."""

    def price(spot: Any, strike: Any, time: Any, rate: Any, volatility: Any) -> Any:
        def normal_cdf(x: Any) -> Any:
            return 0.5 * (1.0 + ad.erf(x / 2.0**0.5))

        spread = volatility * np.sqrt(time)
        d1 = (np.log(spot / strike) + (rate + volatility**2 / 2.0) * time) / spread
        call = spot * normal_cdf(d1) - strike * np.exp(-rate * time) * normal_cdf(d1 - spread)
        return np.sum(call)

    return ad.value_and_grad(price, (0, 1, 2, 3, 4))


def black_scholes_by_hand(
    spot: Any, strike: Any, time: Any, rate: Any, volatility: Any
) -> tuple[Any, tuple[Any, ...]]:
    """The greeks of the textbooks."""
    from scipy.special import erf  # where it is used: SciPy's import would count in other cases

    root = np.sqrt(time)
    spread = volatility * root
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2.0) * time) / spread
    delta = 0.5 * (1.0 + erf(d1 / np.sqrt(2.0)))
    exercised = 0.5 * (1.0 + erf((d1 - spread) / np.sqrt(2.0)))
    discounted = np.exp(-rate * time) * exercised
    paid = strike * discounted
    density = spot * np.exp(-0.5 * d1**2) / np.sqrt(2.0 * np.pi)
    by_time = density * volatility / (2.0 * root) + rate * paid
    value = np.sum(spot * delta - paid)
    return value, (delta, -discounted, by_time, time * paid, density * root)


def options(count: int) -> tuple[Any, ...]:
    """Spots, strikes, times, rates and volatilities."""
    ranges = ((80, 120), (80, 120), (0.1, 2.0), (0.0, 0.1), (0.1, 0.5))
    return tuple(uniform(count, low=a, high=b, seed=i) for i, (a, b) in enumerate(ranges))


def rosenbrock(library: Any) -> Callable[[Any], Any]:
    """The function, written with a library's own sum."""

    def f(x: Any) -> Any:
        return library.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    return f


def rosenbrock_gradient(np: Any, ad: Any) -> Any:
    """The value and the gradient."""
    return ad.value_and_grad(rosenbrock(np))


def rosenbrock_by_hand(x: Any) -> tuple[Any, Any]:
    """The same."""
    before = x[:-1]
    curve, rest = x[1:] - before**2, 1.0 - before
    g = np.zeros_like(x)
    g[:-1] = -400.0 * before * curve - 2.0 * rest
    g[1:] += 200.0 * curve
    return 100.0 * (curve @ curve) + rest @ rest, g


def rosenbrock_hessian(np: Any, ad: Any) -> Any:
    """The whole matrix."""
    return ad.hessian(rosenbrock(np))


def rosenbrock_hessian_by_hand(x: Any) -> Any:
    """It is tridiagonal."""
    result = np.diag(-400 * x[:-1], 1) + np.diag(-400 * x[:-1], -1)
    diagonal = np.zeros(x.size)
    diagonal[:-1] += 1200 * x[:-1] ** 2 - 400 * x[1:] + 2
    diagonal[1:] += 200
    return result + np.diag(diagonal)


def rosenbrock_hvp(np: Any, ad: Any) -> Any:
    """The matrix times a vector."""
    f = rosenbrock(np)
    return lambda x, v: ad.hvp(f, (x,), (v,))[0]


def rosenbrock_hvp_by_hand(x: Any, v: Any) -> Any:
    """The matrix has three diagonals."""
    before = x[:-1]
    beside = -400.0 * before
    product = np.empty_like(v)
    product[:-1] = (1200.0 * before**2 - 400.0 * x[1:] + 2.0) * v[:-1] + beside * v[1:]
    product[-1] = 0.0
    product[1:] += 200.0 * v[1:] + beside * v[:-1]
    return product


def point(size: int) -> tuple[Any, ...]:
    """One array."""
    return (normal(size),)


def direction(size: int) -> tuple[Any, ...]:
    """A point and a direction."""
    return normal(size), normal(size, seed=1)


def sized(name: str, size: int, *functions: Any, **options: Any) -> Case:
    """A case of one array of `size` doubles."""
    return Case(f"{name} {size:g}", *functions, partial(point, size), partial(point, 7), **options)


CASES = (
    *(sized("rosenbrock", n, rosenbrock_gradient, rosenbrock_by_hand) for n in (10, 1_000)),
    sized("rosenbrock", 1_000_000, rosenbrock_gradient, rosenbrock_by_hand, kind=ELEMENTWISE),
    sized(
        "rosenbrock Hessian",
        100,
        rosenbrock_hessian,
        rosenbrock_hessian_by_hand,
        without=("PyTorch",),
    ),
    Case(
        "rosenbrock Hessian times vector 1e+05",
        rosenbrock_hvp,
        rosenbrock_hvp_by_hand,
        partial(direction, 100_000),
        partial(direction, 7),
        without=("PyTorch",),
    ),
    *(sized("sines", n, waves, waves_by_hand, kind=ELEMENTWISE) for n in (100_000, 1_000_000)),
    sized("sines", 10_000_000, waves, waves_by_hand, kind=ELEMENTWISE, without=EAGER),
    sized("tanh, exp, sqrt", 1_000_000, chain_gradient, chain_by_hand, kind=ELEMENTWISE),
    sized("tanh, 5th derivative", 1_000_000, tanh_fifth, tanh_fifth_by_hand, without=("PyTorch",)),
    *(
        Case(
            f"Black-Scholes greeks {n:g}",
            black_scholes,
            black_scholes_by_hand,
            partial(options, n),
            partial(options, 5),
            kind=ELEMENTWISE,
            large=n > 1_000_000,
            without=EAGER if n > 1_000_000 else (),
        )
        for n in (1_000_000, 10_000_000)
    ),
)
