"""Fixed points of functions with a parameter, differentiated with respect to the parameter.

The cotangent is a fixed point, too: w = g + (df/dx)' w (Christianson, Reverse accumulation and
attractive fixed points, 1994).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fungrad.compat.autograd.differential_operators import make_vjp
from fungrad.compat.autograd.extend import defvjp, primitive
from fungrad.support import pytree


@primitive
def fixed_point(
    f: Callable[[Any], Callable[[Any], Any]],
    a: Any,
    x0: Any,
    distance: Callable[[Any, Any], Any],
    tol: float,
) -> Any:
    """The fixed point of f(a), by iteration.

    Args:
      f: takes a parameter, and returns a function that is a contraction near the fixed point.
      a: the parameter, a tree of arrays; the result is differentiable by it.
      x0: the start of the iteration.
      distance: a function of two points that returns a number.
      tol: the iteration ends when two successive points are closer than this.

    >>> import fungrad.compat.autograd as autograd
    >>> def square_root(a):                             # Heron's method
    ...     return fixed_point(
    ...         lambda a: lambda x: 0.5 * (x + a / x), a, 1.0, lambda x, y: abs(x - y), 1e-12
    ...     )
    >>> round(float(square_root(4.0)), 6), round(float(autograd.grad(square_root)(4.0)), 6)
    (2.0, 0.25)
    """
    step = f(a)
    x, last = step(x0), x0
    while distance(x, last) > tol:
        x, last = step(x), x
    return x


def _cotangent_step(given: Any, f: Any) -> Callable[[Any], Any]:
    a, x, g = given
    pull, _ = make_vjp(lambda x: f(a)(x))(x)
    return lambda w: pytree.map(lambda u, v: u + v, g, pull(w))


def _pullback(ans: Any, f: Any, a: Any, x0: Any, distance: Any, tol: Any) -> Callable[[Any], Any]:
    pull, _ = make_vjp(lambda a: f(a)(ans))(a)

    def of_cotangent(g: Any) -> Any:
        step = lambda given: _cotangent_step(given, f)  # noqa: E731
        return pull(fixed_point(step, (a, ans, g), g, distance, tol))

    return of_cotangent


defvjp(fixed_point, None, _pullback, None)

__all__ = ["fixed_point"]
