"""Rules for slices with step 1, which select a box of an array.

All forms of such a slice become one `getitem`, and a padded array one `scatter`. Slices that are
added to zeros, and cover them, are concatenated: without that the gradient of bundle adjustment
takes 1.7 times the time, and twice the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fungrad.compiler.passes.patterns import Value, made, rule
from fungrad.compiler.passes.rewriter import Writer
from fungrad.compiler.passes.value_facts import positive_zero, unsigned, with_zeros_added
from fungrad.ir.graph import Atom, Equation
from fungrad.primitives.elementwise.family import add
from fungrad.primitives.facts import sections_of
from fungrad.primitives.movement.gather import Index, getitem, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import concatenate, pad, reshape, slice_axis
from fungrad.primitives.movement.scatter import index_add
from fungrad.primitives.movement.static_index import selected

X = Value("x")
Box = Sequence[range]


def box(index: Index, shape: tuple[int, ...]) -> Box | None:
    """The box that an index of slices with step 1 selects; None for other indices."""
    found = selected(index, shape)
    if found is None or found[1] != list(range(len(shape))):
        return None
    return found[0] if all(r.step == 1 and r.start <= r.stop for r in found[0]) else None


def _index(ranges: Box, shape: tuple[int, ...]) -> Index:
    """The index of a box."""
    pairs = zip(ranges, shape, strict=True)
    return Index(tuple([slice(r.start or None, r.stop - n or None) for r, n in pairs]))


@rule(made(slice_axis, X), "slice_axis is getitem")
def stretch_of_axis(writer: Writer, equation: Equation, x: Atom) -> Atom | None:
    axis, start, stop = (equation.params[key] for key in ("axis", "start", "stop"))
    whole = [*map(range, x.type.shape)]
    whole[axis] = range(start, stop)
    return writer.add(equation, getitem, x, index=_index(whole, x.type.shape))


@rule(made(pad, X), "a pad is a scatter")
def pad_as_scatter(writer: Writer, equation: Equation, x: Atom) -> Atom | None:
    shape, sections = equation.outputs[0].type.shape, sections_of(equation)
    assert sections
    return writer.add(equation, scatter, x, index=_index(sections[0].box, shape), shape=shape)


@rule(made(getitem), "a slice of a slice is one", of=(getitem,))
def slice_of_slice(writer: Writer, equation: Equation) -> Atom | None:
    part = equation.inputs[0]
    made_by = writer.definition(part, getitem)
    outer = None if made_by is None else box(made_by.params["index"], made_by.inputs[0].type.shape)
    inner = box(equation.params["index"], part.type.shape)
    if made_by is None or outer is None or inner is None:
        return None
    writer.release(part)
    both = [a[b.start : b.stop] for a, b in zip(outer, inner, strict=True)]
    x = made_by.inputs[0]
    return writer.add(equation, getitem, x, index=_index(both, x.type.shape))


RULES = (stretch_of_axis, pad_as_scatter, slice_of_slice)


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
    boxes = []
    for e in chain:
        sections, value = sections_of(e), e.inputs[e.primitive is index_add].type
        if sections is None or value.dtype != output.type.dtype or value.weak:
            return None
        boxes.append(sections[-1].box)
    shape = output.type.shape
    cut = [i for i, n in enumerate(shape) if any(part[i] != range(n) for part in boxes)]
    if len(cut) != 1:
        return None
    (axis,) = cut
    order = sorted(range(len(chain)), key=lambda i: boxes[i][axis].start)
    pieces = [boxes[i][axis] for i in order]
    ends = [0, *[r.stop for r in pieces]]
    if [*[r.start for r in pieces], shape[axis]] != ends or any(r.step != 1 for r in pieces):
        return None
    values, last = _after_zeros(writer, chain)
    wide = [_reshaped(writer, equation, values[i], tuple(map(len, boxes[i]))) for i in order]
    return last(writer.add(equation, concatenate, *wide, axis=axis))


def _reshaped(writer: Writer, like: Equation, atom: Atom, shape: tuple[int, ...]) -> Atom:
    return atom if atom.type.shape == shape else writer.add(like, reshape, atom, shape=shape)


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
