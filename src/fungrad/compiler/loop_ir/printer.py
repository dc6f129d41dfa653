"""Prints a Program as Python, and names its values.

Names of dead values are reused: Python compiles fewer locals faster, and rebinding frees the old
array without `del`. The function keeps its text; its callees are in its globals.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from fungrad.compiler.loop_ir.program import Block, Local, Move, Program, Return
from fungrad.compiler.self_check.checked_program import checked
from fungrad.control_flow.call import built
from fungrad.ir.graph import Graph, last_uses
from fungrad.support.forks import cached_property
from fungrad.support.lazy import Record
from fungrad.support.snapshots import snapshot


def printed(program: Program, kinds: bool = False) -> str:
    """The text of a program.

    Args:
      program: the program.
      kinds: whether to print the kind of each node before its line.
    """
    return "\n".join(Printer(program.symbols, kinds).function(program))


class Printer:
    """Prints nodes, and names their values.

    Args:
      symbols: the names of global values.
      kinds: whether to print the kind of each node before its line.
    """

    reuses = True
    """Whether names of dead values are reused, and values deleted after their last use."""

    def __init__(self, symbols: dict[Local, str], kinds: bool = False) -> None:
        self.kinds = kinds
        self.names: dict[Local, str] = dict(symbols)
        self.free: list[str] = []
        """Names of deleted values."""
        self.counts: dict[str, int] = {}

    def function(self, program: Program) -> list[str]:
        """The lines of a function."""
        names = [self.name(v) for v in program.parameters]
        lines = self.block(program.nodes, program.symbols)
        return [f"def {program.name}({', '.join(names)}):", *indented(lines)]

    def name(self, value: Local) -> str:
        """The name of a value: its present one, or else a new one."""
        name = self.names.get(value)
        if name is None:
            name = self.names[value] = self.new(value.stem)
        return name

    def new(self, stem: str) -> str:
        """A new name."""
        count = self.counts.get(stem, 0)
        self.counts[stem] = count + 1
        return f"{stem}{count}"

    def block(
        self, nodes: Sequence[Any], kept: Collection[Local], inside: bool = False
    ) -> list[str]:
        """The lines of nodes; `kept` are the values that are read after them. Those `inside` of a
        loop delete nothing: their names are set again soon.
        """
        lines: list[str] = []
        uses = last_uses(nodes, kept) if self.reuses else itertools.repeat([])
        for at, (node, dead) in enumerate(zip(nodes, uses, strict=False)):
            if isinstance(node, Block):
                lines += self.nested(node, {*kept, *[v for n in nodes[at + 1 :] for v in n.inputs]})
            left = self.reuse_names(node, dead)
            if not isinstance(node, Block):
                lines += self.node(node)
            if left and not inside and not isinstance(node, Return):
                lines.append(self.line("Free", f"del {', '.join(map(self.name, left))}"))
        return lines

    def reuse_names(self, node: Any, dead: Sequence[Local]) -> Sequence[Local]:
        """Reuses names of dead values for a node's outputs; returns the dead values left over."""
        names, free = self.names, self.free
        made = [v for v in node.outputs if v not in dead and v not in names]
        left = []
        for old in dead:
            if made and old not in node.outputs:
                names[made.pop(0)] = self.name(old)
            else:
                left.append(old)
        for new in node.outputs:
            if free and new not in names:
                names[new] = free.pop()
        free += map(self.name, left)  # from the next node on: they are deleted after this one
        return left

    def node(self, node: Any) -> list[str]:
        """The lines of a node."""
        names, name = self.names, self.name
        inputs = [names.get(v) or name(v) for v in node.inputs]
        outputs = [names.get(v) or name(v) for v in node.outputs]
        if isinstance(node, Move) and outputs == inputs:
            return []
        line = node.line(inputs, outputs)
        return [self.line(type(node).__name__, line) if self.kinds else line]

    def line(self, kind: str, text: str) -> str:
        """A line, after the kind of its node if kinds are printed."""
        return f"{kind:<8}{text}" if self.kinds else text

    def nested(self, block: Block, later: Collection[Local]) -> list[str]:
        """The lines of a statement with blocks. What one of them reads from outside may be read
        again in the next iteration of a loop, or in another block.
        """
        lines, kept = [], {*later, *block.inputs}
        for head, nodes in block.parts:
            lines.append(self.expression(head))
            lines += indented(self.block(nodes, kept, True) or ["pass"])
        return lines

    def expression(self, expression: Any) -> str:
        """The text of an expression."""
        text: str = expression.text.format(*map(self.name, expression.inputs))
        return text


def indented(lines: Sequence[str]) -> list[str]:
    """The indented lines of a block."""
    return [f"    {line}" for line in lines]


Function = Callable[..., Any]


def defined(text: str, file: str, namespace: dict[str, Any], name: str = "run") -> Function:
    """The function of this name that a text defines; it keeps the text."""
    exec(compile(text, file, "exec"), namespace)
    made: Any = namespace[name]
    made.text = text
    return made  # type: ignore[no-any-return]


class Later:
    """A program that is compiled at its first call, and checked then if it is called on its own.

    Args:
      make: compiles the program.
      graph: what it computes; None for a part that is checked with its program.
      compile: compiles another Graph in the same way.
    """

    def __init__(
        self,
        make: Callable[[], Function],
        graph: Graph | None = None,
        compile: Callable[[Graph], Function] | None = None,
    ) -> None:
        self._make = make
        self._graph = graph
        self._compile = compile

    def __call__(self, *args: Any) -> Any:
        return self.run(*args)

    @cached_property
    def program(self) -> Function:
        """The program."""
        return self._make()

    @cached_property
    def run(self) -> Function:
        """The program, or the function that checks its first run."""
        if self._graph is None or self._compile is None:
            return self.program
        found = checked(self._graph, lambda: self.program, self._settle, self._compile)
        assert found is not None
        return found

    def _settle(self, program: Function) -> None:
        self.__dict__["run"] = program


class Callee(Record):
    """A callee of a program: the path of its callers, its name in the last one, the function;
    `native` if that is the fallback of machine code.
    """

    caller: str
    name: str
    function: Any
    native: bool = False

    def headed(self, text: str) -> str:
        """A text of the function under its name, after a comment that names its caller."""
        shown = re.sub(r"^def (run|region)\(", f"def {self.name}(", text, flags=re.MULTILINE)
        machine = ", machine code; on NumPy, for arguments that it does not accept:" * self.native
        return f"# {self.name} of {self.caller}{machine}\n{shown}" if self.caller else shown


def written_out(program: Function) -> str:
    """The text of a program, then those of its callees, each under its name."""
    return "\n\n".join([found.headed(found.function.text) for found in callees(program)])


def callees(program: Function) -> list[Callee]:
    """A program and its direct and indirect callees that have a text."""
    called: list[Callee] = []
    _visit(Callee("", "run", program), called, {id(program)})
    return called


def _visit(callee: Callee, found: list[Callee], seen: set[int]) -> None:
    caller, name, program, _ = callee
    path = f"{caller}.{name}" if caller else name
    has_text = getattr(program, "text", None) is not None
    if has_text:
        found.append(callee)
    path = path if has_text else caller or name
    for inner, called, native in _called(program):
        if id(called) not in seen:
            seen.add(id(called))
            _visit(Callee(path, inner, called, native), found, seen)


def _called(program: Any) -> Iterator[tuple[str, Any, bool]]:
    """The names and functions of a program's callees that may have a text or callees with one, and
    whether machine code runs instead.
    """
    if isinstance(program, functools.partial):  # a primitive with its parameters
        for name, value in _graphs(program.keywords):
            yield name, value, False
    if hasattr(program, "text"):
        for name, value in snapshot(program.__globals__).items():
            native = is_native(value)
            value = value if name == "instead" else in_python(value)
            has_text = isinstance(value, functools.partial) or hasattr(value, "text")
            if callable(value) and value is not program and has_text:
                yield name, value, native


def is_native(runner: Any) -> bool:
    """Whether a program is machine code, with a fallback in Python."""
    return getattr(getattr(runner, "__self__", None), "fallback", None) is not None


def in_python(runner: Any) -> Any:
    """The Python program behind one that is compiled later, or the fallback of a native one."""
    inner = getattr(getattr(runner, "__self__", None), "fallback", None)
    later = runner if isinstance(runner, Later) else inner
    return runner if later is None else in_python(later.program)


def _graphs(params: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The programs of the Graphs among the parameters of a primitive."""
    for key, value in params.items():
        several = isinstance(value, tuple)
        for i, graph in enumerate(value if several else (value,)):
            if isinstance(graph, Graph):
                yield f"{key}{i}" if several else key, in_python(built(graph))
