"""Fusion clustering: which equations over large arrays run together, tile by tile.

Equations get ASAP levels: odd for fusable equations, even for others, each as low as its inputs
allow. Equations of one odd level with the same number of rows are a cluster; the levels make the
graph of clusters acyclic.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from fungrad.compiler.lowering.fusion.output_slices import Part, Readers, put_together
from fungrad.compiler.lowering.fusion.row_access import (
    REDUCED,
    RowAccess,
    axis_of,
    elementwise,
    form,
    gathers,
    matrix_first,
    multiplies,
    product,
    taken_apart,
)
from fungrad.ir.graph import Atom, Equation, Graph, Variable
from fungrad.retracing.graph_transforms import effectful
from fungrad.support.lazy import Record

LARGE = 8_192
"""The smallest number of elements for which blocks pay (measured: benchmarks/fusion.py)."""
ROW = 4_096
"""The largest number of elements of a row."""
LEAD = 8
"""The largest number of pieces that a row may lie in."""

ALONE = 400_000
"""Elements of an array from which on one equation that reads it is a region."""

Key = tuple[int, int]
"""A region: its level, and how many rows it has."""


class FusionCluster(Record):
    """Fused equations, the values they read from outside, and those read from outside of them.

    `forms` are the row accesses of the equations; `slices` gives for each input the axis that is
    read tile by tile, None where the whole input is read; `made` gives for each output the slices
    that it is the sum of.
    """

    length: int
    equations: list[Equation]
    forms: list[RowAccess]
    inputs: list[Variable]
    slices: list[int | None]
    outputs: list[Variable]
    made: list[list[Part]]

    def __repr__(self) -> str:
        made = tuple([part.value for parts in self.made for part in parts])
        graph = Graph(tuple(dict.fromkeys(self.inputs)), (), tuple(self.equations), made)
        return f"cluster of {len(self.equations)} equations on {self.length} rows:\n{graph!r}"

    def reads(self) -> Counter[int]:
        """How often each value is read, by identity: by the equations, and to make outputs."""
        found = Counter(id(atom) for equation in self.equations for atom in equation.inputs)
        found.update(id(part.value) for parts in self.made for part in parts)
        return found


class _Finder:
    """Assigns levels to values, and rows to those of clusters."""

    def __init__(self) -> None:
        self.level: dict[int, int] = {}
        self.rows: dict[int, tuple[Key, int]] = {}
        self.regions: dict[Key, list[tuple[Equation, RowAccess]]] = {}
        self.others: dict[int, list[Equation]] = {}
        self.acted = 0

    def place(self, equation: Equation) -> None:
        """Adds an equation to a cluster if it can run by rows, else to the other equations."""
        level = max([1, *(self._odd(atom) for atom in equation.inputs)])
        inside = {self.rows[id(a)][0] for a in equation.inputs if self._rows_at(a, level)}
        found = None
        if len(inside) == 1:
            ((_, length),) = inside
            axes = [self.rows[id(a)][1] if self._rows_at(a, level) else None
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
        self.level[id(output)] = level + (found.output == REDUCED)
        if found.output != REDUCED:
            self.rows[id(output)] = (key, found.output)

    def _rows_at(self, atom: Atom, level: int) -> bool:
        return id(atom) in self.rows and self.rows[id(atom)][0][0] == level

    def _odd(self, atom: Atom) -> int:
        """The first odd level at which an atom is available."""
        level = self.level.get(id(atom), 0)
        return level + (level % 2 == 0)

    def _place_other(self, equation: Equation) -> None:
        levels = [self.level.get(id(atom), 0) for atom in equation.inputs]
        level = max([0, *(x + x % 2 for x in levels)])
        if effectful(equation):  # what is done for its effect stays in its order
            level = self.acted = max(level, self.acted)
        self.others.setdefault(level, []).append(equation)
        self.level.update((id(output), level) for output in equation.outputs)


def _alone(equation: Equation) -> tuple[RowAccess | None, int]:
    """The row access of an equation that starts a cluster, and the number of rows."""
    if len(equation.outputs) != 1:
        return None, 0
    if elementwise(equation):
        type_ = equation.outputs[0].type
        axis = _row_axis(type_.shape) if type_.size >= LARGE else None
        if axis is None:
            return None, 0
        inputs = tuple(axis_of(a.type.shape, type_.shape, axis) for a in equation.inputs)
        return RowAccess(inputs, axis), type_.shape[axis]
    if equation.primitive.reduces is not None:
        type_ = equation.inputs[0].type
        axis = _row_axis(type_.shape) if type_.size >= LARGE else None
        if axis is not None and (axis not in equation.params["axes"] or type_.size >= ALONE):
            return form(equation, [axis], type_.shape[axis]), type_.shape[axis]
    if gathers(equation) and equation.outputs[0].type.size >= LARGE:
        return form(equation, (None, None), 0), equation.inputs[1].type.size
    if multiplies(equation) and equation.outputs[0].type.size >= LARGE:
        matrix, _ = matrix_first(equation, equation.inputs)
        for axis, length in enumerate(matrix.type.shape):
            found = product(equation, matrix_first(equation, (axis, None)))
            if found is not None and found.output != REDUCED:
                return found, length
    return None, 0


def _row_axis(shape: tuple[int, ...]) -> int | None:
    """The axis whose entries are rows of a good size; the first axis if there is none."""
    long = [i for i, length in enumerate(shape) if length > 1]
    for i in long:
        if math.prod(shape[i + 1 :]) <= ROW and math.prod(shape[:i]) <= LEAD:
            return i
    return long[0] if long else None


def cluster_and_schedule(graph: Graph) -> list[Equation | FusionCluster]:
    """Equations and clusters in an order of execution; a cluster of one equation is an equation."""
    values = [*graph.inputs, *(v for e in graph.equations for v in e.outputs)]
    values += [v for v, _ in graph.constants]
    types = {id(v.type): v.type for v in values}  # of most values it is that of another
    if all(type_.size < LARGE for type_ in types.values()):
        return list(graph.equations)
    finder = _Finder()
    equations = taken_apart(graph, LARGE)
    for equation in equations:
        finder.place(equation)
    read_by = _readers(equations, graph.outputs)
    result: list[Equation | FusionCluster] = []
    absorbed: set[int] = set()
    for level in sorted({*finder.others, *(key[0] for key in finder.regions)}):
        result.extend(e for e in finder.others.get(level, ()) if id(e) not in absorbed)
        for (at, length), members in finder.regions.items():
            if at == level:
                alone = len(members) == 1 and _size(members[0][0]) < ALONE
                region = None if alone else _region(length, members, read_by, absorbed)
                result.append(region or members[0][0])
    return result


def _size(equation: Equation) -> int:
    """The number of elements of the largest array that an equation reads."""
    return max(atom.type.size for atom in equation.inputs)


def _readers(equations: Sequence[Equation], outputs: Sequence[Atom]) -> Readers:
    result: dict[int, list[Equation | None]] = {}
    for equation in equations:
        for atom in equation.inputs:
            result.setdefault(id(atom), []).append(equation)
    for atom in outputs:
        result.setdefault(id(atom), []).append(None)
    return result


def _region(
    length: int, members: list[tuple[Equation, RowAccess]], read_by: Readers, absorbed: set[int]
) -> FusionCluster:
    inner = {id(equation.outputs[0]) for equation, _ in members}
    inputs: dict[tuple[int, int | None], Variable] = {}
    for equation, how in members:
        for atom, axis in zip(equation.inputs, how.inputs, strict=True):
            if isinstance(atom, Variable) and id(atom) not in inner:
                inputs[id(atom), axis] = atom
    outputs, made = _made(length, members, read_by, absorbed)
    return FusionCluster(
        length,
        [equation for equation, _ in members],
        [how for _, how in members],
        list(inputs.values()),
        [axis for _, axis in inputs],
        outputs,
        made,
    )


def _made(
    length: int, members: list[tuple[Equation, RowAccess]], read_by: Readers, absorbed: set[int]
) -> tuple[list[Variable], list[list[Part]]]:
    """The outputs of a cluster and their slices; `absorbed` receives the equations fused into
    stores.
    """
    mine = {id(equation) for equation, _ in members}
    axes = {
        id(equation.outputs[0]): how.output for equation, how in members if how.output != REDUCED
    }
    outputs: list[Variable] = []
    made: list[list[Part]] = []
    for variable in [e.outputs[0] for e, _ in members if id(e.outputs[0]) in axes]:
        for reader in read_by.get(id(variable), ()):
            if reader is None or id(reader) in mine or id(reader) in absorbed:
                continue
            equations, parts = put_together(reader, axes, length, read_by)
            if equations:
                absorbed.update(map(id, equations))
                outputs.append(equations[-1].outputs[0])
                made.append(parts)
    for equation, how in members:
        (variable,) = equation.outputs
        readers = read_by.get(id(variable), ())
        if any(r is None or (id(r) not in mine and id(r) not in absorbed) for r in readers):
            outputs.append(variable)
            made.append([Part(variable, None, how.output, 0)])
    return outputs, made


__all__ = ["FusionCluster", "cluster_and_schedule"]
