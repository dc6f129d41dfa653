"""Sliding windows over the last axes of an array, and their transpose, overlapping sums; diagonals
and roll; and the Gaussian distribution function of the exact gelu.

Convolutions and poolings contract or reduce windows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.ir.graph import Equation
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import elementwise
from fungrad.primitives.facts import TERMS, Along, Section, each_element, straight, whole
from fungrad.primitives.primitive import Primitive, linear

Sizes = tuple[int, ...]


def window_counts(lengths: Sizes, sizes: Sizes, strides: Sizes, dilations: Sizes) -> Sizes:
    """The number of windows that fit along each axis: 0 if an axis is shorter than a window.

    >>> window_counts((7,), (3,), (2,), (1,))
    (3,)
    """
    return tuple(
        max(0, (n - (k - 1) * d - 1) // s + 1) if k else 0
        for n, k, s, d in zip(lengths, sizes, strides, dilations, strict=True)
    )


def _eval_windows(x: Any, *, sizes: Sizes, strides: Sizes, dilations: Sizes) -> Any:
    lead = x.ndim - len(sizes)
    counts = window_counts(x.shape[lead:], sizes, strides, dilations)
    steps = x.strides[lead:]
    return np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:lead], *counts, *sizes),
        (
            *x.strides[:lead],
            *[step * s for step, s in zip(steps, strides, strict=True)],
            *[step * d for step, d in zip(steps, dilations, strict=True)],
        ),
        writeable=False,
    )


def _type_windows(x: Type, *, sizes: Sizes, strides: Sizes, dilations: Sizes) -> Type:
    lead = x.ndim - len(sizes)
    if lead < 0:
        raise ShapeError(f"An array of shape {x.shape} has no windows of shape {sizes}.")
    counts = window_counts(x.shape[lead:], sizes, strides, dilations)
    return x.with_shape((*x.shape[:lead], *counts, *sizes))


windows: Primitive = linear(
    "windows",
    view=True,
    cost=0,
    eval=_eval_windows,
    type=_type_windows,
    transpose=lambda ct, x, *, sizes, strides, dilations: overlap_add(
        ct, lengths=x.shape[x.ndim - len(sizes) :], strides=strides, dilations=dilations
    ),
    batch=lambda args, batched, size, **params: windows(args[0], **params),
)
"""`windows(x, sizes=, strides=, dilations=)`: y[..., i, k] = x[..., i strides + k dilations], for
as many last axes as there are sizes; `eval` returns a read-only view."""


def _places(counts: Sizes, sizes: Sizes, strides: Sizes, dilations: Sizes) -> Iterator[Any]:
    """For each position within a window: its index, and that of the element in all windows."""
    for k in np.ndindex(*sizes):
        yield (
            k,
            tuple(
                slice(i * d, i * d + (n - 1) * s + 1, s) if n else slice(0, 0)
                for i, n, s, d in zip(k, counts, strides, dilations, strict=True)
            ),
        )


def _eval_overlap(x: Any, *, lengths: Sizes, strides: Sizes, dilations: Sizes) -> Any:
    axes = len(lengths)
    lead = x.ndim - 2 * axes
    counts, sizes = x.shape[lead : lead + axes], x.shape[lead + axes :]
    out = np.zeros((*x.shape[:lead], *lengths), x.dtype)
    for k, place in _places(counts, sizes, strides, dilations):
        out[(..., *place)] += x[(..., *k)]
    return out


overlap_add: Primitive = linear(
    "overlap_add",
    rounding=TERMS,
    cost=each_element(1),
    eval=_eval_overlap,
    type=lambda x, *, lengths, strides, dilations: x.with_shape(
        (*x.shape[: x.ndim - 2 * len(lengths)], *lengths)
    ),
    transpose=lambda ct, x, *, lengths, strides, dilations: windows(
        ct, sizes=x.shape[x.ndim - len(lengths) :], strides=strides, dilations=dilations
    ),
    batch=lambda args, batched, size, **params: overlap_add(args[0], **params),
)
"""`overlap_add(x, lengths=, strides=, dilations=)`: the sum of the windows x, each at the place in
an array with last axes of these lengths from which `windows` takes it."""

# --- the Gaussian distribution function -----------------------------------------------------------

_erfc = np.frompyfunc(math.erfc, 1, 1)


def _eval_normal_cdf(x: Any) -> Any:
    # erfc, not 1 + erf: full relative precision in the left tail. math.erfc is exact to an ulp;
    # NumPy has no such function.
    given = np.asarray(x).dtype
    dtype = given if given.kind == "f" else np.result_type(given, np.float16)
    scaled = np.asarray(x, np.float64) * -math.sqrt(0.5)
    return np.asarray(0.5 * np.asarray(_erfc(scaled), np.float64), dtype)[()]


def _density(x: Any) -> Any:
    return np.exp(x * x * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))


normal_cdf = elementwise(
    "normal_cdf",
    _eval_normal_cdf,
    partials=[lambda y, x: _density(np.clip(x, -40.0, 40.0))],  # beyond, the density is 0
)
"""`normal_cdf(x)`: the probability that a standard normal variable is at most x, for real x."""


# --- diagonals ------------------------------------------------------------------------------------


def _diagonal_length(shape: Sequence[int], offset: int) -> int:
    rows, columns = shape[-2:]
    return max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))


def _sections_diagonal(equation: Equation) -> list[Section]:
    last, offset = equation.outputs[0].type.ndim - 1, equation.params["offset"]
    ends = Along(last, max(0, -offset)), Along(last, max(0, offset))
    return [whole(equation, (*straight(last), *ends))]


diagonal: Primitive = linear(
    "diagonal",
    sections=_sections_diagonal,
    view=True,
    cost=0,
    moves=True,
    eval=lambda x, *, offset: np.diagonal(x, offset, -2, -1),
    type=lambda x, *, offset: x.with_shape((*x.shape[:-2], _diagonal_length(x.shape, offset))),
    transpose=lambda ct, x, *, offset: from_diagonal(ct, offset=offset, shape=x.shape[-2:]),
    batch=lambda args, batched, size, *, offset: diagonal(args[0], offset=offset),
)
"""`diagonal(x, offset=)`: the diagonals of the last two axes, along a new last axis."""


def _eval_from_diagonal(x: Any, *, offset: int, shape: tuple[int, int]) -> Any:
    result = np.zeros((*x.shape[:-1], *shape), x.dtype)
    rows = np.arange(x.shape[-1]) + max(0, -offset)
    result[..., rows, rows + offset] = x
    return result


from_diagonal: Primitive = linear(
    "from_diagonal",
    order="rows",
    cost=0,
    eval=_eval_from_diagonal,
    type=lambda x, *, offset, shape: x.with_shape((*x.shape[:-1], *shape)),
    transpose=lambda ct, x, *, offset, shape: diagonal(ct, offset=offset),
    batch=lambda args, batched, size, *, offset, shape: from_diagonal(
        args[0], offset=offset, shape=shape
    ),
)
"""`from_diagonal(x, offset=, shape=)`: matrices of the given shape, zero beside the diagonal."""

# --- roll -----------------------------------------------------------------------------------------


def _sections_roll(equation: Equation) -> list[Section]:
    shape, found = equation.inputs[0].type.shape, [whole(equation, ())]
    for axis, n in enumerate(shape):
        pairs = zip(equation.params["shifts"], equation.params["axes"], strict=True)
        by = sum([shift for shift, along in pairs if along % len(shape) == axis]) % max(n, 1)
        parts = [(range(by), n - by), (range(by, n), 0)]
        found = [
            Section((*box[:axis], part, *box[axis + 1 :]), 0, (*place, Along(axis, offset)))
            for box, _, place, _ in found
            for part, offset in parts
            if part
        ]
    return found


roll: Primitive = linear(
    "roll",
    sections=_sections_roll,
    order="example",
    cost=0,
    moves=True,
    eval=lambda x, *, shifts, axes: np.roll(x, shifts, axes),
    type=lambda x, *, shifts, axes: x,
    transpose=lambda ct, x, *, shifts, axes: roll(ct, shifts=tuple(-s for s in shifts), axes=axes),
    batch=lambda args, batched, size, *, shifts, axes: roll(
        args[0], shifts=shifts, axes=tuple(a + 1 for a in axes)
    ),
)
"""`roll(x, shifts=, axes=)`: the elements shifted along the axes, cyclically."""
