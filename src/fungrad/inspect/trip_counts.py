"""The Graphs inside of an equation, and how often each of them runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from fungrad.compiler.scalar.structural import structural
from fungrad.control_flow.call import call
from fungrad.control_flow.loop_bodies import halves_of
from fungrad.control_flow.reverse_with_tape import RECORDS
from fungrad.control_flow.scan import scan, scan_pullback, scan_record
from fungrad.implicit import iteration
from fungrad.ir.graph import Equation, Graph, inner_graphs
from fungrad.ir.types import size_in_bytes


class RepeatedGraph(NamedTuple):
    """A Graph inside an equation that runs `times` times and holds `carried` bytes meanwhile."""

    graph: Graph
    times: int
    carried: int = 0


class Bodies(NamedTuple):
    """The Graphs of an equation.

    With `choice` only one of them runs. With `by_trip` the number of trips is unknown and taken
    as one. `held` counts the bytes of residuals (of one trip).
    """

    bodies: list[RepeatedGraph]
    choice: bool = False
    by_trip: bool = False
    held: int = 0


def bodies_of(equation: Equation) -> Bodies | None:
    """The Graphs that an equation runs; None for one that has none."""
    primitive: Any = equation.primitive
    graphs = list(inner_graphs(equation))
    if not graphs:
        return None
    if primitive in (scan, scan_record, scan_pullback):
        return _scan(equation)
    rule = None if primitive is call else structural(primitive)
    if rule is not None:
        return _by_rule(equation, rule)
    if primitive is iteration:
        return Bodies(
            [RepeatedGraph(graphs[0], 1, size_in_bytes(graphs[0].output_types))], by_trip=True
        )
    return Bodies([RepeatedGraph(graph, 1) for graph in graphs])


def _scan(equation: Equation) -> Bodies:
    """The body of the scan; for a pullback its forward and backward halves."""
    params = equation.params
    body, length, counts = params["body"], params["length"], params["counts"]
    carried = size_in_bytes(body.output_types[: counts[1]])
    if equation.primitive is not scan_pullback:
        return Bodies([RepeatedGraph(body, length, carried)])
    halves = halves_of(body, counts, params["wanted"]).of
    return Bodies(
        [
            RepeatedGraph(halves.forward, length, carried),
            RepeatedGraph(halves.backward, length, carried),
        ]
    )


def _by_rule(equation: Equation, rule: Any) -> Bodies:
    """The Graphs that the rule of a branch, or of a loop of unknown length, writes."""
    graphs = [graph for graph, _ in rule.bodies(equation)]
    cond, body = equation.params.get("cond"), equation.params.get("body")
    carried = 0 if body is None else size_in_bytes(body.output_types)
    bodies = [RepeatedGraph(graph, 1, 0 if graph is cond else carried) for graph in graphs]
    held = 0
    if equation.primitive in RECORDS:
        count = len(equation.outputs) - 1
        held = max([size_in_bytes(graph.output_types[count:]) for graph in graphs])
    return Bodies(bodies, choice=not rule.loop, by_trip=rule.loop, held=held)
