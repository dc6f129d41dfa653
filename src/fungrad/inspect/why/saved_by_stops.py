"""The savings of stops: the equations, and the bytes of their results, that reverse mode leaves
out.

Counts the equations of a staged Graph on the way from a differentiated input to an output, with
and without the stops of a name. Knows the shapes of structural equations' Graphs; runs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fungrad.inspect.why.ablate_stops import Names, stops_in, without_stops
from fungrad.ir.graph import Equation, Graph, Source, Variable, inner_graphs


class Stop(NamedTuple):
    """One stop of a function, and what it saves."""

    name: str | None
    source: Source | None
    equations: int
    nbytes: int


class _Way(NamedTuple):
    """Which outputs of a Graph are differentiated, and what lies on the way to them."""

    outputs: list[bool]
    equations: int
    nbytes: int


def stops_of(graph: Graph, active: Sequence[bool]) -> list[Stop]:
    """Each name of a stop in a Graph, with the equations and bytes that it alone saves.

    `active` says which inputs are differentiated. Unnamed stops are counted as one, and left out
    where they save nothing (vmap puts some in itself).
    """
    sources: dict[str | None, Source | None] = {}
    for equation in stops_in(graph):
        sources.setdefault(equation.params["name"], equation.source)
    before = _way(graph, active)
    result = []
    for name, source in sources.items():
        names: Names = frozenset([name])  # type: ignore[list-item]
        after = _way(without_stops(graph, names), active)
        saved = (after.equations - before.equations, after.nbytes - before.nbytes)
        if name is not None or saved[0]:
            result.append(Stop(name, source, *saved))
    return result


def _way(graph: Graph, active: Sequence[bool]) -> _Way:
    live = {id(v) for v, a in zip(graph.inputs, active, strict=True) if a and v.type.inexact}
    inner: dict[int, tuple[int, int]] = {}
    for equation in graph.equations:
        flags = [isinstance(a, Variable) and id(a) in live for a in equation.inputs]
        outputs, count, nbytes = _outputs(equation, flags)
        inner[id(equation)] = (count, nbytes)
        live.update(
            id(v) for v, o in zip(equation.outputs, outputs, strict=True) if o and v.type.inexact
        )
    outputs = [id(atom) in live for atom in graph.outputs]
    needed = {id(atom) for atom in graph.outputs if id(atom) in live}
    total = size = 0
    for equation in reversed(graph.equations):
        if needed.isdisjoint(id(v) for v in equation.outputs):
            continue
        needed.update(id(a) for a in equation.inputs if id(a) in live)
        count, nbytes = inner[id(equation)]
        total += count
        size += nbytes
    return _Way(outputs, total, size)


def _outputs(equation: Equation, flags: list[bool]) -> _Way:
    """Which outputs of an equation are differentiated, and what it counts for."""
    params: dict[str, Any] = equation.params
    graphs = list(inner_graphs(equation))
    if not any(flags):
        return _Way([False] * len(equation.outputs), 0, 0)
    counts = params.get("counts")
    if counts is not None and "body" in params:
        body = params["body"]
        if "cond" in params:
            flags = flags[counts[0] :]
            start, carry = counts[1], len(body.outputs)
        else:
            start, carry = counts
        while True:
            way = _way(body, flags)
            now = list(flags)
            for i in range(carry):
                now[start + i] = now[start + i] or way.outputs[i]
            if now == flags:
                break
            flags = now
        outputs = [o or f for o, f in zip(way.outputs[:carry], flags[start:], strict=False)]
        length = int(params.get("length", 1))
        return _Way([*outputs, *way.outputs[carry:]], way.equations, way.nbytes * length)
    if "branches" in params:
        ways = [_way(branch, flags[1:]) for branch in graphs]
        outputs = [any(flags) for flags in zip(*[w.outputs for w in ways], strict=True)]
        return _Way(outputs, max(w.equations for w in ways), max(w.nbytes for w in ways))
    if len(graphs) == 1 and len(graphs[0].inputs) == len(flags) and "graph" in params:
        return _way(graphs[0], flags)
    cuts = equation.primitive.cuts
    if cuts is True or not any(f and i not in (cuts or ()) for i, f in enumerate(flags)):
        return _Way([False] * len(equation.outputs), 0, 0)
    nbytes = sum(v.type.size * v.type.dtype.itemsize for v in equation.outputs)
    return _Way([True] * len(equation.outputs), 1, nbytes)
