"""Matrix products with elementwise work around them, one tile of rows after the other.

A tile has its own Graph, with native clusters and NumPy's products; its intermediates stay in
cache. Threads share the tiles.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.fusion.clustering import FusionCluster, cluster_and_schedule
from fungrad.compiler.lowering.fusion.row_access import (
    REDUCED,
    elementwise,
    matrix_first,
    multiplies,
)
from fungrad.ir.graph import Equation, Graph, Literal, Variable
from fungrad.primitives.facts import is_view
from fungrad.primitives.movement.reshape_broadcast_cast import reduce_sum
from fungrad.runtime import blas_threads, buffer_pool, thread_pool
from fungrad.runtime.kernels import reductions

WIDE, LEAST = 65_536, 128
"""Elements of a tile's largest value, and the fewest of its rows."""
GROUPS = 8
"""The number of groups of tiles, which threads share: sums do not depend on the number of threads.
"""

Runner = Callable[..., Any]
Make = Callable[[Graph, float], Graph | None]
"""Makes of a tile's Graph, and its number of runs per call, the Graph with calls of native
programs; None if there are none. They write arrays into their last arguments, and return numbers.
"""


def tileable(graph: Graph) -> list[FusionCluster]:
    """The clusters of a Graph that have products, and are long enough for tiles."""
    known = {id(v): e.primitive for e in graph.equations for v in e.outputs}
    found = []
    for region in cluster_and_schedule(graph):
        if (
            isinstance(region, FusionCluster)
            and any(map(multiplies, region.equations))
            and any(map(elementwise, region.equations))
            and all(known[id(e.outputs[0])] is e.primitive for e in region.equations)
            and all(len(parts) == 1 and parts[0].place is None for parts in region.made)
            and _rows(region) < region.length
        ):
            found.append(region)
    return found


def tiled(region: FusionCluster, make: Make) -> Runner | None:
    """A function of the inputs of a cluster; None if nothing of a tile is native."""
    rows = _rows(region)
    programs = {}
    for n in {rows, region.length % rows} - {0}:
        graph = make(tile_graph(region, n), region.length / n)
        if graph is None:
            return None
        programs[n] = _Program(graph)
    return functools.partial(_run, region, rows, programs)


def _rows(region: FusionCluster) -> int:
    """The number of rows of a tile; the same for all tiles if possible."""
    values = [v for e in region.equations for v in e.outputs]
    wide = max([v.type.size // region.length for v in values])
    rows = min(max(LEAST, WIDE // max(1, wide)), max(LEAST, region.length // 2))
    count = -(-region.length // rows)
    even = [n for n in range(count, 2 * count) if region.length % n == 0]
    return -(-region.length // (even or [count])[0])


def tile_graph(region: FusionCluster, rows: int) -> Graph:
    """The equations of a cluster for a tile of so many rows."""
    new: dict[Variable, Variable] = {}
    for old in region.body.inputs:
        shape = [rows if i == region.axes[old] else n for i, n in enumerate(old.type.shape)]
        new[old] = Variable(old.type.with_shape(tuple(shape)))
    inputs, equations = tuple(new.values()), []
    for equation in region.equations:
        given = tuple([a if isinstance(a, Literal) else new[a] for a in equation.inputs])
        params, (old,) = equation.params, equation.outputs
        if "shape" in params:
            wanted = params["shape"]
            shape = [rows if i == region.axes[old] else n for i, n in enumerate(wanted)]
            params = {**params, "shape": tuple(shape)}
        (type_,) = equation.primitive.infer([a.type for a in given], params)
        out = new[old] = Variable(type_)
        equations.append(
            Equation(equation.primitive, given, (out,), params, equation.source, equation.scope,
                     equation.backward)
        )  # fmt: skip
    outputs = tuple([new[part.value] for (part,) in region.made])
    return Graph(inputs, (), tuple(equations), outputs)


class _Program:
    """The program of a tile: steps on registers. Arrays that products and native programs write are
    in an arena, which the next tile reuses.

    Attributes:
      steps: functions, with the registers of their arguments and of their results.
      layout: the layout of the arena.
      outputs: the registers of the outputs.
    """

    def __init__(self, graph: Graph) -> None:
        values = [*graph.inputs, *(v for e in graph.equations for v in e.outputs)]
        self.registers = len(values)
        place = {id(v): n for n, v in enumerate(values)}
        root, last = dict[int, int](), dict[int, int]()
        for now, equation in enumerate(graph.equations):
            for v in equation.outputs:
                source = id(equation.inputs[0]) if is_view(equation) else id(v)
                root[id(v)] = root.get(source, source)
            for atom in (*equation.inputs, *equation.outputs):
                last[root.get(id(atom), id(atom))] = now
        last.update((root.get(id(v), id(v)), len(graph.equations)) for v in graph.outputs)
        self.steps, self.written = list[Any](), list[int]()
        arrays, times = list[buffer_pool.Array](), list[int]()
        for now, equation in enumerate(graph.equations):
            function, into = _step(equation)
            for v in into:
                arrays.append((v.type.shape, v.type.dtype, tuple(range(v.type.ndim))))
                times.append((2 << last[id(v)]) - (1 << now))
                self.written.append(place[id(v)])
            read = [place.get(id(a), a) for a in (*equation.inputs, *into)]
            made = [place[id(v)] for v in equation.outputs[len(into) :]]
            self.steps.append((function, read, made))
        self.outputs = [place[id(v)] for v in graph.outputs]
        self.layout = buffer_pool.packed(arrays, times)
        self.size = buffer_pool.size_of(self.layout)

    def run(self, arena: buffer_pool.Arena, inputs: Sequence[Any]) -> list[Any]:
        """The outputs, which the next run overwrites."""
        values = [*inputs, *[None] * (self.registers - len(inputs))]
        for n, array in zip(self.written, arena.arrays(self, self.layout), strict=True):
            values[n] = array
        for function, read, made in self.steps:
            found = function(*[values[a] if type(a) is int else a.value for a in read])
            for n, x in zip(made, found, strict=True):
                values[n] = x
        return [values[n] for n in self.outputs]


def _step(equation: Equation) -> tuple[Runner, Sequence[Variable]]:
    """The function that runs an equation, and the outputs that are its last arguments."""
    primitive: Any = equation.primitive
    (out, *_), params = equation.outputs, equation.params
    if "runner" in params:
        return params["runner"], [v for v in equation.outputs if v.type.shape]
    if multiplies(equation) and out.type.shape:
        (over_x,), (over_y,) = matrix_first(equation, params["contract"])
        _, second = matrix_first(equation, equation.inputs)
        called = reductions.product(second.type.ndim, second.type.size)
        swapped = equation.inputs[0] is second

        def multiply(x: Any, y: Any, out: Any) -> tuple[()]:
            x, y = (y, x) if swapped else (x, y)
            called(x.T if over_x == 0 else x, y.T if over_y == 1 else y, out=out)
            return ()

        return multiply, [out]
    given = equation.inputs[0].type
    columns = primitive is reduce_sum and given.ndim == 2 and params["axes"] == (0,)
    if columns and given.dtype == out.type.dtype and given.dtype.kind == "f":
        ones = np.ones(given.shape[0], given.dtype)

        def add_rows(x: Any, out: Any) -> tuple[()]:  # a third of the time of np.add.reduce
            np.dot(ones, x, out=out)
            return ()

        return add_rows, [out]
    run = functools.partial(primitive.eval, **params)
    return (run if primitive.multiple else lambda *xs: (run(*xs),)), []


def _run(region: FusionCluster, rows: int, programs: dict[int, _Program], *args: Any) -> list[Any]:
    """Runs all tiles, and combines their results."""
    axes = [part.axis for (part,) in region.made]
    joins: list[Any] = [_ufunc(region, part.value) if part.axis == REDUCED else None
             for (part,) in region.made]  # fmt: skip
    outputs: list[Any] = [None if join else np.empty(v.type.shape, v.type.dtype)
               for v, join in zip(region.outputs, joins, strict=True)]  # fmt: skip
    slices = [region.axes[v] for v in region.body.inputs]
    arguments = [x if axis is not None else np.ascontiguousarray(x)
                 for x, axis in zip(args, slices, strict=True)]  # fmt: skip
    tiles = -(-region.length // rows)
    groups, size = min(GROUPS, tiles), max(program.size for program in programs.values())

    def work(start: int, stop: int) -> list[list[Any]]:
        """The sums of each group; those of the first part are added up at once."""
        arena = buffer_pool.take(size)
        try:
            found: list[list[Any]] = []
            for n in range(start, stop):
                members = range(tiles)[tiles * n // groups : tiles * (n + 1) // groups]
                if found and not start:
                    add(found[0], group(arena, members, len(members) > 1))
                else:
                    found.append(group(arena, members, True))
            return found
        finally:
            buffer_pool.give(arena)

    def add(sums: list[Any], more: list[Any]) -> None:
        for k, join in enumerate(joins):
            if join is not None:
                join(sums[k], more[k], out=sums[k])

    def group(arena: buffer_pool.Arena, members: range, own: bool) -> list[Any]:
        """The sums of some tiles, in new memory (`own`) or in the arena."""
        sums: list[Any] = []
        for tile in members:
            begin, end = tile * rows, min((tile + 1) * rows, region.length)
            given = [
                _rows_of(x, axis, begin, end) for x, axis in zip(arguments, slices, strict=True)
            ]
            found = programs[end - begin].run(arena, given)
            for output, axis, y in zip(outputs, axes, found, strict=True):
                if axis != REDUCED:
                    _rows_of(output, axis, begin, end)[...] = y
            if sums:
                add(sums, found)
            else:
                sums = [np.array(y) if join and own else y
                        for join, y in zip(joins, found, strict=True)]  # fmt: skip
        return sums

    count = thread_pool.num_threads()
    with (blas_threads.alone() if count > 1 else None) or contextlib.nullcontext():
        first, *parts = itertools.chain(*thread_pool.share(work, groups, 1, count))
    for part in parts:
        add(first, part)
    return [x if join is None else first[k][()]
            for k, (x, join) in enumerate(zip(outputs, joins, strict=True))]  # fmt: skip


def _rows_of(x: Any, axis: int | None, begin: int, end: int) -> Any:
    """The rows of a tile, of an array that has them along an axis, if any."""
    return x if axis is None else x[(slice(None),) * axis + (slice(begin, end),)]


def _ufunc(region: FusionCluster, value: Variable) -> Any:
    """The ufunc that combines two parts of a value that is reduced over the rows."""
    (equation,) = [e for e in region.equations if e.outputs[0] is value]
    return equation.primitive.reduces or np.add
