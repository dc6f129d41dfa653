"""JAX's lax on shapes and dtypes: NumPy's functions by JAX's names and signatures."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.numpy.protocol.operands import array_of, axis_index, sizes
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement.gather import Index, getitem
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of

_slice = builtins.slice

# --- shapes ---------------------------------------------------------------------------------------


def reshape(
    operand: Any, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, *,
    out_sharding: None = None,
) -> Any:  # fmt: skip
    """The elements in the shape `new_sizes`, with the axes first transposed to `dimensions`.

    Args:
      operand: an array of any shape and dtype.
      new_sizes: the shape of the result, of as many elements.
      dimensions: an order of the operand's axes; None for their own.
      out_sharding: None.

    >>> reshape(np.array([[1.0, 2.0], [3.0, 4.0]]), (4,), (1, 0))
    array([1., 3., 2., 4.])
    """
    x = array_of(operand)
    return np.reshape(x if dimensions is None else np.transpose(x, tuple(dimensions)), new_sizes)


def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """The array without the axes `dimensions`, which have length 1.

    Args:
      array: an array of any shape and dtype.
      dimensions: the axes to remove, negative ones from the end.

    >>> squeeze(np.ones((1, 2, 1)), (0,)).shape
    (2, 1)
    """
    return np.squeeze(array_of(array), tuple(dimensions))


def transpose(operand: Any, permutation: Sequence[int]) -> Any:
    """The array with its axes in the order `permutation`.

    Args:
      operand: an array of any shape and dtype.
      permutation: for each axis of the result that of the operand.

    >>> transpose(np.ones((2, 3)), (1, 0)).shape
    (3, 2)
    """
    return np.transpose(array_of(operand), tuple(permutation))


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """The array with the axes from `start_dimension` to before `stop_dimension` merged into one.

    Args:
      operand: an array of any shape and dtype.
      start_dimension: the first axis to merge.
      stop_dimension: the axis after the last one to merge; None for the number of axes.

    >>> collapse(np.ones((2, 3, 4)), 1).shape
    (2, 12)
    """
    x = array_of(operand)
    shape = shape_of(x)
    first, stop, _ = _slice(start_dimension, stop_dimension).indices(len(shape))
    if first > stop:
        raise ArgumentError(f"lax.collapse of the axes {first} to {stop}{user_line()}.")
    length = int(np.prod(shape[first:stop], dtype=int))
    return s.reshape(x, shape=(*shape[:first], length, *shape[stop:]))


def broadcast(operand: Any, sizes: Sequence[int], *, out_sharding: None = None) -> Any:
    """The array repeated along new leading axes of lengths `sizes`.

    Args:
      operand: an array of any shape and dtype.
      sizes: the lengths of the new axes.
      out_sharding: None.

    >>> broadcast(np.ones(3), (2,)).shape
    (2, 3)
    """
    x = array_of(operand)
    return s.broadcast_to(x, shape=(*map(operator.index, sizes), *shape_of(x)))


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """The array with leading axes of length 1 added, so that it has `rank` axes.

    Args:
      x: an array of any shape and dtype.
      rank: the number of axes, at least that of x.

    >>> broadcast_to_rank(np.ones(3), 3).shape
    (1, 1, 3)
    """
    x = array_of(x)
    missing = rank - len(shape_of(x))
    if missing < 0:
        raise ShapeError(f"lax.broadcast_to_rank of {shape_of(x)} to {rank} axes{user_line()}.")
    return s.reshape(x, shape=(*(1,) * missing, *shape_of(x))) if missing else x


def broadcast_like(arr: Any, like_arr: Any) -> Any:
    """The array broadcast to another one's shape.

    Args:
      arr: an array that broadcasts to the other's shape.
      like_arr: the array with the shape of the result.

    >>> broadcast_like(np.ones(3), np.ones((2, 3))).shape
    (2, 3)
    """
    return np.broadcast_to(array_of(arr), shape_of(array_of(like_arr)))


broadcast_shapes = np.broadcast_shapes

# --- parts ----------------------------------------------------------------------------------------


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """A block of an array, from starts to before limits, in steps of `strides`.

    Args:
      operand: an array. start_indices, limit_indices, strides: one integer for each axis, not
        traced; limits may not exceed the lengths.

    Raises:
      ArgumentError: if their number is wrong, or they lie outside the array.

    >>> slice(np.arange(6.0), (1,), (6,), (2,))
    array([1., 3., 5.])
    """
    x = array_of(operand)
    shape = shape_of(x)
    steps = (1,) * len(shape) if strides is None else tuple(strides)
    if not len(start_indices) == len(limit_indices) == len(steps) == len(shape):
        raise ArgumentError(
            f"lax.slice of an array of shape {shape}{user_line()} needs one start, limit and "
            "stride for each axis."
        )
    entries = []
    for n, *bounds in zip(shape, start_indices, limit_indices, steps, strict=True):
        start, limit, step = map(operator.index, bounds)
        if not 0 <= start <= limit <= n or step < 1:
            raise ArgumentError(
                f"lax.slice from {start} to {limit} in steps of {step}{user_line()} of an axis of "
                f"length {n}."
            )
        entries.append(_slice(start, limit, step))
    return getitem(x, index=Index(tuple(entries)))


def slice_in_dim(
    operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Any:
    """A slice along one axis, with Python's meaning of negative and missing bounds.

    Args:
      operand: an array of any shape and dtype.
      start_index, limit_index: the bounds, as in `operand[start_index:limit_index]`; None for an
        end.
      stride: the step, positive.
      axis: the axis to slice.

    >>> slice_in_dim(np.arange(5.0), -3, None)
    array([2., 3., 4.])
    """
    x = array_of(operand)
    axis = axis_index(axis, len(shape_of(x)))
    entries = (*[_slice(None)] * axis, _slice(start_index, limit_index, stride))
    return getitem(x, index=Index(entries))


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """The item `index` along an axis, which keeps length 1 unless `keepdims` is false.

    Args:
      operand: an array of any shape and dtype.
      index: an int; negative ones count from the end.
      axis: the axis of the item.
      keepdims: whether the axis stays, with length 1.

    >>> float(index_in_dim(np.arange(5.0), -1, keepdims=False))
    4.0
    """
    x = array_of(operand)
    item = np.take(x, operator.index(index), axis)
    return np.expand_dims(item, axis) if keepdims else item


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """The array cut along an axis into pieces of lengths `sizes`, which have to add up to its own.

    Args:
      operand: an array of any shape and dtype.
      sizes: the lengths of the pieces.
      axis: the axis to cut.

    >>> [piece.tolist() for piece in split(np.arange(3), (1, 2))]
    [[0], [1, 2]]
    """
    x = array_of(operand)
    axis = axis_index(axis, len(shape_of(x)))
    if sum(sizes) != shape_of(x)[axis] or min(sizes, default=0) < 0:
        raise ArgumentError(
            f"lax.split of an axis of length {shape_of(x)[axis]} into {tuple(sizes)}{user_line()}."
        )
    return list(np.split(x, np.cumsum(sizes)[:-1], axis))


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """The arrays, of one shape, stacked along a new axis.

    Args:
      operands: arrays of one shape and dtype.
      axis: the position of the new axis in the result.

    >>> stack([np.zeros(2), np.ones(2)], axis=1)
    array([[0., 1.], [0., 1.]])
    """
    return np.stack([array_of(x) for x in operands], axis=axis)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The items of an array along an axis, which they lack.

    Args:
      x: an array of any shape and dtype.
      axis: the axis of the items.

    >>> [item.tolist() for item in unstack(np.ones((2, 1)))]
    [[1.0], [1.0]]
    """
    x = s.moveaxis(array_of(x), axis_index(axis, len(shape_of(array_of(x)))), 0)
    return tuple([x[i] for i in range(shape_of(x)[0])])


def tile(operand: Any, reps: Sequence[int]) -> Any:
    """The array repeated `reps[i]` times along axis i.

    Args:
      operand: an array of any shape and dtype.
      reps: an int for each axis.

    >>> tile(np.array([1.0, 2.0]), (2,))
    array([1., 2., 1., 2.])
    """
    return np.tile(array_of(operand), tuple(reps))


def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Any, Any]:
    """The keys sorted along an axis, and the values in the same order.

    Args:
      keys: an array of comparable numbers.
      values: an array of the same shape.
      dimension: the axis to sort along.
      is_stable: whether equal keys stay in their order; they always do.

    >>> sort_key_val(np.array([2, 1]), np.array([5.0, 6.0]))
    (array([1, 2]), array([6., 5.]))
    """
    keys, values = array_of(keys), array_of(values)
    order = np.argsort(keys, axis=dimension, kind="stable")
    return np.take_along_axis(keys, order, dimension), np.take_along_axis(values, order, dimension)


# --- filled, cast ---------------------------------------------------------------------------------


def full(shape: Any, fill_value: Any, dtype: Any = None, *, sharding: None = None) -> Any:
    """An array filled with one value, which may be traced; `sharding` is ignored.

    Args:
      shape: of the result.
      fill_value: a number, or an array that broadcasts to the shape.
      dtype: of the result; None for that of the value.
      sharding: ignored.

    >>> full((2,), 3.0)
    array([3., 3.])
    """
    fill = array_of(fill_value)
    return s.broadcast_to(fill if dtype is None else s.cast(fill, dtype), shape=sizes(shape))


def full_like(
    x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, sharding: None = None
) -> Any:
    """An array filled with one value, by default of the shape and dtype of x.

    Args:
      x: an array.
      fill_value: a number, or an array that broadcasts to the shape.
      dtype, shape: of the result; None for those of x.
      sharding: ignored.

    >>> full_like(np.ones(2, np.float32), 3).dtype
    dtype('float32')
    """
    x = array_of(x)
    return full(shape_of(x) if shape is None else shape, fill_value, dtype or x.dtype)


def empty(shape: Any, dtype: Any, *, out_sharding: None = None) -> Any:
    """A new NumPy array with undefined values, to be written to.

    Args:
      shape: of the result.
      dtype: of the result.
      out_sharding: None.

    >>> empty((2,), np.float32).shape
    (2,)
    """
    return np.empty(sizes(shape), dtype)


def dtype(x: Any) -> np.dtype[Any]:
    """The dtype of a value, traced or not.

    Args:
      x: an array, a number or a traced value.

    >>> dtype(1.0)
    dtype('float64')
    """
    found: np.dtype[Any] = array_of(x).dtype
    return found


def convert_element_type(operand: Any, new_dtype: Any) -> Any:
    """The array cast to another dtype.

    Args:
      operand: an array or a number.
      new_dtype: a dtype, or a type of Python's; complex numbers lose their imaginary parts.

    >>> convert_element_type(np.ones(2), np.float32).dtype
    dtype('float32')
    """
    return s.cast(array_of(operand), np.dtype(new_dtype))


__all__ = [
    "broadcast", "broadcast_like", "broadcast_shapes", "broadcast_to_rank", "collapse",
    "convert_element_type", "dtype", "empty", "full", "full_like", "index_in_dim", "reshape",
    "slice", "slice_in_dim", "sort_key_val", "split", "squeeze", "stack", "tile", "transpose",
    "unstack",
]  # fmt: skip
