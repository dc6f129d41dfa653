"""Loop nests over the elements of arrays, divided into units that threads share.

The vector loop runs along the last loop through boxes of the index space, in each of which the same
slices and scatters contribute to all elements. On the borders between boxes a scalar loop tests the
limits of each element.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.block_sums import Reduction, reduction
from fungrad.compiler.native.element_operations import convert, cost, takes_halves, type_of
from fungrad.compiler.native.element_values import Body, KernelGraph, Key, inside
from fungrad.compiler.native.gathers import Write, index_of
from fungrad.compiler.native.index_maps import IndexMaps, Limit, Piece, loops_of
from fungrad.compiler.native.llvm_ir import Function, Operand, Value
from fungrad.compiler.native.machine_code import host
from fungrad.compiler.native.scratch_layout import whole_lines
from fungrad.compiler.refusal import Refused
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, reshape
from fungrad.support.forks import cached_property
from fungrad.support.lazy import Record


def adds(code: Function, type: str) -> Callable[[Value, Value], Value]:
    """The sum of two Values, as NumPy's: of bools whether one of them is true."""
    return functools.partial(code.binary, "or") if type == "i1" else code.add


class Root(Record):
    """The result of a nest: an output that is stored, or a reduction.

    Attributes:
      pieces: the values, at their indices; two for a contraction.
      number: the index of the output, or of the reduction.
      reduction: None for an output.
      limits: the part of the nest that has its elements.
      write: how the value, the first of the pieces, is written by index arrays, the others.
    """

    pieces: Sequence[Piece]
    number: int
    reduction: Reduction | None = None
    limits: tuple[Limit, ...] = ()
    write: Write | None = None


class Nest:
    """Loops that compute some roots.

    Attributes:
      units: the number of units.
      first: the number of the first unit.
      cost_ns: a rough estimate of the time of all units.
      spills: whether a step with several registers for each value would spill more than it gains.
      buffer: bytes of a unit's buffer between its loops. All units of one call use the first unit's
        buffer.
      bases: for each output that is written, the array that it begins with; None for zeros.
      copies_at: the offset of the copies of such outputs in the scratch, in bytes.
      extra: the pointers to buffers and copies, by array number.
      columns: the loops that fill the buffers of a unit, by their offsets in bytes.
    """

    lanes: int
    units: int
    tails: Value
    buffer = copies_at = 0
    bases: Mapping[int, int | None] = MappingProxyType({})
    columns: Mapping[int, BoxNest] = MappingProxyType({})

    def __init__(self, source: KernelGraph, maps: IndexMaps, roots: Sequence[Root]) -> None:
        self.source, self.maps, self.roots, self.first = source, maps, roots, 0
        self.extra = dict[int, Value]()
        self.pieces = [piece for root in roots for piece in root.pieces]
        self.demanded = source.demanded(maps, self.pieces, None)
        made = [p for (i, _), p in self.demanded.items() if i in source.made]
        self.elements = math.prod(maps.lengths)
        free = (reshape, broadcast_to)
        costs = [(cost(source.made[piece.atom]), self._times(piece)) for piece in made
                 if source.made[piece.atom].primitive not in free]  # fmt: skip
        sums = [root.reduction for root in roots if root.reduction is not None]
        ends = len(sums) + sum([takes_halves(found.equation) for found in sums])
        ends += sum([root.write is not None for root in roots])
        self.cost_ns = sum([ns * times for ns, times in costs]) + 0.1 * ends * self.elements
        self.heavy = any(ns >= tuned.heavy_ns and times == self.elements for ns, times in costs)
        self.spills = len(self.demanded) > tuned.register_values[host().vector_bytes]
        sizes = [
            max(4, p.atom.type.dtype.itemsize)
            for p in self.demanded.values()
            if p.atom.type.dtype.kind == "f"
        ]  # halves are computed with as floats
        self.register = host().vector_bytes // max(sizes, default=8)

    def _times(self, piece: Piece) -> int:
        """How often a value is computed: outside of the inner loops if it is invariant in them."""
        inner = self.maps.reduced or (len(self.maps.lengths) - 1,)
        read = self.source.reads(self.maps, piece.atom, piece.index_map, None)
        loops = loops_of(piece.index_map).union(*[loops_of(p.index_map) for p in read])
        if not loops.isdisjoint(inner):
            return self.elements
        return self.elements // math.prod([self.maps.lengths[i] for i in inner]) if loops else 1

    @property
    def text(self) -> str:
        """Its loops and units, and the primitives of the values that it computes."""
        nests: list[Nest] = [*self.columns.values(), self]
        found = [nest.source.made.get(i) for nest in nests for i, _ in nest.demanded]
        names = dict.fromkeys([equation.primitive.name for equation in found if equation])
        names.update(dict.fromkeys([r.reduction.equation.primitive.name for r in self.sums
                                    if r.reduction]))  # fmt: skip
        lengths = " x ".join(map(str, self.maps.lengths))
        units = f" in {self.shared} units" if self.shared > 1 else ""
        return f"for {lengths} elements{units}: {', '.join(names)}"

    @property
    def sums(self) -> list[Root]:
        """One root of each reduction."""
        return list({root.number: root for root in self.roots if root.reduction}.values())

    def sum_of(self, root: Root) -> int:
        """The index of a root's reduction among `sums`."""
        return [other.number for other in self.sums].index(root.number)

    def write(self, code: Function, first: int, partials: Mapping[int, int], buffers: int) -> None:
        """Adds the loops to a kernel.

        Args:
          code: the kernel.
          first: the number of the first unit.
          partials: for each reduction the index in the scratch of its units' partial results.
          buffers: the offset of the units' buffers in the scratch, in bytes.
        """
        self.first, self.partials = first, partials
        self.scratch = code.parameters[3]
        entry = self.entry(code)
        _, begin, end, _ = code.parameters
        begin = code.intrinsic("smax", [begin, first])
        mine = code.mul(code.sub(begin, first), self.buffer)
        self.buffers = code.at(self.scratch, code.add(mine, buffers))
        end = code.intrinsic("smin", [end, first + self.shared])
        self.vectors = [code.variable(r.reduction.type, self.lanes) for r in self.sums
                        if r.reduction]  # fmt: skip
        self.tails = code.variable("i64", max(1, len(self.sums)))
        if not self.writes:
            code.for_range(begin, end, lambda unit: self.prepared(code, entry, unit))
        else:
            code.for_range(begin, end, lambda part: self.part(code, entry, part))

    # Outputs that are written: by index arrays, or sums along the outer axes.

    @cached_property
    def writes(self) -> dict[int, Sequence[Write]]:
        """The outputs that are written, with their writes."""
        found = dict[int, list[Write]]()
        for root in self.roots:
            if root.write is not None:
                found.setdefault(root.number, []).append(root.write)
        return dict(found)

    @cached_property
    def copies(self) -> int:
        """The number of copies of these outputs, to which threads can add. It does not depend on
        the number of threads.
        """
        sizes = [self.source.graph.outputs[n].type.size for n in self.writes]
        adds = all(write.adds for some in self.writes.values() for write in some)
        if not self.writes or not adds or any(self.bases.get(n) is not None for n in self.writes):
            return 1
        if any(self.source.graph.outputs[n].type.dtype == np.float16 for n in self.writes):
            return 1  # each sum is rounded, in order
        return max(
            1,
            min(
                tuned.output_copies,
                self.units,
                self.elements // (tuned.values_of_copy * sum(sizes)),
            ),
        )

    @property
    def shared(self) -> int:
        """The number of units for threads."""
        return self.copies if self.writes else self.units

    @property
    def copied(self) -> int:
        """Bytes of the copies of the outputs."""
        sizes = [self._room(n) for n in self.writes]
        return self.copies * sum(sizes) if self.copies > 1 else 0

    def _room(self, number: int) -> int:
        return whole_lines(self.source.graph.outputs[number].type.nbytes)

    def part(self, code: Function, entry: Body, part: Value) -> None:
        """The units that write into one copy of the outputs."""
        number, pointers, at = code.sub(part, self.first), dict[int, Value](), 0
        for n in self.writes:
            array, base = self.source.outputs + n, None
            to = entry.pointer(array)
            if self.copies > 1:
                start = code.mul(number, self._room(n))
                pointers[array] = to = code.at(self.scratch, code.add(start, self.copies_at + at))
                at += self.copies * self._room(n)
            else:
                base = self.bases.get(n)
            size = self.source.graph.outputs[n].type.nbytes
            if base is not None:
                code.copy(to, entry.pointer(base), size)
            else:
                code.module.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
                code.raw(f"call void @llvm.memset.p0.i64({to}, i8 0, i64 {size}, i1 false)")
        body = Body(self.source, self.maps, code, {}, None, 1, entry)
        body.pointers = self.extra = pointers
        ends = [code.binary("sdiv", code.mul(code.add(number, n), self.units), self.copies)
                for n in (0, 1)]  # fmt: skip
        low, high = [code.add(end, self.first) for end in ends]
        code.for_range(low, high, lambda unit: self.prepared(code, body, unit))

    def prepared(self, code: Function, entry: Body, unit: Value) -> None:
        """One unit, after the loops that fill its buffers."""
        if not self.columns:
            self.unit(code, entry, unit)
            return
        first = self.source.pointers
        found = {first + n: code.at(self.buffers, at) for n, at in enumerate(self.columns)}
        inner = Body(self.source, self.maps, code, {}, None, 1, entry)
        inner.pointers = found
        self.extra = {**self.extra, **found}
        for nest in self.columns.values():
            nest.extra, nest.tails = found, self.tails
            nest.whole_rows(code, nest.entry(code, found), 0, nest.rows)
        self.settle(inner, self.demanded)
        self.unit(code, inner, unit)

    def join(self, code: Function, outer: Body) -> None:
        """Adds up the copies of the outputs, after all units."""
        at, scratch = self.copies_at, code.parameters[1]
        for n in self.writes if self.copies > 1 else ():
            type_, room = self.source.graph.outputs[n].type, self._room(n)
            type, to = type_of(type_.dtype), outer.pointer(self.source.outputs + n)

            def add(
                i: Value, lanes: int, at: int = at, room: int = room, type: str = type,
                to: Value = to,
            ) -> None:  # fmt: skip
                parts = [code.read(code.at(code.at(scratch, at + k * room), i, type), type, lanes)
                         for k in range(self.copies)]  # fmt: skip
                code.write(functools.reduce(adds(code, type), parts), code.at(to, i, type))

            whole = type_.size - type_.size % self.register
            code.for_range(0, whole, functools.partial(add, lanes=self.register), self.register)
            code.for_range(whole, type_.size, functools.partial(add, lanes=1))
            at += self.copies * room

    def entry(self, code: Function, extra: Mapping[int, Value] | None = None) -> Body:
        """The values that are constant in all loops. Those of a nest with buffers wait for their
        pointers, `extra` (`prepared`).
        """
        body = Body(self.source, self.maps, code, {}, None)
        body.point(range(self.source.pointers))
        body.pointers.update(extra or {})
        if extra is not None or not self.columns:
            self.settle(body, self.demanded)
        return body

    def settle(self, body: Body, demanded: Mapping[Key, Piece]) -> None:
        """Computes loop-invariant values ahead of the loop."""
        for piece in demanded.values():
            if loops_of(piece.index_map) <= body.counters.keys():
                body.value(piece.atom, piece.index_map)

    def unit(self, code: Function, entry: Body, unit: Value) -> None:
        raise NotImplementedError

    def start_sums(self, code: Function) -> None:
        for k, (root, vector) in enumerate(zip(self.sums, self.vectors, strict=True)):
            assert root.reduction is not None
            code.set(vector, root.reduction.start(code, self.lanes))
            code.store(root.reduction.start(code, 1), code.at(self.tails, 8 * k))

    def end_sums(self, code: Function, unit: Value) -> None:
        """Stores the partial results of a unit."""
        for k, (root, vector) in enumerate(zip(self.sums, self.vectors, strict=True)):
            assert root.reduction is not None
            x = root.reduction.joined_lanes(code, code.get(vector))
            tail = code.load(code.at(self.tails, 8 * k), x.type, 1)
            at = code.add(unit, self.partials[root.number] - self.first)
            code.store(root.reduction.joined(code, x, tail), code.at(self.scratch, at, "i64"))

    def element(self, body: Body, root: Root, counted: Value | None) -> None:
        """Stores an output, or adds to a reduction, at one index."""
        code, reduction = body.code, root.reduction
        if root.write is not None:
            self.written(body, root, root.write, counted)
            return
        if reduction is None:
            (piece,) = root.pieces
            x = body.value(piece.atom, piece.index_map)
            array = self.source.outputs + root.number
            body.store(x, array, piece.atom.type.shape, piece.index_map)
            return
        values = [code.splat(body.value(p.atom, p.index_map), body.lanes) for p in root.pieces]
        variable = self.vectors[self.sum_of(root)]
        reduction.add(code, variable, reduction.term(code, values), counted)

    def written(self, body: Body, root: Root, write: Write, counted: Value | None) -> None:
        """Writes a value at its indices; what does not count adds nothing."""
        code, (piece, *_) = body.code, root.pieces
        type_ = self.source.graph.outputs[root.number].type
        index = index_of(write.equation, piece.index_map)
        x = convert(code, body.value(piece.atom, piece.index_map), type_of(type_.dtype))
        if counted is not None and write.adds:
            x = code.select(counted, code.splat(x, body.lanes), 0)
        if x.lanes > 1 and body.lanes_at(index) == 1:
            total = reduction(write.equation)
            assert total is not None
            if x.type == "half":
                raise Refused("sums of halves in lanes, row by row", "layout", write.equation)
            x = total.across(code, x)
        array = self.source.outputs + root.number
        body.write(x, array, type_.shape, index, adds(code, x.type) if write.adds else None)

    def add_tail(self, body: Body, root: Root, tails: Value, counted: Value | None) -> None:
        """Adds a single element to a reduction."""
        code, reduction = body.code, root.reduction
        assert reduction is not None
        x = reduction.term(code, [body.value(p.atom, p.index_map) for p in root.pieces])
        if counted is not None:
            x = code.select(counted, x, reduction.start(code, 1))
        at = code.at(tails, 8 * self.sum_of(root))
        code.store(reduction.joined(code, code.load(at, x.type, 1), x), at)


class BoxNest(Nest):
    """Loops over the elements of arrays of one shape, through boxes and on their borders."""

    def __init__(
        self, source: KernelGraph, maps: IndexMaps, roots: Sequence[Root], name: str
    ) -> None:
        super().__init__(source, maps, roots)
        self.name = name
        self.rows, self.last = self.elements // maps.lengths[-1], maps.lengths[-1]
        self.across = -(-self.last // tuned.unit_elements) if self.last > tuned.unit_elements else 0
        self.per = 1 if self.across else max(1, tuned.unit_elements // self.last)
        self.units = self.rows * self.across if self.across else -(-self.rows // self.per)
        registers = 2 if self.heavy else 1
        if self.elements >= tuned.long_elements and (host().vector_bytes == 64 or not self.heavy):
            registers *= 2
        if self.spills:
            registers = 1
        self.lanes = registers * self.register
        while self.lanes > self.last:
            self.lanes //= 2
        few = len(self.demanded) <= tuned.odd_values
        if self.heavy and not self.sums and few and self.lanes < self.elements < 2 * self.register:
            self.lanes = self.last
        self.cuts = self._cuts()
        self.boxes = self._boxes()

    def _cuts(self) -> list[list[tuple[int, int]]]:
        """For each loop the ranges between the borders of pieces."""
        found = [{0, n} for n in self.maps.lengths]
        limits = [limit for root in self.roots for limit in root.limits]
        for loop, low, high in [*limits, *self.source.limits(self.maps, self.pieces)]:
            found[loop] |= {low, high}
        return [list(itertools.pairwise(sorted(f))) for f in found]

    def _boxes(self) -> list[list[tuple[int, int]]]:
        """For each loop the long ranges, whose products are the boxes."""
        found = []
        for stretches, length in zip(self.cuts, self.maps.lengths, strict=True):
            found.append([s for s in stretches if 8 * (s[1] - s[0]) >= length])
        longest = max([b - a for a, b in self.cuts[-1]])
        while self.lanes > longest:
            self.lanes //= 2
        found[-1] = [s for s in found[-1] if s[1] - s[0] >= self.lanes]
        while math.prod(map(len, found)) > tuned.vector_boxes:
            many = max(found, key=len)
            many.remove(min(many, key=lambda s: s[1] - s[0]))
        return found

    def unit(self, code: Function, entry: Body, unit: Value) -> None:
        """One unit: its rows, or a part of one row, and its partial results."""
        own = code.sub(unit, self.first)
        self.start_sums(code)
        if self.across:
            row = code.binary("sdiv", own, self.across)
            low = code.mul(code.sub(own, code.mul(row, self.across)), tuned.unit_elements)
            high = code.intrinsic("smin", [code.add(low, tuned.unit_elements), self.last])
            self.row(code, entry, row, low, high)
        else:
            first = code.mul(own, self.per)
            stop = code.intrinsic("smin", [code.add(first, self.per), self.rows])
            self.whole_rows(code, entry, first, stop)
        self.end_sums(code, unit)

    def whole_rows(self, code: Function, entry: Body, first: Operand, stop: Operand) -> None:
        """All elements of the rows from `first` to `stop`."""
        ends = [code.constant(n, "i64", 1) for n in (0, self.last)]
        code.for_range(first, stop, lambda row: self.row(code, entry, row, *ends))

    def counters(self, code: Function, row: Value) -> dict[int, Value]:
        """The indices of the outer loops."""
        found: dict[int, Value] = {}
        for loop in reversed(range(len(self.maps.lengths) - 1)):
            above = code.binary("sdiv", row, self.maps.lengths[loop]) if loop else row
            length = self.maps.lengths[loop]
            found[loop] = code.sub(row, code.mul(above, length)) if loop else row
            row = above
        return found

    def row(self, code: Function, entry: Body, row: Value, low: Value, high: Value) -> None:
        """The elements of a row from `low` to `high`."""
        counters = self.counters(code, row)
        after = code.label("row")
        for outer in itertools.product(*self.boxes[:-1]):
            fits = None
            for loop, (first, stop) in enumerate(outer):
                if (first, stop) == (0, self.maps.lengths[loop]):
                    continue
                for test, bound in (("sge", first), ("slt", stop)):
                    one = code.compare(test, counters[loop], bound)
                    fits = one if fits is None else code.binary("and", fits, one)
            if fits is None:
                self.stretches(code, entry, counters, row, outer, low, high)
                code.goto(after)
                break
            yes, no = code.label("box"), code.label("beside")
            code.branch(fits, yes, no)
            code.begin(yes)
            self.stretches(code, entry, counters, row, outer, low, high)
            code.goto(after)
            code.begin(no)
        else:
            self.border(code, row, low, high)
            code.goto(after)
        code.begin(after)

    def stretches(
        self, code: Function, entry: Body, counters: dict[int, Value], row: Value,
        outer: Sequence[tuple[int, int]], low: Value, high: Value,
    ) -> None:  # fmt: skip
        """The boxes along a row in order, and the borders between them."""
        before = 0
        for stretch in self.boxes[-1]:
            first, stop = stretch
            if first > before:
                self.border(code, row, *self.clipped(code, low, high, before, first))
            box = [*outer, stretch]
            body = Body(self.source, self.maps, code, counters, box, 1, entry)
            self.settle(body, self.source.demanded(self.maps, self.pieces, box))
            self.vector_loop(code, body, *self.clipped(code, low, high, first, stop))
            before = stop
        if before < self.last:
            self.border(code, row, *self.clipped(code, low, high, before, self.last))

    def clipped(
        self, code: Function, low: Value, high: Value, first: int, stop: int
    ) -> tuple[Value, Value]:
        low = code.intrinsic("smax", [low, first]) if first else low
        high = code.intrinsic("smin", [high, stop]) if stop < self.last else high
        return low, high

    def vector_loop(self, code: Function, outer: Body, low: Value, high: Value) -> None:
        """Vector steps along a box; the last one ends at the box's end, and may repeat elements."""
        assert outer.box is not None
        (first, stop), lanes = outer.box[-1], self.lanes
        exact = first % lanes == 0 and stop % lanes == 0 and tuned.unit_elements % lanes == 0

        def step(i: Value) -> None:
            at = i if exact else code.intrinsic("smin", [i, code.sub(high, lanes)])
            if not exact:
                at = code.intrinsic("smax", [at, first])
            counters = {**outer.counters, len(self.maps.lengths) - 1: at}
            body = Body(self.source, self.maps, code, counters, outer.box, lanes, outer)
            counted = None
            if not exact and (self.sums or self.writes) and lanes > 1:
                places, fresh = code.iota(lanes), code.splat(code.sub(i, at), lanes)
                counted = code.compare("sge", places, fresh)
                if self.across and first:
                    mine = code.compare("slt", places, code.splat(code.sub(high, at), lanes))
                    counted = code.binary("and", counted, mine)
            self.body(body, counted)

        code.for_range(low, high, step, lanes)

    def body(self, body: Body, counted: Value | None) -> None:
        """All roots at the lanes of one vector step in a box."""
        assert body.box is not None
        body.waiting = {}
        for root in self.roots:
            if inside(root.limits, body.box):
                self.element(body, root, counted)

    def border(self, caller: Function, row: Value, low: Value, high: Value) -> None:
        """Elements of a row one by one, with tests of the limits."""
        module = caller.module
        if self.name not in module.functions:
            given = [("ptr", "arrays"), ("i64", "row"), ("i64", "low"), ("i64", "high"),
                     ("ptr", "tails"), *[("ptr", f"extra{n}") for n in self.extra]]  # fmt: skip
            code = Function(module, self.name, "void", given, attributes="internal")
            entry = self.entry(code, dict(zip(self.extra, code.parameters[5:], strict=True)))
            counters = self.counters(code, code.parameters[1])

            def step(i: Value) -> None:
                inner = {**counters, len(self.maps.lengths) - 1: i}
                body = Body(self.source, self.maps, code, inner, None, 1, entry)
                for root in self.roots:
                    if root.reduction is None:
                        self.element(body, root, None)
                        continue
                    counts = body.counts(root.limits) if root.limits else None
                    self.add_tail(body, root, code.parameters[4], counts)

            code.for_range(code.parameters[2], code.parameters[3], step)
            code.ret()
        values = [caller.parameters[0], row, low, high, self.tails, *self.extra.values()]
        caller.call(self.name, "void", values)
