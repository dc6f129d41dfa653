"""Floor 6: matrices of Jacobians and Hessians stay lines as long as they are zero elsewhere.

The basis that a Jacobian pushes (or pulls) through a function is a diagonal. Elementwise functions,
slices and sums keep diagonals diagonals, so that only those are computed, at the cost of the
function instead of that of all columns; a product with a matrix scales its rows. What has no rule
here, or too many lines, is written out. As the zeros are known, an infinity beside them gives no
NaN; the sign of a zero is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.ir.graph import Atom, Graph, Literal
from fungrad.ir.types import Type
from fungrad.optimise.line_places import PLACES
from fungrad.optimise.line_writer import Found, LineWriter
from fungrad.optimise.lines import COLUMNS, ROWS, Line, Lines, Steps
from fungrad.optimise.rewrite import copied, renamed
from fungrad.primitives.contracting import dot_general
from fungrad.primitives.elementwise import add, div, mul, neg, select, sub
from fungrad.primitives.indexing import Index, getitem
from fungrad.primitives.shaping import convert, reduce_sum, transpose
from fungrad.primitives.stacking import basis

SMALLEST = 1 << 11
"""Elements of a basis below which NumPy computes all columns as fast as one."""
FOR_A_LINE = 1 << 10
"""Elements of a matrix that take as long as one more line."""


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


def _joined(primitive: Any) -> Callable[..., Found]:
    """The sum or the difference of lines."""

    def rule(writer: LineWriter, inputs: Sequence[Atom], type_: Type) -> Found:
        pair = _both(writer, inputs, type_)
        if pair is not None:
            return writer.summed(*pair, type_, minus=primitive is sub)
        x, y = inputs
        if id(y) not in writer.lines and primitive is add:
            x, y = y, x
        lines = writer.lines.get(id(y))
        if lines is None or id(x) in writer.lines or not x.type == lines.type == type_:
            return None
        if primitive is sub:
            lines = writer.summed(lines._replace(values={}), lines, type_, minus=True)
        return writer.placed(lines, onto=x)

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
    return writer.reshaped(writer.joined(pieces, (type_.size,), type_.dtype), type_.shape)


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
    found = [(line.side(gone), line.side(kept), value) for line, value in lines.values.items()]
    if not found or any(0 in (read.step, put.step) for read, put, _ in found):
        return None
    pieces = []
    for read, put, value in found:
        taken = other
        if not read.covers(other.type.shape[axis]):
            index = Index((*[slice(None)] * axis, read.slice()))
            taken = writer.add(getitem, other, index=index)
        if value.type.shape:
            value = writer.reshaped(value, (value.type.size, *(1,) * len(after)))
        pieces.append((put, writer.add(mul, taken, value)))
    total = writer.joined(pieces, (*before, size, *after), pieces[0][1].type.dtype, axis)
    axes = [a for a in range(total.type.ndim) if a != axis]
    axes.insert(len(axes) if which else 0, axis)
    if axes != sorted(axes):
        total = writer.add(transpose, total, axes=tuple(axes))
    return writer.reshaped(writer.cast(total, type_.dtype), type_.shape)


_RULES: dict[Any, Callable[..., Found]] = {
    **PLACES,
    neg: _unary(neg),
    convert: _unary(convert),
    mul: _scaled(mul),
    div: _scaled(div),
    add: _joined(add),
    sub: _joined(sub),
    select: _select,
    reduce_sum: _reduce_sum,
    dot_general: _dot,
}
"""By primitive: what it gives of lines, or None where they are written out first."""

__all__ = ["thinned"]
