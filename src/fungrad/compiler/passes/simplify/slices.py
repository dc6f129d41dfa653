"""Rules for slices with step 1, which select a box of an array.

All forms of such a slice become one `getitem`, and a padded array one `scatter`. Slices that are
added to zeros, and cover them, are concatenated: without that the gradient of bundle adjustment
takes 1.7 times the time, and twice the memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from fungrad.compiler.passes.patterns import AnyValue, made, rule
from fungrad.compiler.passes.rewriter import Writer
from fungrad.compiler.passes.value_facts import with_zeros_added
from fungrad.ir.graph import Atom, Equation
from fungrad.primitives.facts import sections_of
from fungrad.primitives.movement.gather import Index, getitem, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import concatenate, pad, reshape, slice_axis
from fungrad.primitives.movement.scatter import index_add
from fungrad.primitives.movement.static_index import selected

X = AnyValue("x")
Box = Sequence[range]


def box(index: Index, shape: tuple[int, ...]) -> Box | None:
    """The box that an index of slices with step 1 selects; None for other indices."""
    ranges = selected(index, shape)
    if ranges is None or ranges[1] != list(range(len(shape))):
        return None
    return ranges[0] if all(r.step == 1 and r.start <= r.stop for r in ranges[0]) else None


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

    The first is written; the others are added to zeros: a sum with 0.0 has no -0.0.
    """
    (output,) = equation.outputs
    chain, inner = [equation], equation
    if _covered(writer, equation) != output.type.size:
        return None
    while inner.primitive is index_add:
        write = writer.sole_use_definition(inner.inputs[0], index_add, scatter)
        if write is None:
            return None
        chain.append(write)
        inner = write
    boxes = []
    for e in chain:
        sections, value = sections_of(e), e.inputs[e.primitive is index_add].type
        if sections is None or value.dtype != output.type.dtype or value.weak:
            return None
        if any(along is not None and along.step < 0 for along in sections[-1].place):
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
    values = [with_zeros_added(writer, equation, e.inputs[1]) for e in chain[:-1]]
    values.append(inner.inputs[0])
    wide = [_reshaped(writer, equation, values[i], tuple(map(len, boxes[i]))) for i in order]
    return writer.add(equation, concatenate, *wide, axis=axis)


def _reshaped(writer: Writer, like: Equation, atom: Atom, shape: tuple[int, ...]) -> Atom:
    return atom if atom.type.shape == shape else writer.add(like, reshape, atom, shape=shape)


def _covered(writer: Writer, equation: Equation) -> int:
    """The number of elements that an equation and its chain add to zeros; memoised, so that a long
    chain is not walked for each of its equations.
    """
    size = 0
    write: Equation | None = equation
    while write is not None:
        adds = write.primitive is index_add
        size += write.inputs[adds].type.size
        write = writer.definition(write.inputs[0], index_add, scatter) if adds else None
        if write is not None and write.outputs[0] in writer.covered:
            size += writer.covered[write.outputs[0]]
            break
    writer.covered[equation.outputs[0]] = size
    return size
