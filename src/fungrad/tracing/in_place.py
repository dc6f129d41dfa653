"""Writes in place: a write changes the array under a handle in place if CPython's reference count
shows that no view, residual or name holds it.

Without such counts (other interpreters, free threads) each write copies.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from numpy import ndarray

from fungrad.tracing.trace import Tracer, current

_count: Callable[[Any], int] = getattr(sys, "getrefcount", lambda value: 0)


COUNTED = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether reference counts tell who holds an object."""


def _held_alone() -> int:
    """The reference count of an object that one slot of a Tracer alone holds."""
    probe = Tracer.__new__(Tracer)
    probe.inner = object()
    return _count(probe.inner)


ALONE = _held_alone()


class _Given(threading.local):
    """The arrays, by identity, that this thread's present write may change in place."""

    def __init__(self) -> None:
        self.arrays: dict[int, ndarray] = {}


_given = _Given()


def owned(tracer: Tracer, found: dict[int, ndarray]) -> dict[int, ndarray]:
    """Adds to `found`, by identity, the arrays (values, tangents) that this handle alone holds."""
    if _count(tracer.inner) == ALONE:
        _add(tracer.inner, found)
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
    """The result of a primitive that changes elements of its first operand, `tracer`, which then
    adopts it. Works in place if nothing else holds the array; copies a plain array.
    """
    found = owned(tracer, {}) if COUNTED and type(tracer) is Tracer else None
    if not found:
        return current().process(primitive, (tracer, *args), params)
    before, _given.arrays = _given.arrays, found
    try:
        return current().process(primitive, (tracer, *args), params)
    finally:
        _given.arrays = before


def to_change(x: Any) -> Any:
    """The array itself if the present write may change it in place, else None."""
    return _given.arrays.get(id(x))
