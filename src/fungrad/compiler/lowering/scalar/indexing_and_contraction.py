"""Reading and writing by index, contractions and running sums, in programs on numbers.

Knows the Writer and the primitives that are written here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.compiler.lowering.scalar.scalar_codegen import (
    ZERO,
    Elements,
    Unsupported,
    Writer,
    is_zero,
    numbers,
    objects,
    rules,
    text,
)
from fungrad.compiler.lowering.scalar.scalar_expressions import BOOL, FLOAT, OPERATION
from fungrad.ir.graph import Equation
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.movement.gather import ARRAY, getitem, indexed, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import pad
from fungrad.primitives.movement.scatter import index_add, index_set
from fungrad.primitives.movement.stack_iota import iota, unstack
from fungrad.primitives.primitive import full
from fungrad.primitives.reduction.cumulative import cumprod, cumsum


def _getitem(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    x, *arrays = inputs
    index = equation.params["index"]
    if not arrays:
        return [objects(x[index.entries])]
    if len(arrays) != 1 or arrays[0].shape or index.entries[0] != ARRAY:
        raise Unsupported("an index array")
    if any(entry != slice(None) for entry in index.entries[1:]):
        raise Unsupported("an index array among others")
    place = text(arrays[0][()])
    result = np.empty(x.shape[1:], object)
    for at in np.ndindex(*result.shape):
        column = ", ".join(text(part) for part in x[(slice(None), *at)])
        result[at] = writer.named(f"({column},)[{place}]", OPERATION + 8 * len(x))
    return [result]


def _value(x: Elements) -> Any:
    """What is assigned to a part of an object array: NumPy would store a 0-d array as it is."""
    return x if x.ndim else x[()]


def _placed(x: Elements, index: Any) -> Any:
    return np.arange(x.size).reshape(x.shape)[index.entries]


def _scatter(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    if len(inputs) > 1:
        raise Unsupported("a scatter by index arrays")
    result = np.empty(equation.params["shape"], object)
    result[...] = ZERO
    result[equation.params["index"].entries] = _value(inputs[0])
    return [result]


def _index_set(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    if len(inputs) > 2:
        raise Unsupported("writing by index arrays")
    result = inputs[0].copy()
    result[equation.params["index"].entries] = _value(inputs[1])
    return [result]


def _index_add(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    if len(inputs) > 2:
        raise Unsupported("writing by index arrays")
    result = inputs[0].copy()
    flat = result.reshape(-1)
    places = np.ravel(_placed(result, equation.params["index"]))
    for place, value in zip(places, inputs[1].reshape(-1), strict=True):
        flat[place] = writer.total([flat[place], value])
    return [result]


def _dot(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    x, y = inputs
    if equation.outputs[0].type.dtype == BOOL:
        raise Unsupported("a sum of logical values, which is one")
    contract, batch = equation.params["contract"], equation.params["batch"]
    free_x = [i for i in range(x.ndim) if i not in (*contract[0], *batch[0])]
    free_y = [i for i in range(y.ndim) if i not in (*contract[1], *batch[1])]
    left = x.transpose((*batch[0], *free_x, *contract[0]))
    right = y.transpose((*batch[1], *free_y, *contract[1]))
    shape = left.shape[: len(batch[0])]
    rows, columns = (
        left.shape[len(shape) :][: len(free_x)],
        right.shape[len(shape) :][: len(free_y)],
    )
    result = np.empty((*shape, *rows, *columns), object)
    for place in np.ndindex(*result.shape):
        at, row = place[: len(shape)], place[len(shape) : len(shape) + len(rows)]
        first = left[(*at, *row)]
        second = right[(*at, *place[len(shape) + len(rows) :])]
        pairs = zip(np.ravel(objects(first)), np.ravel(objects(second)), strict=True)
        terms = [f"{text(a)} * {text(b)}" for a, b in pairs if not _vanishes(a, b)]
        terms += ["0.0"] if equation.outputs[0].type.dtype == FLOAT else []  # so BLAS's sums begin
        value = writer.named(" + ".join(terms), OPERATION * (2 * len(terms))) if terms else ZERO
        result[place] = value
    return [result]


def _vanishes(a: Any, b: Any) -> bool:
    """Whether a product is 0.0 or -0.0, which a sum that begins with 0.0 does not see."""
    first, second = (a, b) if is_zero(a) else (b, a)
    return is_zero(first) and isinstance(second, float) and math.isfinite(second)


def _full(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    primitive: Any = equation.primitive
    if inputs:
        raise Unsupported("places that are not known")
    return [numbers(primitive.eval(**equation.params), equation.outputs[0].type)]


def _pad(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    positions = np.arange(1, inputs[0].size + 1).reshape(inputs[0].shape)
    primitive: Any = equation.primitive
    places = primitive.eval(positions, **equation.params)
    result = np.empty(places.shape, object)
    result[...] = ZERO
    filled = places > 0
    result[filled] = inputs[0].reshape(-1)[places[filled] - 1]
    return [result]


def _unstack(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    primitive: Any = equation.primitive
    return [objects(part) for part in primitive.eval(inputs[0], **equation.params)]


def _cumulative(template: str) -> Callable[[Writer, Equation, list[Elements]], list[Elements]]:
    def write(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
        axis, reverse = equation.params["axis"], equation.params.get("reverse", False)
        result = inputs[0].copy()
        rows = np.moveaxis(result, axis, 0)
        rows = rows[::-1] if reverse else rows
        for i in range(1, len(rows)):
            for place in np.ndindex(*rows.shape[1:]):
                at, before = (i, *place), (i - 1, *place)
                rows[at] = writer.total([rows[before], rows[at]], template)
        return [result]

    return write


rules.update(
    {
        getitem: _getitem,
        scatter: _scatter,
        index_set: _index_set,
        index_add: _index_add,
        dot_general: _dot,
        full: _full,
        iota: _full,
        indexed: _full,
        pad: _pad,
        unstack: _unstack,
        cumsum: _cumulative("{0} + {1}"),
        cumprod: _cumulative("{0} * {1}"),
    }
)
