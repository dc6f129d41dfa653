"""Which arrays a handle alone holds, so that a write may change them in place.

CPython counts who holds an object. The array under a handle that is written into is changed in
place where the handle is all that holds it: no view, no residual of reverse mode, no name of the
user's. Without such counts (other interpreters, free threads) every write makes a copy.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from numpy import ndarray

from fungrad.tracing.trace import Tracer, current

_count: Callable[[Any], int] = getattr(sys, "getrefcount", lambda value: 0)
_counted = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()


def _held_alone() -> int:
    """The count of what one slot holds, as it is asked for below."""
    probe = Tracer.__new__(Tracer)
    probe.value = object()
    return _count(probe.value)


ALONE = _held_alone()


class _Given(threading.local):
    """The arrays, by identity, that the write of this thread may change in place."""

    def __init__(self) -> None:
        self.arrays: dict[int, ndarray] = {}


_given = _Given()


def owned(tracer: Tracer, found: dict[int, ndarray]) -> dict[int, ndarray]:
    """Adds the arrays under a handle that nothing else holds, by identity: values and tangents."""
    if _count(tracer.value) == ALONE:
        _add(tracer.value, found)
    if type(tracer.extra) is not int and _count(tracer.extra) == ALONE:
        _add(tracer.extra, found)
    return found


def _add(value: Any, found: dict[int, ndarray]) -> None:
    if type(value) is ndarray:
        if value.base is None and value.flags.carray:  # in C order, and may be written into
            found[id(value)] = value
    elif type(value) is Tracer:
        owned(value, found)


def changed(primitive: Any, params: dict[str, Any], tracer: Any, *args: Any) -> Any:
    """The result of a primitive that changes elements of its first argument, for a handle that
    adopts it: in place, where that changes nothing for anybody else. A plain array is copied.
    """
    found = owned(tracer, {}) if _counted and type(tracer) is Tracer else None
    if not found:
        return current().process(primitive, (tracer, *args), params)
    before, _given.arrays = _given.arrays, found
    try:
        return current().process(primitive, (tracer, *args), params)
    finally:
        _given.arrays = before


def to_change(x: Any) -> Any:
    """The array itself where it was given up, else None."""
    return _given.arrays.get(id(x))


__all__ = ["changed", "owned", "to_change"]
