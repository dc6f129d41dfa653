"""Installs the methods and attributes of ndarray on Tracer.

Each file of fungrad.numpy lists its methods in METHODS. The others are here: conversions to Python
numbers, copies, methods that raise an error, and those that NumPy's loops over object arrays call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from fungrad.errors import AbstractValueError, ItemAssignmentError
from fungrad.numpy import (
    bits,
    elementwise,
    indexing,
    mean_var,
    products,
    reductions,
    repeat_pad_roll,
    shaping,
    sorting,
)
from fungrad.numpy.mutation import assignment, flat, memory, writing_functions
from fungrad.numpy.protocol import array_api, operands
from fungrad.numpy.protocol.result_order import copy_in_order
from fungrad.primitives.primitive import Later
from fungrad.tracing.aliasing import fresh
from fungrad.tracing.read_texts import cuts_by_text
from fungrad.tracing.refusals import refused_number
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import OfArrays, OfNumbers, Tracer, registry, words
from fungrad.tracing.traced_text import text_of


def _copy(self: Tracer, order: str = "C") -> Any:
    return copy_in_order(self, order)


def _deepcopy(self: Tracer, memo: Any) -> Any:
    return fresh(self)


def _contains(self: Tracer, item: Any) -> bool:
    return bool(np.any(self == item))


def _str(self: Tracer) -> str:
    return text_of(self, words(self), str)


def _repr(self: Tracer) -> str:
    return text_of(self, words(self), repr)


def _is_integer(self: Tracer) -> bool:
    """Whether the number is whole, as float.is_integer: the answer has no derivative."""
    return self.owner.concrete(
        self, AbstractValueError, ".is_integer()", lambda value: float(value).is_integer()
    )


def _format(self: Tracer, spec: str) -> str:
    """A traced value in a text: its number does not cut a gradient. Without a format it is shown
    where its number would hold for the present values alone, as it may be printed. A text that is
    read as a number is an error, as `float(x)` is.
    """
    if cuts_by_text(self, sys._getframe(1)):
        raise refused_number(self.type, "a number in the text")
    if not spec:
        try:
            return text_of(self, self.owner.concrete(self, AbstractValueError, "", str), str)
        except AbstractValueError:
            return str(self)

    def shown(value: Any) -> str:
        return format(value, spec)

    asked = f"format(x, {spec!r})"
    return text_of(self, self.owner.concrete(self, AbstractValueError, asked, shown), shown)


def _refused(name: str, advice: str) -> Callable[..., NoReturn]:
    def method(self: Tracer, *args: Any, **kwargs: Any) -> NoReturn:
        raise ItemAssignmentError(
            f"ndarray.{name} changes the memory of an array{user_line()}; a traced array has "
            f"none: {advice}"
        )

    return method


_MODULES: tuple[Any, ...] = (
    mean_var, bits, products, elementwise, flat, indexing, memory, operands,
    repeat_pad_roll, reductions, shaping, sorting, array_api, writing_functions, assignment,
)  # fmt: skip

METHODS: dict[str, Any] = {
    "__contains__": OfArrays(_contains),
    "__format__": _format,
    "__repr__": _repr,
    "__str__": _str,
    "__copy__": _copy,
    "__deepcopy__": _deepcopy,
    "copy": _copy,
    "device": "cpu",
    "is_integer": OfNumbers(_is_integer),
    "resize": _refused("resize", "write `a = a.reshape(shape)`, or pad it with np.pad."),
    "setfield": _refused("setfield", "write `a[index] = value`."),
}


def _ufunc_method(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Tracer, *others: Any) -> Any:
        return function(self, *others)

    return method


def install() -> None:
    """Sets the methods of Tracer; first those that `np.sin` of an object array calls."""
    for ufunc in registry.ufuncs:
        if isinstance(ufunc, Later):  # of SciPy, whose ufuncs have no loops of objects
            continue
        if "O" in "".join(ufunc.types) and ufunc.nout == 1 and ufunc.nin <= 2:
            setattr(Tracer, ufunc.__name__, _ufunc_method(ufunc))
    for methods in (*[module.METHODS for module in _MODULES], METHODS):
        for name, member in methods.items():
            setattr(Tracer, name, member)


install()
