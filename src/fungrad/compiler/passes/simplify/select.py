"""Rules for `select`: elements that are not selected need not be computed.

They are exact for every float. Without them the gradient of clipped differences takes 1.44 times
the time.
"""

from __future__ import annotations

import math

import numpy as np

from fungrad.compiler.passes.patterns import AnyValue, LiteralNumber, OutputOf, made, once, rule
from fungrad.compiler.passes.rewriter import Writer
from fungrad.compiler.passes.value_facts import positive_zero, with_zeros_added
from fungrad.ir.graph import Atom, Equation, Literal
from fungrad.primitives.elementwise.family import (
    add,
    broadcast_shapes,
    logical_not,
    mul,
    neg,
    select,
)
from fungrad.primitives.elementwise.ufuncs import invert

CONDITION, X, Y = AnyValue("condition"), AnyValue("x"), AnyValue("y")


@rule(made(select, CONDITION, X, Y), "a select of a select is one", of=(select,))
def nested_select(
    writer: Writer, equation: Equation, condition: Atom, x: Atom, y: Atom
) -> Atom | None:
    """select(c, select(c, x, y), z) and select(c, x, select(c, y, z)) are select(c, x, z): the
    gradient of k-means takes 1.1 times the time without it, that of clipped differences 1.25.
    """
    inner = writer.definition(x, select)
    if inner is not None and inner.inputs[0] is condition:
        writer.release(x)
        return writer.add(equation, select, condition, inner.inputs[1], y)
    inner = writer.definition(y, select)
    if inner is not None and inner.inputs[0] is condition:
        writer.release(y)
        return writer.add(equation, select, condition, x, inner.inputs[2])
    return None


@rule(
    made(select, CONDITION, made((neg, mul), name="inner"), Y),
    "neg and mul apply to the selected operand",
)
def sink_into_select(
    writer: Writer, equation: Equation, condition: Atom, inner: Equation, y: Atom
) -> Atom | None:
    """select(c, -select(c, x, y), z) is select(c, -x, z), and so for a product with a number.

    Only if fewer elements are computed, or a factor is at most one: elements that are not selected
    must not overflow.
    """
    whole = inner.outputs[0]
    inputs = tuple(_where_true(writer, a, condition) for a in inner.inputs)
    if all(a is b for a, b in zip(inner.inputs, inputs, strict=True)):
        return None
    shape = broadcast_shapes("a choice", [a.type for a in inputs])
    if math.prod(shape) < whole.type.size:
        if inner.primitive is mul and not any(isinstance(a, Literal) for a in inputs):
            return None
    elif not writer.is_single_use(whole):
        return None
    elif inner.primitive is mul and not any(_up_to_one(writer, a) for a in inputs):
        return None
    if np.broadcast_shapes(shape, condition.type.shape, y.type.shape) != whole.type.shape:
        return None
    chosen = writer.add(equation, inner.primitive, *inputs)
    return writer.add(equation, select, condition, chosen, y)


def _beside_zeros(name: str) -> OutputOf:
    return once(
        select, AnyValue(f"condition_{name}"), AnyValue(name), LiteralNumber(f"zero_{name}", 0)
    )


@rule(
    made(add, _beside_zeros("x"), _beside_zeros("y")),
    "complementary selects, added, are one",
)
def complementary_selects(
    writer: Writer, equation: Equation, *, condition_x: Atom, condition_y: Atom, x: Atom, y: Atom,
    zero_x: Atom, zero_y: Atom,
) -> Atom | None:  # fmt: skip
    """select(c, x, 0) + select(not c, y, 0) becomes select(c, x, y) + 0.0, if nothing else reads
    the two.
    """
    negated = writer.definition(condition_y, logical_not, invert)  # the same for a mask
    if negated is None or negated.inputs[0] is not condition_x:
        return None
    if condition_x.type.dtype != np.bool_ or not (positive_zero(zero_x) and positive_zero(zero_y)):
        return None
    chosen = writer.add(equation, select, condition_x, x, y)
    return with_zeros_added(writer, equation, chosen)


def _up_to_one(writer: Writer, atom: Atom) -> bool:
    """Whether multiplying by an atom, a literal or a select of two, cannot overflow."""
    made = writer.definition(atom, select)
    numbers = [atom] if made is None else made.inputs[1:]
    return all(isinstance(a, Literal) and abs(a.value) <= 1 for a in numbers)


def _where_true(writer: Writer, atom: Atom, condition: Atom) -> Atom:
    """An atom with the value of an atom where a condition holds."""
    made = writer.definition(atom, select)
    if made is None or made.inputs[0] is not condition:
        return atom
    x = made.inputs[1]
    return x if x.type.dtype == atom.type.dtype and not x.type.weak else atom


RULES = (nested_select, sink_into_select, complementary_selects)
