"""NumPy's functions that change the shape and the order of axes.

Functions that join and split arrays are in join_split.py, those that repeat, pad or mask elements
in repeat_pad_roll.py.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.ir.canonical import canonical_dtype
from fungrad.numpy.mutation.views import (
    each_view,
    read_only_views,
    reshaped_view,
    transposed_view,
    views,
)
from fungrad.numpy.protocol.implements import implements, of_arrays
from fungrad.numpy.protocol.object_elements import objects_of
from fungrad.numpy.protocol.operands import (
    array_of,
    axis_index,
    axis_indices,
    complete_shape,
    sizes,
)
from fungrad.numpy.protocol.result_order import axes_in_memory, copy_in_order, is_fortran_only
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.tracing.aliasing import fresh
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, registry, shape_of

# --- shape, order of axes -------------------------------------------------------------------------


def reshaped(x: Any, shape: tuple[int, ...], order: str) -> Any:
    """x in a shape that may hold a -1, read and filled in C or Fortran order."""
    found = x.shape
    new = complete_shape(shape, found)
    if order == "C":
        return s.reshape(x, shape=new)
    if len(found) > 1:
        x = s.transpose(x, axes=tuple(range(len(found)))[::-1])
    x = s.reshape(x, shape=new[::-1])
    return s.transpose(x, axes=tuple(range(len(new)))[::-1]) if len(new) > 1 else x


def _read(x: Any, order: str | None) -> tuple[Any, str]:
    """An array, and the order C or F in which to read it for a named order."""
    name = "C" if order is None else order.upper()
    if name not in ("C", "F", "A", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    if name in ("C", "F"):
        return x, name
    axes = axes_in_memory(x)
    if axes is None:
        raise UnsupportedArgumentError(
            f"A traced array of the shape {x.shape} was read in order={order!r}{user_line()}. Its "
            "memory layout is not known here. Write order='C' to read it by rows, as NumPy does "
            "with most arrays, or order='F' to read it by columns."
        )
    if name == "A":
        return x, "F" if is_fortran_only(x) else "C"
    return (x if axes == sorted(axes) else transposed_view(x, tuple(axes))), "C"


@implements(np.reshape)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, copy: bool | None = None) -> Any:
    """The elements in another shape, one entry of which may be -1, as np.reshape."""
    if order in ("K", "k"):
        raise ValueError("order 'K' is not permitted for reshaping")
    x, order = _read(array_of(a), order)
    result = reshaped(x, sizes(shape), order)
    if copy:
        return fresh(result) if result is x and type(x) is Tracer else result
    return reshaped_view(x, result, order, compact=False)


def _reshape_method(self: Tracer, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
    return reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Any:
    """The elements along one axis, as np.ravel: a view if they are contiguous."""
    x, order = _read(array_of(a), order)
    return reshaped_view(x, reshaped(x, (-1,), order), order, compact=True)


def _flatten_method(self: Tracer, order: str = "C") -> Any:
    x, order = _read(self, order)
    flat = reshaped(x, (-1,), order)
    return fresh(flat) if flat is self else flat


@implements(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Any:
    """The axes in another order (reversed by default), as np.transpose."""
    a = array_of(a)
    ndim = len(a.shape)
    if axes is None:
        return a if ndim < 2 else transposed_view(a, tuple(range(ndim - 1, -1, -1)))
    order = axis_indices(tuple(axes), ndim)
    if len(order) != ndim:
        raise ValueError("axes don't match array")
    return transposed_view(a, order)


def _transpose_method(self: Tracer, *axes: Any) -> Any:
    if len(axes) == 1 and (axes[0] is None or np.ndim(axes[0])):
        return transpose(self, axes[0])
    return transpose(self, axes or None)


def _reversed_axes(self: Tracer) -> Any:
    """The array with its axes in reverse order."""
    ndim = len(self.shape)
    return self if ndim < 2 else transposed_view(self, tuple(range(ndim - 1, -1, -1)))


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
    return transposed_view(a, tuple(axes))


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Axes moved to other positions, as np.moveaxis."""
    a = array_of(a)
    ndim = len(a.shape)
    sources, destinations = axis_indices(source, ndim), axis_indices(destination, ndim)
    if len(sources) != len(destinations):
        raise ValueError(
            "`source` and `destination` arguments must have the same number of elements"
        )
    order = [i for i in range(ndim) if i not in sources]
    for destination, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(destination, axis)
    return a if order == list(range(ndim)) else transposed_view(a, tuple(order))


@implements(np.rollaxis)
@views
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """One axis moved before the axis `start`, as np.rollaxis."""
    a = array_of(a)
    ndim = len(a.shape)
    source = axis_index(axis, ndim)
    target = start + ndim if start < 0 else operator.index(start)
    if not 0 <= target <= ndim:
        raise np.exceptions.AxisError(start, ndim)
    return s.moveaxis(a, source, target - 1 if source < target else target)


@implements(np.expand_dims)
@views
def expand_dims(a: Any, axis: Any) -> Any:
    """Axes of length 1 inserted, as np.expand_dims."""
    a = array_of(a)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = axis_indices(axis, len(a.shape) + count)
    rest = iter(a.shape)
    shape = tuple([1 if i in axes else next(rest) for i in range(len(a.shape) + count)])
    return s.reshape(a, shape=shape)


@implements(np.squeeze)
@views
def squeeze(a: Any, axis: Any = None) -> Any:
    """Axes of length 1 removed, as np.squeeze."""
    a = array_of(a)
    if axis is None:
        return s.reshape(a, shape=tuple([n for n in a.shape if n != 1])) if 1 in a.shape else a
    if not a.shape and axis in (0, -1):  # NumPy treats a number as an array of one element
        return a
    axes = axis_indices(axis, len(a.shape))
    if any(a.shape[i] != 1 for i in axes):
        raise ValueError(
            "cannot select an axis to squeeze out which has size not equal to one: shape "
            f"{a.shape}, axis {axis}"
        )
    return s.reshape(a, shape=tuple([n for i, n in enumerate(a.shape) if i not in axes]))


# --- broadcasting ---------------------------------------------------------------------------------


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    return x if x.shape == shape else s.broadcast_to(x, shape=shape)


@implements(np.broadcast_to)
@of_arrays
@read_only_views("a result of np.broadcast_to, in which elements share their memory")
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """The array repeated to a shape by NumPy's broadcasting, as np.broadcast_to."""
    return s.broadcast_to(array_of(array), shape=sizes(shape))


@implements(np.broadcast_arrays)
@each_view
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    """The arrays repeated to their common shape, as np.broadcast_arrays."""
    arrays = [array_of(x) for x in args]
    shape = np.broadcast_shapes(*[x.shape for x in arrays])
    return tuple([_broadcast(x, shape) for x in arrays])


# --- a least number of axes -----------------------------------------------------------------------


def at_least(x: Any, ndim: int) -> Any:
    """x with axes of length 1 where numpy.atleast_1d, 2d and 3d put them."""
    shape = x.shape
    if len(shape) >= ndim:
        return x
    if ndim == 3:
        new = {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}[len(shape)]
    else:
        new = (1,) * (ndim - len(shape)) + shape
    return s.reshape(x, shape=new)


def _at_least_each(arrays: tuple[Any, ...], ndim: int) -> Any:
    results = tuple([at_least(array_of(x), ndim) for x in arrays])
    return results[0] if len(results) == 1 else results


@implements(np.atleast_1d)
@each_view
def atleast_1d(*arys: Any) -> Any:
    """Each array with at least one axis, as np.atleast_1d."""
    return _at_least_each(arys, 1)


@implements(np.atleast_2d)
@each_view
def atleast_2d(*arys: Any) -> Any:
    """Each array with at least two axes, as np.atleast_2d."""
    return _at_least_each(arys, 2)


@implements(np.atleast_3d)
@each_view
def atleast_3d(*arys: Any) -> Any:
    """Each array with at least three axes, as np.atleast_3d."""
    return _at_least_each(arys, 3)


# --- properties that need no computation ----------------------------------------------------------


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
    if canonical_dtype(dtype).char == "O":
        return objects_of(self)
    result = cast(self, dtype)
    return copy_in_order(result, order) if copy and type(result) is Tracer else result


def _set_shape(self: Tracer, shape: Any) -> None:
    """`x.shape = shape`: the handle gets its reshaped value, which its other names see, too.

    Raises:
      UnsupportedArgumentError: if the array shares elements with another one.
    """
    wanted = complete_shape(sizes(shape), self.shape)
    if wanted == self.shape:
        return
    if getattr(self, "alias", None) is not None:
        raise UnsupportedArgumentError(
            f"The shape of a traced array that has views, or is one, was set{user_line()}: write "
            "`a = a.reshape(shape)`."
        )
    new = s.reshape(self, shape=wanted)
    self.owner, self.inner, self.extra = new.owner, new.inner, new.extra


METHODS: dict[str, Any] = {
    "shape": property(Tracer.shape.fget, _set_shape),  # type: ignore[attr-defined]
    "T": property(_reversed_axes),
    "mT": property(registry.functions[np.matrix_transpose]),
    "astype": _astype_method,
    "flatten": _flatten_method,
    "ravel": registry.functions[np.ravel],
    "reshape": _reshape_method,
    "squeeze": registry.functions[np.squeeze],
    "swapaxes": registry.functions[np.swapaxes],
    "transpose": _transpose_method,
}

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "expand_dims",
    "matrix_transpose", "moveaxis", "ndim", "ravel", "reshape", "rollaxis", "shape", "size",
    "squeeze", "swapaxes", "transpose",
]  # fmt: skip
