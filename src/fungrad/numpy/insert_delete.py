"""NumPy's functions that insert and delete elements, and that compute indices, for traced values.

Positions of insertions may be traced, and that of a single deletion. Several positions of deletions
have to be known, since the shape depends on them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.numpy.join_split import concatenate
from fungrad.numpy.protocol.implements import if_known, implements, known
from fungrad.numpy.protocol.operands import array_of, axis_index, flattened, sizes
from fungrad.numpy.protocol.result_order import results_in_order
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.gather import ARRAY, Index, getitem
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, cast, moveaxis, reshape
from fungrad.primitives.runtime_check import in_range, index_on
from fungrad.tracing.trace import shape_of


def _along(arr: Any, axis: Any) -> tuple[Any, int]:
    arr = array_of(arr)
    if axis is None:
        return flattened(arr), 0
    return arr, axis_index(axis, len(arr.shape))


def _taken(x: Any, indices: Any, axis: int, unique: bool = False) -> Any:
    return getitem(x, indices, index=Index((*[slice(None)] * axis, ARRAY), unique=unique))


def _traced(obj: Any) -> Any:
    """An index of integers if only its type is known; else None."""
    if isinstance(obj, slice) or if_known(obj) is not None:
        return None
    obj = array_of(obj)
    return obj if obj.dtype.kind in "iu" else None


def _plain(obj: Any, function: str) -> Any:
    """A slice, or the values of an index, which have to be known."""
    return obj if isinstance(obj, slice) else known(obj, f"{function}(obj)")


@implements(np.delete)
@results_in_order("A")
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """An array without elements of an axis, as numpy.delete; several positions have to be known."""
    arr, axis = _along(arr, axis)
    length = shape_of(arr)[axis]
    indices = np.arange(length)
    where = _traced(obj)
    if where is not None and where.size == 1:
        gone = index_on(reshape(where, shape=()), length, axis, length)
        rest = np.arange(length - 1)
        return _taken(arr, rest + (rest >= gone), axis, unique=True)
    return _taken(arr, np.delete(indices, _plain(obj, "np.delete")), axis, unique=True)


@implements(np.insert)
@results_in_order("A")
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """An array with values inserted before positions of an axis, as numpy.insert."""
    arr, axis = _along(arr, axis)
    shape = shape_of(arr)
    length = shape[axis]
    where = _traced(obj)
    traced = where is not None
    if not traced:
        where = _plain(obj, "np.insert")
    values = cast(array_of(values), arr.dtype)
    single = not isinstance(where, slice) and np.size(where) == 1
    single = single and array_of(where).dtype.kind != "b"
    if single:
        missing = max(len(shape) - len(values.shape), 0)
        values = reshape(values, shape=(*[1] * missing, *values.shape))
        if not np.ndim(where):
            values = moveaxis(values, 0, axis)
        count = values.shape[axis]
        if traced:
            where = broadcast_to(reshape(where, shape=()), shape=(count,))
        elif not -length <= (position := np.asarray(where).item()) <= length:
            raise IndexError(f"index {where} is out of bounds for axis {axis} with size {length}")
        else:
            where = np.full(count, position)
    elif traced:
        count = where.size
    else:
        count = len(np.insert(np.arange(length), where, 0)) - length
    if traced:
        new = _merged(index_on(where, length, axis, length + 1), length, count)
    else:
        new = np.insert(np.arange(length), where, np.arange(length, length + count))
    values = broadcast_to(values, shape=(*shape[:axis], count, *shape[axis + 1 :]))
    return _taken(concatenate([arr, values], axis), new, axis, unique=True)


def _merged(where: Any, length: int, count: int) -> Any:
    """The result of numpy.insert(np.arange(length), where, np.arange(length, length + count))."""
    if len(where.shape) > 1:
        raise ValueError("index array argument obj to insert must be one dimensional or scalar")
    order = np.argsort(where, kind="stable")
    slots = where[order] + np.arange(count)  # the positions of the new elements, in this order
    indices = np.arange(length + count)
    before = np.searchsorted(slots, indices)  # the number of new elements before a position
    if not count:
        return indices
    last = np.minimum(before, count - 1)
    return select(slots[last] == indices, length + order[last], indices - before)


# --- indices --------------------------------------------------------------------------------------


@implements(np.ix_)
def ix_(*args: Any) -> tuple[Any, ...]:
    """Vectors of indices as arrays that span an open mesh, as numpy.ix_; masks have to be known."""
    result = []
    for i, given in enumerate(args):
        x = array_of(given)
        if len(x.shape) != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if x.dtype.kind == "b":
            x = known(x, "np.ix_ of a mask").nonzero()[0]
        elif not x.size:
            x = cast(x, np.intp)
        result.append(reshape(x, shape=tuple([x.size if j == i else 1 for j in range(len(args))])))
    return tuple(result)


def _square(arr: Any, function: str) -> tuple[int, int]:
    shape = shape_of(array_of(arr))
    if len(shape) != 2:
        raise ValueError("input array must be 2-d")
    return shape[0], shape[1]


@implements(np.tril_indices_from)
def tril_indices_from(arr: Any, k: int = 0) -> Any:
    """The indices of the lower triangle, as numpy.tril_indices_from."""
    n, m = _square(arr, "tril_indices_from")
    return np.tril_indices(n, k, m)


@implements(np.triu_indices_from)
def triu_indices_from(arr: Any, k: int = 0) -> Any:
    """The indices of the upper triangle, as numpy.triu_indices_from."""
    n, m = _square(arr, "triu_indices_from")
    return np.triu_indices(n, k, m)


@implements(np.diag_indices_from)
def diag_indices_from(arr: Any) -> Any:
    """The indices of the diagonal, as numpy.diag_indices_from."""
    return np.diag_indices_from(np.broadcast_to(0, shape_of(array_of(arr))))


def _integers(x: Any) -> Any:
    """Indices as NumPy's unravel_index and ravel_multi_index take them, as intp."""
    x = array_of(x)
    if x.dtype.kind not in "iub":
        raise TypeError("only int indices permitted")
    return cast(x, np.intp)


@implements(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """Positions in a flattened array as indices, as numpy.unravel_index.

    Raises:
      ValueError: if a position is out of range; in a compiled program when it runs.
    """
    lengths = sizes(shape)
    rest = _integers(indices)
    if not lengths and rest.shape:
        raise ValueError("multiple indices are not supported for 0d arrays")
    total = math.prod(lengths)
    message = f"index {{}} is out of bounds for array with size {total}"
    rest = in_range(rest, total, message)
    result = []
    for length in lengths if order == "F" else lengths[::-1]:
        result.append(rest % length)
        rest = rest // length
    return tuple(result if order == "F" else result[::-1])


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """Indices as positions in the flattened array, as numpy.ravel_multi_index.

    Raises:
      ValueError: if an index is out of range; in a compiled program when it runs.
    """
    lengths = sizes(dims)
    modes = [mode] * len(lengths) if isinstance(mode, str) else list(mode)
    indices = [_integers(index) for index in multi_index]
    if len(indices) != len(lengths):
        raise ValueError(f"parameter multi_index must be a sequence of length {len(lengths)}")
    total: Any = 0
    for i, (position, length, kind) in enumerate(zip(indices, lengths, modes, strict=True)):
        if kind == "wrap":
            position = position % length
        elif kind == "clip":
            position = np.minimum(np.maximum(position, 0), length - 1)
        elif kind == "raise":
            position = in_range(position, length, "invalid entry in coordinates array")
        else:
            raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {kind!r})")
        total = total + position * math.prod(lengths[:i] if order == "F" else lengths[i + 1 :])
    return total


__all__ = [
    "delete", "diag_indices_from", "insert", "ix_", "ravel_multi_index", "tril_indices_from",
    "triu_indices_from", "unravel_index",
]  # fmt: skip
