"""Which equations of a Graph are drawn together: by scope, function, line, and number.

A group is a run of neighbours, so that no two groups need each other. Forward and backward
equations never share one. Knows the IR's equations; knows nothing of drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from fungrad.ir.graph import Equation, Source

LIMIT = 40
"""How many things one level shows; where there are more, they are grouped further."""


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
    """The equations of a Graph as a list of Equations and Folds, of at most a few dozen things."""
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
    """Groups by the user's function, then by pass through its lines; none where there are few."""
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
    """Neighbours put together, evenly, until there are few enough."""
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
