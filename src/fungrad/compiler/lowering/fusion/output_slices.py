"""Outputs of clusters that are put together from slices.

`scatter` puts a value into an array of zeros, and each following `index_add` adds one more: this is
the gradient of slicing. The cluster stores its values into the output directly, so that none is an
array of its own: the gradient of Rosenbrock's function of a million numbers takes half the time and
a fifth of the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import Equation, Variable
from fungrad.primitives.movement.gather import expanded, scatter
from fungrad.primitives.movement.scatter import index_add
from fungrad.support.lazy import Record

Readers = Mapping[int, Sequence[Equation | None]]
"""For each variable the equations that read it, by identity; None stands for outputs."""


class Part(Record):
    """A value, and where in an output it stands.

    `place` has a slice or an integer for each axis of the output, None where the value is all of
    it; `axis` is the output's that has the rows, of which the first one goes to row `offset`.
    """

    value: Variable
    place: tuple[Any, ...] | None
    axis: int
    offset: int


def put_together(
    equation: Equation, axes: Mapping[int, int], length: int, read_by: Readers
) -> tuple[list[Equation], list[Part]]:
    """The equations that make one output out of values of a region, and what they put where.

    Args:
      equation: the first of them, one that reads a value of the region.
      axes: for each value that the region makes, by identity, the axis along which its rows lie.
      length: the number of rows.
      read_by: the equations that read a variable.
    """
    equations: list[Equation] = []
    parts: list[Part] = []
    whole: Any = equation.inputs[0]
    reader: Equation | None = equation
    if equation.primitive is index_add and id(whole) in axes and _only(read_by[id(whole)]):
        parts.append(Part(whole, None, axes[id(whole)], 0))
    while reader is not None and reader.primitive is (index_add if parts else scatter):
        added = reader.inputs[-1]
        part = _part(reader, axes, length) if id(added) in axes else None
        if part is None or (
            parts and (reader.inputs[0] is not whole or part.axis != parts[0].axis)
        ):
            break
        parts.append(part)
        equations.append(reader)
        (whole,) = reader.outputs
        reader = _only(read_by.get(id(whole), ()))
    return equations, parts


def _only(readers: Sequence[Equation | None]) -> Equation | None:
    return readers[0] if len(readers) == 1 else None


def _part(equation: Equation, axes: Mapping[int, int], length: int) -> Part | None:
    """The slice of an output that an equation fills, if it is a block."""
    value: Any = equation.inputs[-1]
    (whole,) = equation.outputs
    shape = whole.type.shape
    entries = expanded(equation.params["index"], len(shape))
    if len(entries) != len(shape):
        return None
    after, found = 0, None
    for at, entry in enumerate(entries):
        if isinstance(entry, slice):
            start, stop, _ = entry.indices(shape[at])
            if after == axes[id(value)] and stop - start == length:
                found = at, start
            after += 1
        elif not isinstance(entry, int | np.integer):
            return None
    return None if found is None else Part(value, tuple(entries), *found)


def reach(parts: Iterable[Part]) -> tuple[int, int]:
    """The smallest and the largest offset of parts."""
    offsets = [part.offset for part in parts]
    return min(offsets), max(offsets)


def rows_of(part: Part) -> int:
    """The axis of a slice's value along which the rows lie."""
    if part.place is None:
        return part.axis
    return sum(isinstance(entry, slice) for entry in part.place[: part.axis])
