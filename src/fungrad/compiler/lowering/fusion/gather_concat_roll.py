"""Equations that gather rows by their numbers, put rows together from parts, roll arrays,
and add rows up by numbers, done block by block.

`form` says where the rows lie, `called` which function of NumPy's does a block. Knows the
primitives; writes no program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.fusion.row_access_type import REDUCED, RowAccess
from fungrad.compiler.passes.rewriter import placed
from fungrad.ir.graph import Equation, Graph, Literal
from fungrad.primitives.movement.diagonal_roll import roll
from fungrad.primitives.movement.gather import ARRAY, expanded, getitem, of_int, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import concatenate
from fungrad.primitives.movement.stack_iota import stack, unstack

COLUMNS = 32
"""The most numbers of a row that are added by the row's number: a call for each."""
PARTS = 32
"""The most parts of an array that are read, or put together, in the blocks of a region."""


def gathers(equation: Equation) -> bool:
    """Whether an equation reads rows by their numbers, no more elements than it gives."""
    if equation.primitive is not getitem:
        return False
    x, *at = [atom.type for atom in equation.inputs]
    fits = x.size <= equation.outputs[0].type.size
    return fits and _by_number(equation, x.shape, at) is not None


def scatters(equation: Equation) -> bool:
    """Whether an equation adds up rows by numbers, to no more elements than it reads."""
    if equation.primitive is not scatter or equation.params["index"].unique:
        return False
    (values, *at), out = [atom.type for atom in equation.inputs], equation.outputs[0].type
    axis = _by_number(equation, out.shape, at)
    if axis is None or out.dtype.kind not in "fc" or out.size > values.size:
        return False
    return values.size <= COLUMNS * values.shape[axis]


def joins(equation: Equation) -> bool:
    """Whether an equation puts few arrays together."""
    few = equation.primitive in (stack, concatenate) and len(equation.inputs) <= PARTS
    return few and not any(isinstance(atom, Literal) for atom in equation.inputs)


def rolls(equation: Equation) -> bool:
    """Whether an equation rolls an array along one axis."""
    return equation.primitive is roll and len(equation.params["axes"]) == 1


def moves(equation: Equation) -> bool:
    """Whether an equation moves elements about, by rows, and computes nothing."""
    return gathers(equation) or joins(equation) or rolls(equation)


def axis_by_number(equation: Equation) -> int:
    """The axis whose entries are read or written by number."""
    return expanded(equation.params["index"], equation.inputs[0].type.ndim).index(ARRAY)


def _by_number(equation: Equation, shape: Sequence[int], at: Sequence[Any]) -> int | None:
    if len(at) != 1 or at[0].ndim != 1 or not np.can_cast(at[0].dtype, np.intp):
        return None
    entries = expanded(equation.params["index"], len(shape))
    whole = [entry for entry in entries if entry != slice(None)]
    return entries.index(ARRAY) if whole == [ARRAY] else None


def form(equation: Equation, axes: Sequence[int | None]) -> RowAccess | None:
    """How an equation is done by rows, None where it is none of these, or its rows lie otherwise.

    Args:
      equation: the equation.
      axes: for each input the axis along which its rows lie, None where it has none of its own.
    """
    if gathers(equation) and axes[0] is None:
        axis = axis_by_number(equation)
        return RowAccess((None, 0), axis)
    if scatters(equation):
        axis = axis_by_number(equation)
        return RowAccess((axis, 0), REDUCED) if axes[0] in (None, axis) else None
    if rolls(equation):
        at = axes[0]
        return None if at is None or at in equation.params["axes"] else RowAccess((at,), at)
    if not joins(equation):
        return None
    (axis, *others) = {axis for axis in axes if axis is not None}
    if others or (equation.primitive is concatenate and equation.params["axis"] == axis):
        return None
    return RowAccess((axis,) * len(axes), axis + (equation.primitive is stack))


def form_of_roll(equation: Equation, axis: int) -> RowAccess:
    """How an array that no region makes is rolled by rows along an axis: if that is the one along
    which it is rolled, rows of the whole are read from another place.
    """
    return RowAccess((None if axis in equation.params["axes"] else axis,), axis)


def rolled(x: Any, shift: int, axis: int, start: int, stop: int, out: Any) -> Any:
    """The rows from `start` to `stop` of what x is rolled to: rows of x, or `out`, where those do
    not stand together.
    """
    first, length = (start - shift) % x.shape[axis], stop - start
    if first + length <= x.shape[axis]:
        return x[(*[slice(None)] * axis, slice(first, first + length))]
    roll_into(x, shift, axis, start, stop, out)
    return out


def roll_into(x: Any, shift: int, axis: int, start: int, stop: int, out: Any) -> None:
    """Writes the rows from `start` to `stop` of what x is rolled to along their axis."""
    before, first = (slice(None),) * axis, (start - shift) % x.shape[axis]
    rows = x[(*before, slice(first, first + stop - start))]
    count = rows.shape[axis]
    np.copyto(out[(*before, slice(count))], rows)
    np.copyto(out[(*before, slice(count, None))], x[(*before, slice(stop - start - count))])


def taken(x: Any, at: Any, axis: int, order: Sequence[int], out: Any) -> None:
    """Writes the entries of x at some numbers along an axis; `order` is that of axes in memory."""
    x.transpose(order).take(at, order.index(axis), out.transpose(order))


def summed(total: Any, values: Any, at: Any, axis: int, shape: Sequence[int]) -> Any:
    """Adds rows to those that their numbers name in what was added up before, zeros at first."""
    if total is None:
        total = np.zeros(shape, values.dtype)
    out, values = np.moveaxis(total, axis, -1), np.moveaxis(values, axis, -1)
    for place in np.ndindex(out.shape[:-1]):
        np.add.at(out[place], at, values[place])
    return total


def places(equation: Equation) -> list[tuple[Any, ...]]:
    """The indices of what is put together."""
    if equation.primitive is stack:
        return [(i,) for i in range(len(equation.inputs))]
    found, start, axis = [], 0, equation.params["axis"]
    for atom in equation.inputs:
        stop = start + atom.type.shape[axis]
        found.append((*[slice(None)] * axis, slice(start, stop)))
        start = stop
    return found


def taken_apart(graph: Graph, size: int) -> list[Equation]:
    """The equations, with one for each part where an array of this size at least is taken apart."""
    found: list[Equation] = []
    for equation in graph.equations:
        parts = equation.outputs
        large = equation.primitive is unstack and equation.inputs[0].type.size >= size
        if not large or len(parts) > PARTS:
            found.append(equation)
            continue
        found += [
            placed(equation, getitem, equation.inputs, (part,), {"index": of_int(i)})
            for i, part in enumerate(parts)
        ]
    return found


__all__ = [
    "axis_by_number", "form", "form_of_roll", "gathers", "joins", "moves", "places", "roll_into",
    "rolled", "rolls", "scatters", "summed", "taken", "taken_apart",
]  # fmt: skip
