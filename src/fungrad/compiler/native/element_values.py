"""IR of a Graph's values at one index of a loop nest, in lanes along its last loop.

Producers are inlined where they are read, and memoised by index map. Inside a box of the
index space bounds are decided while code is written; at its borders code has one lane, and tests
them for each element.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.block_sums import reduction
from fungrad.compiler.native.element_operations import apply_equation, convert, type_of
from fungrad.compiler.native.gathers import index_of, indirect, searches
from fungrad.compiler.native.index_maps import (
    SHORT,
    FlatMaps,
    IndexMap,
    IndexMaps,
    Lane,
    LaneMaps,
    Limit,
    Moved,
    Piece,
    ShortMaps,
    Through,
    flat,
    loops_of,
)
from fungrad.compiler.native.llvm_ir import Function, Value, size_of
from fungrad.compiler.refusal import Refused
from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.primitives.elementwise.by_elements import elementwise
from fungrad.primitives.elementwise.family import add
from fungrad.primitives.facts import FIRST, Along
from fungrad.primitives.movement.gather import getitem
from fungrad.primitives.movement.stack_iota import unstack
from fungrad.primitives.primitive import full
from fungrad.support.forks import cached_property

Box = Sequence[tuple[int, int]]
"""The range of each loop: (begin, end)."""
Key = tuple[Atom, IndexMap]


class KernelGraph:
    """A Graph, with the positions of its arrays among the pointers that a kernel receives.

    Attributes:
      graph: the Graph.
      made: each equation, by identity of its outputs.
      arrays: the position of each array among the pointers, by identity.
      constants: the constant arrays, whose pointers follow those of inputs and outputs.
      outputs: the position of the first output among the pointers; `pointers`: their number.
      short: whether short axes are unrolled and are not loops; but one of `width` elements fills
        the lanes.
      outside: the index maps outside of all loops.
      assembled: by identity, small arrays made of the numbers that reductions give, and those
        numbers: each element is computed on its own, after all loops.
    """

    def __init__(self, graph: Graph, short: bool = False, width: int = 0) -> None:
        self.graph, self.short = graph, short or bool(width)
        self.outside: IndexMaps = (ShortMaps if short else IndexMaps)(())
        if width:
            self.outside = LaneMaps(width)
        values = [*graph.inputs, *[v for v, _ in graph.constants]]
        values += [v for e in graph.equations for v in e.outputs]
        for value in values:
            type_of(value.type.dtype)
            if value.type.size == 0:
                raise Refused("an empty array")
        self.made: dict[Atom, Equation] = {v: e for e in graph.equations for v in e.outputs}
        self.arrays: dict[Atom, int] = {v: n for n, v in enumerate(graph.inputs)}
        self.numbers: dict[Atom, Any] = {v: x for v, x in graph.constants if not v.type.ndim}
        known = [(v, x) for v, x in graph.constants if v.type.ndim]
        following = len(graph.inputs) + len(graph.outputs)
        self.arrays.update({v: following + n for n, (v, _) in enumerate(known)})
        self.constants = [x for _, x in known]
        self.outputs = len(graph.inputs)
        self.pointers = following + len(known)
        self.assembled = _assembled(graph)

    def with_buffers(self, values: Sequence[Atom]) -> KernelGraph:
        """A KernelGraph in which these values are arrays, whose pointers follow all others."""
        found = copy.copy(self)
        mine = set(values)
        found.made = {i: e for i, e in self.made.items() if i not in mine}
        appended = {v: self.pointers + n for n, v in enumerate(values)}
        found.arrays = {**self.arrays, **appended}
        return found

    def maps(self, shape: Sequence[int]) -> IndexMaps:
        """The index maps of loops over an array."""
        if self.short:
            return self.outside.of(self.outside.nest(shape))
        return FlatMaps(math.prod(shape)) if self._flat else IndexMaps(shape)

    def is_array(self, atom: Atom) -> bool:
        """Whether a value has axes that need loops."""
        return bool(self.outside.long(atom.type.shape)) and atom not in self.assembled

    def elements(self, atom: Atom) -> list[IndexMap]:
        """The indices of the elements of a value that is no array with loops."""
        return list(itertools.product(*[[Along(-1, i) for i in range(n)] for n in atom.type.shape]))

    @cached_property
    def _flat(self) -> bool:
        equations = [e for e in self.graph.equations if e.outputs[0].type.ndim]
        values = [a for e in equations for a in (*e.inputs, *e.outputs)]
        return flat(equations, [atom.type for atom in (*values, *self.graph.outputs)])

    def pieces(self, maps: IndexMaps, atom: Atom, index: IndexMap) -> Sequence[Piece]:
        """The pieces that an element of an equation's value reads, found once."""
        key = (atom, index)
        found = maps.pieces.get(key)
        if found is None:
            found = maps.pieces[key] = self._pieces(maps, atom, index)
        return found

    def _pieces(self, maps: IndexMaps, atom: Atom, index: IndexMap) -> Sequence[Piece]:
        equation = self.made[atom]
        if any(isinstance(along, Through) for along in index):
            raise Refused("a read of computed values by an index array", "layout", equation)
        if equation.primitive is full:
            value = Literal(atom.type.dtype.type(equation.params["value"]))
            return Moved([Piece(value, ())])
        if equation.primitive is getitem and indirect(equation):
            return Moved([Piece(equation.inputs[0], index_of(equation, index))])
        if equation.primitive is unstack:
            item = Along(-1, [v is atom for v in equation.outputs].index(True))
            return Moved([Piece(equation.inputs[0], (item, *index))])
        found = maps.moved(equation, index)
        if found is not None:
            return found
        lane = maps.in_lanes(equation, index)
        if lane is not None:
            return lane
        if isinstance(maps, ShortMaps) and maps.folded(equation):
            return maps.parts(equation, index)
        if reduction(equation) is not None:
            terms = maps.terms(equation, index)
            if terms is not None:
                return terms
        if searches(equation):
            return maps.operands(equation, index)[1:]
        if not elementwise(equation):
            raise Refused(f"{equation.primitive.name} in array loops", "layout", equation)
        return maps.operands(equation, index)

    def limits(self, maps: IndexMaps, roots: Sequence[Piece]) -> Iterator[Limit]:
        """The limits of all pieces that roots need."""
        for atom, index, *_ in self.demanded(maps, roots, None).values():
            if atom in self.made:
                for piece in self.pieces(maps, atom, index):
                    yield from piece.limits

    def demanded(
        self, maps: IndexMaps, roots: Sequence[Piece], box: Box | None
    ) -> Mapping[Key, Piece]:
        """All values at all indices that roots need within a box, in order of evaluation."""
        found: dict[Key, Piece] = {}
        seen: set[Key] = set()
        stack: list[tuple[Piece, bool]] = [(root, False) for root in reversed(roots)]
        indices = tuned.short_values if self.short else tuned.moved_values
        most = indices + tuned.values_of_equation * len(self.graph.equations)
        while stack:
            if len(seen) > most:
                raise Refused(
                    f"{len(seen)} values: moves of moved arrays", "long", values=len(seen)
                )
            piece, ready = stack.pop()
            key = (piece.atom, piece.index_map)
            if ready:
                found[key] = piece
            elif key not in seen and not isinstance(piece.atom, Literal):
                seen.add(key)
                stack.append((piece, True))
                below = self.reads(maps, piece.atom, piece.index_map, box)
                stack += [(p, False) for p in reversed(below)]
        return found

    def reads(self, maps: IndexMaps, atom: Atom, index: IndexMap, box: Box | None) -> list[Piece]:
        """The pieces of a value that contribute somewhere in a box; of an array the indices."""
        if atom not in self.made:
            return [Piece(a.array, a.index_map) for a in index if isinstance(a, Through)]
        below = self.pieces(maps, atom, index)
        return [piece for piece in below if box is None or inside(piece.limits, box)]


def _assembled(graph: Graph) -> set[Atom]:
    """`KernelGraph.assembled`."""
    found = set[Atom]()
    for equation in graph.equations:
        (out, *more), arrays = equation.outputs, [a for a in equation.inputs if a.type.size > 1]
        if more or out.type.size > tuned.numbers_in_array:
            continue
        if reduction(equation) is not None:
            if out.type.size == 1 and arrays and arrays[0] not in found:
                found.add(out)
        elif any(a in found for a in equation.inputs):
            if all(a in found or a.type.size <= SHORT for a in arrays):
                found.add(out)
    return found


def inside(limits: Sequence[Limit], box: Box) -> bool:
    """Whether limits hold in a box: they hold everywhere in it or nowhere."""
    for loop, low, high in limits:
        if box[loop][0] < low or high < box[loop][1]:
            return False
    return True


class Body:
    """Values at one index of a loop nest.

    Args:
      source: the Graph.
      maps: the index maps of the nest.
      code: the function that is written; its first parameter points to the pointers.
      index: the indices of the running loops, as i64; the last loop's is that of the first lane.
      box: the ranges of the loops; None if each element tests the limits.
      lanes: the number of lanes along the last loop.
      outer: the Body of the surrounding loops, whose values are used.

    Attributes:
      ahead: a loop, and after how many of its steps the memory is read that is prefetched now.
      records: loaded lanes of adjacent elements that each lane has of its own, by array, the index
        of the first, and the number of the first that is loaded.
      waiting: elements that are stored together once all are known, in the same way; None if each
        is stored on its own.
    """

    def __init__(
        self,
        source: KernelGraph,
        maps: IndexMaps,
        code: Function,
        counters: Mapping[int, Value],
        box: Box | None,
        lanes: int = 1,
        outer: Body | None = None,
    ) -> None:
        self.source, self.maps, self.code = source, maps, code
        self.counters, self.box, self.lanes, self.outer = counters, box, lanes, outer
        self.ahead: tuple[int, int] | None = None
        self.memo: dict[Key, Value] = {}
        self.records: dict[tuple[int, IndexMap, int], Value] = {}
        self.waiting: dict[tuple[int, IndexMap, int], dict[int, Value]] | None = None
        self.pointers: dict[int, Value] = {}
        self.last = len(maps.lengths) - 1

    def lanes_at(self, index: IndexMap) -> int:
        return self.lanes if self.last in loops_of(index) else 1

    def value(self, atom: Atom, index: IndexMap) -> Value:
        """A value at an index: in all lanes, or one number that they share."""
        if isinstance(atom, Literal):
            lanes = self.lanes_at(index)
            return self.code.constant(atom.value, type_of(atom.type.dtype), lanes)
        found = self.found((atom, index))
        if found is None:
            self._compute(Piece(atom, index))
            found = self.memo[atom, index]
        return found

    def _compute(self, wanted: Piece) -> None:
        """Computes a value after its operands, without recursion: Graphs can be deep."""
        stack = [wanted]
        while stack:
            atom, index, *_ = stack[-1]
            below = self.source.reads(self.maps, atom, index, self.box)
            missing = [p for p in below if not isinstance(p.atom, Literal)
                       and self.found((p.atom, p.index_map)) is None]  # fmt: skip
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            if self.found((atom, index)) is None:
                self.memo[atom, index] = self._made(atom, index, self.lanes_at(index))

    def found(self, key: Key) -> Value | None:
        """A value that this Body, or an outer one, has computed already."""
        body: Body | None = self
        while body is not None:
            if key in body.memo:
                return body.memo[key]
            body = body.outer
        return None

    def _made(self, atom: Atom, index: IndexMap, lanes: int) -> Value:
        type = type_of(atom.type.dtype)
        if atom in self.source.numbers:
            return self.code.constant(self.source.numbers[atom], type, 1)
        equation = self.source.made.get(atom)
        if equation is None:
            return self.load(atom, index, lanes)
        below = self.source.pieces(self.maps, atom, index)
        if isinstance(below, Moved):
            return self._moved(below, type, lanes)
        if isinstance(below, Lane):
            (piece,) = below
            return self.code.lane(self.value(piece.atom, piece.index_map), below.number)
        folded = reduction(equation)
        if folded is not None:
            values = [self.code.splat(self.value(p.atom, p.index_map), lanes) for p in below]
            terms = [folded.term(self.code, [x]) for x in values]
            if folded.operation is add:  # NumPy begins with 0.0: no sum is -0.0
                terms.insert(0, folded.start(self.code, lanes))
            total = functools.reduce(functools.partial(folded.joined, self.code), terms)
            return folded.result(self.code, total)
        if searches(equation):
            return self._searched(equation, below[0], lanes)
        return self._applied(equation, below, lanes)

    def _searched(self, equation: Equation, piece: Piece, lanes: int) -> Value:
        """The position of a number in a sorted array, by bisection; NaN is the largest number."""
        code, table = self.code, equation.inputs[0]
        array, length = self.source.arrays.get(table), table.type.size
        if array is None:
            raise Refused("a search in computed values", "layout", equation)
        x = self.code.splat(self.value(piece.atom, piece.index_map), lanes)
        position = code.constant(0, "i64", lanes)
        for step in [1 << n for n in reversed(range(length.bit_length()))]:
            beyond = code.add(position, step)
            at = code.mul(code.sub(code.intrinsic("umin", [beyond, length]), 1), size_of(x.type))
            y = self._collected([code.at(self.pointer(array), code.lane(at, lane))
                                 for lane in range(lanes)], x.type)  # fmt: skip
            small, large = (y, x) if equation.params["side"] == "left" else (x, y)
            last = code.binary("and", code.compare("uno", large, large),
                               code.compare("ord", small, small))  # fmt: skip
            less = code.binary("or", code.compare("olt", small, large), last)
            if equation.params["side"] != "left":
                less = code.binary("xor", less, code.constant(1, "i1", lanes))
            less = code.binary("and", less, code.compare("ule", beyond, length))
            position = code.select(less, beyond, position)
        return convert(code, position, type_of(equation.outputs[0].type.dtype))

    def _collected(self, pointers: Sequence[Value], type: str) -> Value:
        """The numbers at some pointers, as lanes."""
        return self.code.vector([self.code.read(at, type, 1) for at in pointers])

    def _applied(self, equation: Equation, pieces: Sequence[Piece], lanes: int) -> Value:
        values = [self.value(piece.atom, piece.index_map) for piece in pieces]
        lanes = max([1, *[v.lanes for v, p in zip(values, pieces, strict=True)
                          if not isinstance(p.atom, Literal)]])  # fmt: skip
        operands = []
        for value, piece in zip(values, pieces, strict=True):
            if isinstance(piece.atom, Literal):
                value = self.code.constant(piece.atom.value, value.type, lanes)
            operands.append(self.code.splat(value, lanes))
        return apply_equation(self.code, equation, operands)

    def _moved(self, moved: Moved, type: str, lanes: int) -> Value:
        code, result = self.code, None
        for piece in moved:
            if self.box is not None and not inside(piece.limits, self.box):
                continue
            x = convert(code, self.value(piece.atom, piece.index_map), type)
            counts = self.counts(piece.limits) if self.box is None and piece.limits else None
            old = result
            if old is None:
                if counts is None and not piece.adds:
                    result = x
                    continue
                old = code.constant(0, type, 1)
            wide = max(x.lanes, old.lanes)
            old, x = self.code.splat(old, wide), self.code.splat(x, wide)
            new = code.add(old, x) if piece.adds else x
            result = new if counts is None else code.select(counts, new, old)
        return code.constant(0, type, 1) if result is None else result

    def counts(self, limits: Sequence[Limit]) -> Value:
        """Whether limits hold at this index."""
        code, found = self.code, None
        for loop, low, high in limits:
            for test, bound in (("sge", low), ("slt", high)):
                one = code.compare(test, self.counters[loop], bound)
                found = one if found is None else code.binary("and", found, one)
        assert found is not None
        return found

    # Memory.

    def pointer(self, array: int) -> Value:
        """The pointer to an array's data, loaded by `point`."""
        body = self
        while body.outer is not None and array not in body.pointers:
            body = body.outer
        return body.pointers[array]

    def point(self, arrays: Iterable[int]) -> None:
        """Loads the pointers to arrays, for this Body and those within it."""
        for array in arrays:
            at = self.code.at(self.code.parameters[0], array, "ptr")
            self.pointers[array] = self.code.load(at, "ptr", 1)

    def address(self, array: int, type: str, shape: Sequence[int], index: IndexMap) -> Value:
        """The pointer to an element; clamped to the array where elements test the limits."""
        code, total, known = self.code, None, 0
        for along, length, stride in self.maps.element(shape, index):
            if isinstance(along, Through):
                i = self.through(along)
            elif along.loop < 0:
                known += along.offset * stride
                continue
            else:
                i = self.along(along)
                ends = [
                    along.offset,
                    along.offset + along.step * (self.maps.lengths[along.loop] - 1),
                ]
                if self.box is None and (min(ends) < 0 or max(ends) >= length):
                    i = code.intrinsic("smin", [code.intrinsic("smax", [i, 0]), length - 1])
            i = i if stride == 1 else code.mul(i, stride)
            total = i if total is None else code.add(total, i)
        if total is None:
            total = code.constant(known, "i64", 1)
        elif known:
            total = code.add(total, known)
        return code.at(self.pointer(array), total, type)

    def along(self, along: Along) -> Value:
        """The index along an axis; the last lane's if the axis is reversed."""
        code, i = self.code, self.counters[along.loop]
        offset = along.offset
        if along.step == -1:
            if along.loop == self.last:
                offset -= self.lanes - 1
            return code.sub(offset, i)
        i = i if along.step == 1 else code.mul(i, along.step)
        return code.add(i, offset) if offset else i

    def through(self, along: Through) -> Value:
        """The index that an index array gives, counted from the front and within the axis."""
        code = self.code
        i = convert(code, self.value(along.array, along.index_map), "i64")
        i = code.select(code.compare("slt", i, 0), code.add(i, along.length), i)
        return code.intrinsic("umin", [i, along.length - 1])

    def scattered(self, shape: Sequence[int], index: IndexMap) -> bool:
        """Whether each lane has an index of its own."""
        return any(isinstance(a, Through) and self.lanes_at(a.index_map) > 1 for a in index)

    def addresses(
        self, array: int, type: str, shape: Sequence[int], index: IndexMap, lanes: int
    ) -> list[Value]:
        """The pointers to the elements of all lanes, of which each has an index of its own."""
        code, pointer, total = self.code, self.pointer(array), None
        for along, _, stride in self.maps.element(shape, index):
            if isinstance(along, Through):
                i = self.through(along)
            elif along.loop < 0:
                i = code.constant(along.offset, "i64", 1)
            else:
                i = code.add(code.mul(self.counters[along.loop], along.step), along.offset)
                if along.loop == self.last:
                    i = code.add(code.splat(i, lanes), code.mul(code.iota(lanes), along.step))
            if i.lanes == 1:
                pointer = code.at(pointer, code.mul(i, stride), type)
            else:
                i = code.mul(i, stride)
                total = i if total is None else code.add(total, i)
        assert total is not None
        return [code.at(pointer, code.lane(total, lane), type) for lane in range(lanes)]

    def load(self, atom: Atom, index: IndexMap, lanes: int) -> Value:
        code, type, shape = self.code, type_of(atom.type.dtype), atom.type.shape
        array = self.source.arrays.get(atom)
        if array is None:
            raise Refused("an operand that is not an array of the kernel", "layout")
        if lanes > 1 and self.scattered(shape, index):
            return self._collected(self.addresses(array, type, shape, index, lanes), type)
        stride = self.stride(shape, index)
        if lanes > 1 and abs(stride) != 1:
            return self._gathered(atom, index, lanes, stride)
        first = self.address(array, type, shape, index)
        x = code.read(self.near(first, type, shape, index), type, lanes)
        if lanes > 1 and stride < 0:
            x = code.reverse(x)
        return x

    def stride(self, shape: Sequence[int], index: IndexMap, loop: int | None = None) -> int:
        """The distance in memory of two steps of a loop, else of two lanes, in elements."""
        loop, found = self.last if loop is None else loop, self.maps.element(shape, index)
        return sum([along.step * stride for along, _, stride in found
                    if isinstance(along, Along) and along.loop == loop])  # fmt: skip

    def _gathered(self, atom: Atom, index: IndexMap, lanes: int, step: int) -> Value:
        """Lanes that are not adjacent in memory, loaded one by one."""
        code, type = self.code, type_of(atom.type.dtype)
        array = self.source.arrays[atom]
        starts = [lane * abs(step) for lane in range(lanes)][:: 1 if step > 0 else -1]
        record = self.record(atom.type.shape, index, abs(step))
        if record is not None:
            return self._of_record(array, type, atom.type.shape, record, starts)
        read = math.prod([self.maps.lengths[loop] for loop in loops_of(index)])
        if read * size_of(type) > tuned.gathered_bytes and abs(step) > SHORT:
            raise Refused("a strided read of a large array", "layout")
        first = self.address(array, type, atom.type.shape, index)
        return self._collected([code.at(first, n, type) for n in starts], type)

    def record(
        self, shape: Sequence[int], index: IndexMap, step: int
    ) -> tuple[IndexMap, int] | None:
        """The index of the first of a lane's own elements, which are adjacent in memory, and the
        number of the element among them; None if lanes have no elements of their own.
        """
        number, stride, trailing = 0, 1, 0
        for along, length in zip(reversed(index), reversed(shape), strict=True):
            if stride == step:
                break
            if isinstance(along, Through) or along.loop >= 0:
                return None
            number, stride = number + along.offset * stride, stride * length
            trailing += 1
        if stride != step or not trailing or self.lanes & (self.lanes - 1):
            return None
        return (*index[: len(index) - trailing], *[FIRST] * trailing), number

    def _of_record(
        self, array: int, type: str, shape: Sequence[int], record: tuple[IndexMap, int],
        starts: Sequence[int],
    ) -> Value:  # fmt: skip
        """An element of each lane's own ones, which begin at `starts`; those beside it are loaded,
        too: pairs of all lanes at once.
        """
        code, (index, number), lanes = self.code, record, len(starts)
        step = abs(starts[1] - starts[0])
        start, width = block_of(number, step, lanes)
        pairs = step == 2  # LLVM's shuffles over longer distances are slower than `transposed`
        key, found = (array, index, start), self.records.get((array, index, start))
        if found is None:
            first = code.at(self.address(array, type, shape, index), start, type)
            if pairs:
                found = code.read(first, type, 2 * lanes)
            else:
                found = transposed(
                    code, [code.read(code.at(first, n, type), type, width) for n in starts]
                )
            self.records[key] = found
        if pairs:
            return code.shuffled([found], [n + number for n in starts])
        return code.part(found, (number - start) * lanes, lanes)

    def _to_record(
        self, x: Value, array: int, shape: Sequence[int], record: tuple[IndexMap, int], step: int
    ) -> None:
        """Stores an element of each lane's own ones, with those beside it once all are known."""
        code, (index, number), lanes = self.code, record, x.lanes
        assert self.waiting is not None
        start, width = block_of(number, step, lanes)
        waiting = self.waiting.setdefault((array, index, start), {})
        waiting[number] = x
        if len(waiting) < width:
            return
        both = transposed(code, [waiting[start + n] for n in range(width)])
        first = code.at(self.address(array, x.type, shape, index), start, x.type)
        together = lanes if step == 2 else 1  # nothing lies between pairs
        for lane in range(0, lanes, together):
            to = code.at(first, lane * step, x.type)
            code.write(code.part(both, lane * width, together * width), to)

    def store(self, x: Value, array: int, shape: Sequence[int], index: IndexMap) -> None:
        lanes = self.lanes_at(index)
        x, type = self.code.splat(x, lanes), x.type
        stride = self.stride(shape, index)
        combined = lanes > 1 and stride > 1 and self.waiting is not None
        record = self.record(shape, index, stride) if combined else None
        if record is not None:
            self._to_record(x, array, shape, record, stride)
            return
        first = self.address(array, type, shape, index)
        if lanes == 1 or stride == 1:
            self.code.write(x, self.near(first, type, shape, index, True))
            return
        for lane in range(lanes):
            self.code.write(self.code.lane(x, lane), self.code.at(first, lane * stride, type))

    def write(
        self, x: Value, array: int, shape: Sequence[int], index: IndexMap,
        join: Callable[[Value, Value], Value] | None,
    ) -> None:  # fmt: skip
        """Stores lanes at their own indices, one after the other; `join` makes the new element of
        the old one and a lane."""
        code, lanes = self.code, self.lanes_at(index)
        x = self.code.splat(x, lanes)
        if lanes > 1 and self.scattered(shape, index):
            parts = [(code.lane(x, lane), at) for lane, at in enumerate(
                self.addresses(array, x.type, shape, index, lanes))]  # fmt: skip
        elif lanes == 1 or self.stride(shape, index) == 1:
            parts = [(x, self.address(array, x.type, shape, index))]
        else:
            raise Refused("a strided write by an index array", "layout")
        for one, at in parts:
            code.write(one if join is None else join(code.read(at, one.type, one.lanes), one), at)

    def near(
        self, at: Value, type: str, shape: Sequence[int], index: IndexMap, writes: bool = False
    ) -> Value:
        """The pointer itself; prefetches the cache lines that are read next: `self.ahead`."""
        loop, steps = self.ahead or (self.last, 0)
        distance = steps * self.stride(shape, index, loop) * size_of(type)
        for line in range(0, self.lanes * size_of(type) if distance else 0, 64):
            self.code.prefetch(self.code.at(at, distance + line), writes)
        return at


def block_of(number: int, count: int, lanes: int) -> tuple[int, int]:
    """The first of the adjacent elements that are loaded or stored with one of them, and their
    number: a power of two.
    """
    start, width = 0, lanes
    while True:
        while width > count - start:
            width //= 2
        if number < start + width:
            return start, width
        start += width


def transposed(code: Function, rows: Sequence[Value]) -> Value:
    """Values of equal lanes, a power of two of them: the first lanes of all, then the second."""
    if len(rows) == 1 or rows[0].lanes == 1:
        return code.vector(rows)
    both = [transposed(code, rows[n::2]) for n in (0, 1)]
    count = both[0].lanes
    return code.shuffled(both, [n + half for n in range(count) for half in (0, count)])
