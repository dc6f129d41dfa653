"""Runs the loop of a fusion cluster over its tiles, on threads, each with buffers from the pool.

`in_tiles(loop, plan, *arrays)` calls `loop(tiles, *arrays)` for consecutive parts of the rows. The
loop takes the rows of its arrays, and its buffers, from `tiles`, and adds its reductions over rows
there.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
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
        self.totals: list[list[_Sum]] = [[] for _ in plan.totals]

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

    def each(self, choices: Mapping[int, Any]) -> Sequence[Any]:
        """For each tile the choice for its number of rows."""
        return [choices[rows] for rows in self.lengths()]

    def total(self, number: int, found: Any) -> None:
        """Adds the reduction of the next tile to a total."""
        held = self.totals[number]
        first = held[-1][0] + held[-1][1] if held else self.start // self.plan.step
        _add(self.plan.totals[number], held, (first, 1, found))


_Sum = tuple[int, int, Any]
"""The total of some tiles: the number of the first, how many they are, and the value."""


def _add(ufunc: np.ufunc, held: list[_Sum], new: _Sum) -> None:
    """Appends the total of the next tiles; equal numbers of tiles are added as in a binary tree.

    The result is the same for any number of threads, and few totals are kept.
    """
    first, count, found = new
    while held and held[-1][1] == count and held[-1][0] % (2 * count) == 0:
        first, _, before = held.pop()
        count, found = 2 * count, _both(ufunc, before, found)
    held.append((first, count, found))


def _both(ufunc: np.ufunc, x: Any, y: Any) -> Any:
    return ufunc(x, y, out=x) if isinstance(x, np.ndarray) else ufunc(x, y)


def in_tiles(loop: Callable[..., list[list[_Sum]]], plan: Plan, *arrays: Any) -> list[Any]:
    """Runs a loop over all tiles; returns the totals of its reductions over rows.

    If neighbouring tiles add to the same rows, threads leave out their first tile. These tiles run
    after all others: threads need not wait for each other, and results do not depend on their
    order.
    """
    count, left = -(-plan.length // plan.step), list[int]()

    def run(first: int, last: int) -> list[list[_Sum]]:
        arena = buffer_pool.take(plan.size)
        try:
            buffers = arena.arrays(plan, plan.layout)
            start, stop = first * plan.step, min(last * plan.step, plan.length)
            return loop(Tiles(plan, start, stop, buffers), *arrays)
        finally:
            buffer_pool.give(arena)

    def work(first: int, last: int) -> list[list[_Sum]]:
        if plan.overlap and first:
            left.append(first)
            first += 1
        return run(first, last) if first < last else []

    threads = thread_pool.num_threads() if plan.shared else 1
    with (blas_threads.one_blas_thread() if plan.multiplies else None) or contextlib.nullcontext():
        parts = thread_pool.share(work, count, 1, threads)
        parts += [run(tile, tile + 1) for tile in sorted(left)]
    totals = []
    for ufunc, *sums in zip(plan.totals, *filter(None, parts), strict=True):
        held = list[_Sum]()
        for found in sorted(itertools.chain(*sums), key=operator.itemgetter(0)):
            _add(ufunc, held, found)
        totals.append(functools.reduce(functools.partial(_both, ufunc), [x for *_, x in held]))
    return totals


def arranged(x: Any, order: Sequence[int]) -> Any:
    """x with its axes in this order in memory."""
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
