"""Stack and unstack along axis 0, each the transpose of the other; iota and basis.

`for row in x` is one unstack, so that a loop over n items differentiates in time n, not n squared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.ir.graph import Equation
from fungrad.ir.types import Type
from fungrad.primitives.facts import Along, Section
from fungrad.primitives.movement.reshape_broadcast_cast import (
    each_with_batch,
    moveaxis,
)
from fungrad.primitives.primitive import Primitive, general, linear, zeros
from fungrad.tracing.trace import typeof


def _type_stack(*xs: Type) -> Type:
    shape = xs[0].shape
    if any(x.shape != shape for x in xs):
        raise ShapeError(f"Arrays of shapes {[x.shape for x in xs]} cannot be stacked.")
    return Type((len(xs), *shape), np.result_type(*[x.dtype for x in xs]))


def _batch_stack(args: Sequence[Any], batched: Sequence[bool], size: int) -> Any:
    return moveaxis(stack(*each_with_batch(args, batched, size)), 1, 0)


def _sections_stack(equation: Equation) -> list[Section]:
    box = tuple(map(range, equation.outputs[0].type.shape))
    place = tuple(map(Along, range(1, len(box))))
    return [Section((range(i, i + 1), *box[1:]), i, place) for i in range(len(equation.inputs))]


stack: Primitive = linear(
    "stack",
    sections=_sections_stack,
    fresh=True,
    order="example",
    cost=0,
    moves=True,
    eval=lambda *xs: np.array(xs),
    type=_type_stack,
    transpose=lambda ct, *xs: unstack(ct),
    batch=_batch_stack,
)
"""`stack(*xs)`: arrays of one shape, at least one of them, along a new axis 0."""


def _vjp_unstack(cotangents: Any, output: Any, args: Any, wanted: Any) -> list[Any]:
    x = args[0]
    item = Type(x.shape[1:], x.dtype)
    zero = None
    if any(c is None for c in cotangents):
        zero = zeros(item)
    return [stack(*[zero if c is None else c for c in cotangents])]


unstack: Primitive = Primitive(
    "unstack",
    order=lambda equation, given: given[0][1:],
    view=True,
    cost=0,
    eval=lambda x: tuple(x),
    type=lambda x: (Type(x.shape[1:], x.dtype),) * x.shape[0],
    jvp=lambda primals, tangents: (unstack(*primals), unstack(*tangents)),
    vjp=_vjp_unstack,
    batch=lambda args, batched, size: unstack(moveaxis(args[0], 1, 0)),
    keep=lambda args: [typeof(args[0])],
    multiple=True,
)
"""`unstack(x)`: the items of x along axis 0, as a tuple."""


iota: Primitive = general(
    "iota",
    order="rows",
    cost=0,
    eval=lambda *, shape: np.arange(Type(shape, np.int64).size).reshape(shape),
    type=lambda *, shape: Type(shape, np.int64),
    cuts=True,
)
"""`iota(shape=)`: the integers 0, 1, 2, ... in C order. Without arguments it is never batched."""


def _eval_basis(*, shape: tuple[int, ...], start: int, dtype: Any) -> Any:
    part = np.zeros((shape[0], math.prod(shape[1:])), dtype)
    np.fill_diagonal(part[start:], 1)
    return part.reshape(shape)


basis: Primitive = general(
    "basis",
    order="rows",
    cost=0,
    eval=_eval_basis,
    type=lambda *, shape, start, dtype: Type(shape, dtype),
    cuts=True,
)
"""`basis(shape=, start=, dtype=)`: along axis 0 the basis vectors of a space, restricted to this
array: number start + i is one at element i, in C order, and the others are zero.
"""
