"""The diagram of every picture: nodes and edges, in bodies that nest.

Equations are grouped by scope, function, line, and number. A group is a run of neighbours, so that
groups never depend on each other in a cycle. Forward and backward equations never share a group.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from fungrad.ir.graph import Equation, Source

READABLE, MOST = 60, 20_000
"""The number of nodes that a picture shows at once by default, and at most."""


@dataclass(slots=True)
class Box:
    """A box: an input, a constant, an output, an equation, or a group of equations.

    `body` is the number of the body that unfolds from it. `lane` is the pass that it is drawn in,
    `backward` the pass that made its value; both count backward walks, as `Equation.backward`.
    `stops` counts the stops inside, or is 1 for a stop itself.
    """

    kind: str
    title: str
    detail: str = ""
    type: str = ""
    bytes: int = 0
    lane: int = 0
    backward: int = 0
    family: str = "other"
    text: str = ""
    place: str = ""
    code: str = ""
    scope: str = ""
    stops: int = 0
    size: int = 0
    body: int | None = None
    folded: bool = False

    @property
    def summary(self) -> str:
        """The number of equations and stops inside."""
        stops = f", {self.stops} ✂" if self.stops else ""
        return f"{self.size} equation{'s' * (self.size != 1)}{stops}"

    @property
    def heading(self) -> str:
        """The line at the top of an unfolded box."""
        detail = "" if self.kind == "group" else self.detail
        return " · ".join(filter(None, [self.title, detail, self.summary]))

    @property
    def spoken(self) -> str:
        """The description of the node, one fact a line."""
        inside = "" if self.body is None else self.summary
        size = f"{self.bytes} bytes" if self.bytes else ""
        facts = [self.text or self.title, size, inside, self.scope, self.place, self.code]
        return "\n".join(filter(None, facts))


@dataclass(slots=True)
class Edge:
    """A value passed from node to node; `cut` is "stop" or "zero" if no derivative passes."""

    source: int
    target: int
    value: str
    type: str
    bytes: int
    cut: str = ""
    name: str = ""


@dataclass(slots=True)
class Level:
    """The nodes and edges of one level."""

    nodes: list[Box] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)


@dataclass(slots=True)
class Diagram:
    """All bodies of a picture; the first is the outermost."""

    title: str
    bodies: list[Level]

    @property
    def equations(self) -> int:
        """The number of equations of the outermost Graph, without inner Graphs."""
        return sum(
            node.size if node.folded else 1
            for node in self.bodies[0].nodes
            if node.kind in ("operation", "group")
        )


def opened(found: Diagram, unfold: bool | None = None) -> set[str]:
    """The paths of the nodes to unfold: all, none, or (None) as many as stay readable.

    A path consists of the numbers of the nodes from the outermost inwards, as `/3/0`.
    """
    result: set[str] = set()
    if unfold is False:
        return result
    room = (MOST if unfold else READABLE) - len(found.bodies[0].nodes)
    waiting = [(0, "")]
    while waiting:
        number, path = waiting.pop(0)
        for index, node in enumerate(found.bodies[number].nodes):
            if node.body is None:
                continue
            size = len(found.bodies[node.body].nodes)
            if size <= room:
                room -= size
                result.add(f"{path}/{index}")
                waiting.append((node.body, f"{path}/{index}"))
    return result


LIMIT = 40
"""The most items of one level; more are grouped further."""


class Fold(NamedTuple):
    """Equations that are drawn as one box until it is unfolded."""

    label: str
    kind: str
    items: list[Any]
    backward: int

    def equations(self) -> Iterator[Equation]:
        """All equations inside, in their order."""
        for item in self.items:
            if isinstance(item, Fold):
                yield from item.equations()
            else:
                yield item


def folded(equations: Sequence[Equation]) -> list[Any]:
    """The equations of a Graph as a list of at most a few dozen Equations and Folds."""
    items = []
    for backward in sorted({equation.backward for equation in equations}):
        lane = [equation for equation in equations if equation.backward == backward]
        items += _by_scope(lane, 0, backward)
    return items


def _runs(items: Sequence[Any], key: Callable[[Any], Hashable]) -> list[tuple[Any, list[Any]]]:
    return [(found, list(run)) for found, run in groupby(items, key)]


def _by_scope(equations: list[Equation], depth: int, backward: int) -> list[Any]:
    def name(equation: Equation) -> str:
        parts = equation.scope.split("/") if equation.scope else []
        return parts[depth] if depth < len(parts) else ""

    items: list[Any] = []
    for scope, run in _runs(equations, name):
        if not scope:
            items += _by_function(run, backward)
        elif len(run) == 1:
            items += run
        else:
            items.append(Fold(scope, "scope", _by_scope(run, depth + 1, backward), backward))
    return _bundled(items, backward)


def _by_function(equations: list[Equation], backward: int) -> list[Any]:
    """Groups many equations by the user's function, then by pass through its lines."""
    if len(equations) <= LIMIT:
        return list(equations)
    runs = _runs(equations, lambda e: e.source and (e.source.file, e.source.function))
    if len(runs) == 1:
        return _by_pass(equations, backward)
    return [
        run[0]
        if len(run) == 1
        else Fold(key[1] if key else "?", "function", _by_function(run, backward), backward)
        for key, run in runs
    ]


def _by_pass(equations: list[Equation], backward: int) -> list[Any]:
    """Cuts where the program goes back to an earlier line: each pass of an unrolled loop."""
    passes: list[list[Equation]] = [[]]
    for equation in equations:
        if passes[-1]:
            step = _line(equation.source) - _line(passes[-1][-1].source)
            if step > 0 if backward % 2 else step < 0:
                passes.append([])
        passes[-1].append(equation)
    if len(passes) == 1 or len(passes) == len(equations):
        return _by_line(equations, backward)
    return [_fold_lines(run, backward) for run in passes]


def _by_line(equations: list[Equation], backward: int) -> list[Any]:
    runs = [run for _, run in _runs(equations, lambda e: e.source)]
    if len(runs) == 1:
        return _bundled(equations, backward)
    return [_fold_lines(run, backward) for run in runs]


def _fold_lines(run: list[Equation], backward: int) -> Any:
    if len(run) == 1:
        return run[0]
    return Fold(_lines(run), "lines", _bundled(run, backward), backward)


def _bundled(items: list[Any], backward: int) -> list[Any]:
    """The items in parts of equal length, nested until each level has few enough."""
    if len(items) <= LIMIT:
        return list(items)
    count = -(-len(items) // LIMIT)
    size = -(-len(items) // count)
    parts: list[Any] = []
    for start in range(0, len(items), size):
        part = items[start : start + size]
        inside = list(Fold("", "", part, backward).equations())
        span = f"{start + 1}–{start + len(part)} of {len(items)}: {_lines(inside)}"
        parts.append(Fold(span, "part", part, backward))
    return _bundled(parts, backward)


def _line(source: Source | None) -> int:
    return source.line if source else 0


def _lines(equations: Sequence[Equation]) -> str:
    numbers = sorted({_line(e.source) for e in equations if e.source})
    if not numbers:
        return "no line"
    if numbers[0] == numbers[-1]:
        return f"line {numbers[0]}"
    return f"lines {numbers[0]}–{numbers[-1]}"
