"""Row access: which equations can run row by row, and along which axis.

Rows lie along one axis of a value, its row axis. An equation runs row by row if a row of its output
needs only the same row of its inputs, and all of the inputs without rows. A reduction over the rows
returns a value without rows. Joins and `unstack` inside of clusters make bundle adjustment 3 times
as fast, gathers by row number 1.4 times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.ir.graph import Equation, Graph, Literal
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.by_elements import elementwise
from fungrad.primitives.facts import Along, Section, sections_of
from fungrad.primitives.movement.gather import ARRAY, expanded, getitem, of_int
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    concatenate,
    reshape,
    transpose,
)
from fungrad.primitives.movement.stack_iota import stack, unstack
from fungrad.retracing.inlining import placed
from fungrad.runtime.blas_threads import single_blas, single_in_clusters
from fungrad.runtime.kernels.reductions import one_thread
from fungrad.runtime.thread_pool import num_threads
from fungrad.support.lazy import Record

REDUCED = -1
"""In place of an axis: the output has no rows, and is complete after the last row."""


class RowAccess(Record):
    """The row axis of each input (None: it is read as a whole) and of the output."""

    inputs: tuple[int | None, ...]
    output: int


def gathered_axis(equation: Equation) -> int | None:
    """The axis along which an equation gathers rows by number; None if it does not, or if it reads
    from more elements than it returns.
    """
    if equation.primitive is not getitem or len(equation.inputs) != 2:
        return None
    x, at = [atom.type for atom in equation.inputs]
    entries = expanded(equation.params["index"], x.ndim)
    alone = [entry for entry in entries if entry != slice(None)] == [ARRAY]
    fits = x.size <= equation.outputs[0].type.size and np.can_cast(at.dtype, np.intp)
    return entries.index(ARRAY) if alone and fits and at.ndim == 1 else None


def joins(equation: Equation) -> bool:
    """Whether an equation concatenates or stacks few arrays."""
    few = equation.primitive in (stack, concatenate) and len(equation.inputs) <= costs.joined_parts
    return few and not any(isinstance(atom, Literal) for atom in equation.inputs)


def moves(equation: Equation) -> bool:
    """Whether an equation moves rows and computes nothing."""
    return gathered_axis(equation) is not None or joins(equation)


def moved_form(equation: Equation, axes: Sequence[int | None]) -> RowAccess | None:
    """The row access of a gather, a join or a view; None if it has none with these axes.

    Args:
      equation: the equation.
      axes: the row axis of each input; None for an input without rows.
    """
    at = gathered_axis(equation)
    if at is not None and axes[0] is None:
        return RowAccess((None, 0), at)
    sections = sections_of(equation) if equation.primitive in VIEWS or joins(equation) else None
    if sections is None:
        return None
    shape = equation.outputs[0].type.shape
    found = {_row_axis(part, shape, equation.inputs[part.operand].type.shape, axis)
             for part in sections if (axis := axes[part.operand]) is not None}  # fmt: skip
    (output, *others) = found
    if others or output is None:
        return None
    return RowAccess(tuple([part.place.index(Along(output)) for part in sections]), output)


def _row_axis(part: Section, output: Shape, shape: Shape, axis: int) -> int | None:
    """The axis of the output that has the rows of an operand; None if it does not have them all, in
    their order.
    """
    along = part.place[axis]
    if along is None or along.loop < 0 or along != Along(along.loop):
        return None
    rows = part.box[along.loop]
    return along.loop if len(rows) == output[along.loop] == shape[axis] else None


def taken(x: Any, at: Any, axis: int, order: Sequence[int], out: Any) -> None:
    """Gathers rows of x along an axis into `out`; `order` is the order of the axes in memory."""
    x.transpose(order).take(at, order.index(axis), out.transpose(order))


def split_unstacks(graph: Graph, size: int) -> list[Equation]:
    """The equations, with one equation per part in place of each `unstack` of at least `size`
    elements.
    """
    found: list[Equation] = []
    for equation in graph.equations:
        parts = equation.outputs
        large = equation.primitive is unstack and equation.inputs[0].type.size >= size
        if not large or len(parts) > costs.joined_parts:
            found.append(equation)
            continue
        found += [
            placed(equation, getitem, equation.inputs, (part,), {"index": of_int(i)})
            for i, part in enumerate(parts)
        ]
    return found


Shape = tuple[int, ...]
VIEWS = (reshape, transpose, broadcast_to, getitem)
"""Views of the rows of a tile."""


def form(equation: Equation, axes: Sequence[int | None], length: int) -> RowAccess | None:
    """The row access of an equation with `length` rows; None if it has none.

    Args:
      equation: the equation.
      axes: the row axis of each input; None for an input without rows.
    """
    primitive: Any = equation.primitive
    if elementwise(equation):
        return _elementwise(equation, axes, length)
    if primitive is dot_general:
        vectors = _of_vectors(equation)
        return RowAccess((0, 0), REDUCED) if vectors else product(equation, axes)
    axis = axes[0] if primitive.reduces is not None else None
    if axis is None:
        return moved_form(equation, axes)
    reduced = equation.params["axes"]
    return RowAccess((axis,), REDUCED if axis in reduced else axis - sum(a < axis for a in reduced))


def _of_vectors(equation: Equation) -> bool:
    """Whether a contraction is the inner product of two vectors, which the BLAS computes."""
    x, y = [atom.type for atom in equation.inputs]
    alike = x == y and x.ndim == 1 and equation.outputs[0].type.ndim == 0
    return alike and one_thread(x.dtype)


def multiplies(equation: Equation) -> bool:
    """Whether an equation is a product with a matrix."""
    return equation.primitive is dot_general and any(a.type.ndim > 1 for a in equation.inputs)


def matrix_first(equation: Equation, both: Sequence[Any]) -> Sequence[Any]:
    """The entries of `both` factors, reversed if the first factor is a vector: the matrix comes
    first, since the product is the same.
    """
    return both[::-1] if equation.inputs[0].type.ndim == 1 else both


def product(equation: Equation, axes: Sequence[int | None]) -> RowAccess | None:
    """The row access of a matrix product: each row of the first factor times the whole second, or a
    sum over the rows of both. None if it has none.
    """
    x, y = matrix_first(equation, [atom.type for atom in equation.inputs])
    contract, batch = equation.params["contract"], equation.params["batch"]
    blas = x.dtype == y.dtype and one_thread(x.dtype)
    flat = x.ndim == 2 and 1 <= y.ndim <= 2 and len(contract[0]) == 1 and not batch[0]
    if not (blas and flat):
        return None
    (over_x,), (over_y,) = matrix_first(equation, contract)
    at_x, at_y = matrix_first(equation, axes)
    if at_x == over_x or at_y == over_y:
        alike = at_x in (None, over_x) and at_y in (None, over_y)
        rows, found, output = x.shape[over_x], (over_x, over_y), REDUCED
        read, made = x.size // rows, y.size // rows
        fits = equation.outputs[0].type.size <= costs.fused_product_sum
    else:
        alike = at_x is not None and at_y is None
        rows, found, output = x.shape[1 - over_x], (1 - over_x, None), 0
        read, made = x.shape[over_x], equation.outputs[0].type.size // rows
        fits = y.size <= costs.fused_matrix
    fits = alike and fits and rows > costs.product_rows and _light(rows, read, made)
    return RowAccess(tuple(matrix_first(equation, found)), output) if fits else None


def _light(rows: int, read: int, made: int) -> bool:
    """Whether a product may be in clusters, given its rows and the elements per row that it reads
    and makes.
    """
    shared = rows * read * made >= costs.shared_product_terms
    most = costs.shared_light_product if shared else costs.light_product
    alone = single_blas() or (single_in_clusters() and num_threads() > 1)
    return alone or read * made <= most * (read + made)


def _elementwise(equation: Equation, axes: Sequence[int | None], length: int) -> RowAccess | None:
    shape = equation.outputs[0].type.shape
    places = {
        axis + len(shape) - atom.type.ndim
        for atom, axis in zip(equation.inputs, axes, strict=True)
        if axis is not None
    }
    if len(places) != 1:
        return None
    (place,) = places
    if shape[place] != length:
        return None
    return RowAccess(tuple(axis_of(a.type.shape, shape, place) for a in equation.inputs), place)


def axis_of(shape: tuple[int, ...], output: tuple[int, ...], place: int) -> int | None:
    """The operand's axis that becomes an axis of the output; None if it is missing or broadcast."""
    axis = place - (len(output) - len(shape))
    return axis if axis >= 0 and shape[axis] == output[place] else None
