"""Clusters: equations over large arrays that run together, tile by tile.

A product starts a cluster. What follows joins it: equations of one odd level (`Levels`) with the
same number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.compiler.cost_model import costs
from fungrad.compiler.native.levels import Levels
from fungrad.compiler.native.short_axes import times_vector
from fungrad.compiler.native.tiling.row_access import (
    REDUCED,
    RowAccess,
    matrix_first,
    multiplies,
    product,
    row_access,
)
from fungrad.ir.graph import Atom, Equation, Graph, Variable, effectful
from fungrad.primitives.elementwise.by_elements import elementwise
from fungrad.retracing.inlining import copied
from fungrad.support.lazy import Record

Key = tuple[int, int]
"""A cluster: its level and its number of rows."""


class Cluster(Record):
    """Equations that run tile by tile.

    `body` is the Graph of the equations; its outputs are those of the cluster. `inputs` are the
    outer values of the body's inputs. `axes` has the row axis of each value: None if each tile
    reads the whole value, REDUCED if it is complete after the last tile.
    """

    length: int
    body: Graph
    inputs: Sequence[Atom]
    axes: dict[Variable, Any]

    @property
    def rows(self) -> int:
        """The number of rows of a tile, which does not depend on the number of threads; the same
        for all tiles if possible.
        """
        made = [v for e in self.body.equations for v in e.outputs if self.axes[v] != REDUCED]
        most = 2 * costs.tile_elements * self.length // max([v.type.size for v in made])
        count = -(-self.length // max(costs.product_rows, min(most, self.length // 2)))
        even = [n for n in range(count, 2 * count) if self.length % n == 0]
        return -(-self.length // (even or [count])[0])


def clusters(graph: Graph) -> list[Cluster]:
    """The clusters of a Graph that are longer than a tile, and do more than multiply; none if it
    has effects, which keep their order.
    """
    made = [v for e in graph.equations for v in e.outputs]
    small = max([v.type.size for v in (*graph.inputs, *made)], default=0) < costs.fused_array
    if small or any(map(effectful, graph.equations)):
        return []
    finder = _Finder()
    for equation in graph.equations:
        finder.place(equation)
    found = [_cluster(graph, length, members) for (_, length), members in finder.members.items()]
    return [
        cluster
        for cluster in found
        if cluster.rows < cluster.length and any(map(elementwise, cluster.body.equations))
    ]


class _Finder:
    """Assigns levels to values, and row axes to the values of clusters."""

    def __init__(self) -> None:
        self.level = Levels()
        self.rows: dict[Atom, tuple[Key, int]] = {}
        self.members: dict[Key, list[tuple[Equation, RowAccess]]] = {}

    def place(self, equation: Equation) -> None:
        """Adds an equation to a cluster if it can run row by row."""
        level = self.level.odd(equation.inputs)
        known = [self.rows.get(a, ((0, 0), 0)) for a in equation.inputs]
        axes = [axis if key[0] == level else None for key, axis in known]
        lengths = {key[1] for key, _ in known if key[0] == level}
        found = None
        if len(lengths) == 1 and len(equation.outputs) == 1:
            (length,) = lengths
            found = row_access(equation, axes, length)
        if found is None:
            level += 2 * bool(lengths)
            found, length = _first(equation)
        if found is None:
            even = self.level.even(equation.inputs)
            self.level.update((output, even) for output in equation.outputs)
            return
        key = (level, length)
        self.members.setdefault(key, []).append((equation, found))
        (output,) = equation.outputs
        self.level[output] = level + (found.output == REDUCED)
        if found.output != REDUCED:
            self.rows[output] = (key, found.output)


def _first(equation: Equation) -> tuple[RowAccess | None, int]:
    """The row access of a product that starts a cluster, or None; and the number of rows."""
    large = equation.outputs[0].type.size >= costs.fused_array
    if large and multiplies(equation) and not times_vector(equation):
        matrix, _ = matrix_first(equation, equation.inputs)
        for axis, length in enumerate(matrix.type.shape):
            found = product(equation, matrix_first(equation, (axis, None)))
            if found is not None and found.output != REDUCED:
                return found, length
    return None, 0


def _cluster(graph: Graph, length: int, members: Sequence[tuple[Equation, RowAccess]]) -> Cluster:
    """The cluster of some equations. A value that is read along two axes becomes two inputs."""
    axes: dict[Variable, Any] = {e.outputs[0]: how.output for e, how in members}
    made, equations = set(axes), []
    inner: dict[tuple[Atom, int | None], Variable] = {}
    for equation, how in members:
        atoms = list(equation.inputs)
        for i, (atom, axis) in enumerate(zip(atoms, how.inputs, strict=True)):
            if isinstance(atom, Variable) and atom not in made:
                own = atom if atom not in axes else Variable(atom.type)
                atoms[i] = own = inner.setdefault((atom, axis), own)
                axes[own] = axis
        same = tuple(atoms) == equation.inputs
        equations.append(equation if same else copied(equation, tuple(atoms), equation.outputs))
    mine = {e: e.outputs[0] for e, _ in members}
    read = {a for e in graph.equations if e not in mine for a in e.inputs} | {*graph.outputs}
    outputs = tuple([v for v in mine.values() if v in read])
    body = Graph(tuple(inner.values()), (), tuple(equations), outputs, graph.name)
    return Cluster(length, body, [v for v, _ in inner], axes)
