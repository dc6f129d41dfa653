"""Facts about values from their definitions: dtypes, and signs of zeros.

Adding zeros changes -0.0 to 0.0 and nothing else. A rule that drops such an addition is exact if no
element is -0.0, or if it adds 0.0 itself.
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
from fungrad.primitives.movement.reshape_broadcast_cast import convert, reduce_sum
from fungrad.primitives.movement.scatter import index_add
from fungrad.primitives.primitive import full

_HALF = 2.0**-24
"""The smallest positive half: no dtype rounds a literal of this size to zero."""


_AS_ITS_FIRST = (sub, index_add, scatter, reduce_sum)
"""Primitives whose output has no -0.0 if their first input has none."""


def real(*atoms: Atom) -> bool:
    """Whether values are real. A complex product is a sum of four: inf * 1 has a NaN part."""
    return all(atom.type.dtype.kind != "c" for atom in atoms)


def floats(*atoms: Atom) -> bool:
    """Whether values are real floats."""
    return all(atom.type.dtype.kind == "f" for atom in atoms)


def gives_real(equation: Equation) -> bool:
    """Whether an equation's outputs are real."""
    return real(*equation.outputs)


def gives_floats(equation: Equation) -> bool:
    """Whether an equation's outputs are real floats."""
    return floats(*equation.outputs)


def positive_zero(atom: Atom) -> bool:
    """Whether an atom is the literal 0.0 (or 0), not -0.0."""
    return isinstance(atom, Literal) and bool(atom.value == 0) and _unsigned(atom.value)


def _unsigned(value: Any) -> bool:
    """Whether a number is not -0.0 in any dtype."""
    parts = np.array([value.real, value.imag])
    return not np.any(np.signbit(parts) & (np.abs(parts) < _HALF))


def unsigned(writer: Writer, atom: Atom, deep: int = costs.searched_operands) -> bool:
    """Whether no element of a value is -0.0, as far as is known."""
    if not atom.type.inexact or atom in writer.unsigned:
        return True
    if isinstance(atom, Literal):
        return _unsigned(atom.value)
    made = writer.definition(atom) if deep else None
    if made is None or not _made_unsigned(writer, atom, made, deep):
        return False
    writer.unsigned.add(atom)  # the search along a chain of equations ends here next time
    return True


def _made_unsigned(writer: Writer, atom: Atom, made: Equation, deep: int) -> bool:
    """Whether no element of a value is -0.0, by its definition."""
    primitive, inputs = made.primitive, made.inputs
    if primitive is add:  # a sum is -0.0 only if both terms are
        return any(unsigned(writer, a, deep - 1) for a in inputs)
    if primitive in _AS_ITS_FIRST:
        return unsigned(writer, inputs[0], deep - 1)
    if primitive.view or primitive.sections is not None:
        return all(unsigned(writer, a, deep - 1) for a in inputs)
    if primitive is convert:  # underflow in fewer bits keeps the sign
        safe = np.can_cast(inputs[0].type.dtype, atom.type.dtype)
        return safe and unsigned(writer, inputs[0], deep - 1)
    if primitive is select:
        return all(unsigned(writer, a, deep - 1) for a in inputs[1:])
    if primitive is full:
        return _unsigned(made.params["value"])
    squared = primitive is square or (primitive is mul and inputs[0] is inputs[1])
    if primitive is power and isinstance(inputs[1], Literal):
        squared = bool(inputs[1].value in (2, 4))
    return real(atom) and (squared or primitive is absolute or primitive is exp)


def loose(equation: Equation) -> bool:
    """Whether a sum may lose the sign of a zero: true of cotangents, whose order of summation
    reverse mode chooses.
    """
    return equation.backward > 0


def with_zeros_added(writer: Writer, like: Equation, atom: Atom) -> Atom:
    """x + 0.0, or x if the signs of zeros are the same or do not matter."""
    if loose(like) or unsigned(writer, atom):
        return atom
    return writer.add(like, add, atom, Literal(0.0))
