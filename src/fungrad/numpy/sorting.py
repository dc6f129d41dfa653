"""NumPy's functions that sort, and that search sorted arrays, for traced values.

Positions have no derivative, sorted values have. Order statistics are in order_statistics.py, sets
in sets_and_counts.py.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.numpy.protocol.implements import implements, known
from fungrad.numpy.protocol.operands import array_of, axis_index, flattened, promoted
from fungrad.primitives import sort as s
from fungrad.primitives.movement.reshape_broadcast_cast import cast, concatenate
from fungrad.tracing import interception
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, registry, shape_of


def _along(a: Any, axis: Any) -> tuple[Any, int]:
    """The array and the axis to sort along; flattened if the axis is None."""
    a = array_of(a)
    if axis is None:
        return flattened(a), 0
    return a, axis_index(axis, len(shape_of(a)))


def _positions_along(a: Any, axis: Any) -> tuple[Any, int]:
    """As `_along`, also for a 0-d value: NumPy treats it as an axis of length 1 here."""
    a = array_of(a)
    lone = not shape_of(a) and axis in (0, -1)
    return _along(a, None if lone else axis)


def _refuse_fields(function: str, order: Any) -> None:
    if order is not None:
        raise UnsupportedArgumentError(
            f"{function} was called with order=...{user_line()}, which names fields of structured "
            "arrays; traced values have none. Leave it out."
        )


@implements(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """The elements in ascending order, as numpy.sort; equal ones share the derivative equally."""
    _refuse_fields("numpy.sort", order)
    a, axis = _along(a, axis)
    return s.sort(a, axis=axis)


@implements(np.argsort)
def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    """The positions of the elements in ascending order, as numpy.argsort."""
    _refuse_fields("numpy.argsort", order)
    if kind is not None and stable is not None:
        raise ValueError("`kind` and `stable` parameters can't be provided at the same time.")
    a, axis = _positions_along(a, axis)
    return s.argsort(a, axis=axis, kind="stable" if stable else kind)


@implements(np.sort_complex)
def sort_complex(a: Any) -> Any:
    """The elements sorted along the last axis, as complex numbers, as numpy.sort_complex."""
    a = sort(a)
    if a.dtype.kind == "c":
        return a
    return cast(a, {**dict.fromkeys("bhBH", "F"), "g": "G"}.get(a.dtype.char, "D"))


@implements(np.lexsort)
def lexsort(keys: Any, axis: Any = -1) -> Any:
    """The positions of the elements sorted by the last key first, as numpy.lexsort."""
    if type(keys) is Tracer:
        keys = list(keys) if shape_of(keys) else []
    keys = [array_of(key) for key in keys]
    if not keys:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if not any(map(shape_of, keys)) and axis in (0, -1):  # single numbers are in order
        return np.intp(0)
    return s.lexsort(*keys, axis=axis_index(axis, len(shape_of(keys[0]))))


# --- partitions -----------------------------------------------------------------------------------


def _kth(kth: Any, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Nonnegative positions in a sorted axis. In an empty array NumPy takes any."""
    result: list[int] = []
    if 0 in shape:
        return (0,)
    length = shape[axis]
    for k in np.atleast_1d(known(kth, "np.partition(kth)")).tolist():
        index = operator.index(k)
        if length and not -length <= index < length:
            raise ValueError(f"kth(={index}) out of bounds ({length})")
        result.append(index % length if length else 0)
    return tuple(result)


@implements(np.partition)
def partition(
    a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None
) -> Any:
    """The elements with the kth in their sorted positions, as numpy.partition; ties share."""
    _refuse_fields("numpy.partition", order)
    a, axis = _along(a, axis)
    return s.partition(a, kth=_kth(kth, shape_of(a), axis), axis=axis)


@implements(np.argpartition)
def argpartition(
    a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None
) -> Any:
    """Positions that partition an array, as numpy.argpartition."""
    _refuse_fields("numpy.argpartition", order)
    a, axis = _positions_along(a, axis)
    return s.argpartition(a, kth=_kth(kth, shape_of(a), axis), axis=axis)


# --- searching ------------------------------------------------------------------------------------


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """The positions at which the elements of v belong in the ascending a, as numpy.searchsorted."""
    if side not in ("left", "right"):
        raise ValueError(f"search side must be one of 'left' or 'right' (got {side!r})")
    a, v = promoted([array_of(a), array_of(v)])
    if sorter is not None:
        a = registry.functions[interception.original(np.take)](a, sorter)
    if len(shape_of(a)) != 1:
        raise ValueError("object of too small depth for desired array")
    return s.searchsorted(a, v, side=side)


@implements(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The bin that each element falls into, as numpy.digitize.

    Raises:
      ValueError: if the bins neither ascend nor descend; in a compiled program when it runs.
    """
    x, bins = array_of(x), array_of(bins)
    if x.dtype.kind == "c":
        raise TypeError("x may not be complex")
    if len(shape_of(bins)) != 1:
        raise ValueError("object of too small depth for desired array")
    return s.digitize(bins, x, right=bool(right))


def joined_flat(arrays: Any) -> Any:
    """Arrays flattened, cast to one dtype and concatenated."""
    parts = promoted([flattened(array_of(a)) for a in arrays])
    return parts[0] if len(parts) == 1 else concatenate(*parts, axis=0)


METHODS: dict[str, Any] = {
    "argpartition": registry.functions[np.argpartition],
    "argsort": registry.functions[np.argsort],
    "searchsorted": registry.functions[np.searchsorted],
}
"""ndarray's methods, by name."""

__all__ = [
    "argpartition", "argsort", "digitize", "lexsort", "partition", "searchsorted", "sort",
    "sort_complex",
]  # fmt: skip
