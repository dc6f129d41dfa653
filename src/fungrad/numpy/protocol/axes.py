"""The axes of reductions, as NumPy's functions take them (None, tuples, keepdims)."""

from __future__ import annotations

from typing import Any

from fungrad.numpy.protocol.operands import axis_index, axis_indices
from fungrad.primitives.movement.reshape_broadcast_cast import reshape
from fungrad.tracing.trace import shape_of


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that a reduction with `axis` runs over, none of them negative.

    Raises:
      numpy.exceptions.AxisError: where there is no such axis.
    """
    if axis is None:
        return tuple(range(ndim))
    return axis_indices(axis, ndim)


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """`axes_of`, where a number may be reduced along axis 0 or -1, as NumPy's ufuncs do."""
    return () if ndim == 0 and type(axis) is int and axis in (0, -1) else axes_of(axis, ndim)


def flattened(x: Any) -> Any:
    """x with one axis, in C order."""
    shape = shape_of(x)
    if len(shape) == 1:
        return x
    size = 1
    for length in shape:
        size *= length
    return reshape(x, shape=(size,))


def with_axes_kept(y: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """A reduced value with axes of length 1 in place of those that it lost (keepdims=True)."""
    return reshape(y, shape=tuple([1 if i in axes else n for i, n in enumerate(shape)]))


__all__ = ["axes_of", "axis_index", "flattened", "reduced_axes", "with_axes_kept"]
