"""Autograd's functions for traced values: whether a value is one, and its value.

A `Box` is fungrad's Tracer. Containers of traced values are plain lists, tuples and dicts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fungrad.errors import AbstractValueError
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer

Box = Tracer


def isbox(x: Any) -> bool:
    """Whether a value is traced.

    >>> isbox(1.0)
    False
    """
    return type(x) is Tracer


def getval(x: Any) -> Any:
    """The value of a traced number or array, as a constant to every derivative.

    The result is plain under `grad` and other derivatives; under `vmap` and `jit`, where a tracer
    stands for many values, it stays traced, without a derivative.

    Args:
      x: any value; one that is not traced is returned unchanged.

    >>> from fungrad.compat.autograd import grad
    >>> float(grad(lambda x: getval(x) * x)(3.0))
    3.0
    """
    return stop_gradient(x) if type(x) is Tracer else x


def _value(tracer: Tracer) -> Any:
    value = getval(tracer)
    if type(value) is Tracer:  # a client that unwraps in a loop would never end
        raise AbstractValueError(
            f"The value of a traced {value.type} was requested{user_line()}, but under vmap and "
            "jit it stands for many. Use autograd.tracer.getval(x), which only cuts the derivative."
        )
    return value


setattr(Tracer, "_value", property(_value))  # noqa: B010 - for clients of autograd alone
# Of the class, not of its instances: where clients register how values of their classes are boxed.
setattr(type(Tracer), "type_mappings", {})  # noqa: B010


def notrace_primitive(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function called with the values of traced arguments, so that its derivative is zero.

    Args:
      f: a function of arrays, called with plain ones where the values are known.

    >>> from fungrad.compat.autograd import grad
    >>> half = notrace_primitive(lambda x: x // 2.0)
    >>> float(grad(lambda x: x * half(x))(5.0))
    2.0
    """

    def function(*args: Any, **kwargs: Any) -> Any:
        return f(*map(getval, args), **{name: getval(kwargs[name]) for name in kwargs})

    function.__name__ = getattr(f, "__name__", type(f).__name__)
    function.__doc__ = f.__doc__
    return function


ArrayBox = Tracer
"""The class of traced arrays and numbers."""


__all__ = ["ArrayBox", "Box", "getval", "isbox", "notrace_primitive"]
