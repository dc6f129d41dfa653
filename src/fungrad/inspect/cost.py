"""The cost of a compiled function, counted without running it: operations and bytes.

`cost(graph)` counts the work of the optimised Graph, and the work that each pass removed. The body
of a `while` counts once, since its number of trips is unknown. Memory follows the compiled
program on NumPy: order of equations, last uses, and views.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from fungrad.compiler.passes.pipeline import PASSES, optimised
from fungrad.inspect.memory import Peak, distinct_variables, peak
from fungrad.inspect.tables import Table, drawn, number, plain
from fungrad.inspect.trip_counts import bodies_of
from fungrad.ir.graph import Graph
from fungrad.ir.types import size_in_bytes
from fungrad.primitives.facts import NOTHING, Work, is_view, work_of


class Traffic(NamedTuple):
    """The bytes that the equations of the program read and write."""

    read: int = 0
    written: int = 0


def traffic(graph: Graph) -> Traffic:
    """The bytes that an optimised Graph's program reads and writes, in all runs of its bodies."""
    read = made = 0
    for step in graph.equations:
        inner = bodies_of(step)
        if inner is not None:
            found = [traffic(optimised(body.graph)) for body in inner.bodies]
            times = [body.times for body in inner.bodies]
            reads = [f.read * t for f, t in zip(found, times, strict=True)]
            writes = [f.written * t for f, t in zip(found, times, strict=True)]
            worst = max(range(len(found)), key=lambda i: (reads[i] + writes[i], -i))
            read += reads[worst] if inner.choice else sum(reads)
            made += writes[worst] if inner.choice else sum(writes)
        elif not is_view(step):
            read += size_in_bytes(atom.type for atom in distinct_variables(step.inputs))
            made += size_in_bytes(v.type for v in step.outputs)
    return Traffic(read, made)


class PrimitiveCost(NamedTuple):
    """The equations of one primitive, also those inside loops and branches, and their work."""

    primitive: str
    equations: int
    flops: int
    transcendentals: int


class PassEffect(NamedTuple):
    """The savings of one pass; a negative number is a loss."""

    name: str
    equations: int
    flops: int
    transcendentals: int


class Tally:
    """The sums of work and equations over a Graph and the Graphs inside it."""

    def __init__(self) -> None:
        self.work = NOTHING
        self.equations: Counter[str] = Counter()
        self.by_primitive: dict[str, Work] = {}
        self.unknown: Counter[str] = Counter()
        self.by_trip: Counter[str] = Counter()

    def add(self, name: str, work: Work) -> None:
        """Counts the work of an equation."""
        self.work = self.work.plus(work)
        self.by_primitive[name] = self.by_primitive.get(name, NOTHING).plus(work)

    def take(self, other: Tally, times: int) -> None:
        """Counts a body that runs `times` times."""
        self.work = self.work.plus(other.work, times)
        for name, work in other.by_primitive.items():
            self.by_primitive[name] = self.by_primitive.get(name, NOTHING).plus(work, times)
        self.equations.update(other.equations)
        self.unknown.update(other.unknown)
        self.by_trip.update(other.by_trip)


def tally(graph: Graph, inner: Callable[[Graph], Graph]) -> Tally:
    """The work of a Graph; `inner` maps a Graph inside an equation to the one that runs.

    Of several branches only the one with the most work counts, but the equations of all do.
    """
    result = Tally()
    for equation in graph.equations:
        name = equation.primitive.name
        result.equations[name] += 1
        bodies = bodies_of(equation)
        if bodies is None:
            work = work_of(equation)
            if work is None:
                result.unknown[name] += 1
            else:
                result.add(name, work)
            continue
        result.by_trip[name] += bodies.by_trip
        parts = [(tally(inner(body.graph), inner), body.times) for body in bodies.bodies]
        worst = max(range(len(parts)), key=lambda i: (sum(parts[i][0].work), -i))
        for index, (part, times) in enumerate(parts):
            result.take(part, 0 if bodies.choice and index != worst else times)
    return result


@dataclass(frozen=True)
class Cost:
    """The cost of a Graph: the result of `lowered.cost()`. It prints as tables.

    Attributes:
      name: of the function.
      flops: sums, products, comparisons and similar operations, of numbers of any dtype.
      transcendentals: evaluations of other functions of numbers.
      bytes_read, bytes_written: by the steps of the program; values that stay in cache are not
        counted.
      equations: of the Graph that runs, with those of the Graphs inside, each once.
      peak: the largest sum of live bytes, by kind.
      by_primitive: the same work by primitive, the largest first.
      passes: the work that each pass of the optimiser removed.
      unknown: primitives without a cost rule, and the number of their equations: their work is
        missing from the figures.
      by_trip: loops with an unknown number of trips, counted as one trip.
    """

    name: str
    flops: int
    transcendentals: int
    bytes_read: int
    bytes_written: int
    equations: int
    peak: Peak
    by_primitive: tuple[PrimitiveCost, ...]
    passes: tuple[PassEffect, ...]
    unknown: dict[str, int]
    by_trip: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """The cost as plain data."""
        return {
            "name": self.name,
            "flops": self.flops,
            "transcendentals": self.transcendentals,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "equations": self.equations,
            "peak_bytes": {**self.peak._asdict(), "total": self.peak.total},
            "by_primitive": [row._asdict() for row in self.by_primitive],
            "passes": [row._asdict() for row in self.passes],
            "unknown": dict(self.unknown),
            "by_trip": dict(self.by_trip),
        }

    def tables(self) -> list[Table]:
        """The printed tables."""
        right = frozenset((1, 2, 3))
        totals = [
            ["flops", number(self.flops)],
            ["transcendentals", number(self.transcendentals)],
            ["bytes read", number(self.bytes_read)],
            ["bytes written", number(self.bytes_written)],
            ["equations", number(self.equations)],
            *([f"peak bytes, {kind}", number(n)] for kind, n in self.peak._asdict().items()),
            ["peak bytes, total", number(self.peak.total)],
        ]
        header = ["primitive", "equations", "flops", "transcendentals"]
        rows = [[row[0], *map(number, row[1:])] for row in self.by_primitive]
        passes = [[row[0], *map(number, row[1:])] for row in self.passes if any(row[1:])]
        tables = [
            Table("totals", ["", "count"], totals, right),
            Table("by primitive", header, rows, right),
        ]
        if passes:
            tables.append(Table("removed by", ["pass", *header[1:]], passes, right))
        notes = [[name, "no rule", number(count)] for name, count in self.unknown.items()]
        notes += [[name, "one trip counted", number(n)] for name, n in self.by_trip.items()]
        if notes:
            tables.append(Table("not in the figures", ["primitive", "why", "equations"], notes))
        return tables

    def __repr__(self) -> str:
        return plain(f"cost of {self.name}", self.tables())

    def __rich__(self) -> Any:
        return drawn(f"cost of {self.name}", self.tables())


def cost(graph: Graph) -> Cost:
    """The cost of one run of a compiled Graph.

    Args:
      graph: the Graph as traced; it is optimised here.

    Returns:
      A `Cost`. A scan counts all its steps; a `while` counts one.

    >>> import numpy as np, fungrad as fg
    >>> found = fg.jit(lambda a, b: np.exp(a @ b)).lower(np.ones((2, 3)), np.ones((3, 4))).cost()
    >>> found.flops, found.transcendentals, found.peak.total
    (48, 8, 272)
    """
    final = optimised(graph)
    total = tally(final, optimised)
    moved = traffic(final)
    rows = [
        PrimitiveCost(name, count, *total.by_primitive.get(name, NOTHING))
        for name, count in total.equations.items()
    ]
    rows.sort(key=lambda row: (-row.flops - row.transcendentals, row.primitive))
    return Cost(
        graph.name or "a graph",
        *total.work,
        moved.read,
        moved.written,
        sum(total.equations.values()),
        peak(final),
        tuple(rows),
        _passes(graph, total),
        dict(total.unknown),
        {name: count for name, count in total.by_trip.items() if count},
    )


def _passes(graph: Graph, final: Tally) -> tuple[PassEffect, ...]:
    """The savings of each pass, and last those within the bodies."""
    effects = []
    before = tally(graph, _as_it_is)
    for apply in PASSES:
        graph = apply(graph)
        after = tally(graph, _as_it_is)
        effects.append(_effect(getattr(apply, "__name__", str(apply)), before, after))
        before = after
    return (*effects, _effect("the same, in bodies", before, final))


def _as_it_is(graph: Graph) -> Graph:
    return graph


def _effect(name: str, before: Tally, after: Tally) -> PassEffect:
    equations = sum(before.equations.values()) - sum(after.equations.values())
    flops = before.work.flops - after.work.flops
    return PassEffect(
        name, equations, flops, before.work.transcendentals - after.work.transcendentals
    )
