"""NumPy expressions for primitives, as if written by hand, in place of calls of `eval`.

Their results have the numbers, dtypes and kinds (array, NumPy scalar, Python number) of those of
`eval`. Primitives without an expression are called by `eval`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import Equation, Literal
from fungrad.ir.types import Type
from fungrad.primitives.contraction.dot_general import dot_general, scales
from fungrad.primitives.elementwise import family as arithmetic
from fungrad.primitives.elementwise import ufuncs
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.elementwise.ufuncs import power
from fungrad.primitives.movement.gather import ARRAY, getitem
from fungrad.primitives.movement.reshape_broadcast_cast import (
    concatenate,
    convert,
    reshape,
    to_discrete,
    transpose,
)
from fungrad.primitives.movement.stack_iota import stack
from fungrad.support.lazy import ByPrimitive

Constant = Callable[[str, Any], str]
"""Defines a constant of the program, given a wished name and the value; returns its name."""

_OPERATORS: dict[Any, str] = {
    arithmetic.neg: "-{0}",
    arithmetic.add: "{0} + {1}",
    arithmetic.sub: "{0} - {1}",
    arithmetic.mul: "{0} * {1}",
    arithmetic.div: "{0} / {1}",
    arithmetic.lt: "{0} < {1}",
    arithmetic.le: "{0} <= {1}",
    arithmetic.gt: "{0} > {1}",
    arithmetic.ge: "{0} >= {1}",
    arithmetic.eq: "{0} == {1}",
    arithmetic.ne: "{0} != {1}",
    power: "{0} ** {1}",
}
_CHECKED = (arithmetic.div, power)
"""Primitives that differ from Python's operators if all operands are Python numbers."""
OF_INTEGERS: dict[Any, str] = {
    ufuncs.floor_divide: "{0} // {1}",
    ufuncs.remainder: "{0} % {1}",
    ufuncs.left_shift: "{0} << {1}",
    ufuncs.right_shift: "{0} >> {1}",
    ufuncs.bitwise_and: "{0} & {1}",
    ufuncs.bitwise_or: "{0} | {1}",
    ufuncs.bitwise_xor: "{0} ^ {1}",
    ufuncs.invert: "~{0}",
    ufuncs.abs: "abs({0})",
    ufuncs.positive: "+{0}",
    power: "{0} ** {1}",
}
"""Expressions for operands that are all Python integers, which cannot overflow."""
_POWERS = {2: np.square, 0.5: np.sqrt, -1: np.reciprocal}


def expressed(equation: Equation, arguments: Sequence[str], constant: Constant) -> str | None:
    """The expression of an equation's only output; None if `eval` has to be called."""
    primitive: Any = equation.primitive
    operator = _OPERATORS.get(primitive)
    if operator is not None:
        weak = all(atom.type.weak for atom in equation.inputs)
        return None if weak and primitive in _CHECKED else operator.format(*arguments)
    ufunc = primitive.reduces
    if ufunc is not None:
        return _reduced(equation, ufunc, arguments[0], constant)
    write = WRITTEN.of(primitive)
    if write is None or any(atom.type.weak for atom in equation.inputs[:1]):
        return None
    text: str | None = write(equation, arguments, constant)
    return text


def _reduced(equation: Equation, ufunc: np.ufunc, source: str, constant: Constant) -> str:
    axes = equation.params["axes"]
    if len(axes) == equation.inputs[0].type.ndim:
        text = "None" if len(axes) != 1 else "0"
    else:
        text = str(axes[0]) if len(axes) == 1 else str(axes)
    return f"{constant(ufunc.__name__, ufunc)}.reduce({source}, {text})"


def _select(equation: Equation, arguments: Sequence[str], constant: Constant) -> str | None:
    if not equation.outputs[0].type.shape:
        return None
    return f"{constant('where', np.where)}({', '.join(arguments)})"


def _getitem(equation: Equation, arguments: Sequence[str], constant: Constant) -> str | None:
    entries = equation.params["index"].entries
    if len(arguments) == 1:
        entry = entries[0] if len(entries) == 1 else entries
        return f"{arguments[0]}[{constant('k', entry)}]"
    return f"{arguments[0]}[{arguments[1]}]" if entries == (ARRAY,) else None


def _transpose(equation: Equation, arguments: Sequence[str], constant: Constant) -> str | None:
    axes = equation.params["axes"]
    if axes == tuple(reversed(range(len(axes)))):
        return f"{arguments[0]}.T"
    return f"{arguments[0]}.transpose({axes})"


def _cast(equation: Equation, arguments: Sequence[str], constant: Constant) -> str | None:
    before, after = equation.inputs[0].type, equation.params["dtype"]
    if not before.shape or (before.dtype.kind == "c" and after.kind != "c"):
        return None
    return f"{arguments[0]}.astype({constant(after.name, after)})"


def _dot(equation: Equation, arguments: Sequence[str], constant: Constant) -> str | None:
    contract, batch = equation.params["contract"], equation.params["batch"]
    types, output = [atom.type for atom in equation.inputs], equation.outputs[0].type
    if batch[0] or not contract[0] or 0 in [t.size for t in types]:
        return None
    (x, y), (left, right) = types, contract
    if scales(x, y):
        return None
    if len(left) > 1 and not output.shape:
        return None
    first, second = _matrix(arguments[0], x, left, True), _matrix(arguments[1], y, right, False)
    if first is None or second is None:
        return None
    flat = x.ndim - len(left) <= 1 and y.ndim - len(right) <= 1
    return f"{first}.dot({second})" + ("" if flat else f".reshape({output.shape})")


def _matrix(name: str, type_: Type, contracted: tuple[int, ...], last: bool) -> str | None:
    """The expression of an array as a matrix or a vector whose last axis (first, unless `last`) is
    contracted; None if that needs another order of its axes.
    """
    count, ndim = len(contracted), type_.ndim
    ends = contracted == tuple(range(ndim - count, ndim))
    if not ends and contracted != tuple(range(count)):
        return None
    if count > 1 or ndim > 2:
        inner = math.prod([type_.shape[axis] for axis in contracted])
        free = [type_.size // inner] if count < ndim else []
        name = f"{name}.reshape({(*free, inner) if ends else (inner, *free)})"
    return name if ends == last or count == ndim else f"{name}.T"


def _joined(name: str, function: Any) -> Callable[..., str | None]:
    def write(equation: Equation, arguments: Sequence[str], constant: Constant) -> str | None:
        if any(atom.type.weak for atom in equation.inputs):
            return None
        rest = f", {equation.params['axis']}" if "axis" in equation.params else ""
        return f"{constant(name, function)}(({', '.join(arguments)},){rest})"

    return write


_HERE: dict[Any, Callable[[Equation, Sequence[str], Constant], str | None]] = {
    reshape: lambda equation, args, constant: f"{args[0]}.reshape({equation.params['shape']})",
    transpose: _transpose,
    select: _select,
    getitem: _getitem,
    convert: _cast,
    to_discrete: _cast,
    dot_general: _dot,
    concatenate: _joined("concatenate", np.concatenate),
    stack: _joined("array", np.array),
}
WRITTEN = ByPrimitive(
    {"fungrad.primitives.linalg.solve": "fungrad.compiler.lowering.output_placement"}, _HERE
)
"""For each primitive a function that returns an expression; None if `eval` has to be called."""


def as_ufunc(equation: Equation, arguments: list[Any]) -> tuple[np.ufunc, list[Any]]:
    """The ufunc and operands to call; powers by 2, 1/2 and -1 use the ufuncs of ndarray's **."""
    ufunc: Any = equation.primitive.ufunc
    exponent = equation.inputs[-1]
    if equation.primitive is power and isinstance(exponent, Literal):
        kind = equation.inputs[0].type.dtype.kind
        short = _POWERS.get(exponent.value) if exponent.type.weak and kind in "fc" else None
        if short is not None:
            return short, arguments[:1]
    return ufunc, arguments
