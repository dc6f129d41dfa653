"""Matrices that are zero but for diagonals, as a basis stays in elementwise code.

The elements of a diagonal stand a constant number of rows and of columns apart: those of the main
diagonal, of another, of a piece or of every other element of one. Knows the IR, no rule for any
primitive; `sparse` has those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import Atom
from fungrad.ir.types import Type
from fungrad.support.record import Record

ROWS, COLUMNS = 0, 1
Shape = tuple[int, ...]


class Steps(Record):
    """The numbers start, start + step, ... of which there are `length`."""

    start: int
    step: int
    length: int

    def slice(self) -> slice:
        """The slice that names them."""
        if self.length == 1:
            return slice(self.start, self.start + 1, 1)
        stop = self.start + self.step * (self.length - 1) + (1 if self.step > 0 else -1)
        return slice(self.start, stop if stop >= 0 else None, self.step)

    def covers(self, size: int) -> bool:
        """Whether they are 0, 1, ... size - 1."""
        return (self.start, self.length) == (0, size) and (self.step == 1 or size == 1)


def _steps(start: int, step: int, length: int) -> Steps:
    """The steps, of which a single one is written in one way."""
    return Steps(start, 1 if length == 1 else step, length)


class Diagonal(Record):
    """Where its elements stand: their rows and columns, counted in C order on each side."""

    rows: Steps
    columns: Steps

    def side(self, side: int) -> Steps:
        """Its rows, or its columns."""
        return self.columns if side else self.rows

    def flat(self, columns: int) -> Steps:
        """Where it stands in the flat matrix of so many columns."""
        (row, down, count), (column, right, _) = self
        return Steps(row * columns + column, down * columns + right, count)

    def moved(self, side: int, steps: Steps) -> Diagonal:
        """The diagonal in a larger matrix, of which this one's rows (or columns) are some."""
        start, step, count = self.side(side)
        new = _steps(steps.start + steps.step * start, steps.step * step, count)
        return Diagonal(self.rows, new) if side else Diagonal(new, self.columns)

    def cut(self, side: int, steps: Steps) -> tuple[Diagonal, Steps] | None:
        """The part of it in some rows (or columns), and which of its elements that is; None where
        it is nowhere in them.
        """
        start, step, count = self.side(side)
        places = start + step * np.arange(count) - steps.start
        number, rest = np.divmod(places, steps.step)
        inside = np.flatnonzero((rest == 0) & (number >= 0) & (number < steps.length))
        if not inside.size:
            return None
        first, second = int(inside[0]), int(inside[min(1, inside.size - 1)])
        kept = Steps(first, max(second - first, 1), inside.size)
        new = _steps(int(number[first]), int(number[second] - number[first]), inside.size)
        start, step, _ = self.side(1 - side)
        other = _steps(start + step * first, step * (second - first), inside.size)
        return (Diagonal(other, new) if side else Diagonal(new, other)), kept

    def turned(self) -> Diagonal:
        """The diagonal in the transposed matrix."""
        return Diagonal(self.columns, self.rows)


class Diagonals(Record):
    """An array whose first axes are rows, and the others columns, with diagonals of values; a value
    is a vector, or one number for the whole diagonal. Values of diagonals that cross are added.
    """

    shape: Shape
    rows: int
    columns: int
    dtype: np.dtype[Any]
    values: dict[Diagonal, Atom]

    @property
    def type(self) -> Type:
        """The Type of the array."""
        return Type(self.shape, self.dtype)

    @property
    def split(self) -> int:
        """How many axes are rows."""
        return next(s for s in range(len(self.shape) + 1) if self._splits(self.shape, s))

    def _splits(self, shape: Shape, s: int) -> bool:
        return math.prod(shape[:s]) == self.rows and math.prod(shape[s:]) == self.columns

    def reshaped(self, shape: Shape) -> Diagonals | None:
        """The same in another shape, where its axes are rows and then columns, too."""
        if not any(self._splits(shape, s) for s in range(len(shape) + 1)):
            return None
        return self._replace(shape=shape)

    def transposed(self, axes: Sequence[int], shape: Shape) -> Diagonals | None:
        """The same with its axes in another order."""
        split = self.split
        order = [a for a in axes if self.shape[a] != 1]
        if order == sorted(order):
            return self._replace(shape=shape)
        if order != sorted(order, key=lambda a: (a < split, a)):
            return None
        values = {diagonal.turned(): value for diagonal, value in self.values.items()}
        return Diagonals(shape, self.columns, self.rows, self.dtype, values)

    def sides(self, axes: Sequence[int]) -> tuple[bool, bool] | None:
        """Whether axes are all of the rows, and all of the columns; None where they are a part."""
        split = self.split
        chosen = {a for a in axes if self.shape[a] != 1}
        rows = {a for a in range(split) if self.shape[a] != 1}
        columns = {a for a in range(split, len(self.shape)) if self.shape[a] != 1}
        found = bool(rows) and rows <= chosen, bool(columns) and columns <= chosen
        named = (rows if found[0] else set()) | (columns if found[1] else set())
        return found if named == chosen else None


def steps_of(lengths: Sequence[int], entries: Sequence[Any]) -> Steps | None:
    """Which elements of an array, in C order, slices and integers name; None where those do not
    stand a constant number apart.
    """
    start, step, before = 0, 1, 1
    inner = math.prod(lengths)
    for length, entry in zip(lengths, entries, strict=True):
        inner //= max(length, 1)
        whole = range(length)
        named = whole[entry] if isinstance(entry, slice) else whole[entry : entry + 1 or None]
        if named != whole:
            if before != 1 or (named.step != 1 and inner != 1 and len(named) != 1):
                return None
            start += named.start * inner
            step = named.step if inner == 1 else 1
        before *= len(named)
    return Steps(start, step, before)


__all__ = ["COLUMNS", "ROWS", "Diagonal", "Diagonals", "Steps", "steps_of"]
