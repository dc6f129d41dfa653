"""Operators of an eager reverse mode, right above plain evaluation: they record at once.

Between numbers a record holds the local derivatives, which are floats as well: no array is made, no
rule waits for the backward walk, and cotangents are floats. What Python's floats refuse (1 / 0) is
left to the primitive's rule; code that catches Python's error gets it. Between arrays, or an array
and a number, a record holds the operands. All other operands go `otherwise`: to the current trace.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from fungrad.ir.canonical import DOUBLE
from fungrad.primitives.elementwise.on_floats import slope
from fungrad.primitives.primitive import Primitive
from fungrad.tracing.trace import NO_PARAMS, STRONG, Tracer, current
from fungrad.tracing.tracing_check import are_caught
from fungrad.transforms.engine.tape import NUMBERS, ONE, TWO

blank = object.__new__
"""Makes a Tracer in a third of the time of a call of its class."""
REFUSED = (ArithmeticError, ValueError, TypeError)
SINGLE = np.dtype(np.float32)
CONSTANTS = STRONG - {np.bool_} | {float, int}
"""The classes of operands without a derivative beside an array: booleans mask the cotangent. Arrays
of other dtypes than floats (booleans, times, objects) take the general way.
"""

Operator = Callable[..., Any]


def of_one(primitive: Primitive, apply: Callable[[Any], Any], otherwise: Operator) -> Operator:
    """A primitive on one traced value.

    Args:
      primitive: its declaration.
      apply: the function that gives its value. What it raises is raised.
      otherwise: computes it where that is not recorded at once.
    """
    by: Any = None

    def method(self: Any) -> Any:
        nonlocal by
        trace: Any = current()
        if trace is not self.owner or trace.note is None:
            return otherwise(self)
        x = self.inner
        if type(x) is float:
            value = apply(x)
            try:
                if by is None:
                    by = slope(primitive, 0)
                p = by(value, x)
            except REFUSED:
                return otherwise(self)
            trace.slots = out = trace.slots + 1
            trace.note((primitive, 0, self.extra, p, 0.0, out, NUMBERS))
        elif type(x) in STRONG and primitive.plain:
            value = apply(x)
            trace.slots = out = trace.slots + 1
            trace.note((primitive, NO_PARAMS, self.extra, (x,), value, out, ONE))
        else:
            return otherwise(self)
        traced = blank(Tracer)
        traced.owner = trace
        traced.inner = value
        traced.extra = out
        return traced

    return method


def of_two(
    primitive: Primitive,
    apply: Callable[[Any, Any], Any],
    otherwise: Operator,
    swapped: bool = False,
) -> Operator:
    """A primitive on a traced value and another one, traced or not.

    Args:
      primitive: its declaration.
      apply: the function that gives its value.
      otherwise: computes it where that is not recorded at once.
      swapped: whether the first value is the second operand.
    """
    product = apply is operator.mul
    linear = primitive.degree == "linear"
    one, two = map(float, primitive.slopes[:: -1 if swapped else 1]) if linear else (0.0, 0.0)
    reads_other = (0 if swapped else 1) in primitive.reads  # type: ignore[operator]
    slopes: list[Any] = []

    def curved(x: Any, y: Any, slot: int) -> Any:
        """The value and the derivatives by x and y; None where Python's floats refuse it."""
        if not slopes:
            slopes[:] = slope(primitive, 0), slope(primitive, 1)
        first, second = slopes
        try:
            if swapped:
                value = apply(y, x)
                found = value, second(value, y, x), first(value, y, x) if slot else 0.0
            else:
                value = apply(x, y)
                found = value, first(value, x, y), second(value, x, y) if slot else 0.0
        except REFUSED as error:
            if isinstance(error, (OverflowError, ZeroDivisionError)) and are_caught():
                raise
            return None
        return found if type(value) is float else None

    def method(self: Any, other: Any) -> Any:
        trace: Any = current()
        if trace is not self.owner or trace.note is None:
            return otherwise(self, other)
        x = self.inner
        if type(other) is not Tracer:
            y, slot = other, 0
        elif other.owner is trace:
            y, slot = other.inner, other.extra
        else:
            return otherwise(self, other)
        if type(x) is float:
            if type(y) is not float and type(y) is not int:
                return otherwise(self, other)
            if product:
                value = x * y
                p, q = y, x
            elif linear:
                value = apply(y, x) if swapped else apply(x, y)
                p, q = one, two
            else:
                found = curved(x, y, slot)
                if found is None:
                    return otherwise(self, other)
                value, p, q = found
            trace.slots = out = trace.slots + 1
            trace.note((primitive, slot, self.extra, p, q, out, NUMBERS))
        elif type(x) in STRONG and type(y) in (STRONG if slot else CONSTANTS):
            if not slot and type(y) is ndarray:
                if y.dtype is not DOUBLE and y.dtype is not SINGLE:
                    return otherwise(self, other)
                if reads_other:
                    y = trace.keeper.keep(y)
            trace.slots = out = trace.slots + 1
            if swapped:
                value = apply(y, x)
                trace.note((primitive, self.extra, slot, (y, x), value, out, TWO))
            else:
                value = apply(x, y)
                trace.note((primitive, slot, self.extra, (x, y), value, out, TWO))
        else:
            return otherwise(self, other)
        traced = blank(Tracer)
        traced.owner = trace
        traced.inner = value
        traced.extra = out
        return traced

    return method


def of_comparison(apply: Callable[[Any, Any], bool], otherwise: Operator) -> Operator:
    """A comparison of a traced float with a number, traced or not."""

    def method(self: Any, other: Any) -> Any:
        trace: Any = current()
        if trace is not self.owner or trace.note is None or type(self.inner) is not float:
            return otherwise(self, other)
        number = other
        if type(other) is Tracer:
            if other.owner is not trace:
                return otherwise(self, other)
            number = other.inner
        if type(number) is not float and type(number) is not int:
            return otherwise(self, other)
        return apply(self.inner, number)

    return method


class OfUfuncs(dict[Any, Any]):
    """By primitive, if it is elementwise and of one or two operands, the function of these, which
    returns None where nothing is recorded at once; None for all others.
    """

    def __missing__(self, primitive: Any) -> Operator | None:
        if not isinstance(primitive, Primitive) or not primitive.plain:
            return None
        if len(primitive.slopes) == 1:
            found = self[primitive] = of_one(primitive, primitive.eval, _not)
            return found
        if len(primitive.slopes) > 2:
            return None
        left = of_two(primitive, primitive.eval, _not)
        right = of_two(primitive, primitive.eval, _not, swapped=True)

        def either(x: Any, y: Any) -> Any:
            return left(x, y) if type(x) is Tracer else right(y, x)

        self[primitive] = either
        return either


def _not(*operands: Any) -> None:
    """For operands whose result is not recorded at once."""
