"""Floor 6: masks of blocks of which few elements are true, such as the places of a maximum.

What a mask picks is then read and written at those places alone; where more are true, as without
all this. The numbers are the same but for the sign of a zero that nothing is added to. Knows which
equations of a region pick by a mask; the functions of blocks know NumPy only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.backend.forms import Form
from fungrad.backend.regions import Region
from fungrad.ir.graph import Equation, Literal
from fungrad.primitives.elementwise import add, select
from fungrad.primitives.shaping import reduce_sum
from fungrad.records import Record

FEW = 8
"""One in so many elements are few: a place costs about as much as so many elements of a mask."""


class _InPlaceOfPrimitive:
    """What two equations that are done together have for their primitive."""

    multiple = effect = cuts = False
    ufunc = eval = None

    def __init__(self, name: str) -> None:
        self.name = name


add_where: Any = _InPlaceOfPrimitive("add_where")
"""`x + select(mask, y, 0)`, of x, mask and y."""
sum_where: Any = _InPlaceOfPrimitive("sum_where")
"""The sum of `select(mask, y, 0)` over the rows, of mask and y."""


def picks(equation: Equation) -> bool:
    """Whether an equation gives x where a mask is true, else zero."""
    if equation.primitive is not select:
        return False
    mask, _, rest = equation.inputs
    return (
        mask.type.dtype == np.bool_
        and mask.type.shape == equation.outputs[0].type.shape
        and isinstance(rest, Literal)
        and rest.value.__class__ in (int, float)
        and rest.value == 0
        and math.copysign(1, rest.value) > 0
    )


def counts(equation: Equation) -> bool:
    """Whether an equation counts what is true along the last axes of a mask."""
    if equation.primitive is not reduce_sum or equation.inputs[0].type.dtype != np.bool_:
        return False
    ndim, axes = equation.inputs[0].type.ndim, equation.params["axes"]
    return 0 < len(axes) < ndim and tuple(axes) == tuple(range(ndim - len(axes), ndim))


def joined(region: Region) -> Region:
    """The region with each sum with what a mask picks, and each sum of that over the rows, as one
    equation, where nothing else reads it.
    """
    reads = region.reads()
    picked: dict[int, tuple[Equation, Form]] = {}
    steps: dict[int, tuple[Equation, Form]] = {}
    for equation, how in zip(region.equations, region.forms, strict=True):
        (output,) = equation.outputs
        steps[id(output)] = equation, how
        if picks(equation) and reads[id(output)] == 1:
            picked[id(output)] = equation, how
            continue
        place = next((i for i, a in enumerate(equation.inputs) if id(a) in picked), None)
        primitive = None if place is None else _together(equation, how)
        if place is None or primitive is None:
            continue
        pick, pick_how = picked[id(equation.inputs[place])]
        del steps[id(pick.outputs[0])]
        others = [i for i in range(len(equation.inputs)) if i != place]
        inputs = (*[equation.inputs[i] for i in others], *pick.inputs[:2])
        axes = (*[how.inputs[i] for i in others], *pick_how.inputs[:2])
        whole = Equation(primitive, inputs, equation.outputs, {}, equation.source)
        steps[id(output)] = whole, Form(axes, how.output)
    return region._replace(
        equations=[equation for equation, _ in steps.values()],
        forms=[how for _, how in steps.values()],
    )


def _together(equation: Equation, how: Form) -> Any:
    """What does an equation together with the one that picks what it reads; None where none does.

    Sums of arrays of one Type, and sums of rows of real numbers along the first of two axes.
    """
    type_ = equation.inputs[0].type
    if equation.primitive is add:
        same = all(a.type == equation.outputs[0].type for a in equation.inputs)
        return add_where if same else None
    if equation.primitive is reduce_sum and equation.params["axes"] == how.inputs == (0,):
        return sum_where if type_.ndim == 2 and type_.dtype.char in "fd" else None
    return None


def attained(x: Any, y: Any, out: Any) -> None:
    """Writes whether x is y, where NaN is NaN."""
    np.equal(x, y, out=out)
    fewer = y if np.size(y) <= np.size(x) else x
    if np.isnan(fewer).any():
        np.logical_or(out, np.isnan(x) & np.isnan(y), out=out)


class Places(Record):
    """Where a mask is true: elements, in their order, and the row of the last axis of each."""

    elements: Any
    rows: Any


def few(mask: Any, one_each: Any = None) -> Places | None:
    """The places of what is true; None where it is much.

    Args:
      mask: a mask.
      one_each: an element that is true of each row, where that is known.
    """
    if not mask.flags.c_contiguous:
        return None
    count = np.count_nonzero(mask)
    if count * FEW > mask.size:
        return None
    known = one_each is not None and count == one_each.size
    elements = one_each if known else np.flatnonzero(mask)
    return Places(elements, elements // mask.shape[-1])


def counted(mask: Any, places: Places | None, axes: tuple[int, ...], out: Any) -> None:
    """Writes how many elements are true along the last axes."""
    if places is None:
        np.add.reduce(mask, axes, None, out)
        return
    rows = places.rows if len(axes) == 1 else places.elements // (mask.size // out.size)
    out[...] = np.bincount(rows, minlength=out.size).reshape(out.shape)


def chosen(mask: Any, places: Places | None, x: Any, out: Any) -> Any:
    """x where the mask is true, else zero; in `out` where that is few."""
    if places is None or not out.flags.c_contiguous:
        return np.where(mask, x, 0)
    out.fill(0)
    out.reshape(-1)[places.elements] = _at(x, out.shape, places)
    return out


def added(x: Any, mask: Any, places: Places | None, y: Any, out: Any) -> None:
    """Writes x + y where the mask is true, else x; `out` may be x."""
    if places is None or not out.flags.c_contiguous:
        np.add(x, np.where(mask, y, 0), out=out)
        return
    if out is not x:
        np.copyto(out, x)
    out.reshape(-1)[places.elements] += _at(y, out.shape, places)


def summed(mask: Any, places: Places | None, y: Any, dtype: Any) -> Any:
    """The sum over the first axis of y where the mask is true, for a mask of two axes."""
    if places is None:
        return np.add.reduce(np.where(mask, y, 0), 0, dtype)
    width = mask.shape[1]
    values = _at(y, mask.shape, places)
    if values.ndim == 0:
        values = np.full(places.rows.shape, values)
    total = np.bincount(places.elements - places.rows * width, values, width)
    return total.astype(dtype, copy=False)


def _at(x: Any, shape: tuple[int, ...], places: Places) -> Any:
    """The elements of x, broadcast to a shape, at places of that."""
    if np.size(x) == 1:
        return np.reshape(x, ())
    if x.shape == shape:
        return x.reshape(-1)[places.elements]
    if x.shape == (*shape[:-1], 1):
        return x.reshape(-1)[places.rows]
    return np.broadcast_to(x, shape)[np.unravel_index(places.elements, shape)]


__all__ = [
    "Places",
    "add_where",
    "added",
    "attained",
    "chosen",
    "counted",
    "counts",
    "few",
    "joined",
    "picks",
    "sum_where",
    "summed",
]
