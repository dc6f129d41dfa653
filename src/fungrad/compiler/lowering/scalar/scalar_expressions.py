"""Elementwise primitives as Python expressions of numbers, with their cost.

What Python does otherwise than NumPy raises (a division by zero, an overflow, a root of a negative
number), and whoever runs the program then has the arrays' program do the work. Rounding is that of
the C library where NumPy has loops of its own: 1 ulp. Knows primitives; writes no program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import Equation, Literal
from fungrad.support.record import Record

FLOAT, INT, BOOL = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)
DTYPES = (FLOAT, INT, BOOL)
NAMES = {name: getattr(math, name) for name in (
    "sqrt", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "atan2", "hypot", "cbrt", "exp2",
    "isfinite", "isinf", "copysign", "fmod", "inf", "nan", "pow", "erf",
)}  # fmt: skip
"""What the expressions call, by the names that they use."""

LARGER = "{0} if {0} > {1} or {0} != {0} else {1}"
SMALLER = "{0} if {0} < {1} or {0} != {0} else {1}"
"""Of two zeros NumPy takes the second."""
OPERATION, FUNCTION = 28, 55
"""Nanoseconds of an operation of Python's, and of a call of a function of `math` (measured)."""


class Form(Record):
    """`write(equation, *arguments)` gives the expression; `cost` is in nanoseconds."""

    write: Callable[..., str]
    cost: int = OPERATION


def _plain(template: str) -> Form:
    return Form(lambda equation, *args: template.format(*args))


def function(name: str) -> Form:
    """The call of a function of `math`."""
    return Form(lambda equation, *args: f"{name}({', '.join(args)})", FUNCTION)


def _power(equation: Equation, x: str, y: str) -> str:
    exponent = equation.inputs[1]
    if isinstance(exponent, Literal) and exponent.value == 2:
        return f"{x} * {x}"
    if isinstance(exponent, Literal) and exponent.value == -1:
        return f"1.0 / {x}"
    if isinstance(exponent, Literal) and exponent.value == 0.5:
        return f"sqrt({x})"
    if exponent.type.shape == () != equation.inputs[0].type.shape:  # as NumPy does with arrays
        return f"sqrt({x}) if {y} == 0.5 else pow({x}, {y})"
    return f"pow({x}, {y})"


def _cast(equation: Equation, x: str) -> str:
    dtype = equation.params["dtype"]
    return f"float({x})" if dtype == FLOAT else f"int({x})" if dtype == INT else f"({x} != 0)"


FORMS: dict[str, Form] = {
    "neg": _plain("-{0}"),
    "add": _plain("{0} + {1}"),
    "sub": _plain("{0} - {1}"),
    "mul": _plain("{0} * {1}"),
    "div": _plain("{0} / {1}"),
    "lt": _plain("{0} < {1}"),
    "le": _plain("{0} <= {1}"),
    "gt": _plain("{0} > {1}"),
    "ge": _plain("{0} >= {1}"),
    "eq": _plain("{0} == {1}"),
    "ne": _plain("{0} != {1}"),
    "select": _plain("{1} if {0} else {2}"),
    "logical_and": _plain("bool({0} and {1})"),
    "logical_or": _plain("bool({0} or {1})"),
    "logical_not": _plain("not {0}"),
    "attains": _plain("{0} == {1} or ({0} != {0} and {1} != {1})"),
    "square": _plain("{0} * {0}"),
    "reciprocal": _plain("1.0 / {0}"),
    "positive": _plain("{0}"),
    "number": _plain("float({0})"),
    "abs": Form(lambda equation, x: f"abs({x})", 35),
    "maximum": _plain(LARGER),
    "minimum": _plain(SMALLER),
    "remainder": _plain("{0} % {1}"),
    "isnan": _plain("{0} != {0}"),
    "power": Form(_power, 40),
    "convert": Form(_cast, 50),
    **{name: function(name) for name in NAMES if name not in ("inf", "nan", "pow")},
}
"""How an operation of a primitive's scalar form is written."""


def expressed(equation: Equation) -> Form | None:
    """The Form of an elementwise equation, if numbers of Python's give what NumPy gives.

    Where NumPy computes with floats, integers are made floats first: Python compares and divides
    them exactly, and chooses one of them as it is.
    """
    primitive: Any = equation.primitive
    scalar = primitive.scalar
    if scalar is None:
        return None
    inputs = [a.type.dtype for a in equation.inputs]
    output = equation.outputs[0].type.dtype
    if not _known([*inputs, output]):
        return None
    operands = inputs[1:] if scalar.operation == "select" else inputs
    floats = output == FLOAT or FLOAT in operands
    kind = "f" if floats else "b" if BOOL in operands else "i"
    found = FORMS.get(scalar.operation)
    if found is None or kind not in scalar.kinds:
        return None
    first = len(inputs) - len(operands)
    whole = [i for i, dtype in enumerate(operands, first) if dtype != FLOAT]
    if not (floats and whole) or scalar.operation == "convert" or found.cost == FUNCTION:
        return found
    return _of_floats(found, whole)


def _of_floats(form: Form, places: Sequence[int]) -> Form:
    """A Form of which the arguments at some places are made floats."""

    def write(equation: Equation, *args: str) -> str:
        given = [f"float({x})" if i in places else x for i, x in enumerate(args)]
        return form.write(equation, *given)

    return Form(write, form.cost + OPERATION * len(places))


def _known(dtypes: Sequence[np.dtype[Any]]) -> bool:
    return all(dtype in DTYPES for dtype in dtypes)


__all__ = [
    "BOOL", "DTYPES", "FLOAT", "FUNCTION", "INT", "LARGER", "NAMES", "OPERATION", "SMALLER", "Form",
    "expressed", "function",
]  # fmt: skip
