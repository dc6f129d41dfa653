"""Rules for boxes: slices, each along its axis, without steps.

However a box is written, it is one slice, and an array with zeros around it one scatter of a slice:
of a slice too, and behind what is done to each element. They hold for every float; what turns zeros
around an array into -0.0, or adds them to -0.0, is left. Knows the IR, and equations that are done
element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.compiler.passes.rewriter import Rule, Writer
from fungrad.compiler.passes.value_facts import loose, unsigned
from fungrad.ir.graph import Atom, Equation
from fungrad.primitives.movement.gather import Index, expanded, getitem, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import pad, slice_axis
from fungrad.primitives.movement.scatter import index_add

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


def _within(outer: Widths, inner: Widths) -> Index:
    """The index of a box of a box."""
    both = zip(outer, inner, strict=True)
    return _index([(a + before, b + after) for (a, b), (before, after) in both])


def _as_slice(writer: Writer, equation: Equation) -> Atom | None:
    (x,), axis = equation.inputs, equation.params["axis"]
    start, stop = equation.params["start"], equation.params["stop"]
    index = _index([(0, 0)] * axis + [(start, x.type.shape[axis] - stop)])
    return writer.add(equation, getitem, x, index=index)


def _as_scatter(writer: Writer, equation: Equation) -> Atom | None:
    shape, index = equation.outputs[0].type.shape, _index(equation.params["widths"])
    return writer.add(equation, scatter, equation.inputs[0], index=index, shape=shape)


def _sliced_twice(writer: Writer, equation: Equation) -> Atom | None:
    (part, *_) = equation.inputs
    made = writer.made_by(part, getitem)
    outer = None if made is None else box(made.params["index"], made.inputs[0].type.shape)
    inner = box(equation.params["index"], part.type.shape)
    if made is None or outer is None or inner is None:
        return None
    writer.pass_by(part)
    return writer.add(equation, getitem, made.inputs[0], index=_within(outer, inner))


def _scattered_twice(writer: Writer, equation: Equation) -> Atom | None:
    """scatter(scatter(x)) as a scatter of x, and so a scatter that is added to an array."""
    *before, part = equation.inputs[: 2 if equation.primitive is index_add else 1]
    if before and not (loose(writer, equation) or unsigned(writer, before[0])):
        return None
    made, shape = writer.made_by(part, scatter), equation.outputs[0].type.shape
    inner = None if made is None else box(made.params["index"], part.type.shape)
    outer = box(equation.params["index"], shape)
    if made is None or outer is None or inner is None:
        return None
    writer.pass_by(part)
    params = {**equation.params, "index": _within(outer, inner)}
    return writer.add(equation, equation.primitive, *before, made.inputs[0], **params)


def _sliced_before(writer: Writer, equation: Equation) -> Atom | None:
    """f(x, y)[1:] as f(x[1:], y[1:]), where f is done element by element and read there alone."""
    whole = equation.inputs[0]
    made: Any = writer.made_here(whole)
    if made is None or made.primitive.partials is None or made.primitive.multiple:
        return None
    if box(equation.params["index"], whole.type.shape) is None:
        return None
    if any(a.type.shape not in ((), whole.type.shape) for a in made.inputs):
        return None
    writer.drop(made)
    parts = [
        writer.add(equation, getitem, atom, **equation.params) if atom.type.shape else atom
        for atom in made.inputs
    ]
    return writer.add(made, made.primitive, *parts, **made.params)


BOXES = (
    Rule((slice_axis,), "a stretch of an axis is a slice", _as_slice),
    Rule((pad,), "zeros around an array: a slice of zeros", _as_scatter),
    Rule((getitem,), "a slice of a slice is one", _sliced_twice, (getitem,)),
    Rule((getitem,), "what is not in a slice need not be made", _sliced_before),
    Rule((scatter, index_add), "zeros around zeros", _scattered_twice, (scatter,)),
)

__all__ = ["BOXES", "box"]
