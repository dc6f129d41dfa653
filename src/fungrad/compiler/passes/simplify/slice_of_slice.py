"""Rules for boxes: slices, each along its axis, without steps.

Without them the gradient of a total variation takes 1.1 times the time (reassociated: 1.6).

However a box is written, it is one slice, and an array with zeros around it one scatter of a slice:
of a slice too, and behind what is done to each element. They hold for every float; what turns zeros
around an array into -0.0, or adds them to -0.0, is left. Knows the IR, and equations that are done
element by element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.compiler.passes.patterns import Value, made, rule
from fungrad.compiler.passes.rewriter import Writer, exchanged
from fungrad.compiler.passes.value_facts import loose, unsigned
from fungrad.ir.graph import Atom, Equation, Literal
from fungrad.primitives.elementwise.family import mul, neg
from fungrad.primitives.movement.gather import Index, expanded, getitem, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import pad, slice_axis
from fungrad.primitives.movement.scatter import index_add

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


def _within(outer: Widths, inner: Widths) -> Index:
    """The index of a box of a box."""
    both = zip(outer, inner, strict=True)
    return _index([(a + before, b + after) for (a, b), (before, after) in both])


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
    return writer.add(equation, getitem, made_by.inputs[0], index=_within(outer, inner))


@rule(made((scatter, index_add)), "zeros around zeros", of=(scatter,))
def scatter_of_scatter(writer: Writer, equation: Equation) -> Atom | None:
    """scatter(scatter(x)) as a scatter of x, and so a scatter that is added to an array."""
    *before, part = equation.inputs[: 2 if equation.primitive is index_add else 1]
    if before and not (loose(writer, equation) or unsigned(writer, before[0])):
        return None
    made_by, shape = writer.definition(part, scatter), equation.outputs[0].type.shape
    inner = None if made_by is None else box(made_by.params["index"], part.type.shape)
    outer = box(equation.params["index"], shape)
    if made_by is None or outer is None or inner is None:
        return None
    writer.release(part)
    params = {**equation.params, "index": _within(outer, inner)}
    return writer.add(equation, equation.primitive, *before, made_by.inputs[0], **params)


@rule(made(getitem), "what is not in a slice need not be made")
def slice_before(writer: Writer, equation: Equation) -> Atom | None:
    """f(x, y)[1:] as f(x[1:], y[1:]), where f is done element by element and read there alone."""
    whole = equation.inputs[0]
    made_by: Any = writer.sole_use_definition(whole)
    if made_by is None or made_by.primitive.partials is None or made_by.primitive.multiple:
        return None
    if box(equation.params["index"], whole.type.shape) is None:
        return None
    if any(a.type.shape not in ((), whole.type.shape) for a in made_by.inputs):
        return None
    parts = [
        writer.add(equation, getitem, atom, **equation.params) if atom.type.shape else atom
        for atom in made_by.inputs
    ]
    return writer.add(made_by, made_by.primitive, *parts, **made_by.params)


@rule(made((neg, mul)), "zeros stay", of=(scatter,))
def scatter_behind(writer: Writer, equation: Equation) -> Atom | None:
    """c * scatter(x) as scatter(c * x) for a finite number c from 0.0 on, of which 0.0 * c is 0.0;
    and where the sign of a zero does not count also for others, and -scatter(x).

    Without it the reassociated gradient of a total variation takes 1.55 times the time.
    """
    dtype = equation.outputs[0].type.dtype
    # As a double: half precision ends at 65504.
    largest = float(np.finfo(dtype).max) if dtype.kind in "fc" else math.inf
    for position, whole in enumerate(equation.inputs):
        made_by = writer.definition(whole, scatter)
        if made_by is None or box(made_by.params["index"], whole.type.shape) is None:
            continue
        others = [a for i, a in enumerate(equation.inputs) if i != position]
        if not all(isinstance(a, Literal) and abs(a.value) <= largest for a in others):
            continue
        if not (writer.regroup or (others and all(_keeps_zero(a) for a in others))):
            continue
        writer.release(whole)
        inputs = exchanged(equation.inputs, position, made_by.inputs[0])
        part = writer.add(equation, equation.primitive, *inputs)
        return writer.add(equation, scatter, part, **made_by.params)
    return None


def _keeps_zero(atom: Atom) -> bool:
    """Whether it is a number of which the product with 0.0 is 0.0."""
    value = atom.value if isinstance(atom, Literal) else None
    return isinstance(value, (int, float, np.floating)) and not np.signbit(value)


RULES = (
    stretch_of_axis, pad_as_scatter, slice_of_slice, slice_before, scatter_of_scatter,
    scatter_behind,
)  # fmt: skip

__all__ = ["RULES", "box"]
