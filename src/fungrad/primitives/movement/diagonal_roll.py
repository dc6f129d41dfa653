"""Diagonals of matrices, and roll."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import Equation
from fungrad.primitives.facts import Along, Section, straight, whole
from fungrad.primitives.primitive import Primitive, linear


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


def _sections_roll(equation: Equation) -> list[Section]:
    shape, sections = equation.inputs[0].type.shape, [whole(equation, ())]
    for axis, n in enumerate(shape):
        pairs = zip(equation.params["shifts"], equation.params["axes"], strict=True)
        by = sum([shift for shift, along in pairs if along % len(shape) == axis]) % max(n, 1)
        parts = [(range(by), n - by), (range(by, n), 0)]
        sections = [
            Section((*box[:axis], part, *box[axis + 1 :]), 0, (*place, Along(axis, offset)))
            for box, _, place, _ in sections
            for part, offset in parts
            if part
        ]
    return sections


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
