"""The words of fungrad that the evals use, said with HIPS autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import autograd
import autograd.numpy as np
from autograd.extend import Box, primitive

stopped = primitive(lambda x: x)
autograd.extend.defvjp(stopped, None)
autograd.extend.defjvp(stopped, None)


def jit(f: Callable[..., Any], static_argnums: Any = None) -> Callable[..., Any]:
    """There is none: f itself."""
    return f


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """autograd's, whose derivative runs f again."""
    return f


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The gradient."""
    return autograd.grad(f, argnums)


def vjp(f: Callable[..., Any], x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """A pullback of a function of one array that returns a tuple of arrays."""
    pull, value = autograd.make_vjp(lambda x: np.stack(f(x)))(x)
    return value, lambda cotangents: (pull(np.stack(cotangents)),)


def jvp(f: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    """By the pullback of the pullback: of the gradients here, too, a forward mode is missing."""
    (x,), (t,) = primals, tangents
    pull, value = autograd.make_vjp(f)(x)
    second, _ = autograd.make_vjp(pull)(np.zeros_like(value))
    return value, second(t)


class lax:
    """Control flow: Python's."""

    @staticmethod
    def stop_gradient(x: Any) -> Any:
        """The value alone."""
        while isinstance(x, Box):
            x = x._value
        return x

    @staticmethod
    def scan(f: Any, init: Any, xs: Any, length: int | None = None) -> tuple[Any, Any]:
        """A loop."""
        parts = xs if isinstance(xs, tuple) else (xs,)
        count = length if xs is None else len(parts[0])
        carry, ys = init, []
        for i in range(count or 0):
            row = tuple(part[i] for part in parts if part is not None)
            x = None if xs is None else row if isinstance(xs, tuple) else row[0]
            carry, y = f(carry, x)
            ys.append(y)
        return carry, None if not ys or ys[0] is None else np.stack(ys)


jacfwd = grad
