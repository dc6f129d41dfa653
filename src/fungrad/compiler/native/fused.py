"""A Graph of elementwise equations, moved slices and reductions as vector loops over memory.

Each output is stored, and each whole reduction added up, by a nest of loops over its elements;
those of one shape share a nest. Reductions along axes whose results arrays need make one nest of
rows for the whole Graph. Work is cut into units of about 4,096 elements, for threads.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from fungrad.compiler.lowering.fusion.row_access import elementwise
from fungrad.compiler.native.block_sums import Reduction, by_pairs, reduction, whole
from fungrad.compiler.native.element_operations import TYPES, cost, known, of_python
from fungrad.compiler.native.element_values import Body, Source
from fungrad.compiler.native.index_maps import (
    FIRST,
    MOVING,
    FlatMaps,
    IndexMaps,
    Limit,
    Piece,
    Place,
    static,
)
from fungrad.compiler.native.kernel import LINES, Kernel, Refused
from fungrad.compiler.native.llvm_ir import Function, Module
from fungrad.compiler.native.loop_nests import Nest, Root
from fungrad.compiler.native.row_buffers import box_nest
from fungrad.compiler.native.rows import RowNest, embedded, for_arrays, row_maps
from fungrad.ir.graph import Atom, Equation, Graph, effectful
from fungrad.retracing.graph_transforms import pruned

ALONE = 1 << 18
"""The most elements that one thread reduces, and reads again."""
ONE_CALL = 0.1
"""Nanoseconds an element that NumPy's own call takes no longer for."""


def fused_kernel(graph: Graph) -> Kernel:
    """The kernel of a Graph.

    Raises:
      Refused: it is not for such loops; the message says why.
    """
    return _Program(graph).kernel()


def known_equation(equation: Equation) -> str | None:
    """Why an equation is not for loops over arrays; None where it may be."""
    name = equation.primitive.name
    if len(equation.outputs) != 1:
        return f"{name}, of several outputs"
    if not equation.primitive.module.startswith("fungrad."):  # names are known, not what they do
        return f"{name} of {equation.primitive.module}"
    if any(a.type.dtype not in TYPES for a in (*equation.inputs, *equation.outputs)):
        return f"{name} of other dtypes"
    if of_python(equation):
        return f"{name} of Python's integers, which have no bound"
    if equation.primitive in MOVING:
        return None if static(equation) else f"{name} by index arrays, or with steps"
    if elementwise(equation):
        return None if known(name) else name
    return None if reduction(equation) is not None else name


def _work(equation: Equation) -> float:
    """Nanoseconds an element; nothing for what moves elements."""
    if equation.primitive in MOVING:
        return 0.0
    return cost(equation) if elementwise(equation) else ONE_CALL


class _Program:
    """The functions of a kernel."""

    def __init__(self, graph: Graph) -> None:
        if any(map(effectful, graph.equations)):
            raise Refused("effects")
        self.graph, self.module = graph, Module()
        self.source = Source(graph)
        live = pruned(graph).equations
        for equation in live:
            reason = known_equation(equation)
            if reason is not None:
                raise Refused(reason)
        if sum(map(_work, live)) <= ONE_CALL:
            raise Refused("moves alone, or one call of NumPy's")
        self.reductions = [r for r in map(whole, live) if r is not None]
        self.stored = [n for n, a in enumerate(graph.outputs) if a.type.size > 1]
        maps = row_maps(self.source)
        self.nests = self._boxes() if maps is None else self._rows(maps)
        if not self.nests:
            raise Refused("no array is read or made")

    def _rows(self, maps: IndexMaps) -> list[Nest]:
        """One nest for all: the largest values first, so that others go where they find theirs."""
        alone = len(maps.reduced) == sum(n > 1 for n in maps.lengths)
        if alone and math.prod(maps.lengths) > ALONE:
            raise Refused("a large array that is reduced, and read again")
        needed = for_arrays(self.graph)
        rest = [n for n, r in enumerate(self.reductions)
                if not alone and id(r.equation.outputs[0]) not in needed]  # fmt: skip
        if alone:  # one item: what follows on numbers is done behind its last phase
            self.stored = list(range(len(self.graph.outputs)))
        wanted: list[tuple[Sequence[Atom], int, Reduction | None]] = [
            (self.reductions[n].operands, n, self.reductions[n]) for n in rest
        ]
        wanted += [([self.graph.outputs[n]], n, None) for n in self.stored]
        roots: list[Root] = []
        for atoms, n, whole_one in sorted(wanted, key=lambda w: -w[0][0].type.size):
            pieces = embedded(self.source, maps, atoms, roots)
            roots.append(Root(pieces, n, whole_one))
        return [RowNest(self.source, maps, roots)]

    def _boxes(self) -> list[Nest]:
        """A nest for each shape of what is stored; reductions join one that has their values."""
        shapes: dict[tuple[int, ...], list[Root]] = {}
        for n in self.stored:
            atom = self.graph.outputs[n]
            shape = atom.type.shape
            root = Root([Piece(atom, self.source.maps(shape).whole(shape))], n)
            shapes.setdefault(shape, []).append(root)
        nests = [(self.source.maps(shape), roots) for shape, roots in shapes.items()]
        for n, whole_one in enumerate(self.reductions):
            for maps, roots in nests:
                joined = self._joined(maps, roots, whole_one, n)
                if joined is not None:
                    roots.append(joined)
                    break
            else:
                shape = whole_one.operands[0].type.shape
                maps = self.source.maps(shape)
                pieces = [Piece(atom, maps.whole(shape)) for atom in whole_one.operands]
                nests.append((maps, [Root(pieces, n, whole_one)]))
        return [box_nest(self.source, maps, roots, f"border{n}")
                for n, (maps, roots) in enumerate(nests)]  # fmt: skip

    def _joined(
        self, maps: IndexMaps, roots: Sequence[Root], reduction: Reduction, n: int
    ) -> Root | None:
        """A reduction as part of a nest, so that most of its values are there already."""
        shape = reduction.operands[0].type.shape
        offsets: tuple[int, ...] | None = None
        if isinstance(maps, FlatMaps):
            offsets = (0,) if math.prod(shape) == maps.lengths[0] else None
        elif len(shape) == len(maps.lengths) and 1 not in shape:
            offsets = self._offsets(maps, roots, reduction)
        if offsets is None:
            return None
        limits = []
        if not isinstance(maps, FlatMaps):
            ends = zip(offsets, shape, maps.lengths, strict=True)
            limits = [Limit(i, o, o + m) for i, (o, m, k) in enumerate(ends) if m != k]
        pieces = [Piece(a, maps.whole(shape, offsets)) for a in reduction.operands]
        return Root(pieces, n, reduction, tuple(limits))

    def _offsets(
        self, maps: IndexMaps, roots: Sequence[Root], reduction: Reduction
    ) -> tuple[int, ...] | None:
        """Where in a nest an array begins, so that most of what it needs is computed there."""
        shape = reduction.operands[0].type.shape
        own = IndexMaps(shape)
        mine = [Piece(atom, own.whole(shape)) for atom in reduction.operands]
        found = self.source.demanded(own, mine, None)
        aligned = {i for i, place in found if place == own.whole(shape)}
        theirs = [piece for root in roots for piece in root.pieces]
        votes: Counter[tuple[int, ...]] = Counter()
        for i, place in self.source.demanded(maps, theirs, None):
            offsets = tuple([-along.offset for along in place])
            ends = zip(offsets, shape, maps.lengths, strict=False)
            fits = len(place) == len(shape) and all(0 <= o and o + m <= k for o, m, k in ends)
            if i in aligned and fits and place == maps.whole(shape, offsets):
                votes[offsets] += 1
        return votes.most_common(1)[0][0] if votes else None

    def kernel(self) -> Kernel:
        given = [("ptr", "arrays"), ("i64", "begin"), ("i64", "end"), ("ptr", "scratch")]
        code = Function(self.module, "kernel", "void", given, attributes="internal")
        unit = parts = 0
        self.partials: dict[int, tuple[int, int]] = {}
        for nest in self.nests:
            for root in nest.sums:
                self.partials[root.number] = parts, nest.units
                parts += nest.units
        scratch = -(-8 * parts // 64) * 64
        for nest in self.nests:
            nest.write(code, unit, {n: start for n, (start, _) in self.partials.items()}, scratch)
            unit += nest.units
            scratch += nest.units * nest.buffer
        code.ret()
        stored = {root.number for nest in self.nests for root in nest.roots if not root.reduction}
        numbers = [n for n in range(len(self.graph.outputs)) if n not in stored]
        if numbers:
            self._finish(numbers)
        if len(self.module) > LINES:
            raise Refused(f"{len(self.module)} lines of IR")
        return Kernel(
            module=self.module,
            inputs=self.graph.input_types,
            outputs=self.graph.output_types,
            units=unit,
            scratch=scratch,
            finish="finish" if numbers else "",
            cost_ns=sum(nest.cost_ns for nest in self.nests),
            constants=self.source.constants,
        )

    def _finish(self, numbers: Sequence[int]) -> None:
        """Computes what remains on single numbers, and stores them."""
        given = [("ptr", "arrays"), ("ptr", "scratch")]
        code = Function(self.module, "finish", "void", given, attributes="internal")
        body = Body(self.source, IndexMaps([]), code, {}, ())
        body.point(range(self.source.pointers))
        for n, (start, units) in self.partials.items():
            reduction = self.reductions[n]
            at = code.at(code.parameters[1], 8 * start)
            name = by_pairs(self.module, reduction)
            value = code.call(name, reduction.type, [at, code.constant(units, "i64", 1)])
            body.memo[id(reduction.equation.outputs[0]), ()] = value
        for n in numbers:
            atom = self.graph.outputs[n]
            place: Place = (FIRST,) * atom.type.ndim
            x = body.value(atom, place)
            body.store(x, self.source.outputs + n, atom.type.shape, place)
        code.ret()


__all__ = ["fused_kernel", "known_equation"]
