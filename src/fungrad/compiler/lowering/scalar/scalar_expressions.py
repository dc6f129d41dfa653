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
from fungrad.primitives.elementwise import family as arithmetic
from fungrad.primitives.elementwise import ufuncs
from fungrad.primitives.movement.reshape_broadcast_cast import convert, number, to_discrete
from fungrad.primitives.reduction.cumulative import attains
from fungrad.primitives.stop_gradient import stop
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


FORMS: dict[Any, Form] = {
    arithmetic.neg: _plain("-{0}"),
    arithmetic.add: _plain("{0} + {1}"),
    arithmetic.sub: _plain("{0} - {1}"),
    arithmetic.mul: _plain("{0} * {1}"),
    arithmetic.div: _plain("{0} / {1}"),
    arithmetic.lt: _plain("{0} < {1}"),
    arithmetic.le: _plain("{0} <= {1}"),
    arithmetic.gt: _plain("{0} > {1}"),
    arithmetic.ge: _plain("{0} >= {1}"),
    arithmetic.eq: _plain("{0} == {1}"),
    arithmetic.ne: _plain("{0} != {1}"),
    arithmetic.select: _plain("{1} if {0} else {2}"),
    arithmetic.logical_and: _plain("bool({0} and {1})"),
    arithmetic.logical_or: _plain("bool({0} or {1})"),
    arithmetic.logical_not: _plain("not {0}"),
    attains: _plain("{0} == {1} or ({0} != {0} and {1} != {1})"),
    ufuncs.square: _plain("{0} * {0}"),
    ufuncs.reciprocal: _plain("1.0 / {0}"),
    ufuncs.positive: _plain("{0}"),
    number: _plain("float({0})"),
    ufuncs.abs: Form(lambda equation, x: f"abs({x})", 35),
    ufuncs.fabs: Form(lambda equation, x: f"abs({x})", 35),
    ufuncs.maximum: _plain(LARGER),
    ufuncs.minimum: _plain(SMALLER),
    ufuncs.remainder: _plain("{0} % {1}"),
    ufuncs.isnan: _plain("{0} != {0}"),
    ufuncs.power: Form(_power, 40),
    convert: Form(_cast, 50),
    to_discrete: Form(_cast, 50),
    stop: _plain("{0}"),
    **{
        getattr(ufuncs, ours): function(theirs)
        for ours, theirs in {
            "sqrt": "sqrt", "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p",
            "log2": "log2", "log10": "log10", "sin": "sin", "cos": "cos", "tan": "tan",
            "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh", "cosh": "cosh",
            "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
            "arctan2": "atan2", "hypot": "hypot", "cbrt": "cbrt", "exp2": "exp2",
            "isfinite": "isfinite", "isinf": "isinf", "copysign": "copysign", "fmod": "fmod",
        }.items()
    },
}  # fmt: skip


def expressed(equation: Equation) -> Form | None:
    """The Form of an elementwise equation, if numbers of Python's give what NumPy gives.

    Where NumPy computes with floats, integers are made floats first: Python compares and divides
    them exactly, and chooses one of them as it is.
    """
    found = FORMS.get(equation.primitive)
    if found is None or not _known([a.type.dtype for a in (*equation.inputs, *equation.outputs)]):
        return None
    inputs = [a.type.dtype for a in equation.inputs]
    output = equation.outputs[0].type.dtype
    if BOOL in inputs and output != FLOAT and equation.primitive in _ARITHMETIC:
        return None  # True + True is True for NumPy, and -True an error
    if output == INT and equation.primitive in (ufuncs.power, ufuncs.reciprocal, ufuncs.fmod):
        return None  # integer powers wrap around, and fmod computes with floats
    if equation.primitive is ufuncs.remainder and output == FLOAT:
        return None  # of infinities, Python's raises or differs
    first = 1 if equation.primitive is arithmetic.select else 0
    whole = [i for i, dtype in enumerate(inputs) if i >= first and dtype != FLOAT]
    if not whole or equation.primitive in (convert, to_discrete) or found.cost == FUNCTION:
        return found
    if output == FLOAT or FLOAT in inputs[first:]:
        return _of_floats(found, whole)
    return found


def _of_floats(form: Form, places: Sequence[int]) -> Form:
    """A Form of which the arguments at some places are made floats."""

    def write(equation: Equation, *args: str) -> str:
        given = [f"float({x})" if i in places else x for i, x in enumerate(args)]
        return form.write(equation, *given)

    return Form(write, form.cost + OPERATION * len(places))


_ARITHMETIC = (
    arithmetic.neg, arithmetic.add, arithmetic.sub, arithmetic.mul, ufuncs.square, ufuncs.abs,
    ufuncs.positive, ufuncs.remainder, ufuncs.maximum, ufuncs.minimum,
)  # fmt: skip


def _known(dtypes: Sequence[np.dtype[Any]]) -> bool:
    return all(dtype in DTYPES for dtype in dtypes)


__all__ = [
    "BOOL", "DTYPES", "FLOAT", "FUNCTION", "INT", "LARGER", "NAMES", "OPERATION", "SMALLER", "Form",
    "expressed", "function",
]  # fmt: skip
