"""Rows of numbers in memory: what scans read and make, in native programs.

A number of a row has a Column, whose place is bound when the whole program is written: columns
that no one reads take no memory, equal ones one place, and those of an output lie in the output.

The records of loops of unknown length, in one growing piece of memory.

A tape is the place of its last record, -1 where it has none; a record begins with the place of the
one before. A step of a loop whose records no one reads after it gives their memory back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler.native.llvm_ir import Function, Value, size_of


def load(code: Function, pointer: Value, type: str) -> Value:
    """A number in memory; a truth value is a byte there."""
    if type != "i1":
        return code.load(pointer, type, 1)
    return code.compare("ne", code.load(pointer, "i8", 1), 0)


def store(code: Function, value: Value, pointer: Value) -> None:
    """Puts a number into memory."""
    code.store(code.convert("zext", value, "i8") if value.type == "i1" else value, pointer)


def packed(types: Sequence[str], start: int = 0) -> tuple[list[int], int]:
    """Offsets of numbers of these types, the large ones first, and the bytes of all."""
    offsets, at = [0] * len(types), start
    for place in sorted(range(len(types)), key=lambda place: -size_of(types[place])):
        offsets[place] = at
        at += size_of(types[place])
    return offsets, -(-at // 8) * 8


class Column:
    """One number of each row.

    Attributes:
      type: of the number, as that of a Value.
      name: of its pointer in the program.
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
        """Where its number in a row lies."""
        offset = code.binary("mul", index, Value(f"{self.name}.stride", "i64"))
        return code.at(Value(self.name, "ptr"), offset)

    def put(self, code: Function, index: Value, value: Value) -> None:
        """Stores its number in a row."""
        begin = len(code)
        store(code, value, self.pointer(code, index))
        self.writes.append(slice(begin, len(code)))


class Rows:
    """The rows of a stack.

    Attributes:
      length: how many there are.
      types: of the numbers in a row.
      columns: for each of these its Column, or the constant that it is in each row.
      index: the number of the row that a scan makes now.
      cost: what filling them costs besides the operations.
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
      size: the bytes of those that lie in the scratch memory; known in the end.
    """

    def __init__(self, code: Function) -> None:
        self.code = code
        self.size = 0
        self._rows: list[Rows] = []
        self._columns: list[Column] = []

    def rows(self, length: int, types: Sequence[str]) -> Rows:
        """Rows without columns; `append` or `column` makes them."""
        made = Rows(length, types)
        self._rows.append(made)
        return made

    def column(self, type: str, place: tuple[str, int, int] | None = None) -> Column:
        """A new Column."""
        made = Column(type, f"%c{len(self._columns)}", place)
        self._columns.append(made)
        return made

    def append(self, rows: Rows, values: Sequence[Value], constants: Sequence[bool]) -> None:
        """Stores a row; those of its values that are constants take no memory."""
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
        return load(self.code, column.pointer(self.code, index), column.type)

    def lies_in(
        self, columns: Sequence[Any], name: str, type: str, offsets: Sequence[int], stride: int
    ) -> bool:
        """Lets Columns lie in an array, an output; False where they cannot."""
        own = [c for c in columns if isinstance(c, Column) and c.place is None and c.type == type]
        if len(set(own)) < len(columns):
            return False
        for offset, column in zip(offsets, own, strict=True):
            column.place, column.read = (name, offset, stride), True
        return True

    def bind(self) -> None:
        """Gives each column that is read its place."""
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
                self.code.first(f"{column.name} = getelementptr i8, ptr {name}, i64 {offset}")
                self.code.first(f"{column.name}.stride = add i64 0, {stride}")
            else:
                for lines in column.writes:
                    self.code.erase(lines)


class _Loop:
    """A loop that is written: whether its body records, and whether records outlive a step."""

    __slots__ = ("kept", "pushed")

    def __init__(self) -> None:
        self.kept = False
        self.pushed = False


class Records:
    """The memory of all tapes of a program.

    Args:
      code: the function that is written.
      exhausted: the label of the block to go to where there is no more memory.
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
        """How many loops the code that is written now is in."""
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
        """Says that a tape made here is read at a depth: loops within keep their records."""
        for loop in self._loops[depth:]:
            loop.kept = True

    def push(self, tape: Value, types: Sequence[str], values: Sequence[Value]) -> Value:
        """The place of a new record behind the last one of a tape."""
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
            store(code, value, code.at(pointer, offset))
        return record

    def previous(self, record: Value) -> Value:
        """The place of the record before."""
        return self.code.load(self.code.at(self.code.get(self._base), record), "i64")

    def reader(self, record: Value, types: Sequence[str], place: int) -> Callable[[], Value]:
        """Writes the reading of a number of a record."""
        offset = packed(types, 8)[0][place]

        def read() -> Value:
            pointer = self.code.at(self.code.get(self._base), record)
            return load(self.code, self.code.at(pointer, offset), types[place])

        return read

    def free(self) -> None:
        """Gives the memory back."""
        self.code.call("PyMem_RawFree", "void", [self.code.get(self._base)])


__all__ = ["Column", "Memory", "Records", "Rows", "load", "packed", "store"]
