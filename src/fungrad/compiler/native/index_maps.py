"""Index maps, followed from outputs to inputs: which elements an equation reads.

A loop nest has loops 0, 1, ... of known lengths. An IndexMap has for each axis of a value the index
`step * loop + offset`. Short axes need not be loops: each of their indices is then a separate map,
and reductions along them are folded. Equations that move elements become guarded reads (Pieces),
one for each section that their primitive states: a value, an index map, bounds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.refusal import Refused
from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.primitives.elementwise.by_elements import elementwise
from fungrad.primitives.facts import FIRST, Along, Section, sections_of
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    reshape,
    transpose,
)
from fungrad.primitives.movement.stack_iota import stack, unstack
from fungrad.support.lazy import Record

IndexMap = tuple[Any, ...]
"""For each axis an Along or, of an array that is read or written by index arrays, a Through."""
SHORT = 12
"""The longest axes that need not be loops."""
REDUCED = (np.add, np.maximum, np.minimum)
"""The ufuncs whose reductions are folded along short axes."""


WIDEST = 16
"""The longest axis that fills the lanes of a vector, or is unrolled beside one that does."""


class Through(Record):
    """The index along an axis that is an element of an index array.

    Attributes:
      array: the index array.
      index_map: the index in it.
      length: the length of the axis.
    """

    array: Atom
    index_map: tuple[Any, ...]
    length: int


class Limit(Record):
    """The range of a loop's index in which a piece contributes."""

    loop: int
    low: int
    high: int


class Piece(Record):
    """A value at an index map, read where all limits hold; it replaces the pieces before, or is
    added to them.
    """

    atom: Atom
    index_map: IndexMap
    limits: tuple[Limit, ...] = ()
    adds: bool = False


class Moved(list[Piece]):
    """The pieces of a moving equation, in order; zeros beside them."""


class Lane(list[Piece]):
    """One piece in all lanes, of which an element is one.

    Args:
      piece: the piece.
      number: the number of the lane.
    """

    def __init__(self, piece: Piece, number: int) -> None:
        super().__init__([piece])
        self.number = number


def loops_of(index: IndexMap) -> frozenset[int]:
    """The loops in which an index varies."""
    found = {a.loop for a in index if isinstance(a, Along) and a.loop >= 0}
    return frozenset(found.union(*[loops_of(a.index_map) for a in index if isinstance(a, Through)]))


class IndexMaps:
    """The index maps of a loop nest.

    Attributes:
      lengths: the lengths of the loops.
      reduced: the loops over axes that reductions reduce.
      pieces: the pieces that values at indices read, once they were asked for.
    """

    def __init__(self, lengths: Sequence[int], reduced: Sequence[int] = ()) -> None:
        self.lengths = tuple(lengths)
        self.reduced = tuple(reduced)
        self.pieces: dict[tuple[Atom, IndexMap], Sequence[Piece]] = {}

    def of(self, lengths: Sequence[int], reduced: Sequence[int] = ()) -> IndexMaps:
        """The maps of this kind of other loops."""
        return type(self)(lengths, reduced)

    def in_lanes(self, equation: Equation, index: IndexMap) -> Lane | None:
        """The lanes from which an element of an equation's value is taken; None if it is computed
        on its own.
        """
        return None

    def whole(self, shape: Sequence[int], offsets: Sequence[int] = ()) -> IndexMap:
        """The index of a value along all loops, whose first element is at the offsets."""
        offsets = offsets or [0] * len(shape)
        return normal([Along(i, -o) for i, o in enumerate(offsets)], shape)

    def nest(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The lengths of the loops over a value's axes."""
        return tuple(shape)

    def long(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The lengths of the axes that need loops."""
        return tuple([n for n in shape if n > 1])

    def indices(self, shape: Sequence[int], loops: Sequence[Along]) -> list[IndexMap]:
        """The indices of a value whose long axes are mapped to loops."""
        rest = iter(loops)
        return [tuple([FIRST if n == 1 else next(rest) for n in shape])]

    def wholes(self, shape: Sequence[int], offsets: Sequence[int] = ()) -> list[IndexMap]:
        """The indices of a value along all loops: one for each index along its short axes."""
        return [self.whole(shape, offsets)]

    def folded(self, equation: Equation) -> bool:
        """Whether an equation reduces short axes."""
        return False

    def operands(self, equation: Equation, index: IndexMap) -> list[Piece]:
        """The operands of an elementwise equation for its element at an index."""
        shape = equation.outputs[0].type.shape
        return [Piece(a, broadcast(a.type.shape, shape, index)) for a in equation.inputs]

    def moved(self, equation: Equation, index: IndexMap) -> Moved | None:
        """The pieces of a moving equation; None for other equations."""

        if equation.primitive.reduces in REDUCED:
            return _reduced(equation, index)
        sections = sections_of(equation)
        if sections is None:
            return None
        pieces = [_piece(self, equation, section, index) for section in sections]
        return Moved([piece for piece in pieces if piece is not None])

    def terms(self, equation: Equation, index: IndexMap) -> list[Piece] | None:
        """The operands of a reduction, along all reduced loops, for its element at an index.

        Any loops of the right lengths that do not occur in the index are suitable: they are bound
        variables.
        """
        if not self.reduced or loops_of(index) & set(self.reduced):
            return None
        shape = equation.inputs[0].type.shape
        axes = equation.params.get("axes", (0,))
        rest, loops, source = iter(index), iter(self.reduced), list[Along]()
        for axis, length in enumerate(shape):
            if axis not in axes:
                source.append(next(rest))
                continue
            loop = -1 if length == 1 else next(loops, -1)
            if length > 1 and (loop < 0 or self.lengths[loop] != length):
                return None
            source.append(Along(loop))
        if next(loops, None) is not None:
            return None
        return [Piece(atom, normal(source, shape)) for atom in equation.inputs]

    def element(self, shape: Sequence[int], index: IndexMap) -> list[tuple[Any, int, int]]:
        """The position of an element in C order: for each axis its index, length and stride."""
        terms, stride = list[tuple[Any, int, int]](), 1
        for along, length in zip(reversed(index), reversed(shape), strict=True):
            terms.append((along, length, stride))
            stride *= length
        return terms

    def limited(self, along: Along, low: int, high: int) -> tuple[Limit, ...] | None:
        """The limits for an index to be in [low, high); None if it never is."""
        if along.loop < 0:
            return () if low <= along.offset < high else None
        length = self.lengths[along.loop]
        if along.step == 1:
            low, high = low - along.offset, high - along.offset
        else:
            low, high = along.offset - high + 1, along.offset - low + 1
        low, high = max(low, 0), min(high, length)
        if low >= high:
            return None
        return () if (low, high) == (0, length) else (Limit(along.loop, low, high),)


class FlatMaps(IndexMaps):
    """The maps of one loop over all elements, for arrays with all of the elements or one."""

    def __init__(self, size: int) -> None:
        super().__init__([size])

    def whole(self, shape: Sequence[int], offsets: Sequence[int] = ()) -> IndexMap:
        return (Along(0),) if math.prod(shape) > 1 else ()

    def operands(self, equation: Equation, index: IndexMap) -> list[Piece]:
        return [Piece(a, index if a.type.size > 1 else ()) for a in equation.inputs]

    def moved(self, equation: Equation, index: IndexMap) -> Moved | None:
        if equation.primitive in (reshape, broadcast_to):
            return Moved(self.operands(equation, index))
        item = not index and equation.primitive.reduces is None  # one number of an array
        return super().moved(equation, index) if item else None

    def element(self, shape: Sequence[int], index: IndexMap) -> list[tuple[Any, int, int]]:
        if index and not loops_of(index):
            return super().element(shape, index)
        return [(along, self.lengths[0], 1) for along in index]


class ShortMaps(IndexMaps):
    """The maps of loops over the axes longer than SHORT.

    Attributes:
      unrolled: the longest axes that are unrolled.
    """

    unrolled = SHORT

    def axes(self, shape: Sequence[int]) -> list[int]:
        """The axes that need loops, in the order of these."""
        return [i for i, n in enumerate(shape) if n > SHORT]

    def long(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tuple([shape[i] for i in self.axes(shape)])

    nest = long

    def indices(self, shape: Sequence[int], loops: Sequence[Along]) -> list[IndexMap]:
        given = dict(zip(self.axes(shape), loops, strict=False))
        along = [[given[i]] if i in given else [Along(-1, k) for k in range(n)]
                 for i, n in enumerate(shape)]  # fmt: skip
        return list(itertools.product(*along))

    def wholes(self, shape: Sequence[int], offsets: Sequence[int] = ()) -> list[IndexMap]:
        offsets = offsets or [0] * len(shape)
        return self.indices(shape, [Along(i, -o) for i, o in enumerate(offsets)])

    def folded(self, equation: Equation) -> bool:
        if equation.primitive.reduces not in REDUCED:
            return False
        shape = equation.inputs[0].type.shape
        reduced = [shape[axis] for axis in equation.params["axes"] if shape[axis] > 1]
        return bool(reduced) and max(reduced) <= self.unrolled

    def parts(self, equation: Equation, index: IndexMap) -> list[Piece]:
        """The terms of a reduction of short axes for its element at an index."""
        (atom,), axes = equation.inputs, equation.params["axes"]
        rest = iter(index)
        along = [[Along(-1, k) for k in range(n)] if i in axes else [next(rest)]
                 for i, n in enumerate(atom.type.shape)]  # fmt: skip
        return [Piece(atom, index) for index in itertools.product(*along)]


class LaneMaps(ShortMaps):
    """The maps of loops over long axes, and of a last one over the axis that fills the lanes of one
    vector, which is the last axis of `width` elements. Other axes are unrolled.

    A number that is computed for such an axis is taken from its lanes where it is read alone.
    """

    unrolled = WIDEST

    def __init__(
        self, width: int, lengths: Sequence[int] = (), reduced: Sequence[int] = ()
    ) -> None:
        super().__init__(lengths, reduced)
        self.width = width

    def of(self, lengths: Sequence[int], reduced: Sequence[int] = ()) -> IndexMaps:
        return LaneMaps(self.width, lengths, reduced)

    @property
    def lane(self) -> int:
        """The loop along the lanes; -1 without one."""
        return len(self.lengths) - 1 if self.lengths[-1:] == (self.width,) else -1

    def _axis(self, shape: Sequence[int]) -> int:
        """The axis that fills the lanes; -1 without one."""
        return max([i for i, n in enumerate(shape) if n == self.width], default=-1)

    def axes(self, shape: Sequence[int]) -> list[int]:
        own, lane = [i for i, n in enumerate(shape) if n > WIDEST], self._axis(shape)
        return own if lane < 0 else [*own, lane]

    def in_lanes(self, equation: Equation, index: IndexMap) -> Lane | None:
        (out, *_), lane = equation.outputs, self.lane
        axis = self._axis(out.type.shape)
        if min(axis, lane) < 0 or lane in loops_of(index) or index[axis].loop >= 0:
            return None
        whole = (*index[:axis], Along(lane), *index[axis + 1 :])
        return Lane(Piece(out, whole), index[axis].offset)


def flat(equations: Sequence[Equation], types: Sequence[Any]) -> bool:
    """Whether all arrays have one shape or one element, and no element moves."""
    shapes = {tuple([n for n in type_.shape if n != 1]) for type_ in types} - {()}
    moving = (reshape, broadcast_to)
    return len(shapes) <= 1 and all(elementwise(e) or e.primitive in moving for e in equations)


def normal(index: Sequence[Along], shape: Sequence[int]) -> IndexMap:
    """An index in which axes of length 1 belong to no loop."""
    return tuple([FIRST if n == 1 else along for along, n in zip(index, shape, strict=True)])


def broadcast(shape: Sequence[int], out: Sequence[int], index: IndexMap) -> IndexMap:
    """The index in an operand that corresponds to an index in the result."""
    return normal(index[len(out) - len(shape) :], shape)


# --- primitives that move elements ----------------------------------------------------------------


def movable(equation: Equation) -> bool:
    """Whether index maps can express an equation that moves elements: it keeps axes, with steps of
    1 or -1, and has no index arrays.
    """
    if equation.primitive is unstack:
        return True
    if equation.primitive is stack and len(equation.inputs) > SHORT:
        return False
    sections = sections_of(equation)
    return sections is not None and all(
        all(r.step == 1 for r in part.box)
        and all(along is not None and abs(along.step) == 1 for along in part.place)
        for part in sections
    )


def shifts(equation: Equation) -> bool:
    """Whether an equation moves elements along their axes: a slice, a roll, a pad, a join."""
    return movable(equation) and equation.primitive not in (reshape, broadcast_to, transpose)


def moved_operands(equation: Equation) -> set[Atom]:
    """The operands that an equation moves along their axes: it reads them at other indices than
    those of its output. An array to which it adds a slice is not moved.
    """
    if not shifts(equation):
        return set()
    sections = sections_of(equation)
    if sections is None:
        return set(equation.inputs)
    moved = [part.operand for part in sections if part.operand >= 0 and not _in_place(part)]
    return {equation.inputs[n] for n in moved}


def _in_place(section: Section) -> bool:
    """Whether a section reads its operand at the indices of the output."""
    box, index = section.box, section.place
    return len(box) == len(index) and all(
        along is not None
        and along.offset == r.start
        and (len(r) == 1 or (along.loop, along.step) == (n, 1))
        for n, (r, along) in enumerate(zip(box, index, strict=True))
    )


def moves_deeply(graph: Graph) -> bool:
    """Whether values are moved more than tuned.followed_moves times, one time after the other."""
    depth: dict[Atom, int] = {}
    for equation in graph.equations:
        moved = moved_operands(equation)
        deep = max([depth.get(a, 0) + (a in moved) for a in equation.inputs], default=0)
        if deep > tuned.followed_moves:
            return True
        depth.update((v, deep) for v in equation.outputs)
    return False


def _reduced(equation: Equation, index: IndexMap) -> Moved | None:
    """A reduction along axes of length 1; a sum is added to the 0.0 that NumPy begins with."""
    (atom,), axes = equation.inputs, equation.params["axes"]
    if any(atom.type.shape[axis] != 1 for axis in axes):
        return None
    rest = iter(index)
    source = [FIRST if i in axes else next(rest) for i in range(atom.type.ndim)]
    adds = equation.primitive.reduces is np.add
    return Moved([Piece(atom, normal(source, atom.type.shape), (), adds)])


def _piece(maps: IndexMaps, equation: Equation, section: Section, index: IndexMap) -> Piece | None:
    """A section at an index of the output; None if it is nowhere in it."""
    box, operand, axes, adds = section
    limits, source = list[Limit](), list[Along]()
    for along, r, n in zip(index, box, equation.outputs[0].type.shape, strict=True):
        if len(r) < n:
            found = maps.limited(along, r.start, r.stop)
            if found is None:
                return None
            limits += found
    for axis in axes:
        if axis is None:
            raise Refused("a reshape that joins or splits axes", "layout")
        if axis.loop >= 0:
            along = index[axis.loop]
            offset = axis.offset + axis.step * (along.offset - box[axis.loop].start)
            axis = Along(along.loop, offset, 1 if along.loop < 0 else along.step * axis.step)
        source.append(axis)
    atom = Literal(True) if operand < 0 else equation.inputs[operand]
    return Piece(atom, normal(source, atom.type.shape), tuple(limits), adds)
