"""Index maps, followed from outputs to inputs: which elements an equation reads.

A loop nest has loops 0, 1, ... of known lengths. A Place is an index map: for each axis of a value
the index `step * loop + offset`. Short axes need not be loops: each of their indices is then a
separate place, and reductions along them are folded. Equations that move elements (slices, scatters
of slices, rolls, flips, transposes, concatenations) become pieces: values at other places, each
within limits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fungrad.compiler.lowering.fusion.row_access import elementwise
from fungrad.compiler.native.kernel import Refused
from fungrad.ir.graph import Atom, Equation, Literal
from fungrad.primitives.movement.gather import expanded, getitem, indexed, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    concatenate,
    flip,
    pad,
    reduce_sum,
    reshape,
    slice_axis,
    transpose,
)
from fungrad.primitives.movement.scatter import index_add, index_set
from fungrad.primitives.movement.sliding_window import roll
from fungrad.primitives.movement.stack_iota import stack, unstack
from fungrad.primitives.reduction.reduce import reduce_max, reduce_min


class Along(NamedTuple):
    """The index along one axis: `step * loop + offset`; just the offset if `loop` is -1."""

    loop: int
    offset: int = 0
    step: int = 1


Place = tuple[Along, ...]
FIRST = Along(-1)
SHORT = 12
"""The longest axes that need not be loops."""


class Limit(NamedTuple):
    """The range of a loop's index in which a piece contributes."""

    loop: int
    low: int
    high: int


class Piece(NamedTuple):
    """A value at a place, read where all limits hold."""

    atom: Atom
    place: Place
    limits: tuple[Limit, ...] = ()


class Moved(NamedTuple):
    """A moving equation as pieces that are added to a base (or zeros), or replace its elements."""

    base: Piece | None
    pieces: list[Piece]
    adds: bool = False


def loops_of(place: Place) -> frozenset[int]:
    """The loops in which a place varies."""
    return frozenset([a.loop for a in place if a.loop >= 0])


class IndexMaps:
    """The index maps of a loop nest.

    Attributes:
      lengths: the lengths of the loops.
      reduced: the loops over axes that reductions reduce.
    """

    def __init__(self, lengths: Sequence[int], reduced: Sequence[int] = ()) -> None:
        self.lengths = tuple(lengths)
        self.reduced = tuple(reduced)

    def whole(self, shape: Sequence[int], offsets: Sequence[int] = ()) -> Place:
        """The place of a value along all loops, whose first element is at the offsets."""
        offsets = offsets or [0] * len(shape)
        return normal([Along(i, -o) for i, o in enumerate(offsets)], shape)

    def nest(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The lengths of the loops over a value's axes."""
        return tuple(shape)

    def long(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The lengths of the axes that need loops."""
        return tuple([n for n in shape if n > 1])

    def places(self, shape: Sequence[int], loops: Sequence[Along]) -> list[Place]:
        """The places of a value whose long axes are mapped to loops."""
        rest = iter(loops)
        return [tuple([FIRST if n == 1 else next(rest) for n in shape])]

    def wholes(self, shape: Sequence[int], offsets: Sequence[int] = ()) -> list[Place]:
        """The places of a value along all loops: one for each index along its short axes."""
        return [self.whole(shape, offsets)]

    def folded(self, equation: Equation) -> bool:
        """Whether an equation reduces short axes."""
        return False

    def operands(self, equation: Equation, place: Place) -> list[Piece]:
        """The operands of an elementwise equation for its element at a place."""
        shape = equation.outputs[0].type.shape
        return [Piece(a, broadcast(a.type.shape, shape, place)) for a in equation.inputs]

    def moved(self, equation: Equation, place: Place) -> Moved | None:
        """The pieces of a moving equation; None for other equations."""
        rule = _MOVES.get(equation.primitive)
        return None if rule is None else rule(self, equation, place)

    def terms(self, equation: Equation, place: Place) -> list[Piece] | None:
        """The operands of a reduction, along all reduced loops, for its element at a place.

        Any loops of the right lengths that do not occur in the place are suitable: they are bound
        variables.
        """
        if not self.reduced or loops_of(place) & set(self.reduced):
            return None
        shape = equation.inputs[0].type.shape
        axes = equation.params.get("axes", (0,))
        rest, loops, source = iter(place), iter(self.reduced), list[Along]()
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

    def element(self, shape: Sequence[int], place: Place) -> list[tuple[Along, int, int]]:
        """The position of an element in C order: for each axis its index, length and stride."""
        terms, stride = list[tuple[Along, int, int]](), 1
        for along, length in zip(reversed(place), reversed(shape), strict=True):
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

    def whole(self, shape: Sequence[int], offsets: Sequence[int] = ()) -> Place:
        return (Along(0),) if math.prod(shape) > 1 else ()

    def operands(self, equation: Equation, place: Place) -> list[Piece]:
        return [Piece(a, place if a.type.size > 1 else ()) for a in equation.inputs]

    def moved(self, equation: Equation, place: Place) -> Moved | None:
        if equation.primitive not in (reshape, broadcast_to):
            return None
        return Moved(None, self.operands(equation, place))

    def element(self, shape: Sequence[int], place: Place) -> list[tuple[Along, int, int]]:
        return [(along, self.lengths[0], 1) for along in place]


class ShortMaps(IndexMaps):
    """The maps of loops over the axes longer than SHORT."""

    def long(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tuple([n for n in shape if n > SHORT])

    nest = long

    def places(self, shape: Sequence[int], loops: Sequence[Along]) -> list[Place]:
        rest = iter(loops)
        along = [[next(rest)] if n > SHORT else [Along(-1, i) for i in range(n)] for n in shape]
        return list(itertools.product(*along))

    def wholes(self, shape: Sequence[int], offsets: Sequence[int] = ()) -> list[Place]:
        offsets = offsets or [0] * len(shape)
        return self.places(shape, [Along(i, -o) for i, o in enumerate(offsets)])

    def folded(self, equation: Equation) -> bool:
        if equation.primitive not in (reduce_sum, reduce_max, reduce_min):
            return False
        shape = equation.inputs[0].type.shape
        reduced = [shape[axis] for axis in equation.params["axes"] if shape[axis] > 1]
        return bool(reduced) and max(reduced) <= SHORT

    def parts(self, equation: Equation, place: Place) -> list[Piece]:
        """The terms of a reduction of short axes for its element at a place."""
        (atom,), axes = equation.inputs, equation.params["axes"]
        rest = iter(place)
        along = [[Along(-1, k) for k in range(n)] if i in axes else [next(rest)]
                 for i, n in enumerate(atom.type.shape)]  # fmt: skip
        return [Piece(atom, place) for place in itertools.product(*along)]


def flat(equations: Sequence[Equation], types: Sequence[Any]) -> bool:
    """Whether all arrays have one shape or one element, and no element moves."""
    shapes = {tuple([n for n in type_.shape if n != 1]) for type_ in types} - {()}
    moving = (reshape, broadcast_to)
    return len(shapes) <= 1 and all(elementwise(e) or e.primitive in moving for e in equations)


def normal(place: Sequence[Along], shape: Sequence[int]) -> Place:
    """A place in which axes of length 1 belong to no loop."""
    return tuple([FIRST if n == 1 else along for along, n in zip(place, shape, strict=True)])


def broadcast(shape: Sequence[int], out: Sequence[int], place: Place) -> Place:
    """The place in an operand that corresponds to a place in the result."""
    return normal(place[len(out) - len(shape) :], shape)


# --- primitives that move elements ----------------------------------------------------------------


def _one(equation: Equation, place: Sequence[Along]) -> Moved:
    atom = equation.inputs[0]
    return Moved(None, [Piece(atom, normal(place, atom.type.shape))])


def _broadcast(maps: IndexMaps, equation: Equation, place: Place) -> Moved:
    shape = equation.inputs[0].type.shape
    return _one(equation, broadcast(shape, equation.outputs[0].type.shape, place))


def _reshape(maps: IndexMaps, equation: Equation, place: Place) -> Moved:
    before, after = equation.inputs[0].type.shape, equation.outputs[0].type.shape
    kept = [along for along, n in zip(place, after, strict=True) if n != 1]
    if [n for n in before if n != 1] != [n for n in after if n != 1]:
        raise Refused("a reshape that joins or splits axes")
    rest = iter(kept)
    return _one(equation, [FIRST if n == 1 else next(rest) for n in before])


def _transpose(maps: IndexMaps, equation: Equation, place: Place) -> Moved:
    source = [FIRST] * len(place)
    for along, axis in zip(place, equation.params["axes"], strict=True):
        source[axis] = along
    return _one(equation, source)


def _flip(maps: IndexMaps, equation: Equation, place: Place) -> Moved:
    shape, axes = equation.outputs[0].type.shape, equation.params["axes"]
    axes = [axis % len(shape) for axis in axes]
    turned = [
        Along(a.loop, shape[i] - 1 - a.offset, -a.step) if i in axes else a
        for i, a in enumerate(place)
    ]
    return _one(equation, turned)


def _slice_axis(maps: IndexMaps, equation: Equation, place: Place) -> Moved:
    axis, start = equation.params["axis"], equation.params["start"]
    moved = [_shifted(a, start) if i == axis else a for i, a in enumerate(place)]
    return _one(equation, moved)


def _shifted(along: Along, by: int) -> Along:
    return along._replace(offset=along.offset + by)


def _entries(equation: Equation, ndim: int) -> list[Any]:
    """The entries of an index of slices and integers; other indices are refused."""
    entries = expanded(equation.params["index"], ndim)
    if not all(e is None or type(e) in (int, slice) for e in entries):
        raise Refused("an index array")
    return entries


def static(equation: Equation) -> bool:
    """Whether index maps can express a moving equation: no index array, and no other reshape or
    step.
    """
    if equation.primitive is stack:
        return len(equation.inputs) <= SHORT
    index = equation.params.get("index")
    steps = (None, 1, -1) if equation.primitive is getitem else (None, 1)
    for entry in () if index is None else index.entries:
        if isinstance(entry, slice):
            if entry.step not in steps:
                return False
        elif not (entry is None or entry is Ellipsis or type(entry) is int):
            return False
    if equation.primitive is reshape:
        before, after = equation.inputs[0].type.shape, equation.outputs[0].type.shape
        return [n for n in before if n != 1] == [n for n in after if n != 1]
    return True


def _getitem(maps: IndexMaps, equation: Equation, place: Place) -> Moved:
    shape = equation.inputs[0].type.shape
    entries = _entries(equation, len(shape))
    given, source = iter(place), list[Along]()
    for entry in entries:
        along = FIRST if isinstance(entry, int) else next(given)
        if entry is None:
            continue
        length = shape[len(source)]
        if isinstance(entry, int):
            source.append(Along(-1, entry % length))
        else:
            start, _, step = entry.indices(length)
            if step != 1 and step != -1 and along.loop >= 0:
                raise Refused("a slice with a step")
            source.append(Along(along.loop, start + step * along.offset, along.step * step))
    return _one(equation, source)


def _part(maps: IndexMaps, equation: Equation, part: Atom, place: Place) -> list[Piece]:
    """The values written to some elements of an array, at a place of the array."""
    entries = _entries(equation, len(place))
    source, limits, axis = list[Along](), list[Limit](), 0
    shape = equation.outputs[0].type.shape
    for entry in entries:
        if entry is None:
            source.append(FIRST)
            continue
        along, length = place[axis], shape[axis]
        axis += 1
        if isinstance(entry, int):
            start = entry % length
            found = maps.limited(along, start, start + 1)
        else:
            start, stop, step = entry.indices(length)
            if step != 1:
                raise Refused("a scatter with a step")
            found = maps.limited(along, start, stop)
            source.append(_shifted(along, -start))
        if found is None:
            return []
        limits += found
    written = tuple([n for n, e in zip(_lengths(entries, shape), source, strict=True)])
    return [Piece(part, broadcast(part.type.shape, written, tuple(source)), tuple(limits))]


def _lengths(entries: Sequence[Any], shape: Sequence[int]) -> list[int]:
    """The shape of the selection by an index of slices and integers."""
    found, axis = list[int](), 0
    for entry in entries:
        if entry is None:
            found.append(1)
            continue
        if isinstance(entry, slice):
            found.append(len(range(*entry.indices(shape[axis]))))
        axis += 1
    return found


def _indexed(maps: IndexMaps, equation: Equation, place: Place) -> Moved:
    return Moved(None, _part(maps, equation, Literal(True), place))


def _reduce(maps: IndexMaps, equation: Equation, place: Place) -> Moved | None:
    """A reduction along axes of length 1; a sum is added to the 0.0 that NumPy begins with."""
    shape, axes = equation.inputs[0].type.shape, equation.params["axes"]
    if any(shape[axis] != 1 for axis in axes):
        return None
    rest = iter(place)
    found = _one(equation, [FIRST if i in axes else next(rest) for i in range(len(shape))])
    return found._replace(adds=equation.primitive is reduce_sum)


def _scatter(maps: IndexMaps, equation: Equation, place: Place) -> Moved:
    return Moved(None, _part(maps, equation, equation.inputs[0], place))


def _write(adds: bool) -> Callable[[IndexMaps, Equation, Place], Moved]:
    def rule(maps: IndexMaps, equation: Equation, place: Place) -> Moved:
        base, part = equation.inputs[:2]
        return Moved(Piece(base, place), _part(maps, equation, part, place), adds)

    return rule


def _pad(maps: IndexMaps, equation: Equation, place: Place) -> Moved:
    (atom,) = equation.inputs
    limits, source = list[Limit](), list[Along]()
    widths = equation.params["widths"]
    for along, (before, _), n in zip(place, widths, atom.type.shape, strict=True):
        found = maps.limited(along, before, before + n)
        if found is None:
            return Moved(None, [])
        limits += found
        source.append(_shifted(along, -before))
    return Moved(None, [Piece(atom, normal(source, atom.type.shape), tuple(limits))])


def _joined(
    maps: IndexMaps, parts: Sequence[tuple[Atom, int, int, int]], axis: int, place: Place
) -> Moved:
    """Consecutive parts (atom, low, high, shift) along an axis."""
    pieces = []
    for atom, low, high, shift in parts:
        limits = maps.limited(place[axis], low, high)
        if limits is not None:
            moved = [_shifted(a, shift) if i == axis else a for i, a in enumerate(place)]
            pieces.append(Piece(atom, normal(moved, atom.type.shape), limits))
    return Moved(None, pieces)


def _concatenate(maps: IndexMaps, equation: Equation, place: Place) -> Moved:
    axis, begin, parts = equation.params["axis"] % len(place), 0, []
    for atom in equation.inputs:
        end = begin + atom.type.shape[axis]
        parts.append((atom, begin, end, -begin))
        begin = end
    return _joined(maps, parts, axis, place)


def _stack(maps: IndexMaps, equation: Equation, place: Place) -> Moved:
    (first, *rest), pieces = place, []
    for k, atom in enumerate(equation.inputs):
        limits = maps.limited(first, k, k + 1)
        if limits is not None:
            pieces.append(Piece(atom, normal(rest, atom.type.shape), limits))
    return Moved(None, pieces)


def _roll(maps: IndexMaps, equation: Equation, place: Place) -> Moved:
    (atom,), axes = equation.inputs, equation.params["axes"]
    if len(axes) != 1:
        raise Refused("a roll along several axes")
    axis = axes[0] % len(place)
    n = atom.type.shape[axis]
    by = equation.params["shifts"][0] % n
    return _joined(maps, [(atom, 0, by, n - by), (atom, by, n, -by)], axis, place)


_MOVES: dict[Any, Callable[[IndexMaps, Equation, Place], Moved | None]] = {
    broadcast_to: _broadcast,
    reshape: _reshape,
    transpose: _transpose,
    flip: _flip,
    slice_axis: _slice_axis,
    getitem: _getitem,
    scatter: _scatter,
    indexed: _indexed,
    reduce_sum: _reduce,
    reduce_max: _reduce,
    reduce_min: _reduce,
    index_add: _write(True),
    index_set: _write(False),
    pad: _pad,
    concatenate: _concatenate,
    roll: _roll,
    stack: _stack,
}

MOVING = (_MOVES.keys() | {unstack}) - {reduce_sum, reduce_max, reduce_min}
