"""Rules for slices with step 1, which select a box of an array.

All forms of such a slice become one `getitem`, and a padded array one `scatter`. Slices that are
added to zeros, and cover them, are concatenated: without that the gradient of bundle adjustment
takes 1.7 times the time, and twice the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.patterns import Value, made, rule
from fungrad.compiler.passes.rewriter import Writer
from fungrad.compiler.passes.value_facts import positive_zero, unsigned, with_zeros_added
from fungrad.ir.graph import Atom, Equation
from fungrad.primitives.elementwise.family import add
from fungrad.primitives.movement.gather import Index, expanded, getitem, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import concatenate, pad, reshape, slice_axis
from fungrad.primitives.movement.scatter import index_add
from fungrad.primitives.movement.stack_iota import stack

X = Value("x")
Widths = Sequence[tuple[int, int]]
"""The numbers of elements before and behind a box, along each axis."""


def box(index: Index, shape: tuple[int, ...]) -> Widths | None:
    """The box that an index selects of an array of a shape; None if it selects none."""
    if any(type(e) is not slice and e is not Ellipsis for e in index.entries):
        return None
    whole = expanded(index, len(shape))
    bounds = [entry.indices(n) for entry, n in zip(whole, shape, strict=True)]
    if any(step != 1 or start > stop for start, stop, step in bounds):
        return None
    return [(start, n - stop) for (start, stop, _), n in zip(bounds, shape, strict=True)]


def _index(widths: Widths) -> Index:
    """The index of a box."""
    return Index(tuple([slice(before or None, -after or None) for before, after in widths]))


@rule(made(slice_axis, X), "slice_axis is getitem")
def stretch_of_axis(writer: Writer, equation: Equation, x: Atom) -> Atom | None:
    axis, start, stop = (equation.params[key] for key in ("axis", "start", "stop"))
    index = _index([(0, 0)] * axis + [(start, x.type.shape[axis] - stop)])
    return writer.add(equation, getitem, x, index=index)


@rule(made(pad, X), "a pad is a scatter")
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


def one_slice(index: Index, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """The axis, start and stop of an index that selects a proper part of one axis; else None."""
    cut = [(axis, width) for axis, width in enumerate(box(index, shape) or ()) if width != (0, 0)]
    if len(cut) != 1:
        return None
    ((axis, (before, after)),) = cut
    stop = shape[axis] - after
    return (axis, before, stop) if before < stop else None


@rule(made(index_add), "slices that cover zeros are concatenated", of=(index_add, scatter))
def filled(writer: Writer, equation: Equation) -> Atom | None:
    """Concatenates slices that are added to zeros, and together cover each element once.

    A sum with 0.0 has no -0.0.
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
    """The values of the slices, and a function to apply to all of them concatenated.

    The first slice is written; the others are added to zeros, so that they have no -0.0: zeros are
    added to each, or to all at once if that does not change the first.
    """
    *later, first = chain
    values = [e.inputs[1] for e in later]
    own, like = first.inputs[0], chain[0]
    if all(unsigned(writer, value) for value in values):
        return [*values, own], lambda whole: whole
    if not unsigned(writer, own):
        return [*(with_zeros_added(writer, like, value) for value in values), own], lambda w: w
    made = writer.sole_use_definition(own, add)
    if made is not None and positive_zero(made.inputs[1]):
        own = made.inputs[0]
    return [*values, own], lambda whole: with_zeros_added(writer, like, whole)


def _covered(writer: Writer, equation: Equation) -> int:
    """The number of elements that an equation and its chain add to zeros; memoised, so that a long
    chain is not walked for each of its equations.
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
    """Stacks the items along axis 0 that are added to a small array of zeros, and cover it."""
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
    """`one_slice` for an index that may have one integer in place of the slice."""
    if any(entry is None for entry in index.entries):
        return None
    entries = [slice(e % n, e % n + 1) if type(e) is int else e
               for e, n in zip(expanded(index, len(shape)), shape, strict=True)]  # fmt: skip
    return one_slice(Index(tuple(entries)), shape)


def _with_axis(
    writer: Writer, like: Equation, atom: Atom, output: Atom, part: tuple[int, int, int]
) -> Atom:
    """The value of a slice, with the axis that an integer index drops."""
    if atom.type.ndim == output.type.ndim:
        return atom
    shape = atom.type.shape
    return writer.add(like, reshape, atom, shape=(*shape[: part[0]], 1, *shape[part[0] :]))


def _fills(atom: Atom, output: Atom, part: tuple[int, int, int]) -> bool:
    """Whether an atom has the shape and dtype of a slice of the output."""
    axis, start, stop = part
    shape = output.type.shape
    rest = shape[:axis], shape[axis + 1 :]
    wide = atom.type.shape == (*rest[0], stop - start, *rest[1])
    same = wide or (stop - start == 1 and atom.type.shape == (*rest[0], *rest[1]))
    return same and atom.type.dtype == output.type.dtype and not atom.type.weak
