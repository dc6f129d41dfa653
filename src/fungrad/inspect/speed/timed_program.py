"""Programs with a counter for each step: the text that runs, printed once more with a clock.

A loop's own function gets counters, too. The time that the clock itself takes is measured and
subtracted.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler.loop_ir.printer import Printer, defined, indented
from fungrad.compiler.loop_ir.program import Block, Return
from fungrad.support.lazy import Record

_TICK = "_n = _clock(); _s[{0}] += _n - _p; _c[{0}] += 1; _p = _n"
_START = "_p = _clock()"


class Step(Record):
    """A step of a program in one run.

    Attributes:
      origin: the equation or cluster that it computes; None for the program's own work.
      callee: the function that it calls; None if it is an expression.
      seconds: its time, with that of its callee.
      runs: how often it ran.
      inner: the steps of its callee; None if that has no counters.
    """

    origin: Any
    callee: Any
    seconds: float
    runs: int
    inner: Sequence[Any] | None = None


class TimedProgram:
    """A program on arrays with a counter for each of its steps.

    Args:
      function: a function of `array_lowering`, which keeps its loop IR.

    Attributes:
      run: the function with counters.
    """

    def __init__(self, function: Any) -> None:
        self._namespace = dict(function.__globals__)
        printer = _Timed(function.program.symbols)
        lines = printer.function(function.program)
        self._nodes = printer.nodes
        self._spent, self._counts = [0] * len(self._nodes), [0] * len(self._nodes)
        self._inner: dict[int, TimedProgram] = {}
        self._callees: list[Any] = []
        for number, node in enumerate(self._nodes):
            name = _called(node)
            callee = self._namespace.get(name)
            self._callees.append(callee)
            if counts_steps(callee):
                made = self._inner[number] = TimedProgram(callee)
                self._namespace[name] = made.run
        own = {"_s": self._spent, "_c": self._counts, "_clock": time.perf_counter_ns}
        text = "\n".join([lines[0], *indented([_START]), *lines[1:]])
        names = self._namespace | own
        self.run: Callable[..., Any] = defined(text, "<timed>", names, function.program.name)

    def reset(self) -> None:
        """Sets all counters to zero."""
        self._spent[:] = [0] * len(self._spent)
        self._counts[:] = [0] * len(self._counts)
        for inner in self._inner.values():
            inner.reset()

    def steps(self) -> list[Step]:
        """The steps, with what the counters have counted."""
        return [self._step(n) for n in range(len(self._nodes))]

    def _step(self, number: int) -> Step:
        node, runs = self._nodes[number], self._counts[number]
        inner = self._inner.get(number)
        ticks = 0 if inner is None else inner.ticks
        spent = max(self._spent[number] - tick_ns() * (runs + ticks), 0.0) * 1e-9
        origin = getattr(node, "origin", None)
        steps = None if inner is None else inner.steps()
        return Step(origin, self._callees[number], spent, runs, steps)

    @property
    def ticks(self) -> int:
        """How often the clock was read."""
        return sum(self._counts) + sum([inner.ticks for inner in self._inner.values()])


def counts_steps(function: Any) -> bool:
    """Whether a function keeps its loop IR, with the equations of its steps."""
    program = getattr(function, "program", None)
    if program is None or hasattr(function, "cluster"):
        return False
    return any(_origins(program.nodes))


def _origins(nodes: Sequence[Any]) -> list[Any]:
    origins = []
    for node in nodes:
        if isinstance(node, Block):
            for _, inner in node.parts:
                origins += _origins(inner)
        elif getattr(node, "origin", None) is not None:
            origins.append(node.origin)
    return origins


def _called(node: Any) -> str:
    """The name of the function that a node calls, or ""."""
    text = getattr(node, "text", "")
    name, opened, _ = text.partition("(")
    return name if opened and name.isidentifier() else ""


class _Timed(Printer):
    """Prints a program with a counter after each node; `nodes` are those of the counters."""

    def __init__(self, symbols: Any) -> None:
        super().__init__(symbols)
        self.nodes: list[Any] = []

    def node(self, node: Any) -> list[str]:
        lines = super().node(node)
        self.nodes.append(node)
        tick = _TICK.format(len(self.nodes) - 1)
        return [tick, *lines] if isinstance(node, Return) else [*lines, tick]


@functools.cache
def tick_ns() -> float:
    """The nanoseconds that a counter takes."""
    ticks = "\n".join(indented(indented([_TICK.format(0)] * 50)))
    text = f"def run():\n    {_START}\n    for _ in range(100):\n{ticks}\n    return _s[0]"
    spent = [0]
    run = defined(text, "<clock>", {"_clock": time.perf_counter_ns, "_s": spent, "_c": [0]})
    differences: list[float] = []
    for _ in range(5):
        spent[0] = 0
        differences.append(run() / 5_000)
    return min(differences)
