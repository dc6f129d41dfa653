"""Store forwarding: replaces a chain of writes at known positions by its result.

Pattern: each equation changes the result of the one before: `index_set(x, v)`, `index_add(x, v)`,
and the cotangent of a write, `select(logical_not(indexed), x, 0)`.
Guard: the positions are known at compile time, integers along adjacent axes or a slice of one axis;
the values have the array's dtype. Another reader of an array ends the chain.
Replacement: a read of a position is the last value written there; an array that is read whole is
built once from the last values, by a stack, a concatenation or one write.
Reason: n writes into n elements copy n arrays; this copies one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.rewriter import applied
from fungrad.compiler.passes.value_facts import positive_zero
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.ir.types import of_value
from fungrad.primitives.elementwise.family import add, logical_not, select
from fungrad.primitives.movement.gather import ARRAY, Index, expanded, getitem, indexed, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import concatenate, reshape, transpose
from fungrad.primitives.movement.scatter import index_add, index_set
from fungrad.primitives.movement.stack_iota import stack, unstack
from fungrad.primitives.movement.static_index import of_int, selected
from fungrad.primitives.primitive import full
from fungrad.retracing.inlining import Renaming, copied, key_of, placed, renamed, rewired
from fungrad.support.lazy import Record

WHOLE = slice(None)


class Positions(Record):
    """Positions along `axes` adjacent axes after `lead` others, numbered in C order."""

    lead: int
    axes: int
    start: int
    stop: int
    kept: bool
    """Whether they are a slice, so that the written value has the axis."""


class LinkWrite(Record):
    """What an equation writes into, None for zeros, and the positions that it writes."""

    into: Atom | None
    at: Positions


class WrittenItem(Record):
    """The value at a position that a slice wrote: an item of `values`."""

    values: Atom
    number: int


ZERO: Any = object()
"""The value of a position that was cleared."""


class Chain:
    """Equations (links) that write into one array, in order, at positions along the same axes."""

    def __init__(
        self, root: Atom | None, shape: tuple[int, ...], dtype: Any, at: Positions
    ) -> None:
        self.root = root
        """The array that the first link writes into; None for zeros."""
        self.shape, self.dtype = shape, dtype
        self.lead, self.axes = at.lead, at.axes
        self.named = shape[at.lead : at.lead + at.axes]
        self.item = (*shape[: at.lead], *shape[at.lead + at.axes :])
        self.size = int(np.prod(self.named))
        self.links: list[Equation] = []
        self.written: dict[int, tuple[list[int], list[Any]]] = {}
        """By position: the orders of the links that wrote there, and the values."""

    def add(self, link: Equation, at: Positions, entry: Any) -> Member:
        """Records a link, which writes a value at positions. Returns its array."""
        self.links.append(link)
        sliced = at.kept and entry is not ZERO
        for position in range(at.start, at.stop):
            orders, entries = self.written.setdefault(position, ([], []))
            orders.append(len(self.links))
            entries.append(WrittenItem(entry, position - at.start) if sliced else entry)
        return Member(self, len(self.links))

    def alike(self, lead: int, axes: int) -> bool:
        """Whether its positions are along these axes."""
        return self.lead == lead and self.axes == axes

    def at(self, position: int, order: int) -> Any:
        """The value at a position after so many links; None if no link has written there."""
        orders, entries = self.written.get(position, ((), ()))
        count = bisect_right(orders, order)
        return entries[count - 1] if count else None

    def index(self, position: int) -> Index:
        """The index of a position."""
        if self.axes == 1 and not self.lead:
            return of_int(position)
        return Index((*[WHOLE] * self.lead, *map(int, np.unravel_index(position, self.named))))


class Member(Record):
    """The array of a chain after so many links."""

    chain: Chain
    order: int


def positions_of(index: Index, shape: tuple[int, ...]) -> Positions | None:
    """The positions that an index selects, if it has integers along adjacent axes alone, or one
    slice with step 1.
    """
    ranges_and_kept = selected(index, shape)
    if ranges_and_kept is None or None in ranges_and_kept[1]:
        return None
    ranges, kept = ranges_and_kept
    named = [i for i, n in enumerate(shape) if i not in kept or ranges[i] != range(n)]
    if not named or named[-1] - named[0] >= len(named):
        return None
    lead, count = named[0], len(named)
    if not set(kept).isdisjoint(named):
        own = ranges[lead]
        known = count == own.step == 1 and len(own) > 0
        return Positions(lead, 1, own.start, own.stop, True) if known else None
    position = 0
    for axis in named:
        position = position * shape[axis] + ranges[axis].start
    return Positions(lead, count, position, position + 1, False)


class _Forwarder:
    """Rewrites a Graph without the links of chains."""

    def __init__(self, graph: Graph, arrays: bool) -> None:
        self.graph, self.arrays = graph, arrays
        self.names: Renaming = {}
        self.equations: list[Equation] = []
        self.constants = list(graph.constants)
        self.members: dict[Atom, Member] = {}
        self.cleared: dict[Atom, tuple[Index, tuple[int, ...]]] = {}
        """Masks that are false at one index only: the index, and the shape."""
        self.budget = costs.sliced_items * len(graph.equations)
        self.links = 0
        self.known: dict[Any, Atom] = {}
        self.items: dict[Atom, set[int]] = {}
        """The items along axis 0 that are read, of arrays at the roots of chains."""
        self.whole = set(graph.outputs)
        """Variables with other readers than links and reads at known positions."""
        self._note_readers()

    def _note_readers(self) -> None:
        marks: dict[Atom, tuple[Index, tuple[int, ...]]] = {}
        for equation in self.graph.equations:
            primitive, inputs = equation.primitive, equation.inputs
            if primitive is indexed and not inputs:
                marks[equation.outputs[0]] = equation.params["index"], equation.params["shape"]
            elif primitive is logical_not and inputs[0] in marks:
                self.cleared[equation.outputs[0]] = marks[inputs[0]]
            write = self._write(equation)
            into = None if write is None else write.into
            read = primitive is getitem and len(inputs) == 1
            at = positions_of(equation.params["index"], inputs[0].type.shape) if read else None
            if at is not None and not at.kept:
                into = inputs[0]
            self.links += into is not None and not read
            self.whole.update([atom for atom in inputs if atom is not into])

    def _write(self, equation: Equation) -> LinkWrite | None:
        """The write that an equation is, if it may be a link."""
        primitive, inputs = equation.primitive, equation.inputs
        into: Atom | None = None
        if primitive is scatter and len(inputs) == 1:
            index, shape = equation.params["index"], equation.outputs[0].type.shape
        elif primitive is index_set or primitive is index_add:
            into, index, shape = inputs[0], equation.params["index"], inputs[0].type.shape
            if len(inputs) != 2 or into is inputs[1]:
                return None
        elif primitive is select and inputs[0] in self.cleared:
            into, (index, shape) = inputs[1], self.cleared[inputs[0]]
            fits = into.type == equation.outputs[0].type and into.type.shape == shape
            if not fits or not positive_zero(inputs[2]):
                return None
        else:
            return None
        at = positions_of(index, shape)
        return None if at is None else LinkWrite(into, at)

    def written(self) -> Graph:
        """The rewritten Graph."""
        for equation in self.graph.equations:
            if not self._link(equation) and not self._read(equation):
                inputs = tuple([self.atom(atom) for atom in equation.inputs])
                self.equations.append(copied(equation, inputs, equation.outputs))
        outputs = tuple([self.atom(atom) for atom in self.graph.outputs])
        graph = self.graph.replace(
            equations=tuple(self.equations), outputs=outputs, constants=tuple(self.constants)
        )
        return _unstacked(graph, self.items)

    # --- links ------------------------------------------------------------------------------------

    def _link(self, equation: Equation) -> bool:
        """Records the values that an equation writes; returns whether it is a link of a chain."""
        write = self._write(equation)
        if write is None or equation.outputs[0].type.weak:
            return False
        (into, at), output = write, equation.outputs[0]
        if into is None and (at.kept or output in self.whole):
            return False
        entry = self._value(equation, output.type.dtype)
        if entry is None or not self._afforded(at):
            return False
        chain = self._chain(into, at)
        if equation.primitive is index_add:
            if chain is None or at.kept:
                return False
            entry = self._sum(equation, chain, at.start, entry)
        elif chain is None:
            if into is not None:
                self.atom(into)
            chain = Chain(into, output.type.shape, output.type.dtype, at)
        self.members[output] = chain.add(equation, at, entry)
        if output in self.whole:
            self.atom(output)
        return True

    def _afforded(self, at: Positions) -> bool:
        """Whether the budget of positions with parts of arrays allows these, which it pays for."""
        if at.kept:
            self.budget -= at.stop - at.start
        return not at.kept or self.budget >= 0

    def _value(self, equation: Equation, dtype: Any) -> Any:
        """The value that is written, in the array's dtype; None if the write casts it."""
        if equation.primitive is select:
            return ZERO
        atom = self.atom(equation.inputs[len(equation.inputs) > 1])
        if isinstance(atom, Literal):
            if not np.can_cast(np.result_type(atom.value), dtype, "same_kind"):
                return None
            return Literal(np.asarray(atom.value).astype(dtype)[()])
        return atom if atom.type.dtype == dtype and not atom.type.weak else None

    def _chain(self, into: Atom | None, at: Positions) -> Chain | None:
        """The chain that ends with an array, if the array was not built yet."""
        member = self.members.get(into) if into is not None else None
        if member is None or into in self.names:
            return None
        chain = member.chain
        last = member.order == len(chain.links)
        return chain if last and chain.alike(at.lead, at.axes) else None

    def _sum(self, equation: Equation, chain: Chain, position: int, value: Atom) -> Atom:
        """The value at a position after an addition to it."""
        old = self._entry(equation, equation.inputs[0], chain, position)
        if old is ZERO and equation.backward:
            return value
        return self.make(equation, add, self._item(equation, chain, old), value)

    # --- reads ------------------------------------------------------------------------------------

    def _read(self, equation: Equation) -> bool:
        """Replaces a read of one position of a chain by its value; returns whether it did."""
        if equation.primitive is not getitem or len(equation.inputs) > 1:
            return False
        (x,), (output,) = equation.inputs, equation.outputs
        member = self.members.get(x)
        if member is None or any(e is None for e in equation.params["index"].entries):
            return False
        chain = member.chain
        entries = expanded(equation.params["index"], x.type.ndim)
        ints = entries[chain.lead : chain.lead + chain.axes]
        if any(e != WHOLE for e in entries[: chain.lead]) or any(type(e) is not int for e in ints):
            return False
        position = 0
        for entry, n in zip(ints, chain.named, strict=True):
            position = position * n + entry % n
        item = self._item(equation, chain, self._entry(equation, x, chain, position))
        rest = entries[chain.lead + chain.axes :]
        if any(e != WHOLE for e in rest):
            index = Index((*[WHOLE] * chain.lead, *rest))
            item = self.make(equation, getitem, item, index=index)
        assert item.type == output.type
        self.names[output] = item
        return True

    def _entry(self, like: Equation, x: Atom, chain: Chain, position: int) -> Any:
        """The value at a position of a member of a chain, or of the arrays that the chain started
        from.
        """
        for _ in range(costs.searched_chains):
            member = self.members.get(x)
            if member is None or not member.chain.alike(chain.lead, chain.axes):
                break
            entry = member.chain.at(position, member.order)
            if entry is not None:
                return entry
            if member.chain.root is None:
                return ZERO
            x = member.chain.root
        x = self.atom(x)
        if not chain.lead and chain.axes == 1:
            self.items.setdefault(x, set()).add(position)
        return self.make(like, getitem, x, index=chain.index(position))

    def _item(self, like: Equation, chain: Chain, entry: Any) -> Atom:
        """An entry as an atom."""
        if entry is ZERO:
            return self._zeros(like, chain.item, chain.dtype)
        if isinstance(entry, WrittenItem):
            index = Index((*[WHOLE] * chain.lead, entry.number))
            return self.make(like, getitem, entry.values, index=index)
        atom: Atom = entry
        return atom

    def _zeros(self, like: Equation, shape: tuple[int, ...], dtype: Any) -> Atom:
        if not shape:
            return Literal(dtype.type(0))
        return self.make(like, full, shape=shape, value=dtype.type(0), dtype=dtype)

    # --- arrays -----------------------------------------------------------------------------------

    def atom(self, atom: Atom) -> Atom:
        """An atom in the rewritten Graph; an array of a chain is built."""
        member = self.members.get(atom)
        if member is not None and atom not in self.names:
            self.names[atom] = self._made(atom, member)
        return self.names.get(atom, atom)

    def _made(self, atom: Any, member: Member) -> Atom:
        """Builds an array of a chain."""
        chain, order = member
        like = chain.links[order - 1]
        if order == 1:
            inputs = tuple([self.atom(a) for a in like.inputs])
            self.equations.append(copied(like, inputs, like.outputs))
            return atom  # type: ignore[no-any-return]
        entries = {position: chain.at(position, order) for position in chain.written}
        positions = sorted(position for position, entry in entries.items() if entry is not None)
        if len(positions) == chain.size:
            if all(entries[position] is ZERO for position in positions):
                return self._zeros(like, chain.shape, chain.dtype)
            values = self._side_by_side(like, chain, [entries[position] for position in positions])
            same = values.type.shape == chain.shape
            return values if same else self.make(like, reshape, values, shape=chain.shape)
        return self._written(like, chain, positions, [entries[position] for position in positions])

    def _written(
        self, like: Equation, chain: Chain, positions: list[int], entries: Sequence[Any]
    ) -> Atom:
        """The first array of a chain, with entries at some positions: one write of all, or one each
        for few.
        """
        first, last = positions[0], positions[-1]
        beside = chain.axes == 1 and last - first < len(positions)
        many = len(positions) >= costs.scattered_items or chain.size > costs.small_array
        if len(positions) > 1 and (beside or (self.arrays and many)):
            values = self._side_by_side(like, chain, entries)
            if beside:
                index = Index((*[WHOLE] * chain.lead, slice(first, last + 1)))
                return self._set(like, chain, values, index=index)
            index = Index((*[WHOLE] * chain.lead, *[ARRAY] * chain.axes), unique=True)
            arrays = [self._constant(a) for a in np.unravel_index(positions, chain.named)]
            return self._set(like, chain, values, *arrays, index=index)
        root = chain.root
        x = self._zeros(like, chain.shape, chain.dtype) if root is None else self.atom(root)
        for position, entry in zip(positions, entries, strict=True):
            value = self._item(like, chain, entry)
            x = self.make(like, index_set, x, value, index=chain.index(position))
        return x

    def _set(self, like: Equation, chain: Chain, values: Atom, *arrays: Atom, index: Index) -> Atom:
        """The first array of a chain, with values at some positions."""
        if chain.root is None:
            return self.make(like, scatter, values, *arrays, index=index, shape=chain.shape)
        return self.make(like, index_set, self.atom(chain.root), values, *arrays, index=index)

    def _side_by_side(self, like: Equation, chain: Chain, entries: Sequence[Any]) -> Atom:
        """The entries of consecutive positions as an array, with the chain's axes as one axis."""
        pieces: list[Atom] = []
        start = 0
        while start < len(entries):
            stop, first = start + 1, entries[start]
            if isinstance(first, WrittenItem):
                while stop < len(entries) and entries[stop] == (
                    first.values, first.number + stop - start
                ):  # fmt: skip
                    stop += 1
                cut = slice(first.number, first.number + stop - start)
                piece = first.values
                if stop - start < piece.type.shape[chain.lead]:
                    index = Index((*[WHOLE] * chain.lead, cut))
                    piece = self.make(like, getitem, piece, index=index)
            else:
                while stop < len(entries) and not isinstance(entries[stop], WrittenItem):
                    stop += 1
                items = [self._item(like, chain, entry) for entry in entries[start:stop]]
                piece = self.make(like, stack, *items)
                if chain.lead:
                    axes = (*range(1, chain.lead + 1), 0, *range(chain.lead + 1, piece.type.ndim))
                    piece = self.make(like, transpose, piece, axes=axes)
            pieces.append(piece)
            start = stop
        return pieces[0] if len(pieces) == 1 else self.make(
            like, concatenate, *pieces, axis=chain.lead
        )  # fmt: skip

    def _constant(self, value: Any) -> Atom:
        value.flags.writeable = False
        variable = Variable(of_value(value))
        self.constants.append((variable, value))
        return variable

    def make(self, like: Equation, primitive: Any, *inputs: Atom, **params: Any) -> Atom:
        """The output of a new equation; equal equations are written once."""
        equation = applied(like, primitive, *inputs, **params)
        key = key_of(equation)
        output = None if key is None else self.known.get(key)
        if output is None:
            self.equations.append(equation)
            output = self.known[key] = equation.outputs[0]
        return output


def _unstacked(graph: Graph, items: dict[Atom, set[int]]) -> Graph:
    """The Graph with one `unstack` in place of the separate reads of most items of an array."""
    parts: dict[Atom, tuple[Variable, ...]] = {}
    names: Renaming = {}
    equations: list[Equation] = []
    for equation in graph.equations:
        x = equation.inputs[0] if equation.primitive is getitem else None
        if x is not None and len(items.get(x, ())) * 2 > x.type.shape[0]:
            (entry, *others) = equation.params["index"].entries
            if type(entry) is int and not others:
                if x not in parts:
                    parts[x] = tuple(map(Variable, unstack.infer([x.type], {})))
                    equations.append(placed(equation, unstack, (x,), parts[x], {}))
                names[equation.outputs[0]] = parts[x][entry]
                continue
        equations.append(rewired(equation, names))
    if not parts:
        return graph
    outputs = renamed(graph.outputs, names)
    return graph.replace(equations=tuple(equations), outputs=outputs)


def forward_stores(graph: Graph, arrays: bool = True) -> Graph:
    """The Graph with chains of writes replaced by their results.

    `arrays` allows writes by index arrays, which are slower in bodies of loops.
    """
    forwarder = _Forwarder(graph, arrays)
    return graph if forwarder.links < 2 else forwarder.written()
