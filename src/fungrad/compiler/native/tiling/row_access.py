"""Row access: which equations can run row by row, and along which axis.

Rows lie along one axis of a value, its row axis. An equation runs row by row if a row of its output
needs only the same row of its inputs, and all of the inputs without rows. A reduction over the rows
returns a value without rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.compiler.cost_model import costs
from fungrad.compiler.native.index_maps import broadcast
from fungrad.ir.graph import Equation
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.by_elements import elementwise
from fungrad.primitives.facts import Along, Section, sections_of, straight, whole
from fungrad.primitives.movement.gather import getitem
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    concatenate,
    reshape,
    transpose,
)
from fungrad.primitives.movement.stack_iota import stack
from fungrad.runtime.blas_threads import one_thread
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


def row_access(equation: Equation, axes: Sequence[int | None]) -> RowAccess | None:
    """The row access of an equation; None if it has none.

    Args:
      equation: the equation.
      axes: the row axis of each input; None for an input without rows.
    """
    primitive: Any = equation.primitive
    if primitive is dot_general:
        inner = not equation.outputs[0].type.shape and axes[0] == axes[1] == 0
        return RowAccess((0, 0), REDUCED) if inner else product(equation, axes)
    axis, reduced = axes[0], equation.params.get("axes", ())
    if primitive.reduces is None:
        return _by_index_maps(equation, axes)
    if axis is None:
        return None
    return RowAccess((axis,), REDUCED if axis in reduced else axis - sum(a < axis for a in reduced))


def _by_index_maps(equation: Equation, axes: Sequence[int | None]) -> RowAccess | None:
    """The row access of an equation all of whose sections have the same rows."""
    sections = _sections(equation)
    shape = equation.outputs[0].type.shape
    found = {_row_axis(part, shape, equation.inputs[part.operand].type.shape, axis)
             for part in sections if (axis := axes[part.operand]) is not None}  # fmt: skip
    (output, *others) = found or {None}
    if others or output is None:
        return None
    rows = Along(output)
    return RowAccess(
        tuple([part.place.index(rows) if rows in part.place else None for part in sections]), output
    )


def _sections(equation: Equation) -> Sequence[Section]:
    """The sections of an elementwise equation, a view or a join; () of others."""
    if elementwise(equation):
        shape = equation.outputs[0].type.shape
        places = [broadcast(a.type.shape, shape, straight(len(shape))) for a in equation.inputs]
        return [whole(equation, place, n) for n, place in enumerate(places)]
    return (sections_of(equation) if equation.primitive in MOVES else None) or ()


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
    flat = x.ndim == 2 and 1 <= y.ndim <= 2 and len(contract[0]) == 1 and not batch[0]
    if x.dtype != y.dtype or not flat or not one_thread(x.dtype):
        return None
    (over_x,), (over_y,) = matrix_first(equation, contract)
    at_x, at_y = matrix_first(equation, axes)
    if at_x == over_x or at_y == over_y:
        alike = at_x in (None, over_x) and at_y in (None, over_y)
        rows, found, output = x.shape[over_x], (over_x, over_y), REDUCED
        fits = equation.outputs[0].type.size <= costs.fused_product_sum
    else:
        alike = at_x is not None and at_y is None
        rows, found, output = x.shape[1 - over_x], (1 - over_x, None), 0
        fits = y.size <= costs.fused_matrix
    fits = alike and fits and rows > costs.product_rows
    return RowAccess(tuple(matrix_first(equation, found)), output) if fits else None
