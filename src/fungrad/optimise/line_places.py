"""Floor 6: what reshaping, slicing, padding and joining make of arrays of lines (`Lines`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.ir.graph import Atom
from fungrad.ir.types import Type
from fungrad.optimise.line_writer import Found, LineWriter
from fungrad.optimise.lines import COLUMNS, ROWS, Line, Lines, steps_of
from fungrad.primitives.arranging import roll
from fungrad.primitives.indexing import Index, expanded, getitem, scatter
from fungrad.primitives.scattering import index_add
from fungrad.primitives.shaping import (
    broadcast_to,
    concatenate,
    pad,
    reshape,
    slice_axis,
    transpose,
)

Entries = Sequence[Any]


def _reshape(
    writer: LineWriter, inputs: Sequence[Atom], type_: Type, shape: tuple[int, ...]
) -> Found:
    lines = writer.lines[id(inputs[0])]
    return lines.reshaped(shape) if lines.rows * lines.columns == type_.size else None


def _transpose(
    writer: LineWriter, inputs: Sequence[Atom], type_: Type, axes: tuple[int, ...]
) -> Found:
    return writer.lines[id(inputs[0])].transposed(axes, type_.shape)


def _cut(
    writer: LineWriter, lines: Lines, shape: tuple[int, ...], entries: Entries
) -> Lines | None:
    """What slices and integers, one for each axis, read of lines, in the shape that it has then."""
    split = lines.split
    sides = [
        steps_of(part, some)
        for part, some in (
            (lines.shape[:split], entries[:split]),
            (lines.shape[split:], entries[split:]),
        )
    ]
    if any(steps is None or not steps.length for steps in sides):
        return None
    values: dict[Line, Atom] = {}
    for line, value in lines.values.items():
        left: Line | None = line
        for side, steps in zip((ROWS, COLUMNS), sides, strict=True):
            assert steps is not None
            found = None if left is None else left.cut(side, steps)
            left = None if found is None else found[0]
            if found is not None and value.type.shape:
                value = writer.part(value, found[1])
        if left is not None:
            writer.put(values, left, value)
    rows, columns = (steps.length for steps in sides if steps is not None)
    return Lines(shape, rows, columns, lines.dtype, values)


def _placed(lines: Lines, shape: tuple[int, ...], entries: Entries) -> Lines | None:
    """Lines in the places of a larger array that slices and integers name."""
    for split in range(len(shape) + 1):
        rows = steps_of(shape[:split], entries[:split])
        columns = steps_of(shape[split:], entries[split:])
        if rows and columns and (rows.length, columns.length) == (lines.rows, lines.columns):
            break
    else:
        return None
    values = {
        line.moved(ROWS, rows).moved(COLUMNS, columns): value
        for line, value in lines.values.items()
    }
    sizes = math.prod(shape[:split]), math.prod(shape[split:])
    return Lines(shape, *sizes, lines.dtype, values)


def _entries(index: Index, ndim: int) -> Entries:
    """What an index without arrays says of each axis."""
    return [entry for entry in expanded(index, ndim) if entry is not None]


def _along(ndim: int, axis: int, entry: slice) -> Entries:
    """A slice of one axis."""
    return [entry if a == axis else slice(None) for a in range(ndim)]


def _getitem(writer: LineWriter, inputs: Sequence[Atom], type_: Type, index: Index) -> Found:
    if len(inputs) > 1:
        return None
    lines = writer.lines[id(inputs[0])]
    return _cut(writer, lines, type_.shape, _entries(index, inputs[0].type.ndim))


def _slice(
    writer: LineWriter, inputs: Sequence[Atom], type_: Type, axis: int, start: int, stop: int
) -> Found:
    entries = _along(type_.ndim, axis, slice(start, stop))
    return _cut(writer, writer.lines[id(inputs[0])], type_.shape, entries)


def _scatter(
    writer: LineWriter, inputs: Sequence[Atom], type_: Type, index: Index, shape: tuple[int, ...]
) -> Found:
    if len(inputs) > 1:
        return None
    return _placed(writer.lines[id(inputs[0])], shape, _entries(index, len(shape)))


def _index_add(writer: LineWriter, inputs: Sequence[Atom], type_: Type, index: Index) -> Found:
    x, values, *arrays = inputs
    lines = writer.lines.get(id(values))
    if arrays or lines is None:
        return None
    placed = _placed(lines, type_.shape, _entries(index, type_.ndim))
    if placed is None:
        return None
    whole = writer.found(x, type_.shape, placed)
    return None if whole is None else writer.summed(whole, placed, type_)


def _pad(
    writer: LineWriter, inputs: Sequence[Atom], type_: Type, widths: Sequence[tuple[int, int]]
) -> Found:
    lengths = zip(inputs[0].type.shape, widths, strict=True)
    entries = [slice(before, before + length) for length, (before, _) in lengths]
    return _placed(writer.lines[id(inputs[0])], type_.shape, entries)


def _concatenate(writer: LineWriter, inputs: Sequence[Atom], type_: Type, axis: int) -> Found:
    like = next(writer.lines[id(a)] for a in inputs if id(a) in writer.lines)
    parts = [writer.found(atom, atom.type.shape, like) for atom in inputs]
    return _in_a_row(writer, parts, type_, axis)


def _in_a_row(
    writer: LineWriter, parts: Sequence[Lines | None], type_: Type, axis: int
) -> Lines | None:
    total: Lines | None = None
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
    writer: LineWriter, inputs: Sequence[Atom], type_: Type, shifts: Entries, axes: Entries
) -> Found:
    lines: Lines | None = writer.lines[id(inputs[0])]
    for shift, axis in zip(shifts, axes, strict=True):
        length = type_.shape[axis]
        first = -shift % length
        if lines is not None and first:
            parts = []
            for piece in (slice(first, length), slice(first)):
                count = len(range(length)[piece])
                shape = (*type_.shape[:axis], count, *type_.shape[axis + 1 :])
                parts.append(_cut(writer, lines, shape, _along(type_.ndim, axis, piece)))
            lines = _in_a_row(writer, parts, type_, axis)
    return lines


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
