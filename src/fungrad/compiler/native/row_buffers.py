"""Stencils over dear values: a unit computes the rows of them that it reads once, into a buffer.

A nest of two loops, as over an image, pulls each value from where it is read; of a value that is
read at several shifts that would be computing it several times. Borders still do.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from fungrad.compiler.lowering.fusion.row_access import elementwise
from fungrad.compiler.native.element_operations import cost, type_of
from fungrad.compiler.native.element_values import Body, Source
from fungrad.compiler.native.index_maps import (
    FlatMaps,
    IndexMaps,
    Piece,
    Place,
    ShortMaps,
)
from fungrad.compiler.native.llvm_ir import Function, Value, size_of
from fungrad.compiler.native.loop_nests import BLOCK, BoxNest, Root
from fungrad.ir.graph import Atom

KEPT = 0.4
"""Nanoseconds an element of computing a value again, from which on it is kept."""
HALO = 8
"""The most rows of a buffer besides those of its unit."""


def box_nest(source: Source, maps: IndexMaps, roots: Sequence[Root], name: str) -> BoxNest:
    """The nest of some roots, with buffers where they save work."""
    kept = _kept(source, maps, roots)
    if kept:
        found = BufferedNest(source, maps, roots, name, kept)
        if len(found.boxes[0]) == 1 and found.boxes[1] and found.high - found.low <= HALO:
            return found
    return BoxNest(source, maps, roots, name)


class BufferedNest(BoxNest):
    """Loops that read some values from rows which a loop before them has filled.

    Args:
      kept: the values, of one shape.
    """

    def __init__(
        self, source: Source, maps: IndexMaps, roots: Sequence[Root], name: str,
        kept: Sequence[Atom],
    ) -> None:  # fmt: skip
        super().__init__(source.behind(kept), maps, roots, name)
        self.direct = BoxNest(source, maps, roots, name)
        mine, offsets = set(map(id, kept)), [0]
        for box in itertools.product(*self.boxes):
            read = self.source.demanded(maps, self.pieces, box).values()
            offsets += [p.place[0].offset for p in read if id(p.atom) in mine]
        self.low, self.high = min(offsets), max(offsets)
        self.per = max(self.per, 4 * (self.high - self.low))
        self.units = -(-self.rows // self.per)
        own = IndexMaps(kept[0].type.shape)
        filled = [Root([Piece(a, own.whole(own.lengths))], source.pointers + n - source.outputs)
                  for n, a in enumerate(kept)]  # fmt: skip
        self.ahead = BoxNest(source, own, filled, f"{name}ahead")
        self.cost_ns += self.ahead.cost_ns
        self.buffer, self.kept = 0, dict[int, tuple[int, int]]()
        for n, atom in enumerate(kept):
            row = own.lengths[1] * size_of(type_of(atom.type.dtype))
            self.kept[source.pointers + n] = self.buffer, row
            self.buffer += -(-row * (self.per + self.high - self.low) // 64) * 64

    def entry(self, code: Function) -> Body:
        self.ahead_entry = self.ahead.entry(code)
        return super().entry(code)

    def unit(self, code: Function, entry: Body, unit: Value) -> None:
        """Fills the buffers with what the boxes of a unit read, and runs it."""
        ((first, stop),) = self.boxes[0]
        row = code.mul(code.sub(unit, self.first), self.per)
        last = code.intrinsic("smin", [code.add(row, self.per), stop])
        low = code.add(code.intrinsic("smax", [row, first]), self.low)
        high = code.add(last, self.high)
        pointers = {}
        for array, (offset, size) in self.kept.items():
            at = code.sub(offset, code.mul(low, size))
            pointers[array] = code.at(self.buffers, at)
        inner = Body(self.source, self.maps, code, {}, None, 1, entry)
        ahead = Body(self.ahead.source, self.ahead.maps, code, {}, None, 1, self.ahead_entry)
        inner.pointers = ahead.pointers = self.ahead.extra = pointers
        self.ahead.tails = self.tails
        ends = [code.constant(n, "i64", 1) for n in (0, self.ahead.last)]
        code.for_range(low, high, lambda row: self.ahead.row(code, ahead, row, *ends))
        super().unit(code, inner, unit)

    def border(self, caller: Function, row: Value, low: Value, high: Value) -> None:
        self.direct.tails = self.tails
        self.direct.border(caller, row, low, high)


def _kept(source: Source, maps: IndexMaps, roots: Sequence[Root]) -> list[Atom]:
    """The dear values of one shape that several places, or the buffers and a place, read."""
    if isinstance(maps, (FlatMaps, ShortMaps)) or len(maps.lengths) != 2 or maps.lengths[1] > BLOCK:
        return []
    pieces = [piece for root in roots for piece in root.pieces]
    dear: dict[int, float] = {}
    for atom, place, _ in source.demanded(maps, pieces, None).values():
        made = source.made.get(id(atom))
        if made is not None and id(atom) not in dear:
            before = source.reads(maps, atom, place, None)
            own = cost(made) if elementwise(made) else 0.0
            dear[id(atom)] = own + sum(
                {id(p.atom): dear.get(id(p.atom), 0.0) for p in before}.values()
            )
    used: dict[int, set[tuple[bool, Place]]] = {}
    for piece in pieces:
        used.setdefault(id(piece.atom), set()).add((False, piece.place))
    kept: list[Atom] = []
    for atom in reversed([v for equation in source.graph.equations for v in equation.outputs]):
        places, shape = used.get(id(atom), set()), atom.type.shape
        again = (len(places) - 1) * dear.get(id(atom), 0.0)
        fits = len(shape) == 2 and 1 not in shape and (not kept or kept[0].type.shape == shape)
        straight = all([(a.loop, a.step) for a in place] == [(0, 1), (1, 1)] for _, place in places)
        if again >= KEPT and fits and straight:
            kept.append(atom)
            places = {(True, IndexMaps(shape).whole(shape))}
        for ahead, place in places:
            own_maps = IndexMaps(kept[0].type.shape) if ahead else maps
            for piece in source.reads(own_maps, atom, place, None):
                used.setdefault(id(piece.atom), set()).add((ahead, piece.place))
    return kept
