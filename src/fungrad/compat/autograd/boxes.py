"""Autograd's functions for traced values: whether a value is one, and its value.

A `Box` is fungrad's Tracer, or an instance of a subclass of ndarray over one. Containers of traced
values are plain lists, tuples and dicts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from fungrad.errors import AbstractValueError
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.tracing.source_location import user_line
from fungrad.tracing.subclass_arrays import OfTraced, value_of
from fungrad.tracing.trace import Tracer


class _OfBoxes(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isbox(x)


class ArrayBox(metaclass=_OfBoxes):
    """The class of traced arrays and numbers, for `isinstance`."""

    type_mappings: ClassVar[dict[type, Any]] = {}
    """Where clients register how values of their classes are boxed."""


Box = ArrayBox


def isbox(x: Any) -> bool:
    """Whether a value is traced.

    >>> isbox(1.0)
    False
    """
    return type(x) is Tracer or (isinstance(x, OfTraced) and type(value_of(x)) is Tracer)


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
    return stop_gradient(x) if isbox(x) else x


def _value(box: Any) -> Any:
    value = getval(box)
    if isbox(value):  # a client that unwraps in a loop would never end
        raise AbstractValueError(
            f"The value of a traced {value.type} was requested{user_line()}, but under vmap and "
            "jit it stands for many. Use autograd.tracer.getval(x), which only cuts the derivative."
        )
    return value


for _kind in (Tracer, OfTraced):
    setattr(_kind, "_value", property(_value))  # noqa: B010 - for clients of autograd alone


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


__all__ = ["ArrayBox", "Box", "getval", "isbox", "notrace_primitive"]
