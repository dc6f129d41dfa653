"""Floor 6: finds regions: equations over large arrays that are worth running by blocks of rows.

Every equation gets a level: those of regions odd ones, all others even ones, each at least as high
as what it reads needs, so that what stands on one level needs nothing of a later one. The equations
of one level that have the same number of rows are a region. Knows the IR and which equations can be
done by rows; runs nothing.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from fungrad.backend.rows import ENDED, REDUCTIONS, Form, axis_of, elementwise, form
from fungrad.ir.graph import Atom, Equation, Graph, Variable
from fungrad.primitives.indexing import scatter

LARGE = 8_192
"""The smallest number of elements for which blocks pay (measured: benchmarks/fusion.py)."""
ROW = 4_096
"""The largest number of elements of a row."""
LEAD = 8
"""The largest number of pieces that a row may lie in."""

SHARED = 400_000
"""Elements times equations of a region from which on it is shared among threads."""

Key = tuple[int, int]
"""A region: its level, and how many rows it has."""


class Region(NamedTuple):
    """Equations done by rows, what they read from outside, and what is read of them.

    `forms` go with the equations; `slices` with the inputs: along which axis an input is read by
    rows, None where it is read as a whole. `made` go with the outputs: what the equations make, and
    where an output has it as a part, zero elsewhere, the index of that.
    """

    length: int
    equations: list[Equation]
    forms: list[Form]
    inputs: list[Variable]
    slices: list[int | None]
    outputs: list[Variable]
    made: list[tuple[Variable, Any]]


class _Finder:
    """The level of each value, and the rows of those that regions make."""

    def __init__(self) -> None:
        self.level: dict[int, int] = {}
        self.rows: dict[int, tuple[Key, int]] = {}
        self.regions: dict[Key, list[tuple[Equation, Form]]] = {}
        self.others: dict[int, list[Equation]] = {}

    def place(self, equation: Equation) -> None:
        """Puts an equation into a region if it can be done by rows, else among the others."""
        level = max([1, *(self._odd(atom) for atom in equation.inputs)])
        inside = {self.rows[id(a)][0] for a in equation.inputs if self._rows_at(a, level)}
        found = None
        if len(inside) == 1:
            ((_, length),) = inside
            axes = [self.rows[id(a)][1] if self._rows_at(a, level) else None
                    for a in equation.inputs]  # fmt: skip
            found = form(equation, axes, length)
            found = (
                found if found is None or self._agree(equation, found, (level, length)) else None
            )
        if found is None:
            level += 2 * bool(inside)
            found, length = _alone(equation)
        if found is None:
            self._place_other(equation)
            return
        key = (level, length)
        self.regions.setdefault(key, []).append((equation, found))
        (output,) = equation.outputs
        self.level[id(output)] = level + (found.output == ENDED)
        if found.output != ENDED:
            self.rows[id(output)] = (key, found.output)

    def _rows_at(self, atom: Atom, level: int) -> bool:
        return id(atom) in self.rows and self.rows[id(atom)][0][0] == level

    def _odd(self, atom: Atom) -> int:
        """The first odd level at which an atom can be read."""
        level = self.level.get(id(atom), 0)
        return level + (level % 2 == 0)

    def _agree(self, equation: Equation, found: Form, key: Key) -> bool:
        """Whether what the region makes is read along the axis along which it is made."""
        return all(
            self.rows[id(atom)][1] == axis
            for atom, axis in zip(equation.inputs, found.inputs, strict=True)
            if id(atom) in self.rows and self.rows[id(atom)][0] == key
        )

    def _place_other(self, equation: Equation) -> None:
        levels = [self.level.get(id(atom), 0) for atom in equation.inputs]
        level = max([0, *(x + x % 2 for x in levels)])
        self.others.setdefault(level, []).append(equation)
        self.level.update((id(output), level) for output in equation.outputs)


def _alone(equation: Equation) -> tuple[Form | None, int]:
    """The form of an equation that begins a region, and the number of rows."""
    if len(equation.outputs) != 1:
        return None, 0
    if elementwise(equation):
        type_ = equation.outputs[0].type
        axis = _row_axis(type_.shape) if type_.size >= LARGE else None
        if axis is None:
            return None, 0
        inputs = tuple(axis_of(a.type.shape, type_.shape, axis) for a in equation.inputs)
        return Form(inputs, axis), type_.shape[axis]
    if equation.primitive in REDUCTIONS:
        type_ = equation.inputs[0].type
        axis = _row_axis(type_.shape) if type_.size >= LARGE else None
        if axis is not None and (axis not in equation.params["axes"] or type_.size >= SHARED):
            return form(equation, [axis], type_.shape[axis]), type_.shape[axis]
    return None, 0


def _row_axis(shape: tuple[int, ...]) -> int | None:
    """The axis whose entries are rows of a good size; the first one if there is none."""
    long = [i for i, length in enumerate(shape) if length > 1]
    for i in long:
        if math.prod(shape[i + 1 :]) <= ROW and math.prod(shape[:i]) <= LEAD:
            return i
    return long[0] if long else None


def scheduled(graph: Graph) -> list[Equation | Region]:
    """The equations in an order in which regions stand together; those of one equation are none."""
    finder = _Finder()
    for equation in graph.equations:
        finder.place(equation)
    read_by = _readers(graph)
    result: list[Equation | Region] = []
    absorbed: set[int] = set()
    for level in sorted({*finder.others, *(key[0] for key in finder.regions)}):
        result.extend(e for e in finder.others.get(level, ()) if id(e) not in absorbed)
        for (at, length), members in finder.regions.items():
            if at == level:
                alone = len(members) == 1 and _size(members[0][0]) < SHARED
                found = members[0][0] if alone else _region(length, members, read_by, absorbed)
                result.append(found)
    return result


def _size(equation: Equation) -> int:
    """The number of elements of the largest array that an equation reads."""
    return max(atom.type.size for atom in equation.inputs)


def _readers(graph: Graph) -> dict[int, list[Equation | None]]:
    """For each variable the equations that read it, by identity; None stands for the Graph's
    outputs.
    """
    result: dict[int, list[Equation | None]] = {}
    for equation in graph.equations:
        for atom in equation.inputs:
            result.setdefault(id(atom), []).append(equation)
    for atom in graph.outputs:
        result.setdefault(id(atom), []).append(None)
    return result


def _scattered(variable: Variable, readers: list[Equation | None], form: Form) -> Equation | None:
    """The equation that makes a value a part of an array of zeros, if nothing else reads it."""
    if len(readers) != 1 or readers[0] is None or readers[0].primitive is not scatter:
        return None
    entries = readers[0].params["index"].entries
    slices = all(e.__class__ is slice and e.step in (None, 1) for e in entries)
    return readers[0] if slices and len(readers[0].inputs) == 1 and form.output != ENDED else None


def _region(
    length: int,
    members: list[tuple[Equation, Form]],
    read_by: dict[int, list[Equation | None]],
    absorbed: set[int],
) -> Region:
    mine = {id(equation) for equation, _ in members}
    inner = {id(equation.outputs[0]) for equation, _ in members}
    inputs: dict[tuple[int, int | None], Variable] = {}
    for equation, how in members:
        for atom, axis in zip(equation.inputs, how.inputs, strict=True):
            if isinstance(atom, Variable) and id(atom) not in inner:
                inputs[id(atom), axis] = atom
    outputs: list[Variable] = []
    made: list[tuple[Variable, Any]] = []
    for equation, how in members:
        (variable,) = equation.outputs
        readers = read_by.get(id(variable), [])
        if all(reader is not None and id(reader) in mine for reader in readers):
            continue
        whole = _scattered(variable, readers, how)
        if whole is not None:
            absorbed.add(id(whole))
        outputs.append(variable if whole is None else whole.outputs[0])
        made.append((variable, None if whole is None else whole.params["index"].entries))
    return Region(
        length,
        [equation for equation, _ in members],
        [how for _, how in members],
        list(inputs.values()),
        [axis for _, axis in inputs],
        outputs,
        made,
    )


__all__ = ["Region", "scheduled"]
