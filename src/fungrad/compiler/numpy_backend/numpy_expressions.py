"""NumPy expressions for primitives, as if written by hand, in place of calls of `eval`.

Their results have the numbers, dtypes and kinds (array, NumPy scalar, Python number) of those of
`eval`. Primitives without an expression are called by `eval`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.loop_ir.names import Names
from fungrad.ir.graph import Equation, Literal
from fungrad.ir.types import PYTHON_SCALARS, Type
from fungrad.primitives.contraction.dot_general import dot_general, scales
from fungrad.primitives.elementwise import family as arithmetic
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.elementwise.ufuncs import power
from fungrad.primitives.movement.gather import getitem
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    concatenate,
    convert,
    reshape,
    to_discrete,
    transpose,
)
from fungrad.primitives.movement.stack_iota import iota, stack
from fungrad.primitives.primitive import full
from fungrad.support.lazy import ByPrimitive
from fungrad.support.rules import Rules

_OPERATORS: Mapping[Any, str] = {
    np.negative: "-{0}",
    np.add: "{0} + {1}",
    np.subtract: "{0} - {1}",
    np.multiply: "{0} * {1}",
    np.divide: "{0} / {1}",
    np.less: "{0} < {1}",
    np.less_equal: "{0} <= {1}",
    np.greater: "{0} > {1}",
    np.greater_equal: "{0} >= {1}",
    np.equal: "{0} == {1}",
    np.not_equal: "{0} != {1}",
    np.power: "{0} ** {1}",
}
"""By the ufunc that a primitive applies."""
_CHECKED = (arithmetic.div, power)
"""Primitives that differ from Python's operators if all operands are Python numbers."""
_OF_INTEGERS: Mapping[Any, str] = {
    np.floor_divide: "{0} // {1}",
    np.remainder: "{0} % {1}",
    np.left_shift: "{0} << {1}",
    np.right_shift: "{0} >> {1}",
    np.bitwise_and: "{0} & {1}",
    np.bitwise_or: "{0} | {1}",
    np.bitwise_xor: "{0} ^ {1}",
    np.invert: "~{0}",
    np.absolute: "abs({0})",
    np.positive: "+{0}",
    np.power: "{0} ** {1}",
}
"""Expressions for operands that are all Python integers, which cannot overflow."""
_POWERS = {2: np.square, 0.5: np.sqrt, -1: np.reciprocal}


_HERE = Rules()
"""Expressions that need no import of SciPy: see `WRITTEN`."""


def of_integers(equation: Equation) -> str | None:
    """The expression of an equation on Python integers; None if there is none."""
    primitive: Any = equation.primitive
    return _OF_INTEGERS.get(primitive.ufunc) if primitive.ready else None


def expressed(equation: Equation, arguments: Sequence[str], names: Names) -> str | None:
    """The expression of an equation's only output; None if `eval` has to be called."""
    primitive: Any = equation.primitive
    operator = _OPERATORS.get(primitive.ufunc) if primitive.ready else None
    if operator is not None:
        weak = all(atom.type.weak for atom in equation.inputs)
        of_booleans = primitive is power and equation.inputs[0].type.dtype.kind == "b"
        special = (weak and primitive in _CHECKED) or of_booleans
        return None if special else operator.format(*arguments)
    if primitive.reduces is not None:
        type_, axes = equation.inputs[0].type, equation.params["axes"]
        return names.reduced(arguments[0], type_, primitive.reduces, axes)
    write = WRITTEN.of(primitive)
    if write is None or (primitive not in _OF_NUMBERS and _weak(equation)):
        return None
    text: str | None = write(equation, arguments, names)
    return text


def _weak(equation: Equation) -> bool:
    return any(atom.type.weak for atom in equation.inputs[:1])


@_HERE.rule(select)
def _select(equation: Equation, arguments: Sequence[str], names: Names) -> str | None:
    type_ = equation.outputs[0].type
    if not type_.shape and (type_.weak or names.number(type_.dtype) is None):
        return None
    text = f"{names.constant('where', np.where)}({', '.join(arguments)})"
    return text if type_.shape else f"{text}[()]"


@_HERE.rule(transpose)
def _transpose(equation: Equation, arguments: Sequence[str], names: Names) -> str | None:
    axes = equation.params["axes"]
    if axes == tuple(reversed(range(len(axes)))):
        return f"{arguments[0]}.T"
    return f"{arguments[0]}.transpose({axes})"


@_HERE.rule(convert, to_discrete)
def _cast(equation: Equation, arguments: Sequence[str], names: Names) -> str | None:
    before, after = equation.inputs[0].type, equation.params["dtype"]
    kinds, number = (before.dtype.kind, after.kind), names.number(after)
    if kinds[1] not in "fciub" or (kinds[0] == "c" and kinds[1] != "c"):
        return None
    exact = equation.primitive is to_discrete
    if before.shape or not (number is None or exact or before.weak):
        return f"{arguments[0]}.astype({names.dtype(after)})"
    taken, given = ("iub", "fiub") if exact else ("fib", "fc")
    known = kinds[0] in taken and kinds[1] in given and (exact or after.itemsize >= 8)
    return f"{number}({arguments[0]})" if number and known else None


@_HERE.rule(full)
def _full(equation: Equation, arguments: Sequence[str], names: Names) -> str | None:
    value, type_ = equation.params["value"], equation.outputs[0].type
    if type(value) in PYTHON_SCALARS and value == 0 and not np.signbit(value):
        return names.filled("zeros", type_)
    return names.filled("full", type_, value)


@_HERE.rule(iota)
def _iota(equation: Equation, arguments: Sequence[str], names: Names) -> str | None:
    type_ = equation.outputs[0].type
    text = f"{names.constant('arange', np.arange)}({type_.size})"
    return text if type_.ndim == 1 else f"{text}.reshape({type_.shape})"


@_HERE.rule(broadcast_to)
def _broadcast(equation: Equation, arguments: Sequence[str], names: Names) -> str | None:
    called = names.constant("broadcast_to", np.broadcast_to)
    return f"{called}({arguments[0]}, {equation.params['shape']})"


def dot(equation: Equation, arguments: Sequence[str], out: str = "") -> str | None:
    """A dot_general by the method `dot` of arrays, into `out` if given; None if it has no such
    form.
    """
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
    if out:
        return f"{first}.dot({second}, {out})" if flat else None
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
    def write(equation: Equation, arguments: Sequence[str], names: Names) -> str | None:
        if any(atom.type.weak for atom in equation.inputs):
            return None
        rest = f", {equation.params['axis']}" if "axis" in equation.params else ""
        return f"{names.constant(name, function)}(({', '.join(arguments)},){rest})"

    return write


_HERE[reshape] = lambda equation, args, names: f"{args[0]}.reshape({equation.params['shape']})"
_HERE[getitem] = lambda equation, args, names: names.part(
    args[0], equation.params["index"].entries, args[1:]
)
_HERE[dot_general] = lambda equation, args, names: names.product(equation, args)
_HERE[concatenate] = _joined("concatenate", np.concatenate)
_HERE[stack] = _joined("array", np.array)
_OF_NUMBERS = (convert, to_discrete, broadcast_to)
"""Primitives whose expressions also take Python numbers."""
WRITTEN = ByPrimitive(
    {"fungrad.primitives.linalg.solve": "fungrad.compiler.numpy_backend.lapack_expressions"}, _HERE
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
