"""Numbers that arrays are multiplied with: one for two, and on the smaller side of a
product.

Without them the gradient of cosines of rows takes 1.33 times the time.

What is equal to rounding only. Knows the IR and arithmetic.
"""

from __future__ import annotations

import math

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.patterns import Rule, made
from fungrad.compiler.passes.rewriter import Writer, doubles, exchanged
from fungrad.ir.graph import Atom, Equation, Literal
from fungrad.primitives.elementwise.family import div, mul


def _one_factor(writer: Writer, equation: Equation) -> Atom | None:
    """x * c * d as x * cd for two numbers; what overflows on the way alone no longer does."""
    inner = scaled(*equation.inputs)
    made = None if inner is None else writer.definition(inner[0], mul)
    first = None if made is None else scaled(*made.inputs)
    dtype = equation.outputs[0].type.dtype
    if inner is not None and first is None and doubles(*equation.inputs, *equation.outputs):
        first = _unscaled(writer, equation, inner[0])
    if inner is None or first is None or first[0].type.dtype != dtype or dtype.char in "gG":
        return None  # of long doubles Python's product has too few digits
    factor, limits = first[1] * inner[1], np.finfo(dtype)
    if not float(limits.tiny) ** 0.5 <= abs(factor) <= float(limits.max) ** 0.5:
        return None  # in half precision 1000 * 1000 is infinite
    return writer.add(equation, mul, first[0], Literal(factor))


def _unscaled(
    writer: Writer, equation: Equation, atom: Atom, deep: int = costs.searched_operands
) -> tuple[Atom, float] | None:
    """What products and quotients that nothing else reads are a multiple of, and the number."""
    made = writer.sole_use_definition(atom, mul, div)
    if made is None or not deep:
        return None
    found = scaled(*made.inputs) if made.primitive is mul else None
    if found is not None:
        return found if found[0].type == atom.type else None
    for position in range(2 if made.primitive is mul else 1):
        found = _unscaled(writer, equation, made.inputs[position], deep - 1)
        if found is not None:
            inputs = exchanged(made.inputs, position, found[0])
            return writer.add(equation, made.primitive, *inputs), found[1]
    return None


def _doubled_below(writer: Writer, equation: Equation) -> Atom | None:
    """x / (y * 2) as x / y * 0.5, whose number may meet others."""
    x, y = equation.inputs
    made = writer.sole_use_definition(y, mul)
    found = None if made is None else scaled(*made.inputs)
    if made is None or found is None or math.frexp(found[1])[0] not in (0.5, -0.5):
        return None
    whole = found[0].type == equation.outputs[0].type
    if not whole or not doubles(*equation.inputs, *equation.outputs):
        return None
    if isinstance(x, Literal):
        return writer.add(equation, div, Literal(x.value / found[1]), found[0])
    quotient = writer.add(equation, div, x, found[0])
    return writer.add(equation, mul, quotient, Literal(1.0 / found[1]))


def scaled(x: Atom, y: Atom) -> tuple[Atom, float] | None:
    """What a product is a multiple of, and the number, of no extreme size."""
    if isinstance(x, Literal):
        x, y = y, x
    if not isinstance(y, Literal) or not isinstance(y.value, float | int) or not x.type.inexact:
        return None
    return (x, float(y.value)) if 2.0**-64 <= abs(y.value) <= 2.0**64 else None


def _by_smaller(writer: Writer, equation: Equation) -> Atom | None:
    """x * r * c and x * c * r as x * (r * c), where r is smaller than their product."""
    if not doubles(*equation.outputs):
        return None
    for x, y in (equation.inputs, equation.inputs[::-1]):
        made = writer.sole_use_definition(x, mul)
        if made is None:
            continue
        factors = (y, *made.inputs)
        numbers = [atom for atom in factors if isinstance(atom, Literal)]
        if len(numbers) != 1:
            continue
        (number,) = numbers
        small, large = sorted((a for a in factors if a is not number), key=lambda a: a.type.size)
        if y is large or scaled(large, number) is None or not doubles(small, large):
            continue  # in x * (r * c) the number is where it should be
        if large.type == equation.outputs[0].type and small.type.size < large.type.size:
            return writer.add(equation, mul, writer.add(equation, mul, small, number), large)
    return None


LOST = "a number that overflows or vanishes on the way, or no longer does so"
ONE_FACTOR = Rule(made(mul), "x * 3 * 5 is x * 15", _one_factor, LOST, (mul, div))
BY_SMALLER = Rule(made(mul), "x * r * 3 is x * (r * 3) for small r", _by_smaller, LOST, (mul,))
DOUBLED_BELOW = Rule(made(div), "x / (y * 2) is x / y * 0.5", _doubled_below, LOST, (mul,))

__all__ = ["BY_SMALLER", "DOUBLED_BELOW", "ONE_FACTOR", "scaled"]
