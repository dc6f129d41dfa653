"""Stacks of a scan's steps in programs on numbers: lists with a tuple for each step, or
matrices. Knows NumPy alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fungrad.support.record import Record

LISTED = 50_000
"""The largest number of elements of a stack that is held as a list; larger ones are arrays."""
HELD = 1 << 26
"""The largest number of elements of a stack that a program holds."""
CHUNK = 4_096
"""Steps whose rows are put into an array, or taken from it, together."""


class Stack(Record):
    """A stack as a list with a tuple for each step, or as a matrix, of which it is `width` columns.

    `reverse` says that the last step stands first.
    """

    name: str
    type: Any
    start: int
    width: int
    reverse: bool
    array: bool = False


def rows(matrix: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of a matrix as numbers of Python's, a chunk at a time."""
    for start in range(0, len(matrix), CHUNK):
        numbers = iter(matrix[start : start + CHUNK].ravel().tolist())
        yield from zip(*[numbers] * matrix.shape[1], strict=True)


__all__ = ["CHUNK", "HELD", "LISTED", "Stack", "rows"]
