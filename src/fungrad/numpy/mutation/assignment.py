"""Writes into traced arrays: `x[index] = value` and `x += value`.

Each computes the new array with the primitives of scatter.py; the handle adopts it
(tracing/aliasing.py). NumPy's functions and methods that write are in writing_functions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.numpy.indexing import parsed, static_index
from fungrad.numpy.mutation.masked_selection import Selection, is_mask, row_and_mask
from fungrad.numpy.mutation.views import Indexed
from fungrad.numpy.products import matmul
from fungrad.numpy.protocol.at_updates import check_cut, chosen, fitting, spread
from fungrad.numpy.protocol.implements import as_array
from fungrad.numpy.protocol.object_elements import objects_of
from fungrad.numpy.protocol.operators import BINARY, forward
from fungrad.numpy.reductions import as_truth
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.gather import Index, layout
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, cast, reshape
from fungrad.primitives.movement.scatter import index_set
from fungrad.tracing.aliasing import adopt, check_writeable
from fungrad.tracing.created_arrays import Writable, Written, tracer_of, unwrapped
from fungrad.tracing.in_place import changed
from fungrad.tracing.memory_order import axes_of, by_rows, memory_layout, one_order
from fungrad.tracing.object_arrays import Objects
from fungrad.tracing.refusals import refused_store
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import (
    EVAL,
    Tracer,
    current,
    is_number,
    outlived,
    registry,
    shape_of,
    typeof,
)

WHOLE = Index((Ellipsis,))
"""The index of all elements."""


def write(target: Any, index: Any, value: Any) -> None:
    """`target[index] = value`, for the handle and all that share its elements.

    Args:
      target: the handle, or an array that was made while tracing.
      index: any index of NumPy's, traced or not.
      value: an array-like, traced or not, that broadcasts to target[index].

    Raises:
      ItemAssignmentError: if the array is read-only, or was made outside of a function that is
        being recorded.
      GradientCutError: if a traced value would be rounded, or lose its imaginary part.
      ValueError, IndexError: if NumPy raises them.
    """
    target = tracer_of(target) if type(target) is Written else target
    value = value if type(value) is Tracer else unwrapped(value)
    if type(target) is not Tracer and type(target) is not Writable:
        raise refused_store(typeof(as_array(value)))
    if current() is EVAL:
        outlived(target)[index] = outlived(value)
        return
    static = static_index(index)
    if static is None:
        target, index = row_and_mask(target, index)
    alone = type(target) is Tracer and getattr(target, "alias", None) is None
    if not alone:
        check_writeable(target)
        if static is not None and _is_own_view(target, static, value):
            return  # `x[i] += v` has written by way of the view x[i] before
    if type(value) is Selection:
        _write_back(target, index, value)
        return
    array = target if type(target) is Tracer else unwrapped(target)
    values = value if type(value) is Tracer else as_array(value)
    type_, found = typeof(array), typeof(values)
    if found.dtype is not type_.dtype or found.weak:
        values = fitting(values, type_.dtype, "a[index] = value", True)
    if static is None:
        _write_at(target, array, index, values)
        return
    named = _named(static, type_.shape)
    if found.shape != named:
        values = spread(values, named, static)
    new = changed(index_set, static.params or {"index": static}, array, values)
    adopt(target, new, None if alone else Indexed(static))


def _write_at(target: Any, array: Any, index: Any, values: Any) -> None:
    """`target[index] = values` by masks and arrays of integers."""
    if is_mask(index) and len(shape_of(values)) <= target.ndim - index.ndim:
        _adopt_all(target, chosen(array, index, lambda x, v: v, values))
        return
    x, static, arrays = parsed(array, index)
    wanted = layout(static, shape_of(x), [shape_of(a) for a in arrays]).shape
    new = changed(index_set, {"index": static}, x, spread(values, wanted, static), *arrays)
    adopt(target, new if x is array else reshape(new, shape=target.shape))


def _write_back(target: Any, mask: Any, selection: Selection) -> None:
    """`target[mask] = selection`: computes all elements, and chooses by the mask."""
    array = unwrapped(target)
    shape, values = shape_of(array), selection.values
    if not selection.by(mask) or shape_of(values) != shape:
        selection.refuse()
    values = fitting(as_array(values), target.dtype, "a[index] = value", True)
    wide = reshape(mask, shape=(*mask.shape, *(1,) * (len(shape) - mask.ndim)))
    _adopt_all(target, cast(select(wide, values, array), target.dtype))


def _adopt_all(handle: Any, value: Any) -> None:
    """Gives a handle a new value, in the handle's memory layout."""
    if not _replaces(value, handle):
        value = index_set(unwrapped(handle), value, index=WHOLE)
    adopt(handle, value)


def _named(index: Index, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of x[index] for a basic index."""
    first = index.entries[0] if len(index.entries) == 1 else None
    if type(first) is int and shape and -shape[0] <= first < shape[0]:  # the quick way
        return shape[1:]
    return layout(index, shape, ()).shape


def _is_own_view(target: Any, index: Index, value: Any) -> bool:
    """Whether a value is the view target[index] itself, so that its elements are in place."""
    alias = getattr(value, "alias", None) if type(value) is Tracer else None
    return (
        alias is not None
        and alias.base is target
        and type(alias.step) is Indexed
        and alias.step.index == index
    )


def store(target: Any, value: Any, casting: Any, function: str, where: Any = True) -> Any:
    """Writes a value into all elements of an array, as `out=` and operators like `+=` do.

    Args:
      target: the handle, or an array that was made while tracing; it is returned.
      value: the values to write, of a shape that broadcasts to the array's.
      casting: NumPy's rule for the cast to the array's dtype.
      function: the name of the function that computed the value, for messages.
      where: a condition, traced or not: the other elements keep their values.

    Raises:
      TypeError: if the rule does not allow the cast, as NumPy does.
      ValueError: if the shapes do not fit, as NumPy does.
    """
    if isinstance(target, Objects) and target.dtype.char == "O":
        if where is not True:
            mask = np.broadcast_to(where, target.shape)
            target[mask] = np.broadcast_to(objects_of(value), target.shape)[mask]
        else:
            target[...] = objects_of(value)
        return target
    handle = target.tracer if type(target) is Written else target
    if type(handle) is not Tracer and type(handle) is not Writable:
        raise refused_store(typeof(value), function)
    if current() is EVAL:
        np.copyto(outlived(handle), outlived(value), casting, outlived(where))
        return target
    check_writeable(handle)
    type_ = typeof(handle)
    value = _fitted(value, type_, casting, function)
    if where is not True:
        where = as_truth(where)
        value = select(_grown(where, shape_of(where), type_.shape), value, unwrapped(handle))
    _adopt_all(handle, value)
    return target


def _fitted(value: Any, type_: Any, casting: Any, function: str) -> Any:
    """A value in the dtype and the shape of the array that it is written into."""
    found = typeof(value)
    if found.dtype != type_.dtype or found.weak:
        if not np.can_cast(found.dtype, type_.dtype, casting):
            raise TypeError(
                f"Cannot cast {function} output from {found.dtype!r} to {type_.dtype!r} with "
                f"casting rule '{casting}'{user_line()}"
            )
        if type(value) is Tracer:
            check_cut(found.dtype, type_.dtype, function)
        value = cast(value, type_.dtype)
    return _grown(value, found.shape, type_.shape)


def replacing(target: np.ndarray[Any, Any], value: Any, function: str) -> Any:
    """The traced array that takes the place of an ndarray, after `target += value`; see `store`."""
    return _fitted(value, typeof(target), "same_kind", function)


def _replaces(value: Any, handle: Any) -> bool:
    """Whether a handle can adopt a value directly: it has the same memory layout and trace."""
    if type(handle) is not Tracer:
        return type(value) is not Tracer or by_rows(value.shape, memory_layout(value).strides)
    if type(value) is not Tracer or value.owner is not handle.owner:
        return False
    shape = value.shape
    if one_order(shape):
        return True
    one, other = memory_layout(value).strides, memory_layout(handle).strides
    return one is not None and other is not None and axes_of(shape, one) == axes_of(shape, other)


def _grown(value: Any, found: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """A value broadcast to the shape of the array that it is written into."""
    if found == shape:
        return value
    if np.broadcast_shapes(found, shape) != shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {shape} doesn't match the broadcast "
            f"shape {np.broadcast_shapes(found, shape)}"
        )
    return broadcast_to(value, shape=shape)


# --- operators ------------------------------------------------------------------------------------


def _in_place(operator: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The method of an operator like `+=`. For a number it returns a new one, as NumPy does."""

    def method(self: Tracer, other: Any) -> Any:
        found = operator(self, other)
        if found is NotImplemented or is_number(self):
            return found
        return store(self, found, "same_kind", f"ufunc '{name}'")

    return method


def _into(out: Any, value: Any, function: str) -> Any:
    """Writes a function's result into its `out`, which has to have exactly that shape."""
    if out.shape != typeof(value).shape:
        raise ValueError(
            f"{function} returns an array of shape {typeof(value).shape}{user_line()}, but `out` "
            f"has the shape {out.shape}."
        )
    return store(out, value, "same_kind", function)


registry.into = _into
registry.write = write

METHODS: dict[str, Any] = {
    "__setitem__": write,
    "__imatmul__": _in_place(matmul, "matmul"),
    **{f"__i{name}__": _in_place(forward(p), p.name) for name, p in BINARY.items()},
}
