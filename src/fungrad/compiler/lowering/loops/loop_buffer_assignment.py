"""Where the values of a loop's step stand: buffers, rows of stacks, and views of them.

A buffer is used again when what stood there is dead. What is the same memory in all steps is looked
at, turned or repeated before the loop; rows by running over the stack that is looked at so. Knows
the lines of programs and lifetimes; writes no equation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.fusion.clustering import Region
from fungrad.compiler.lowering.liveness import Lifetimes
from fungrad.compiler.lowering.statement_codegen import Lines
from fungrad.compiler.passes.rewriter import SMALL
from fungrad.ir.graph import Equation, Graph, Variable
from fungrad.ir.types import Type
from fungrad.support.record import Record

TINY = 1 << 8
"""Arrays of no more elements are copied in less time than broadcasting takes."""


class View(Record):
    """How a value is looked at: the text behind its name, and behind that of a stack of such."""

    one: str
    stacked: str


TURNED = View(".T", ".transpose(0, 2, 1)")
COLUMN = View("[:, None]", "[:, :, None]")
ROW = View("[None]", "[:, None]")


class Places(Lines):
    """The lines of a loop's step, and the memory that they write into.

    Args:
      body: the step.
      consts: its inputs that are the same in all steps.
      carried: how many of its outputs the next step finds.
    """

    def __init__(self, body: Graph, consts: Sequence[Variable], carried: int) -> None:
        super().__init__(body, None)  # rows and buffers are nobody else's to write over
        self.lives = Lifetimes(self.steps, body, carried)
        self.before: list[str] = []
        """Lines before the loop."""
        self.running: list[tuple[str, str]] = []
        """Names of a step, and what they run over."""
        self.rows: dict[str, str] = {}
        """Stacks of which steps read or write rows, in their order, by the names of the rows."""
        self.looked: dict[tuple[str, str], str] = {}
        """The names of views of such rows."""
        self.repeated: dict[tuple[int, tuple[int, ...]], str] = {}
        """Where values stand as broadcasting repeats them."""
        known = (*consts, *(v for v, _ in body.constants))
        self.fixed = {id(v) for v in known}
        """What is the same in all steps."""
        self.still = set(map(self.name, known))
        """Names of what is the same memory in all steps."""
        self.views: dict[str, str] = {}
        self.buffers: list[str] = []
        self.taken: dict[int, tuple[Any, str]] = {}
        self.free: dict[Any, list[str]] = {}

    def allocate(self, name: str, shape: tuple[int, ...], type_: Type) -> None:
        """Makes an array without values before the loop."""
        self.before.append(f"{name} = {self.empty(shape, type_)}")

    def empty(self, shape: tuple[int, ...], type_: Type) -> str:
        """The expression of an array without values."""
        dtype = self.constant(type_.dtype.name, type_.dtype)
        return f"{self.constant('empty', np.empty)}({shape}, {dtype})"

    def hoisted(self, expression: str) -> str:
        """The name of an expression that is computed before the loop."""
        if expression not in self.views:
            self.views[expression] = name = f"h_{len(self.views)}"
            self.before.append(f"{name} = {expression}")
            self.still.add(name)
        return self.views[expression]

    def seen(self, name: str, view: View) -> str:
        """A view of a value: of a row of a stack, a row of the stack that is looked at so."""
        if name in self.still:
            return self.hoisted(f"{name}{view.one}")
        if name not in self.rows:
            return f"{name}{view.one}"
        key = name, view.one
        if key not in self.looked:
            self.looked[key] = row = f"{name}_v{len(self.looked)}"
            self.running.append((row, f"{self.rows[name]}{view.stacked}"))
        return self.looked[key]

    def spread(self, atom: Variable, name: str, shape: tuple[int, ...]) -> tuple[str, list[str]]:
        """A value, repeated as broadcasting does, and the lines that do it; large ones are not."""
        size = math.prod(shape)
        if id(atom) in self.fixed and size <= SMALL:
            repeat = self.constant("broadcast_to", np.broadcast_to)
            return self.hoisted(f"{repeat}({name}, {shape}).copy()"), []
        if id(atom) in self.fixed or atom.type.weak or size > TINY:
            return name, []
        key = id(atom), shape
        if key in self.repeated:
            return self.repeated[key], []
        self.repeated[key] = whole = self.buffer(Type(shape, atom.type.dtype))
        return whole, [f"{whole}[...] = {name}"]

    def handed_on(self, step: Equation | Region, dead: Sequence[Variable]) -> Sequence[Variable]:
        """A name of a loop stands for one place in memory, and is for nothing else."""
        return dead

    # --- buffers --------------------------------------------------------------------------------

    def release(self) -> None:
        """Gives back the buffers of what nothing reads behind this step."""
        for base in self.lives.ended[self.at]:
            if base in self.taken:
                kind, name = self.taken.pop(base)
                self.free.setdefault(kind, []).append(name)

    def take(self, variable: Variable) -> str:
        """A buffer for a value, until that is read no more."""
        kind = variable.type.shape, variable.type.dtype
        name = self.free[kind].pop() if self.free.get(kind) else self.buffer(variable.type)
        self.taken[id(variable)] = kind, name
        return name

    def buffer(self, type_: Type) -> str:
        """The name of a new buffer."""
        name = f"b_{len(self.buffers)}"
        self.buffers.append(name)
        self.still.add(name)
        self.allocate(name, type_.shape, type_)
        return name


__all__ = ["COLUMN", "ROW", "TURNED", "Places", "View"]
