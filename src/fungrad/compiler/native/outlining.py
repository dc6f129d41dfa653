"""Outlining: the instructions of a long basic block move to functions that share a frame in memory.

LLVM's passes and its allocation of registers take more than linear time in the length of a basic
block. A value that crosses from one of the functions to another costs a store and a load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from fungrad.compiler.cost_model import tuned

POINTER = "%frame"
"""The pointer to the frame."""
_VALUE = re.compile(r"%[\w.]+")
_BRANCHES = ("br ", "ret ", "switch ", "unreachable")


def outlined(
    name: str, first: Sequence[str], lines: Sequence[str], types: Mapping[str, str]
) -> tuple[list[str], str, list[str]]:
    """The function with calls in place of long basic blocks.

    Args:
      name: the name of the function.
      first: the lines at its start, which stay.
      lines: its other lines.
      types: the LLVM type of each value in it, by name.

    Returns:
      Its lines, the line that defines the type of its frame, or "", and the functions it calls.
    """
    blocks = [block for block in _straight(lines) if len(block) > tuned.block_lines]
    if not blocks:
        return [*first, *lines], "", []
    outliner, body, at = _Outliner(name, lines, types, blocks), list[str](), 0
    for number, block in enumerate(blocks):
        body += [*lines[at : block.start], *outliner.calls(number, block)]
        at = block.stop
    frame = outliner.frame
    return [frame.variable(), *first, *body, *lines[at:]], frame.type(), outliner.called


Piece = range | None
"""The lines that one function takes; None for those that stay."""


class _Outliner:
    """Writes the functions of a function's long blocks, and their calls.

    Attributes:
      frame: the memory for values that one piece makes and another reads.
      called: the lines of the functions.
    """

    def __init__(
        self, name: str, lines: Sequence[str], types: Mapping[str, str], blocks: Sequence[range]
    ) -> None:
        self._name, self._lines, self._types = name, lines, types
        self.frame, self.called = _Frame(name), list[str]()
        self._owner: dict[int, range] = {}
        for block in blocks:
            for start in block[:: tuned.outlined_lines]:
                piece = range(start, min(start + tuned.outlined_lines, block.stop))
                self._owner.update(dict.fromkeys(piece, piece))
        self._maker: dict[str, Piece] = {}
        self._readers: dict[str, dict[Piece, None]] = {}
        for n, line in enumerate(lines):
            names = _VALUE.findall(line)
            if _made(line):
                self._maker[names.pop(0)] = self._owner.get(n)
            for value in names:
                self._readers.setdefault(value, {}).setdefault(self._owner.get(n))
        self._loaded: dict[Piece, list[str]] = {}
        """The values that each piece reads from the frame."""
        for value, readers in self._readers.items():
            for reader in readers if value in types else ():
                if reader != self._maker.get(value):
                    self._loaded.setdefault(reader, []).append(value)

    def calls(self, number: int, block: range) -> list[str]:
        """The calls in place of a block, whose pieces become functions: before them stores of what
        the pieces read, after them loads of what later lines read.
        """
        pieces = list(dict.fromkeys([self._owner[n] for n in block]))
        stores, calls, loads = list[str](), list[str](), list[str]()
        for value in dict.fromkeys([v for piece in pieces for v in self._loaded.get(piece, ())]):
            if self._maker.get(value) not in pieces:
                stores += self.frame.store(value, self._types[value])
        for place, piece in enumerate(pieces):
            symbol = f"@{self._name}.{number}.{place}(ptr {POINTER})"
            calls.append(f"  call void {symbol}")
            for value in self._function(symbol, piece):
                if any(reader not in pieces for reader in self._readers[value]):
                    loads += self.frame.load(value, self._types[value])
        return [*stores, *calls, *loads]

    def _function(self, symbol: str, piece: range) -> list[str]:
        """Writes the function of a piece. Returns the values that it stores for others."""
        self.called.append(f"define internal void {symbol} noinline {{")
        for value in self._loaded.get(piece, ()):
            self.called += self.frame.load(value, self._types[value])
        stored = list[str]()
        for n in piece:
            self.called.append(self._lines[n])
            value = _made(self._lines[n])
            if any(reader != piece for reader in self._readers.get(value, ())):
                self.called += self.frame.store(value, self._types[value])
                stored.append(value)
        self.called += ["  ret void", "}\n"]
        return stored


def _made(line: str) -> str:
    """The name of the value that an instruction makes, or ""."""
    name, equals, _ = line.partition(" = ")
    return name.strip() if equals else ""


def _straight(lines: Sequence[str]) -> Iterator[range]:
    """The instructions of each basic block, without its phis and the branch at its end."""
    start = 0
    for n, line in enumerate([*lines, "end:"]):
        text = line.strip()
        if text.endswith(":"):
            yield range(start, n)
            start = n + 1
        elif text.startswith(_BRANCHES):
            yield range(start, n)
            start = n + 1
        elif start == n and " = phi " in text:
            start = n + 1


class _Frame:
    """The memory that a function shares with those that it calls: a place for each value."""

    def __init__(self, name: str) -> None:
        self._name = f"%{name}.frame"
        self._places: dict[str, tuple[int, str]] = {}
        self._count = 0

    def _at(self, value: str, type: str) -> tuple[str, str]:
        """The name and the instruction of a pointer to the place of a value."""
        place, _ = self._places.setdefault(value, (len(self._places), type))
        self._count += 1
        name = f"{POINTER}.{self._count}"
        return name, f"  {name} = getelementptr {self._name}, ptr {POINTER}, i32 0, i32 {place}"

    def store(self, value: str, type: str) -> list[str]:
        pointer, line = self._at(value, type)
        return [line, f"  store {type} {value}, ptr {pointer}"]

    def load(self, value: str, type: str) -> list[str]:
        pointer, line = self._at(value, type)
        return [line, f"  {value} = load {type}, ptr {pointer}"]

    def variable(self) -> str:
        return f"  {POINTER} = alloca {self._name}"

    def type(self) -> str:
        types = ", ".join([type for _, type in self._places.values()])
        return f"{self._name} = type {{{types}}}"
