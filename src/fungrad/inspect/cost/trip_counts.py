"""The Graphs inside of a structural equation, and how often each is run.

Knows calls, branches and loops, and what their reverse mode runs in their place. A `while` is run
as often as its values say, which no Graph tells: its bodies are counted for one trip.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fungrad.control_flow.scan_reverse import plan
from fungrad.control_flow.while_loop import halves_of
from fungrad.ir.graph import Equation, Graph, inner_graphs
from fungrad.retracing.graph_transforms import differentiate


class Body(NamedTuple):
    """A Graph of an equation: run `times` times, `carried` bytes of its outputs held meanwhile."""

    graph: Graph
    times: int
    carried: int = 0


class Bodies(NamedTuple):
    """The Graphs of an equation.

    `choice` says that one of them is run, `by_trip` that the number of runs is not known, and is
    taken as one; `held` are bytes that the equation keeps for its backward pass, for each trip.
    """

    bodies: list[Body]
    choice: bool = False
    by_trip: bool = False
    held: int = 0


def nbytes(types: Any) -> int:
    """The bytes of values of these types."""
    return sum(t.size * t.dtype.itemsize for t in types)


def bodies_of(equation: Equation) -> Bodies | None:
    """The Graphs that an equation runs; None for one that has none."""
    primitive: Any = equation.primitive
    graphs = list(inner_graphs(equation))
    if not graphs:
        return None
    kind = primitive.name.removesuffix("_record").removesuffix("_pullback")
    reverse = kind != primitive.name
    if primitive.module.startswith(("fungrad.control_flow.", "fungrad.implicit.")):
        if kind == "switch":
            return _switch(equation, reverse)
        if kind == "scan":
            return _scan(equation)
        if kind == "while_loop":
            return _while(equation, reverse)
        if kind == "fixed_point":
            return Bodies([Body(graphs[0], 1, nbytes(graphs[0].output_types))], by_trip=True)
    return Bodies([Body(graph, 1) for graph in graphs])


def _is_pullback(equation: Equation) -> bool:
    return equation.primitive.name.endswith("_pullback")


def _scan(equation: Equation) -> Bodies:
    """The steps; of a checkpointed pullback each step forward and backward once, at least."""
    params = equation.params
    body, length, counts = params["body"], params["length"], params["counts"]
    carried = nbytes(body.output_types[: counts[1]])
    if not _is_pullback(equation):
        return Bodies([Body(body, length, carried)])
    halves = plan(body, counts, params["wanted"]).halves
    return Bodies([Body(halves.forward, length, carried), Body(halves.backward, length, carried)])


def _while(equation: Equation, reverse: bool) -> Bodies:
    params = equation.params
    cond, body = Body(params["cond"], 1), params["body"]
    carried = nbytes(body.output_types)
    if not reverse:
        return Bodies([cond, Body(body, 1, carried)], by_trip=True)
    halves = halves_of(params["wanted"], body, params["counts"])
    forward, backward = Body(halves.forward, 1, carried), Body(halves.backward, 1, carried)
    if not _is_pullback(equation):
        held = nbytes(halves.forward.output_types[len(body.outputs) :])
        return Bodies([cond, forward], by_trip=True, held=held)
    if params["trailed"]:
        return Bodies([backward], by_trip=True)
    return Bodies([cond, forward, backward], by_trip=True)


def _switch(equation: Equation, reverse: bool) -> Bodies:
    params = equation.params
    branches = params["branches"]
    if not reverse:
        return Bodies([Body(branch, 1) for branch in branches], choice=True)
    halves = [differentiate(branch, params["wanted"][1:]) for branch in branches]
    if _is_pullback(equation):
        return Bodies([Body(half.backward, 1) for half in halves], choice=True)
    held = [
        nbytes(half.forward.output_types[len(branch.outputs) :])
        for half, branch in zip(halves, branches, strict=True)
    ]
    return Bodies([Body(half.forward, 1) for half in halves], choice=True, held=max(held))


__all__ = ["Bodies", "Body", "bodies_of", "nbytes"]
