"""Floor 6: memory for the intermediates of blocks, used again from call to call.

A piece of work takes an arena, and gives it back when it ends, be it by an error; whoever comes
meanwhile, another thread or an inner call, takes another one. What is given back beyond `LIMIT`
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
"""Buffers begin at one place of a page: processors tell what was written from what is read next by
the last 12 bits of their places, and where those are a line or two apart, wait: up to four times as
long."""
PLACE = 2048
"""That place, half a page from where large arrays of NumPy begin."""
CARVED = 64
"""How many ways of cutting itself up an arena remembers."""

Layout = Sequence[tuple[tuple[int, ...], np.dtype[Any], tuple[int, ...]]]
"""The arrays that a piece of work needs: shape, dtype, and the order of the axes in memory."""


class Arena:
    """A stretch of memory, and the arrays that it was cut into."""

    __slots__ = ("_cut", "_memory", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        memory = np.empty(size + PAGE, np.uint8)
        self._memory = memory[(PLACE - memory.ctypes.data) % PAGE :][:size]
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
        result, start = [], 0
        for shape, dtype, order in layout:
            size = math.prod(shape) * dtype.itemsize
            part = self._memory[start : start + size].view(dtype)
            part = part.reshape([shape[axis] for axis in order])
            result.append(part.transpose([order.index(axis) for axis in range(len(shape))]))
            start += _aligned(size)
        return result


def _aligned(size: int) -> int:
    return -(-size // PAGE) * PAGE


def size_of(layout: Layout) -> int:
    """How many bytes an arena must have for a layout."""
    return sum(_aligned(math.prod(shape) * dtype.itemsize) for shape, dtype, _ in layout)


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


__all__ = ["Arena", "Layout", "clear", "give", "held", "size_of", "take"]
