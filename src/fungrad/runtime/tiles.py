"""Runs the loop of a fusion cluster over its tiles: on threads, each with buffers of a pool.

`in_tiles(loop, plan, *arrays)` calls `loop(tiles, *arrays)` for stretches of rows. The loop gets
the rows of its arrays, and its buffers, from `tiles`, and leaves there what it reduces over rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.runtime import blas_threads, buffer_pool, thread_pool


class Plan:
    """How a cluster is tiled; known by identity.

    Args:
      length: how many rows it has.
      step: how many of them a tile has.
      shared: whether threads share the tiles.
      buffers: of each buffer of a tile the array, and the axis of its rows.
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

    def __init__(self, plan: Plan, start: int, stop: int, buffers: Sequence[Any]) -> None:
        step = plan.step
        self.plan = plan
        self.buffers = buffers
        self.rows_of = [slice(i, min(i + step, stop)) for i in range(start, stop, step)]
        self.last = (stop - start) % step
        """The rows of the last tile, if they are fewer than those of others."""
        self.totals: list[Any] = [None] * len(plan.totals)

    def rows(self, x: Any, axis: int) -> Any:
        """The rows of each tile, of an array that has them along an axis."""
        before = (slice(None),) * axis
        return map(x.__getitem__, [(*before, rows) for rows in self.rows_of])

    def buffer(self, number: int) -> Sequence[Any]:
        """A buffer, for each tile."""
        found = self.buffers[number]
        each = [found] * len(self.rows_of)
        if self.last:
            each[-1] = found[(*(slice(None),) * self.plan.axes[number], slice(self.last))]
        return each

    def lengths(self) -> Any:
        """How many rows each tile has."""
        return (rows.stop - rows.start for rows in self.rows_of)

    def total(self, number: int, found: Any) -> None:
        """Adds what a tile was reduced to."""
        held, ufunc = self.totals[number], self.plan.totals[number]
        self.totals[number] = found if held is None else _both(ufunc, held, found)


def _both(ufunc: np.ufunc, held: Any, found: Any) -> Any:
    return ufunc(held, found, out=held) if held.shape else ufunc(held, found)


def in_tiles(loop: Callable[..., None], plan: Plan, *arrays: Any) -> list[Any]:
    """Runs a loop over all tiles; the totals of its reductions over rows.

    Where neighbouring tiles add to the same rows, threads leave out their first tile, and these run
    after all others: threads need not wait for each other, and the numbers do not depend on their
    order.
    """

    def run(start: int, stop: int) -> list[Any]:
        arena = buffer_pool.take(plan.size)
        try:
            tiles = Tiles(plan, start, stop, arena.arrays(plan, plan.layout))
            loop(tiles, *arrays)
            return tiles.totals
        finally:
            buffer_pool.give(arena)

    left: list[tuple[int, int]] = []

    def work(start: int, stop: int) -> list[Any]:
        if plan.overlap and start > 0:
            first = min(start + plan.step, stop)
            left.append((start, first))
            start = first
        return run(start, stop)

    threads = thread_pool.num_threads() if plan.shared else 1
    alone = blas_threads.alone() if plan.multiplies else None
    with alone or contextlib.nullcontext():
        parts = thread_pool.share(work, plan.length, plan.step, threads)
        parts += [run(start, stop) for start, stop in sorted(left)]
    totals: list[Any] = parts[0]
    for part in parts[1:]:
        for number, (ufunc, found) in enumerate(zip(plan.totals, part, strict=True)):
            if found is not None:
                totals[number] = _both(ufunc, totals[number], found)
    return totals


def arranged(x: Any, order: Sequence[int]) -> Any:
    """x with its axes in this order in memory."""
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
