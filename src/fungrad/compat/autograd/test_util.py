"""Autograd's checks of derivatives, by `fungrad.testing`, which is imported when one runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compat.autograd.wrap_util import Argnum, unary_of
from fungrad.support import pytree
from fungrad.support.lazy import imported

TOL = RTOL = 1e-6


def scalar_close(a: float, b: float) -> bool:
    """Whether two numbers agree to a relative or an absolute 1e-6."""
    return bool(abs(a - b) < TOL or abs(a - b) / abs(a + b) < RTOL)


def check_equivalent(x: Any, y: Any) -> None:
    """Raises where two trees of arrays differ in structure, shape, or by more than 1e-6.

    >>> check_equivalent([1.0, 2.0], [1.0, 2.0 + 1e-9])
    """
    pairs = zip(pytree.leaves(x), pytree.match(pytree.structure(x), y, "second value"), strict=True)
    for a, b in pairs:
        assert np.shape(a) == np.shape(b), f"shapes {np.shape(a)} and {np.shape(b)}"
        np.testing.assert_allclose(a, b, rtol=RTOL, atol=TOL)


def check_grads(
    f: Callable[..., Any],
    argnum: Argnum = 0,
    modes: Sequence[str] = ("fwd", "rev"),
    order: int = 2,
) -> Callable[..., None]:
    """A function with f's arguments that compares f's derivatives there with differences.

    Args:
      f: a function of arrays, or trees of them.
      argnum: the position of the argument to differentiate by, or a sequence of positions.
      modes: "fwd", "rev" or both.
      order: how often to differentiate.

    Raises:
      GradientCheckError: when the function that is returned finds a wrong derivative.

    >>> check_grads(lambda x, y: x**3 * y, (0, 1))(2.0, 3.0)
    """

    def check(*args: Any, **kwargs: Any) -> None:
        testing = imported("fungrad.testing")
        unary, x = unary_of(f, argnum, args, kwargs)
        testing.check_grads(unary, (x,), order=order, modes=modes)

    return check


def check_vjp(f: Callable[[Any], Any], x: Any) -> None:
    """Compares the first derivative of f at x in reverse mode with differences."""
    check_grads(f, modes=("rev",), order=1)(x)


def check_jvp(f: Callable[[Any], Any], x: Any) -> None:
    """Compares the first derivative of f at x in forward mode with differences."""
    check_grads(f, modes=("fwd",), order=1)(x)


def combo_check(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., None]:
    """`check_grads(f, *args, **kwargs)` for each combination from lists of arguments.

    >>> combo_check(lambda x, y: x * y, [0])([1.0, 2.0], [3.0])
    """
    check = check_grads(f, *args, **kwargs)

    def check_all(*lists: Sequence[Any], **named: Sequence[Any]) -> None:
        for values in itertools.product(*lists, *named.values()):
            given, rest = values[: len(lists)], values[len(lists) :]
            check(*given, **dict(zip(named, rest, strict=True)))

    return check_all


__all__ = [
    "check_equivalent", "check_grads", "check_jvp", "check_vjp", "combo_check", "scalar_close",
]  # fmt: skip
