"""Memory for the intermediates of clusters, reused from call to call.

A task takes an arena, and gives it back when it ends, also by an error; another thread or an inner
call takes another arena meanwhile. The pool keeps at most `LIMIT` bytes. No array in an arena is
returned to the user.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

LIMIT = 1 << 26
"""The most bytes that the pool keeps."""
PAGE = 4096
"""Bytes of a page: buffers take whole pages, half a page off those of NumPy's large arrays.
Processors compare the lowest 12 bits of addresses of stores and later loads, and stall if they are
equal (4K aliasing): without the offset functions/newton 20000 takes 1.2 to 1.7 times the time."""
CARVED = 64
"""The most layouts that an arena caches."""

Array = tuple[tuple[int, ...], np.dtype[Any], tuple[int, ...]]
"""An array that a task needs: shape, dtype, and the order of the axes in memory."""
Layout = Sequence[tuple[int, Array]]
"""Arrays with their offsets in bytes."""


class Arena:
    """A block of memory, and the arrays in it by layout."""

    __slots__ = ("_cut", "_memory", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        memory = np.empty(size + PAGE, np.uint8)
        self._memory = memory[(PAGE // 2 - memory.ctypes.data) % PAGE :][:size]
        self._cut: dict[Hashable, tuple[Any, ...]] = {}

    def arrays(self, key: Hashable, layout: Layout) -> tuple[Any, ...]:
        """The arrays of a layout; `key` identifies it."""
        found = self._cut.get(key)
        if found is None:
            if len(self._cut) >= CARVED:
                self._cut.clear()
            found = self._cut[key] = tuple(self._carved(layout))
        return found

    def _carved(self, layout: Layout) -> list[Any]:
        result = []
        for start, (shape, dtype, order) in layout:
            size = math.prod(shape) * dtype.itemsize
            part = self._memory[start : start + size].view(dtype)
            part = part.reshape([shape[axis] for axis in order])
            result.append(part.transpose([order.index(axis) for axis in range(len(shape))]))
        return result


def packed(arrays: Sequence[Array], times: Sequence[int]) -> Layout:
    """The layout of arrays; those with disjoint lifetimes may share memory.

    The largest come first, each at the first free offset (greedy by size: Pisarchyk and Lee,
    Efficient Memory Management for Deep Neural Net Inference, 2020, section 5.2).

    Args:
      arrays: the arrays.
      times: the lifetime of each array: the set of times at which it is live, as bits.
    """
    sizes = [_pages(array) for array in arrays]
    starts: dict[int, int] = {}
    for i in sorted(range(len(arrays)), key=sizes.__getitem__, reverse=True):
        start = 0
        for j in sorted(starts, key=starts.__getitem__):
            if times[i] & times[j] and starts[j] < start + sizes[i]:
                start = max(start, starts[j] + sizes[j])
        starts[i] = start
    return [(starts[i], array) for i, array in enumerate(arrays)]


def _pages(array: Array) -> int:
    """The bytes of an array, in whole pages."""
    shape, dtype, _ = array
    return -(-math.prod(shape) * dtype.itemsize // PAGE) * PAGE


def size_of(layout: Layout) -> int:
    """The bytes that an arena needs for a layout."""
    return max((start + _pages(array) for start, array in layout), default=0)


_lock = threading.Lock()
_free: list[Arena] = []


def take(size: int) -> Arena:
    """An arena of at least so many bytes, for the caller alone until it is given back."""
    try:
        arena = _free.pop()
    except IndexError:
        return Arena(size)
    return arena if arena.size >= size else Arena(size)  # drops the small one


def give(arena: Arena) -> None:
    """Returns an arena to the pool."""
    with _lock:
        if arena.size + held() <= LIMIT:
            _free.append(arena)


def held() -> int:
    """The bytes that the pool keeps."""
    return sum(arena.size for arena in _free)


def clear() -> None:
    """Frees the pool's memory."""
    _free.clear()
