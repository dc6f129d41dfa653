"""Rules for slices of one stretch of each axis, and what is done alike to neighbouring slices.

However such a slice is written, it is one `getitem`, and an array with zeros around it one
`scatter`. sigmoid(z[:, :n]) and sigmoid(z[:, n:2*n]) are slices of sigmoid(z[:, :2*n]), with the
same numbers: without that the value of an LSTM costs 1.54 times as much (calls and elements of
`ablation`). Slices that are added to zeros, and cover them, stand side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.patterns import Value, made, rule
from fungrad.compiler.passes.rewriter import Renaming, Writer, applied, renamed, rewired
from fungrad.compiler.passes.value_facts import positive_zero, unsigned, with_zeros_added
from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.primitives.elementwise.family import add
from fungrad.primitives.movement.gather import Index, expanded, getitem, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import concatenate, pad, reshape, slice_axis
from fungrad.primitives.movement.scatter import index_add
from fungrad.primitives.movement.stack_iota import stack
from fungrad.support.lazy import Record

X = Value("x")
Widths = Sequence[tuple[int, int]]
"""How much a box leaves out before it and behind it, along each axis."""


def box(index: Index, shape: tuple[int, ...]) -> Widths | None:
    """The box that an index is of an array of a shape; None where it is none."""
    if any(type(e) is not slice and e is not Ellipsis for e in index.entries):
        return None
    whole = expanded(index, len(shape))
    bounds = [entry.indices(n) for entry, n in zip(whole, shape, strict=True)]
    if any(step != 1 or start > stop for start, stop, step in bounds):
        return None
    return [(start, n - stop) for (start, stop, _), n in zip(bounds, shape, strict=True)]


def _index(widths: Widths) -> Index:
    """The index of a box, as one writes it."""
    return Index(tuple([slice(before or None, -after or None) for before, after in widths]))


@rule(made(slice_axis, X), "a stretch of an axis is a slice")
def stretch_of_axis(writer: Writer, equation: Equation, x: Atom) -> Atom | None:
    axis, start, stop = (equation.params[key] for key in ("axis", "start", "stop"))
    index = _index([(0, 0)] * axis + [(start, x.type.shape[axis] - stop)])
    return writer.add(equation, getitem, x, index=index)


@rule(made(pad, X), "zeros around an array: a slice of zeros")
def pad_as_scatter(writer: Writer, equation: Equation, x: Atom) -> Atom | None:
    shape, index = equation.outputs[0].type.shape, _index(equation.params["widths"])
    return writer.add(equation, scatter, x, index=index, shape=shape)


@rule(made(getitem), "a slice of a slice is one", of=(getitem,))
def slice_of_slice(writer: Writer, equation: Equation) -> Atom | None:
    part = equation.inputs[0]
    made_by = writer.definition(part, getitem)
    outer = None if made_by is None else box(made_by.params["index"], made_by.inputs[0].type.shape)
    inner = box(equation.params["index"], part.type.shape)
    if made_by is None or outer is None or inner is None:
        return None
    writer.release(part)
    both = zip(outer, inner, strict=True)
    index = _index([(a + before, b + after) for (a, b), (before, after) in both])
    return writer.add(equation, getitem, made_by.inputs[0], index=index)


RULES = (stretch_of_axis, pad_as_scatter, slice_of_slice)


class _Slice(Record):
    """A value that is a slice of what `key` stands for."""

    key: Hashable
    axis: int
    start: int
    stop: int


class _Source(Record):
    """An array that is cut along an axis, by its identity."""

    source: int
    axis: int


class _Run(Record):
    """Neighbouring slices whose equations are one."""

    start: int
    stop: int


def one_slice(index: Index, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """The axis, start and stop of an index that is a stretch of one axis, but not all of it."""
    cut = [(axis, width) for axis, width in enumerate(box(index, shape) or ()) if width != (0, 0)]
    if len(cut) != 1:
        return None
    ((axis, (before, after)),) = cut
    stop = shape[axis] - after
    return (axis, before, stop) if before < stop else None


@rule(made(index_add), "zeros that slices cover: the slices", of=(index_add, scatter))
def filled(writer: Writer, equation: Equation) -> Atom | None:
    """Zeros to which slices are added that cover them, each once: the slices, side by side.

    What is added to 0.0 has no -0.0 then.
    """
    (output,) = equation.outputs
    chain, inner = [equation], equation
    if _covered(writer, equation) != output.type.size:
        return None
    while inner.primitive is index_add:
        found = writer.sole_use_definition(inner.inputs[0], index_add, scatter)
        if found is None:
            return None
        chain.append(found)
        inner = found
    if any(len(e.inputs) > 2 for e in chain):
        return None
    parts = [_stretch(e.params["index"], output.type.shape) for e in chain]
    places = [part for part in parts if part is not None]
    if len(places) < len(chain):
        return _rows_filled(writer, chain)
    atoms = [e.inputs[e.primitive is index_add] for e in chain]
    if any(not _fills(atom, output, part) for part, atom in zip(places, atoms, strict=True)):
        return None
    order = sorted(range(len(chain)), key=places.__getitem__)
    ends = [0, *(places[i][2] for i in order)]
    (axis, *others) = {part[0] for part in places}
    if others or ends[-1] != output.type.shape[axis]:
        return None
    if any(places[i][1] != end for i, end in zip(order, ends, strict=False)):
        return None
    values, last = _after_zeros(writer, chain)
    wide = [_with_axis(writer, equation, values[i], output, places[i]) for i in order]
    return last(writer.add(equation, concatenate, *wide, axis=axis))


def _after_zeros(
    writer: Writer, chain: Sequence[Equation]
) -> tuple[list[Atom], Callable[[Atom], Atom]]:
    """The values of the slices in the end, but for operations on all of them side by side.

    The first is written, and those that are added to zeros have no -0.0 then: zeros are added to
    each, or to all in one where that is the same for the first.
    """
    *later, first = chain
    values = [e.inputs[1] for e in later]
    own, like = first.inputs[0], chain[0]
    if writer.regroup or all(unsigned(writer, value) for value in values):
        return [*values, own], lambda whole: whole
    if not unsigned(writer, own):
        return [*(with_zeros_added(writer, like, value) for value in values), own], lambda w: w
    made = writer.sole_use_definition(own, add)
    if made is not None and positive_zero(made.inputs[1]):
        own = made.inputs[0]
    return [*values, own], lambda whole: with_zeros_added(writer, like, whole)


def _covered(writer: Writer, equation: Equation) -> int:
    """How many elements an equation and those before it add to zeros; kept for those behind it, so
    that long chains are not walked again for each of their equations.
    """
    size = 0
    found: Equation | None = equation
    while found is not None:
        adds = found.primitive is index_add
        size += found.inputs[adds].type.size
        found = writer.definition(found.inputs[0], index_add, scatter) if adds else None
        if found is not None and id(found.outputs[0]) in writer.covered:
            size += writer.covered[id(found.outputs[0])]
            break
    writer.covered[id(equation.outputs[0])] = size
    return size


def _rows_filled(writer: Writer, chain: list[Equation]) -> Atom | None:
    """The same of small arrays that are covered by their items along axis 0: these, stacked."""
    (output,) = chain[0].outputs
    shape, rows = output.type.shape, {}
    for place, equation in enumerate(chain):
        atom = equation.inputs[equation.primitive is index_add]
        first, *rest = expanded(equation.params["index"], len(shape)) or [None]
        whole = all(type(e) is slice and e == slice(None) for e in rest)
        if type(first) is not int or not whole or output.type.size > costs.small_array:
            return None
        if atom.type.shape != shape[1:] or not shape[1:]:
            return None
        if atom.type.dtype != output.type.dtype or atom.type.weak:
            return None
        rows[first % shape[0]] = place
    if len(rows) != shape[0] or len(chain) != shape[0]:
        return None
    values, last = _after_zeros(writer, chain)
    return last(writer.add(chain[0], stack, *(values[rows[i]] for i in range(shape[0]))))


def _stretch(index: Index, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """As `one_slice`, of an index that may have one number in place of the slice."""
    if any(entry is None for entry in index.entries):
        return None
    entries = [slice(e % n, e % n + 1) if type(e) is int else e
               for e, n in zip(expanded(index, len(shape)), shape, strict=True)]  # fmt: skip
    return one_slice(Index(tuple(entries)), shape)


def _with_axis(
    writer: Writer, like: Equation, atom: Atom, output: Atom, part: tuple[int, int, int]
) -> Atom:
    """The value of a slice, with the axis that a number leaves out."""
    if atom.type.ndim == output.type.ndim:
        return atom
    shape = atom.type.shape
    return writer.add(like, reshape, atom, shape=(*shape[: part[0]], 1, *shape[part[0] :]))


def _fills(atom: Atom, output: Atom, part: tuple[int, int, int]) -> bool:
    """Whether an atom is just what stands in a slice of the output."""
    axis, start, stop = part
    shape = output.type.shape
    rest = shape[:axis], shape[axis + 1 :]
    wide = atom.type.shape == (*rest[0], stop - start, *rest[1])
    same = wide or (stop - start == 1 and atom.type.shape == (*rest[0], *rest[1]))
    return same and atom.type.dtype == output.type.dtype and not atom.type.weak


def in_one(graph: Graph) -> Graph:
    """The Graph with one equation for what is done alike to neighbouring slices."""
    slices = _slices(graph)
    runs = _runs(graph, slices)
    if not runs:
        return graph
    return _Joined(graph, slices, runs).written()


def _slices(graph: Graph) -> dict[int, _Slice]:
    """The values that are slices, or made of slices alone, element by element."""
    found: dict[int, _Slice] = {}
    for equation in graph.equations:
        bounds = None
        if equation.primitive is getitem and len(equation.inputs) == 1:
            bounds = one_slice(equation.params["index"], equation.inputs[0].type.shape)
        if bounds is not None:
            (x,) = equation.inputs
            found[id(equation.outputs[0])] = _Slice(_Source(id(x), bounds[0]), *bounds)
            continue
        made = _elementwise(equation, found) if found else None
        if made is not None:
            found[id(equation.outputs[0])] = made
    return found


def _elementwise(equation: Equation, slices: dict[int, _Slice]) -> _Slice | None:
    primitive: Any = equation.primitive
    if primitive.partials is None or primitive.multiple or equation.params:
        return None
    (output,) = equation.outputs
    parts = [slices.get(id(a)) for a in equation.inputs]
    known = [p for p in parts if p is not None]
    if not known or len({p[1:] for p in known}) != 1:
        return None
    for part, atom in zip(parts, equation.inputs, strict=True):
        if part is None and not isinstance(atom, Literal):
            return None
        if part is not None and atom.type.shape != output.type.shape:
            return None
    keys = tuple(
        [
            (repr(a.value), a.type) if isinstance(a, Literal) else slices[id(a)].key
            for a in equation.inputs
        ]
    )
    return _Slice((primitive, keys), *known[0][1:])


def _runs(graph: Graph, slices: dict[int, _Slice]) -> dict[Hashable, list[_Run]]:
    """Where at least two neighbours are made alike, by what they are made by."""
    bounds: dict[Hashable, set[_Run]] = {}
    for equation in graph.equations:
        found = slices.get(id(equation.outputs[0])) if equation.outputs else None
        if found is not None and equation.primitive is not getitem:
            bounds.setdefault(found.key, set()).add(_Run(found.start, found.stop))
    runs: dict[Hashable, list[_Run]] = {}
    for key, parts in bounds.items():
        merged: list[list[_Run]] = []
        for part in sorted(parts):
            if merged and merged[-1][-1].stop == part.start:
                merged[-1].append(part)
            else:
                merged.append([part])
        found_runs = [_Run(run[0].start, run[-1].stop) for run in merged if len(run) > 1]
        disjoint = all(
            a.stop <= b.start for a, b in zip(sorted(parts), sorted(parts)[1:], strict=False)
        )
        if found_runs and disjoint:
            runs[key] = found_runs
    return runs


class _Joined:
    """The equations, written again."""

    def __init__(
        self, graph: Graph, slices: dict[int, _Slice], runs: dict[Hashable, list[_Run]]
    ) -> None:
        self.graph, self.slices, self.runs = graph, slices, runs
        self.sources = {id(a): a for e in graph.equations for a in e.inputs}
        self.names: Renaming = {}
        self.equations: list[Equation] = []
        self.made: dict[tuple[Hashable, _Run], Atom] = {}
        """The value that replaces neighbours."""

    def written(self) -> Graph:
        """The Graph."""
        for equation in self.graph.equations:
            found = self.slices.get(id(equation.outputs[0])) if equation.outputs else None
            run = None if found is None else self.run(found)
            whole = None if found is None or run is None else self.whole(equation, found, run)
            if found is None or run is None or whole is None:
                self.equations.append(rewired(equation, self.names))
            else:
                part = self.part(equation, whole, found.axis, run, found)
                self.names[id(equation.outputs[0])] = part
        graph = self.graph
        outputs = renamed(graph.outputs, self.names)
        return graph.replace(equations=tuple(self.equations), outputs=outputs)

    def run(self, part: Any) -> _Run | None:
        """The run that a slice belongs to."""
        runs = self.runs.get(part.key, ())
        return next((r for r in runs if r.start <= part.start and part.stop <= r.stop), None)

    def whole(self, equation: Equation, found: _Slice, run: _Run) -> Atom | None:
        """The value of which the slices of a run are parts."""
        if (found.key, run) in self.made:
            return self.made[found.key, run]
        inputs = []
        for atom in equation.inputs:
            part = self.slices.get(id(atom))
            other = atom if part is None else self.input(equation, part, run)
            if other is None:
                return None
            inputs.append(other)
        result = self.add(equation, equation.primitive, *inputs)
        self.made[found.key, run] = result
        return result

    def input(self, like: Equation, part: _Slice, run: _Run) -> Atom | None:
        """What a run reads: slices side by side."""
        around = self.run(_Slice(part.key, part.axis, run.start, run.stop))
        whole = None if around is None else self.made.get((part.key, around))
        if around is None and type(part.key) is _Source:
            whole = self.names.get(part.key.source, self.sources[part.key.source])
            around = _Run(0, whole.type.shape[part.axis])
        if whole is None or around is None:
            return None
        return self.part(like, whole, part.axis, around, run)

    def part(self, like: Equation, whole: Atom, axis: int, around: _Run, run: Any) -> Atom:
        """A slice of a value that begins where `around` does."""
        if (around.start, around.stop) == (run.start, run.stop):
            return whole
        entry = slice(run.start - around.start, run.stop - around.start)
        return self.add(like, getitem, whole, index=Index((*[slice(None)] * axis, entry)))

    def add(self, like: Equation, primitive: Any, *inputs: Atom, **params: Any) -> Atom:
        """What a primitive gives."""
        self.equations.append(applied(like, primitive, *inputs, **params))
        return self.equations[-1].outputs[0]


__all__ = ["RULES", "filled", "in_one"]
