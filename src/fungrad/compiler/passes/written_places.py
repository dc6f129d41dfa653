"""The places of an array that a chain of writes has written, and what stands there after each of
them. Knows indices alone.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from fungrad.ir.graph import Atom, Equation
from fungrad.primitives.movement.gather import Index, expanded
from fungrad.primitives.movement.static_index import of_int
from fungrad.support.record import Record

WHOLE = slice(None)


class Places(Record):
    """Places along some neighbouring axes, taken as one: `axes` of them behind `lead` others."""

    lead: int
    axes: int
    start: int
    stop: int
    kept: bool
    """Whether a slice names them, so that the axis is there in what is written."""


class Part(Record):
    """A place that a slice has written: an item of its values."""

    values: Atom
    number: int


class _Zero:
    """What stands in a place that was cleared."""


ZERO = _Zero()


class Chain:
    """Links that write into one array at places of the same axes, by their order."""

    def __init__(self, root: Atom | None, shape: tuple[int, ...], dtype: Any, at: Places) -> None:
        self.root = root
        """What the first one writes into, None for zeros."""
        self.shape, self.dtype = shape, dtype
        self.lead, self.axes = at.lead, at.axes
        self.named = shape[at.lead : at.lead + at.axes]
        self.item = (*shape[: at.lead], *shape[at.lead + at.axes :])
        self.size = int(np.prod(self.named))
        self.links: list[Equation] = []
        self.written: dict[int, tuple[list[int], list[Any]]] = {}
        """By place: the orders of the links that wrote there, and what they wrote."""

    def write(self, place: int, entry: Any) -> None:
        """Notes what the newest link writes."""
        orders, entries = self.written.setdefault(place, ([], []))
        orders.append(len(self.links))
        entries.append(entry)

    def alike(self, lead: int, axes: int) -> bool:
        """Whether its places are along these axes."""
        return self.lead == lead and self.axes == axes

    def at(self, place: int, order: int) -> Any:
        """What stands in a place after so many links; None where no link has written."""
        orders, entries = self.written.get(place, ((), ()))
        found = bisect_right(orders, order)
        return entries[found - 1] if found else None

    def index(self, place: int) -> Index:
        """The index of a place."""
        if self.axes == 1 and not self.lead:
            return of_int(place)
        return Index((*[WHOLE] * self.lead, *map(int, np.unravel_index(place, self.named))))


class Member(Record):
    """What a chain has made after so many links."""

    chain: Chain
    order: int


def places_of(index: Index, shape: tuple[int, ...]) -> Places | None:
    """The places that an index names, where they are integers along neighbouring axes, or a stretch
    of one axis.
    """
    if any(entry is None or type(entry) is str for entry in index.entries):
        return None
    entries = expanded(index, len(shape))
    named = [axis for axis, entry in enumerate(entries) if entry != WHOLE]
    if not named or named[-1] - named[0] >= len(named):
        return None
    lead, count = named[0], len(named)
    picked, lengths = entries[lead : lead + count], shape[lead : lead + count]
    if all(type(entry) is int for entry in picked):
        place = 0
        for entry, n in zip(picked, lengths, strict=True):
            place = place * n + entry % n
        return Places(lead, count, place, place + 1, False)
    if count > 1 or type(picked[0]) is not slice:
        return None
    start, stop, step = picked[0].indices(lengths[0])
    return Places(lead, 1, start, stop, True) if step == 1 and start < stop else None


__all__ = ["WHOLE", "ZERO", "Chain", "Member", "Part", "Places", "places_of"]
