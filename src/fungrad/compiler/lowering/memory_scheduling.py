"""An order of steps in which little is alive at once.

A sum of many products makes each product right before it is added.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from fungrad.support.lazy import Record


class Step(Record):
    """The values that a step reads and makes, by names of any kind."""

    reads: Sequence[Hashable]
    makes: Sequence[Hashable]


def lean(steps: Sequence[Step], size: Callable[[Any], int], kept: Sequence[Hashable]) -> list[int]:
    """The places of steps in an order that needs less memory at its peak than they do, if found.

    Of the steps whose values are there, the one after which least is alive comes next, the first
    of equals. The order stays as it is where that does not help.

    Args:
      steps: in an order in which they can be done.
      size: of a value that a step makes.
      kept: values that stay alive.
    """
    as_they_are = list(range(len(steps)))
    order = _greedy(steps, size, kept)
    lower = peak(steps, order, size, kept) < peak(steps, as_they_are, size, kept)
    return order if lower else as_they_are


class _Alive:
    """The values that are alive as steps are done."""

    def __init__(
        self, steps: Sequence[Step], size: Callable[[Any], int], kept: Sequence[Hashable]
    ) -> None:
        self.steps = steps
        self.size = {v: size(v) for step in steps for v in step.makes}
        self.readers: dict[Hashable, set[int]] = {v: set() for v in self.size}
        for place, step in enumerate(steps):
            for v in step.reads:
                if v in self.readers:
                    self.readers[v].add(place)
        self.kept = set(kept)

    def made(self, place: int) -> int:
        """The bytes of what a step makes."""
        return sum(self.size[v] for v in self.steps[place].makes)

    def last(self, value: Hashable) -> bool:
        """Whether at most one step is left that reads a value that does not stay."""
        return value in self.readers and len(self.readers[value]) <= 1 and value not in self.kept

    def freed(self, place: int) -> int:
        """The bytes that die with a step."""
        step = self.steps[place]
        dead = {v for v in step.reads if self.last(v)}
        dead.update(v for v in step.makes if not self.readers[v] and v not in self.kept)
        return sum(self.size[v] for v in dead)

    def done(self, place: int) -> None:
        """Notes that a step is done."""
        for v in self.steps[place].reads:
            if v in self.readers:
                self.readers[v].discard(place)


def peak(
    steps: Sequence[Step],
    order: Sequence[int],
    size: Callable[[Any], int],
    kept: Sequence[Hashable],
) -> int:
    """The most bytes of what steps make that are alive at once."""
    ends: dict[Hashable, int] = {}
    for place in order:
        step = steps[place]
        for v in step.makes:
            ends[v] = place
        for v in step.reads:
            if v in ends:
                ends[v] = place
    for v in kept:
        ends.pop(v, None)
    now = most = 0
    for place in order:
        step = steps[place]
        for v in step.makes:
            now += size(v)
        if now > most:
            most = now
        for values in step:
            for v in values:
                if ends.get(v) == place:
                    now -= size(v)
                    del ends[v]
    return most


def _greedy(
    steps: Sequence[Step], size: Callable[[Any], int], kept: Sequence[Hashable]
) -> list[int]:
    alive = _Alive(steps, size, kept)
    maker = {v: place for place, step in enumerate(steps) for v in step.makes}
    waits = [len({maker[v] for v in step.reads if v in maker}) for step in steps]
    readers = {v: sorted(places) for v, places in alive.readers.items()}
    ready: list[tuple[int, int]] = []
    known: dict[int, int] = {}

    def offer(place: int) -> None:
        grows = alive.made(place) - alive.freed(place)
        if known.get(place) != grows:
            known[place] = grows
            heapq.heappush(ready, (grows, place))

    for place, count in enumerate(waits):
        if count == 0:
            offer(place)
    order: list[int] = []
    done: set[int] = set()
    while ready:
        grows, place = heapq.heappop(ready)
        if place in done or known[place] != grows:
            continue
        done.add(place)
        order.append(place)
        alive.done(place)
        for follower in sorted({r for v in steps[place].makes for r in readers[v]}):
            waits[follower] -= 1
            if waits[follower] == 0:
                offer(follower)
        for v in steps[place].reads:  # whoever reads the rest of them last, frees more now
            if v in alive.readers and len(alive.readers[v]) == 1:
                (other,) = alive.readers[v]
                if waits[other] == 0 and other not in done:
                    offer(other)
    return order


__all__ = ["Step", "lean", "peak"]
