"""Memory for the intermediates of blocks, used again from call to call.

A piece of work takes an arena, and gives it back when it ends, be it by an error; whoever comes
meanwhile, another thread or an inner call, takes another one. Memory given back beyond `LIMIT`
bytes is left to the garbage collector. Nothing in an arena ever reaches a user.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

LIMIT = 1 << 26
"""Bytes that are held for later at most."""
PAGE = 4096
"""Bytes of a page: buffers take whole ones, and begin half a page from where large arrays of NumPy
do. Processors tell what was written from what is read next by the last 12 bits of their places, and
wait where those are alike: without it functions/newton 20000 takes 1.2 to 1.7 times the time."""
CARVED = 64
"""How many ways of cutting itself up an arena remembers."""

Array = tuple[tuple[int, ...], np.dtype[Any], tuple[int, ...]]
"""An array that a piece of work needs: shape, dtype, and the order of the axes in memory."""
Layout = Sequence[tuple[int, Array]]
"""Such arrays, each with the byte where it begins."""


class Arena:
    """A stretch of memory, and the arrays that it was cut into."""

    __slots__ = ("_cut", "_memory", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        memory = np.empty(size + PAGE, np.uint8)
        self._memory = memory[(PAGE // 2 - memory.ctypes.data) % PAGE :][:size]
        self._cut: dict[Hashable, tuple[Any, ...]] = {}

    def arrays(self, key: Hashable, layout: Layout) -> tuple[Any, ...]:
        """The arrays of a layout, which `key` stands for."""
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
    """The layout of arrays, in the same memory where they are not needed at one time.

    The largest come first, each to the first place that is free (greedy by size: Pisarchyk and
    Lee, Efficient Memory Management for Deep Neural Net Inference, 2020, section 5.2).

    Args:
      arrays: which.
      times: of each array the set of times at which it is needed, as the bits of an integer.
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
    """How many bytes an arena must have for a layout."""
    return max((start + _pages(array) for start, array in layout), default=0)


_lock = threading.Lock()
_free: list[Arena] = []


def take(size: int) -> Arena:
    """An arena of at least so many bytes, the caller's own until it is given back."""
    try:
        arena = _free.pop()
    except IndexError:
        return Arena(size)
    return arena if arena.size >= size else Arena(size)  # the small one is dropped


def give(arena: Arena) -> None:
    """Gives an arena back."""
    with _lock:
        if arena.size + held() <= LIMIT:
            _free.append(arena)


def held() -> int:
    """How many bytes are held for later."""
    return sum(arena.size for arena in _free)


def clear() -> None:
    """Frees what is held."""
    _free.clear()
