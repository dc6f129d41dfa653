"""Cuts of an input inside of the Graph of an equation that is not unfolded.

Follows one argument of a call, branch or loop through its Graphs, by types alone, and lists the
equations without derivative that it meets. Knows how structural equations hand on their arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fungrad.ir.graph import Equation, Graph, Variable, inner_graphs


def inner_cuts(equation: Equation, position: int) -> list[Equation]:
    """The equations inside of a structural equation that cut off its argument at a position."""
    found: dict[int, Equation] = {}
    for graph, start, carried in _graphs(equation, position):
        flags = [i == start for i in range(len(graph.inputs))]
        while True:
            cuts, live = _followed(graph, flags)
            found.update((id(cut), cut) for cut in cuts)
            now = [f or (i in carried and live[carried[i]]) for i, f in enumerate(flags)]
            if now == flags:
                break
            flags = now
    return list(found.values())


def _graphs(equation: Equation, position: int) -> Iterator[tuple[Graph, int, dict[int, int]]]:
    """Each Graph that the argument goes into: as which input, and which inputs carry an output."""
    params: dict[str, Any] = equation.params
    if "branches" in params:
        yield from ((branch, position - 1, {}) for branch in params["branches"] if position)
    elif "cond" in params:
        body, (first, consts) = params["body"], params["counts"]
        if position >= first:
            yield body, position - first, {consts + i: i for i in range(len(body.outputs))}
    elif "counts" in params:
        consts, n = params["counts"]
        yield params["body"], position, {consts + i: i for i in range(n)}
    else:
        yield from ((g, position, {}) for g in inner_graphs(equation) if position < len(g.inputs))


def _followed(graph: Graph, flags: list[bool]) -> tuple[list[Equation], list[bool]]:
    """The cuts that are met from some inputs, and which outputs depend on them differentiably."""
    live = {id(v) for v, f in zip(graph.inputs, flags, strict=True) if f and v.type.inexact}
    cuts: list[Equation] = []
    for equation in graph.equations:
        at = [i for i, a in enumerate(equation.inputs) if isinstance(a, Variable) and id(a) in live]
        if not at:
            continue
        if any(True for _ in inner_graphs(equation)):
            for i in at:
                cuts += inner_cuts(equation, i)
        lost = equation.primitive.cuts
        through = [i for i in at if lost is not True and i not in (lost or ())]
        if len(through) < len(at):
            cuts.append(equation)
        if through:
            live.update(id(v) for v in equation.outputs if v.type.inexact)
    return cuts, [id(atom) in live for atom in graph.outputs]
