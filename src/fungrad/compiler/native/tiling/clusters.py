"""Clusters: equations over large arrays that run together, tile by tile.

A product starts a cluster. What follows joins it: equations of one odd level (`Levels`) with the
same number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fungrad.compiler.cost_model import costs
from fungrad.compiler.native.clusters import cluster_graph
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
    levels, rows = Levels(), dict[Atom, tuple[Key, int]]()
    members = dict[Key, list[tuple[Equation, RowAccess]]]()
    for equation in graph.equations:
        joined = _joined(equation, levels, rows)
        if joined is None:
            even = levels.even(equation.inputs)
            levels.update((output, even) for output in equation.outputs)
            continue
        (key, access), (output,) = joined, equation.outputs
        members.setdefault(key, []).append((equation, access))
        levels[output] = key[0] + (access.output == REDUCED)
        if access.output != REDUCED:
            rows[output] = key, access.output
    found = [_cluster(graph, length, own) for (_, length), own in members.items()]
    return [cluster for cluster in found if cluster.rows < cluster.length
            and any(map(elementwise, cluster.body.equations))]  # fmt: skip


def _joined(
    equation: Equation, levels: Levels, rows: Mapping[Atom, tuple[Key, int]]
) -> tuple[Key, RowAccess] | None:
    """The cluster of an equation that can run row by row, and its row access.

    Args:
      equation: the equation.
      levels: those of the values before it.
      rows: the clusters and the row axes of these.
    """
    level = levels.odd(equation.inputs)
    known = [rows.get(a, ((0, 0), 0)) for a in equation.inputs]
    axes = [axis if key[0] == level else None for key, axis in known]
    keys = {key for key, _ in known if key[0] == level}
    if len(keys) == len(equation.outputs) == 1:
        (key,), found = keys, row_access(equation, axes)
        if found is not None:
            return key, found
    large = equation.outputs and equation.outputs[0].type.size >= costs.fused_array
    if large and multiplies(equation) and not times_vector(equation):
        matrix, _ = matrix_first(equation, equation.inputs)
        for axis, length in enumerate(matrix.type.shape):
            found = product(equation, matrix_first(equation, (axis, None)))
            if found is not None and found.output != REDUCED:
                return (level + 2 * bool(keys), length), found
    return None


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
    outputs = cluster_graph(graph, [e for e, _ in members]).outputs
    body = Graph(tuple(inner.values()), (), tuple(equations), outputs, graph.name)
    return Cluster(length, body, [v for v, _ in inner], axes)
