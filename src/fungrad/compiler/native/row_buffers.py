"""Buffers of expensive values that a unit reads several times, which a loop before it fills: values
along the last loop alone, which all rows read, and the rows that stencils read.

A nest of two loops, as over an image, computes each value where it is read, so that a value read at
several shifts would be computed several times. Borders that read distant rows, as a roll does,
still compute it so.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.block_sums import reduction
from fungrad.compiler.native.element_operations import cost, type_of
from fungrad.compiler.native.element_values import Body, Box, KernelGraph, Key
from fungrad.compiler.native.index_maps import (
    FlatMaps,
    IndexMap,
    IndexMaps,
    LaneMaps,
    Piece,
    ShortMaps,
    loops_of,
)
from fungrad.compiler.native.lane_nests import LaneNest
from fungrad.compiler.native.llvm_ir import Function, Value, size_of
from fungrad.compiler.native.loop_nests import BoxNest, Root
from fungrad.compiler.native.rows import RowNest
from fungrad.compiler.native.scratch_layout import whole_lines
from fungrad.ir.graph import Atom, Equation, Literal
from fungrad.primitives.elementwise.by_elements import elementwise
from fungrad.primitives.facts import FIRST, Along


def box_nest(source: KernelGraph, maps: IndexMaps, roots: Sequence[Root], name: str) -> BoxNest:
    """The nest of some roots, with buffers where they save work."""
    if isinstance(maps, LaneMaps) and maps.lane >= 0:
        return LaneNest(source, maps, roots, name)
    columns = columns_of(source, maps, roots)
    if columns and maps.lengths[-1] <= tuned.unit_elements // tuned.buffered_rows:
        nest = BoxNest(source.with_buffers(columns), maps, roots, name)
        _with_columns(nest, source, columns, name)
        return nest
    kept = _kept(source, maps, roots)
    if kept:
        found = BufferedNest(source, maps, roots, name, kept)
        if (
            len(found.boxes[0]) == 1
            and found.boxes[1]
            and found.high - found.low <= tuned.buffer_halo
        ):
            return found
    return BoxNest(source, maps, roots, name)


def row_nest(source: KernelGraph, maps: IndexMaps, roots: Sequence[Root], name: str) -> RowNest:
    """The nest of some roots with reductions along axes, with buffers where they save work."""
    columns = columns_of(source, maps, roots)
    if not columns:
        return RowNest(source, maps, roots)
    found = RowNest(source.with_buffers(columns), maps, roots)
    if found.kept:
        return RowNest(source, maps, roots)
    _with_columns(found, source, columns, name)
    return found


def columns_of(source: KernelGraph, maps: IndexMaps, roots: Sequence[Root]) -> list[Atom]:
    """The expensive values that vary along the last loop alone, and that values in all loops read:
    each unit computes them once.
    """
    last = len(maps.lengths) - 1
    inner = not maps.reduced or last in maps.reduced
    if last < 1 or not inner or isinstance(maps, FlatMaps):
        return []
    price, kept = dict[Key, float](), dict[Atom, None]()
    demanded = source.demanded(maps, [piece for root in roots for piece in root.pieces], None)
    for key, (atom, index, *_) in demanded.items():
        made, loops = source.made.get(atom), loops_of(index)
        below = [(p, (p.atom, p.index_map)) for p in source.reads(maps, atom, index, None)]
        if loops <= {last} and not (made and reduction(made) and not maps.folded(made)):
            own = _cost(made, maps, len(below)) if made else 0.0
            price[key] = own + sum([price.get(k, -math.inf) for p, k in below
                                    if not isinstance(p.atom, Literal)])  # fmt: skip
            continue
        for p, k in below:
            along = [a for a in p.index_map if a != FIRST]
            if (
                price.get(k, 0.0) >= tuned.buffered_ns
                and along == [Along(last)]
                and p.atom in source.made
            ):
                kept[p.atom] = None
    return [atom for atom in kept if atom.type.size == maps.lengths[last]]


def _cost(equation: Equation, maps: IndexMaps, terms: int) -> float:
    """The nanoseconds of an element, without those of the values that it is made of."""
    if maps.folded(equation):
        return terms * cost(equation)
    return cost(equation) if elementwise(equation) else 0.0


def _with_columns(
    nest: BoxNest | RowNest, source: KernelGraph, columns: Sequence[Atom], name: str
) -> None:
    """Gives a nest loops that compute `columns` ahead of each unit.

    Args:
      nest: reads them as arrays after all others.
      source: computes them.
    """
    nest.columns = ahead = dict[int, BoxNest]()
    for n, atom in enumerate(columns):
        own = nest.maps.of(nest.maps.nest(atom.type.shape))
        pieces = [Piece(atom, index) for index in own.wholes(atom.type.shape)]
        roots = [Root(pieces, source.pointers + n - source.outputs)]
        ahead[nest.buffer] = found = BoxNest(source, own, roots, f"{name}ahead{n}")
        nest.buffer += whole_lines(atom.type.nbytes)
        nest.cost_ns += found.cost_ns
    nest.per = max(nest.per, tuned.buffered_rows)
    nest.units = -(-(nest.items if isinstance(nest, RowNest) else nest.rows) // nest.per)


class BufferedNest(BoxNest):
    """Loops that read some values from buffers of rows, which a loop before them fills.

    Args:
      kept: the buffered values, of one shape.
    """

    def __init__(
        self, source: KernelGraph, maps: IndexMaps, roots: Sequence[Root], name: str,
        kept: Sequence[Atom],
    ) -> None:  # fmt: skip
        super().__init__(source.with_buffers(kept), maps, roots, name)
        mine = set(kept)

        def offsets(box: Box | None) -> list[int]:
            read = self.source.demanded(maps, self.pieces, box).values()
            return [p.index_map[0].offset for p in read if p.atom in mine]

        boxes = [n for box in itertools.product(*self.boxes) for n in offsets(box)]
        borders = offsets(None)
        self.low, self.high = min(boxes, default=0), max(boxes, default=0)
        self.direct = None
        if min(borders) < self.low or max(borders) > self.high:
            self.direct = BoxNest(source, maps, roots, name)
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
            self.buffer += whole_lines(row * (self.per + self.high - self.low))

    def entry(self, code: Function, extra: Mapping[int, Value] | None = None) -> Body:
        self.ahead_entry = self.ahead.entry(code)
        return super().entry(code, extra)

    def unit(self, code: Function, entry: Body, unit: Value) -> None:
        """Fills the buffers with the rows that a unit reads, and runs the unit."""
        row = code.mul(code.sub(unit, self.first), self.per)
        low = code.intrinsic("smax", [code.add(row, self.low), 0])
        high = code.add(row, self.per + self.high)
        high = code.intrinsic("smin", [high, self.ahead.rows])
        pointers = {}
        for array, (offset, size) in self.kept.items():
            at = code.sub(offset, code.mul(low, size))
            pointers[array] = code.at(self.buffers, at)
        inner = Body(self.source, self.maps, code, {}, None, 1, entry)
        ahead = Body(self.ahead.source, self.ahead.maps, code, {}, None, 1, self.ahead_entry)
        inner.pointers = ahead.pointers = self.ahead.extra = pointers
        self.extra = {**self.extra, **pointers}
        self.ahead.tails = self.tails
        self.ahead.whole_rows(code, ahead, low, high)
        super().unit(code, inner, unit)

    def border(self, caller: Function, row: Value, low: Value, high: Value) -> None:
        if self.direct is None:
            super().border(caller, row, low, high)
        else:
            self.direct.tails = self.tails
            self.direct.border(caller, row, low, high)


def _kept(source: KernelGraph, maps: IndexMaps, roots: Sequence[Root]) -> list[Atom]:
    """The expensive values that are read at several indices, or at one and for a buffer; all of the
    one shape that saves most.
    """
    if (
        isinstance(maps, (FlatMaps, ShortMaps))
        or len(maps.lengths) != 2
        or maps.lengths[1] > tuned.unit_elements
    ):
        return []
    pieces = [piece for root in roots for piece in root.pieces]
    recompute = _recompute(source, maps, pieces)
    values = [v for equation in source.graph.equations for v in equation.outputs]
    shapes = dict.fromkeys(
        v.type.shape for v in values if recompute.get(v, 0.0) >= tuned.buffered_ns
    )
    best: tuple[float, list[Atom]] = (0.0, [])
    for shape in [s for s in shapes if len(s) == 2 and 1 not in s]:
        found = _kept_of_shape(source, maps, pieces, recompute, shape)
        best = found if found[0] > best[0] else best
    return best[1]


def _recompute(source: KernelGraph, maps: IndexMaps, pieces: Sequence[Piece]) -> dict[Atom, float]:
    """The nanoseconds of an element of each value that is computed where it is read."""
    recompute: dict[Atom, float] = {}
    for atom, index, *_ in source.demanded(maps, pieces, None).values():
        made = source.made.get(atom)
        if made is not None and atom not in recompute:
            before = dict.fromkeys(p.atom for p in source.reads(maps, atom, index, None))
            price = _cost(made, maps, len(before))
            recompute[atom] = price + sum([recompute.get(a, 0.0) for a in before])
    return recompute


def _kept_of_shape(
    source: KernelGraph, maps: IndexMaps, pieces: Sequence[Piece], recompute: dict[Atom, float],
    shape: tuple[int, ...],
) -> tuple[float, list[Atom]]:  # fmt: skip
    """The values of a shape that are worth a buffer, and the nanoseconds an element that these
    save.
    """
    saved, own, kept = 0.0, IndexMaps(shape), list[Atom]()
    used: dict[Atom, set[tuple[bool, IndexMap]]] = {}
    for piece in pieces:
        used.setdefault(piece.atom, set()).add((False, piece.index_map))
    for equation in reversed(source.graph.equations):
        for atom in reversed(equation.outputs):
            indices = used.get(atom, set())
            again = (len(indices) - 1) * recompute.get(atom, 0.0)
            along = [[(a.loop, a.step) for a in index] for _, index in indices]
            straight = all(a == [(0, 1), (1, 1)] for a in along)
            if again >= tuned.buffered_ns and atom.type.shape == shape and straight:
                kept.append(atom)
                saved += again
                indices = {(True, own.whole(shape))}
            for ahead, index in indices:
                for piece in source.reads(own if ahead else maps, atom, index, None):
                    used.setdefault(piece.atom, set()).add((ahead, piece.index_map))
    return saved, kept
