"""The records of loops of unknown length, in one growing piece of memory.

A tape is the place of its last record, -1 where it has none; a record begins with the place of the
one before. A step of a loop whose records no one reads after it gives their memory back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fungrad.compiler.native.llvm_ir import Function, Value
from fungrad.compiler.native.rows_in_memory import load, packed, store


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


__all__ = ["Records"]
