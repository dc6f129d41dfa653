"""Arrays too long to be taken apart, in native programs: a row is computed where it is read.

Such an array is a Stack whose Rows have, in place of places in memory, functions of the index of a
row. Rules of the scalarising walk, for what keeps the first axis, takes parts of it or adds it up.
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
from fungrad.compiler.native.rows_in_memory import Rows
from fungrad.ir.graph import Equation
from fungrad.ir.types import Type
from fungrad.primitives.movement.gather import getitem
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, reduce_sum, reshape
from fungrad.primitives.primitive import full

BLOCK = 64
"""How many numbers a sum adds up one after the other."""
Row = Callable[[Value], Elements]
"""The elements of the row of an index."""


def rowwise(walk: Any, type_: Any, row: Row) -> Stack:
    """A long array by what its rows are."""
    width = type_.size // type_.shape[0]
    if width > walk.emitter.size:
        raise Unsupported(f"rows of {width} numbers")
    found = Rows(type_.shape[0], [type_of(type_.dtype)] * width)
    known: dict[str, tuple[str, Elements]] = {}

    def column(place: int, index: Value) -> Value:
        block, elements = known.get(index.text, ("", None))
        if block != walk.emitter.code.block:
            elements = row(index)
            known[index.text] = (walk.emitter.code.block, elements)
        result: Value = walk.emitter.converted(elements.reshape(-1)[place], found.types[place])
        return result

    found.columns += [functools.partial(column, place) for place in range(width)]
    return Stack(found, type_, 0, width)


def row_of(walk: Any, value: Any, index: Value, ndim: int) -> Elements:
    """What a row of a result of `ndim` axes reads of an operand: its row, or all of it."""
    if isinstance(value, Stack):
        type_, emitter = value.type, walk.emitter
        found = [
            Number(emitter.memory.read(value.rows, value.start + i, index), type_.dtype)
            for i in range(value.width)
        ]
        return shaped(found, type_.shape[1:])
    return value[0] if value.ndim == ndim and isinstance(value[0], np.ndarray) else (
        shaped([value[0]], ()) if value.ndim == ndim else value
    )  # fmt: skip


def _is_long(value: Any) -> bool:
    return isinstance(value, Stack)


def elementwise(write: Write) -> Write:
    """The rule of elementwise equations, of long arrays too."""

    def rule(walk: Any, equation: Equation, inputs: list[Any]) -> list[Any]:
        type_ = equation.outputs[0].type
        if type_.size <= walk.emitter.size:
            return write(walk, equation, [walk.whole(x) for x in inputs])
        length, ndim = type_.shape[0], len(type_.shape)
        for x in inputs:
            shape = x.type.shape if isinstance(x, Stack) else x.shape
            if isinstance(x, Stack) != (len(shape) == ndim and shape[0] == length > 1):
                raise Unsupported("a long array whose rows are no rows of the result")

        def row(index: Value) -> Elements:
            found = write(walk, equation, [row_of(walk, x, index, ndim) for x in inputs])[0]
            return np.broadcast_to(found, type_.shape[1:])

        return [rowwise(walk, type_, row)]

    return rule


def _full(walk: Any, equation: Equation, inputs: list[Any]) -> list[Any]:
    type_ = equation.outputs[0].type
    if type_.size <= walk.emitter.size:
        return element_rules.RULES[full].write(walk, equation, inputs)
    one = walk.constants(equation.params["value"], Type((), type_.dtype))
    return [rowwise(walk, type_, lambda index: np.broadcast_to(one, type_.shape[1:]))]


def _broadcast(walk: Any, equation: Equation, inputs: list[Any]) -> list[Any]:
    type_ = equation.outputs[0].type
    if type_.size <= walk.emitter.size:
        return element_rules.RULES[broadcast_to].write(walk, equation, [walk.whole(inputs[0])])
    return elementwise(lambda walk, equation, inputs: inputs)(walk, equation, inputs)


def _reshape(walk: Any, equation: Equation, inputs: list[Any]) -> list[Any]:
    (x,) = inputs
    type_ = equation.outputs[0].type
    if not _is_long(x) or type_.size <= walk.emitter.size:
        return element_rules.RULES[reshape].write(walk, equation, [walk.whole(x)])
    if type_.shape[0] != x.type.shape[0]:
        raise Unsupported("a reshape of the first axis of a long array")
    return [Stack(x.rows, type_, x.start, x.width)]


def _sum(walk: Any, equation: Equation, inputs: list[Any]) -> list[Any]:
    (x,) = inputs
    rule = element_rules.RULES[reduce_sum].write
    if not _is_long(x):
        return rule(walk, equation, inputs)
    axes, type_ = equation.params["axes"], equation.outputs[0].type
    rest = tuple([axis - 1 for axis in axes if axis > 0])

    def row(index: Value) -> Elements:
        elements = row_of(walk, x, index, 0)
        if not rest:
            return elements
        inner = _reduced(elements, rest)
        found = np.empty(inner.shape[:-1], object)
        for place in np.ndindex(found.shape):
            found[place] = walk.total(list(inner[place]), "add", type_.dtype)
        return found

    if 0 not in axes:
        return [rowwise(walk, type_, row)]
    return [_added(walk, x.rows.length, type_, row)]


def _reduced(elements: Elements, axes: Sequence[int]) -> Elements:
    kept = [axis for axis in range(elements.ndim) if axis not in axes]
    count = math.prod([elements.shape[axis] for axis in axes])
    shape = [elements.shape[axis] for axis in kept]
    return elements.transpose((*kept, *axes)).reshape(*shape, count)


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
    if not _is_long(x):
        return element_rules.RULES[getitem].write(walk, equation, inputs)
    if arrays:
        raise Unsupported("an index array into a long array")
    type_, emitter = equation.outputs[0].type, walk.emitter
    entries = equation.params["index"].entries
    first, rest = entries[0] if entries else slice(None), tuple(entries[1:])
    if isinstance(first, slice):
        begin, _, stride = first.indices(x.type.shape[0])

        def row(index: Value) -> Elements:
            at = emitter.code.add(emitter.code.mul(index, stride), begin)
            found = row_of(walk, x, at, 0)[rest]
            return found if isinstance(found, np.ndarray) else shaped([found], ())

        if type_.size <= emitter.size:
            rows = [row(emitter.code.constant(i, "i64", 1)) for i in range(type_.shape[0])]
            return [np.array([list(r.reshape(-1)) for r in rows], object).reshape(type_.shape)]
        return [rowwise(walk, type_, row)]
    if not isinstance(first, (int, np.integer)):
        raise Unsupported("an index of a long array")
    at = emitter.code.constant(range(x.type.shape[0])[first], "i64", 1)
    found = row_of(walk, x, at, 0)[rest]
    return [found if isinstance(found, np.ndarray) else shaped([found], ())]


RULES: Mapping[Any, Rule] = {
    full: Rule(_full, long=True),
    broadcast_to: Rule(_broadcast, moves=True, long=True),
    reshape: Rule(_reshape, moves=True, long=True),
    reduce_sum: Rule(_sum, long=True),
    getitem: Rule(_getitem, moves=True, long=True),
}
"""In place of those of short arrays."""

__all__ = ["RULES", "elementwise"]
