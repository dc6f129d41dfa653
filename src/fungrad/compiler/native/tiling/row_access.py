"""Row access: which equations can run row by row, and along which axis.

Rows lie along one axis of a value, its row axis. An equation runs row by row if a row of its output
needs only the same row of its inputs, and all of the inputs without rows. A reduction over the rows
returns a value without rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fungrad.compiler.cost_model import costs
from fungrad.ir.graph import Equation, Literal
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.by_elements import elementwise
from fungrad.primitives.facts import Along, Section, sections_of
from fungrad.primitives.movement.gather import getitem
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    concatenate,
    reshape,
    transpose,
)
from fungrad.primitives.movement.stack_iota import stack
from fungrad.runtime.blas_threads import one_thread, single_blas, single_in_clusters
from fungrad.runtime.thread_pool import num_threads
from fungrad.support.lazy import Record

REDUCED = -1
"""In place of an axis: the output has no rows, and is complete after the last row."""
MOVES = (reshape, transpose, broadcast_to, getitem, concatenate, stack)
"""What may move rows of a tile: views, and joins."""
Shape = tuple[int, ...]


class RowAccess(Record):
    """The row axis of each input (None: it is read as a whole) and of the output."""

    inputs: tuple[int | None, ...]
    output: int


def row_access(equation: Equation, axes: Sequence[int | None], length: int) -> RowAccess | None:
    """The row access of an equation with `length` rows; None if it has none.

    Args:
      equation: the equation.
      axes: the row axis of each input; None for an input without rows.
      length: the number of rows.
    """
    primitive: Any = equation.primitive
    if elementwise(equation):
        return _elementwise(equation, axes, length)
    if primitive is dot_general:
        inner = not equation.outputs[0].type.shape and axes[0] == axes[1] == 0
        return RowAccess((0, 0), REDUCED) if inner else product(equation, axes)
    if primitive.reduces is None:
        return _moved(equation, axes)
    axis, reduced = axes[0], equation.params["axes"]
    if axis is None:
        return None
    return RowAccess((axis,), REDUCED if axis in reduced else axis - sum(a < axis for a in reduced))


def _elementwise(equation: Equation, axes: Sequence[int | None], length: int) -> RowAccess | None:
    shape = equation.outputs[0].type.shape
    found = {
        axis + len(shape) - atom.type.ndim
        for atom, axis in zip(equation.inputs, axes, strict=True)
        if axis is not None
    }
    (place, *others) = found
    if others or shape[place] != length:
        return None
    return RowAccess(tuple(axis_of(a.type.shape, shape, place) for a in equation.inputs), place)


def axis_of(shape: Shape, output: Shape, place: int) -> int | None:
    """The operand's axis that becomes an axis of the output; None if it is missing or broadcast."""
    axis = place - (len(output) - len(shape))
    return axis if axis >= 0 and shape[axis] == output[place] else None


def _moved(equation: Equation, axes: Sequence[int | None]) -> RowAccess | None:
    """The row access of a view or a join by its index map: all sections have the same rows."""
    of_numbers = any(isinstance(atom, Literal) for atom in equation.inputs)
    fits = equation.primitive in MOVES and not of_numbers
    sections = sections_of(equation) if fits else None
    if not sections:
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


def multiplies(equation: Equation) -> bool:
    """Whether an equation is a product with a matrix."""
    return equation.primitive is dot_general and any(a.type.ndim > 1 for a in equation.inputs)


def terms(equation: Equation) -> int:
    """The number of products of numbers in a product with a matrix; 0 for other equations."""
    if not multiplies(equation):
        return 0
    x, (contracted, _) = equation.inputs[0].type, equation.params["contract"]
    return int(equation.outputs[0].type.size * math.prod([x.shape[i] for i in contracted]))


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
