"""Floor 8: autograd's checks of derivatives, made by `fungrad.testing`.

That is loaded when one runs.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad import trees

TOL = RTOL = 1e-6


def scalar_close(a: float, b: float) -> bool:
    """Whether two numbers agree to a relative or an absolute 1e-6."""
    return bool(abs(a - b) < TOL or abs(a - b) / abs(a + b) < RTOL)


def check_equivalent(x: Any, y: Any) -> None:
    """Raises where two trees of arrays differ in structure, shape, or by more than 1e-6.

    >>> check_equivalent([1.0, 2.0], [1.0, 2.0 + 1e-9])
    """
    pairs = zip(trees.leaves(x), trees.match(trees.structure(x), y, "second value"), strict=True)
    for a, b in pairs:
        assert np.shape(a) == np.shape(b), f"shapes {np.shape(a)} and {np.shape(b)}"
        np.testing.assert_allclose(a, b, rtol=RTOL, atol=TOL)


def check_grads(
    f: Callable[..., Any], modes: Sequence[str] = ("fwd", "rev"), order: int = 2
) -> Callable[..., None]:
    """A function with f's arguments that compares f's derivatives there with differences.

    Args:
      f: a function of arrays, or trees of them.
      modes: "fwd", "rev" or both.
      order: how often to differentiate.

    Raises:
      GradientCheckError: when the function that is returned finds a wrong derivative.

    >>> check_grads(lambda x: x**3)(2.0)
    """

    def check(*args: Any, **kwargs: Any) -> None:
        testing = importlib.import_module("fungrad.testing")
        testing.check_grads(lambda *xs: f(*xs, **kwargs), args, order=order, modes=modes)

    return check


def check_vjp(f: Callable[[Any], Any], x: Any) -> None:
    """Compares the first derivative of f at x in reverse mode with differences."""
    check_grads(f, ("rev",), 1)(x)


def check_jvp(f: Callable[[Any], Any], x: Any) -> None:
    """Compares the first derivative of f at x in forward mode with differences."""
    check_grads(f, ("fwd",), 1)(x)


def combo_check(
    fun: Callable[..., Any],
    argnums: Sequence[int],
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
) -> Callable[..., None]:
    """`check_grads` by some arguments, for each combination of arguments out of lists of them.

    >>> combo_check(lambda x, y: x * y, [0])([1.0, 2.0], [3.0])
    """

    def check(*args: Sequence[Any], **kwargs: Sequence[Any]) -> None:
        for values in itertools.product(*args, *kwargs.values()):
            named = dict(zip(kwargs, values[len(args) :], strict=True))
            given = list(values[: len(args)])

            def f(*xs: Any, given: Any = given, named: Any = named) -> Any:
                new = list(given)
                for i, x in zip(argnums, xs, strict=True):
                    new[i] = x
                return fun(*new, **named)

            check_grads(f, modes, order)(*[given[i] for i in argnums])

    return check


__all__ = [
    "check_equivalent", "check_grads", "check_jvp", "check_vjp", "combo_check", "scalar_close",
]  # fmt: skip
