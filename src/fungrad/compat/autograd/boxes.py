"""Autograd's functions for traced values: whether a value is one, and its value.

A `Box` is fungrad's Tracer, or an instance of a subclass of ndarray over one. Containers of traced
values are plain lists, tuples and dicts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from fungrad.errors import AbstractValueError
from fungrad.ir.canonical import PLAIN_KINDS
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.tracing.aliasing import private
from fungrad.tracing.captured_arrays import own
from fungrad.tracing.source_location import user_line
from fungrad.tracing.subclass_arrays import OfTraced, value_of
from fungrad.tracing.trace import EVAL, Tracer, current
from fungrad.transforms.engine.forward import JvpTrace
from fungrad.transforms.engine.reverse import VjpTrace


class _OfBoxes(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isbox(x)

    def __eq__(cls, other: object) -> bool:  # of type(x) == ArrayBox
        return other is cls or other is Tracer

    __hash__ = type.__hash__


class Mappings(dict[type, Any]):
    """A table in which clients register subclasses of ndarray. Transforms take their instances as
    arrays of numbers, and their ufuncs leave traced values to the transform.
    """

    def __setitem__(self, kind: type, made: Any) -> None:
        super().__setitem__(kind, made)
        if issubclass(kind, np.ndarray) and kind not in PLAIN_KINDS:
            PLAIN_KINDS.add(kind)
            own = kind.__array_ufunc__

            @functools.wraps(own)
            def of_plain(self: Any, ufunc: Any, method: Any, *inputs: Any, **kwargs: Any) -> Any:
                if any(map(isbox, inputs)):
                    return NotImplemented
                return own(self, ufunc, method, *inputs, **kwargs)

            kind.__array_ufunc__ = of_plain  # type: ignore[method-assign]


class ArrayBox(metaclass=_OfBoxes):
    """The class of traced arrays and numbers, which they show where autograd's transforms run.

    A call returns the numbers of a value, which a transform traces.
    """

    type_mappings: ClassVar[Mappings] = Mappings()
    """Where clients register how values of their classes are boxed."""

    @classmethod
    def register(cls, kind: type) -> None:
        """Lets transforms take the instances of a subclass of ndarray as arrays of numbers."""
        cls.type_mappings[kind] = cls

    def __new__(cls, value: Any, trace: Any = None, node: Any = None) -> Any:
        return value.view(np.ndarray) if isinstance(value, np.ndarray) else value

    def __len__(self) -> int:
        raise NotImplementedError  # there are no instances; a traced value has this method


ArrayBox.__module__ = "autograd.numpy.numpy_boxes"  # clients ask for a class's package
Box = ArrayBox


def boxed(value: Any) -> Any:
    """What a transform traces for an argument: of a class that a client has registered, the value
    that the client's function returns.
    """
    box = ArrayBox.type_mappings.get(type(value))
    return value if box is None else box(value, None, None)


def show_boxes() -> None:
    """Lets the tracers of the transform that has begun show the class ArrayBox."""
    trace = current()
    if trace is not EVAL:
        trace.shown = ArrayBox


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
    while isbox(x):
        held = _held(x)
        if held is x:
            return stop_gradient(x)
        x = held
    return x


def _held(box: Any) -> Any:
    """What a traced value stands for in the transform around its own: a plain value, or one traced
    there. Itself, if its transform is no derivative.
    """
    tracer = value_of(box) if isinstance(box, OfTraced) else box
    if type(tracer.owner) not in (VjpTrace, JvpTrace):
        return box
    return private(own(tracer.inner))


def _value(box: Any) -> Any:
    value = _held(box)
    if value is box:  # a client that unwraps in a loop would never end
        raise AbstractValueError(
            f"The value of a traced {box.type} was requested{user_line()}, but under vmap and "
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
