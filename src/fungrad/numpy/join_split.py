"""NumPy's functions that join and split arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.numpy.mutation.views import views
from fungrad.numpy.protocol.implements import implements
from fungrad.numpy.protocol.operands import array_of, axis_index, promoted
from fungrad.numpy.protocol.result_order import with_layout, with_numpy_layout
from fungrad.numpy.shaping import at_least, reshaped
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement import stack_iota
from fungrad.tracing.aliasing import private
from fungrad.tracing.memory_order import one_order
from fungrad.tracing.trace import Tracer

# --- joining --------------------------------------------------------------------------------------


def _sequence(arrays: Any) -> list[Any]:
    """The items of a sequence of arrays (of a traced array, its parts along axis 0)."""
    if type(arrays) is Tracer:
        return list(stack_iota.unstack(arrays))
    return [array_of(x) for x in arrays]


def _joined(arrays: list[Any], axis: int, dtype: Any = None) -> Any:
    if len(arrays) == 1 and dtype is None:
        axis_index(axis, len(arrays[0].shape))
        return private(arrays[0])
    return s.concatenate(*promoted(arrays, dtype), axis=axis_index(axis, len(arrays[0].shape)))


@implements(np.concatenate, np.concat)
def concatenate(
    arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None,
    casting: str | None = None,
) -> Any:  # fmt: skip
    """Arrays joined along an axis that they have, as np.concatenate."""
    parts = _sequence(arrays)
    if not parts:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        return _joined([reshaped(x, (-1,), "C") for x in parts], 0, dtype)
    if not parts[0].shape:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    return _joined(parts, axis, dtype)


@implements(np.stack)
def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str | None = None
) -> Any:
    """Arrays of one shape joined along a new axis, as np.stack."""
    parts = _sequence(arrays)
    if not parts:
        raise ValueError("need at least one array to stack")
    shape = parts[0].shape
    for part in parts:
        if part.shape != shape:
            raise ShapeError(
                f"stack needs arrays of one shape, but got {sorted({p.shape for p in parts})}."
            )
    axis = axis_index(axis, len(shape) + 1)
    stacked = s.moveaxis(stack_iota.stack(*promoted(parts, dtype)), 0, axis)
    if one_order(shape):
        return stacked if axis == 0 else with_layout(stacked, None)
    return with_numpy_layout(lambda *examples: np.stack(examples, axis), stacked, parts)


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str | None = None) -> Any:
    """Arrays joined along axis 1 (axis 0 for vectors), as np.hstack."""
    parts = [at_least(x, 1) for x in _sequence(tup)]
    return _joined(parts, 0 if len(parts[0].shape) == 1 else 1, dtype)


@implements(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str | None = None) -> Any:
    """Arrays joined along axis 0, vectors as rows, as np.vstack."""
    return _joined([at_least(x, 2) for x in _sequence(tup)], 0, dtype)


@implements(np.dstack)
def dstack(tup: Any) -> Any:
    """Arrays joined along a third axis, as np.dstack."""
    return _joined([at_least(x, 3) for x in _sequence(tup)], 2)


@implements(np.column_stack)
def column_stack(tup: Any) -> Any:
    """Vectors (and matrices) joined as columns, as np.column_stack."""
    columns = [s.reshape(x, shape=(x.size, 1)) if len(x.shape) < 2 else x for x in _sequence(tup)]
    return _joined(columns, 1)


@implements(np.block)
def block(arrays: Any) -> Any:
    """An array put together from nested lists of blocks, as np.block."""
    depth = _depth(arrays)
    ndim = max(depth, _largest_ndim(arrays))
    return _blocked(arrays, depth, ndim)


def _depth(arrays: Any) -> int:
    return 1 + max([_depth(x) for x in arrays]) if isinstance(arrays, list) else 0


def _largest_ndim(arrays: Any) -> int:
    if isinstance(arrays, list):
        return max([_largest_ndim(x) for x in arrays])
    return len(array_of(arrays).shape)


def _blocked(arrays: Any, depth: int, ndim: int) -> Any:
    if not isinstance(arrays, list):
        x = array_of(arrays)
        return s.reshape(x, shape=(1,) * (ndim - len(x.shape)) + x.shape)
    return _joined([_blocked(x, depth - 1, ndim) for x in arrays], ndim - depth)


@implements(np.append)
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """Values joined to the end of an array, as np.append."""
    if axis is None:
        return _joined([reshaped(array_of(x), (-1,), "C") for x in (arr, values)], 0)
    return _joined([array_of(arr), array_of(values)], axis)


# --- splitting ------------------------------------------------------------------------------------


def _cut(x: Any, points: Sequence[int], axis: int) -> list[Any]:
    """The parts between points, which are read as bounds of slices."""
    length = x.shape[axis]
    pieces = []
    for low, high in zip((0, *points), (*points, length), strict=True):
        start, stop, _ = slice(low, high).indices(length)
        pieces.append(s.slice_axis(x, axis=axis, start=start, stop=max(start, stop)))
    return pieces


@implements(np.array_split)
@views
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """The array cut along an axis, into nearly equal parts or at indices, as np.array_split."""
    return _array_split(ary, indices_or_sections, axis)


def _array_split(ary: Any, indices_or_sections: Any, axis: int) -> list[Any]:
    x = array_of(ary)
    axis = axis_index(axis, len(x.shape))
    if hasattr(indices_or_sections, "__len__"):
        return _cut(x, [operator.index(i) for i in indices_or_sections], axis)
    count = operator.index(indices_or_sections)
    if count <= 0:
        raise ValueError("number sections must be larger than 0.")
    each, extra = divmod(x.shape[axis], count)
    points = [i * each + min(i, extra) for i in range(1, count)]
    return _cut(x, points, axis)


def _split(ary: Any, indices_or_sections: Any, axis: int) -> list[Any]:
    x = array_of(ary)
    if not hasattr(indices_or_sections, "__len__") and x.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return _array_split(x, indices_or_sections, axis)


@implements(np.split)
@views
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """The array cut along an axis, into equal parts or at indices, as np.split."""
    return _split(ary, indices_or_sections, axis)


@implements(np.hsplit)
@views
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """The array split along axis 1 (axis 0 for vectors), as np.hsplit."""
    return _split(ary, indices_or_sections, 0 if len(np.shape(ary)) == 1 else 1)


@implements(np.vsplit)
@views
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """The array split along axis 0, as np.vsplit."""
    return _split(ary, indices_or_sections, 0)


@implements(np.dsplit)
@views
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """The array split along axis 2, as np.dsplit."""
    return _split(ary, indices_or_sections, 2)


@views
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The parts along an axis as a tuple, as np.unstack."""
    x = array_of(x)
    return tuple(stack_iota.unstack(s.moveaxis(x, axis_index(axis, len(x.shape)), 0)))


if hasattr(np, "unstack"):  # of NumPy 2.1
    unstack = implements(np.unstack)(unstack)


__all__ = [
    "append", "array_split", "block", "column_stack", "concatenate", "dsplit", "dstack", "hsplit",
    "hstack", "split", "stack", "unstack", "vsplit", "vstack",
]  # fmt: skip
