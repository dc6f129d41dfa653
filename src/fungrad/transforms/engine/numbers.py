"""Reverse mode on Python floats: a record holds the local derivatives, which are floats as well.

No array is made, no rule waits for the backward walk, and cotangents are floats. It serves traces
right above plain evaluation (`VjpTrace.note`). What Python's floats refuse (1 / 0) is left to the
primitive's rule: None is returned here. Code that catches Python's error gets it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fungrad.primitives.elementwise.on_floats import slope
from fungrad.primitives.primitive import Primitive
from fungrad.tracing.trace import Tracer, current
from fungrad.tracing.tracing_check import are_caught
from fungrad.transforms.engine.tape import NUMBERS

blank = object.__new__
"""Makes a Tracer in a third of the time of a call of its class."""
REFUSED = (ArithmeticError, ValueError, TypeError)

Numbers = Callable[..., Any]


def _recorded(
    trace: Any, primitive: Primitive, value: float, slot: int, p: float, at: int = 0, q: float = 0.0
) -> Tracer:
    """A result, and its record: its derivatives p and q by the values of two slots."""
    trace.slots = out = trace.slots + 1
    trace.note((primitive, at, slot, p, q, out, NUMBERS))
    traced = blank(Tracer)
    traced.owner = trace
    traced.inner = value
    traced.extra = out
    return traced


def of_one(primitive: Primitive, apply: Callable[[float], float]) -> Numbers:
    """A primitive on one traced float.

    Args:
      primitive: its declaration.
      apply: the function that gives its value. What it raises is raised.
    """
    by: Any = None

    def numbers(traced: Tracer) -> Any:
        nonlocal by
        trace: Any = current()
        if trace is not traced.owner or trace.note is None:
            return None
        x = traced.inner
        value = apply(x)
        try:
            if by is None:
                by = slope(primitive, 0)
            p = by(value, x)
        except REFUSED:
            return None
        return _recorded(trace, primitive, value, traced.extra, p)

    return numbers


def of_two(
    primitive: Primitive, apply: Callable[[Any, Any], Any], swapped: bool = False
) -> Numbers:
    """A primitive on a traced float and a float or integer, traced or not.

    Args:
      primitive: its declaration.
      apply: the function that gives its value.
      swapped: whether the traced float is the second operand.
    """
    product = primitive.degree == "multilinear"
    linear = primitive.degree == "linear"
    one, two = map(float, primitive.slopes[:: -1 if swapped else 1]) if linear else (0.0, 0.0)
    first: Any = None
    second: Any = None

    def numbers(traced: Tracer, other: Any) -> Any:
        nonlocal first, second
        trace: Any = current()
        if trace is not traced.owner or trace.note is None:
            return None
        at = 0
        if type(other) is Tracer:
            if other.owner is not trace:
                return None
            at = other.extra
            other = other.inner
        if type(other) is not float and type(other) is not int:
            return None
        x = traced.inner
        if product:
            value = apply(x, other)
            p, q = other, x
        elif linear:
            value = apply(other, x) if swapped else apply(x, other)
            p, q = one, two
        else:
            if first is None:
                first, second = slope(primitive, 0), slope(primitive, 1)
            try:
                if swapped:
                    value = apply(other, x)
                    p = second(value, other, x)
                    q = first(value, other, x) if at else 0.0
                else:
                    value = apply(x, other)
                    p = first(value, x, other)
                    q = second(value, x, other) if at else 0.0
            except REFUSED as error:
                if isinstance(error, (OverflowError, ZeroDivisionError)) and are_caught():
                    raise
                return None
            if type(value) is not float:
                return None
        return _recorded(trace, primitive, value, traced.extra, p, at, q)

    return numbers


def of_comparison(apply: Callable[[Any, Any], bool]) -> Numbers:
    """A comparison of a traced float with a number, traced or not."""

    def numbers(traced: Tracer, other: Any) -> Any:
        trace: Any = current()
        if trace is not traced.owner or trace.note is None:
            return None
        if type(other) is Tracer:
            if other.owner is not trace:
                return None
            other = other.inner
        return apply(traced.inner, other) if type(other) in (float, int) else None

    return numbers
