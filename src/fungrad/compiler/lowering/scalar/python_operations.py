"""The operations of scalar programs as Python expressions."""

from __future__ import annotations

import math

from fungrad.compiler.lowering.scalar.emitter import BOOL, FLOAT, INT
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
