"""The static part of an index, and the shape of what it reads."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import Equation
from fungrad.primitives.facts import FIRST, Along, Section, straight, whole
from fungrad.support.lazy import Record

Shape = tuple[int, ...]

ARRAY = "array"
"""The entry of an Index in the place of an integer array, which is an argument."""

_NAMES = "ijklmn"


class Index:
    """The static part of an index: integers, slices, None, Ellipsis, and places for integer arrays.

    `unique` promises that the arrays name no element twice. Immutable, hashable, picklable.

    >>> Index((slice(None), 0, ARRAY, Ellipsis))
    [:, 0, i, ...]
    """

    __slots__ = ("entries", "params", "step", "unique", "view")

    entries: tuple[Any, ...]
    unique: bool
    params: dict[str, Any] | None
    """Of a shared Index: the parameters of `getitem`, shared as well."""
    step: Any
    """Of a shared Index: the step from an array to this view of it, made at its first use."""
    view: bool
    """Whether it selects an array, also of no axes, since it has an Ellipsis; never a number."""

    def __init__(self, entries: tuple[Any, ...], unique: bool = False) -> None:
        self.entries = entries
        self.unique = unique
        self.params = self.step = None
        self.view = Ellipsis in entries

    def fill(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """NumPy's index, with the arrays in their places."""
        if not arrays:
            return self.entries
        given = iter(arrays)
        return tuple([next(given) if type(e) is str else e for e in self.entries])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Index)
            and self.entries == other.entries
            and self.unique == other.unique
        )

    def __hash__(self) -> int:
        return hash(tuple([_hashable(e) for e in self.entries]))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Index, (self.entries, self.unique))

    def __repr__(self) -> str:
        arrays = 0
        words = []
        for entry in self.entries:
            if type(entry) is str:
                words.append(_NAMES[arrays] if arrays < len(_NAMES) else f"i{arrays}")
                arrays += 1
            else:
                words.append(_show(entry))
        return f"[{', '.join(words)}]{' unique' if arrays and self.unique else ''}"


def _hashable(entry: Any) -> Any:
    return (entry.start, entry.stop, entry.step) if type(entry) is slice else entry


def _show(entry: Any) -> str:
    if type(entry) is slice:
        parts = [entry.start, entry.stop, *([] if entry.step is None else [entry.step])]
        return ":".join("" if p is None else str(p) for p in parts)
    return "..." if entry is Ellipsis else "newaxis" if entry is None else str(entry)


@functools.lru_cache(maxsize=16_384)
def of_int(position: int) -> Index:
    """The Index of one integer."""
    return _shared(Index((position,)))


@functools.lru_cache(maxsize=4096)
def of_slice(start: int | None, stop: int | None, step: int | None) -> Index:
    """The Index of one slice."""
    return _shared(Index((slice(start, stop, step),)))


def _shared(index: Index) -> Index:
    index.params = {"index": index}
    return index


def selected(index: Index, shape: Shape) -> tuple[tuple[range, ...], list[int | None]] | None:
    """The ranges that an index selects of an array's axes; and for each axis of the selection the
    axis of the array, None for a new one. None if the index has arrays.
    """
    ranges, axes = list[range](), list[int | None]()
    for entry in expanded(index, len(shape)):
        if entry is None:
            axes.append(None)
            continue
        if type(entry) is str:
            return None
        chosen, integer = range(shape[len(ranges)]), type(entry) is int
        if not integer:
            axes.append(len(ranges))
            chosen = chosen[entry]
        if integer or len(chosen) == 1:  # in normal form
            first = chosen[entry if integer else 0]
            chosen = range(first, first + 1)
        ranges.append(chosen)
    return tuple(ranges), axes


def sections_read(equation: Equation) -> list[Section] | None:
    """The index map of x[index]."""
    read = selected(equation.params["index"], equation.inputs[0].type.shape)
    if read is None:
        return None
    ranges, axes = read
    place = [Along(axes.index(i) if i in axes else -1, r.start, r.step if i in axes else 1)
             for i, r in enumerate(ranges)]  # fmt: skip
    return [whole(equation, place)]


def sections_written(
    equation: Equation, operand: int = 0, adds: bool = False
) -> list[Section] | None:
    """The index maps of operands written at an index: into zeros the first, or -1 for ones; into
    the first operand the second. Boxes ascend: a slice of a negative step reads backwards.
    """
    shape = equation.outputs[0].type.shape
    written = selected(equation.params["index"], shape)
    if written is None:
        return None
    ranges, axes = written
    box = tuple([r if r.step > 0 else r[::-1] for r in ranges])
    along = [Along(i) if r.step > 0 else Along(i, len(r) - 1, -1) for i, r in enumerate(ranges)]
    place = tuple([FIRST if axis is None else along[axis] for axis in axes])
    part = Section(box, operand, () if operand < 0 else place, adds)
    return [part] if operand < 1 else [whole(equation, straight(len(shape))), part]


class Layout(Record):
    """The origin of the axes of a result of getitem.

    `rest` are the lengths of the axes of slices, newaxis and ellipsis; the axes of the index
    arrays, broadcast to the shape `fancy`, are inserted before rest[position].
    """

    rest: Shape
    position: int
    fancy: Shape

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        return (*self.rest[: self.position], *self.fancy, *self.rest[self.position :])


def expanded(index: Index, ndim: int) -> list[Any]:
    """The entries, with full slices in place of the ellipsis and at the end.

    Raises:
      IndexError: if there are more entries than axes, as in NumPy.
    """
    taken = sum(1 for e in index.entries if e is not None and e is not Ellipsis)
    if taken > ndim:
        raise IndexError(
            f"too many indices for array: array is {ndim}-dimensional, but {taken} were indexed"
        )
    filler = [slice(None)] * (ndim - taken)
    entries = list(index.entries)
    if Ellipsis in entries:
        place = entries.index(Ellipsis)
        return entries[:place] + filler + entries[place + 1 :]
    return entries + filler


def layout(index: Index, shape: Shape, arrays: Sequence[Shape]) -> Layout:
    """The Layout of `getitem` for the shapes of x and of the index arrays.

    Raises:
      IndexError: if an integer is out of bounds, or index arrays do not broadcast, as in NumPy.
    """
    fancy: Shape = ()
    if any(arrays):
        try:
            fancy = np.broadcast_shapes(*arrays)
        except ValueError:
            shapes = " ".join(map(str, arrays))
            raise IndexError(
                "shape mismatch: indexing arrays could not be broadcast together with shapes "
                f"{shapes}"
            ) from None
    rest: list[int] = []
    starts: list[int] = []
    axis = 0
    for entry in expanded(index, len(shape)):
        if entry is None:
            rest.append(1)
            continue
        if type(entry) is slice:
            rest.append(len(range(*entry.indices(shape[axis]))))
        else:
            starts.append(len(rest))
            if type(entry) is int and not -shape[axis] <= entry < shape[axis]:
                raise IndexError(
                    f"index {entry} is out of bounds for axis {axis} with size {shape[axis]}"
                )
        axis += 1
    together = bool(fancy) and _together(index.entries)
    return Layout(tuple(rest), starts[0] if together else 0, fancy)


def _together(entries: Iterable[Any]) -> bool:
    """Whether the integers and arrays of an index are adjacent, and their axes keep that place."""
    kinds = "".join("a" if type(e) in (int, str) else "-" for e in entries)
    return "-" not in kinds.strip("-")
