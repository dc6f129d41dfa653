"""The memory of scans and tapes in native programs.

Stacks that scans read and make are Rows of numbers. Each number of a row has a Column, whose offset
is assigned when the whole program is written: unread columns take no memory, equal ones share it,
and columns of an output are in the output.

The records of loops of unknown length are in one growing block of memory. A tape is the offset of
its last record, or -1; each record begins with the offset of the one before. A loop step frees its
records if nothing reads them after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler.native.llvm_ir import Function, Value, size_of


def packed(types: Sequence[str], start: int = 0) -> tuple[list[int], int]:
    """Offsets of numbers of these types, with large ones first, and the total size."""
    offsets, at = [0] * len(types), start
    for place in sorted(range(len(types)), key=lambda place: -size_of(types[place])):
        offsets[place] = at
        at += size_of(types[place])
    return offsets, -(-at // 8) * 8


class Column:
    """One number of each row.

    Attributes:
      type: the number's type, as of a Value.
      name: the name of its pointer in the program.
      place: an array, the offset in it, and the bytes between rows; None until it is bound.
      read: whether anything reads it.
      writes: the lines that store it.
    """

    __slots__ = ("name", "place", "read", "type", "writes")

    def __init__(self, type: str, name: str, place: tuple[str, int, int] | None) -> None:
        self.type = type
        self.name = name
        self.place = place
        self.read = False
        self.writes: list[slice] = []

    def pointer(self, code: Function, index: Value) -> Value:
        """The pointer to its number in a row."""
        offset = code.binary("mul", index, Value(f"{self.name}.stride", "i64"))
        return code.at(Value(self.name, "ptr"), offset)

    def put(self, code: Function, index: Value, value: Value) -> None:
        """Stores its number in a row."""
        begin = len(code)
        code.write(value, self.pointer(code, index))
        self.writes.append(slice(begin, len(code)))


class Rows:
    """The rows of a stack.

    Attributes:
      length: the number of rows.
      types: the types of the numbers in a row.
      columns: the Column of each number, or its value if that is the same in all rows.
      index: the index of the row that a scan makes now.
      cost: the cost of filling them, besides the operations.
    """

    cost = 0.0

    def __init__(self, length: int, types: Sequence[str]) -> None:
        self.length = length
        self.types = types
        self.columns: list[Column | Value] = []
        self.index: Value | None = None

    @property
    def width(self) -> int:
        return len(self.types)


class Memory:
    """All Rows of a program.

    Attributes:
      size: the bytes of Rows in scratch memory; known after `bind`.
    """

    def __init__(self, code: Function) -> None:
        self.code = code
        self.size = 0
        self._rows: list[Rows] = []
        self._columns: list[Column] = []

    def rows(self, length: int, types: Sequence[str]) -> Rows:
        """Rows without columns, which `append` or `column` makes."""
        made = Rows(length, types)
        self._rows.append(made)
        return made

    def column(self, type: str, place: tuple[str, int, int] | None = None) -> Column:
        """A new Column."""
        made = Column(type, f"%c{len(self._columns)}", place)
        self._columns.append(made)
        return made

    def append(self, rows: Rows, values: Sequence[Value], constants: Sequence[bool]) -> None:
        """Stores a row; constants among its values take no memory."""
        assert rows.index is not None
        found: dict[str, Column] = {}
        for type, value, constant in zip(rows.types, values, constants, strict=True):
            column = found.get(value.text)
            if column is None and not constant:
                column = found[value.text] = self.column(type)
                column.put(self.code, rows.index, value)
            rows.columns.append(column or value)

    def read(self, rows: Rows, place: int, index: Value) -> Value:
        """A number of a row."""
        column = rows.columns[place]
        if isinstance(column, Value):
            return column
        column.read = True
        return self.code.read(column.pointer(self.code, index), column.type)

    def lies_in(
        self, columns: Sequence[Any], name: str, type: str, offsets: Sequence[int], stride: int
    ) -> bool:
        """Places Columns in an output array; returns False if they cannot be there."""
        own = [c for c in columns if isinstance(c, Column) and c.place is None and c.type == type]
        if len(set(own)) < len(columns):
            return False
        for offset, column in zip(offsets, own, strict=True):
            column.place, column.read = (name, offset, stride), True
        return True

    def bind(self) -> None:
        """Places all columns that are read; removes the stores of the others."""
        for rows in self._rows:
            own = dict.fromkeys([c for c in rows.columns if isinstance(c, Column)])
            free = [c for c in own if c.read and c.place is None]
            offsets, width = packed([c.type for c in free])
            for column, offset in zip(free, offsets, strict=True):
                column.place = ("%scratch", self.size + offset, width)
            self.size += width * rows.length
        for column in self._columns:
            if column.read and column.place is not None:
                name, offset, stride = column.place
                self.code.first(f"getelementptr i8, ptr {name}, i64 {offset}", column.name)
                self.code.first(f"add i64 0, {stride}", f"{column.name}.stride", "i64")
            else:
                for lines in column.writes:
                    self.code.erase(lines)


class _Loop:
    """A loop being written: whether its body records, and whether records outlive a step."""

    __slots__ = ("kept", "pushed")

    def __init__(self) -> None:
        self.kept = False
        self.pushed = False


class Records:
    """The memory of all tapes of a program.

    Args:
      code: the function that is written.
      exhausted: the label of the block to go to if memory runs out.
    """

    def __init__(self, code: Function, exhausted: str) -> None:
        self.code = code
        self._exhausted = exhausted
        self._loops: list[_Loop] = []
        self._base, self._top, self._room = (code.variable(t) for t in ("ptr", "i64", "i64"))
        code.first(f"store ptr null, ptr {self._base.text}")
        code.first(f"store i64 0, ptr {self._top.text}")
        code.first(f"store i64 0, ptr {self._room.text}")

    @property
    def depth(self) -> int:
        """The number of loops around the code that is written now."""
        return len(self._loops)

    def step(self, body: Callable[[], None]) -> None:
        """Writes the body of a loop."""
        loop = _Loop()
        self._loops.append(loop)
        mark = self.code.get(self._top)
        body()
        self._loops.pop()
        if loop.pushed and not loop.kept:
            self.code.set(self._top, mark)

    def keep(self, depth: int) -> None:
        """Keeps the records of loops deeper than `depth`, where a tape made here is read."""
        for loop in self._loops[depth:]:
            loop.kept = True

    def push(self, tape: Value, types: Sequence[str], values: Sequence[Value]) -> Value:
        """Adds a record to a tape; returns its offset."""
        for loop in self._loops:
            loop.pushed = True
        code = self.code
        offsets, size = packed(types, 8)
        record = code.get(self._top)
        top = code.add(record, size)
        code.set(self._top, top)
        grow, on = code.label("grow"), code.label("on")
        code.branch(code.compare("sgt", top, code.get(self._room)), grow, on, rare=True)
        code.begin(grow)
        room = code.mul(top, 2)
        grown = code.call("PyMem_RawRealloc", "ptr", [code.get(self._base), room])
        enough = code.label("enough")
        code.branch(code.compare("eq", grown, Value("null", "ptr")), self._exhausted, enough)
        code.begin(enough)
        code.set(self._base, grown)
        code.set(self._room, room)
        code.goto(on)
        code.begin(on)
        pointer = code.at(code.get(self._base), record)
        code.store(tape, pointer)
        for value, offset in zip(values, offsets, strict=True):
            code.write(value, code.at(pointer, offset))
        return record

    def previous(self, record: Value) -> Value:
        """The offset of the record before."""
        return self.code.load(self.code.at(self.code.get(self._base), record), "i64")

    def reader(self, record: Value, types: Sequence[str], place: int) -> Callable[[], Value]:
        """A function that writes the load of a number of a record."""
        offset = packed(types, 8)[0][place]

        def read() -> Value:
            pointer = self.code.at(self.code.get(self._base), record)
            return self.code.read(self.code.at(pointer, offset), types[place])

        return read

    def free(self) -> None:
        """Frees the memory."""
        self.code.call("PyMem_RawFree", "void", [self.code.get(self._base)])
