"""Floor 6: matrices of Jacobians and Hessians stay lines as long as they are zero elsewhere.

The basis that a Jacobian pushes (or pulls) through a function is a diagonal. Elementwise functions,
slices and sums keep diagonals diagonals, so that only those are computed, at the cost of the
function instead of that of all columns; a product with a matrix scales its rows. What has no rule
here, or too many lines, is written out. As the zeros are known, an infinity beside them gives no
NaN; the sign of a zero is not kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.ir.graph import Atom, Graph, Literal
from fungrad.ir.types import Type
from fungrad.optimise.line_writer import LineWriter
from fungrad.optimise.lines import COLUMNS, ROWS, Line, Lines, Steps, steps_of
from fungrad.optimise.rewrite import copied, renamed
from fungrad.primitives.contracting import dot_general
from fungrad.primitives.elementwise import add, div, mul, neg, select, sub
from fungrad.primitives.indexing import Index, expanded, getitem, scatter
from fungrad.primitives.scattering import index_add
from fungrad.primitives.shaping import (
    broadcast_to,
    concatenate,
    convert,
    pad,
    reduce_sum,
    reshape,
    slice_axis,
    transpose,
)
from fungrad.primitives.stacking import basis

SMALLEST = 1 << 11
"""Elements of a basis below which NumPy computes all columns as fast as one."""
FOR_A_LINE = 1 << 10
"""Elements of a matrix that take as long as one more line."""

Found = Lines | Atom | None
Entries = Sequence[Any]


def thinned(graph: Graph) -> Graph:
    """The Graph with lines in place of the matrices that they make up."""
    if not any(equation.primitive is basis for equation in graph.equations):
        return graph
    writer = LineWriter(graph)
    names = writer.names
    constants = list(graph.constants)
    for equation in graph.equations:
        writer.like = equation
        inputs = renamed(equation.inputs, names)
        output = equation.outputs[0]
        found: Found = None
        rule = _RULES.get(equation.primitive)
        if equation.primitive is basis:
            if output.type.size < SMALLEST:
                constants.append((output, basis.eval(**equation.params)))
                continue
            found = _diagonal(output.type, equation.params["start"])
        elif rule is not None and any(id(atom) in writer.lines for atom in inputs):
            found = rule(writer, inputs, output.type, **equation.params)
        if isinstance(found, Lines):
            writer.lines[id(output)] = found
            if (len(found.values) - 1) * FOR_A_LINE > output.type.size:
                writer.written(output)
        elif found is not None:
            names[id(output)] = found
        else:
            given = tuple([writer.written(atom) for atom in inputs])
            results = writer.writer.write(copied(equation, given, equation.outputs))
            names.update(zip(map(id, equation.outputs), results, strict=True))
    outputs = tuple([writer.written(atom) for atom in renamed(graph.outputs, names)])
    equations = tuple(writer.writer.equations)
    return Graph(graph.inputs, tuple(constants), equations, outputs, graph.name)


def _diagonal(type_: Type, start: int) -> Lines:
    columns = type_.size // type_.shape[0]
    line = Line(Steps(start, 1, columns), Steps(0, 1, columns))
    values: dict[Line, Atom] = {line: Literal(type_.dtype.type(1))}
    return Lines(type_.shape, type_.shape[0], columns, type_.dtype, values)


# --- elementwise ----------------------------------------------------------------------------------


def _unary(primitive: Any) -> Callable[..., Found]:
    def rule(writer: LineWriter, inputs: Sequence[Atom], type_: Type, **params: Any) -> Found:
        lines = writer.lines[id(inputs[0])]
        values = {line: writer.add(primitive, v, **params) for line, v in lines.values.items()}
        return lines._replace(values=values, dtype=type_.dtype)

    return rule


def _scaled(primitive: Any) -> Callable[..., Found]:
    """Lines times an array, or over one."""

    def rule(writer: LineWriter, inputs: Sequence[Atom], type_: Type) -> Found:
        first, second = (writer.lines.get(id(atom)) for atom in inputs)
        lines, factor = (second, inputs[0]) if first is None else (first, inputs[1])
        if (first is not None and second is not None) or (first is None and primitive is div):
            return None
        assert lines is not None
        lines = lines.reshaped(type_.shape)
        if lines is None:
            return None
        along = writer.along(factor, lines)
        values = {}
        for line, value in lines.values.items():
            pair = (value, along(line)) if second is None else (along(line), value)
            values[line] = writer.add(primitive, *pair)
        return lines._replace(values=values, dtype=type_.dtype)

    return rule


def _both(writer: LineWriter, inputs: Sequence[Atom], type_: Type) -> tuple[Lines, Lines] | None:
    """The lines of two inputs, where both are known to be zero elsewhere."""
    like = next(writer.lines[id(a)] for a in inputs if id(a) in writer.lines)
    x, y = (writer.found(atom, type_.shape, like) for atom in inputs)
    return None if x is None or y is None else (x, y)


def _sum(writer: LineWriter, x: Lines, y: Lines, type_: Type, primitive: Any = add) -> Lines:
    values = dict(x.values)
    for line, value in y.values.items():
        if line in values:
            values[line] = writer.add(primitive, values[line], value)
        else:
            values[line] = value if primitive is add else writer.add(neg, value)
    return x._replace(values=values, dtype=type_.dtype)


def _joined(primitive: Any) -> Callable[..., Found]:
    """The sum or the difference of lines."""

    def rule(writer: LineWriter, inputs: Sequence[Atom], type_: Type) -> Found:
        pair = _both(writer, inputs, type_)
        return None if pair is None else _sum(writer, *pair, type_, primitive)

    return rule


def _select(writer: LineWriter, inputs: Sequence[Atom], type_: Type) -> Found:
    condition, *choices = inputs
    if id(condition) in writer.lines:
        return None
    pair = _both(writer, choices, type_)
    if pair is None:
        return None
    x, y = pair
    along = writer.along(condition, x)
    zero = Literal(type_.dtype.type(0))
    values = {
        line: writer.add(select, along(line), x.values.get(line, zero), y.values.get(line, zero))
        for line in dict.fromkeys((*x.values, *y.values))
    }
    return x._replace(values=values, dtype=type_.dtype)


# --- shapes and places ----------------------------------------------------------------------------


def _reshape(
    writer: LineWriter, inputs: Sequence[Atom], type_: Type, shape: tuple[int, ...]
) -> Found:
    lines = writer.lines[id(inputs[0])]
    return lines.reshaped(shape) if lines.rows * lines.columns == type_.size else None


def _transpose(
    writer: LineWriter, inputs: Sequence[Atom], type_: Type, axes: tuple[int, ...]
) -> Found:
    return writer.lines[id(inputs[0])].transposed(axes, type_.shape)


def _cut(writer: LineWriter, atom: Atom, type_: Type, entries: Entries) -> Found:
    """What slices and integers, one for each axis, read of lines."""
    lines = writer.lines[id(atom)]
    split = lines.split
    sides = [
        steps_of(part, some)
        for part, some in (
            (lines.shape[:split], entries[:split]),
            (lines.shape[split:], entries[split:]),
        )
    ]
    if any(steps is None for steps in sides) or not type_.size:
        return None
    values = {}
    for line, value in lines.values.items():
        left: Line | None = line
        for side, steps in zip((ROWS, COLUMNS), sides, strict=True):
            assert steps is not None
            found = None if left is None else left.cut(side, steps)
            left = None if found is None else found[0]
            if found is not None and value.type.shape:
                value = writer.part(value, found[1])
        if left is not None:
            values[left] = value
    rows, columns = (steps.length for steps in sides if steps is not None)
    return Lines(type_.shape, rows, columns, lines.dtype, values)


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


def _getitem(writer: LineWriter, inputs: Sequence[Atom], type_: Type, index: Index) -> Found:
    if len(inputs) > 1:
        return None
    return _cut(writer, inputs[0], type_, _entries(index, inputs[0].type.ndim))


def _slice(
    writer: LineWriter, inputs: Sequence[Atom], type_: Type, axis: int, start: int, stop: int
) -> Found:
    entries: list[Any] = [slice(None)] * type_.ndim
    entries[axis] = slice(start, stop)
    return _cut(writer, inputs[0], type_, entries)


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
    return None if whole is None else _sum(writer, whole, placed, type_)


def _pad(
    writer: LineWriter, inputs: Sequence[Atom], type_: Type, widths: Sequence[tuple[int, int]]
) -> Found:
    lengths = zip(inputs[0].type.shape, widths, strict=True)
    entries = [slice(before, before + length) for length, (before, _) in lengths]
    return _placed(writer.lines[id(inputs[0])], type_.shape, entries)


def _concatenate(writer: LineWriter, inputs: Sequence[Atom], type_: Type, axis: int) -> Found:
    total: Lines | None = None
    start = 0
    like = next(writer.lines[id(a)] for a in inputs if id(a) in writer.lines)
    for atom in inputs:
        lines = writer.found(atom, atom.type.shape, like)
        entries: list[Any] = [slice(None)] * type_.ndim
        entries[axis] = slice(start, start + atom.type.shape[axis])
        start += atom.type.shape[axis]
        placed = None if lines is None else _placed(lines, type_.shape, entries)
        if placed is None:
            return None
        total = placed if total is None else _sum(writer, total, placed, type_)
    return total


# --- sums and products ----------------------------------------------------------------------------


def _reduce_sum(
    writer: LineWriter, inputs: Sequence[Atom], type_: Type, axes: tuple[int, ...]
) -> Found:
    lines = writer.lines[id(inputs[0])]
    sides = lines.sides(axes)
    if sides is None or all(sides):
        return None
    if not any(sides):
        return lines.reshaped(type_.shape)
    kept = ROWS if sides[COLUMNS] else COLUMNS
    if any(line.side(kept).step == 0 for line in lines.values):
        return None
    pieces = [(line.side(kept), value) for line, value in lines.values.items()]
    return writer.reshaped(writer.joined(pieces, type_.size, type_.dtype), type_.shape)


def _dot(
    writer: LineWriter, inputs: Sequence[Atom], type_: Type, contract: Any, batch: Any
) -> Found:
    """A diagonal times a matrix: rows of that, times the diagonal's numbers."""
    which = 0 if id(inputs[0]) in writer.lines else 1
    lines, other = writer.lines[id(inputs[which])], inputs[1 - which]
    if id(other) in writer.lines or len(contract[0]) != 1 or batch[0]:
        return None
    sides = lines.sides(contract[which])
    if sides is None or sides[ROWS] == sides[COLUMNS]:
        return None
    gone = COLUMNS if sides[COLUMNS] else ROWS
    kept = 1 - gone
    (axis,) = contract[1 - which]
    size = lines.columns if kept else lines.rows
    before, after = other.type.shape[:axis], other.type.shape[axis + 1 :]
    total: Atom | None = None
    for line, value in lines.values.items():
        if 0 in (line.side(gone).step, line.side(kept).step):
            return None
        taken = other
        full = (slice(None),) * axis
        if not line.side(gone).covers(other.type.shape[axis]):
            taken = writer.add(getitem, other, index=Index((*full, line.side(gone).slice())))
        if value.type.shape:
            value = writer.reshaped(value, (value.type.size, *(1,) * len(after)))
        taken = writer.add(mul, taken, value)
        index = Index((*full, line.side(kept).slice()))
        if total is not None:
            total = writer.add(index_add, total, taken, index=index)
        elif line.side(kept).covers(size):
            total = taken
        else:
            total = writer.add(scatter, taken, index=index, shape=(*before, size, *after))
    if total is None:
        return None
    axes = [a for a in range(total.type.ndim) if a != axis]
    axes.insert(len(axes) if which else 0, axis)
    if axes != sorted(axes):
        total = writer.add(transpose, total, axes=tuple(axes))
    return writer.reshaped(writer.cast(total, type_.dtype), type_.shape)


_RULES: dict[Any, Callable[..., Found]] = {
    neg: _unary(neg),
    convert: _unary(convert),
    mul: _scaled(mul),
    div: _scaled(div),
    add: _joined(add),
    sub: _joined(sub),
    select: _select,
    reshape: _reshape,
    broadcast_to: _reshape,
    transpose: _transpose,
    getitem: _getitem,
    slice_axis: _slice,
    scatter: _scatter,
    index_add: _index_add,
    pad: _pad,
    concatenate: _concatenate,
    reduce_sum: _reduce_sum,
    dot_general: _dot,
}
"""By primitive: what it gives of lines, or None where they are written out first."""

__all__ = ["thinned"]
