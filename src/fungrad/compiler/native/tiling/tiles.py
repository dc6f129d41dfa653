"""Tiles: a cluster runs as the program of its Graph for a few rows, called for all rows in turn.

Threads share the tiles. Rows of outputs are copied to their place; reductions over the rows are
added as in a binary tree, so that results do not depend on the number of threads.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs, tuned
from fungrad.compiler.native.clusters import with_clusters
from fungrad.compiler.native.tiling.clusters import Cluster, clusters
from fungrad.compiler.native.tiling.row_access import REDUCED, multiplies
from fungrad.compiler.numpy_backend.program_calls import in_order, program_call
from fungrad.ir.graph import Equation, Graph, Variable
from fungrad.retracing.inlining import copied
from fungrad.runtime import blas_threads, buffer_pool, thread_pool
from fungrad.support.lazy import Module
from fungrad.support.snapshots import snapshot

array_lowering: Any = Module("fungrad.compiler.numpy_backend.array_lowering")

Runner = Callable[..., Any]
Make = Callable[[Graph, float], Runner | None]
"""Makes the program of a tile's Graph, given its number of runs; None if the cluster is to run as a
whole.
"""


def with_tiles(graph: Graph, make: Make) -> Graph:
    """The Graph, after the passes, with a call in place of each cluster that runs in tiles."""
    calls, gone = list[Equation](), set[Equation]()
    made = {v: e for e in graph.equations for v in e.outputs}
    for cluster in clusters(graph):
        lengths = {cluster.rows, cluster.length % cluster.rows} - {0}
        times = cluster.length / cluster.rows
        made_for = {rows: make(tile_graph(cluster, rows), times) for rows in lengths}
        programs = {rows: run for rows, run in made_for.items() if run is not None}
        if len(programs) < len(lengths):
            continue
        outputs = cluster.body.outputs
        tiles = Tiles(cluster, programs, [v in graph.outputs for v in outputs])
        members = [made[e.outputs[0]] for e in cluster.body.equations]
        calls.append(program_call("tiles", members[0], tiles, cluster.inputs, outputs, members))
        gone.update(members)
    left = [e for e in graph.equations if e not in gone]
    return graph.replace(equations=tuple(in_order([*left, *calls], graph))) if calls else graph


def tile(part: Graph, native: Callable[[Graph], Any]) -> Runner | None:
    """The program of a tile's Graph on NumPy, with native clusters; None if it has none.

    Args:
      part: the Graph.
      native: makes the native program of a Graph.
    """
    mixed = with_clusters(part, native, tuned.repeated_elements)
    return None if mixed is None else array_lowering.tile_program(mixed)


def tile_graph(cluster: Cluster, rows: int) -> Graph:
    """The Graph of a cluster for so many rows."""
    body, axes = cluster.body, cluster.axes

    def cut(shape: Sequence[int], value: Variable) -> tuple[int, ...]:
        return tuple([rows if i == axes[value] else n for i, n in enumerate(shape)])

    new: dict[Any, Variable] = {v: Variable(v.type.with_shape(cut(v.type.shape, v))) for v in axes}
    equations = []
    for equation in body.equations:
        params, (out,) = equation.params, equation.outputs
        if "shape" in params:
            params = {**params, "shape": cut(params["shape"], out)}
        given = tuple([new.get(a, a) for a in equation.inputs])
        equations.append(copied(equation, given, (new[out],), params))
    inputs, outputs = [tuple([new[v] for v in vs]) for vs in (body.inputs, body.outputs)]
    return Graph(inputs, (), tuple(equations), outputs, body.name)


class Tiles:
    """A function of a cluster's inputs that returns its outputs.

    Args:
      cluster: the cluster.
      programs: the program of a tile, by its number of rows.
      kept: for each output whether it is one of the program, not in reused memory.
    """

    def __init__(
        self, cluster: Cluster, programs: Mapping[int, Runner], kept: Sequence[bool]
    ) -> None:
        self.cluster, self.programs = cluster, programs
        self.rows = cluster.rows
        body = cluster.body
        self._inputs = [cluster.axes[v] for v in body.inputs]
        outputs: Sequence[Any] = body.outputs
        self._outputs = [
            (cluster.axes[v], np.empty if one else buffer_pool.empty, v.type.shape, v.type.dtype)
            for v, one in zip(outputs, kept, strict=True)
        ]
        ufuncs = {e.outputs[0]: e.primitive.reduces or np.add for e in body.equations}
        self._sums = [ufuncs[v] for v in outputs if cluster.axes[v] == REDUCED]
        products = [(*e.inputs, *e.outputs) for e in body.equations if multiplies(e)]
        terms = [math.prod([a.type.size for a in atoms]) ** 0.5 for atoms in products]
        self._shared = max(terms) >= costs.shared_product_terms
        tile: Any = programs[self.rows]
        self.program, self.text = tile.program, tile.text
        self.__globals__ = {k: v for k, v in snapshot(tile.__globals__).items() if v is not tile}

    def __call__(self, *args: Any) -> list[Any]:
        made = [None if axis == REDUCED else empty(shape, dtype)
                for axis, empty, shape, dtype in self._outputs]  # fmt: skip
        threads = thread_pool.num_threads() if self._shared else 1
        count = -(-self.cluster.length // self.rows)
        scope = blas_threads.one_blas_thread() if threads > 1 else None
        with scope or contextlib.nullcontext():
            parts = thread_pool.share(functools.partial(self._run, args, made), count, 1, threads)
        totals = iter([self._total(n, parts) for n in range(len(self._sums))])
        return [next(totals) if array is None else array for array in made]

    def _run(self, args: Sequence[Any], made: Sequence[Any], first: int, last: int) -> Any:
        """Runs some tiles; returns the sums of each reduction over the rows."""
        held: list[list[_Sum]] = [[] for _ in self._sums]
        for tile in range(first, last):
            start = tile * self.rows
            stop = min(start + self.rows, self.cluster.length)
            given = [x if axis is None else x[_part(axis, start, stop)]
                     for x, axis in zip(args, self._inputs, strict=True)]  # fmt: skip
            found = self.programs[stop - start](*given)
            sums = zip(self._sums, held, strict=True)
            for x, array, (axis, *_) in zip(found, made, self._outputs, strict=True):
                if array is None:
                    _add(*next(sums), (tile, 1, x))
                else:
                    array[_part(axis, start, stop)] = x
        return held

    def _total(self, number: int, parts: Sequence[Sequence[list[_Sum]]]) -> Any:
        ufunc, held = self._sums[number], list[_Sum]()
        for found in itertools.chain(*[part[number] for part in parts]):
            _add(ufunc, held, found)
        return functools.reduce(functools.partial(_both, ufunc), [x for *_, x in held])


def _part(axis: int, start: int, stop: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(start, stop))


_Sum = tuple[int, int, Any]
"""The total of some tiles: the number of the first, how many they are, and the value."""


def _add(ufunc: np.ufunc, held: list[_Sum], new: _Sum) -> None:
    """Appends the total of the next tiles; equal numbers of tiles are added as in a binary tree."""
    first, count, found = new
    while held and held[-1][1] == count and held[-1][0] % (2 * count) == 0:
        first, _, before = held.pop()
        count, found = 2 * count, _both(ufunc, before, found)
    held.append((first, count, found))


def _both(ufunc: np.ufunc, x: Any, y: Any) -> Any:
    return ufunc(x, y, out=x) if isinstance(x, np.ndarray) else ufunc(x, y)
