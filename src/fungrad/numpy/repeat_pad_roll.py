"""NumPy's functions that repeat, flip, roll and mask elements, diagonals and windows.

Shapes are in shaping.py, joining in join_split.py.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from fungrad.numpy.mutation.views import read_only_views, views
from fungrad.numpy.products import last_two
from fungrad.numpy.protocol.implements import if_known, implements, known, of_arrays
from fungrad.numpy.protocol.operands import array_of, axis_index, axis_indices, sizes
from fungrad.numpy.protocol.result_order import results_in_order
from fungrad.numpy.shaping import ravel
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement import diagonal_roll
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement.gather import ARRAY, Index, getitem
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.tracing.trace import registry


def _pick(x: Any, positions: Any, axis: int) -> Any:
    """The elements at known positions of an axis."""
    return getitem(x, positions, index=Index((*[slice(None)] * axis, ARRAY)))


# --- turning --------------------------------------------------------------------------------------


@implements(np.flip)
@views
def flip(m: Any, axis: Any = None) -> Any:
    """The elements in reverse order along axes (all by default), as np.flip."""
    m = array_of(m)
    ndim = len(m.shape)
    axes = tuple(range(ndim)) if axis is None else axis_indices(axis, ndim)
    return s.flip(m, axes=axes) if axes else m


@implements(np.fliplr)
@views
def fliplr(m: Any) -> Any:
    """The columns in reverse order, as np.fliplr."""
    return s.flip(array_of(m), axes=(1,))


@implements(np.flipud)
@views
def flipud(m: Any) -> Any:
    """The rows in reverse order, as np.flipud."""
    return s.flip(array_of(m), axes=(0,))


@implements(np.rot90)
@views
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """The array turned by k right angles in the plane of two axes, as np.rot90."""
    m = array_of(m)
    ndim = len(m.shape)
    first, second = axis_indices(tuple(axes), ndim)
    turns = operator.index(k) % 4
    if turns == 0:
        return m
    if turns == 2:
        return s.flip(m, axes=(first, second))
    order = list(range(ndim))
    order[first], order[second] = second, first
    if turns == 1:
        return s.transpose(s.flip(m, axes=(second,)), axes=tuple(order))
    return s.flip(s.transpose(m, axes=tuple(order)), axes=(second,))


@implements(np.roll)
@of_arrays
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """The elements shifted along axes, cyclically, as np.roll."""
    a = array_of(a)
    if axis is None:
        return s.reshape(roll(s.reshape(a, shape=(a.size,)), shift, 0), shape=a.shape)
    shift = cast(array_of(shift), np.intp)
    shape = np.broadcast_shapes(shift.shape, np.shape(axis))
    if len(shape) > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    axes = [axis_index(i, len(a.shape)) for i in np.broadcast_to(axis, shape).ravel().tolist()]
    values = if_known(shift)
    if values is not None:
        shifts = tuple(np.broadcast_to(values, shape).ravel().tolist())
        return diagonal_roll.roll(a, shifts=shifts, axes=tuple(axes))
    amounts = s.broadcast_to(shift, shape=(len(axes),))
    for number, i in enumerate(axes):
        indices = np.arange(a.shape[i]) - amounts[number]
        a = _pick(a, indices % max(a.shape[i], 1), i)
    return a


# --- repeating ------------------------------------------------------------------------------------


@implements(np.tile)
def tile(A: Any, reps: Any) -> Any:
    """The array repeated side by side, as np.tile."""
    x = array_of(A)
    counts = sizes(reps)
    ndim = max(len(counts), len(x.shape))
    counts = (1,) * (ndim - len(counts)) + counts
    shape = (1,) * (ndim - len(x.shape)) + x.shape
    between = tuple(n for length in shape for n in (1, length))
    spread = tuple(n for pair in zip(counts, shape, strict=True) for n in pair)
    x = s.broadcast_to(s.reshape(x, shape=between), shape=spread)
    return s.reshape(x, shape=tuple([c * n for c, n in zip(counts, shape, strict=True)]))


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each element repeated, as np.repeat; `repeats` is a number or one number for each element."""
    x = array_of(a)
    if axis is None or not x.shape:
        x = s.reshape(x, shape=(x.size,))
    axis = axis_index(0 if axis is None else axis, len(x.shape))
    counts = np.asarray(known(repeats, "the repeats of np.repeat"))
    if counts.size == 1:
        count = int(counts.ravel()[0])
        before, length, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
        x = s.reshape(x, shape=(*before, length, 1, *after))
        x = s.broadcast_to(x, shape=(*before, length, count, *after))
        return s.reshape(x, shape=(*before, length * count, *after))
    return _pick(x, np.repeat(np.arange(x.shape[axis]), counts), axis)


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> Any:
    """The elements, repeated as needed, in a new shape, as np.resize."""
    x = array_of(a)
    shape = sizes(new_shape)
    positions = np.resize(np.arange(x.size), math.prod(shape))
    if x.size == 0:
        return np.zeros(shape, x.dtype)
    return s.reshape(_pick(s.reshape(x, shape=(x.size,)), positions, 0), shape=shape)


# --- diagonals and triangles ----------------------------------------------------------------------


@implements(np.diagonal)
@read_only_views("a diagonal that np.diagonal returned")
def diagonal(a: Any, offset: Any = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonals of two axes, along a new last axis, as np.diagonal."""
    a = last_two(array_of(a), axis1, axis2)
    return diagonal_roll.diagonal(a, offset=_offset(offset, "np.diagonal"))


def _offset(k: Any, function: str) -> int:
    """The number of a diagonal that is read or written: the shape of the result depends on it."""
    return known(k, f"the offset of {function} (the shape of its result depends on it)", _index)  # type: ignore[no-any-return]


def _index(k: Any) -> int:
    return operator.index(k)


@implements(np.diag)
def diag(v: Any, k: Any = 0) -> Any:
    """The diagonal of a matrix, or the matrix with a given diagonal, as np.diag."""
    v = array_of(v)
    k = _offset(k, "np.diag")
    if len(v.shape) == 1:
        length = v.shape[0] + abs(k)
        return diagonal_roll.from_diagonal(v, offset=k, shape=(length, length))
    if len(v.shape) == 2:
        return diagonal(v, k)
    raise ValueError("Input must be 1- or 2-d.")


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Any:
    """The matrix with the elements of v on a diagonal, as np.diagflat."""
    return diag(ravel(v), k)


def _offsets(N: Any, M: Any) -> Any:
    """For each element of a matrix of N rows and M columns, the number of its diagonal."""
    rows = operator.index(N)
    columns = rows if M is None else operator.index(M)
    return np.arange(columns) - np.arange(rows)[:, None]


@implements(np.eye)
def eye(
    N: Any, M: Any = None, k: Any = 0, dtype: Any = float, order: str = "C", *,
    device: Any = None, like: Any = None,
) -> Any:  # fmt: skip
    """Ones on the k-th diagonal, which may be traced, as np.eye."""
    return cast(_offsets(N, M) == array_of(k), dtype)


@implements(np.tri)
def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, *, like: Any = None) -> Any:
    """Ones on the k-th diagonal, which may be traced, and below it, as np.tri."""
    return cast(_offsets(N, M) <= array_of(k), dtype)


def _below(m: Any, k: Any) -> Any:
    """The mask of the elements of m on its k-th diagonal and below."""
    shape = m.shape[-2:]
    return tri(shape[0], shape[-1], k, np.bool_)


@implements(np.tril)
def tril(m: Any, k: Any = 0) -> Any:
    """The matrix with zeros above its k-th diagonal, as np.tril."""
    m = array_of(m)
    return select(_below(m, k), m, m.dtype.type(0))


@implements(np.triu)
def triu(m: Any, k: Any = 0) -> Any:
    """The matrix with zeros below its k-th diagonal, as np.triu."""
    m = array_of(m)
    return select(_below(m, k - 1), m.dtype.type(0), m)


@implements(np.vander)
@results_in_order("C")
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The powers of a vector's elements as the columns of a matrix, as np.vander."""
    x = array_of(x)
    if len(x.shape) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    count = x.size if N is None else N
    column = cast(s.reshape(x, shape=(x.size, 1)), np.promote_types(x.dtype, int))
    ones = np.ones((x.size, min(count, 1)), column.dtype)
    factors = s.broadcast_to(column, shape=(x.size, max(count - 1, 0)))
    powers = np.concatenate([ones, np.cumprod(factors, axis=1)], axis=1)  # multiplied as NumPy does
    return powers if increasing else powers[:, ::-1]


@read_only_views("made of elements by strides, which share them")
def as_strided(
    x: Any,
    shape: Any = None,
    strides: Any = None,
    subok: bool = False,
    writeable: bool = True,
    **others: Any,
) -> Any:
    """The elements of an array in C order at steps of bytes, as np.lib.stride_tricks.as_strided.

    Raises:
      ValueError: if a step leads out of the array, or between its elements.
    """
    x = array_of(x)
    lengths = x.shape if shape is None else sizes(shape)
    size = x.dtype.itemsize
    steps = x.strides if strides is None else sizes(strides)
    if len(steps) != len(lengths):
        raise ValueError(f"strides={steps} has to have one entry for each axis of {lengths}.")
    offsets = np.zeros(lengths, np.intp)
    for axis, (length, step) in enumerate(zip(lengths, steps, strict=True)):
        along = np.arange(length) * step
        offsets += along.reshape(length, *[1] * (len(lengths) - axis - 1))
    if offsets.size and (
        offsets.min() < 0 or offsets.max() >= x.size * size or np.any(offsets % size)
    ):
        raise ValueError(f"as_strided: {lengths} by the strides {steps} leads out of the array.")
    return _pick(s.reshape(x, shape=(x.size,)), offsets // size, 0)


@implements(np.lib.stride_tricks.sliding_window_view)
@read_only_views("made of windows, which share elements")
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """All windows of a shape along axes, as np.lib.stride_tricks.sliding_window_view; a copy.

    >>> import fungrad as fg
    >>> smooth = lambda x: np.mean(np.lib.stride_tricks.sliding_window_view(x, 2), axis=-1)
    >>> fg.grad(lambda x: smooth(x)[0])(np.arange(3.0))
    array([0.5, 0.5, 0. ])
    """
    x = array_of(x)
    windows = sizes(window_shape)
    ndim = len(x.shape)
    axes = range(ndim) if axis is None else [axis_index(a, ndim) for a in sizes(axis)]
    if len(windows) != len(axes):
        raise ValueError(f"window_shape={window_shape} has to have one entry for each axis.")
    for at, width in zip(axes, windows, strict=True):
        count = x.shape[at] - width + 1
        if width < 0 or count < 1:
            raise ValueError(
                f"A window of {width} elements does not fit into an axis of {x.shape[at]}."
            )
        indices = np.add.outer(np.arange(count), np.arange(width))
        x = s.moveaxis(_pick(x, indices, at), at + 1, len(x.shape))
    return x


METHODS: dict[str, Any] = {
    "diagonal": registry.functions[np.diagonal],
    "repeat": registry.functions[np.repeat],
}

__all__ = [
    "diag", "diagflat", "diagonal", "eye", "flip", "fliplr", "flipud", "repeat", "resize",
    "roll", "rot90", "sliding_window_view", "tile", "tri", "tril", "triu", "vander",
]  # fmt: skip
