"""The operations of scalar programs as Python expressions, and the functions that programs call for
tapes and for the rows of long stacks.

Rows in arrays, in place of lists, save 4 to 6 times the time of scans of 100,000 steps, and most of
their memory: the garbage collector would visit a tuple for each step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.scalar.emitter import BOOL, FLOAT, INT
from fungrad.control_flow.tape_type import as_tape, residuals_of
from fungrad.support.lazy import Record

FUNCTIONS = {name: getattr(math, name) for name in (
    "sqrt", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "atan2", "hypot", "cbrt", "exp2",
    "isfinite", "isinf", "copysign", "fmod", "erf",
)}  # fmt: skip
"""The functions of `math` that are operations."""


class Spelling(Record):
    """An operation as Python text.

    Attributes:
      text: the expression, with a field for each operand.
      cost: the field of Costs.
      widens: whether integer operands are converted if floats are computed.
    """

    text: str
    cost: str = "operation"
    widens: bool = True


SPELLINGS: dict[str, Spelling] = {
    "neg": Spelling("-{0}"),
    "add": Spelling("{0} + {1}"),
    "sub": Spelling("{0} - {1}"),
    "mul": Spelling("{0} * {1}"),
    "div": Spelling("{0} / {1}"),
    "remainder": Spelling("{0} % {1}"),
    "square": Spelling("{0} * {0}"),
    "reciprocal": Spelling("1.0 / {0}"),
    "power": Spelling("pow({0}, {1})", "power"),
    "power_by_scalar": Spelling("sqrt({0}) if {1} == 0.5 else pow({0}, {1})", "power"),
    "positive": Spelling("{0}"),
    "abs": Spelling("abs({0})", "absolute"),
    "number": Spelling("float({0})"),
    "convert": Spelling("", "conversion", widens=False),  # by the dtype of the result
    "lt": Spelling("{0} < {1}"),
    "le": Spelling("{0} <= {1}"),
    "gt": Spelling("{0} > {1}"),
    "ge": Spelling("{0} >= {1}"),
    "eq": Spelling("{0} == {1}"),
    "ne": Spelling("{0} != {1}"),
    "isnan": Spelling("{0} != {0}"),
    "attains": Spelling("{0} == {1} or ({0} != {0} and {1} != {1})"),
    "logical_and": Spelling("bool({0} and {1})"),
    "logical_or": Spelling("bool({0} or {1})"),
    "logical_not": Spelling("not {0}"),
    "select": Spelling("{1} if {0} else {2}"),
    "maximum": Spelling("{0} if {0} > {1} or {0} != {0} else {1}"),  # the second of two zeros
    "minimum": Spelling("{0} if {0} < {1} or {0} != {0} else {1}"),
    **{
        name: Spelling(f"{name}({{0}}, {{1}})" if name in ("atan2", "hypot", "copysign", "fmod")
                       else f"{name}({{0}})", "function", widens=False)
        for name in FUNCTIONS
    },
}  # fmt: skip
CONVERSIONS = {FLOAT: "float({0})", INT: "int({0})", BOOL: "({0} != 0)"}
"""Conversions by the dtype of the result."""

# --- run time -------------------------------------------------------------------------------------

CHUNK = 4_096
"""The number of steps whose rows are written to an array, or read from it, at once."""


def rows(matrix: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of a matrix as tuples of Python numbers, converted a chunk at a time."""
    for start in range(0, len(matrix), CHUNK):
        numbers = iter(matrix[start : start + CHUNK].ravel().tolist())
        yield from zip(*[numbers] * matrix.shape[1], strict=True)


class Tape:
    """The tape of a loop: a tuple of numbers for each step, and the Types of its residuals.

    The program on arrays can read it, too: iteration returns the residuals of each step as arrays.
    """

    __slots__ = ("rows", "single", "types")

    def __init__(self, types: Sequence[Any], single: bool = False) -> None:
        self.types = types
        self.single = single
        self.rows: list[Any] = []

    def arrays(self, row: Sequence[Any]) -> list[Any]:
        """The residuals of a step as arrays."""
        result, start = [], 0
        for type_ in self.types:
            part = row[start : start + type_.size]
            start += type_.size
            if type_.dtype == object:
                result.append(as_tape(part[0]))
            else:
                result.append(np.array(part, type_.dtype).reshape(type_.shape)[()])
        return result

    def __iter__(self) -> Iterator[Any]:
        return iter(self.arrays(self.rows[0])) if self.single else map(self.arrays, self.rows)

    def __reversed__(self) -> Iterator[Any]:
        return map(self.arrays, reversed(self.rows))


def tape_of(value: Any) -> Tape:
    """The Tape in an opaque value.

    Raises:
      ValueError: if it is the tape of a program on arrays, which alone can read it.
    """
    found = residuals_of(value)
    if type(found) is not Tape:
        raise ValueError("the residuals of another program")
    return found
