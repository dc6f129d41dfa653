"""Floor 8: NumPy's functions that change the shape and order of axes, and join or split arrays.

Knows NumPy's ways of naming shapes and axes; the elements are moved by primitives/shaping.py and
arranging.py. Functions that repeat, pad, roll or mask elements stand in rearranging.py.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.numpy.prepare import (
    array_of,
    axis_index,
    axis_indices,
    complete_shape,
    promoted,
    sizes,
)
from fungrad.numpy.wrap import implements, refuse
from fungrad.primitives import shaping as s
from fungrad.primitives import stacking
from fungrad.primitives.shaping import cast
from fungrad.tracing.trace import Tracer, registry, shape_of

# --- shape, order of axes ------------------------------------------------------------------------------


def _reshaped(x: Any, shape: tuple[int, ...], order: str) -> Any:
    found = x.shape
    new = complete_shape(shape, found)
    if order == "F":
        if len(found) > 1:
            x = s.transpose(x, axes=tuple(range(len(found)))[::-1])
        x = s.reshape(x, shape=new[::-1])
        return s.transpose(x, axes=tuple(range(len(new)))[::-1]) if len(new) > 1 else x
    if order not in ("C", "A"):
        raise ValueError(f"order must be one of 'C', 'F', 'A' (got {order!r})")
    return s.reshape(x, shape=new)


@implements(np.reshape)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, copy: bool | None = None) -> Any:
    """The elements in another shape, one entry of which may be -1, as np.reshape."""
    return _reshaped(array_of(a), sizes(shape), order)


def _reshape_method(self: Tracer, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
    return _reshaped(self, sizes(shape[0] if len(shape) == 1 else shape), order)


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Any:
    """The elements along one axis, as np.ravel."""
    return _reshaped(array_of(a), (-1,), "C" if order == "K" else order)


@implements(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Any:
    """The axes in another order (reversed by default), as np.transpose."""
    a = array_of(a)
    ndim = len(a.shape)
    if axes is None:
        return a if ndim < 2 else s.transpose(a, axes=tuple(range(ndim - 1, -1, -1)))
    order = axis_indices(tuple(axes), ndim)
    if len(order) != ndim:
        raise ValueError("axes don't match array")
    return s.transpose(a, axes=order)


def _transpose_method(self: Tracer, *axes: Any) -> Any:
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        return transpose(self, axes[0])
    return transpose(self, axes or None)


def _reversed_axes(self: Tracer) -> Any:
    """The array with its axes in reverse order."""
    ndim = len(self.shape)
    return self if ndim < 2 else s.transpose(self, axes=tuple(range(ndim - 1, -1, -1)))


@implements(np.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged, as np.matrix_transpose."""
    x = array_of(x)
    if len(x.shape) < 2:
        raise ValueError(
            f"Input array must be at least 2-dimensional, but it is {len(x.shape)}-dimensional"
        )
    return swapaxes(x, -2, -1)


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged, as np.swapaxes."""
    a = array_of(a)
    axes = list(range(len(a.shape)))
    first, second = axis_index(axis1, len(axes)), axis_index(axis2, len(axes))
    if first == second:
        return a
    axes[first], axes[second] = second, first
    return s.transpose(a, axes=tuple(axes))


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Axes moved to other places, as np.moveaxis."""
    a = array_of(a)
    ndim = len(a.shape)
    sources, destinations = axis_indices(source, ndim), axis_indices(destination, ndim)
    if len(sources) != len(destinations):
        raise ValueError(
            "`source` and `destination` arguments must have the same number of elements"
        )
    order = [i for i in range(ndim) if i not in sources]
    for place, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, axis)
    return a if order == list(range(ndim)) else s.transpose(a, axes=tuple(order))


@implements(np.rollaxis)
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """One axis moved to stand before the axis `start`, as np.rollaxis."""
    a = array_of(a)
    ndim = len(a.shape)
    source = axis_index(axis, ndim)
    target = start + ndim if start < 0 else operator.index(start)
    if not 0 <= target <= ndim:
        raise np.exceptions.AxisError(start, ndim)
    return s.moveaxis(a, source, target - 1 if source < target else target)


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Any:
    """Axes of length 1 put in, as np.expand_dims."""
    a = array_of(a)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    places = axis_indices(axis, len(a.shape) + count)
    rest = iter(a.shape)
    shape = tuple([1 if i in places else next(rest) for i in range(len(a.shape) + count)])
    return s.reshape(a, shape=shape)


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Any:
    """Axes of length 1 taken out, as np.squeeze."""
    a = array_of(a)
    if axis is None:
        return s.reshape(a, shape=tuple([n for n in a.shape if n != 1])) if 1 in a.shape else a
    places = axis_indices(axis, len(a.shape))
    if any(a.shape[i] != 1 for i in places):
        raise ValueError(
            "cannot select an axis to squeeze out which has size not equal to one: shape "
            f"{a.shape}, axis {axis}"
        )
    return s.reshape(a, shape=tuple([n for i, n in enumerate(a.shape) if i not in places]))


# --- broadcasting ------------------------------------------------------------------------------------------


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    return x if x.shape == shape else s.broadcast_to(x, shape=shape)


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """The array repeated to a shape by NumPy's broadcasting, as np.broadcast_to."""
    return s.broadcast_to(array_of(array), shape=sizes(shape))


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    """The arrays repeated to their common shape, as np.broadcast_arrays."""
    arrays = [array_of(x) for x in args]
    shape = np.broadcast_shapes(*[x.shape for x in arrays])
    return tuple([_broadcast(x, shape) for x in arrays])


# --- joining -------------------------------------------------------------------------------------------------


def _sequence(arrays: Any) -> list[Any]:
    """The items of a sequence of arrays (the parts along axis 0, where it is itself an array)."""
    if arrays.__class__ is Tracer:
        return list(stacking.unstack(arrays))
    return [array_of(x) for x in arrays]


def _joined(arrays: list[Any], axis: int, dtype: Any = None) -> Any:
    if len(arrays) == 1 and dtype is None:
        axis_index(axis, len(arrays[0].shape))
        return arrays[0]
    return s.concatenate(*promoted(arrays, dtype), axis=axis_index(axis, len(arrays[0].shape)))


@implements(np.concatenate, np.concat)
def concatenate(
    arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None,
    casting: str | None = None,
) -> Any:  # fmt: skip
    """Arrays joined along an axis that they have, as np.concatenate."""
    refuse("concatenate", out=out)
    parts = _sequence(arrays)
    if not parts:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        return _joined([_reshaped(x, (-1,), "C") for x in parts], 0, dtype)
    if not parts[0].shape:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    return _joined(parts, axis, dtype)


@implements(np.stack)
def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str | None = None
) -> Any:
    """Arrays of one shape joined along a new axis, as np.stack."""
    refuse("stack", out=out)
    parts = _sequence(arrays)
    if not parts:
        raise ValueError("need at least one array to stack")
    shape = parts[0].shape
    for part in parts:
        if part.shape != shape:
            raise ShapeError(
                f"stack needs arrays of one shape, but got {sorted({p.shape for p in parts})}."
            )
    return s.moveaxis(stacking.stack(*promoted(parts, dtype)), 0, axis_index(axis, len(shape) + 1))


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str | None = None) -> Any:
    """Arrays joined along axis 1 (axis 0 for vectors), as np.hstack."""
    parts = [_at_least(x, 1) for x in _sequence(tup)]
    return _joined(parts, 0 if len(parts[0].shape) == 1 else 1, dtype)


@implements(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str | None = None) -> Any:
    """Arrays joined along axis 0, vectors as rows, as np.vstack."""
    return _joined([_at_least(x, 2) for x in _sequence(tup)], 0, dtype)


@implements(np.dstack)
def dstack(tup: Any) -> Any:
    """Arrays joined along a third axis, as np.dstack."""
    return _joined([_at_least(x, 3) for x in _sequence(tup)], 2)


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
        return _joined([_reshaped(array_of(x), (-1,), "C") for x in (arr, values)], 0)
    return _joined([array_of(arr), array_of(values)], axis)


# --- splitting ------------------------------------------------------------------------------------------------


def _cut(x: Any, points: Sequence[int], axis: int) -> list[Any]:
    """The stretches between points, which are read as the bounds of slices are."""
    length = x.shape[axis]
    pieces = []
    for low, high in zip((0, *points), (*points, length), strict=True):
        start, stop, _ = slice(low, high).indices(length)
        pieces.append(s.slice_axis(x, axis=axis, start=start, stop=max(start, stop)))
    return pieces


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """The array cut along an axis, into nearly equal parts or at indices, as np.array_split."""
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


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """The array cut along an axis, into equal parts or at indices, as np.split."""
    x = array_of(ary)
    if not hasattr(indices_or_sections, "__len__") and x.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return array_split(x, indices_or_sections, axis)


@implements(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """The array split along axis 1 (axis 0 for vectors), as np.hsplit."""
    return split(ary, indices_or_sections, 0 if len(np.shape(ary)) == 1 else 1)


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """The array split along axis 0, as np.vsplit."""
    return split(ary, indices_or_sections, 0)


@implements(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """The array split along axis 2, as np.dsplit."""
    return split(ary, indices_or_sections, 2)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The parts along an axis as a tuple, as np.unstack."""
    x = array_of(x)
    return tuple(stacking.unstack(s.moveaxis(x, axis_index(axis, len(x.shape)), 0)))


if hasattr(np, "unstack"):  # of NumPy 2.1
    unstack = implements(np.unstack)(unstack)

# --- at least so many axes --------------------------------------------------------------------------------


def _at_least(x: Any, ndim: int) -> Any:
    shape = x.shape
    if len(shape) >= ndim:
        return x
    if ndim == 3:
        new = {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}[len(shape)]
    else:
        new = (1,) * (ndim - len(shape)) + shape
    return s.reshape(x, shape=new)


def _at_least_each(arrays: tuple[Any, ...], ndim: int) -> Any:
    results = tuple([_at_least(array_of(x), ndim) for x in arrays])
    return results[0] if len(results) == 1 else results


@implements(np.atleast_1d)
def atleast_1d(*arys: Any) -> Any:
    """Each array with at least one axis, as np.atleast_1d."""
    return _at_least_each(arys, 1)


@implements(np.atleast_2d)
def atleast_2d(*arys: Any) -> Any:
    """Each array with at least two axes, as np.atleast_2d."""
    return _at_least_each(arys, 2)


@implements(np.atleast_3d)
def atleast_3d(*arys: Any) -> Any:
    """Each array with at least three axes, as np.atleast_3d."""
    return _at_least_each(arys, 3)


# --- what is known without computing -----------------------------------------------------------------------


@implements(np.shape)
def shape(a: Any) -> tuple[int, ...]:
    """The shape, as np.shape."""
    return shape_of(array_of(a))


@implements(np.ndim)
def ndim(a: Any) -> int:
    """The number of axes, as np.ndim."""
    return len(shape_of(array_of(a)))


@implements(np.size)
def size(a: Any, axis: Any = None) -> int:
    """The number of elements, or the length of an axis, as np.size."""
    a = array_of(a)
    if axis is None:
        return int(a.size)
    length = 1
    for i in axis_indices(axis, len(a.shape)):
        length *= a.shape[i]
    return length


def _astype_method(
    self: Tracer, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
    copy: bool = True,
) -> Any:  # fmt: skip
    return cast(self, dtype)


METHODS: dict[str, Any] = {
    "T": property(_reversed_axes),
    "mT": property(registry.functions[np.matrix_transpose]),
    "flat": property(registry.functions[np.ravel]),
    "astype": _astype_method,
    "flatten": registry.functions[np.ravel],
    "ravel": registry.functions[np.ravel],
    "reshape": _reshape_method,
    "squeeze": registry.functions[np.squeeze],
    "swapaxes": registry.functions[np.swapaxes],
    "transpose": _transpose_method,
}

__all__ = [
    "append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "block", "broadcast_arrays",
    "broadcast_to", "column_stack", "concatenate", "dsplit", "dstack", "expand_dims", "hsplit",
    "hstack", "matrix_transpose", "moveaxis", "ndim", "ravel", "reshape", "rollaxis", "shape", "size",
    "split", "squeeze", "stack", "swapaxes", "transpose", "unstack", "vsplit", "vstack",
]  # fmt: skip
