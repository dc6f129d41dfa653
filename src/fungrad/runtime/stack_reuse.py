"""Arrays that a program fills at each call, and views of them, kept for its next call.

They are taken again where nobody else holds them: no call that still runs, in another thread, and
nobody who got them as results. CPython counts how many hold an object; where those counts are not
exact, in a Python without its global lock, nothing is kept. Knows no program.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

COUNTED: bool = (
    sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
)
"""Whether it can be told who holds an object."""
KEPT = 2
"""How many sets of arrays a program keeps: one may be held by results until the next are there."""

Held = tuple[tuple[Any, ...], Any, tuple[int, ...]]
"""Arrays, views of their parts, and how many hold each of the arrays where only the views do."""


class Shelf:
    """The arrays of a program that has ended its calls.

    Args:
      make: makes new arrays, and views of them, which nobody else may hold.
    """

    def __init__(self, make: Callable[[], tuple[tuple[Any, ...], Any]]) -> None:
        self._make = make
        self._kept: list[Held] = []
        _all.add(self)

    def take(self) -> Held:
        """Arrays that are the caller's own until they are given back."""
        for _ in range(len(self._kept)):
            try:
                held = self._kept.pop(0)
            except IndexError:  # another thread has taken it meanwhile
                break
            if _holders(held[0]) == held[2]:
                return held
            self.give(held)
        arrays, views = self._make()
        return arrays, views, _holders(arrays)

    def give(self, held: Held) -> None:
        """Gives arrays back, results that are views of them may be held on."""
        if len(self._kept) < KEPT:
            self._kept.append(held)

    def clear(self) -> None:
        """Frees what is kept."""
        self._kept.clear()


_all: weakref.WeakSet[Shelf] = weakref.WeakSet()


def clear() -> None:
    """Frees what all programs keep."""
    for shelf in list(_all):
        shelf.clear()


def _holders(arrays: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(map(sys.getrefcount, arrays))


__all__ = ["COUNTED", "Shelf", "clear"]
