"""The operator table, which gives Tracer Python's operators.

Tracer is defined in a lower folder; this module installs its operators, and methods.py the methods
of ndarray.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, GradientCutError
from fungrad.ir.canonical import DOUBLE, canonical, own_arithmetic, refused_arithmetic
from fungrad.ir.types import Type
from fungrad.numpy.protocol.implements import array_from
from fungrad.numpy.protocol.operands import array_of, promoted
from fungrad.primitives.elementwise import family as e
from fungrad.primitives.elementwise import ufuncs as u
from fungrad.primitives.movement.reshape_broadcast_cast import reshape
from fungrad.primitives.movement.stack_iota import stack
from fungrad.primitives.primitive import Primitive
from fungrad.tracing.created_arrays import Writable, holds_traced, unwrapped
from fungrad.tracing.object_arrays import Objects
from fungrad.tracing.source_location import user_line
from fungrad.tracing.subclass_arrays import OfTraced, holds_own
from fungrad.tracing.trace import (
    EVAL,
    NO_PARAMS,
    PLAIN,
    Tracer,
    arrived,
    current,
    registry,
)
from fungrad.transforms.engine.operators import OfUfuncs, of_comparison, of_one, of_two

BINARY: dict[str, Any] = {
    "add": e.add, "sub": e.sub, "mul": e.mul, "truediv": e.div, "floordiv": u.floor_divide,
    "mod": u.remainder, "pow": u.power, "and": u.bitwise_and, "or": u.bitwise_or,
    "xor": u.bitwise_xor, "lshift": u.left_shift, "rshift": u.right_shift,
}  # fmt: skip
COMPARISONS: dict[str, Any] = {
    "lt": e.lt,
    "le": e.le,
    "gt": e.gt,
    "ge": e.ge,
    "eq": e.eq,
    "ne": e.ne,
}
RECORDED = ("add", "sub", "mul", "truediv", "pow")
"""Operators between floats that an eager reverse mode records at once."""
UNARY: dict[str, Any] = {"neg": e.neg, "pos": u.positive, "abs": u.abs, "invert": u.invert}


def forward(primitive: Primitive) -> Callable[..., Any]:
    """The method of an operator, with the tracer on the left, on any trace."""

    def method(self: Tracer, other: Any) -> Any:
        if type(other) not in PLAIN:
            other = registry.operand(other, self)
            if other is NotImplemented:
                return NotImplemented
        return _process(primitive, self, other)

    return method


def _process(primitive: Primitive, x: Any, y: Any) -> Any:
    trace = current()
    return primitive(x, y) if trace is EVAL else trace.process(primitive, (x, y), NO_PARAMS)


def _reflected(primitive: Primitive) -> Callable[..., Any]:
    def method(self: Tracer, other: Any) -> Any:
        if type(other) not in PLAIN:
            other = registry.operand(other, self)
            if other is NotImplemented:
                return NotImplemented
        return _process(primitive, other, self)

    return method


def _unary(primitive: Primitive) -> Callable[..., Any]:
    return lambda self: current().one(primitive, self)


def _power(self: Tracer, other: Any) -> Any:
    """self ** other: as `forward`, but the square of booleans is int8, as NumPy's."""
    if type(other) is int and other == 2 and self.type.dtype is _BOOL and self.type.shape:
        return u.square(self)
    return _plain_power(self, other)


_plain_power = forward(u.power)
_BOOL = np.dtype(np.bool_)


def operand(value: Any, beside: Tracer | None = None) -> Any:
    """A value that is no tracer and no Python number, prepared as an operand beside a tracer.

    Lists become arrays, object arrays that hold tracers become one tracer; NotImplemented if the
    value's own class handles ufuncs.

    Args:
      value: the value.
      beside: the tracer, if a ufunc combines the two.

    Raises:
      GradientCutError: if the value is a time, and the tracer a float.
    """
    if type(value) in PLAIN:
        return value
    if type(value) is np.ndarray:
        dtype = value.dtype
        if dtype is DOUBLE:  # the usual case
            return value
        if beside is not None:
            _check_times(dtype, beside.type)
        return stacked(value) if dtype.char == "O" else arrived(value)
    if isinstance(value, np.generic):
        if beside is not None:
            _check_times(value.dtype, beside.type)
        return canonical(value)
    if isinstance(value, Writable):
        return operand(unwrapped(value))
    if isinstance(value, Objects):
        return operand(value.view(np.ndarray))
    if isinstance(value, np.ndarray):
        if holds_own(value):
            return NotImplemented
        if own_arithmetic(value):
            raise refused_arithmetic(value, user_line())
        return arrived(np.asarray(value))
    return listed(value) if isinstance(value, (list, tuple)) else _unusual(value)


def _unusual(value: Any) -> Any:
    """An operand that is no array, list or number of the usual classes."""
    if isinstance(value, (int, float, complex)):  # a member of an Enum, as NumPy takes it
        return np.asarray(value)[()]
    if type(value).__module__.startswith("dask."):
        raise ArgumentError(
            f"A Dask {type(value).__name__} was combined with a traced value{user_line()}. It "
            "computes later, when the transform has ended: give it as an array, value.compute()."
        )
    if value is None or isinstance(value, (str, bytes)) or hasattr(value, "__array_ufunc__"):
        return NotImplemented
    if isinstance(value, memoryview):
        return canonical(np.asarray(value))
    if hasattr(value, "__array__"):
        return operand(array_from(value))
    return listed(tuple(value)) if isinstance(value, Sequence) else NotImplemented


def _check_times(dtype: np.dtype[Any], type_: Type) -> None:
    """Raises an error for a time beside a traced float: their product has no derivative."""
    if dtype.kind in "mM" and type_.inexact:
        raise GradientCutError(
            f"A value of the dtype {dtype} was combined with a traced value of type {type_}"
            f"{user_line()}. NumPy's times are integers: the result would be rounded to whole "
            "units, and have no derivative. Compute with numbers, as t / np.timedelta64(1, 's') is "
            "one; x.astype(int) is whole without a gradient."
        )


def listed(values: Sequence[Any]) -> Any:
    """A list as an array. Traced values in it, at any depth, are stacked whole.

    NumPy would first split them into numbers.
    """
    if not holds_traced(values):
        return operand(np.array(values))
    return stack(*promoted([array_of(_number_in(value)) for value in values]))


def _number_in(value: Any) -> Any:
    """The number of an item without axes, as its class's `__float__` gives it; else the item."""
    if isinstance(value, OfTraced) and not value.ndim:
        give = type(value).__float__
        return value if give is OfTraced.__float__ else give(value)
    return value


def stacked(objects: Any) -> Any:
    """An object array of numbers and tracers as one array.

    NumPy makes one from `np.array([a * b, c])` if an item is a tracer, which cannot be overridden.

    Raises:
      ArgumentError: if it holds anything else.
    """
    items = objects.ravel().tolist()
    if not any(type(item) is Tracer for item in items):
        return of_numbers(objects, items)
    flat = stack(*promoted([array_of(item) for item in items]))
    return flat if objects.ndim == 1 else reshape(flat, shape=objects.shape)


def of_numbers(objects: Any, items: Sequence[Any]) -> Any:
    """An object array of numbers as an array of their dtype; fractions and integers of any size
    become floats.
    """
    for item in items:
        if not isinstance(item, numbers.Number | np.bool_):
            raise ArgumentError(
                "An array of dtype object was combined with a traced value"
                f"{user_line()}, and holds values of the class {type(item).__name__}, with which "
                "NumPy would compute one by one in Python, without derivatives. Make it an array "
                "of numbers: np.stack(list(a)) of arrays, a.astype(float) of numbers."
            )
    array = np.array(items)
    array = array if array.dtype.kind in "fciub" else objects.astype(float)
    return array.reshape(objects.shape)


def install() -> None:
    """Sets the operators of Tracer."""
    for name, primitive in BINARY.items():
        left = _power if name == "pow" else forward(primitive)
        right = _reflected(primitive)
        if name in RECORDED:
            apply = getattr(operator, name)
            left = of_two(primitive, apply, left)
            right = of_two(primitive, apply, right, swapped=True)
        setattr(Tracer, f"__{name}__", left)
        setattr(Tracer, f"__r{name}__", right)
    for name, primitive in COMPARISONS.items():
        compare = of_comparison(getattr(operator, name), forward(primitive))
        setattr(Tracer, f"__{name}__", compare)
    for name, primitive in UNARY.items():
        method = _unary(primitive)
        if name != "invert":
            method = of_one(primitive, getattr(operator, name), method)
        setattr(Tracer, f"__{name}__", method)
    registry.operand = operand
    registry.at_once = OfUfuncs()


install()
