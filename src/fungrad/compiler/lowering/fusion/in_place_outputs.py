"""Where what a region makes is written: to a part of an output, or over an input.

A part is written first to its place, or added to what is there; the value is written there directly
where nothing that comes later in the block needs the place for another one. Knows regions and the
order of their equations; writes no program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from fungrad.compiler.lowering.fusion.clustering import FusionCluster
from fungrad.compiler.lowering.fusion.output_slices import Part, apart, rows_of
from fungrad.compiler.lowering.fusion.row_access_type import REDUCED
from fungrad.ir.graph import Equation, Variable

MANY = 256
"""Of outputs of more parts than this no part is written first: all are added to zeros."""


def part_name(number: int, place: int, parts: list[Part]) -> str:
    """The name of a block of a part of an output."""
    return f"q{number}" if len(parts) == 1 else f"q{number}_{place}"


class Targets:
    """The places of the values of a region.

    `outputs` are the names of the places of a value, by identity, `direct` the one that it is
    written to at once; in `fresh` are those where nothing was written before; `over` are the
    outputs that are written over inputs, by their numbers.
    """

    def __init__(
        self,
        region: FusionCluster,
        pairs: Mapping[int, Equation],
        last: Mapping[int, int],
        root: Mapping[int, int],
        moved: Callable[[Variable, int], bool],
    ) -> None:
        self.region = region
        self.last = last
        self.fresh: set[str] = set()
        self.outputs: dict[int, list[str]] = {}
        self.direct: dict[int, str] = {}
        self.over: dict[int, int] = {}
        self._at: dict[int, int] = {}
        for index, equation in enumerate(region.equations):
            for e in (equation, pairs.get(id(equation), equation)):  # both are written at once
                self._at.setdefault(id(e.outputs[0]), index)
        for number, parts in enumerate(region.made):
            for i, part in enumerate(parts):
                name = part_name(number, i, parts)
                self.outputs.setdefault(id(part.value), []).append(name)
                direct = self._first(number, i) and self._undisturbed(number, i, root)
                if direct and not moved(part.value, rows_of(part)):
                    self.direct.setdefault(id(part.value), name)

    def _others(self, number: int, i: int) -> list[tuple[int, Part]]:
        """When those parts of an output are written that have elements in common with one."""
        parts, shape = self.region.made[number], self.region.outputs[number].type.shape
        if len(parts) > MANY:
            return [(0, parts[i])]
        return [
            (self._at[id(other.value)], other)
            for j, other in enumerate(parts)
            if j != i and not apart(parts[i], other, shape)
        ]

    def _first(self, number: int, i: int) -> bool:
        """Whether no other part has written before where a part goes, in this block or before."""
        part = self.region.made[number][i]
        at = self._at[id(part.value)]
        if any(when <= at or o.offset > part.offset for when, o in self._others(number, i)):
            return False
        self.fresh.add(part_name(number, i, self.region.made[number]))
        return True

    def _undisturbed(self, number: int, i: int, root: Mapping[int, int]) -> bool:
        """Whether a value is not read any more when another part is added to its place."""
        value = id(self.region.made[number][i].value)
        return all(when >= self.last[root[value]] for when, _ in self._others(number, i))

    def write_over(self, spare: Collection[Variable], by_ufunc: Callable[[Equation], bool]) -> None:
        """Finds spare inputs that outputs may be written over, block by block.

        Args:
          spare: what may be written over.
          by_ufunc: whether an equation is one call of a ufunc, which may write over what it reads.
        """
        region = self.region
        read = Counter(id(v) for v in region.inputs)
        free = [
            (i, variable, axis)
            for i, (variable, axis) in enumerate(zip(region.inputs, region.slices, strict=True))
            if variable in spare and read[id(variable)] == 1
        ]
        for number, (part, *more) in enumerate(region.made):
            if part.axis == REDUCED or more or part.place is not None:
                continue
            at = self._at[id(part.value)]
            until = at + by_ufunc(region.equations[at])
            for found in free:
                i, variable, axis = found
                same = _bytes_of(variable) == _bytes_of(part.value) and axis == part.axis
                if same and self.last[id(variable)] < until:
                    self.over[number] = i
                    free.remove(found)
                    break

    def late(self) -> Iterator[tuple[str, Variable, int]]:
        """The names of blocks of fresh arrays that one value is written to, that value, and when.

        Until then nothing reads or writes them.
        """
        for number, (part, *more) in enumerate(self.region.made):
            name = part_name(number, 0, [part])
            alone = part.axis == 0 and part.place is None and not more and number not in self.over
            if alone and self.direct.get(id(part.value)) == name:
                yield name, part.value, self._at[id(part.value)]


def _bytes_of(variable: Variable) -> Any:
    return variable.type.shape, variable.type.dtype


__all__ = ["Targets", "part_name"]
