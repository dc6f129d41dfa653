"""JAX's slices with traced starts, padding and shapes: compositions with JAX's signatures.

Starts follow JAX: a negative one counts from the end; then it is moved so that the slice lies
within the array (NumPy would cut the slice, or raise).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.numpy.protocol.implements import as_array
from fungrad.numpy.protocol.operands import are_zeros, array_of, axis_index
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement import scatter
from fungrad.primitives.movement.gather import ARRAY, Index, getitem
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, shape_of, typeof

# --- dynamic slices -------------------------------------------------------------------------------


def _start(index: Any, length: int, size: int) -> Any:
    """The start of a slice of `size`, within the axis: an int, or a tracer."""
    if not 0 <= size <= length:
        raise ShapeError(f"A slice of {size} elements of an axis of length {length}{user_line()}.")
    index = as_array(index)
    type_ = typeof(index)
    if type_.shape or type_.dtype.kind not in "iub":
        raise ArgumentError(f"A start of a slice has to be one integer, not {type_}{user_line()}.")
    if type(index) is Tracer:
        wrapped = np.where(np.less(index, 0), np.add(index, length), index)
        return np.clip(wrapped, 0, length - size)
    start = int(index)
    return min(max(start + length if start < 0 else start, 0), length - size)


def _starts(indices: Any, shape: tuple[int, ...], sizes: Sequence[int]) -> list[Any]:
    if not len(indices) == len(sizes) == len(shape):
        raise ArgumentError(
            f"{len(indices)} starts and {len(sizes)} sizes for an array of shape {shape}"
            f"{user_line()}: one of each is needed for each axis."
        )
    given = [indices[i] for i in range(len(shape))]
    return [_start(i, n, k) for i, n, k in zip(given, shape, sizes, strict=True)]


def _stretch(x: Any, start: Any, size: int, axis: int) -> Any:
    if size == shape_of(x)[axis]:
        return x
    if type(start) is int:
        return s.slice_axis(x, axis=axis, start=start, stop=start + size)
    indices = start + np.arange(size)
    return getitem(x, indices, index=Index((*[slice(None)] * axis, ARRAY), unique=True))


def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Sequence[int]) -> Any:
    """A block of an array at a position that may be traced.

    Args:
      operand: an array. start_indices: one integer for each axis, traced or not; moved so that the
        block lies within the array. slice_sizes: the shape of the block, Python integers.

    >>> dynamic_slice(np.arange(5.0), [4], [2])
    array([3., 4.])
    """
    x = array_of(operand)
    sizes = [operator.index(n) for n in slice_sizes]
    for axis, start in enumerate(_starts(start_indices, shape_of(x), sizes)):
        x = _stretch(x, start, sizes[axis], axis)
    return x


def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0) -> Any:
    """`dynamic_slice` along one axis; the others stay whole.

    Args:
      operand: an array of any shape and dtype.
      start_index: an integer, which may be traced; clipped so that the slice is inside.
      slice_size: the length of the slice, an int.
      axis: the axis to slice.

    >>> dynamic_slice_in_dim(np.arange(5.0), 1, 2)
    array([1., 2.])
    """
    x = array_of(operand)
    axis = axis_index(axis, len(shape_of(x)))
    size = operator.index(slice_size)
    return _stretch(x, _start(start_index, shape_of(x)[axis], size), size, axis)


def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Any:
    """The item `index` along an axis, which keeps length 1 unless `keepdims` is false.

    Args:
      operand: an array of any shape and dtype.
      index: an integer, which may be traced; clipped to the array.
      axis: the axis of the item.
      keepdims: whether the axis stays, with length 1.

    >>> float(dynamic_index_in_dim(np.arange(5.0), 9, keepdims=False))
    4.0
    """
    sliced = dynamic_slice_in_dim(operand, index, 1, axis)
    return sliced if keepdims else np.squeeze(sliced, axis)


def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> Any:
    """The array with a block replaced, at a position that may be traced.

    Args:
      operand: an array. update: the block, with as many axes, none longer; cast to operand's dtype.
      start_indices: one integer for each axis; moved so that the block lies within the array.

    >>> dynamic_update_slice(np.zeros(4), np.ones(2), [3])
    array([0., 0., 1., 1.])
    """
    x, block = array_of(operand), array_of(update)
    block = s.cast(block, x.dtype)
    sizes = shape_of(block)
    entries: list[Any] = []
    arrays: list[Any] = []
    starts = _starts(start_indices, shape_of(x), sizes)
    known = all(type(start) is int for start in starts)
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if known:
            entries.append(slice(start, start + size))
        else:
            entries.append(ARRAY)
            mesh = np.arange(size).reshape((-1, *(1,) * (len(sizes) - axis - 1)))
            arrays.append(start + mesh)
    return scatter.index_set(x, block, *arrays, index=Index(tuple(entries), unique=True))


def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int) -> Any:
    """`dynamic_update_slice` at `start_index` along one axis and at 0 along the others.

    Args:
      operand: an array of any shape and dtype.
      update: an array of as many axes, of the operand's dtype.
      start_index: an integer, which may be traced; clipped so that the update is inside.
      axis: the axis to which the index belongs.

    >>> dynamic_update_slice_in_dim(np.zeros(4), np.ones(2), 1, 0)
    array([0., 1., 1., 0.])
    """
    ndim = len(shape_of(array_of(operand)))
    starts: list[Any] = [0] * ndim
    starts[axis_index(axis, ndim)] = start_index
    return dynamic_update_slice(operand, update, starts)


def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int) -> Any:
    """The array with the item `index` along an axis replaced by `update`.

    Args:
      operand: an array of any shape and dtype.
      update: the item: an array without the axis, or with length 1 there.
      index: an integer, which may be traced; clipped to the array.
      axis: the axis of the item.

    >>> dynamic_update_index_in_dim(np.zeros(3), 7.0, 1, 0)
    array([0., 7., 0.])
    """
    block = array_of(update)
    ndim = len(shape_of(array_of(operand)))
    if len(shape_of(block)) != ndim:
        block = np.expand_dims(block, axis_index(axis, ndim))
    return dynamic_update_slice_in_dim(operand, block, index, axis)


# --- shapes ---------------------------------------------------------------------------------------


def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """The array with axes of length 1 at the positions `dimensions` of the result.

    Args:
      array: an array of any shape and dtype.
      dimensions: axes of the result, negative ones from the end.

    >>> expand_dims(np.zeros(3), [0, 2]).shape
    (1, 3, 1)
    """
    return np.expand_dims(array_of(array), tuple(dimensions))


def broadcast_in_dim(
    operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Any:
    """The array broadcast to `shape`, with its axis i as axis broadcast_dimensions[i].

    Args:
      operand: an array of any shape and dtype.
      shape: of the result.
      broadcast_dimensions: for each axis of the operand one of the result, ascending.

    >>> broadcast_in_dim(np.array([1.0, 2.0]), (2, 2), [0])
    array([[1., 1.], [2., 2.]])
    """
    x = array_of(operand)
    wanted = tuple(broadcast_dimensions)
    if len(wanted) != len(shape_of(x)) or list(wanted) != sorted(set(wanted)):
        raise ArgumentError(
            f"broadcast_dimensions={wanted} of an array of shape {shape_of(x)}{user_line()}: one "
            "axis of the result is needed for each of the array, in ascending order."
        )
    lengths = [1] * len(shape)
    for axis, length in zip(wanted, shape_of(x), strict=True):
        lengths[axis] = length
    return s.broadcast_to(s.reshape(x, shape=tuple(lengths)), shape=tuple(shape))


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """The elements in reverse order along the axes `dimensions`.

    Args:
      operand: an array of any shape and dtype.
      dimensions: the axes to reverse.

    >>> rev(np.arange(3.0), [0])
    array([2., 1., 0.])
    """
    return np.flip(array_of(operand), tuple(dimensions))


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """The arrays joined along the axis `dimension`.

    Args:
      operands: arrays of one dtype, whose shapes agree but for that axis.
      dimension: the axis to join along.

    >>> concatenate([np.zeros(1), np.ones(2)], 0)
    array([0., 1., 1.])
    """
    return np.concatenate([array_of(x) for x in operands], axis=dimension)


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """The array padded with a value around and between its elements.

    Args:
      operand: an array. padding_value: one number, traced or not.
      padding_config: (before, after, between) for each axis; negative ones cut elements off.

    >>> pad(np.array([1.0, 2.0]), 0.0, [(1, -1, 2)])
    array([0., 1., 0., 0.])
    """
    x = array_of(operand)
    if len(padding_config) != len(shape_of(x)):
        raise ArgumentError(
            f"{len(padding_config)} triples of padding for an array of shape {shape_of(x)}"
            f"{user_line()}."
        )
    config = [tuple(operator.index(n) for n in triple) for triple in padding_config]
    if not any(any(triple) for triple in config):
        return x
    filled = _zero_padded(x, config)
    if are_zeros(padding_value):
        return filled
    mask = _zero_padded(np.ones(shape_of(x), np.bool_), config)
    value = s.cast(padding_value, x.dtype)
    return np.where(mask, filled, value)


def _zero_padded(x: Any, config: Sequence[Sequence[int]]) -> Any:
    for axis, (_, _, between) in enumerate(config):
        shape = shape_of(x)
        if between and shape[axis] > 1:
            lead = shape[: axis + 1]
            x = s.reshape(x, shape=(*lead, 1, *shape[axis + 1 :]))
            widths = [(0, 0)] * len(shape_of(x))
            widths[axis + 1] = (0, between)
            n = shape[axis] * (between + 1)
            x = s.reshape(
                s.pad(x, widths=tuple(widths)), shape=(*shape[:axis], n, *shape[axis + 1 :])
            )
            x = s.slice_axis(x, axis=axis, start=0, stop=n - between)
    for axis, (before, after, _) in enumerate(config):
        length = shape_of(x)[axis]
        if length + min(before, 0) + min(after, 0) < 0:
            raise ShapeError(f"Padding {(before, after)} of an axis of length {length}.")
        if before < 0 or after < 0:
            x = s.slice_axis(x, axis=axis, start=max(-before, 0), stop=length + min(after, 0))
    widths = [(max(before, 0), max(after, 0)) for before, after, _ in config]
    return s.pad(x, widths=tuple(widths)) if any(map(any, widths)) else x


def iota(dtype: Any, size: int) -> Any:
    """0, 1, 2, ... in a dtype.

    Args:
      dtype: a real dtype.
      size: the number of elements.

    >>> iota(np.float32, 3)
    array([0., 1., 2.], dtype=float32)
    """
    return np.arange(size, dtype=dtype)


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int) -> Any:
    """An array of the given shape that holds each element's index along `dimension`.

    Args:
      dtype: a real dtype.
      shape: of the result.
      dimension: the axis whose indices it holds.

    >>> broadcasted_iota(int, (2, 2), 0)
    array([[0, 0], [1, 1]])
    """
    axis = axis_index(dimension, len(shape))
    column = np.arange(shape[axis], dtype=dtype)
    return np.broadcast_to(column.reshape((-1, *(1,) * (len(shape) - axis - 1))), tuple(shape))


__all__ = [
    "broadcast_in_dim", "broadcasted_iota", "concatenate", "dynamic_index_in_dim",
    "dynamic_slice", "dynamic_slice_in_dim", "dynamic_update_index_in_dim",
    "dynamic_update_slice", "dynamic_update_slice_in_dim", "expand_dims", "iota", "pad", "rev",
]  # fmt: skip
