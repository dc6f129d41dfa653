"""The buffers of a block, and which is free when.

A buffer has one dtype, shape, and axis of rows, and is used again for values of that kind as soon
as its own is dead; those of other kinds have its memory while it is free. Knows the order of a
region's equations, how long a value is needed, and the pool; writes no program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.fusion import layout_assignment
from fungrad.ir.graph import Atom, Variable
from fungrad.runtime import buffer_pool

Kind = tuple[np.dtype[Any], tuple[int, ...], int]


class Buffers:
    """The buffers of blocks of `step` rows.

    `last` says by which equation a value is read last, by identity, or made, if nothing reads it;
    `root` whose memory a view shares. `now` is the number of the equation that is done.
    """

    def __init__(
        self, step: int, in_columns: bool, last: Mapping[int, int], root: Mapping[int, int]
    ) -> None:
        self.step = step
        self.in_columns = in_columns
        self.last = last
        self.root = root
        self.now = 0
        self.kinds: dict[str, Kind] = {}
        self._times: dict[str, int] = {}
        self._free: dict[Kind, list[str]] = {}
        self._held: dict[int, list[tuple[Kind, str]]] = {}
        self._scratch: list[tuple[Kind, str]] = []
        self._until: dict[str, int] = {}

    def _kind(self, variable: Variable, axis: int) -> Kind:
        """What buffers of a block of the variable's Type have in common: dtype, shape, axis."""
        shape = list(variable.type.shape)
        shape[axis] = self.step
        return variable.type.dtype, tuple(shape), axis

    def lend(self, name: str, variable: Variable, axis: int, until: int) -> None:
        """Takes what is no buffer for one of a block of the variable's Type, until an equation."""
        self._until[name] = until
        self._give(self._kind(variable, axis), name)

    def own(self, variable: Variable, axis: int) -> str:
        """A buffer of a block of the variable's Type, the variable's own until it is released."""
        return self._hold(self._kind(variable, axis), id(variable))

    def beside(self, variable: Variable, axis: int, dtype: np.dtype[Any]) -> str:
        """A buffer of another dtype, for as long as the variable, or what it shows, is needed."""
        _, shape, _ = self._kind(variable, axis)
        return self._hold((dtype, shape, axis), self.root.get(id(variable), id(variable)))

    def _hold(self, kind: Kind, root: int) -> str:
        name = self._taken(kind, self.last[root])
        self._held.setdefault(root, []).append((kind, name))
        return name

    def scratch(self, variable: Variable, axis: int, count: int) -> list[str]:
        """Buffers of blocks of the variable's Type, for this equation alone."""
        kind = self._kind(variable, axis)
        names = [self._taken(kind, self.now) for _ in range(count)]
        self._scratch += [(kind, name) for name in names]
        return names

    def _taken(self, kind: Kind, end: int) -> str:
        """A buffer that is free up to an equation, and that one."""
        free = self._free.get(kind, [])
        name = next((n for n in reversed(free) if self._until.get(n, math.inf) > end), None)
        if name is None:
            name = f"b{len(self.kinds)}"
            self.kinds[name] = kind
        else:
            free.remove(name)
        self._times[name] = self._times.get(name, 0) | (2 << end) - (1 << self.now)
        return name

    def layout(self) -> buffer_pool.Layout:
        """The buffers in the memory that they need."""
        arrays = [self._array(kind) for kind in self.kinds.values()]
        return buffer_pool.packed(arrays, [self._times[name] for name in self.kinds])

    def _array(self, kind: Kind) -> buffer_pool.Array:
        dtype, shape, axis = kind
        order = (
            layout_assignment.memory(shape, axis) if self.in_columns else tuple(range(len(shape)))
        )
        return shape, dtype, order

    def release(self, atoms: Sequence[Atom]) -> None:
        """Frees the buffers of values that no later equation reads."""
        for atom in atoms:
            root = self.root.get(id(atom), id(atom))
            if self.last.get(root) == self.now:
                for kind, name in self._held.pop(root, ()):
                    self._give(kind, name)

    def advance(self) -> None:
        """Goes on to the next equation."""
        for kind, name in self._scratch:
            self._give(kind, name)
        self._scratch.clear()
        self.now += 1

    def _give(self, kind: Kind, name: str) -> None:
        self._free.setdefault(kind, []).append(name)


__all__ = ["Buffers"]
