"""Movement, indexing, reductions and contractions of scalarised arrays: rules of the walk."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from fungrad.compiler.refusal import Refused
from fungrad.compiler.scalar.emitter import BOOL, Elements, boxed
from fungrad.compiler.scalar.planning import ElementRule, Write
from fungrad.compiler.scalar.scalarise import Scalariser, elementwise
from fungrad.ir.graph import Equation, Literal
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import add, logical_and, logical_or, mul
from fungrad.primitives.elementwise.ufuncs import maximum, minimum, power, reciprocal, sqrt, square
from fungrad.primitives.facts import ScalarForm, sections_of
from fungrad.primitives.movement.diagonal_roll import diagonal, from_diagonal, roll
from fungrad.primitives.movement.gather import ARRAY, getitem, indexed, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    concatenate,
    flip,
    reduce_sum,
    reshape,
    transpose,
)
from fungrad.primitives.movement.scatter import index_add, index_set
from fungrad.primitives.movement.stack_iota import iota, stack, unstack
from fungrad.primitives.primitive import full
from fungrad.primitives.reduction.cumulative import cumprod, cumsum
from fungrad.primitives.reduction.reduce import (
    reduce_all,
    reduce_any,
    reduce_max,
    reduce_min,
    reduce_prod,
)
from fungrad.support.rules import Rules

RULES = Rules(ElementRule)
"""The rules of primitives that act on elements by their position."""


@RULES.rule(power)
def _power(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    """As in NumPy, a literal as the exponent has special cases; elements of arrays have none."""
    base, exponent = equation.inputs
    known: Any = exponent.value if isinstance(exponent, Literal) else None
    special = {2: square, -1: reciprocal, 0.5: sqrt}.get(known)
    if special is not None:
        return elementwise(walk, equation, inputs[:1], special.scalar)
    by_scalar = exponent.type.shape == () != base.type.shape
    return elementwise(walk, equation, inputs, _BY_SCALAR if by_scalar else None)


_BY_SCALAR = ScalarForm("sqrt({0}) if {1} == 0.5 else pow({0}, {1})", cost="power")


# --- movement -------------------------------------------------------------------------------------


@RULES.rule(reshape, transpose, broadcast_to, flip, concatenate, diagonal, moves=True)
@RULES.rule(unstack)
def _moved(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    primitive: Any = equation.primitive
    moved = primitive.eval(*inputs, **equation.params)
    return [boxed(part) for part in (moved if primitive.multiple else [moved])]


@RULES.rule(getitem, moves=True)
def _getitem(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    x, *arrays = inputs
    index = equation.params["index"]
    if not arrays:
        return [boxed(x[index.entries])]
    if len(arrays) != 1 or arrays[0].shape or index.entries[0] != ARRAY:
        raise Refused("a gather by an index array")
    if any(entry != slice(None) for entry in index.entries[1:]):
        raise Refused("a gather by an index array among other indices")
    result = np.empty(x.shape[1:], object)
    for at in np.ndindex(*result.shape):
        walk.pay(walk.costs.operation + walk.costs.pick * len(x))
        result[at] = walk.emitter.pick(list(x[(slice(None), *at)]), arrays[0][()])
    return [result]


@RULES.rule(index_add)
def _index_add(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    if len(inputs) > 2:
        raise Refused("a scatter by index arrays")
    result, dtype = inputs[0].copy(), equation.outputs[0].type.dtype
    flat = result.reshape(-1)
    positions = np.arange(result.size).reshape(result.shape)[equation.params["index"].entries]
    for position, value in zip(np.ravel(positions), inputs[1].reshape(-1), strict=True):
        flat[position] = walk.total([flat[position], value], add, dtype)
    return walk.checked(result, dtype)


@RULES.rule(scatter, index_set, stack, roll, from_diagonal)
def _placed(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    """Elements at the positions where `eval` puts their numbers, and zeros beside them."""
    primitive: Any = equation.primitive
    if primitive.sections and sections_of(equation) is None:
        raise Refused(f"{primitive.name} by index arrays")
    starts = itertools.accumulate([x.size for x in inputs], initial=1)
    numbers = [np.arange(start, start + x.size).reshape(x.shape)
               for x, start in zip(inputs, starts, strict=False)]  # fmt: skip
    zero = walk.zeros(equation.outputs[0].type.with_shape((1,)))
    whole = np.concatenate([zero, *[x.reshape(-1) for x in inputs]])
    return [boxed(whole[primitive.eval(*numbers, **equation.params)])]


@RULES.rule(full, iota, indexed)
def _known(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    if inputs:
        raise Refused("index arrays that are not constant")
    primitive: Any = equation.primitive
    return [walk.constants(primitive.eval(**equation.params), equation.outputs[0].type)]


# --- reductions and contractions ------------------------------------------------------------------


def _reduction(operation: Any, start: Any = None) -> ElementRule:
    """The rule that combines elements along axes; `start` is the result for no elements."""

    def write(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
        x, axes = inputs[0], equation.params["axes"]
        before, after = equation.inputs[0].type.dtype, equation.outputs[0].type.dtype
        first = None
        if start is not None:
            first = walk.emitter.constant(after.type(start).item(), after)
        rest = [i for i in range(x.ndim) if i not in axes]
        count = math.prod([x.shape[i] for i in axes])
        rows = x.transpose((*rest, *axes)).reshape(*[x.shape[i] for i in rest], count)
        result = np.empty(rows.shape[:-1], object)
        for index in np.ndindex(*result.shape):
            parts = list(rows[index])
            if before != after:  # a single part would keep its own dtype
                parts = [first, *parts]
            elif operation is add and after.kind == "f":
                parts = [*parts, walk.zero(after)]  # NumPy's sums start with it
            result[index] = walk.total(parts, operation, after) if parts else first
        grows = operation.scalar.grows
        return walk.checked(result, after) if grows else [result]

    def operations(equation: Equation) -> int:
        return max(equation.inputs[0].type.size - equation.outputs[0].type.size, 0)

    return ElementRule(write, operations=operations)


def _cumulative(operation: Any) -> Write:
    def write(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
        axis, reverse = equation.params["axis"], equation.params.get("reverse", False)
        result, dtype = inputs[0].copy(), equation.outputs[0].type.dtype
        rows = np.moveaxis(result, axis, 0)
        rows = rows[::-1] if reverse else rows
        for i in range(1, len(rows)):
            for index in np.ndindex(*rows.shape[1:]):
                pair = [rows[(i - 1, *index)], rows[(i, *index)]]
                rows[(i, *index)] = walk.total(pair, operation, dtype)
        return walk.checked(result, dtype)

    return write


def _operations_of_dot(equation: Equation) -> int:
    contracted = [equation.inputs[0].type.shape[i] for i in equation.params["contract"][0]]
    products: int = math.prod(contracted) * equation.outputs[0].type.size
    return 2 * products


@RULES.rule(dot_general, operations=_operations_of_dot)
def _dot(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    x, y = inputs
    dtype = equation.outputs[0].type.dtype
    if dtype == BOOL:
        raise Refused("a Boolean matrix product")
    contract, batch = equation.params["contract"], equation.params["batch"]
    free_x = [i for i in range(x.ndim) if i not in (*contract[0], *batch[0])]
    free_y = [i for i in range(y.ndim) if i not in (*contract[1], *batch[1])]
    left = x.transpose((*batch[0], *free_x, *contract[0]))
    right = y.transpose((*batch[1], *free_y, *contract[1]))
    ahead = len(batch[0])
    rows, columns = ahead + len(free_x), ahead + len(free_y)
    result = np.empty((*left.shape[:rows], *right.shape[ahead:columns]), object)
    for index in np.ndindex(*result.shape):
        first, second = left[index[:rows]], right[(*index[:ahead], *index[rows:])]
        terms = list(zip(np.ravel(boxed(first)), np.ravel(boxed(second)), strict=True))
        if not terms:
            result[index] = walk.zero(dtype)
            continue
        walk.pay(walk.costs.operation * 2 * (len(terms) + (dtype.kind == "f")))
        result[index] = walk.emitter.sum_of_products(terms, dtype)
    return walk.checked(result, dtype)


RULES[reduce_any] = _reduction(logical_or, False)
RULES[reduce_all] = _reduction(logical_and, True)
RULES[reduce_sum] = _reduction(add, 0.0)
RULES[reduce_prod] = _reduction(mul, 1.0)
RULES[reduce_max] = _reduction(maximum)
RULES[reduce_min] = _reduction(minimum)
RULES[cumsum] = ElementRule(_cumulative(add))
RULES[cumprod] = ElementRule(_cumulative(mul))
