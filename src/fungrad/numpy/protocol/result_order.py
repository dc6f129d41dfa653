"""Results in NumPy's memory layout, if a primitive's result has another one.

Eagerly the value is copied into an array of that layout; a Graph only records the layout. If
NumPy's layout is not known, the array is marked so (tracing/memory_order.py).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from fungrad.numpy.mutation.views import layout_of
from fungrad.primitives.movement.gather import Index, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import inverse_permutation, transpose
from fungrad.tracing.aliasing import Apart, count_on, fresh, link, set_layout
from fungrad.tracing.memory_order import (
    MemoryLayout,
    axes_of,
    dense,
    example,
    is_dense,
    memory_layout,
    one_order,
)  # fmt: skip
from fungrad.tracing.trace import Tracer, shape_of

F = TypeVar("F", bound=Callable[..., Any])
WHOLE = Index((Ellipsis,))


def with_layout(x: Any, axes: Sequence[int] | None) -> Any:
    """A value whose axes have this order in memory, the outermost first; x itself if it has it."""
    shape = shape_of(x)
    if one_order(shape):
        return x
    order = tuple(range(len(shape))) if axes is None else tuple(axes)
    strides = memory_layout(x).strides if type(x) is Tracer else None
    if strides is not None and axes_of(shape, strides) == axes_of(shape, dense(shape, order)):
        return x
    turned = transpose(x, axes=order)
    turned = scatter(turned, index=WHOLE, shape=shape_of(turned))
    return transpose(turned, axes=inverse_permutation(order))


def copy_in_order(x: Tracer, order: str | None) -> Tracer:
    """A copy in a named order of memory, as np.array makes."""
    return fresh(with_layout(x, _axes(x, order))) if _named(x, order) else fresh(x)


def as_order(x: Tracer, order: str | None) -> Any:
    """The array itself if it is in the named order, else a copy, as np.asarray returns."""
    if order not in ("C", "F") or len(shape_of(x)) < 2:
        return x
    strides, c_inputs = layout_of(x)
    shape = x.shape
    axes = _axes(x, order)
    if strides is None:
        return link(fresh(with_layout(x, axes)), x, Apart(None))
    if is_dense(shape, strides, axes):
        return x
    copy = fresh(with_layout(x, axes))
    return link(copy, x, Apart(c_inputs)) if c_inputs else copy


def _named(x: Tracer, order: str | None) -> bool:
    return order in ("C", "F", "A") and not one_order(x.shape)


def _axes(x: Tracer, order: str | None) -> Sequence[int]:
    """The order of axes that a letter names."""
    ndim = x.ndim
    by_columns = order == "F" or (order == "A" and is_fortran_only(x))
    return range(ndim)[::-1] if by_columns else range(ndim)


def is_fortran_only(x: Tracer) -> bool:
    """Whether an array is in Fortran order, and not in C order."""
    strides = layout_of(x).strides
    shape = x.shape
    if strides is None or one_order(shape):
        return False
    return is_dense(shape, strides, range(len(shape))[::-1])


def axes_in_memory(x: Tracer) -> Sequence[int] | None:
    """The axes in their order in memory, in which NumPy reads an array; None if it is not known.
    Notes the inputs that have to be in C order for it.
    """
    shape = x.shape
    if one_order(shape):
        return range(len(shape))
    strides, c_inputs = layout_of(x)
    if strides is None or 0 in [step for n, step in zip(shape, strides, strict=True) if n > 1]:
        return None  # NumPy keeps the order of axes with repeated elements
    count_on(c_inputs)
    return axes_of(shape, strides)


def axes_like(x: Any, order: str | None = "K") -> Sequence[int] | None:
    """The order of axes in which np.empty_like makes an array like this one."""
    if type(x) is not Tracer or order == "C" or one_order(x.shape):
        return None
    if order in ("F", "A"):
        return _axes(x, order)
    strides = layout_of(x).strides
    return None if strides is None else axes_of(x.shape, strides)


def results_in_order(order: str, argument: int = 0) -> Callable[[F], F]:
    """Gives a function's results NumPy's memory layout: "C"; "K", that of one of its arguments; or
    "A", Fortran order if that argument is in it.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def ordered(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            a = [*args, *kwargs.values()][argument]
            if type(result) is list:
                return [_laid_like(part, a, order) for part in result]
            return _laid_like(result, a, order)

        return cast(F, ordered)

    return decorate


def _laid_like(found: Any, a: Any, order: str) -> Any:
    if type(found) is not Tracer or one_order(found.shape):
        return found
    found = fresh(found)
    if order != "C":
        if type(a) is Tracer and layout_of(a).strides is None:
            return unknown(found)
        if order == "K" and np.ndim(a) == found.ndim:
            return with_layout(found, axes_like(a))
        if order == "A" and type(a) is Tracer and is_fortran_only(a):
            return with_layout(found, range(found.ndim)[::-1])
    return with_layout(found, None)


def unknown(found: Tracer) -> Tracer:
    """The value as an array of unknown memory layout."""
    found = fresh(found)
    set_layout(found, MemoryLayout(None))
    return found


def with_numpy_layout(function: Callable[..., Any], found: Any, arrays: Sequence[Any]) -> Any:
    """Gives a result the memory layout that a function of NumPy returns for small arrays with the
    layouts of `arrays`.
    """
    if type(found) is not Tracer or one_order(found.shape):
        return found
    examples = []
    for array in arrays:
        shape = shape_of(array)
        if type(array) is Tracer:
            strides = layout_of(array).strides
        else:
            strides = dense(shape)
            if isinstance(array, np.ndarray):
                strides = tuple([n // array.itemsize for n in array.strides])
        if strides is None:
            return unknown(found)
        examples.append(example(shape, strides, np.float64))
    strides = function(*examples).strides
    return with_layout(found, axes_of(tuple([min(n, 2) for n in found.shape]), strides))


def like(
    make: Callable[..., Any], x: Any, shape: tuple[int, ...], order: str | None, *args: Any
) -> Any:
    """A new array, `make(shape, *args)`, with the order of axes of another one."""
    axes = axes_like(x, order) if len(shape) == len(shape_of(x)) else None
    if axes is None or math.prod(shape) == 0:
        return make(shape, *args)
    return make([shape[axis] for axis in axes], *args).transpose(np.argsort(axes))
