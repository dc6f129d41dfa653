"""Memory for the intermediates of programs, reused from call to call.

A task takes an arena, and gives it back when it ends, also by an error; another thread or an inner
call takes another arena meanwhile. An array of `empty` gives its memory back when it and its
views are dead: the system zeroes new memory page by page, which took two thirds of the gradient of
log(sum(exp(x))). The pool keeps at most `LIMIT` bytes.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from fungrad.support import forks

LIMIT = 1 << 26
"""The most bytes that the pool keeps."""
LARGE = 1 << 17
"""The fewest bytes of an array in the pool: smaller ones are reused by malloc."""
LINE = 64
"""Bytes of a cache line: buffers take whole ones, without which programs take 1.05 to 1.1 times the
time."""


class Arena:
    """A block of memory."""

    __slots__ = ("memory", "size", "thread")

    def __init__(self, size: int) -> None:
        self.size = size
        self.thread = 0
        memory = np.empty(size + LINE, np.uint8)
        self.memory = memory[-memory.ctypes.data % LINE :][:size]


_lock = forks.lock()
_free: list[Arena] = []


def take(size: int) -> Arena:
    """An arena of at least so many bytes, for the caller alone until it is given back.

    It is one that this thread gave back, if there is any: to fetch memory from the cache of another
    core takes longer than to compute with it (softmax 2000x100 on two threads: 2.4 times as long).
    """
    me = threading.get_ident()
    with _lock:
        large = [arena for arena in _free if arena.size >= size]
        if not large:
            return Arena(size)
        chosen = min(reversed(large), key=lambda arena: (arena.thread != me, arena.size))
        if chosen in _free:  # unless a destructor gave an array back meanwhile, in place of it
            _free.remove(chosen)
        return chosen


def give(arena: Arena) -> None:
    """Returns an arena to the pool, in place of those that have been there longest."""
    arena.thread = threading.get_ident()
    with _lock:
        while _free and arena.size + held() > LIMIT:
            del _free[0]
        if arena.size <= LIMIT:
            _free.append(arena)


class _Owner:
    """Gives the memory of a dead array back to the pool."""

    def __init__(self, arena: Arena, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.arena = arena
        data = arena.memory.ctypes.data, False
        self.__array_interface__ = {"shape": shape, "typestr": dtype.str, "data": data,
                                    "version": 3}  # fmt: skip

    def __del__(self) -> None:
        give(self.arena)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """An array without values; if it is large, in memory of the pool."""
    size = math.prod(shape) * dtype.itemsize
    if not LARGE <= size <= LIMIT or dtype.kind not in "biufc":
        return np.empty(shape, dtype)
    return np.asarray(_Owner(take(size), shape, dtype))


def held() -> int:
    """The bytes that the pool keeps."""
    return sum(arena.size for arena in _free)


def clear() -> None:
    """Frees the pool's memory."""
    with _lock:
        _free.clear()
