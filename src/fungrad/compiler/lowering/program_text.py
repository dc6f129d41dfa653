"""Programs that keep their text, and the text of one with all that it calls.

A program is a function that is defined from its text; what it calls stands in its globals. Knows
functions and Graphs as parameters; knows no equation.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

from fungrad.control_flow.call import compiled
from fungrad.ir.graph import Graph
from fungrad.support.record import Record

Program = Callable[..., Any]


def defined(text: str, file: str, namespace: dict[str, Any], name: str = "run") -> Program:
    """The function of a name that a text defines; it keeps the text."""
    exec(compile(text, file, "exec"), namespace)
    made: Any = namespace[name]
    made.text = text
    return made  # type: ignore[no-any-return]


class Callee(Record):
    """A function that a program calls: the path of its callers, its name there, the function."""

    caller: str
    name: str
    function: Any

    def headed(self, text: str) -> str:
        """A text of the function under its name, behind a comment that says who calls it."""
        shown = re.sub(r"^def (run|region)\(", f"def {self.name}(", text, flags=re.MULTILINE)
        return f"# {self.name} of {self.caller}\n{shown}" if self.caller else shown


def written_out(program: Program) -> str:
    """The text of a program, and behind it those of what it calls, each under its name."""
    return "\n\n".join([found.headed(found.function.text) for found in callees(program)])


def callees(program: Program) -> list[Callee]:
    """A program and all that it calls, be it through others, as far as they have a text."""
    found: list[Callee] = []
    _visit("run", program, "", found, {id(program)})
    return found


def _visit(name: str, program: Any, caller: str, found: list[Callee], seen: set[int]) -> None:
    path = f"{caller}.{name}" if caller else name
    has_text = getattr(program, "text", None) is not None
    if has_text:
        found.append(Callee(caller, name, program))
    for inner, called in _called(program):
        if id(called) not in seen:
            seen.add(id(called))
            _visit(inner, called, path if has_text else caller or name, found, seen)


def _called(program: Any) -> Iterator[tuple[str, Any]]:
    """What a program calls that has a text, or calls something that has, by its names for them."""
    if isinstance(program, functools.partial):  # a primitive with its parameters
        yield from _graphs(program.keywords)
    if hasattr(program, "text"):
        for name, value in program.__globals__.items():
            has_text = isinstance(value, functools.partial) or hasattr(value, "text")
            if callable(value) and value is not program and has_text:
                yield name, value


def in_python(runner: Any) -> Any:
    """The Python program of a Graph: what stands behind a native one where that is what runs it."""
    behind = getattr(getattr(runner, "__self__", None), "fallback", None)
    return runner if behind is None else behind.run


def _graphs(params: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The programs of the Graphs among the parameters of a primitive."""
    for key, value in params.items():
        several = isinstance(value, tuple)
        for i, graph in enumerate(value if several else (value,)):
            if isinstance(graph, Graph):
                yield f"{key}{i}" if several else key, in_python(compiled(graph))


__all__ = ["Callee", "callees", "defined", "in_python", "written_out"]
