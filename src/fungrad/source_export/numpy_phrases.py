"""Equations as one writes them in NumPy, for people: `x @ w`, `np.sum(x, axis=0)`.

Each gives the numbers, dtypes and kinds of values that `eval` gives. A primitive without a phrase
has an expression (numpy_expressions.py), or is a call. Knows primitives and Types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import Equation, Literal
from fungrad.ir.types import PYTHON_SCALARS
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.gather import ARRAY, getitem
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    convert,
    to_discrete,
)
from fungrad.primitives.movement.stack_iota import iota
from fungrad.primitives.primitive import full
from fungrad.source_export.constants import Values, shape_text

LETTERS = "abcdefghijklmnopqrstuvwxyz"

_REDUCTIONS = {
    np.add: "sum", np.maximum: "max", np.minimum: "min", np.logical_or: "any",
    np.logical_and: "all",
}  # fmt: skip
"""What NumPy calls a reduction by a ufunc."""


def phrased(equation: Equation, arguments: Sequence[str], values: Values) -> str | None:
    """The phrase for an equation's only output; None where there is none."""
    primitive: Any = equation.primitive
    function = _REDUCTIONS.get(primitive.reduces)
    if function is not None and not equation.inputs[0].type.weak:
        axes = equation.params["axes"]
        if len(axes) == equation.inputs[0].type.ndim:
            return f"np.{function}({arguments[0]})"
        return f"np.{function}({arguments[0]}, axis={axes[0] if len(axes) == 1 else axes})"
    write = _PHRASES.get(primitive)
    return None if write is None else write(equation, arguments, values)


def literal(atom: Literal, others: Sequence[Any], values: Values) -> str:
    """The text of a literal: plain where it promotes as a Python number does."""
    value: Any = atom.value
    if type(value) is np.float64 and any(
        not t.weak and t.dtype == np.float64 for t in others
    ):  # fmt: skip
        value = float(value)
    text = values.value("c", value)
    return f"({text})" if text.startswith("-") else text


# --- shapes, casts --------------------------------------------------------------------------------


def _strong(equation: Equation) -> bool:
    return not any(atom.type.weak for atom in equation.inputs)


def _broadcast(equation: Equation, arguments: Sequence[str], values: Values) -> str | None:
    return f"np.broadcast_to({arguments[0]}, {equation.params['shape']})"


def _cast(equation: Equation, arguments: Sequence[str], values: Values) -> str | None:
    before, after = equation.inputs[0].type, equation.params["dtype"]
    if after.kind not in "fciub" or (before.dtype.kind == "c" and after.kind != "c"):
        return None
    if not before.weak:
        return f"{arguments[0]}.astype({values.dtype(after)})"
    if before.dtype.kind in "fib" and after.kind in "fc" and after.itemsize >= 8:
        return f"{values.dtype(after, 'np.bool_')}({arguments[0]})"
    return None


def _discrete(equation: Equation, arguments: Sequence[str], values: Values) -> str | None:
    before, after = equation.inputs[0].type, equation.params["dtype"]
    if before.shape:
        return _cast(equation, arguments, values)
    kinds = (before.dtype.kind, after.kind)
    if kinds[0] not in "iub" or kinds[1] not in "fiub":
        return None
    return f"{values.dtype(after, 'np.bool_')}({arguments[0]})"


def _select(equation: Equation, arguments: Sequence[str], values: Values) -> str | None:
    if equation.outputs[0].type.shape or equation.outputs[0].type.weak:
        return None
    return f"np.where({', '.join(arguments)})[()]"


def _full(equation: Equation, arguments: Sequence[str], values: Values) -> str | None:
    shape, dtype, value = (equation.params[k] for k in ("shape", "dtype", "value"))
    kind = values.dtype_after(dtype)
    if type(value) in PYTHON_SCALARS and value == 0 and not np.signbit(value):
        return f"np.zeros({shape_text(shape)}{kind})"
    if not (type(value) is float and dtype == np.float64):
        kind = f", {values.dtype(dtype)}"
    return f"np.full({shape_text(shape)}, {values.value('c', value)}{kind})"


def _iota(equation: Equation, arguments: Sequence[str], values: Values) -> str | None:
    shape = equation.params["shape"]
    count = equation.outputs[0].type.size
    return f"np.arange({count})" + (f".reshape({shape})" if len(shape) != 1 else "")


# --- indexing, contractions -----------------------------------------------------------------------


def index_text(index: Any, arrays: Sequence[str] = ()) -> str:
    """An index as one writes it: `1:, None`."""
    given = iter(arrays)
    return ", ".join(next(given) if e == ARRAY else _entry(e) for e in index.entries) or "()"


def _entry(entry: Any) -> str:
    if isinstance(entry, slice):
        parts = [entry.start, entry.stop] + ([] if entry.step is None else [entry.step])
        return ":".join("" if part is None else str(part) for part in parts)
    return "..." if entry is Ellipsis else repr(entry)


def _getitem(equation: Equation, arguments: Sequence[str], values: Values) -> str | None:
    x, *arrays = arguments
    if equation.inputs[0].type.weak or isinstance(equation.inputs[0], Literal):
        x = f"np.asarray({x})"
    return f"{x}[{index_text(equation.params['index'], arrays)}]"


def _dot(equation: Equation, arguments: Sequence[str], values: Values) -> str | None:
    x, y = (atom.type for atom in equation.inputs)
    contract, batch = equation.params["contract"], equation.params["batch"]
    inexact = x.dtype.kind in "fc" and x.dtype == y.dtype
    if inexact and not batch[0] and len(contract[0]) == 1 and {x.ndim, y.ndim} <= {1, 2}:
        left = arguments[0] if contract[0][0] == x.ndim - 1 else f"{arguments[0]}.T"
        right = arguments[1] if contract[1][0] == 0 else f"{arguments[1]}.T"
        return f"{left} @ {right}"
    if not _strong(equation) or x.dtype.kind == "b" or y.dtype.kind == "b":
        return None
    letters = iter(LETTERS)
    first = [next(letters) for _ in range(x.ndim)]
    second = [next(letters) for _ in range(y.ndim)]
    for i, j in (*zip(*batch, strict=True), *zip(*contract, strict=True)):
        second[j] = first[i]
    free = [first[i] for i in range(x.ndim) if i not in (*batch[0], *contract[0])]
    free += [second[j] for j in range(y.ndim) if j not in (*batch[1], *contract[1])]
    out = "".join([*(first[i] for i in batch[0]), *free])
    spec = f"{''.join(first)},{''.join(second)}->{out}"
    return f'np.einsum("{spec}", {", ".join(arguments)}, optimize=True)'


_PHRASES: dict[Any, Any] = {
    broadcast_to: _broadcast,
    convert: _cast,
    to_discrete: _discrete,
    select: _select,
    full: _full,
    iota: _iota,
    getitem: _getitem,
    dot_general: _dot,
}

__all__ = ["index_text", "literal", "phrased"]
