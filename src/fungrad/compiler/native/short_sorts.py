"""Sorts of a few numbers, as networks of comparisons; permutations, through memory.

NaN, and equal numbers where their order would show, leave the program to NumPy.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.compiler.native.element_operations import type_of
from fungrad.compiler.native.llvm_ir import FLOATS, Value, size_of
from fungrad.compiler.refusal import Refused
from fungrad.compiler.scalar.emitter import Elements, Number
from fungrad.compiler.scalar.planning import ElementRule
from fungrad.ir.graph import Equation
from fungrad.primitives.sort import argsort, permuted, share_ties, sort
from fungrad.support.rules import Rules

STABLE = ("stable", "mergesort")
"""The kinds of argsort that keep equal numbers in order."""
RULES = Rules(ElementRule)
"""Rules for arrays of numbers."""


@functools.cache
def network(count: int) -> Sequence[tuple[int, int]]:
    """The pairs that are compared, and exchanged if the first is larger: Batcher's merge exchange
    (D. Knuth, The Art of Computer Programming 3, 5.2.2, algorithm M).
    """
    found = []
    top = step = 1 << max(count - 1, 0).bit_length() - 1 if count > 1 else 0
    while step:
        q, r, distance = top, 0, step
        while True:
            found += [(i, i + distance) for i in range(count - distance) if i & step == r]
            if q == step:
                break
            distance, q, r = q - step, q // 2, step
        step //= 2
    return found


def _operations(equation: Equation) -> int:
    """The operations of sorts along an axis."""
    type_, axis = equation.inputs[0].type, equation.params["axis"]
    count = type_.shape[axis]
    each = 6 if equation.primitive is argsort else 3
    rows: int = type_.size // max(count, 1)
    return rows * len(network(count)) * each


def _values(walk: Any, equation: Equation, rows: Elements) -> list[Value]:
    """The floats of a row; NaN leaves the program."""
    type = type_of(equation.inputs[0].type.dtype)
    if type not in FLOATS:
        raise Refused(f"{equation.primitive.name} of {equation.inputs[0].type}")
    found = [walk.emitter.converted(number, type) for number in rows]
    for x in found:
        walk.emitter.must(walk.emitter.code.compare("oeq", x, x))
    return found


def _along(inputs: Sequence[Elements], axis: int) -> Any:
    """For each row along an axis its index, and the elements of all arrays there."""
    moved = [np.moveaxis(x, axis, -1) for x in inputs]
    for index in np.ndindex(moved[0].shape[:-1]):
        yield index, [x[index] for x in moved]


@RULES.rule(sort, argsort, operations=_operations)
def _sort(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    code, dtype = walk.emitter.code, equation.outputs[0].type.dtype
    axis, permutes = equation.params["axis"], equation.primitive is argsort
    result = np.empty_like(np.moveaxis(inputs[0], axis, -1))
    for index, (row,) in _along(inputs, axis):
        x = _values(walk, equation, row)
        order = [code.constant(i, "i64", 1) for i in range(len(x))]
        for i, j in network(len(x)):
            larger = code.compare("ogt", x[i], x[j])
            if permutes:
                after = code.compare("sgt", order[i], order[j])
                equal = code.binary("and", code.compare("oeq", x[i], x[j]), after)
                larger = code.binary("or", larger, equal)
                order[i], order[j] = (code.select(larger, order[j], order[i]),
                                      code.select(larger, order[i], order[j]))  # fmt: skip
            x[i], x[j] = code.select(larger, x[j], x[i]), code.select(larger, x[i], x[j])
        if permutes and equation.params["kind"] not in STABLE:
            _must_ascend(walk, x, "olt")
        for i, number in enumerate(order if permutes else x):
            result[(*index, i)] = Number(number, dtype)
    walk.pay(walk.costs.operation * _operations(equation))
    walk.emitter.check_length()
    return [np.moveaxis(result, -1, axis)]


def _must_ascend(walk: Any, x: Sequence[Value], less: str) -> None:
    """Equal neighbours leave the program; `less` compares two of them."""
    for before, after in itertools.pairwise(x):
        walk.emitter.must(walk.emitter.code.compare(less, before, after))


@RULES.rule(share_ties)
def _share_ties(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    dtype = equation.inputs[1].type.dtype
    less = {"f": "olt", "i": "slt"}.get(dtype.kind, "ult")
    for _, (_, keys) in _along(inputs, equation.params["axis"]):
        numbers = [walk.emitter.converted(number, type_of(dtype)) for number in keys]
        _must_ascend(walk, numbers, less)
    return inputs[:1]


@RULES.rule(permuted)
def _permuted(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    code, dtype = walk.emitter.code, equation.outputs[0].type.dtype
    axis, inverse = equation.params["axis"], equation.params.get("inverse", False)
    result = np.empty_like(np.moveaxis(inputs[0], axis, -1))
    type = type_of(dtype)
    for index, (numbers, order) in _along(inputs, axis) if result.size else ():
        room, size = code.variable("i8", size_of(type) * len(numbers)), size_of(type)
        given = [walk.emitter.converted(number, type) for number in numbers]
        chosen = [walk.emitter.converted(number, "i64") for number in order]
        for n in chosen:
            walk.emitter.must(code.compare("ult", n, len(numbers)))
        here = [code.at(room, i * size) for i in range(len(numbers))]
        there = [code.at(room, code.mul(n, size)) for n in chosen]
        for value, at in zip(given, there if inverse else here, strict=True):
            code.write(value, at)
        for i, at in enumerate(here if inverse else there):
            result[(*index, i)] = Number(code.read(at, type), dtype)
    walk.pay(walk.costs.pick * result.size)
    walk.emitter.check_length()
    return [np.moveaxis(result, -1, axis)]
