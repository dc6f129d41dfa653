"""Writes equations on the values of `Diagonals`, and writes those out as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.jacobian_sparsity.diagonal_matrix import (
    COLUMNS,
    ROWS,
    Diagonal,
    Diagonals,
    Steps,
)
from fungrad.compiler.passes.rewriter import Renaming, Writer
from fungrad.ir.graph import Atom, Graph, Literal
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import add, neg, sub
from fungrad.primitives.movement.gather import Index, getitem, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, convert, reshape
from fungrad.primitives.movement.scatter import index_add
from fungrad.primitives.primitive import full

Found = Diagonals | Atom | None
"""What a rule gives: diagonals, an array, or None where diagonals have to be written out first."""


class DiagonalWriter:
    """The equations of a new Graph; `diagonals` are the values that have not been written out."""

    def __init__(self, graph: Graph) -> None:
        self.writer = Writer(graph, lambda primitive: ())
        self.diagonals: dict[int, Diagonals] = {}
        self.names: Renaming = {}
        self.like = graph.equations[0]

    # --- writing ----------------------------------------------------------------------------------

    def add(self, primitive: Any, *inputs: Atom, **params: Any) -> Atom:
        """What a primitive gives, written in the place of the equation in hand (`like`)."""
        return self.writer.add(self.like, primitive, *inputs, **params)

    def written(self, atom: Atom) -> Atom:
        """A value as an array, with all its zeros."""
        diagonals = self.diagonals.pop(id(atom), None)
        if diagonals is None:
            return self.names.get(id(atom), atom)  # an equation may read a value twice
        result = self.placed(diagonals)
        self.names[id(atom)] = result
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

    def put(self, values: dict[Diagonal, Atom], diagonal: Diagonal, value: Atom) -> None:
        """Adds a diagonal to others."""
        values[diagonal] = self.add(add, values[diagonal], value) if diagonal in values else value

    def summed(self, x: Diagonals, y: Diagonals, type_: Type, minus: bool = False) -> Diagonals:
        """The sum of diagonals, or their difference."""
        dtype = type_.dtype
        values = {diagonal: self.cast(value, dtype) for diagonal, value in x.values.items()}
        for diagonal, value in y.values.items():
            if diagonal in values:
                values[diagonal] = self.add(sub if minus else add, values[diagonal], value)
            else:
                value = self.cast(value, dtype)
                values[diagonal] = self.add(neg, value) if minus else value
        return x._replace(values=values, dtype=dtype)

    # --- reading ----------------------------------------------------------------------------------

    def found(self, atom: Atom, shape: tuple[int, ...], like: Diagonals) -> Diagonals | None:
        """A value's diagonals, in a shape with the rows of others: none at all where it is zero."""
        diagonals = self.diagonals.get(id(atom))
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
        """The elements of an array, broadcast to the shape of diagonals, along each of those."""
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


__all__ = ["DiagonalWriter", "Found"]
