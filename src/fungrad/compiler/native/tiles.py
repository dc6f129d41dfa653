"""Matrix products with elementwise work around them, one tile of rows after the other.

Native clusters of a tile's equations are called between NumPy's products; intermediates stay in
cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.compiler.loop_ir.program import Call, Expression, placed
from fungrad.compiler.native.clusters import LEAST_OFTEN, in_order, native_call, with_clusters
from fungrad.compiler.native.short_axes import times_vector
from fungrad.compiler.numpy_backend.array_lowering import Runner
from fungrad.compiler.numpy_backend.fusion import tiling
from fungrad.compiler.numpy_backend.fusion.clustering import FusionCluster, cluster_and_schedule
from fungrad.compiler.numpy_backend.fusion.row_access import REDUCED, multiplies
from fungrad.compiler.numpy_backend.fusion.tile_lowering import TileLowering
from fungrad.compiler.refusal import Refusal, refusal
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable, effectful
from fungrad.primitives.elementwise.by_elements import elementwise

Make = Callable[[Graph, float, int], Runner | Refusal]
"""Makes the native program of a Graph, given its number of runs per call, and how many of its
outputs, the first ones, it writes into arguments after its inputs; the Refusal if it has none.
"""


def with_tiles(graph: Graph, make: Make) -> Graph:
    """The Graph, after the passes, with calls in place of the clusters that run in tiles."""
    found, gone = list[Equation](), set[Atom]()
    for region in [] if any(map(effectful, graph.equations)) else tileable(graph):
        runner = tiled(region, make)
        if runner is not None:
            found.append(native_call(region.equations[0], runner, region.inputs, region.outputs,
                                     region.equations))  # fmt: skip
            gone.update(e.outputs[0] for e in region.equations)
    left = [e for e in graph.equations if gone.isdisjoint(e.outputs)]
    return graph.replace(equations=tuple(in_order([*left, *found], graph))) if found else graph


def tileable(graph: Graph) -> list[FusionCluster]:
    """The clusters of a Graph that have products, and are long enough for tiles."""
    known = {v: e.primitive for e in graph.equations for v in e.outputs}
    return [
        region
        for region in cluster_and_schedule(graph)
        if isinstance(region, FusionCluster)
        and any(multiplies(e) and not times_vector(e) for e in region.equations)
        and any(map(elementwise, region.equations))
        and all(known[e.outputs[0]] is e.primitive for e in region.equations)
        and all(len(parts) == 1 and parts[0].place is None for parts in region.made)
        and _rows(region) < region.length
    ]


def _rows(region: FusionCluster) -> int:
    """The number of rows of a tile, which does not depend on the number of threads; the same for
    all tiles if possible.
    """
    most = 2 * costs.tile_elements // tiling.widest(region)
    count = -(-region.length // max(costs.product_rows, min(most, region.length // 2)))
    even = [n for n in range(count, 2 * count) if region.length % n == 0]
    return -(-region.length // (even or [count])[0])


def tiled(region: FusionCluster, make: Make) -> Runner | None:
    """A function of the inputs of a cluster; None if nothing of a tile is native."""
    rows = _rows(region)
    axes: Mapping[Any, Any] = region.axes

    def native(graph: Graph) -> Mapping[int, Runner] | Refusal:
        """The program of some equations for each number of rows."""
        written = [axes[v] for v in graph.outputs if axes[v] != REDUCED]
        if any(written):
            return refusal("rows that are not contiguous", "layout")
        found = {n: make(tile_graph(graph, axes, n), region.length / rows, len(written))
                 for n in {rows, region.length % rows} - {0}}  # fmt: skip
        refused = [made for made in found.values() if isinstance(made, Refusal)]
        return refused[0] if refused else found  # type: ignore[return-value]

    body = with_clusters(region.body, native, LEAST_OFTEN)
    return None if body is None else _NativeTiles(region, rows, body.equations).region()


def tile_graph(graph: Graph, axes: Mapping[Any, Any], rows: int) -> Graph:
    """A cluster's equations for a tile of so many rows; outputs that have rows come first."""

    def cut(shape: tuple[int, ...], old: Variable) -> tuple[int, ...]:
        return tuple([rows if i == axes[old] else n for i, n in enumerate(shape)])

    new: dict[Any, Variable] = {
        v: Variable(v.type.with_shape(cut(v.type.shape, v))) for v in graph.inputs
    }
    inputs, equations = tuple(new.values()), []
    for equation in graph.equations:
        given = tuple([a if isinstance(a, Literal) else new[a] for a in equation.inputs])
        params, (old,) = equation.params, equation.outputs
        if "shape" in params:
            params = {**params, "shape": cut(params["shape"], old)}
        (type_,) = equation.primitive.infer([a.type for a in given], params)
        out = new[old] = Variable(type_)
        equations.append(
            Equation(equation.primitive, given, (out,), params, equation.source, equation.scope,
                     equation.backward)
        )  # fmt: skip
    outputs = sorted(graph.outputs, key=lambda v: axes[v] == REDUCED)
    return Graph(inputs, (), tuple(equations), tuple([new[v] for v in outputs]))


class _NativeTiles(TileLowering):
    """Lowers a cluster whose equations are in part calls of native programs."""

    def equation(self, equation: Equation) -> None:
        if "runner" not in equation.params:
            super().equation(equation)
            return
        programs = self.constant("programs", equation.params["runner"])
        called = self.row(Expression(f"{{}}.each({programs})", (self.tiles,)), "f_")
        operands = [self.read(atom) for atom in equation.inputs]
        sums = [v for v in equation.outputs if self.axes[v] == REDUCED]
        operands += [self.target(v) for v in equation.outputs if v not in sums]
        fields, inputs = placed([called, *operands])
        text = f"{fields[0]}({', '.join(fields[1:])})"
        self.nodes.append(Call(text, inputs, [self.value(v) for v in sums], unpack=True))
        ufuncs = {e.outputs[0]: e.primitive.reduces or np.add for e in self.whole.equations}
        for variable in sums:
            self.add_up(variable, ufuncs[variable], "{0}", [self.value(variable)])
        self.store(equation)
