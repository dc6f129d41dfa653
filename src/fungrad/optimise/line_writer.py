"""Floor 6: writes equations on the values of lines (`Lines`), and writes lines out as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import Atom, Graph, Literal
from fungrad.ir.types import Type
from fungrad.optimise.lines import COLUMNS, ROWS, Line, Lines, Steps
from fungrad.optimise.rewrite import Renaming, Writer
from fungrad.primitives.declare import full
from fungrad.primitives.elementwise import add, neg, sub
from fungrad.primitives.indexing import Index, getitem, scatter
from fungrad.primitives.scattering import index_add
from fungrad.primitives.shaping import broadcast_to, convert, reshape

LOOKED_AT = 1 << 16
"""The most elements of a constant that is searched for others than zeros."""


Found = Lines | Atom | None
"""What a rule gives: lines, an array, or None where lines have to be written out first."""


class LineWriter:
    """The equations of a new Graph; `lines` are the values that have not been written out."""

    def __init__(self, graph: Graph) -> None:
        self.writer = Writer(graph, lambda primitive: ())
        self.lines: dict[int, Lines] = {}
        self.names: Renaming = {}
        self.like = graph.equations[0]

    # --- writing ----------------------------------------------------------------------------------

    def add(self, primitive: Any, *inputs: Atom, **params: Any) -> Atom:
        """What a primitive gives, written in the place of the equation in hand (`like`)."""
        return self.writer.add(self.like, primitive, *inputs, **params)

    def written(self, atom: Atom) -> Atom:
        """A value as an array, with all its zeros."""
        lines = self.lines.pop(id(atom), None)
        if lines is None:
            return atom
        result = self.placed(lines)
        self.names[id(atom)] = result
        return result

    def placed(self, lines: Lines, onto: Atom | None = None) -> Atom:
        """Lines as an array, or added to an array of their shape."""
        size = lines.rows * lines.columns
        pieces = [(line.flat(lines.columns), value) for line, value in lines.values.items()]
        flat = None if onto is None else self.reshaped(onto, (size,))
        return self.reshaped(self.joined(pieces, (size,), lines.dtype, onto=flat), lines.shape)

    def joined(
        self,
        pieces: Sequence[tuple[Steps, Atom]],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        axis: int = 0,
        onto: Atom | None = None,
    ) -> Atom:
        """The array with values in some places along an axis, added where they meet, and zeros (or
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
        """x in a shape of as many elements."""
        return x if x.type.shape == shape else self.add(reshape, x, shape=shape)

    def broadcast(self, x: Atom, shape: tuple[int, ...]) -> Atom:
        """x, broadcast to a shape."""
        return x if x.type.shape == shape else self.add(broadcast_to, x, shape=shape)

    def part(self, x: Atom, steps: Steps) -> Atom:
        """Some elements of a vector; a number where they are all the same one."""
        if steps.covers(x.type.size):
            return x
        if steps.step == 0:
            return self.reshaped(self.part(x, Steps(steps.start, 1, 1)), ())
        return self.add(getitem, x, index=Index((steps.slice(),)))

    def put(self, values: dict[Line, Atom], line: Line, value: Atom) -> None:
        """Adds a line to others."""
        values[line] = self.add(add, values[line], value) if line in values else value

    def summed(self, x: Lines, y: Lines, type_: Type, minus: bool = False) -> Lines:
        """The sum of lines, or their difference."""
        values = dict(x.values)
        for line, value in y.values.items():
            if line in values:
                values[line] = self.add(sub if minus else add, values[line], value)
            else:
                values[line] = self.add(neg, value) if minus else value
        return x._replace(values=values, dtype=type_.dtype)

    # --- reading ----------------------------------------------------------------------------------

    def found(self, atom: Atom, shape: tuple[int, ...], like: Lines) -> Lines | None:
        """A value's lines, in a shape with the rows of others: none at all where it is zero."""
        lines = self.lines.get(id(atom))
        if lines is None:
            lines = like._replace(values={}, dtype=atom.type.dtype) if self.zero(atom) else None
        if lines is None or lines.rows != like.rows:
            return None
        return lines.reshaped(shape)

    def zero(self, atom: Atom) -> bool:
        """Whether a value is known to be zero everywhere."""
        if isinstance(atom, Literal):
            return bool(atom.value == 0)
        made = self.writer.made_by(atom, full, broadcast_to)
        if made is not None:
            return not made.params["value"] if made.primitive is full else self.zero(made.inputs[0])
        value = self.writer.constant(atom)
        return isinstance(value, np.ndarray) and value.size <= LOOKED_AT and not value.any()

    def along(self, x: Atom, lines: Lines) -> Callable[[Line], Atom]:
        """The elements of an array, broadcast to the shape of some lines, along each of those."""
        if x.type.size == 1:
            number = self.reshaped(x, ())
            return lambda line: number
        shape, split = lines.shape, lines.split
        own = (1,) * (len(shape) - x.type.ndim) + x.type.shape
        down, across = (any(n != 1 for n in part) for part in (own[:split], own[split:]))
        axes = slice(None if down else split, None if across else split)
        whole = self.broadcast(self.reshaped(x, own[axes]), shape[axes])
        flat = self.reshaped(whole, (whole.type.size,))
        if down and across:
            return lambda line: self.part(flat, line.flat(lines.columns))
        return lambda line: self.part(flat, line.side(ROWS if down else COLUMNS))


__all__ = ["Found", "LineWriter"]
