"""NumPy's differences of neighbours for traced values."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.numpy.join_split import concatenate
from fungrad.numpy.protocol.implements import implements
from fungrad.numpy.protocol.operands import array_of, axis_index
from fungrad.primitives.elementwise.family import sub
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement.reshape_broadcast_cast import cast


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The n-th differences of neighbours along an axis, as np.diff."""
    a = array_of(a)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if not a.shape:
        raise ValueError("diff requires input that is at least one dimensional")
    if n == 0:
        return a
    axis = axis_index(axis, len(a.shape))
    edge = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    parts = [a]
    if prepend is not None and prepend is not np._NoValue:
        parts.insert(0, _as_edge(prepend, edge))
    if append is not None and append is not np._NoValue:
        parts.append(_as_edge(append, edge))
    a = concatenate(parts, axis) if len(parts) > 1 else a
    subtract = np.not_equal if a.dtype.kind == "b" else sub
    for _ in range(n):
        length = a.shape[axis]
        later = s.slice_axis(a, axis=axis, start=min(1, length), stop=length)
        earlier = s.slice_axis(a, axis=axis, start=0, stop=max(0, length - 1))
        a = subtract(later, earlier)
    return a


def _as_edge(value: Any, shape: tuple[int, ...]) -> Any:
    value = array_of(value)
    return value if value.shape else s.broadcast_to(value, shape=shape)


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """The differences of neighbours in the flattened array, with ends added, as np.ediff1d."""
    a = array_of(ary)
    parts = [diff(s.reshape(a, shape=(a.size,)))]
    for end, index in ((to_begin, 0), (to_end, 2)):
        if end is not None:
            end = cast(array_of(end), a.dtype)
            parts.insert(index, s.reshape(end, shape=(end.size,)))
    return concatenate(parts) if len(parts) > 1 else parts[0]


__all__ = ["diff", "ediff1d"]
