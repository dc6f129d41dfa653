"""A random program as data: steps, and functions of steps; it prints as a Python function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

import fungrad as fg

from . import plain
from .inputs import LAYOUTS, Input, arrivals

NAME = re.compile(r"\b[vxc]\d+\b")


@dataclass(frozen=True)
class Body:
    """A function inside a program: its parameters, steps, and result."""

    name: str
    params: tuple[str, ...]
    steps: tuple[Step, ...]
    result: str

    def lines(self) -> Iterator[str]:
        yield f"def {self.name}({', '.join(self.params)}):"
        for step in self.steps:
            yield from ("    " + line for line in step.lines())
        yield f"    return {self.result}"


@dataclass(frozen=True)
class Step:
    """`targets = text`, after the functions that the text names; `after` are lines in between."""

    targets: tuple[str, ...]
    text: str
    family: str
    bodies: tuple[Body, ...] = ()
    between: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        for body in self.bodies:
            yield from body.lines()
        yield from self.between
        yield f"{', '.join(self.targets)} = {self.text}"

    def reads(self) -> set[str]:
        """The names that it needs from outside."""
        found = set(NAME.findall(self.text)) | set(NAME.findall(" ".join(self.between)))
        for body in self.bodies:
            inner = set(NAME.findall(body.result)).union(*(step.reads() for step in body.steps))
            inner -= set(body.params).union(*(step.targets for step in body.steps))
            found |= inner
        return found


@dataclass(frozen=True)
class Program:
    """Steps from inputs to outputs; `captured` are the arrays that it closes over (c0, c1, ...)."""

    inputs: tuple[Input, ...]
    captured: tuple[tuple[str, Input], ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    names: tuple[str, ...] = ()
    smooth: bool = False
    large: bool = False
    fails: bool = field(default=False, compare=False)

    def __reduce__(self) -> Any:
        """Other processes get the steps, and compile them."""
        return Program, tuple(getattr(self, f.name) for f in fields(self))

    @cached_property
    def source(self) -> str:
        """The text of the function."""
        lines = [f"def program({', '.join(self.names)}):"]
        for step in self.steps:
            lines += ("    " + line for line in step.lines())
        return "\n".join([*lines, f"    return ({', '.join(self.outputs)},)"]) + "\n"

    @cached_property
    def _code(self) -> Any:
        return compile(self.source, "<fuzz>", "exec")

    def function(self, names: dict[str, Any]) -> Callable[..., Any]:
        """The function, with the given global names (plain.NAMES or FUNGRAD)."""
        scope = dict(names)
        scope.update((name, value.make()) for name, value in self.captured)
        exec(self._code, scope)
        found: Callable[..., Any] = scope["program"]
        return found

    @cached_property
    def plain(self) -> Callable[..., Any]:
        """The program as plain NumPy."""
        return self.function(plain.NAMES)

    @cached_property
    def traced(self) -> Callable[..., Any]:
        """The program for fungrad's transforms."""
        return self.function(FUNGRAD)

    def args(self, turn: int = 0) -> list[Any]:
        """The arguments."""
        return [value.make(turn) for value in self.inputs]

    def live(self) -> Program:
        """Without the steps, captured arrays and inputs that no output needs."""
        needed = set(self.outputs)
        kept: list[Step] = []
        for step in reversed(self.steps):
            if needed.intersection(step.targets):
                kept.append(step)
                needed |= step.reads()
        pairs = [(n, i) for n, i in zip(self.names, self.inputs, strict=True) if n in needed]
        pairs = pairs or list(zip(self.names, self.inputs, strict=True))[:1]
        return replace(
            self,
            steps=tuple(reversed(kept)),
            captured=tuple((n, i) for n, i in self.captured if n in needed),
            names=tuple(n for n, _ in pairs),
            inputs=tuple(i for _, i in pairs),
        )

    def __str__(self) -> str:
        captured = "".join(f"{name} = {value}\n" for name, value in self.captured)
        args = ", ".join(map(str, self.inputs))
        return f"{captured}{self.source}args = ({args},)\n"


FUNGRAD: dict[str, Any] = {
    "np": np,
    "lax": fg.lax,
    "fg": fg,
    "at": fg.numpy.at,
    "LAYOUTS": LAYOUTS,
    "WAYS": arrivals.WAYS,
}
