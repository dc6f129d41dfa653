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
    owner: dict[int, range] = {}
    for block in blocks:
        for start in block[:: tuned.outlined_lines]:
            piece = range(start, min(start + tuned.outlined_lines, block.stop))
            owner.update(dict.fromkeys(piece, piece))
    made: dict[str, range | None] = {}
    read: dict[str, dict[range | None, None]] = {}
    for n, line in enumerate(lines):
        names = _VALUE.findall(line)
        if _made(line):
            made[names.pop(0)] = owner.get(n)
        for value in names:
            read.setdefault(value, {}).setdefault(owner.get(n))
    given: dict[range | None, list[str]] = {}
    for value, readers in read.items():
        for reader in readers if value in types else ():
            if reader != made.get(value):
                given.setdefault(reader, []).append(value)
    frame, body, called, at = _Frame(name), list[str](), list[str](), 0
    for number, block in enumerate(blocks):
        pieces = list(dict.fromkeys([owner[n] for n in block]))
        body += lines[at : block.start]
        at = block.stop
        for value in dict.fromkeys([v for piece in pieces for v in given.get(piece, ())]):
            if made.get(value) not in pieces:
                body += frame.store(value, types[value])
        returned = list[str]()
        for place, piece in enumerate(pieces):
            symbol = f"@{name}.{number}.{place}(ptr {POINTER})"
            body.append(f"  call void {symbol}")
            called.append(f"define internal void {symbol} noinline {{")
            for value in given.get(piece, ()):
                called += frame.load(value, types[value])
            for n in piece:
                called.append(lines[n])
                value = _made(lines[n])
                others = [other for other in read.get(value, ()) if other != piece]
                if others:
                    called += frame.store(value, types[value])
                if any(other not in pieces for other in others):
                    returned += frame.load(value, types[value])
            called += ["  ret void", "}\n"]
        body += returned
    return [frame.variable(), *first, *body, *lines[at:]], frame.type(), called


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
