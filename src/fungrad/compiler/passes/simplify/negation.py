"""Rules for signs: a negation is undone by another one, or goes where it costs nothing.

The numbers are the same for every float, and so are the signs of zeros, but for the rules in LOOSE.
Of complex numbers only sums are looked at. Knows the IR and arithmetic.
"""

from __future__ import annotations

from typing import Any

from fungrad.compiler.passes.rewriter import Rule, Writer, exchanged
from fungrad.compiler.passes.simplify.matmul import opposite_of
from fungrad.compiler.passes.value_facts import floats
from fungrad.ir.graph import Atom, Equation, Literal
from fungrad.primitives.elementwise.family import add, div, mul, neg, sub
from fungrad.primitives.movement.reshape_broadcast_cast import reduce_sum, reshape, transpose


def _minus_one(atom: Atom) -> bool:
    return isinstance(atom, Literal) and bool(atom.value == -1)


def _opposite(atom: Atom) -> Literal | None:
    """The number of the other sign; None where its dtype has none, as of the integer 0."""
    if not isinstance(atom, Literal):
        return None
    value: Any = atom.value
    signed = atom.type.inexact or (type(value) is int and value != 0)
    return Literal(-value) if signed else None


def _twice_negated(writer: Writer, equation: Equation) -> Atom | None:
    made = writer.made_by(equation.inputs[0], neg)
    return None if made is None else made.inputs[0]


def _times_minus_one(writer: Writer, equation: Equation) -> Atom | None:
    x, y = equation.inputs
    other = x if _minus_one(y) else y if _minus_one(x) else None
    if other is None or other.type.dtype != equation.outputs[0].type.dtype:
        return None
    return writer.add(equation, neg, other) if floats(other) else None


def _made_for(writer: Writer, equation: Equation, *primitives: Any) -> Equation | None:
    """What has made the floats that an equation alone reads, if it is one of the primitives."""
    made = writer.made_here(equation.inputs[0], *primitives)
    return made if equation.outputs[0].type.inexact else None


def _scaled_negatively(writer: Writer, equation: Equation) -> Atom | None:
    """-(x * c) is x * -c, and -(c / x) is -c / x, for a number c."""
    made = _made_for(writer, equation, mul, div)
    if made is None or not floats(*equation.outputs):
        return None
    first, second = made.inputs
    number = _opposite(second)
    if number is not None:
        return writer.add(equation, made.primitive, first, number)
    number = _opposite(first)
    return None if number is None else writer.add(equation, made.primitive, number, second)


def _sum_negated(writer: Writer, equation: Equation) -> Atom | None:
    """-(x - y) is y - x, and -(x + c) is -c - x, for a number c."""
    made = _made_for(writer, equation, add, sub)
    if made is None:
        return None
    first, second = made.inputs
    if made.primitive is add:
        if isinstance(first, Literal):
            first, second = second, first
        number = _opposite(second)
        if number is None:
            return None
        second = number
    writer.drop(made)
    return writer.add(equation, sub, second, first)


def _factor_negated(writer: Writer, equation: Equation) -> Atom | None:
    """-x * y is -(x * y), and -x * c is x * -c for a number c."""
    if not floats(*equation.outputs):
        return None
    for position, atom in enumerate(equation.inputs):
        positive = opposite_of(writer, atom)
        if positive is None:
            continue
        inputs = exchanged(equation.inputs, position, positive)
        number = _opposite(inputs[1 - position])
        if number is not None:
            inputs = exchanged(inputs, 1 - position, number)
            return writer.add(equation, equation.primitive, *inputs)
        return writer.add(equation, neg, writer.add(equation, equation.primitive, *inputs))
    return None


def _minus(writer: Writer, equation: Equation) -> Atom | None:
    """x - y for x + -y. The imaginary zero of a real y would be subtracted from a complex x."""
    x, y = equation.inputs
    if len({a.type.dtype.kind == "c" for a in equation.inputs}) > 1:
        return None
    positive = opposite_of(writer, y)
    if positive is not None:
        return writer.add(equation, sub if equation.primitive is add else add, x, positive)
    positive = opposite_of(writer, x) if equation.primitive is add else None
    return None if positive is None else writer.add(equation, sub, y, positive)


def _moved_negated(writer: Writer, equation: Equation) -> Atom | None:
    positive = opposite_of(writer, equation.inputs[0])
    if positive is None:
        return None
    inner = writer.add(equation, equation.primitive, positive, **equation.params)
    return writer.add(equation, neg, inner)


SIGNS = (
    Rule((neg,), "- -x is x", _twice_negated, (neg,)),
    Rule((neg,), "-(x * 2) is x * -2", _scaled_negatively, (mul, div)),
    Rule((mul,), "x * -1 is -x", _times_minus_one, (Literal,)),
    Rule((mul, div), "-x * y is -(x * y)", _factor_negated, (neg,)),
    Rule((add, sub), "x + -y is x - y", _minus, (neg,)),
    Rule((reshape, transpose), "-x, moved about", _moved_negated, (neg,)),
)
LOOSE = (
    Rule((neg,), "-(x - y) is y - x", _sum_negated, (add, sub)),
    Rule((reduce_sum,), "sum(-x) is -sum(x)", _moved_negated, (neg,)),
)
"""Rules that hold but for the sign of a zero."""

__all__ = ["LOOSE", "SIGNS"]
