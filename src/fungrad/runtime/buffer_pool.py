"""Memory for the intermediates of programs, reused from call to call.

A task takes an arena, and gives it back when it ends, also by an error; another thread or an inner
call takes another arena meanwhile. An array of `empty` gives its memory back when it and its
views are dead: the system zeroes new memory page by page, which took two thirds of the gradient of
log(sum(exp(x))). The pool keeps at most `LIMIT` bytes.
"""

from __future__ import annotations

import heapq
import math
import threading
from collections.abc import Sequence
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

Array = tuple[tuple[int, ...], np.dtype[Any], tuple[int, ...]]
"""An array that a task needs: shape, dtype, and the order of the axes in memory."""
Layout = Sequence[tuple[int, Array]]
"""Arrays with their offsets in bytes."""


class Arena:
    """A block of memory."""

    __slots__ = ("memory", "size", "thread")

    def __init__(self, size: int) -> None:
        self.size = size
        self.thread = 0
        memory = np.empty(size + LINE, np.uint8)
        self.memory = memory[-memory.ctypes.data % LINE :][:size]


def packed(arrays: Sequence[Array], times: Sequence[int]) -> Layout:
    """The layout of arrays; those with disjoint lifetimes may share memory.

    The largest come first, each at the first free offset (greedy by size: Pisarchyk and Lee,
    Efficient Memory Management for Deep Neural Net Inference, 2020, section 5.2).

    Args:
      arrays: the arrays.
      times: the lifetime of each array: the set of times at which it is live, as bits.
    """
    sizes = [_lines(array) for array in arrays]
    starts: dict[int, int] = {}
    for i in sorted(range(len(arrays)), key=sizes.__getitem__, reverse=True):
        start = 0
        for j in sorted(starts, key=starts.__getitem__):
            if times[i] & times[j] and starts[j] < start + sizes[i]:
                start = max(start, starts[j] + sizes[j])
        starts[i] = start
    return [(starts[i], array) for i, array in enumerate(arrays)]


def packed_in_order(arrays: Sequence[Array], spans: Sequence[tuple[int, int]]) -> Layout:
    """`packed` in linear time: an array takes the place of a dead one of its size, if there is one.

    Args:
      arrays: the arrays, in the order of their first times.
      spans: the first and the last time at which each array is live.
    """
    free: dict[int, list[int]] = {}
    living: list[tuple[int, int, int]] = []
    places, end = list[tuple[int, Array]](), 0
    for array, (first, last) in zip(arrays, spans, strict=True):
        while living and living[0][0] < first:
            _, start, size = heapq.heappop(living)
            free.setdefault(size, []).append(start)
        size = _lines(array)
        start = free[size].pop() if free.get(size) else end
        end = max(end, start + size)
        heapq.heappush(living, (last, start, size))
        places.append((start, array))
    return places


def _lines(array: Array) -> int:
    """The bytes of an array, in whole cache lines."""
    shape, dtype, _ = array
    return -(-math.prod(shape) * dtype.itemsize // LINE) * LINE


def size_of(layout: Layout) -> int:
    """The bytes that an arena needs for a layout."""
    return max((start + _lines(array) for start, array in layout), default=0)


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
