"""What reshaping, slicing, padding and joining make of diagonals (`Diagonals`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler.passes.jacobian_sparsity.diagonal_matrix import (
    COLUMNS,
    ROWS,
    Diagonal,
    Diagonals,
    steps_of,
)
from fungrad.compiler.passes.jacobian_sparsity.writer import DiagonalWriter, Found
from fungrad.ir.graph import Atom
from fungrad.ir.types import Type
from fungrad.primitives.movement.diagonal_roll import roll
from fungrad.primitives.movement.gather import Index, expanded, getitem, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    concatenate,
    pad,
    reshape,
    slice_axis,
    transpose,
)
from fungrad.primitives.movement.scatter import index_add

Entries = Sequence[Any]


def _reshape(
    writer: DiagonalWriter, inputs: Sequence[Atom], type_: Type, shape: tuple[int, ...]
) -> Found:
    diagonals = writer.diagonals[id(inputs[0])]
    return diagonals.reshaped(shape) if diagonals.rows * diagonals.columns == type_.size else None


def _transpose(
    writer: DiagonalWriter, inputs: Sequence[Atom], type_: Type, axes: tuple[int, ...]
) -> Found:
    return writer.diagonals[id(inputs[0])].transposed(axes, type_.shape)


def _cut(
    writer: DiagonalWriter, diagonals: Diagonals, shape: tuple[int, ...], entries: Entries
) -> Diagonals | None:
    """What slices and integers, one for each axis, read of diagonals, in the shape of that."""
    split = diagonals.split
    sides = [
        steps_of(part, some)
        for part, some in (
            (diagonals.shape[:split], entries[:split]),
            (diagonals.shape[split:], entries[split:]),
        )
    ]
    if any(steps is None or not steps.length for steps in sides):
        return None
    values: dict[Diagonal, Atom] = {}
    for diagonal, value in diagonals.values.items():
        left: Diagonal | None = diagonal
        for side, steps in zip((ROWS, COLUMNS), sides, strict=True):
            assert steps is not None
            found = None if left is None else left.cut(side, steps)
            left = None if found is None else found[0]
            if found is not None and value.type.shape:
                value = writer.part(value, found[1])
        if left is not None:
            writer.put(values, left, value)
    rows, columns = (steps.length for steps in sides if steps is not None)
    return Diagonals(shape, rows, columns, diagonals.dtype, values)


def _placed(diagonals: Diagonals, shape: tuple[int, ...], entries: Entries) -> Diagonals | None:
    """Diagonals in the places of a larger array that slices and integers name."""
    for split in range(len(shape) + 1):
        rows = steps_of(shape[:split], entries[:split])
        columns = steps_of(shape[split:], entries[split:])
        if (
            rows
            and columns
            and (rows.length, columns.length) == (diagonals.rows, diagonals.columns)
        ):
            break
    else:
        return None
    values = {
        diagonal.moved(ROWS, rows).moved(COLUMNS, columns): value
        for diagonal, value in diagonals.values.items()
    }
    sizes = math.prod(shape[:split]), math.prod(shape[split:])
    return Diagonals(shape, *sizes, diagonals.dtype, values)


def _entries(index: Index, ndim: int) -> Entries:
    """What an index without arrays says of each axis."""
    return [entry for entry in expanded(index, ndim) if entry is not None]


def _along(ndim: int, axis: int, entry: slice) -> Entries:
    """A slice of one axis."""
    return [entry if a == axis else slice(None) for a in range(ndim)]


def _getitem(writer: DiagonalWriter, inputs: Sequence[Atom], type_: Type, index: Index) -> Found:
    if len(inputs) > 1:
        return None
    diagonals = writer.diagonals[id(inputs[0])]
    return _cut(writer, diagonals, type_.shape, _entries(index, inputs[0].type.ndim))


def _slice(
    writer: DiagonalWriter, inputs: Sequence[Atom], type_: Type, axis: int, start: int, stop: int
) -> Found:
    entries = _along(type_.ndim, axis, slice(start, stop))
    return _cut(writer, writer.diagonals[id(inputs[0])], type_.shape, entries)


def _scatter(
    writer: DiagonalWriter,
    inputs: Sequence[Atom],
    type_: Type,
    index: Index,
    shape: tuple[int, ...],
) -> Found:
    if len(inputs) > 1:
        return None
    return _placed(writer.diagonals[id(inputs[0])], shape, _entries(index, len(shape)))


def _index_add(writer: DiagonalWriter, inputs: Sequence[Atom], type_: Type, index: Index) -> Found:
    x, values, *arrays = inputs
    diagonals = writer.diagonals.get(id(values))
    if arrays or diagonals is None:
        return None
    placed = _placed(diagonals, type_.shape, _entries(index, type_.ndim))
    if placed is None:
        return None
    whole = writer.found(x, type_.shape, placed)
    return None if whole is None else writer.summed(whole, placed, type_)


def _pad(
    writer: DiagonalWriter, inputs: Sequence[Atom], type_: Type, widths: Sequence[tuple[int, int]]
) -> Found:
    lengths = zip(inputs[0].type.shape, widths, strict=True)
    entries = [slice(before, before + length) for length, (before, _) in lengths]
    return _placed(writer.diagonals[id(inputs[0])], type_.shape, entries)


def _concatenate(writer: DiagonalWriter, inputs: Sequence[Atom], type_: Type, axis: int) -> Found:
    like = next(writer.diagonals[id(a)] for a in inputs if id(a) in writer.diagonals)
    parts = [writer.found(atom, atom.type.shape, like) for atom in inputs]
    return _in_a_row(writer, parts, type_, axis)


def _in_a_row(
    writer: DiagonalWriter, parts: Sequence[Diagonals | None], type_: Type, axis: int
) -> Diagonals | None:
    total: Diagonals | None = None
    start = 0
    for part in parts:
        if part is None:
            return None
        stop = start + part.shape[axis]
        placed = _placed(part, type_.shape, _along(type_.ndim, axis, slice(start, stop)))
        if placed is None:
            return None
        total = placed if total is None else writer.summed(total, placed, type_)
        start = stop
    return total


def _roll(
    writer: DiagonalWriter, inputs: Sequence[Atom], type_: Type, shifts: Entries, axes: Entries
) -> Found:
    diagonals: Diagonals | None = writer.diagonals[id(inputs[0])]
    for shift, axis in zip(shifts, axes, strict=True):
        length = type_.shape[axis]
        first = -shift % length
        if diagonals is not None and first:
            parts = []
            for piece in (slice(first, length), slice(first)):
                count = len(range(length)[piece])
                shape = (*type_.shape[:axis], count, *type_.shape[axis + 1 :])
                parts.append(_cut(writer, diagonals, shape, _along(type_.ndim, axis, piece)))
            diagonals = _in_a_row(writer, parts, type_, axis)
    return diagonals


PLACES: dict[Any, Callable[..., Found]] = {
    reshape: _reshape,
    broadcast_to: _reshape,
    transpose: _transpose,
    getitem: _getitem,
    slice_axis: _slice,
    scatter: _scatter,
    index_add: _index_add,
    pad: _pad,
    concatenate: _concatenate,
    roll: _roll,
}
"""By primitive."""

__all__ = ["PLACES"]
