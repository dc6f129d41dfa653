"""Calls of NumPy that write what an equation makes into memory that is there.

Of several that do the same the cheapest on small arrays: where operands have the shape and the
layout of the result a ufunc takes a third of the time that it takes where it has to walk them.
Knows primitives; where values stand it asks `Places`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.compiler.lowering.liveness import by_ufunc
from fungrad.compiler.lowering.loops.loop_buffer_assignment import COLUMN, ROW, TURNED, Places, View
from fungrad.compiler.lowering.numpy_expressions import as_ufunc
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


class Call(Record):
    """What writes a value to a place of that name, and whether that may be what it reads."""

    lines: Callable[[str], list[str]]
    over: bool = False


def _ufunc(equation: Equation, places: Places) -> Call:
    ufunc, arguments = as_ufunc(equation, places.operands(equation))
    shape = equation.outputs[0].type.shape
    before: list[str] = []
    for i, atom in enumerate(equation.inputs[: len(arguments)]):
        if isinstance(atom, Variable) and atom.type.shape not in ((), shape):
            arguments[i], more = places.spread(atom, arguments[i], shape)
            before += more
    called = places.constant(ufunc.__name__, ufunc)
    keyword = "out=" if ufunc.__name__ in _KEYWORD else ""
    given = ", ".join(arguments)
    return Call(lambda place: [*before, f"{called}({given}, {keyword}{place})"], over=True)


def _product(equation: Equation, places: Places) -> Call:
    """`ndarray.dot`: the contracted axis is the last of the first, and the first of the second."""
    (i,), (j,) = equation.params["contract"]
    x, y = equation.inputs
    turned = [x.type.ndim == 2 and i == 0, y.type.ndim == 2 and j == 1]
    names = [places.read(atom) for atom in (x, y)]
    left, right = (
        places.seen(n, TURNED) if turn else n for n, turn in zip(names, turned, strict=True)
    )
    return Call(lambda place: [f"{left}.dot({right}, {place})"])


def _outer(equation: Equation, places: Places) -> Call:
    """The product of a column and a row: NumPy's own loops would walk both."""
    x, y = map(places.read, equation.inputs)
    left, right = places.seen(x, COLUMN), places.seen(y, ROW)
    return Call(lambda place: [f"{left}.dot({right}, {place})"])


def _factored(equation: Equation, places: Places) -> Call:
    called = places.constant(equation.primitive.name, _LAPACK[equation.primitive])
    given = ", ".join(map(places.read, equation.inputs))
    return Call(lambda place: [f"{called}({given}, {place})"])


def _summed(equation: Equation, places: Places) -> Call:
    """A sum of few rows, in their order."""
    (x,) = equation.inputs
    name = places.read(x)
    rows = [places.seen(name, View(f"[{i}]", f"[:, {i}]")) for i in range(x.type.shape[0])]
    add = places.constant("add", np.add)

    def lines(place: str) -> list[str]:
        sums = [f"{add}({rows[0]}, {rows[1]}, {place})"]
        sums += [f"{add}({place}, {row}, {place})" for row in rows[2:]]
        return [*sums, f"{add}({place}, 0.0, {place})"]  # as NumPy begins: of -0.0 it makes 0.0

    return Call(lines)


def _added(equation: Equation, places: Places) -> Call:
    """A copy, unless the place has it, and what is added to a part of it."""
    x, values = map(places.read, equation.inputs)
    entries = equation.params["index"].entries
    key, rows = places.constant("k", entries), places.constant("k", (slice(None), *entries))
    add = places.constant("add", np.add)

    def lines(place: str) -> list[str]:
        copied = [] if place == x else [f"{place}[...] = {x}"]
        part = places.seen(place, View(f"[{key}]", f"[{rows}]"))
        if part.isidentifier():
            return [*copied, f"{add}({part}, {values}, {part})"]
        return [*copied, f"part = {part}", f"{add}(part, {values}, part)"]

    return Call(lines)


def form(equation: Equation) -> Callable[[Equation, Places], Call] | None:
    """What writes the call for an equation; None where nothing can be written to a place."""
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


def _form_of_product(equation: Equation) -> Callable[[Equation, Places], Call] | None:
    if equation.params["batch"][0] or scales(*(atom.type for atom in equation.inputs)):
        return None
    dims = [a.type.ndim for a in equation.inputs]
    count = len(equation.params["contract"][0])
    if count == 1 and all(1 <= n <= 2 for n in dims) and sum(dims) > 2:
        return _product
    return _outer if count == 0 and dims == [1, 1] else None


__all__ = ["Call", "form"]
