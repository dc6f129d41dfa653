"""Loops over many items of a few numbers, whose last axis fills the lanes of a vector.

Products of such items with small matrices need each number of an item in all lanes, and add up in
lanes: an item of 8 x 8 numbers is 8 registers, where loops with one item in each lane would need
64. Matrices that all items share stay in registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.element_operations import convert, cost, type_of
from fungrad.compiler.native.element_values import Body, KernelGraph, Key
from fungrad.compiler.native.gathers import Write, index_of
from fungrad.compiler.native.index_maps import LaneMaps, Piece, loops_of
from fungrad.compiler.native.llvm_ir import Function, Operand, Value
from fungrad.compiler.native.loop_nests import BoxNest, Root, adds
from fungrad.compiler.native.machine_code import host
from fungrad.compiler.refusal import Refused
from fungrad.primitives.elementwise.by_elements import elementwise


class LaneNest(BoxNest):
    """Loops over items, of which a step computes some.

    Args:
      source: the Graph.
      maps: the loops; the last one is along the lanes.
      roots: the results.
      name: a name for the nest.

    Raises:
      Refused: if the results have no common lanes.
    """

    def __init__(
        self, source: KernelGraph, maps: LaneMaps, roots: Sequence[Root], name: str
    ) -> None:
        super().__init__(source, maps, roots, name)
        self.lanes, self.box = maps.width, [(0, n) for n in maps.lengths]
        loaded = [p for p in self.demanded.values() if p.atom in source.arrays
                  and len(loops_of(p.index_map)) == len(maps.lengths)]  # fmt: skip
        registers = host().vector_bytes // 2  # 32 of AVX-512, 16 of AVX2
        most = tuned.items_at_once * self.register // max(self.lanes, self.register)
        self.count = min(max(1, most), -(-registers // max(1, len(loaded))))
        made = [source.made[p.atom] for p in self.demanded.values() if p.atom in source.made]
        self.cost_ns = sum([cost(e) for e in made if elementwise(e)]) * self.elements
        if any(len(stretches) > 1 for stretches in self.cuts):
            raise Refused("pieces of items", "layout")
        sums = [root for root in roots if root.reduction is not None]
        if any(maps.lane not in loops_of(p.index_map) for root in sums for p in root.pieces):
            raise Refused("a sum over items without lanes", "layout")

    def unit(self, code: Function, entry: Body, unit: Value) -> None:
        """One unit; what its items share is computed ahead of them."""
        counters = {len(self.maps.lengths) - 1: code.constant(0, "i64", 1)}
        shared = Body(self.source, self.maps, code, counters, self.box, self.lanes, entry)
        self.settle(shared, self.demanded)
        self.totals = dict[int, Value]()
        for n, root in enumerate(self.roots):
            if root.write is not None and root.write.adds and self._once(root, root.write):
                type = type_of(self.source.graph.outputs[root.number].type.dtype)
                self.totals[n] = code.initialised(code.constant(0, type, self.lanes))
        super().unit(code, shared, unit)
        for n, total in self.totals.items():
            root = self.roots[n]
            assert root.write is not None
            shape = self.source.graph.outputs[root.number].type.shape
            index = index_of(root.write.equation, root.pieces[0].index_map)
            array, x = self.source.outputs + root.number, code.get(total)
            shared.write(x, array, shape, index, adds(code, x.type))

    def _once(self, root: Root, write: Write) -> bool:
        """Whether all items add to the same lanes of an output."""
        index = index_of(write.equation, root.pieces[0].index_map)
        return loops_of(index) == {len(self.maps.lengths) - 1}

    def written(self, body: Body, root: Root, write: Write, counted: Value | None) -> None:
        """Adds to an output, or to what a unit adds to it at its end."""
        total = next((self.totals[n] for n in self.totals if self.roots[n] is root), None)
        if total is None:
            super().written(body, root, write, counted)
            return
        code, (piece, *_) = body.code, root.pieces
        x = convert(
            code,
            code.splat(body.value(piece.atom, piece.index_map), self.lanes),
            code.get(total).type,
        )
        code.set(total, adds(code, x.type)(code.get(total), x))

    def whole_rows(self, code: Function, entry: Body, first: Operand, stop: Operand) -> None:
        rest = code.binary("srem", code.sub(stop, first), self.count)
        whole = code.sub(stop, rest)
        code.for_range(first, whole, lambda i: self._items(code, entry, i, self.count), self.count)
        if self.rows % self.count or self.per % self.count:
            code.for_range(whole, stop, lambda i: self._items(code, entry, i, 1))

    def _items(self, code: Function, entry: Body, first: Value, count: int) -> None:
        """Some items at once."""
        bodies = []
        for n in range(count):
            counters = self.counters(code, code.add(first, n) if n else first)
            counters |= {len(self.maps.lengths) - 1: code.constant(0, "i64", 1)}
            bodies.append(Body(self.source, self.maps, code, counters, self.box, self.lanes, entry))
        for piece in self.demanded.values():
            for body in bodies:
                body.value(piece.atom, piece.index_map)
        for body in bodies:
            self.body(body, None)

    def settle(self, body: Body, demanded: Mapping[Key, Piece]) -> None:
        """Numbers that are taken from lanes have to wait for these."""
        if len(self.maps.lengths) - 1 in body.counters:
            super().settle(body, demanded)
