"""The names of autograd's module core that clients use.

make_vjp and make_jvp take here a function of one argument, and that argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fungrad.compat.autograd import differential_operators as _operators
from fungrad.compat.autograd.boxes import Box as Box
from fungrad.compat.autograd.boxes import getval as getval
from fungrad.compat.autograd.boxes import isbox as isbox
from fungrad.compat.autograd.extend import VSpace as VSpace
from fungrad.compat.autograd.extend import def_linear as def_linear
from fungrad.compat.autograd.extend import defjvp as defjvp
from fungrad.compat.autograd.extend import defjvp_argnum as defjvp_argnum
from fungrad.compat.autograd.extend import defjvp_argnums as defjvp_argnums
from fungrad.compat.autograd.extend import defvjp as defvjp
from fungrad.compat.autograd.extend import defvjp_argnum as defvjp_argnum
from fungrad.compat.autograd.extend import defvjp_argnums as defvjp_argnums
from fungrad.compat.autograd.extend import primitive as primitive
from fungrad.compat.autograd.extend import vspace as vspace
from fungrad.compat.autograd.tracer import VJPNode as VJPNode


def make_vjp(fun: Callable[[Any], Any], x: Any) -> tuple[Callable[[Any], Any], Any]:
    """The pullback of a function at x, and its value there.

    >>> pullback, value = make_vjp(lambda x: x**2, 3.0)
    >>> float(pullback(1.0)), float(value)
    (6.0, 9.0)
    """
    pair: tuple[Callable[[Any], Any], Any] = _operators.make_vjp(fun)(x)
    return pair


def make_jvp(fun: Callable[[Any], Any], x: Any) -> Callable[[Any], Any]:
    """The function from a tangent at x to the value and its tangent.

    >>> value, tangent = make_jvp(lambda x: x**2, 3.0)(1.0)
    >>> float(value), float(tangent)
    (9.0, 6.0)
    """
    of_tangent: Callable[[Any], Any] = _operators.make_jvp(fun)(x)
    return of_tangent
