"""Reads and writes by index arrays: the index along an axis is an element of another array.

A read (`getitem`) is an index map with indirect axes. A write (`scatter`, `index_add`, `index_set`)
is a root of a loop nest: each value is added to, or replaces, the element that its indices name, in
the order of the values, so that elements that are named twice are exact. Indices are clamped; a
program has one more result, whether one of them is out of bounds, and NumPy then raises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fungrad.compiler.native.index_maps import IndexMap, Piece, Through, broadcast
from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.primitives.elementwise.family import add
from fungrad.primitives.facts import Along
from fungrad.primitives.movement.gather import getitem, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import reduce_sum
from fungrad.primitives.movement.scatter import index_add, index_set
from fungrad.primitives.movement.static_index import Index, expanded, layout
from fungrad.primitives.sort import searchsorted
from fungrad.support.lazy import Record

WRITES: Mapping[Any, int] = {scatter: 1, index_add: 2, index_set: 2}
"""For each primitive that writes, the number of operands before the index arrays."""


def arrays_of(equation: Equation) -> Sequence[Atom]:
    """The index arrays of a read or write; () for other equations."""
    before = 1 if equation.primitive is getitem else WRITES.get(equation.primitive)
    return () if before is None else equation.inputs[before:]


def indirect(equation: Equation) -> bool:
    """Whether an equation reads or writes by index arrays, in a way that loops over them can."""
    arrays = arrays_of(equation)
    if (
        not arrays
        or not any(a.type.ndim for a in arrays)
        or any(a.type.dtype.kind != "i" for a in arrays)
    ):
        return False
    if any(isinstance(a, Literal) or not a.type.size for a in equation.inputs):
        return False
    shape, index = _indexed_shape(equation), equation.params["index"]
    steps = [range(n)[e].step for n, e in _entries(index, shape) if type(e) is slice]
    return all(abs(step) == 1 for step in steps)


def writes(equation: Equation) -> bool:
    """Whether an equation writes by index arrays."""
    return equation.primitive in WRITES and indirect(equation)


def searches(equation: Equation) -> bool:
    """Whether an equation looks for floats in one sorted array."""
    if equation.primitive is not searchsorted or equation.params.get("lead", 0):
        return False
    a, v = equation.inputs
    known = not isinstance(a, Literal) and a.type.ndim == 1 and a.type.size > 0
    return known and a.type.dtype == v.type.dtype and a.type.dtype.kind == "f"


def before_loops(equation: Equation) -> Sequence[Atom]:
    """The operands that have to be complete before loops over the indices begin."""
    if searches(equation):
        return equation.inputs[:1]
    if not indirect(equation):
        return ()
    return () if equation.primitive is scatter else equation.inputs[:1]


def direct_atoms(equation: Equation) -> Sequence[Atom]:
    """The operands and results of an equation that loops over it pass over in order."""
    if searches(equation):
        return (*equation.inputs[1:], *equation.outputs)
    if not indirect(equation):
        return (*equation.inputs, *equation.outputs)
    reads = equation.primitive is getitem
    return (
        (*equation.inputs[1:], *equation.outputs)
        if reads
        else (equation.inputs[WRITES[equation.primitive] - 1 :])
    )


def _indexed_shape(equation: Equation) -> tuple[int, ...]:
    """The shape of the array that is read or written."""
    reads = equation.primitive is getitem
    return (equation.inputs[0] if reads else equation.outputs[0]).type.shape


def _entries(index: Index, shape: Sequence[int]) -> Iterator[tuple[int, Any]]:
    """The length and the entry of each axis of an array that is indexed."""
    entries = [e for e in expanded(index, len(shape)) if e is not None]
    return zip(shape, entries, strict=True)


def bounds(equation: Equation) -> list[tuple[Atom, int]]:
    """The index arrays of an equation, with the lengths of their axes."""
    given, shape = iter(arrays_of(equation)), _indexed_shape(equation)
    return [(next(given), n) for n, e in _entries(equation.params["index"], shape)
            if type(e) is str]  # fmt: skip


def index_of(equation: Equation, index: IndexMap) -> IndexMap:
    """The index in the array that is indexed, for an index in the selection; or in the result of a
    sum along axes.
    """
    if equation.primitive is reduce_sum:
        return tuple([a for n, a in enumerate(index) if n not in equation.params["axes"]])
    shape, entries, arrays = _indexed_shape(equation), equation.params["index"], arrays_of(equation)
    found = layout(entries, shape, [a.type.shape for a in arrays])
    start, stop = found.position, found.position + len(found.fancy)
    rest, given, source = iter((*index[:start], *index[stop:])), iter(arrays), list[Any]()
    axes = iter(_entries(entries, shape))
    for entry in expanded(entries, len(shape)):
        if entry is None:
            next(rest)
            continue
        length, _ = next(axes)
        if type(entry) is str:
            atom = next(given)
            at = broadcast(atom.type.shape, found.fancy, index[start:stop])
            source.append(Through(atom, at, length))
        elif type(entry) is slice:
            along: Any = next(rest)
            taken = range(length)[entry]
            offset = taken.start + taken.step * along.offset
            source.append(Along(along.loop, offset, 1 if along.loop < 0 else
                                along.step * taken.step))  # fmt: skip
        else:
            source.append(Along(-1, range(length)[entry]))
    return tuple(source)


class Write(Record):
    """Values that are written into an output: by index arrays, or into sums along axes.

    Attributes:
      equation: the equation that writes, or sums up.
      adds: whether a value is added to an element; otherwise it replaces it.
    """

    equation: Equation
    adds: bool

    @property
    def value(self) -> Atom:
        return self.equation.inputs[WRITES.get(self.equation.primitive, 1) - 1]

    def pieces(self, index: IndexMap) -> list[Piece]:
        """The value at an index, and its indices."""
        at = index_of(self.equation, index)
        indices = [Piece(a.array, a.index_map) for a in at if isinstance(a, Through)]
        return [Piece(self.value, index), *indices]


class Written(Record):
    """An output that values are written into.

    Attributes:
      base: the array that is copied first; None for zeros.
      writes: the writes, in order.
    """

    base: Atom | None
    writes: Sequence[Write]


def written(graph: Graph) -> Mapping[Atom, Written]:
    """The values that are written by index arrays, by identity: also sums of such arrays, and
    arrays that several are added to.
    """
    readers = Counter([a for e in graph.equations for a in e.inputs])
    readers.update(graph.outputs)
    outputs = dict[Atom, Written]()
    for equation in graph.equations:
        once = {a: outputs[a] for a in equation.inputs if a in outputs and readers[a] == 1}
        output = _written(equation, once)
        if output is not None:
            outputs[equation.outputs[0]] = output
    return outputs


def _written(equation: Equation, once: Mapping[Atom, Written]) -> Written | None:
    """The output of an equation, if it writes into an array or adds two such outputs. `once` are
    those among its operands that nothing else reads.
    """
    primitive, inputs = equation.primitive, equation.inputs
    if writes(equation):
        unique = equation.params["index"].unique
        own = Write(equation, primitive is index_add or (primitive is scatter and not unique))
        base = None if primitive is scatter else inputs[0]
        before = None if base is None else once.get(base)
        both = None if before is None else _in_turn(before.base, [*before.writes, own])
        return both or Written(base, [own])
    if primitive is not add or len(once) != 2 or any(w.base is not None for w in once.values()):
        return None
    return _in_turn(None, [write for output in once.values() for write in output.writes])


def _in_turn(base: Atom | None, writes: Sequence[Write]) -> Written | None:
    """Writes into one array that take turns, element by element; None if they may not."""
    fits = all(w.adds for w in writes) and len({w.value.type.shape for w in writes}) == 1
    return Written(base, writes) if fits else None
