"""Fusion clustering: which equations over large arrays run together, tile by tile.

Equations of one odd level (`Levels`) with the same number of rows form a cluster.

The gradient of slicing is an output assembled from slices: `scatter` puts a value into an array of
zeros, and each following `index_add` adds another. The cluster stores its values directly into that
output: the gradient of Rosenbrock's function of a million numbers takes half the time and a fifth
of the memory.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from fungrad.compiler.cost_model import costs
from fungrad.compiler.levels import Levels
from fungrad.compiler.numpy_backend.fusion.row_access import (
    REDUCED,
    RowAccess,
    axis_of,
    form,
    gathered_axis,
    matrix_first,
    multiplies,
    product,
    split_unstacks,
)
from fungrad.ir.graph import Atom, Equation, Graph, Variable, effectful
from fungrad.primitives.elementwise.by_elements import elementwise
from fungrad.primitives.facts import sections_of
from fungrad.primitives.movement.gather import scatter
from fungrad.primitives.movement.scatter import index_add
from fungrad.primitives.movement.static_index import slice_of
from fungrad.retracing.inlining import copied
from fungrad.support.lazy import Record

Readers = Mapping[Atom, Sequence[Equation | None]]
"""For the identity of each variable, the equations that read it; None stands for the output."""
Key = tuple[int, int]
"""A region: its level and its number of rows."""


class Part(Record):
    """A value, and its place in an output.

    `place` has a slice or an integer for each axis of the output; None if the value is the whole
    output. `axis` is the output's row axis. The first row of the value goes to row `offset`.
    """

    value: Variable
    place: tuple[Any, ...] | None
    axis: int
    offset: int


class FusionCluster(Record):
    """Fused equations, their inputs, and their outputs.

    `body` is the Graph of the equations. `axes` maps each value to its row axis: None if each tile
    reads the whole value, REDUCED if it is complete after the last tile. `inputs` are the outer
    variables of the body's inputs. `made` has for each output the parts that it is the sum of.
    `inner` are the outputs that only equations read.
    """

    length: int
    body: Graph
    axes: dict[Variable, Any]
    inputs: list[Variable]
    outputs: list[Variable]
    made: list[list[Part]]
    inner: Collection[Variable]

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def equations(self) -> Sequence[Equation]:
        """The fused equations."""
        return self.body.equations

    def __repr__(self) -> str:
        return f"cluster of {len(self.equations)} equations on {self.length} rows:\n{self.body!r}"


class _Finder:
    """Assigns levels to values, and row axes to the values of clusters."""

    def __init__(self) -> None:
        self.level = Levels()
        self.rows: dict[Atom, tuple[Key, int]] = {}
        self.regions: dict[Key, list[tuple[Equation, RowAccess]]] = {}
        self.others: dict[int, list[Equation]] = {}
        self.acted = 0

    def place(self, equation: Equation) -> None:
        """Adds an equation to a cluster if it can run row by row, else to the other equations."""
        level = self.level.odd(equation.inputs)
        inside = {self.rows[a][0] for a in equation.inputs if self._rows_at(a, level)}
        found = None
        if len(inside) == 1:
            ((_, length),) = inside
            axes = [self.rows[a][1] if self._rows_at(a, level) else None
                    for a in equation.inputs]  # fmt: skip
            found = form(equation, axes, length)
        if found is None:
            level += 2 * bool(inside)
            found, length = _alone(equation)
        if found is None:
            self._place_other(equation)
            return
        key = (level, length)
        self.regions.setdefault(key, []).append((equation, found))
        (output,) = equation.outputs
        self.level[output] = level + (found.output == REDUCED)
        if found.output != REDUCED:
            self.rows[output] = (key, found.output)

    def _rows_at(self, atom: Atom, level: int) -> bool:
        return atom in self.rows and self.rows[atom][0][0] == level

    def _place_other(self, equation: Equation) -> None:
        level = self.level.even(equation.inputs)
        if effectful(equation):  # effects keep their order
            level = self.acted = max(level, self.acted)
        self.others.setdefault(level, []).append(equation)
        self.level.update((output, level) for output in equation.outputs)


def _alone(equation: Equation) -> tuple[RowAccess | None, int]:
    """The row access of an equation that starts a cluster, or None; and the number of rows."""
    if len(equation.outputs) != 1:
        return None, 0
    if elementwise(equation):
        type_ = equation.outputs[0].type
        axis = _row_axis(type_.shape) if type_.size >= costs.fused_array else None
        if axis is None:
            return None, 0
        inputs = tuple(axis_of(a.type.shape, type_.shape, axis) for a in equation.inputs)
        return RowAccess(inputs, axis), type_.shape[axis]
    if equation.primitive.reduces is not None:
        type_ = equation.inputs[0].type
        axis = _row_axis(type_.shape) if type_.size >= costs.fused_array else None
        by_rows = axis not in equation.params["axes"]
        if axis is not None and (by_rows or type_.size >= costs.lone_array):
            return form(equation, [axis], type_.shape[axis]), type_.shape[axis]
    if gathered_axis(equation) is not None and equation.outputs[0].type.size >= costs.fused_array:
        return form(equation, (None, None), 0), equation.inputs[1].type.size
    if multiplies(equation) and equation.outputs[0].type.size >= costs.fused_array:
        matrix, _ = matrix_first(equation, equation.inputs)
        for axis, length in enumerate(matrix.type.shape):
            found = product(equation, matrix_first(equation, (axis, None)))
            if found is not None and found.output != REDUCED:
                return found, length
    return None, 0


def _row_axis(shape: tuple[int, ...]) -> int | None:
    """The first axis with rows of a good size; else the first that is longer than 1, or None."""
    long = [i for i, length in enumerate(shape) if length > 1]
    for i in long:
        row, pieces = math.prod(shape[i + 1 :]), math.prod(shape[:i])
        if row <= costs.row_elements and pieces <= costs.row_pieces:
            return i
    return long[0] if long else None


def cluster_and_schedule(graph: Graph) -> list[Equation | FusionCluster]:
    """Equations and clusters in an order of execution; a cluster of one equation is an equation."""
    values = [*graph.inputs, *(v for e in graph.equations for v in e.outputs)]
    values += [v for v, _ in graph.constants]
    types = {id(v.type): v.type for v in values}  # most values share a Type
    if all(type_.size < costs.fused_array for type_ in types.values()):
        return list(graph.equations)
    finder = _Finder()
    equations = split_unstacks(graph, costs.fused_array)
    for equation in equations:
        finder.place(equation)
    read_by = _readers(equations, graph.outputs)
    result: list[Equation | FusionCluster] = []
    absorbed: set[Equation] = set()
    for level in sorted({*finder.others, *(key[0] for key in finder.regions)}):
        result.extend(e for e in finder.others.get(level, ()) if e not in absorbed)
        for (at, length), members in finder.regions.items():
            if at == level:
                alone = len(members) == 1 and _size(members[0][0]) < costs.lone_array
                region = None if alone else _region(length, members, read_by, absorbed)
                result.append(region or members[0][0])
    return result


def _size(equation: Equation) -> int:
    """The number of elements of the largest array that an equation reads."""
    return max(atom.type.size for atom in equation.inputs)


def _readers(equations: Sequence[Equation], outputs: Sequence[Atom]) -> Readers:
    result: dict[Atom, list[Equation | None]] = {}
    for equation in equations:
        for atom in equation.inputs:
            result.setdefault(atom, []).append(equation)
    for atom in outputs:
        result.setdefault(atom, []).append(None)
    return result


def _region(
    length: int,
    members: list[tuple[Equation, RowAccess]],
    read_by: Readers,
    absorbed: set[Equation],
) -> FusionCluster:
    """The cluster of some equations. A value that is read along two axes becomes two inputs."""
    axes: dict[Variable, Any] = {e.outputs[0]: how.output for e, how in members}
    made_here = set(axes)
    inner: dict[tuple[Variable, int | None], Variable] = {}
    equations = []
    for equation, how in members:
        atoms = list(equation.inputs)
        for i, (atom, axis) in enumerate(zip(atoms, how.inputs, strict=True)):
            if isinstance(atom, Variable) and atom not in made_here:
                own = atom if atom not in axes else Variable(atom.type)
                atoms[i] = own = inner.setdefault((atom, axis), own)
                axes[own] = axis
        same = tuple(atoms) == equation.inputs
        equations.append(equation if same else copied(equation, tuple(atoms), equation.outputs))
    outputs, made = _made(members, read_by, absorbed)
    values = tuple([part.value for parts in made for part in parts])
    body = Graph(tuple(inner.values()), (), tuple(equations), values)
    inputs = [v for v, _ in inner]
    within = {v for v in outputs if None not in read_by[v]}
    return FusionCluster(length, body, axes, inputs, outputs, made, within)


def _made(
    members: list[tuple[Equation, RowAccess]], read_by: Readers, absorbed: set[Equation]
) -> tuple[list[Variable], list[list[Part]]]:
    """The outputs of a cluster and their parts. The equations that only assemble an output are
    added to `absorbed`: stores of the cluster replace them.
    """
    mine = {equation for equation, _ in members}
    axes: dict[Atom, int] = {
        equation.outputs[0]: how.output for equation, how in members if how.output != REDUCED
    }
    outputs: list[Variable] = []
    made: list[list[Part]] = []
    for variable in [e.outputs[0] for e, _ in members if e.outputs[0] in axes]:
        for reader in read_by.get(variable, ()):
            if reader is None or reader in mine or reader in absorbed:
                continue
            equations, parts = _assembled_output(reader, axes, read_by)
            if equations:
                absorbed.update(equations)
                outputs.append(equations[-1].outputs[0])
                made.append(parts)
    for equation, how in members:
        (variable,) = equation.outputs
        readers = read_by.get(variable, ())
        if any(r is None or (r not in mine and r not in absorbed) for r in readers):
            outputs.append(variable)
            made.append([Part(variable, None, how.output, 0)])
    return outputs, made


def _assembled_output(
    equation: Equation, axes: Mapping[Atom, int], read_by: Readers
) -> tuple[list[Equation], list[Part]]:
    """The equations that assemble one output from values of a region, and the parts of it.

    Args:
      equation: the first of them, which reads a value of the region.
      axes: the row axis of each value that the region computes.
      read_by: the equations that read a variable.
    """
    equations: list[Equation] = []
    parts: list[Part] = []
    whole: Any = equation.inputs[0]
    reader: Equation | None = equation
    if equation.primitive is index_add and whole in axes and len(read_by[whole]) == 1:
        parts.append(Part(whole, None, axes[whole], 0))
    while reader is not None and reader.primitive is (index_add if parts else scatter):
        added = reader.inputs[-1]
        part = _part(reader, axes) if added in axes else None
        if part is None or (
            parts and (reader.inputs[0] is not whole or part.axis != parts[0].axis)
        ):
            break
        parts.append(part)
        equations.append(reader)
        (whole,) = reader.outputs
        readers = read_by.get(whole, ())
        reader = readers[0] if len(readers) == 1 else None
    return equations, parts


def _part(equation: Equation, axes: Mapping[Atom, int]) -> Part | None:
    """The part of an output that an equation fills; None if it is no block of all rows."""
    sections, value = sections_of(equation), cast(Variable, equation.inputs[-1])
    if sections is None or value.type.dtype != equation.outputs[0].type.dtype:
        return None
    box, at = sections[-1].box, [along and along.loop for along in sections[-1].place]
    axis = at[axes[value]]
    if axis is None or -1 in at or box[axis].step != 1:
        return None
    place = tuple([slice_of(r) if i in at else r.start for i, r in enumerate(box)])
    return Part(value, place, axis, box[axis].start)


def reach(parts: Iterable[Part]) -> tuple[int, int]:
    """The smallest and the largest offset of parts."""
    offsets = [part.offset for part in parts]
    return min(offsets), max(offsets)
