"""Matrices that are zero except on some diagonals, such as a Jacobian's basis inside elementwise
code. `DiagonalWriter` writes equations on the diagonals, or on the whole matrix if necessary.

The elements of a diagonal are a constant number of rows and columns apart: the main diagonal,
another one, a part, or every n-th element of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.rewriter import Writer
from fungrad.ir.graph import Atom, Graph, Literal
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import add
from fungrad.primitives.movement.gather import Index, getitem, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, convert, reshape
from fungrad.primitives.movement.scatter import index_add
from fungrad.primitives.primitive import full
from fungrad.retracing.inlining import Renaming
from fungrad.support.lazy import Record

ROWS, COLUMNS = 0, 1
Shape = tuple[int, ...]


class Progression(Record):
    """The `length` numbers start, start + step, ..."""

    start: int
    step: int
    length: int

    def slice(self) -> slice:
        """The slice that selects them."""
        if self.length == 1:
            return slice(self.start, self.start + 1, 1)
        stop = self.start + self.step * (self.length - 1) + (1 if self.step > 0 else -1)
        return slice(self.start, stop if stop >= 0 else None, self.step)

    def covers(self, size: int) -> bool:
        """Whether they are 0, 1, ... size - 1."""
        return (self.start, self.length) == (0, size) and (self.step == 1 or size == 1)


def _steps(start: int, step: int, length: int) -> Progression:
    """A progression in normal form: a single number has step 1."""
    return Progression(start, 1 if length == 1 else step, length)


class Diagonal(Record):
    """The rows and the columns of a diagonal's elements; several row or column axes count as one,
    in C order.
    """

    rows: Progression
    columns: Progression

    def side(self, side: int) -> Progression:
        """Its rows, or its columns."""
        return self.columns if side else self.rows

    def flat(self, columns: int) -> Progression:
        """The indices in the flattened matrix with this number of columns."""
        (row, down, count), (column, right, _) = self
        return Progression(row * columns + column, down * columns + right, count)

    def moved(self, side: int, steps: Progression) -> Diagonal:
        """The diagonal in a larger matrix, whose rows (or columns) `steps` are this matrix's."""
        start, step, count = self.side(side)
        new = _steps(steps.start + steps.step * start, steps.step * step, count)
        return Diagonal(self.rows, new) if side else Diagonal(new, self.columns)

    def cut(self, side: int, steps: Progression) -> tuple[Diagonal, Progression] | None:
        """The part in some of the rows (or columns), and the positions of its elements; None if it
        is empty.
        """
        start, step, count = self.side(side)
        places = start + step * np.arange(count) - steps.start
        number, rest = np.divmod(places, steps.step)
        inside = np.flatnonzero((rest == 0) & (number >= 0) & (number < steps.length))
        if not inside.size:
            return None
        first, second = int(inside[0]), int(inside[min(1, inside.size - 1)])
        kept = Progression(first, max(second - first, 1), inside.size)
        new = _steps(int(number[first]), int(number[second] - number[first]), inside.size)
        start, step, _ = self.side(1 - side)
        other = _steps(start + step * first, step * (second - first), inside.size)
        return (Diagonal(other, new) if side else Diagonal(new, other)), kept

    def turned(self) -> Diagonal:
        """The diagonal of the transposed matrix."""
        return Diagonal(self.columns, self.rows)


class Diagonals(Record):
    """An array whose first axes are rows and the others columns, given by the values on its
    diagonals: a vector, or one number for a whole diagonal. Diagonals may cross: values add up.
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
        """The number of row axes."""
        return next(s for s in range(len(self.shape) + 1) if self._splits(self.shape, s))

    def _splits(self, shape: Shape, s: int) -> bool:
        return math.prod(shape[:s]) == self.rows and math.prod(shape[s:]) == self.columns

    def reshaped(self, shape: Shape) -> Diagonals | None:
        """The same in another shape; None if its axes are not rows and then columns, too."""
        if not any(self._splits(shape, s) for s in range(len(shape) + 1)):
            return None
        return self._replace(shape=shape)

    def transposed(self, axes: Sequence[int], shape: Shape) -> Diagonals | None:
        """The same with its axes in another order; None if rows and columns are mixed then."""
        split = self.split
        order = [a for a in axes if self.shape[a] != 1]
        if order == sorted(order):
            return self._replace(shape=shape)
        if order != sorted(order, key=lambda a: (a < split, a)):
            return None
        values = {diagonal.turned(): value for diagonal, value in self.values.items()}
        return Diagonals(shape, self.columns, self.rows, self.dtype, values)

    def sides(self, axes: Sequence[int]) -> tuple[bool, bool] | None:
        """Whether axes contain all row axes, and all column axes; None if only a part of either."""
        split = self.split
        chosen = {a for a in axes if self.shape[a] != 1}
        rows = {a for a in range(split) if self.shape[a] != 1}
        columns = {a for a in range(split, len(self.shape)) if self.shape[a] != 1}
        cut = bool(rows) and rows <= chosen, bool(columns) and columns <= chosen
        named = (rows if cut[0] else set()) | (columns if cut[1] else set())
        return cut if named == chosen else None


def steps_of(lengths: Sequence[int], ranges: Sequence[range]) -> Progression | None:
    """The elements of an array, in C order, that ranges of its axes select; None if their distance
    is not constant.
    """
    start, step, before = 0, 1, 1
    inner = math.prod(lengths)
    for length, named in zip(lengths, ranges, strict=True):
        inner //= max(length, 1)
        if named != range(length):
            if before != 1 or (named.step != 1 and inner != 1 and len(named) != 1):
                return None
            start += named.start * inner
            step = named.step if inner == 1 else 1
        before *= len(named)
    return Progression(start, step, before)


Found = Diagonals | Atom | None
"""The result of a rule: diagonals, an array, or None if the diagonals must be arrays first."""


class DiagonalWriter:
    """Writes the equations of a new Graph; `diagonals` has the values that are not arrays yet."""

    def __init__(self, graph: Graph) -> None:
        self.writer = Writer(graph, lambda primitive: ())
        self.diagonals: dict[Atom, Diagonals] = {}
        self.names: Renaming = {}
        self.like = graph.equations[0]

    # --- writing ----------------------------------------------------------------------------------

    def add(self, primitive: Any, *inputs: Atom, **params: Any) -> Atom:
        """The output of a primitive, written with the source line of `like`."""
        return self.writer.add(self.like, primitive, *inputs, **params)

    def written(self, atom: Atom) -> Atom:
        """A value as an array, with all its zeros."""
        diagonals = self.diagonals.pop(atom, None)
        if diagonals is None:
            return self.names.get(atom, atom)  # an equation may read a value twice
        result = self.placed(diagonals)
        self.names[atom] = result
        return result

    def placed(self, diagonals: Diagonals, onto: Atom | None = None) -> Atom:
        """Diagonals as an array, or added to an array of their shape."""
        size = diagonals.rows * diagonals.columns
        pieces = [
            (diagonal.flat(diagonals.columns), value)
            for diagonal, value in diagonals.values.items()
        ]
        flat = None if onto is None else self.reshaped(onto, (size,))
        return self.reshaped(
            self.joined(pieces, (size,), diagonals.dtype, onto=flat), diagonals.shape
        )

    def joined(
        self,
        pieces: Sequence[tuple[Progression, Atom]],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        axis: int = 0,
        onto: Atom | None = None,
    ) -> Atom:
        """The array with values at some places along an axis, added where they meet, and zeros (or
        the array `onto`) elsewhere.
        """
        result = onto
        before, after = shape[:axis], shape[axis + 1 :]
        for steps, value in pieces:
            values = self.cast(self.broadcast(value, (*before, steps.length, *after)), dtype)
            index = Index((*[slice(None)] * axis, steps.slice()))
            if result is not None:
                result = self.add(index_add, result, values, index=index)
            elif steps.covers(shape[axis]):
                result = values
            else:
                result = self.add(scatter, values, index=index, shape=shape)
        return self.add(full, shape=shape, value=0, dtype=dtype) if result is None else result

    def cast(self, x: Atom, dtype: np.dtype[Any]) -> Atom:
        """x as an array of a dtype."""
        return x if x.type.dtype == dtype else self.add(convert, x, dtype=dtype)

    def reshaped(self, x: Atom, shape: tuple[int, ...]) -> Atom:
        """x in another shape."""
        return x if x.type.shape == shape else self.add(reshape, x, shape=shape)

    def broadcast(self, x: Atom, shape: tuple[int, ...]) -> Atom:
        """x, broadcast to a shape."""
        return x if x.type.shape == shape else self.add(broadcast_to, x, shape=shape)

    def part(self, x: Atom, steps: Progression) -> Atom:
        """Some elements of a vector; a number if all are the same element."""
        if steps.covers(x.type.size):
            return x
        if steps.step == 0:
            return self.reshaped(self.part(x, Progression(steps.start, 1, 1)), ())
        return self.add(getitem, x, index=Index((steps.slice(),)))

    def put(self, values: dict[Diagonal, Atom], diagonal: Diagonal, value: Atom) -> None:
        """Adds a diagonal to others, in place."""
        values[diagonal] = self.add(add, values[diagonal], value) if diagonal in values else value

    def summed(self, x: Diagonals, y: Diagonals, type_: Type) -> Diagonals:
        """The sum of diagonals."""
        values: dict[Diagonal, Atom] = {}
        for diagonal, value in (*x.values.items(), *y.values.items()):
            self.put(values, diagonal, self.cast(value, type_.dtype))
        return x._replace(values=values, dtype=type_.dtype)

    # --- reading ----------------------------------------------------------------------------------

    def found(self, atom: Atom, shape: tuple[int, ...], like: Diagonals) -> Diagonals | None:
        """A value's diagonals in this shape, with as many rows as `like`; without any if it is
        zero; None if it is another array.
        """
        diagonals = self.diagonals.get(atom)
        if diagonals is None:
            diagonals = like._replace(values={}, dtype=atom.type.dtype) if self.zero(atom) else None
        if diagonals is None or diagonals.rows != like.rows:
            return None
        return diagonals.reshaped(shape)

    def zero(self, atom: Atom) -> bool:
        """Whether a value is known to be zero everywhere."""
        if isinstance(atom, Literal):
            return bool(atom.value == 0)
        made = self.writer.definition(atom, full, broadcast_to)
        if made is not None:
            return not made.params["value"] if made.primitive is full else self.zero(made.inputs[0])
        value = self.writer.constant(atom)
        return (
            type(value) is np.ndarray and value.size <= costs.searched_constant and not value.any()
        )

    def along(self, x: Atom, diagonals: Diagonals) -> Callable[[Diagonal], Atom]:
        """The elements of an array, broadcast to the diagonals' shape, along each diagonal."""
        if x.type.size == 1:
            number = self.reshaped(x, ())
            return lambda diagonal: number
        shape, split = diagonals.shape, diagonals.split
        own = (1,) * (len(shape) - x.type.ndim) + x.type.shape
        down, across = (any(n != 1 for n in part) for part in (own[:split], own[split:]))
        axes = slice(None if down else split, None if across else split)
        whole = self.broadcast(self.reshaped(x, own[axes]), shape[axes])
        flat = self.reshaped(whole, (whole.type.size,))
        if down and across:
            return lambda diagonal: self.part(flat, diagonal.flat(diagonals.columns))
        return lambda diagonal: self.part(flat, diagonal.side(ROWS if down else COLUMNS))
