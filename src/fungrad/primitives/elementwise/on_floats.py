"""Elementwise primitives and their partials as functions of Python floats, from the declarations.

A primitive's scalar form computes it. A partial is Python code that names NumPy's functions and
primitives: here it runs with other globals, in which these are the scalar forms. Where NumPy's
result is none of Python's (1 / 0, log(-1)) they raise.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import AfterSum, Over, Times
from fungrad.primitives.primitive import Primitive
from fungrad.tracing.trace import registry


@functools.cache
def on_floats(primitive: Primitive) -> Callable[..., Any] | None:
    """The function of floats that a primitive's scalar form states; None if it has none."""
    form = primitive.scalar
    if form is None or "f" not in form.kinds:
        return None
    if callable(form.expression):
        return form.expression
    if not isinstance(form.expression, str):
        return None
    function: Callable[..., Any] = eval(f"lambda x=0, y=0, z=0: {form.expression}".format(*"xyz"))
    return function


class _Functions:
    """What stands for the module numpy: its ufuncs as functions of floats, if they have a form."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        primitive = registry.ufuncs.get(found)
        if isinstance(primitive, Primitive):
            found = on_floats(primitive) or found
        setattr(self, name, found)
        return found


_FUNCTIONS = _Functions()


def _names(code: CodeType) -> set[str]:
    """The names in a function's code, and in that of the functions inside."""
    inner = [_names(item) for item in code.co_consts if isinstance(item, CodeType)]
    return set(code.co_names).union(*inner)


@functools.cache
def _rebound(function: Any) -> Any:
    """A function of a rule, with globals that compute on floats."""
    names = function.__globals__
    found = {"__builtins__": names["__builtins__"]}
    for name in _names(function.__code__).intersection(names):
        found[name] = _stand_in(names[name], function.__module__)
    return FunctionType(
        function.__code__, found, function.__name__, function.__defaults__, function.__closure__
    )


def _stand_in(value: Any, module: str) -> Any:
    """What stands for a global value of a rule of that module."""
    if value is np:
        return _FUNCTIONS
    if value is Times:
        return operator.mul
    if isinstance(value, Primitive):
        return on_floats(value) or value
    helper = type(value) is FunctionType and value.__module__ == module
    return _rebound(value) if helper else value


LEAST, MOST = sys.float_info.min, sys.float_info.max
"""The range of normal floats."""


def _inverse(divisor: float) -> float:
    """The factor by which a cotangent is multiplied in place of a division.

    Raises:
      ArithmeticError: if it has fewer digits than a float, so that the product would have, too.
    """
    factor = 1.0 / divisor
    if LEAST <= abs(factor) <= MOST or math.isinf(divisor):
        return factor
    raise ArithmeticError


def _after_sum(partial: AfterSum) -> Callable[[float, float, float], float]:
    scale, finish = _rebound(partial.scale), _rebound(partial.finish)

    def derivative(z: float, x: float, y: float) -> float:
        args = x, y
        factor: float = finish(scale(1.0, z, args), args)
        if LEAST <= abs(factor) <= MOST or z == 0:
            return factor
        raise ArithmeticError  # as for `_inverse`

    return derivative


def slope(primitive: Primitive, position: int) -> Callable[..., float]:
    """The derivative by one argument, as a function of the output and the arguments."""
    partial = primitive.slopes[position]
    if isinstance(partial, Over):
        divisor = _rebound(partial.function)
        if len(primitive.slopes) == 1:
            return lambda z, x: _inverse(divisor(z, x))
        return lambda z, x, y: _inverse(divisor(z, x, y))
    if isinstance(partial, AfterSum):
        return _after_sum(partial)
    if isinstance(partial, operator.itemgetter):
        return lambda z, *args: partial(args)
    if callable(partial):
        return _rebound(partial)  # type: ignore[no-any-return]
    return lambda *args: partial
