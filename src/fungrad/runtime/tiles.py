"""Runs the loop of a fusion cluster over its tiles, on threads, each with buffers from the pool.

`in_tiles(loop, plan, *arrays)` calls `loop(tiles, *arrays)` for consecutive parts of the rows. The
loop takes the rows of its arrays, and its buffers, from `tiles`, and adds its reductions over rows
there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.runtime import blas_threads, buffer_pool, thread_pool


class Plan:
    """How a cluster is tiled; compared by identity.

    Args:
      length: the number of rows.
      step: the number of rows of a tile.
      shared: whether threads share the tiles.
      buffers: each buffer of a tile as an array, and the axis of its rows.
      totals: the ufunc of each reduction over the rows.
      overlap: whether neighbouring tiles add to the same rows of an output.
      multiplies: whether it calls the BLAS for products that may take several threads.
    """

    def __init__(
        self,
        length: int,
        step: int,
        shared: bool,
        buffers: Sequence[tuple[buffer_pool.Array, int]],
        totals: Sequence[np.ufunc],
        overlap: bool,
        multiplies: bool,
    ) -> None:
        self.length = length
        self.step = step
        self.shared = shared
        self.axes = [axis for _, axis in buffers]
        self.layout = buffer_pool.packed([array for array, _ in buffers], [1] * len(buffers))
        self.size = buffer_pool.size_of(self.layout)
        self.totals = totals
        self.overlap = overlap
        self.multiplies = multiplies


class Tiles:
    """The tiles of the rows from `start` to `stop`, in one thread."""

    __slots__ = ("buffers", "plan", "start", "stop", "totals")

    def __init__(self, plan: Plan, start: int, stop: int, buffers: Sequence[Any]) -> None:
        self.plan = plan
        self.start = start
        self.stop = stop
        self.buffers = buffers
        self.totals: list[Any] = [None] * len(plan.totals)

    def rows(self, x: Any, axis: int) -> Sequence[Any]:
        """The rows of each tile, of an array that has them along an axis."""
        start, stop, step = self.start, self.stop, self.plan.step
        if stop - start == x.shape[axis] <= step:
            return (x,)
        before = (slice(None),) * axis
        return [x[(*before, slice(i, min(i + step, stop)))] for i in range(start, stop, step)]

    def buffer(self, number: int) -> Sequence[Any]:
        """A buffer for each tile, cut for a shorter last tile."""
        found, rows, step = self.buffers[number], self.stop - self.start, self.plan.step
        if rows % step == 0:
            return [found] * (rows // step)
        last = (*(slice(None),) * self.plan.axes[number], slice(rows % step))
        return [*[found] * (rows // step), found[last]]

    def lengths(self) -> Sequence[int]:
        """The number of rows of each tile."""
        start, stop, step = self.start, self.stop, self.plan.step
        return [min(step, stop - i) for i in range(start, stop, step)]

    def total(self, number: int, found: Any) -> None:
        """Adds the reduction of one tile to a total."""
        ufunc, held = self.plan.totals[number], self.totals[number]
        self.totals[number] = found if held is None else _both(ufunc, held, found)


def _both(ufunc: np.ufunc, held: Any, found: Any) -> Any:
    return ufunc(held, found, out=held) if held.shape else ufunc(held, found)


Loop = Callable[..., list[Any]]


def _run(loop: Loop, plan: Plan, arrays: Sequence[Any], start: int, stop: int) -> list[Any]:
    """Runs a loop over the tiles of some rows; returns its totals."""
    arena = buffer_pool.take(plan.size)
    try:
        return loop(Tiles(plan, start, stop, arena.arrays(plan, plan.layout)), *arrays)
    finally:
        buffer_pool.give(arena)


def in_tiles(loop: Loop, plan: Plan, *arrays: Any) -> list[Any]:
    """Runs a loop over all tiles; returns the totals of its reductions over rows.

    If neighbouring tiles add to the same rows, threads leave out their first tile. These tiles run
    after all others: threads need not wait for each other, and results do not depend on their
    order.
    """
    if not (plan.shared or plan.multiplies):
        return _run(loop, plan, arrays, 0, plan.length)
    left: list[tuple[int, int]] = []

    def work(start: int, stop: int) -> list[Any]:
        first = min(start + plan.step, stop) if plan.overlap and start > 0 else start
        if first > start:
            left.append((start, first))
        return _run(loop, plan, arrays, first, stop)

    threads = thread_pool.num_threads() if plan.shared else 1
    with (blas_threads.alone() if plan.multiplies else None) or contextlib.nullcontext():
        parts = thread_pool.share(work, plan.length, plan.step, threads)
        parts += [_run(loop, plan, arrays, start, stop) for start, stop in sorted(left)]
    totals: list[Any] = parts[0]
    for part in parts[1:]:
        for number, (ufunc, found) in enumerate(zip(plan.totals, part, strict=True)):
            if found is not None:
                totals[number] = _both(ufunc, totals[number], found)
    return totals


def arranged(x: Any, order: Sequence[int]) -> Any:
    """x with its axes in this order in memory."""
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
