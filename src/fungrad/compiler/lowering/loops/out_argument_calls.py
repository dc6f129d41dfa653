"""Calls of NumPy that write the output of an equation into memory that is there (`out=`).

Of several that do the same the cheapest on small arrays: where operands have the shape and the
layout of the result a ufunc takes a third of the time that it takes where it has to walk them.
Knows primitives; where values stand it asks `LoopMemory`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.array_lowering import placed
from fungrad.compiler.lowering.liveness import by_ufunc
from fungrad.compiler.lowering.loops.loop_buffer_assignment import (
    COLUMN,
    ROW_VECTOR,
    TRANSPOSED,
    LoopMemory,
    ViewForm,
)
from fungrad.compiler.lowering.numpy_expressions import as_ufunc
from fungrad.compiler.lowering.program import Call, Copy, Value, View
from fungrad.ir.graph import Equation, Variable
from fungrad.primitives.contraction.dot_general import dot_general, scales
from fungrad.primitives.linalg import lapack_calls
from fungrad.primitives.linalg.cholesky_qr import cholesky
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.primitives.movement.reshape_broadcast_cast import reduce_sum
from fungrad.primitives.movement.scatter import index_add
from fungrad.support.record import Record

FEW = 3
"""Rows whose sum is cheaper row by row than as a reduction."""
_LAPACK: dict[Any, Any] = {
    solve: lapack_calls.solve, inv: lapack_calls.inv, cholesky: lapack_calls.cholesky,
}  # fmt: skip
_KEYWORD = ("maximum", "minimum")
"""Ufuncs that want the place of the result by its name."""


class OutCall(Record):
    """What adds the nodes that write an output into given memory, and whether that may be the
    memory of an input.
    """

    emit: Callable[[Value], None]
    may_alias_input: bool = False


OutForm = Callable[[Equation, LoopMemory], OutCall]


def _ufunc(equation: Equation, memory: LoopMemory) -> OutCall:
    ufunc, operands = as_ufunc(equation, memory.operands(equation))
    shape = equation.outputs[0].type.shape
    for i, atom in enumerate(equation.inputs[: len(operands)]):
        if isinstance(atom, Variable) and atom.type.shape not in ((), shape):
            operands[i] = memory.broadcast(atom, shape)
    called = memory.constant(ufunc.__name__, ufunc)
    keyword = "out=" if ufunc.__name__ in _KEYWORD else ""

    def emit(out: Value) -> None:
        (*fields, target), inputs = placed([*operands, out])
        text = f"{called}({', '.join(fields)}, {keyword}{target})"
        memory.nodes.append(Call(text, inputs, out=out))

    return OutCall(emit, may_alias_input=True)


def _product(equation: Equation, memory: LoopMemory) -> OutCall:
    """`ndarray.dot`: the contracted axis is the last of the first, and the first of the second."""
    (i,), (j,) = equation.params["contract"]
    x, y = equation.inputs
    transposed = [x.type.ndim == 2 and i == 0, y.type.ndim == 2 and j == 1]
    return _dot(equation, memory, [TRANSPOSED if t else None for t in transposed])


def _outer(equation: Equation, memory: LoopMemory) -> OutCall:
    """The product of a column and a row: NumPy's own loops would walk both."""
    return _dot(equation, memory, [COLUMN, ROW_VECTOR])


def _dot(equation: Equation, memory: LoopMemory, forms: Sequence[ViewForm | None]) -> OutCall:
    operands = [memory.read(atom) for atom in equation.inputs]
    suffixes = ["", ""]
    for i, form in enumerate(forms):
        operand = operands[i]
        if form is not None and isinstance(operand, Value):
            operands[i], suffixes[i] = memory.viewed(operand, form)
    text = f"{{0}}{suffixes[0]}.dot({{1}}{suffixes[1]}, {{2}})"
    return OutCall(lambda out: memory.write(text, operands, out))


def _factored(equation: Equation, memory: LoopMemory) -> OutCall:
    called = memory.constant(equation.primitive.name, _LAPACK[equation.primitive])
    operands = [memory.read(atom) for atom in equation.inputs]
    fields = ", ".join([f"{{{i}}}" for i in range(len(operands) + 1)])
    return OutCall(lambda out: memory.write(f"{called}({fields})", operands, out))


def _summed(equation: Equation, memory: LoopMemory) -> OutCall:
    """A sum of few rows, in their order."""
    (x,) = equation.inputs
    assert isinstance(x, Variable)
    whole = memory.value(x)
    rows = [memory.viewed(whole, ViewForm(f"[{i}]", f"[:, {i}]")) for i in range(x.type.shape[0])]
    add = memory.constant("add", np.add)

    def emit(out: Value) -> None:
        (first, before), (second, behind) = rows[:2]
        memory.write(f"{add}({{0}}{before}, {{1}}{behind}, {{2}})", [first, second], out)
        for row, suffix in rows[2:]:
            memory.write(f"{add}({{0}}, {{1}}{suffix}, {{2}})", [out, row], out)
        memory.write(f"{add}({{0}}, 0.0, {{1}})", [out], out)  # as NumPy begins: of -0.0 it is 0.0

    return OutCall(emit)


def _added(equation: Equation, memory: LoopMemory) -> OutCall:
    """A copy, unless the memory has it, and what is added to a part of it."""
    x, values = map(memory.read, equation.inputs)
    entries = equation.params["index"].entries
    key, rows = memory.constant("k", entries), memory.constant("k", (slice(None), *entries))
    add = memory.constant("add", np.add)

    def emit(out: Value) -> None:
        if out is not x:
            memory.call("{0}[...] = {1}", [out, x], kind=Copy)
        part, suffix = memory.viewed(out, ViewForm(f"[{key}]", f"[{rows}]"))
        if suffix:
            source, part = part, Value()
            memory.nodes.append(View(f"{{0}}{suffix}", [source], [part]))
        memory.write(f"{add}({{0}}, {{1}}, {{2}})", [part, values], part)

    return OutCall(emit)


def out_call(equation: Equation) -> OutForm | None:
    """What makes the OutCall of an equation; None where there is none."""
    primitive: Any = equation.primitive
    if by_ufunc(equation):
        return _ufunc
    types = [atom.type for atom in equation.inputs]
    if primitive is dot_general:
        return _form_of_product(equation)
    if primitive in _LAPACK and equation.params.get("triangle", "") == "":
        return _factored
    output = equation.outputs[0].type if equation.outputs else None
    if primitive is reduce_sum and output is not None and output.shape and output.inexact:
        alone = equation.params["axes"] == (0,) and 2 <= types[0].shape[0] <= FEW
        return _summed if alone and types[0].dtype == output.dtype else None
    if primitive is index_add and len(types) == 2 and output is not None and output.shape:
        basic = all(type(e) in (int, slice) for e in equation.params["index"].entries)
        part = basic and np.empty(output.shape)[equation.params["index"].entries].shape
        same = types[1].dtype == output.dtype == types[0].dtype and output.inexact
        return _added if same and part and part == types[1].shape else None
    return None


def _form_of_product(equation: Equation) -> OutForm | None:
    if equation.params["batch"][0] or scales(*(atom.type for atom in equation.inputs)):
        return None
    dims = [a.type.ndim for a in equation.inputs]
    count = len(equation.params["contract"][0])
    if count == 1 and all(1 <= n <= 2 for n in dims) and sum(dims) > 2:
        return _product
    return _outer if count == 0 and dims == [1, 1] else None


__all__ = ["OutCall", "out_call"]
