"""Sliding windows over the last axes of an array, and their transpose, overlapping sums.

Convolutions and poolings contract or reduce windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.ir.graph import Equation
from fungrad.ir.types import Type
from fungrad.primitives.facts import TERMS, Along, Section, each_element, straight
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


def _windows(counts: Sizes, sizes: Sizes, strides: Sizes, dilations: Sizes) -> Iterator[Any]:
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
    for k, where in _windows(counts, sizes, strides, dilations):
        out[(..., *where)] += x[(..., *k)]
    return out


def _sections_overlap(equation: Equation) -> list[Section]:
    type_, params = equation.inputs[0].type, equation.params
    lengths: Sizes = params["lengths"]
    axes = len(lengths)
    lead = type_.shape[: type_.ndim - 2 * axes]
    counts, sizes = type_.shape[len(lead) : -axes], type_.shape[-axes:]
    given, every = straight(len(lead) + axes), tuple(map(range, lead))
    found = list[Section]()
    for k, where in _windows(counts, sizes, params["strides"], params["dilations"]):
        box = [range(*part.indices(n)) for part, n in zip(where, lengths, strict=True)]
        at = (*given, *[Along(-1, i) for i in k])
        found.append(Section((*every, *box), 0, at, adds=True))
    return found


overlap_add: Primitive = linear(
    "overlap_add",
    rounding=TERMS,
    sections=_sections_overlap,
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


# --- diagonals ------------------------------------------------------------------------------------


# --- roll -----------------------------------------------------------------------------------------
