"""The layout of a program's scratch memory: arrays that are not live at one time may share it."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Sequence

from fungrad.runtime.buffer_pool import LINE


def packed(sizes: Sequence[int], spans: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    """The offsets of arrays, and the bytes of memory that they take, by a linear scan of their
    lifetimes: each takes the smallest gap that is large enough, or new memory at the end. A gap of
    more than 16 times its size is left to a larger array: it would not fit there afterwards.

    Args:
      sizes: the bytes of each array, in the order of their first times.
      spans: the first and the last time at which each array is live.
    """
    gaps: list[tuple[int, int]] = []
    """The free memory between arrays, in order: begin and end."""
    living: list[tuple[int, int, int]] = []
    offsets, end = list[int](), 0
    for size, (first, last) in zip(map(whole_lines, sizes), spans, strict=True):
        while living and living[0][0] < first:
            _release(gaps, *heapq.heappop(living)[1:])
        fitting = [gap for gap in gaps if size <= gap[1] - gap[0] <= 16 * size]
        if fitting:
            start, stop = min(fitting, key=lambda gap: gap[1] - gap[0])
            gaps.remove((start, stop))
            if start + size < stop:
                bisect.insort(gaps, (start + size, stop))
        else:
            extends = bool(gaps) and gaps[-1][1] == end and end - gaps[-1][0] < size
            start = gaps.pop()[0] if extends else end
            end = start + size
        heapq.heappush(living, (last, start, start + size))
        offsets.append(start)
    return offsets, end


def _release(gaps: list[tuple[int, int]], start: int, stop: int) -> None:
    """Adds a gap, joined with those beside it."""
    at = bisect.bisect(gaps, (start, stop))
    if at < len(gaps) and gaps[at][0] == stop:
        stop = gaps.pop(at)[1]
    if at and gaps[at - 1][1] == start:
        at -= 1
        start = gaps.pop(at)[0]
    gaps.insert(at, (start, stop))


def whole_lines(size: int) -> int:
    """Bytes, in whole cache lines."""
    return -(-size // LINE) * LINE
