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

Program = Callable[..., Any]


def defined(text: str, file: str, namespace: dict[str, Any], name: str = "run") -> Program:
    """The function of a name that a text defines; it keeps the text."""
    exec(compile(text, file, "exec"), namespace)
    made: Any = namespace[name]
    made.text = text
    return made  # type: ignore[no-any-return]


def written_out(program: Program) -> str:
    """The text of a program, and behind it those of what it calls, each under its name."""
    parts: list[str] = []
    _write("run", program, "", parts, {id(program)})
    return "\n\n".join(parts)


def _write(name: str, program: Any, caller: str, parts: list[str], seen: set[int]) -> None:
    text = getattr(program, "text", None)
    path = f"{caller}.{name}" if caller else name
    if text is not None:
        shown = re.sub(r"^def (run|region)\(", f"def {name}(", text, flags=re.MULTILINE)
        parts.append(f"# {name} of {caller}\n{shown}" if caller else shown)
    for inner, called in _called(program):
        if id(called) not in seen:
            seen.add(id(called))
            _write(inner, called, path if text is not None else caller or name, parts, seen)


def _called(program: Any) -> Iterator[tuple[str, Any]]:
    """What a program calls that has a text, or calls something that has, by its names for them."""
    if isinstance(program, functools.partial):  # a primitive with its parameters
        yield from _graphs(program.keywords)
    yield from _graphs(getattr(program, "graphs", {}))
    if hasattr(program, "text"):
        for name, value in program.__globals__.items():
            inner = isinstance(value, functools.partial) or hasattr(value, "graphs")
            if callable(value) and value is not program and (inner or hasattr(value, "text")):
                yield name, value


def _graphs(params: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The programs of the Graphs among the parameters of a primitive, and of those made of them."""
    for key, value in params.items():
        several = isinstance(value, tuple)
        for i, graph in enumerate(value if several else (value,)):
            if isinstance(graph, Graph):
                yield f"{key}{i}" if several else key, compiled(graph)
            elif hasattr(graph, "text"):
                yield key, graph


__all__ = ["defined", "written_out"]
