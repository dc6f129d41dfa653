"""Reductions along axes with elementwise work around them, in one pass over memory: softmax,
logsumexp, layer norm.

The outer loops of the nest run over items: rows, or groups of as many columns as there are lanes.
The inner, reduced loops are those over axes that reductions reduce. Each item runs in phases, of
one pass through the reduced loops each: a value that needs the result of a reduction is in a later
phase. Expensive values that several phases need are kept in a buffer of one item.

Between the phases there is work on one number an item: what stands between X @ w and X.T @ r, the
root of a variance. Rows run in groups, each phase for all of a group, so that this work fills the
lanes. Some rows of a group pass through the reduced loops together: what they share is loaded once,
and the sum of one does not wait for that of another.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.block_sums import Reduction, reduction
from fungrad.compiler.native.element_operations import cost, type_of
from fungrad.compiler.native.element_values import Body, KernelGraph, Key, transposed
from fungrad.compiler.native.gathers import direct_atoms, writes
from fungrad.compiler.native.index_maps import SHORT, IndexMap, IndexMaps, Piece, loops_of
from fungrad.compiler.native.llvm_ir import Function, Value, size_of
from fungrad.compiler.native.loop_nests import Nest, Root
from fungrad.compiler.native.scratch_layout import whole_lines
from fungrad.compiler.refusal import Refusal, Refused, attempted, refusal
from fungrad.ir.graph import Atom, Equation
from fungrad.primitives.facts import Along


class RowNest(Nest):
    """Items and the reduced loops within them.

    Attributes:
      phase: the first phase in which each value (at an index) can be computed.
      needed: the phases that need each value.
      kept: the buffered values, and the offsets of their buffers in bytes.
      group: the number of rows that run each phase, before any of them runs the next.
      together: for each phase, the number of these that pass through the reduced loops at once.
      ahead: see Body.
      shared_by: the values of single items that their loops read or compute, and the offsets of
        their buffers, of one element for each item of a group.
    """

    def __init__(self, source: KernelGraph, maps: IndexMaps, roots: Sequence[Root]) -> None:
        super().__init__(source, maps, roots)
        if any(True for _ in source.limits(maps, self.pieces)):
            raise Refused("padding in reductions along axes", "layout")
        lengths, self.inner = maps.lengths, list(maps.reduced)
        self.outer = [i for i in range(len(lengths)) if i not in self.inner]
        self.along = self.inner[-1] == len(lengths) - 1
        self.size = math.prod([lengths[i] for i in self.inner])
        self.far = self.elements > tuned.far_elements
        rounded = any(r and r.type == "half" for r in map(self.reduction, self.demanded))
        if rounded and self.along:
            raise Refused("sums of rows of halves in lanes", "layout")
        # a sum that is rounded at each row waits long: several run side by side
        self.lanes = self.register * (
            4 if rounded or (self.heavy and self.far and not self.along) else 2 if self.heavy else 1
        )
        while self.lanes > lengths[-1]:
            self.lanes //= 2
        self.items = math.prod([lengths[i] for i in self.outer])
        if not self.along:
            self.groups = -(-lengths[-1] // self.lanes)
            self.items = self.items // lengths[-1] * self.groups
        width = 1 if self.along else self.lanes
        self.per = max(1, tuned.unit_elements // (self.size * width))
        self.box = [(0, n) for n in lengths]
        self._phases()
        self._buffers()
        self._group()
        self.ahead = self._ahead()
        self.units = -(-self.items // self.per)

    def reduction(self, key: Key) -> Reduction | None:
        """The Reduction that computes a value along the reduced loops; None if none does."""
        equation = self.source.made.get(key[0])
        if equation is None or self.maps.moved(equation, key[1]) is not None:
            return None
        return None if self.maps.folded(equation) else reduction(equation)

    def _operands(self, key: Key) -> list[Key]:
        piece = self.demanded[key]
        below = self.source.reads(self.maps, piece.atom, piece.index_map, None)
        return [(p.atom, p.index_map) for p in below if (p.atom, p.index_map) in self.demanded]

    def _phases(self) -> None:
        self.phase: dict[Key, int] = {}
        for key in self.demanded:
            before = [self.phase[k] + (self.reduction(k) is not None) for k in self._operands(key)]
            self.phase[key] = max(before, default=0)
        self.last_phase = max(self.phase.values(), default=0)

    def _inside(self, index: IndexMap) -> bool:
        """Whether a value at an index varies within an item."""
        return bool(loops_of(index) & set(self.inner))

    def _buffers(self) -> None:
        """Chooses the values that are kept, and the phases in which each is computed or read."""
        recompute: dict[Key, float] = {}
        for key in self.demanded:
            equation = self.source.made.get(key[0])
            own = cost(equation) if equation is not None else 0.0
            if self.reduction(key) is not None or not self._inside(key[1]):
                recompute[key] = 0.0
            else:
                recompute[key] = own + sum(recompute[k] for k in self._operands(key))
        self.needed: dict[Key, set[int]] = {key: set() for key in self.demanded}
        for root in self.roots:
            keys = [
                (p.atom, p.index_map) for p in root.pieces if (p.atom, p.index_map) in recompute
            ]
            for key in keys:
                self.needed[key].add(max(self.phase[k] for k in keys))
        self.kept: dict[Key, int] = {}
        self.buffer = 0
        for key in reversed(list(self.demanded)):
            phases = self.needed[key]
            if self.reduction(key) is not None:
                phases = {self.phase[key]}
            elif self._inside(key[1]) and len(phases) > 1 and recompute[key] >= tuned.buffered_ns:
                self.kept[key] = self.buffer
                width = 1 if self.along else self.lanes
                size = size_of(type_of(self.demanded[key].atom.type.dtype))
                self.buffer += whole_lines(self.size * width * size)
                phases = {min(phases)}
            for k in self._operands(key):
                self.needed[k] |= phases

    def _group(self) -> None:
        """Decides whether rows run in groups, and lays out the buffers for these."""
        self.group, self.row_bytes, self.shared_by = 1, self.buffer, dict[Key, int]()
        self.together: list[int] = []
        own = [key for key in self.demanded if not self._inside(key[1])
               and (loops_of(key[1]) or self._late(key))]  # fmt: skip
        late = [key for key in own if key[0] in self.source.made and self.phase[key] > 0
                and self.reduction(key) is None]  # fmt: skip
        heavy = any(cost(self.source.made[key[0]]) >= tuned.buffered_ns for key in late)
        some = self.along and len(self.outer) == 1 and self.lanes > 1
        group = (2 if heavy else 1) * self.register
        if not some or self.items < 2 * group or self.size * group > tuned.grouped_elements:
            return
        if any(key[0] in self.source.arrays and self._apart(key) for key in own):
            return
        self.group = group
        self.together = [self._together(now) for now in range(self.last_phase + 1)]
        self.per = -(-self.per // self.group) * self.group
        read = {k for key in self.demanded if self._inside(key[1]) for k in self._operands(key)}
        read |= {(p.atom, p.index_map) for root in self.roots for p in root.pieces}
        self.buffer *= self.group
        for key in own:
            if key in read or self.reduction(key) is not None:
                self.shared_by[key] = self.buffer
                size = size_of(type_of(self.demanded[key].atom.type.dtype))
                self.buffer += whole_lines(self.group * size)

    def _together(self, now: int) -> int:
        """The number of rows that run a phase at once: their sums fit into registers. Heavy values
        fill two registers of a row instead.
        """
        if self.heavy or self.spills:
            return 1
        sums = max(1, len(self._work(now)[0]))
        room = min(tuned.sums_at_once // sums, tuned.rows_at_once, self.group)
        return 1 << max(1, room).bit_length() - 1

    def _ahead(self) -> tuple[int, int] | None:
        """What is prefetched: of columns the next lanes, of light rows in groups the next group."""
        if not self.far or (self.along and (self.group == 1 or self.heavy)):
            return None
        if self.along:
            return self.outer[0], self.group
        return len(self.maps.lengths) - 1, tuned.prefetched_steps * self.lanes

    def _apart(self, key: Key) -> bool:
        """Whether the elements of an array that the items of a group read are far apart."""
        if any(not isinstance(along, Along) for along in key[1]):
            return True
        found = self.maps.element(key[0].type.shape, key[1])
        return sum([stride for along, _, stride in found if along.loop == self.outer[0]]) > SHORT

    # Writing.

    def unit(self, code: Function, entry: Body, unit: Value) -> None:
        first = code.mul(code.sub(unit, self.first), self.per)
        stop = code.intrinsic("smin", [code.add(first, self.per), self.items])
        self.start_sums(code)
        if self.group > 1:
            length = code.sub(stop, first)
            whole = code.sub(stop, code.binary("srem", length, self.group))
            code.for_range(first, whole, lambda at: self.items_at(code, entry, at), self.group)
            first = whole
        if self.items % self.group or self.group == 1:
            code.for_range(first, stop, lambda item: self.item(code, entry, item))
        self.end_sums(code, unit)

    def items_at(self, code: Function, entry: Body, first: Value) -> None:
        """All phases of a group: of its items, each on its own, what lies along the reduced loops;
        of all of them at once the rest.
        """
        (loop,) = self.outer
        all_of = Body(self.source, self.maps, code, {loop: first}, self.box, self.group, entry)
        all_of.last = loop
        for now in range(self.last_phase + 2):  # the last reads the reductions of the one before
            for key, piece in self.demanded.items():
                if self._inside(key[1]):
                    continue
                if self.reduction(key) is None:
                    if self.phase[key] == now:
                        x = all_of.value(piece.atom, piece.index_map)
                        if key in self.shared_by:
                            x = code.splat(x, self.group)
                            code.write(x, code.at(self.buffers, self.shared_by[key]))
                elif self.phase[key] == now - 1:
                    type = type_of(piece.atom.type.dtype)
                    at = code.at(self.buffers, self.shared_by[key])
                    all_of.memo[key] = code.read(at, type, self.group)
            if any(self._work(now)):
                some = functools.partial(self._some_of, code, entry, first, now)
                code.for_range(0, self.group, some, self.together[now])
        for root in self.roots:
            if not any(self._inside(p.index_map) for p in root.pieces):
                super().element(all_of, root, None)

    def _some_of(self, code: Function, entry: Body, first: Value, now: int, slot: Value) -> None:
        """One phase of the items of a group that pass through the loops together."""
        (loop,), slots = self.outer, [code.add(slot, n) for n in range(self.together[now])]
        items = []
        for own in slots:
            counters = {loop: code.add(first, own)}
            items.append(Body(self.source, self.maps, code, counters, self.box, self.lanes, entry))
        for key, offset in self.shared_by.items():
            if self.phase[key] + (self.reduction(key) is not None) <= now:
                type = type_of(key[0].type.dtype)
                for item, own in zip(items, slots, strict=True):
                    at = code.at(code.at(self.buffers, offset), own, type)
                    item.memo[key] = code.read(at, type, 1)
        self.run(code, items, slots, now, None)
        for key, offset in self.shared_by.items():
            if self.reduction(key) is not None and self.phase[key] == now:
                x = transposed(code, [item.memo[key] for item in items])
                code.write(x, code.at(code.at(self.buffers, offset), slot, x.type))

    def settle(self, body: Body, demanded: Any) -> None:
        """Computes ahead the values that depend on no loop and no reduction."""
        for key, piece in demanded.items():
            if not loops_of(piece.index_map) and not self._late(key):
                body.value(piece.atom, piece.index_map)

    def _late(self, key: Key) -> bool:
        return self.phase[key] > 0 or self.reduction(key) is not None

    def item(self, code: Function, entry: Body, item: Value) -> None:
        """All phases of an item."""
        counters, counted = dict[int, Value](), None
        lengths = self.maps.lengths
        for loop in reversed(self.outer):
            n = lengths[loop]
            if loop == len(lengths) - 1:
                above = code.binary("sdiv", item, self.groups)
                group = code.sub(item, code.mul(above, self.groups))
                at = code.mul(group, self.lanes)
                if n % self.lanes:
                    counters[loop] = code.intrinsic("smin", [at, n - self.lanes])
                    counted = self.fresh_lanes(code, code.sub(at, counters[loop]), self.lanes)
                else:
                    counters[loop] = at
            else:
                above = code.binary("sdiv", item, n)
                counters[loop] = code.sub(item, code.mul(above, n))
            item = above
        outer = Body(self.source, self.maps, code, counters, self.box, self.lanes, entry)
        for now in range(self.last_phase + 1):
            for key, piece in self.demanded.items():
                if self.phase[key] == now and not self._inside(key[1]):
                    if self.reduction(key) is None:
                        outer.value(piece.atom, piece.index_map)
            self.run(code, [outer], [None], now, counted)
        for root in self.roots:
            if not any(self._inside(p.index_map) for p in root.pieces):
                self.element(outer, root, counted)

    def fresh_lanes(self, code: Function, known: Value, lanes: int) -> Value:
        """The mask of the lanes that the step before, which overlaps this one, has not counted."""
        return code.compare("sge", code.iota(lanes), code.splat(known, lanes))

    def _work(self, now: int) -> tuple[list[tuple[Key, Reduction]], list[Root], list[Key]]:
        """The reductions, roots and buffered values of a phase."""
        reductions = [(key, r) for key in self.demanded if self.phase[key] == now
                      for r in [self.reduction(key)] if r is not None]  # fmt: skip
        roots = [root for root in self.roots
                 if any(self._inside(p.index_map) for p in root.pieces)
                 and max([self.phase.get((p.atom, p.index_map), 0) for p in root.pieces]) == now
                 ]  # fmt: skip
        return reductions, roots, [key for key in self.kept if min(self.needed[key]) == now]

    def run(
        self, code: Function, items: Sequence[Body], slots: Sequence[Value | None], now: int,
        counted: Value | None,
    ) -> None:  # fmt: skip
        """One phase of some items: its reductions, roots and buffered values.

        Args:
          code: the kernel.
          items: the values of each item that its loops read; receive the reductions.
          slots: the place of each item in its group.
          now: the phase.
          counted: the lanes of items that count.
        """
        reductions, roots, kept = self._work(now)
        if not (reductions or roots or kept):
            return
        variables = [[code.initialised(found.start(code, self.lanes)) for _ in items]
                     for _, found in reductions]  # fmt: skip

        def step(counters: dict[int, Value], lanes: int, fresh: Value | None) -> None:
            bodies = []
            for item, slot in zip(items, slots, strict=True):
                body = Body(self.source, self.maps, code, {**item.counters, **counters}, self.box,
                            lanes, item)  # fmt: skip
                body.ahead = self.ahead
                for key in self.kept:
                    if now in self.needed[key] and now > min(self.needed[key]):
                        body.memo[key] = self.buffered(body, key, slot)
                bodies.append(body)
            for (key, found), own in zip(reductions, variables, strict=True):
                piece = self.demanded[key]
                terms = self.source.reads(self.maps, piece.atom, piece.index_map, None)
                for body, variable in zip(bodies, own, strict=True):
                    values = [code.splat(body.value(p.atom, p.index_map), lanes) for p in terms]
                    found.add(code, variable, found.term(code, values), fresh)
            for piece in [p for root in roots for p in root.pieces]:  # all loads before the stores
                for body in bodies:
                    body.value(piece.atom, piece.index_map)
            for key in kept:
                piece = self.demanded[key]
                for body, slot in zip(bodies, slots, strict=True):
                    self.buffered(body, key, slot, body.value(piece.atom, piece.index_map))
            for root in roots:
                for body in bodies:
                    self.element(body, root, fresh if self.along else counted)

        self.loops(code, self.inner, {}, step)
        for (key, found), own in zip(reductions, variables, strict=True):
            for item, variable in zip(items, own, strict=True):
                x = code.get(variable)
                item.memo[key] = found.result(code, found.across(code, x) if self.along else x)

    def loops(
        self, code: Function, left: Sequence[int], counters: dict[int, Value],
        step: Callable[[dict[int, Value], int, Value | None], None],
    ) -> None:  # fmt: skip
        """Writes the reduced loops `left`, outermost first. The remainder of the innermost one is
        the smallest vector that covers it."""
        if not left:
            step(counters, self.lanes, None)
            return
        loop, *rest = left
        n, lanes = self.maps.lengths[loop], self.lanes
        if loop < len(self.maps.lengths) - 1:
            code.for_range(0, n, lambda i: self.loops(code, rest, {**counters, loop: i}, step))
        else:
            code.for_range(
                0, n - n % lanes, lambda i: step({**counters, loop: i}, lanes, None), lanes
            )
            if n % lanes:
                short = max(2, 1 << (n % lanes - 1).bit_length())
                at, known = (code.constant(k, "i64", 1) for k in (n - short, short - n % lanes))
                fresh = self.fresh_lanes(code, known, short) if short > n % lanes else None
                step({**counters, loop: at}, short, fresh)

    def buffered(self, body: Body, key: Key, slot: Value | None, x: Value | None = None) -> Value:
        """Loads a value from its buffer at a Body's index, or stores `x` there."""
        code, type = body.code, type_of(self.demanded[key].atom.type.dtype)
        at = None
        for loop in self.inner:
            i = body.counters[loop]
            at = i if at is None else code.add(code.mul(at, self.maps.lengths[loop]), i)
        assert at is not None
        at = at if self.along else code.mul(at, self.lanes)
        start = code.at(self.buffers, self.kept[key])
        if slot is not None:
            start = code.at(start, code.mul(slot, self.row_bytes))
        pointer = code.at(start, at, type)
        if x is None:
            return code.read(pointer, type, body.lanes)
        x = code.splat(x, body.lanes)
        code.write(x, pointer)
        return x

    def element(self, body: Body, root: Root, counted: Value | None) -> None:
        """Stores an output, or adds to a reduction; a value that an item has once counts once."""
        once = self.along and not any(self._inside(p.index_map) for p in root.pieces)
        if root.reduction is not None and once:
            self.add_tail(body, root, self.tails, None)
        else:
            super().element(body, root, counted)


def row_maps(source: KernelGraph) -> list[IndexMaps]:
    """The loops of a Graph whose arrays need results of reductions along axes, for each choice of
    axes.
    """
    maps = source.outside
    direct = [v for e in source.graph.equations for v in direct_atoms(e)]
    shapes = [v.type.shape for v in direct]
    largest = max(shapes, key=lambda s: (math.prod(maps.long(s)), len(s)), default=())
    needed = for_arrays(source)
    found = dict[tuple[int, ...], None]()
    for equation in source.graph.equations:
        if equation.outputs[0] in needed:
            axes = reduced_loops(maps, equation)
            if axes and maps.nest(equation.inputs[0].type.shape) == maps.nest(largest):
                found[axes] = None
    return [maps.of(maps.nest(largest), axes) for axes in found]


def reduced_loops(maps: IndexMaps, equation: Equation) -> tuple[int, ...]:
    """The loops that an equation reduces."""
    if reduction(equation) is None or maps.folded(equation):
        return ()
    shape, axes = equation.inputs[0].type.shape, equation.params.get("axes", (0,))
    (index, *_) = maps.wholes(shape)
    return tuple(sorted([index[a].loop for a in axes if index[a].loop >= 0]))


def for_arrays(source: KernelGraph) -> set[Atom]:
    """By identity, the values that arrays need: output arrays, and their operands."""
    needed = {atom for atom in source.graph.outputs if source.is_array(atom)}
    for equation in reversed(source.graph.equations):
        out = equation.outputs[0]
        if out in needed or source.is_array(out) or writes(equation):
            needed.update(equation.inputs)
            needed.update([v for v in equation.outputs if source.is_array(v)])
    return needed


def embedded(
    source: KernelGraph, maps: IndexMaps, atoms: Sequence[Atom], known: Sequence[Root]
) -> list[list[Piece]] | Refusal:
    """The values of a root, mapped to the loops at which most of its operands are computed already;
    once for each index along short axes. Why there are no such loops.
    """
    if not source.is_array(atoms[0]):
        indices = source.elements(atoms[0])
        return [[Piece(atom, index) for atom in atoms] for index in indices]
    shape = atoms[0].type.shape
    long = list(maps.long(shape))
    loops = [i for i, n in enumerate(maps.lengths) if n > 1]
    outer = [i for i in loops if i not in maps.reduced]
    theirs = source.demanded(maps, [p for root in known for p in root.pieces], None)
    best: tuple[int, list[list[Piece]]] | None = None
    for chosen in itertools.combinations(loops, len(long)):
        if [maps.lengths[i] for i in chosen] != long or list(chosen) not in (loops, outer):
            continue
        indices = maps.indices(shape, [Along(i) for i in chosen])
        pieces = [[Piece(atom, index) for atom in atoms] for index in indices]
        needed = [p for some in pieces for p in some]
        mine = attempted(functools.partial(source.demanded, maps, needed, None))
        if isinstance(mine, Refusal):
            continue
        shared = len(mine.keys() & theirs.keys())
        if best is None or shared > best[0]:
            best = shared, pieces
    if best is None:
        return refusal("values that are neither rows nor slices of rows", "layout")
    return best[1]
