"""JAX's gather and scatter by dimension numbers: blocks of an array at given starts.

Each block is read, or written, at positions of the flattened array: start + offset along each axis.
The semantics are those of XLA (openxla.org/xla/operation_semantics, Gather and Scatter).
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.lax.control import fori_loop
from fungrad.numpy.protocol.implements import if_known
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.elementwise.family import neg, select
from fungrad.primitives.elementwise.ufuncs import maximum, minimum
from fungrad.primitives.movement import scatter as s
from fungrad.primitives.movement.gather import ARRAY, Index, getitem
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    cast,
    concatenate,
    reshape,
    transpose,
)
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of, typeof


class GatherScatterMode(enum.Enum):
    """What happens to blocks that do not lie within the array.

    CLIP moves them inside; FILL_OR_DROP reads a fill value there, and writes nothing. By default,
    and by PROMISE_IN_BOUNDS, `gather` does the former and `scatter` the latter.
    """

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"

    @staticmethod
    def from_any(mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode of a name, as "clip", "fill", "drop" or "promise_in_bounds".

        >>> GatherScatterMode.from_any("drop")
        <GatherScatterMode.FILL_OR_DROP: 'fill'>
        """
        if isinstance(mode, GatherScatterMode):
            return mode
        if mode is None or mode == "drop":
            return GatherScatterMode.FILL_OR_DROP
        try:
            return GatherScatterMode(mode)
        except ValueError:
            raise ArgumentError(
                f'mode={mode!r}{user_line()} is not "clip", "fill", "drop" or "promise_in_bounds".'
            ) from None


@dataclass(frozen=True)
class GatherDimensionNumbers:
    """How the axes of `gather`'s arguments correspond.

    Args:
      offset_dims: the axes of the result that run within a block.
      collapsed_slice_dims: the axes of the operand along which a block has length 1, and which the
        result does not have.
      start_index_map: for each entry of a start, its axis of the operand.
      operand_batching_dims, start_indices_batching_dims: axes of the operand, and of the indices,
        that run together.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


@dataclass(frozen=True)
class ScatterDimensionNumbers:
    """How the axes of `scatter`'s arguments correspond.

    Args:
      update_window_dims: the axes of the updates that run within a block.
      inserted_window_dims: the axes of the operand along which a block has length 1, and which the
        updates do not have.
      scatter_dims_to_operand_dims: for each entry of a start, its axis of the operand.
      operand_batching_dims, scatter_indices_batching_dims: axes of the operand, and of the indices,
        that run together.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


def _checked_axes(name: str, axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    checked = tuple([operator.index(axis) for axis in axes])
    if len(set(checked)) != len(checked) or any(not 0 <= axis < ndim for axis in checked):
        raise ArgumentError(
            f"{name}={checked}{user_line()} has to hold different axes of 0 ... {ndim - 1}."
        )
    return checked


def _positions(
    shape: tuple[int, ...],
    starts: Any,
    sizes: Sequence[int],
    index_map: Sequence[int],
    batching: tuple[Sequence[int], Sequence[int]],
    clip: bool,
) -> tuple[Any, Any]:
    """For each block, and each of its elements, the position in the flattened array, and for each
    block whether it lies inside. Both have the axes of the starts (but the last), then one axis for
    each axis of the array.
    """
    starts = array_of(starts)
    if typeof(starts).dtype.kind not in "iu":
        raise ArgumentError(f"The indices{user_line()} have to be integers, not {typeof(starts)}.")
    *blocks, depth = shape_of(starts)
    ndim = len(shape)
    index_map = _checked_axes("start_index_map", index_map, ndim)
    if depth != len(index_map):
        raise ShapeError(
            f"Indices of shape {shape_of(starts)}{user_line()} have {depth} entries for each "
            f"start, but {len(index_map)} axes are named: their last axis holds the entries."
        )
    if len(sizes) != ndim or any(not 0 <= n <= m for n, m in zip(sizes, shape, strict=True)):
        raise ShapeError(
            f"Blocks of shape {tuple(sizes)}{user_line()} of an array of shape {shape}."
        )
    starts = cast(starts, np.intp)
    rows = len(blocks)
    lead = tuple(blocks) + (1,) * ndim
    position: Any = np.zeros((1,) * (rows + ndim), np.intp)
    inside: Any = np.ones((1,) * (rows + ndim), np.bool_)
    stride = 1
    for axis in reversed(range(ndim)):
        offset: Any = np.arange(sizes[axis]).reshape((-1, *(1,) * (ndim - 1 - axis)))
        if axis in index_map:
            start = reshape(starts[..., index_map.index(axis)], shape=lead)
            last = shape[axis] - sizes[axis]
            if clip:
                start = minimum(maximum(start, 0), last)
            else:
                inside = np.logical_and(inside, np.logical_and(start >= 0, start <= last))
            offset = start + offset
        elif axis in batching[0]:
            along = batching[1][batching[0].index(axis)]
            offset = np.arange(shape[axis]).reshape((-1, *(1,) * (rows - 1 - along + ndim)))
        position = position + offset * stride
        stride *= shape[axis]
    return position, inside


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Any:
    """Blocks of an array at given starts, as jax.lax.gather.

    Args:
      operand: an array.
      start_indices: integers; the last axis holds a start for each block.
      dimension_numbers: which axes correspond.
      slice_sizes: the shape of a block, one length for each axis of the operand.
      unique_indices: whether no element is read twice.
      indices_are_sorted: accepted, and not used.
      mode: a `GatherScatterMode`, or its name.
      fill_value: the elements of blocks outside, in the mode "fill"; by default NaN, for integers
        the smallest (unsigned: the largest) number, and True.

    Raises:
      ArgumentError, ShapeError: if the arguments do not fit.

    >>> numbers = GatherDimensionNumbers((1,), (0,), (0,))
    >>> gather(np.arange(6.0).reshape(3, 2), np.array([[2], [0]]), numbers, (1, 2))
    array([[4., 5.],
           [0., 1.]])
    """
    x, d = array_of(operand), dimension_numbers
    shape = shape_of(x)
    sizes = [operator.index(n) for n in slice_sizes]
    dropped = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    clip = mode is None or GatherScatterMode.from_any(mode) is not GatherScatterMode.FILL_OR_DROP
    position, inside = _positions(
        shape, start_indices, sizes, d.start_index_map,
        (d.operand_batching_dims, d.start_indices_batching_dims), clip,
    )  # fmt: skip
    if any(sizes[axis] != 1 for axis in dropped):
        raise ShapeError(f"slice_sizes={tuple(sizes)}{user_line()} has to be 1 along {dropped}.")
    blocks = shape_of(start_indices)[:-1]
    kept = tuple([n for axis, n in enumerate(sizes) if axis not in dropped])
    whole = (*blocks, *kept)
    flat = reshape(x, shape=(math.prod(shape),))
    if not math.prod(shape):
        raise ShapeError(f"gather{user_line()} needs an operand with elements.")
    spread = (*blocks, *sizes)
    positions = broadcast_to(select(inside, position, 0), shape=spread)
    gathered = getitem(flat, positions, index=Index((ARRAY,), unique=unique_indices))
    if not clip:
        fill = _fill(typeof(x).dtype) if fill_value is None else cast(fill_value, typeof(x).dtype)
        gathered = select(broadcast_to(inside, shape=spread), gathered, fill)
    gathered = reshape(gathered, shape=whole)
    offsets = _checked_axes("offset_dims", d.offset_dims, len(whole))
    if len(offsets) != len(kept):
        raise ArgumentError(
            f"offset_dims={offsets}{user_line()} names {len(offsets)} axes for blocks of {kept}."
        )
    rest = [axis for axis in range(len(whole)) if axis not in offsets]
    return _placed(gathered, (*rest, *offsets))


def _placed(x: Any, axes: tuple[int, ...]) -> Any:
    """The array with its axis i as axis axes[i]."""
    order = tuple([axes.index(i) for i in range(len(axes))])
    return x if order == tuple(range(len(axes))) else transpose(x, axes=order)


def _fill(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "fc":
        return dtype.type(np.nan)
    if dtype.kind == "b":
        return np.True_
    return dtype.type(np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max)


def _written(
    operand: Any,
    indices: Any,
    updates: Any,
    numbers: ScatterDimensionNumbers,
    unique: bool,
    mode: Any,
    write: Callable[[Any, Any, Any, Index], Any],
) -> Any:
    """The operand after a write of blocks; those that do not lie inside are written nowhere."""
    x, values, d = array_of(operand), array_of(updates), numbers
    shape, given = shape_of(x), shape_of(values)
    window = _checked_axes("update_window_dims", d.update_window_dims, len(given))
    absent = {*d.inserted_window_dims, *d.operand_batching_dims}
    kept = [axis for axis in range(len(shape)) if axis not in absent]
    if len(kept) != len(window):
        raise ArgumentError(
            f"update_window_dims={window}{user_line()} names {len(window)} axes, but blocks have "
            f"{len(kept)}: the axes of the operand without inserted_window_dims."
        )
    sizes = [1] * len(shape)
    for axis, of in zip(kept, window, strict=True):
        sizes[axis] = given[of]
    blocks = shape_of(array_of(indices))[:-1]
    rest = [axis for axis in range(len(given)) if axis not in window]
    if tuple([given[axis] for axis in rest]) != tuple(blocks):
        raise ShapeError(
            f"Updates of shape {given}{user_line()} have to have the axes {tuple(blocks)} of the "
            f"indices beside those of a block, {window}."
        )
    mode = GatherScatterMode.from_any(mode)
    clip = mode is GatherScatterMode.CLIP
    position, inside = _positions(
        shape, indices, sizes, d.scatter_dims_to_operand_dims,
        (d.operand_batching_dims, d.scatter_indices_batching_dims), clip,
    )  # fmt: skip
    count = math.prod(shape)
    order = (*rest, *window)
    if order != tuple(range(len(order))):
        values = transpose(values, axes=order)
    spread = (*blocks, *sizes)
    values = cast(reshape(values, shape=spread), typeof(x).dtype)
    flat = reshape(x, shape=(count,))
    known = if_known(inside)
    if clip or (known is not None and known.all()):
        positions = broadcast_to(position, shape=spread)
        done = write(flat, values, positions, Index((ARRAY,), unique=unique))
        return reshape(done, shape=shape)
    # one more element, which takes what lies outside
    positions = broadcast_to(select(inside, position, count), shape=spread)
    longer = concatenate(flat, np.zeros(1, typeof(x).dtype), axis=0)
    done = write(longer, values, positions, Index((ARRAY,)))
    return reshape(done[:count], shape=shape)


def _scatter(name: str, what: str, write: Callable[..., Any], example: str) -> Callable[..., Any]:
    def function(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Any:
        def run(x: Any, values: Any, positions: Any, index: Index) -> Any:
            return write(x, values, positions, index=index)

        return _written(
            operand, scatter_indices, updates, dimension_numbers, unique_indices, mode, run
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The array with blocks of updates {what}, as jax.lax.{name}.

    Args:
      operand: an array.
      scatter_indices: integers; the last axis holds a start for each block.
      updates: the blocks, of the axes of the indices (but the last) and the block's; cast to the
        operand's dtype.
      dimension_numbers: a `ScatterDimensionNumbers`: which axes correspond.
      indices_are_sorted: accepted, and not used.
      unique_indices: whether no element is written twice.
      mode: a `GatherScatterMode`, or its name; by default blocks that lie outside are dropped.

    Raises:
      ArgumentError, ShapeError: if the arguments do not fit.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> {name}(np.ones(4), np.array([[1], [1], [7]]), np.array([3.0, 5.0, 9.0]), numbers)
    {example}
    """
    return function


scatter = _scatter(
    "scatter", "in place of its own, the last one of several", s.index_set,
    "array([1., 5., 1., 1.])",
)  # fmt: skip
scatter_add = _scatter("scatter_add", "added", s.index_add, "array([1., 9., 1., 1.])")
scatter_sub = _scatter(
    "scatter_sub", "subtracted",
    lambda x, v, positions, index: s.index_add(x, neg(v), positions, index=index),
    "array([ 1., -7.,  1.,  1.])",
)  # fmt: skip
scatter_mul = _scatter("scatter_mul", "multiplied", s.index_multiply, "array([ 1., 15.,  1.,  1.])")
scatter_min = _scatter(
    "scatter_min", "where they are smaller", s.index_min, "array([1., 1., 1., 1.])"
)
scatter_max = _scatter(
    "scatter_max", "where they are larger", s.index_max, "array([1., 5., 1., 1.])"
)


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """The array with a function applied to blocks, as jax.lax.scatter_apply.

    Args:
      operand: an array.
      scatter_indices: integers; the last axis holds a start for each block.
      func: an elementwise function; it is applied as often as an element is named.
      dimension_numbers: a `ScatterDimensionNumbers`: which axes correspond.
      update_shape: the shape that updates would have.
      indices_are_sorted: accepted, and not used.
      unique_indices: whether no element is named twice.
      mode: a `GatherScatterMode`, or its name; by default blocks that lie outside are dropped.

    Raises:
      ArgumentError, ShapeError: if the arguments do not fit.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_apply(np.arange(3.0), np.array([[1], [1]]), np.exp, numbers, update_shape=(2,))
    array([ 0.        , 15.15426224,  2.        ])
    """
    x = array_of(operand)
    times = scatter_add(
        np.zeros(shape_of(x), np.intp), scatter_indices, np.ones(tuple(update_shape), np.intp),
        dimension_numbers, unique_indices=unique_indices, mode=mode,
    )  # fmt: skip

    def once(i: Any, y: Any) -> Any:
        return select(times > i, cast(func(y), typeof(x).dtype), y)

    if unique_indices:
        return once(0, x)
    most = if_known(times)
    if most is None:
        return fori_loop(0, np.max(times, initial=0), once, x)
    for i in range(np.max(most, initial=0)):
        x = once(i, x)
    return x


__all__ = [
    "GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers", "gather",
    "scatter", "scatter_add", "scatter_apply", "scatter_max", "scatter_min", "scatter_mul",
    "scatter_sub",
]  # fmt: skip
