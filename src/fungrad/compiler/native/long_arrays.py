"""Arrays too long to be taken apart, in native programs: a row is computed where it is read.

Such an array is a Stack along one of its axes, whose Rows have functions of the index of a row in
place of places in memory. A rule of short arrays that treats that axis as a batch is a rule of long
ones: it is given a row, as an array of length 1 along the axis.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.scalar import element_rules
from fungrad.compiler.lowering.scalar.emitter import Elements, Stack, Unsupported, shaped
from fungrad.compiler.lowering.scalar.emitter import Value as Number
from fungrad.compiler.lowering.scalar.planning import Rule, Write
from fungrad.compiler.native.element_operations import type_of
from fungrad.compiler.native.llvm_ir import Value
from fungrad.compiler.native.rows_and_records import Rows
from fungrad.ir.graph import Equation
from fungrad.ir.types import Type
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.movement.gather import getitem
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    concatenate,
    reduce_sum,
    reshape,
    transpose,
)
from fungrad.primitives.movement.scatter import index_add
from fungrad.primitives.primitive import full

BLOCK = 64
"""How many numbers a sum adds up one after the other."""
Row = Callable[[Value], Elements]
"""The elements of the row of an index, of length 1 along the axis of the rows."""


def without(items: Sequence[Any], place: int) -> tuple[Any, ...]:
    """A sequence without one item."""
    return (*items[:place], *items[place + 1 :])


def rowwise(walk: Any, type_: Any, axis: int, row: Row) -> Stack:
    """A long array by what its rows are."""
    width = type_.size // type_.shape[axis]
    if width > walk.emitter.size:
        raise Unsupported(f"rows of {width} numbers")
    found = Rows(type_.shape[axis], [type_of(type_.dtype)] * width)
    known: dict[str, tuple[str, Elements]] = {}

    def column(place: int, index: Value) -> Value:
        block, elements = known.get(index.text, ("", None))
        if block != walk.emitter.code.block:
            elements = row(index)
            known[index.text] = (walk.emitter.code.block, elements)
        result: Value = walk.emitter.converted(elements.reshape(-1)[place], found.types[place])
        return result

    found.columns += [functools.partial(column, place) for place in range(width)]
    return Stack(found, type_, 0, width, axis)


def row_of(walk: Any, x: Stack, index: Value) -> Elements:
    """A row of a long array."""
    found = [
        Number(walk.emitter.memory.read(x.rows, x.start + i, index), x.type.dtype)
        for i in range(x.width)
    ]
    shape = list(x.type.shape)
    shape[x.axis] = 1
    return shaped(found, tuple(shape))


def batched(short: Write, axis_of: Callable[[Equation, list[Any]], int]) -> Write:
    """The rule of a primitive for long arrays, too.

    Args:
      short: the rule of short ones.
      axis_of: of an equation and its inputs, some of them long, the axis of the result along which
        each row is made of rows of the inputs; or Unsupported.
    """

    def rule(walk: Any, equation: Equation, inputs: list[Any]) -> list[Any]:
        type_ = equation.outputs[0].type
        if type_.size <= walk.emitter.size and all(_is_short(walk, x) for x in inputs):
            return short(walk, equation, [walk.whole(x) for x in inputs])
        if not any(isinstance(x, Stack) for x in inputs):
            raise Unsupported(f"{equation.primitive.name} gives {type_}")
        axis = axis_of(equation, inputs)

        def row(index: Value) -> Elements:
            rows = [row_of(walk, x, index) if isinstance(x, Stack) else x for x in inputs]
            return short(walk, equation, rows)[0]

        found = rowwise(walk, type_, axis, row)
        if type_.size > walk.emitter.size:
            return [found]
        return [walk.whole(found)]

    return rule


def _is_short(walk: Any, x: Any) -> bool:
    return not isinstance(x, Stack) or bool(x.type.size <= walk.emitter.size)


def _unknown(equation: Equation) -> Unsupported:
    return Unsupported(f"{equation.primitive.name} across the rows of a long array")


def _broadcast_axis(equation: Equation, inputs: list[Any]) -> int:
    """The axis that NumPy's broadcasting makes of those of the inputs."""
    shape = equation.outputs[0].type.shape
    axes = {x.axis - len(x.type.shape) + len(shape) for x in inputs if isinstance(x, Stack)}
    axis = axes.pop()
    for x in inputs:
        own = (
            axis - len(shape) + x.type.ndim if isinstance(x, Stack) else axis - len(shape) + x.ndim
        )
        long = isinstance(x, Stack) and x.type.shape[own] == shape[axis]
        if axes or not (long or own < 0 or (not isinstance(x, Stack) and x.shape[own] == 1)):
            raise _unknown(equation)
    return axis


def elementwise(write: Write) -> Write:
    """The rule of elementwise equations, of long arrays too."""
    return batched(write, _broadcast_axis)


def _rows_broadcast(walk: Any, equation: Equation, inputs: list[Any]) -> list[Any]:
    (x,), type_ = inputs, equation.outputs[0].type
    if type_.size <= walk.emitter.size:
        return element_rules.RULES[broadcast_to].write(walk, equation, [walk.whole(x)])
    if isinstance(x, Stack):
        axis = _broadcast_axis(equation, inputs)
    else:
        axis = int(np.argmax(type_.shape))
        own = axis - len(type_.shape) + x.ndim
        if own >= 0 and x.shape[own] != 1:
            raise _unknown(equation)
    shape = list(type_.shape)
    shape[axis] = 1

    def row(index: Value) -> Elements:
        return np.broadcast_to(row_of(walk, x, index) if isinstance(x, Stack) else x, shape)

    return [rowwise(walk, type_, axis, row)]


def _full(walk: Any, equation: Equation, inputs: list[Any]) -> list[Any]:
    type_ = equation.outputs[0].type
    if type_.size <= walk.emitter.size:
        return element_rules.RULES[full].write(walk, equation, inputs)
    axis = int(np.argmax(type_.shape))
    one = walk.constants(equation.params["value"], Type((), type_.dtype))
    row = np.broadcast_to(one, without(type_.shape, axis))
    return [rowwise(walk, type_, axis, lambda index: row)]


def _reshape(walk: Any, equation: Equation, inputs: list[Any]) -> list[Any]:
    (x,), type_ = inputs, equation.outputs[0].type
    if not isinstance(x, Stack) or type_.size <= walk.emitter.size:
        return element_rules.RULES[reshape].write(walk, equation, [walk.whole(x)])
    before = x.type.shape
    for axis, length in enumerate(type_.shape):
        if length == before[x.axis] and (
            math.prod(type_.shape[:axis]) == math.prod(before[: x.axis])
        ):
            return [Stack(x.rows, type_, x.start, x.width, axis)]
    raise _unknown(equation)


def _transposed_axis(equation: Equation, inputs: list[Any]) -> int:
    axes = [axis % inputs[0].type.ndim for axis in equation.params["axes"]]
    return axes.index(inputs[0].axis)


def _concatenated_axis(equation: Equation, inputs: list[Any]) -> int:
    axis = equation.params["axis"] % equation.outputs[0].type.ndim
    axes = {x.axis if isinstance(x, Stack) else -1 for x in inputs}
    if len(axes) != 1 or axis in axes:
        raise _unknown(equation)
    found: int = axes.pop()
    return found


def _dot_axis(equation: Equation, inputs: list[Any]) -> int:
    """A batch axis of both, or an axis of one that is not contracted."""
    contract, batch = equation.params["contract"], equation.params["batch"]
    long = [isinstance(x, Stack) for x in inputs]
    if all(long):
        pairs = list(zip(*batch, strict=True))
        if (inputs[0].axis, inputs[1].axis) in pairs:
            return pairs.index((inputs[0].axis, inputs[1].axis))
        raise _unknown(equation)
    which = long.index(True)
    axis, ahead = inputs[which].axis, len(batch[0])
    if axis in contract[which] or axis in batch[which]:
        raise _unknown(equation)
    free = [
        [i for i in range(a.type.ndim) if i not in (*contract[k], *batch[k])]
        for k, a in enumerate(equation.inputs)
    ]
    return ahead + free[which].index(axis) + (len(free[0]) if which else 0)


def _dot(walk: Any, equation: Equation, inputs: list[Any]) -> list[Any]:
    short = element_rules.RULES[dot_general].write
    contract = equation.params["contract"]
    long = all(isinstance(x, Stack) for x in inputs)
    if long and (inputs[0].axis, inputs[1].axis) in zip(*contract, strict=True):

        def row(index: Value) -> Elements:
            return short(walk, equation, [row_of(walk, x, index) for x in inputs])[0]

        return [_added(walk, inputs[0].rows.length, equation.outputs[0].type, row)]
    return batched(short, _dot_axis)(walk, equation, inputs)


def _sum(walk: Any, equation: Equation, inputs: list[Any]) -> list[Any]:
    (x,), axes = inputs, equation.params["axes"]
    short = element_rules.RULES[reduce_sum].write
    if not isinstance(x, Stack) or x.axis not in axes:
        return batched(short, _kept_axis)(walk, equation, inputs)

    def row(index: Value) -> Elements:
        return short(walk, equation, [row_of(walk, x, index)])[0]

    return [_added(walk, x.rows.length, equation.outputs[0].type, row)]


def _kept_axis(equation: Equation, inputs: list[Any]) -> int:
    axis: int = inputs[0].axis
    return axis - sum(1 for other in equation.params["axes"] if other < axis)


def _added(walk: Any, length: int, type_: Any, row: Row) -> Elements:
    """The sum of rows: by blocks of BLOCK rows, and by blocks of such blocks."""
    zeros = walk.constants(np.zeros(type_.shape, type_.dtype), type_)

    def add(sums: Elements, more: Elements) -> None:
        pairs = zip(sums.reshape(-1), more.reshape(-1), strict=True)
        new = [walk.total(pair, "add", type_.dtype) for pair in pairs]
        walk.assign([sums], [shaped(new, type_.shape)])

    def block(begin: Any, count: int) -> Elements:
        """The sum of the rows from `begin` on, `count` of them or as many as there are."""
        code = walk.emitter.code
        (sums,) = walk.initialised([zeros], [type_])
        each = 1 if count <= BLOCK else BLOCK if count <= BLOCK**2 else BLOCK**2
        end = code.intrinsic("smin", [code.add(begin, count), length])

        def step(index: Value) -> None:
            add(sums, row(index) if each == 1 else block(index, each))

        code.for_range(begin, end, step, each)
        return sums

    found: list[Elements] = []
    zero = walk.emitter.code.constant(0, "i64", 1)
    walk.repeated(length, lambda: found.append(block(zero, length)))
    return found[0]


def _getitem(walk: Any, equation: Equation, inputs: list[Any]) -> list[Any]:
    x, *arrays = inputs
    if _is_short(walk, x):
        found = [walk.whole(x), *arrays]
        return element_rules.RULES[getitem].write(walk, equation, found)
    type_, code = equation.outputs[0].type, walk.emitter.code
    entries = list(equation.params["index"].entries)
    if arrays or not all(isinstance(entry, (slice, int)) for entry in entries):
        raise Unsupported("an index into a long array")
    entries += [slice(None)] * (x.type.ndim - len(entries))
    first = entries[x.axis]
    if isinstance(first, int):
        entries[x.axis] = 0
        at = code.constant(range(x.rows.length)[first], "i64", 1)
        found = row_of(walk, x, at)[tuple(entries)]
        return [found if isinstance(found, np.ndarray) else shaped([found], ())]
    begin, _, stride = first.indices(x.rows.length)
    entries[x.axis] = slice(None)
    axis = x.axis - sum(1 for entry in entries[: x.axis] if isinstance(entry, int))

    def row(index: Value) -> Elements:
        at = code.add(code.mul(index, stride), begin)
        return row_of(walk, x, at)[tuple(entries)]

    result = rowwise(walk, type_, axis, row)
    return [walk.whole(result) if type_.size <= walk.emitter.size else result]


def _index_add(walk: Any, equation: Equation, inputs: list[Any]) -> list[Any]:
    x, *others = inputs
    if _is_short(walk, x):
        whole = [walk.whole(x) for x in inputs]
        return element_rules.RULES[index_add].write(walk, equation, whole)
    entries, code = list(equation.params["index"].entries), walk.emitter.code
    entries += [slice(None)] * (x.type.ndim - len(entries))
    first = entries[x.axis]
    if len(others) != 1 or not isinstance(first, int):
        raise Unsupported("adding to parts of a long array")
    at, more = range(x.rows.length)[first], walk.whole(others[0])
    entries[x.axis] = 0

    def row(index: Value) -> Elements:
        found = row_of(walk, x, index)
        flat, dtype = found.reshape(-1), x.type.dtype
        places = np.arange(found.size).reshape(found.shape)[tuple(entries)]
        there = code.compare("eq", index, at)
        for place, value in zip(np.ravel(places), more.reshape(-1), strict=True):
            added = walk.total([flat[place], value], "add", dtype)
            pair = [walk.emitter.converted(y, type_of(dtype)) for y in (added, flat[place])]
            flat[place] = Number(code.select(there, *pair), dtype)
        return found

    return [rowwise(walk, x.type, x.axis, row)]


_short = element_rules.RULES
RULES: Mapping[Any, Rule] = {
    full: Rule(_full, long=True),
    broadcast_to: Rule(_rows_broadcast, moves=True, long=True),
    reshape: Rule(_reshape, moves=True, long=True),
    transpose: Rule(batched(_short[transpose].write, _transposed_axis), moves=True, long=True),
    concatenate: Rule(
        batched(_short[concatenate].write, _concatenated_axis), moves=True, long=True
    ),
    dot_general: Rule(_dot, long=True),
    reduce_sum: Rule(_sum, long=True),
    index_add: Rule(_index_add, long=True),
    getitem: Rule(_getitem, moves=True, long=True),
}
"""In place of those of short arrays."""

__all__ = ["RULES", "elementwise"]
