"""Gradient descent with momentum, RMSProp and Adam, of trees of arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.compat.autograd.misc.flatten import flatten

Gradient = Callable[[Any, int], Any]
Callback = Callable[[Any, int, Any], Any] | None


def unflatten_optimizer(optimize: Callable[..., Any]) -> Callable[..., Any]:
    """An optimiser of trees, from one of vectors.

    Args:
      optimize: `optimize(grad, x0, callback, ...)`, where `grad(x, i)` is the gradient at step i
        and `callback(x, i, gradient)` is called before each step.
    """

    @functools.wraps(optimize)
    def of_trees(
        grad: Gradient, x0: Any, callback: Callback = None, *args: Any, **kwargs: Any
    ) -> Any:
        start, unflatten = flatten(x0)

        def gradient(x: Any, i: int) -> Any:
            return flatten(grad(unflatten(x), i))[0]

        def report(x: Any, i: int, g: Any) -> Any:
            assert callback is not None
            return callback(unflatten(x), i, unflatten(g))

        told = None if callback is None else report
        return unflatten(optimize(gradient, start, told, *args, **kwargs))

    return of_trees


def _descend(
    grad: Gradient, x: Any, callback: Callback, count: int, step: Callable[[int, Any], Any]
) -> Any:
    """The point after `num_iters` steps; each depends on its number and gradient."""
    for i in range(count):
        g = grad(x, i)
        if callback:
            callback(x, i, g)
        x = x + step(i, g)
    return x


@unflatten_optimizer
def sgd(
    grad: Gradient,
    x: Any,
    callback: Callback = None,
    num_iters: int = 200,
    step_size: float = 0.1,
    mass: float = 0.9,
) -> Any:
    """Gradient descent with momentum.

    Args:
      grad: `grad(x, i)`, the gradient at step i.
      x: the start, a tree of arrays.
      callback: called with (x, i, gradient) before each step.
      num_iters: the number of steps.
      step_size: the length of a step, in units of the velocity.
      mass: the share of the velocity that is kept; the rest comes from the gradient.

    >>> round(float(sgd(lambda x, i: 2.0 * (x - 1.0), 0.0)), 3)
    1.0
    """
    velocity = np.zeros(len(x))

    def step(i: int, g: Any) -> Any:
        nonlocal velocity
        velocity = mass * velocity - (1.0 - mass) * g
        return step_size * velocity

    return _descend(grad, x, callback, num_iters, step)


@unflatten_optimizer
def rmsprop(
    grad: Gradient,
    x: Any,
    callback: Callback = None,
    num_iters: int = 100,
    step_size: float = 0.1,
    gamma: float = 0.9,
    eps: float = 1e-8,
) -> Any:
    """RMSProp: steps divided by the root of a running mean of squared gradients.

    Args:
      grad, x, callback, num_iters, step_size: as of `sgd`.
      gamma: the share of the mean that is kept in a step.
      eps: the number added to the root.

    >>> round(float(rmsprop(lambda x, i: 2.0 * (x - 1.0), 0.0, step_size=0.05)), 2)
    1.0
    """
    mean = np.ones(len(x))

    def step(i: int, g: Any) -> Any:
        nonlocal mean
        mean = gamma * mean + (1.0 - gamma) * g**2
        return -step_size * g / (np.sqrt(mean) + eps)

    return _descend(grad, x, callback, num_iters, step)


@unflatten_optimizer
def adam(
    grad: Gradient,
    x: Any,
    callback: Callback = None,
    num_iters: int = 100,
    step_size: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> Any:
    """Adam (Kingma and Ba, ICLR 2015, algorithm 1).

    Args:
      grad, x, callback, num_iters, step_size: as of `sgd`.
      b1, b2: the shares of the means of gradients and of their squares that are kept in a step.
      eps: the number added to the root.

    >>> round(float(adam(lambda x, i: 2.0 * (x - 1.0), 0.0, num_iters=500, step_size=0.05)), 2)
    1.0
    """
    first, second = np.zeros(len(x)), np.zeros(len(x))

    def step(i: int, g: Any) -> Any:
        nonlocal first, second
        first = b1 * first + (1.0 - b1) * g
        second = b2 * second + (1.0 - b2) * g**2
        mean, square = first / (1.0 - b1 ** (i + 1)), second / (1.0 - b2 ** (i + 1))
        return -step_size * mean / (np.sqrt(square) + eps)

    return _descend(grad, x, callback, num_iters, step)


__all__ = ["adam", "rmsprop", "sgd", "unflatten_optimizer"]
