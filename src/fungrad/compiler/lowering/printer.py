"""Prints a Program as Python: values get their names here, behind all decisions.

The names of dead values are used again: Python compiles few locals faster than many, and an array
is freed where its name is bound anew, without a `del`. Knows the nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from fungrad.compiler.lowering.program import For, Free, Loop, Program, Return, Value, While
from fungrad.ir.graph import last_uses


def printed(program: Program, kinds: bool = False) -> str:
    """The text of a program.

    Args:
      program: the program.
      kinds: whether the kind of each node stands before its line, for reading.
    """
    return "\n".join(_Printer(program, kinds).function(program))


class _Printer:
    def __init__(self, program: Program, kinds: bool) -> None:
        self.kinds = kinds
        self.names: dict[Value, str] = dict(program.symbols)
        self.free: list[str] = []
        """Names of values that were dropped."""
        self.counts: dict[str, int] = {}

    def function(self, program: Program) -> list[str]:
        """The lines of a function, behind those of its helper."""
        names = [self.name(v) for v in program.parameters]
        kept = program.symbols
        before = self.function(program.helper) if program.helper is not None else []
        lines = self.block(program.nodes, kept, program.reuse)
        return [*before, f"def {program.name}({', '.join(names)}):", *_indented(lines)]

    def name(self, value: Value) -> str:
        """The name of a value: that which it was given, or a new one."""
        found = self.names.get(value)
        if found is None:
            count = self.counts.get(value.stem, 0)
            self.counts[value.stem] = count + 1
            found = self.names[value] = f"{value.stem}{count}"
        return found

    def block(self, nodes: Sequence[Any], kept: Collection[Value], reuse: bool) -> list[str]:
        """The lines of nodes; `kept` is what is read behind them."""
        lines: list[str] = []
        if not reuse:
            for node in nodes:
                lines += self.node(node)
            return lines
        for node, dead in zip(nodes, last_uses(nodes, kept), strict=True):
            left = self.handed_on(node, dead)
            lines += self.node(node)
            if left and not isinstance(node, (Free, Return)):
                lines.append(self.line("Free", f"del {', '.join(map(self.name, left))}"))
        return lines

    def handed_on(self, node: Any, dead: Sequence[Value]) -> Sequence[Value]:
        """Gives the names of values that are read no more to those that a node defines. Returns the
        dead that are left to be dropped.
        """
        names, free = self.names, self.free
        made = [v for v in node.outputs if v not in dead]
        left = []
        for old in dead:
            if made and old not in node.outputs:
                names[made.pop(0)] = self.name(old)
            else:
                left.append(old)
        for new in node.outputs:
            if free and new not in names:
                names[new] = free.pop()
        free += map(self.name, left)  # from the next node on: they are dropped behind this one
        return left

    def node(self, node: Any) -> list[str]:
        """The lines of a node."""
        if isinstance(node, Loop):
            return self.loop(node)
        names, name = self.names, self.name
        inputs = [names.get(v) or name(v) for v in node.inputs]
        line = node.line(inputs, [names.get(v) or name(v) for v in node.outputs])
        return [self.line(type(node).__name__, line) if self.kinds else line]

    def line(self, kind: str, text: str) -> str:
        """A line, behind the kind of its node where that is shown."""
        return f"{kind:<8}{text}" if self.kinds else text

    def loop(self, loop: Loop) -> list[str]:
        """The lines of a loop: only a `While` uses the names of its body again, since those of a
        `For` stand for memory that is the same in all iterations.
        """
        if isinstance(loop, For):
            head, reuse = self.head(loop), False
        else:
            assert isinstance(loop, While)
            head, reuse = f"while {self.expression(loop.condition)}:", True
        carried = {v: self.name(v) for v, _ in loop.moves}
        free, self.free = self.free, []
        kept: list[Value] = []
        if reuse:
            kept = [v for v in loop.inputs if v not in carried]
            kept += [following for _, following in loop.moves]
        lines = self.block(loop.body, kept, reuse)
        pairs = [(carried[v], self.name(following)) for v, following in loop.moves]
        pairs = [pair for pair in pairs if pair[0] != pair[1]]
        self.free = free
        if pairs:
            sides = [", ".join(side) for side in zip(*pairs, strict=True)]
            lines.append(self.line("Move", " = ".join(sides)))
        return [head, *_indented(lines or ["pass"])]

    def head(self, loop: For) -> str:
        """The line that begins a `For`."""
        if not loop.iterators:
            return f"for _ in range({loop.length}):"
        names = []
        for iterator in loop.iterators:
            text = ", ".join(map(self.name, iterator.values))
            names.append(f"({text},)" if iterator.packed else text)
        over = [self.expression(iterator.over) for iterator in loop.iterators]
        found = over[0] if len(over) == 1 else f"zip({', '.join(over)})"
        return f"for {', '.join(names)} in {found}:"

    def expression(self, expression: Any) -> str:
        """The text of an expression."""
        text: str = expression.text.format(*map(self.name, expression.inputs))
        return text


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


__all__ = ["printed"]
