"""NumPy's functions that make arrays, for traced values.

An array that depends on shapes alone is not traced, even `zeros_like(x)` of a traced x: it may be
written into, and no gradient flows to it. Only an array that traced values fill is traced.
`at(a)[i].set(x)` puts a traced value into an array of either kind.
"""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np
from numpy import _CopyMode

from fungrad.ir.canonical import canonical_dtype
from fungrad.numpy.mutation.views import each_view
from fungrad.numpy.protocol.implements import as_array, implements, known
from fungrad.numpy.protocol.object_elements import filled
from fungrad.numpy.protocol.operands import array_of, axis_index, common_dtype, sizes
from fungrad.numpy.protocol.result_order import (
    as_order,
    axes_like,
    copy_in_order,
    like,
    with_layout,
)
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.runtime_check import checked
from fungrad.tracing.aliasing import array_over, fresh
from fungrad.tracing.code_origin import is_ours
from fungrad.tracing.created_arrays import writable
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import EVAL, Tracer, current, registry


def array(
    object: Any, dtype: Any = None, *, copy: bool | None = True, order: str = "K",
    subok: bool = False, ndmin: int = 0,
) -> Any:  # fmt: skip
    """An array of numbers, traced or not, as np.array; nested lists may hold traced values."""
    if current() is EVAL:
        return np.array(object, dtype, copy=copy, order=order, subok=subok, ndmin=ndmin)  # type: ignore[call-overload]
    x = array_of(object)
    if type(x) is not Tracer:
        made = np.array(x, dtype, copy=copy, order=order, subok=subok, ndmin=ndmin)  # type: ignore[call-overload]
        return writable(made) if copy else made
    result = _cast(object, x, dtype, copy, order)  # a Python number becomes an array
    shape = result.shape
    if len(shape) < ndmin:
        result = s.reshape(result, shape=(1,) * (ndmin - len(shape)) + shape)
    return array_over(result)


def _cast(given: Any, x: Any, dtype: Any, copy: Any, order: str | None) -> Any:
    """A traced value as an array of a dtype; a new one if `copy` is true.

    Raises:
      ValueError: if a copy is needed, and copy is False.
    """
    if isinstance(copy, _CopyMode):
        copy = None if copy is _CopyMode.IF_NEEDED else bool(copy)
    result = cast(x, x.dtype if dtype is None else dtype)
    if copy is False and (isinstance(given, (list, tuple)) or result.dtype != x.dtype):
        raise ValueError(f"An array of {result.dtype} cannot be made without a copy{user_line()}.")
    if copy:
        return copy_in_order(result, order) if type(result) is Tracer else result
    return as_order(result, order) if type(result) is Tracer else result


@implements(np.asarray, np.asanyarray, np.asarray_chkfinite)
def asarray(
    a: Any, dtype: Any = None, order: str = "K", *, device: Any = None, copy: bool | None = None
) -> Any:
    """A value as an array, as np.asarray; nested lists may hold traced values."""
    x = array_of(a)
    if type(x) is not Tracer:
        return np.asarray(x, dtype, copy=copy)
    if device not in (None, "cpu"):
        raise ValueError(f"Device not understood. Only 'cpu' is allowed, but received: {device}")
    return array_over(_cast(a, x, dtype, copy, order))


@implements(np.ascontiguousarray)
def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    """A value as an array in C order, as np.ascontiguousarray: a copy, or the array."""
    return array(a, dtype, copy=None, order="C", ndmin=1)


@implements(np.asfortranarray)
def asfortranarray(a: Any, dtype: Any = None) -> Any:
    """A value as an array in Fortran order, as np.asfortranarray: a copy, or the array."""
    return array(a, dtype, copy=None, order="F", ndmin=1)


@implements(np.copy)
def copy(a: Any, order: Any = "K", subok: bool = False) -> Any:
    """Another array with the same elements, as np.copy."""
    x = array_of(a)
    return (
        array_over(copy_in_order(x, order))
        if type(x) is Tracer
        else writable(np.array(x, order=order))
    )


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """The array in another dtype, as np.astype; by default a copy."""
    result = cast(array_of(x), dtype)
    return fresh(result) if copy and result is x and type(x) is Tracer else result


if hasattr(np, "astype"):  # of NumPy 2.1
    astype = implements(np.astype)(astype)

# --- filled with one value ------------------------------------------------------------------------


def _like(a: Any, dtype: Any, shape: Any) -> tuple[tuple[int, ...], Any]:
    a = array_of(a)
    return a.shape if shape is None else sizes(shape), a.dtype if dtype is None else dtype


def _made_like(make: Any, a: Any, dtype: Any, order: str, shape: Any) -> Any:
    wanted, dtype = _like(a, dtype, shape)
    return like(make, array_of(a), wanted, order, dtype)


def _new(array: Any) -> Any:
    """A new array as a `Writable`, unless the caller is one of fungrad's own files.

    Between that caller and the function that calls this one is one frame.
    """
    return array if is_ours(sys._getframe(3).f_code.co_filename) else writable(array)


@implements(np.zeros_like)
def zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None
) -> Any:  # fmt: skip
    """Zeros of the shape and dtype of an array, as np.zeros_like; not traced."""
    return _new(_made_like(np.zeros, a, dtype, order, shape))


@implements(np.ones_like)
def ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None
) -> Any:  # fmt: skip
    """Ones of the shape and dtype of an array, as np.ones_like; not traced."""
    return _new(_made_like(np.ones, a, dtype, order, shape))


@implements(np.empty_like)
def empty_like(
    prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """An array to be filled, of the shape and dtype of another, as np.empty_like."""
    return _new(_made_like(np.empty, prototype, dtype, order, shape))


def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None
) -> Any:
    """An array filled with one value, which may be traced, as np.full."""
    fill = array_of(fill_value)
    if type(fill) is not Tracer:
        return _new(np.full(shape, fill, dtype))
    if dtype is not None and canonical_dtype(dtype).char == "O":
        return filled(sizes(shape), fill)
    return s.broadcast_to(fill if dtype is None else cast(fill, dtype), shape=sizes(shape))


@implements(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
    shape: Any = None, *, device: Any = None,
) -> Any:  # fmt: skip
    """An array filled with one value, which may be traced, of the shape and dtype of another."""
    new_shape, new_dtype = _like(a, dtype, shape)
    made = full(new_shape, fill_value, new_dtype)
    x = array_of(a)
    if type(x) is not Tracer or len(new_shape) != x.ndim:
        return made
    axes = axes_like(x, order)
    if axes is None:
        return made
    if type(made) is Tracer:
        return with_layout(made, axes)
    plain = np.full([new_shape[axis] for axis in axes], fill_value, new_dtype)
    return _new(plain.transpose(np.argsort(axes)))


# --- ranges between traced ends -------------------------------------------------------------------


@implements(np.arange)
def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: Any = None, *, device: Any = None
) -> Any:
    """Numbers from start to stop, which may be traced, by steps, as np.arange. The count of numbers
    has to be known.
    """
    first, last = (0, start) if stop is None else (start, stop)
    first, last, step = array_of(first), array_of(last), array_of(1 if step is None else step)
    count = known(np.ceil((last - first) / step), "the count of numbers of np.arange")
    steps = np.arange(max(int(count), 0))
    values = first + steps * ((first + step) - first)  # NumPy's rounding
    if dtype is not None:
        values = cast(values, dtype)
    return values if type(values) is Tracer else _new(np.asarray(values))


@implements(np.linspace)
def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None,
    axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    """Evenly spaced numbers between two ends, which may be traced arrays, as np.linspace."""
    count = operator.index(num)
    if count < 0:
        raise ValueError(f"Number of samples, {count}, must be non-negative.")
    common = common_dtype(start, stop)
    common = common if common.kind in "fc" else np.dtype(np.float64)
    first, last = cast(array_of(start), common), cast(array_of(stop), common)
    dtype = common if dtype is None else canonical_dtype(dtype)
    steps = count - 1 if endpoint else count
    delta = last - first
    positions = np.arange(count, dtype=common).reshape((count,) + (1,) * len(delta.shape))
    step = delta / steps if steps > 0 else np.nan
    points = _multiples(positions, delta, step, steps) + first
    if endpoint and count > 1:
        points = select(positions == count - 1, last, points)
    if dtype.kind in "iu":
        points = np.floor(points)
    points = s.moveaxis(cast(points, dtype), 0, axis_index(axis, len(points.shape)))
    return (points, step) if retstep else points


def _multiples(positions: Any, delta: Any, step: Any, steps: int) -> Any:
    """positions * step; if a step is 0 (it may have underflowed), NumPy divides the positions by
    `steps` instead.
    """
    if steps <= 0:
        return positions * delta
    tiny: Any = np.any(step == 0)
    if type(tiny) is not Tracer:
        return positions / steps * delta if tiny else positions * step
    return select(tiny, positions / steps, positions) * select(tiny, delta, step)


@implements(np.logspace)
def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:  # fmt: skip
    """Powers of a base with evenly spaced exponents, as np.logspace."""
    shape = np.broadcast_shapes(*[array_of(x).shape for x in (start, stop, base)])
    base = as_array(base)
    if array_of(base).shape:
        start, stop = (s.broadcast_to(array_of(x), shape=shape) for x in (start, stop))
    exponents = linspace(start, stop, num, endpoint)
    powers = np.power(base, exponents)
    axis = axis_index(axis, len(shape) + 1)
    return s.moveaxis(powers if dtype is None else cast(powers, dtype), 0, axis)


@implements(np.geomspace)
def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """Numbers with a constant ratio between two ends, as np.geomspace.

    Complex ends, and those of a complex dtype, are the ends of a logarithmic spiral.

    Raises:
      ValueError: if an end is 0; in a compiled program when it runs.
    """
    count = operator.index(num)
    ends = [array_of(start), array_of(stop)]
    wide = np.result_type(*[x.dtype for x in ends], float(count), np.zeros((), dtype))
    nonzero = "Geometric sequence cannot include zero"
    first, last = (checked(cast(x, wide), x != 0, message=nonzero) for x in ends)
    turn = np.sign(first)
    first, last = first / turn, last / turn
    points = cast(logspace(np.log10(first), np.log10(last), count, endpoint), wide)
    positions = np.arange(count).reshape((count,) + (1,) * (len(points.shape) - 1))
    points = select(positions == 0, first, points)
    if endpoint and count > 1:
        points = select(positions == count - 1, last, points)
    points = cast(points * turn, wide if dtype is None else dtype)
    return s.moveaxis(points, 0, axis_index(axis, len(points.shape)))


@implements(np.meshgrid)
def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Any, ...]:
    """Coordinate vectors as coordinate arrays, as np.meshgrid."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    make = _grids if copy else each_view(_grids)
    return make(*[array_of(x) for x in xi], sparse=sparse, xy=indexing == "xy")


def _grids(*vectors: Any, sparse: bool, xy: bool) -> tuple[Any, ...]:
    count = len(vectors)
    order = list(range(count))
    if xy and count > 1:
        order[:2] = (1, 0)
    shape = [1] * count
    grids = []
    for vector, axis in zip(vectors, order, strict=True):
        alone = [1] * count
        alone[axis] = shape[axis] = vector.size
        grids.append(s.reshape(vector, shape=tuple(alone)))
    if sparse:
        return tuple(grids)
    return tuple([s.broadcast_to(grid, shape=tuple(shape)) for grid in grids])


# --- changed copies -------------------------------------------------------------------------------


def at(a: Any) -> Any:
    """Functional updates of any array: `at(a)[index].set(value)` returns a changed copy.

    For a traced array it is `a.at`; this form is for plain ndarrays, which have no such attribute.

    >>> import numpy as np, fungrad as fg
    >>> def f(x):
    ...     a = fg.numpy.at(np.zeros(3))[1].set(x)
    ...     return np.sum(a**2)
    >>> float(fg.grad(f)(3.0))
    6.0
    """
    assert registry.at is not None
    return registry.at(array_of(a))


__all__ = [
    "array", "asarray", "astype", "at", "copy", "empty_like", "full", "full_like", "geomspace",
    "linspace",
    "logspace", "meshgrid", "ones_like", "zeros_like",
]  # fmt: skip
