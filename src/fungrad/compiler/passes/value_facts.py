"""Facts about values from the equations that make them: dtypes, and signs of zeros.

A sum with zeros makes 0.0 of -0.0 and leaves all else: a rule that drops those zeros is exact where
there is no -0.0, or where it puts 0.0 in its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.rewriter import Writer
from fungrad.ir.graph import Atom, Equation, Literal
from fungrad.primitives.elementwise.family import add, mul, select, sub
from fungrad.primitives.elementwise.ufuncs import abs as absolute
from fungrad.primitives.elementwise.ufuncs import exp, power, square
from fungrad.primitives.movement.gather import scatter
from fungrad.primitives.movement.reshape_broadcast_cast import concatenate, convert, reduce_sum
from fungrad.primitives.movement.scatter import index_add
from fungrad.primitives.movement.stack_iota import stack
from fungrad.primitives.primitive import full

_HALF = 2.0**-24
"""The smallest number of half precision: a literal is none of less bits."""


_AS_ITS_FIRST = (sub, index_add, scatter, reduce_sum)
"""Primitives that make no -0.0 where their first input has none, as views of it do."""


def real(*atoms: Atom) -> bool:
    """Whether values are real numbers. A product of complex ones is made of four: inf * 1 is NaN in
    one of them.
    """
    return all(atom.type.dtype.kind != "c" for atom in atoms)


def floats(*atoms: Atom) -> bool:
    """Whether values are real numbers with a point."""
    return all(atom.type.dtype.kind == "f" for atom in atoms)


def gives_real(equation: Equation) -> bool:
    """Whether what an equation gives are real numbers."""
    return real(*equation.outputs)


def gives_floats(equation: Equation) -> bool:
    """Whether what an equation gives are real numbers with a point."""
    return floats(*equation.outputs)


def positive_zero(atom: Atom) -> bool:
    """Whether it is a number, and that a zero without the sign."""
    return isinstance(atom, Literal) and bool(atom.value == 0) and _unsigned(atom.value)


def _unsigned(value: Any) -> bool:
    """Whether a number is not -0.0 in any dtype."""
    parts = np.array([value.real, value.imag])
    return not np.any(np.signbit(parts) & (np.abs(parts) < _HALF))


def unsigned(writer: Writer, atom: Atom, deep: int = costs.searched_operands) -> bool:
    """Whether no element of a value is -0.0, as far as that is known."""
    if not atom.type.inexact or id(atom) in writer.unsigned:
        return True
    if isinstance(atom, Literal):
        return _unsigned(atom.value)
    made = writer.definition(atom) if deep else None
    if made is None or not _made_unsigned(writer, atom, made, deep):
        return False
    writer.unsigned.add(id(atom))  # so that long chains are not walked to their end
    return True


def _made_unsigned(writer: Writer, atom: Atom, made: Equation, deep: int) -> bool:
    """The same by the equation that has made it."""
    primitive, inputs = made.primitive, made.inputs
    if primitive is add:  # a sum is -0.0 where both terms are
        return any(unsigned(writer, a, deep - 1) for a in inputs)
    if primitive.view or primitive in _AS_ITS_FIRST:
        return unsigned(writer, inputs[0], deep - 1)
    if primitive is convert:  # what becomes too small for fewer bits keeps its sign
        safe = np.can_cast(inputs[0].type.dtype, atom.type.dtype)
        return safe and unsigned(writer, inputs[0], deep - 1)
    if primitive is select:
        return all(unsigned(writer, a, deep - 1) for a in inputs[1:])
    if primitive is concatenate or primitive is stack:
        return all(unsigned(writer, a, deep - 1) for a in inputs)
    if primitive is full:
        return _unsigned(made.params["value"])
    squared = primitive is square or (primitive is mul and inputs[0] is inputs[1])
    if primitive is power and isinstance(inputs[1], Literal):
        squared = bool(inputs[1].value in (2, 4))
    return real(atom) and (squared or primitive is absolute or primitive is exp)


def loose(equation: Equation) -> bool:
    """Whether a sum may lose the sign of a zero: among cotangents, which reverse mode adds up in an
    order that is no program's.
    """
    return equation.backward > 0


def with_zeros_added(writer: Writer, like: Equation, atom: Atom) -> Atom:
    """x + 0.0, or x where the sign of a zero does not differ."""
    if loose(like) or unsigned(writer, atom):
        return atom
    return writer.add(like, add, atom, Literal(0.0))
