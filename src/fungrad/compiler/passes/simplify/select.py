"""Rules for choices by a condition: what is not chosen need not be made.

They hold for every float. Knows the IR and arithmetic.
"""

from __future__ import annotations

import math

import numpy as np

from fungrad.compiler.passes.rewriter import DEEP, Writer
from fungrad.compiler.passes.value_facts import positive_zero, with_zeros_added
from fungrad.ir.graph import Atom, Equation, Literal
from fungrad.primitives.elementwise.family import (
    broadcast_shapes,
    logical_and,
    logical_not,
    mul,
    neg,
    select,
)
from fungrad.primitives.elementwise.ufuncs import invert


def chosen_twice(writer: Writer, equation: Equation) -> Atom | None:
    """select(c, select(c, x, y), z) is select(c, x, z), and so where c is that of the inner choice
    and another condition; the same behind.
    """
    condition, x, y = equation.inputs
    inner = writer.made_by(x, select)
    if inner is not None and _implies(writer, condition, inner.inputs[0]):
        writer.pass_by(x)
        return writer.add(equation, select, condition, inner.inputs[1], y)
    inner = writer.made_by(y, select)
    if inner is not None and inner.inputs[0] is condition:
        writer.pass_by(y)
        return writer.add(equation, select, condition, x, inner.inputs[2])
    return None


def chosen_before(writer: Writer, equation: Equation) -> Atom | None:
    """select(c, -select(c, x, y), z) is select(c, -x, z), and so for a product with a number.

    The product is made of what is smaller alone, or with what is not above one: what is not chosen
    could overflow.
    """
    condition, x, y = equation.inputs
    made = writer.made_by(x, neg, mul)
    inputs = () if made is None else tuple(_where_true(writer, a, condition) for a in made.inputs)
    if made is None or all(a is b for a, b in zip(made.inputs, inputs, strict=True)):
        return None
    shape = broadcast_shapes("a choice", [a.type for a in inputs])
    if math.prod(shape) < x.type.size:
        if made.primitive is mul and not any(isinstance(a, Literal) for a in inputs):
            return None
    elif not writer.only_here(x):
        return None
    elif made.primitive is mul and not any(_up_to_one(writer, a) for a in inputs):
        return None
    if np.broadcast_shapes(shape, condition.type.shape, y.type.shape) != x.type.shape:
        return None
    chosen = writer.add(equation, made.primitive, *inputs)
    return writer.add(equation, select, condition, chosen, y)


def chosen_between(writer: Writer, equation: Equation) -> Atom | None:
    """select(c, x, 0) + select(not c, y, 0), which nothing else reads, is select(c, x, y), with the
    zeros added.
    """
    made = [writer.made_here(a, select) for a in equation.inputs]
    first, second = made
    if first is None or second is None or first is second:
        return None
    if not all(positive_zero(e.inputs[2]) for e in (first, second)):
        return None
    for one, other in ((first, second), (second, first)):
        condition, x, _ = one.inputs
        negation, y, _ = other.inputs
        negated = writer.made_by(negation, logical_not, invert)  # of a mask the same
        if negated is None or negated.inputs[0] is not condition:
            continue
        if condition.type.dtype != np.bool_:
            return None
        writer.drop(first)
        writer.drop(second)
        chosen = writer.add(equation, select, condition, x, y)
        return with_zeros_added(writer, equation, chosen)
    return None


def _implies(writer: Writer, condition: Atom, other: Atom, deep: int = DEEP) -> bool:
    """Whether a condition is another one, or that and more."""
    both = writer.made_by(condition, logical_and) if deep else None
    return condition is other or (
        both is not None and any(_implies(writer, a, other, deep - 1) for a in both.inputs)
    )


def _up_to_one(writer: Writer, atom: Atom) -> bool:
    """Whether nothing overflows that is multiplied with a number, or with one of two."""
    made = writer.made_by(atom, select)
    numbers = [atom] if made is None else made.inputs[1:]
    return all(isinstance(a, Literal) and abs(a.value) <= 1 for a in numbers)


def _where_true(writer: Writer, atom: Atom, condition: Atom) -> Atom:
    """What an atom is where a condition holds."""
    made = writer.made_by(atom, select)
    if made is None or not _implies(writer, condition, made.inputs[0]):
        return atom
    x = made.inputs[1]
    return x if x.type.dtype == atom.type.dtype and not x.type.weak else atom


__all__ = ["chosen_before", "chosen_between", "chosen_twice"]
