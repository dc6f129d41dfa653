"""The report of fg.explain_speed: a table by the user's lines, with the reasons of slow ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any, NamedTuple

from fungrad.inspect.source_lines import place_of, shortened, text_of
from fungrad.inspect.speed.operations import NativeKernel, Operation, Operations
from fungrad.inspect.tables import Table, drawn, plain, seconds
from fungrad.ir.graph import Graph, Source

FEWEST, MOST = 5, 100
BUDGET = 0.5
"""The seconds for the repetitions where their number is not given."""
SHOWN = 15
"""The most printed lines."""
SMALL = 0.005
"""Reasons are printed for lines of at least such a share of the time."""


class Line(NamedTuple):
    """The operations of one line that run in one place.

    Attributes:
      source: the line; None if it is not known.
      operations: the names of the primitives.
      output: the type of the largest result.
      where: "kernel 1", "BLAS", "LAPACK", "NumPy" or "Python".
      seconds: their time in a call.
      share: their part of the time of all operations.
      estimated: whether they share a measured time with other lines, divided by estimates.
      reason: why they are not native, or "".
      advice: what would help, or "".
    """

    source: Source | None
    operations: str
    output: str
    where: str
    seconds: float
    share: float
    estimated: bool
    reason: str
    advice: str


@dataclass(frozen=True)
class Explanation:
    """The result of `fg.explain_speed(f)(*args)` and of `lowered.explain()`; it prints as tables.

    Attributes:
      name: of the function.
      operations: where each operation runs, its time, and why it is not native.
      seconds: the time of the compiled program, in its fastest run.
      repetitions: the number of runs.
      kernels: the native programs.
      causes: why the function is slow, where a cause is known, with measured factors.
    """

    name: str
    operations: tuple[Operation, ...]
    seconds: float
    repetitions: int
    kernels: tuple[NativeKernel, ...] = field(default=(), repr=False, compare=False)
    causes: tuple[Any, ...] = ()

    @property
    def native(self) -> float:
        """The share of the time that kernels take."""
        total = sum([o.seconds for o in self.operations]) or 1.0
        return sum([o.seconds for o in self.operations if o.native]) / total

    @property
    def lines(self) -> list[Line]:
        """By the user's line and the place where it runs, the longest first."""
        total = sum([o.seconds for o in self.operations]) or 1.0
        groups: dict[Any, list[Operation]] = {}
        for one in self.operations:
            why = one.refusal.reason if one.refusal else ""
            groups.setdefault((one.source, one.where, why), []).append(one)
        lines = []
        for (source, where, why), members in groups.items():
            spent = sum([o.seconds for o in members])
            names = ", ".join(dict.fromkeys([o.primitive for o in members]))
            largest = max(members, key=lambda o: (o.seconds, len(o.output)))
            lines.append(
                Line(source, names, largest.output, where, spent, spent / total,
                     any(o.estimated for o in members), why, members[0].advice)
            )  # fmt: skip
        return sorted(lines, key=lambda line: -line.seconds)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "name": self.name,
            "seconds": self.seconds,
            "repetitions": self.repetitions,
            "native": self.native,
            "lines": [
                {**line._asdict(), "source": line.source and line.source._asdict()}
                for line in self.lines
            ],
            "kernels": [kernel.loops for kernel in self.kernels],
            "causes": [cause.to_dict() for cause in self.causes],
        }

    def by_line(self) -> Table:
        """The printed table by lines."""
        header = ["line", "operation", "shape", "where", "time", "share", "source"]
        lines, rows = self.lines, []
        for line in lines[:SHOWN]:
            names, output = shortened(line.operations, 30), shortened(line.output, 24)
            about = "~" if line.estimated else ""
            figures = [about + seconds(line.seconds), f"{line.share:.1%}"]
            text = shortened(text_of(line.source), 40)
            rows.append([place_of(line.source), names, output, line.where, *figures, text])
        if lines[SHOWN:]:
            rest = [sum([getattr(line, k) for line in lines[SHOWN:]]) for k in ("seconds", "share")]
            more = f"{len(lines) - SHOWN} more"
            rows.append([more, "", "", "", seconds(rest[0]), f"{rest[1]:.1%}", ""])
        return Table("by line", header, rows, frozenset((4, 5)))

    def tables(self) -> list[Table]:
        """The printed tables."""
        reasons = [
            [place_of(line.source), shortened(line.operations, 30), line.reason, line.advice]
            for line in self.lines[:SHOWN]
            if line.reason and line.share >= SMALL
        ]
        whole = [
            ["one call", seconds(self.seconds)],
            ["all operations", seconds(sum([o.seconds for o in self.operations]))],
            ["in native code", f"{self.native:.0%}"],
        ]
        title = f"one call, the fastest of {self.repetitions}"
        tables = [
            Table(title, ["", "time"], whole, frozenset((1,))),
            self.by_line(),
        ]
        if reasons:
            columns = ["line", "operation", "reason", "what would help"]
            tables.append(Table("not in native code", columns, reasons))
        if self.causes:
            told = [[cause.title, "\n".join(wrap(cause.message, 90))] for cause in self.causes]
            tables.append(Table("why it is slow", ["cause", ""], told))
        return tables

    def __repr__(self) -> str:
        return plain(f"speed of {self.name}", self.tables())

    def __rich__(self) -> Any:
        return drawn(f"speed of {self.name}", self.tables())


def repeated(repetitions: int | None) -> Callable[[float], int]:
    """The number of runs, given the seconds of one."""
    return lambda once: repetitions or min(max(FEWEST, int(BUDGET / max(once, 1e-9))), MOST)


def explained(graph: Graph, args: Sequence[Any], repetitions: int | None = None) -> Explanation:
    """Where the operations of a Graph run, and their times.

    Args:
      graph: the Graph, as traced.
      args: its arguments.
      repetitions: the number of runs; None for as many as half a second allows.
    """
    operations = Operations(graph)
    operations_run, whole, count = operations.measured(args, repeated(repetitions))
    name = graph.name or "a function"
    return Explanation(name, tuple(operations_run), whole, count, tuple(operations.kernels))
