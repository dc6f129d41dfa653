"""Where the values of a block stand: the order of their axes in memory, and their buffers.

In columns short axes come first in memory, rows and other long axes last: loops of ufuncs then run
along long axes, and a sum over a short one adds a few of them (n-body 3 times as fast, a mixture
2.5 times). A buffer has one dtype, shape, and axis of rows, and is used again for values of that
kind as soon as its own is dead; those of other kinds have its memory while it is free. Knows the
order of a cluster's equations, how long a value is needed, and the pool; writes no program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.fusion import row_access
from fungrad.compiler.lowering.fusion.clustering import FusionCluster
from fungrad.compiler.lowering.fusion.output_slices import rows_of
from fungrad.compiler.lowering.fusion.row_access import REDUCED, multiplies
from fungrad.ir.graph import Atom, Variable
from fungrad.primitives.facts import is_view
from fungrad.runtime import buffer_pool

NARROW = 32
"""Axes of fewer elements are short."""
BUFFERS = 1024, 256
"""Elements of the buffers of ufuncs where loops are short, and where they are long."""
LONG = 300
"""Loops of more elements are long."""
LOOP = 4
"""How many elements are copied into columns in the time that a loop of a ufunc takes to begin."""

Shape = Sequence[int]


def memory(shape: Shape, axis: int | None) -> tuple[int, ...]:
    """The axes of a value in memory, the slowest first, where `axis` has its rows."""
    short = [i for i, n in enumerate(shape) if n < NARROW and i != axis]
    return (*short, *(i for i in range(len(shape)) if i not in short))


def moves(shape: Shape, axis: int | None) -> bool:
    """Whether the elements of a value stand in another order in columns."""
    long = [i for i in memory(shape, axis) if shape[i] > 1]
    return long != sorted(long)


def in_columns(region: FusionCluster, step: int) -> bool:
    """Whether the loops that are saved make up for what is copied into columns, and out of them."""
    if any(map(multiplies, region.equations)):
        return False
    saved = _loops(region, step, False)[0] - _loops(region, step, True)[0]
    read = zip(region.inputs, region.slices, strict=True)
    made = [(part.value, rows_of(part)) for parts in region.made for part in parts]
    copied = [v for v, axis in (*read, *made)
              if axis not in (None, REDUCED) and moves(v.type.shape, axis)]  # fmt: skip
    return LOOP * saved > sum(v.type.size for v in copied)


def buffer(region: FusionCluster, step: int, columns: bool) -> int | None:
    """How many elements the buffers of ufuncs shall have in a region, None where it has no need.

    NumPy copies what it broadcasts, and what has gaps, to buffers of 8,192 elements, so that its
    loops are as long as that. Where they are long as it is the copies are most of the work.
    """
    loops, elements = _loops(region, step, columns)
    blocks = -(-region.length // step) * len(region.equations)
    if not columns and loops <= blocks:
        return None
    return BUFFERS[elements > LONG * loops]


def _loops(region: FusionCluster, step: int, columns: bool) -> tuple[int, int]:
    """How many loops the ufuncs of a region take, and the elements in all of them."""
    loops = elements = 0
    for equation, how in zip(region.equations, region.forms, strict=True):
        primitive: Any = equation.primitive
        read = [(a.type.shape, axis) for a, axis in zip(equation.inputs, how.inputs, strict=True)]
        if primitive.reduces is not None:
            (((space, axis),), reduced) = read, equation.params["axes"]
            shapes = [space, tuple([1 if i in reduced else n for i, n in enumerate(space)])]
        elif is_view(equation) or how.output == REDUCED or row_access.moves(equation):
            continue
        else:
            space, axis = equation.outputs[0].type.shape, how.output
            shapes = [(1,) * (len(space) - len(shape)) + tuple(shape) for shape, _ in read]
        block = [step if i == axis else n for i, n in enumerate(space)]
        order = memory(block, axis) if columns else range(len(space))
        loops += math.prod(space) // _run(block, shapes, order)
        elements += math.prod(space)
    return loops, elements


def _run(block: Shape, shapes: Sequence[Shape], order: Sequence[int]) -> int:
    """The length of the loops over a block: axes are one where all operands have both or none."""
    run, kind = 1, None
    for i in reversed(order):
        here = [shape[i] > 1 for shape in shapes]
        if block[i] > 1 and kind not in (None, here):
            break
        if block[i] > 1:
            run, kind = run * block[i], here
    return run


def arranged(x: Any, order: Sequence[int]) -> Any:
    """x with its axes in this order in memory."""
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


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

    def _kind(self, variable: Variable, axis: int) -> Kind:
        """What buffers of a block of the variable's Type have in common: dtype, shape, axis."""
        shape = list(variable.type.shape)
        shape[axis] = self.step
        return variable.type.dtype, tuple(shape), axis

    def own(self, variable: Variable, axis: int) -> str:
        """A buffer of a block of the variable's Type, the variable's own until it is released."""
        kind = self._kind(variable, axis)
        name = self._taken(kind, self.last[id(variable)])
        self._held.setdefault(id(variable), []).append((kind, name))
        return name

    def scratch(self, variable: Variable, axis: int, count: int) -> list[str]:
        """Buffers of blocks of the variable's Type, for this equation alone."""
        kind = self._kind(variable, axis)
        names = [self._taken(kind, self.now) for _ in range(count)]
        self._scratch += [(kind, name) for name in names]
        return names

    def _taken(self, kind: Kind, end: int) -> str:
        """A buffer that is free up to an equation, and that one."""
        free = self._free.get(kind)
        name = free.pop() if free else f"b{len(self.kinds)}"
        self.kinds.setdefault(name, kind)
        self._times[name] = self._times.get(name, 0) | (2 << end) - (1 << self.now)
        return name

    def layout(self) -> buffer_pool.Layout:
        """The buffers in the memory that they need."""
        arrays = [self._array(kind) for kind in self.kinds.values()]
        return buffer_pool.packed(arrays, [self._times[name] for name in self.kinds])

    def _array(self, kind: Kind) -> buffer_pool.Array:
        dtype, shape, axis = kind
        order = memory(shape, axis) if self.in_columns else tuple(range(len(shape)))
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


__all__ = ["NARROW", "Buffers", "arranged", "buffer", "in_columns", "memory", "moves"]
