"""Facts about values from their definitions: dtypes, and signs of zeros.

Adding zeros changes -0.0 to 0.0 and nothing else. A rule that drops such an addition is exact if it
adds 0.0 itself; cotangents may lose the sign of a zero.
"""

from __future__ import annotations

import numpy as np

from fungrad.compiler.passes.rewriter import Writer
from fungrad.ir.graph import Atom, Equation, Literal
from fungrad.primitives.elementwise.family import add


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
    if not isinstance(atom, Literal) or atom.value != 0:
        return False
    return not np.any(np.signbit([atom.value.real, atom.value.imag]))


def loose(equation: Equation) -> bool:
    """Whether a sum may lose the sign of a zero: true of cotangents, whose order of summation
    reverse mode chooses.
    """
    return equation.backward > 0


def with_zeros_added(writer: Writer, like: Equation, atom: Atom) -> Atom:
    """x + 0.0, or x if the signs of zeros do not matter."""
    return atom if loose(like) else writer.add(like, add, atom, Literal(0.0))
