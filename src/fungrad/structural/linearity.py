"""Floor 5: whether a Graph is linear in some of its inputs, equation by equation.

Bodies of calls, branches and loops are looked into: with the tangents that a derivative carries
beside the values, a loop is linear where its steps are. Knows the structural primitives; traces no
user's function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.ir.graph import Equation, Graph, Variable
from fungrad.records import Record
from fungrad.structural.branch import switch
from fungrad.structural.loop import while_loop
from fungrad.structural.retrace import pruned, settled, strong
from fungrad.structural.scan import scan
from fungrad.tracing.evaluate import evaluate
from fungrad.tracing.stage import stage
from fungrad.transforms.reverse import linearized


class Looked(Record):
    """What was found: the first equation that is not linear (None: all are), and the outputs that
    depend on the inputs in question.
    """

    culprit: Equation | None
    moving: list[bool]


def pulled_back(graph: Graph) -> tuple[Graph, list[bool]]:
    """The Graph (inputs, cotangents) -> cotangents of the inputs, and which inputs have one."""
    count = len(graph.inputs)
    reached: list[bool] = []

    def joint(*values: Any) -> list[Any]:
        _, pullback = linearized(
            lambda *xs: evaluate(graph, xs),
            values[:count],
            lambda: f"the transpose of {graph.name}",
        )
        found = pullback(values[count:])
        reached.extend(c is not None for c in found)
        return [c for c in found if c is not None]

    types = [strong(t) for t in [*graph.input_types, *graph.output_types]]
    whole = stage(joint, types, [""] * len(types), lambda: "linear_transpose", graph.name)
    return pruned(whole), reached


def reads(graph: Graph, count: int) -> bool:
    """Whether the live part of a Graph reads any of its first `count` inputs."""
    first = {id(variable) for variable in graph.inputs[:count]}
    atoms = [atom for equation in graph.equations for atom in equation.inputs]
    return any(id(atom) in first for atom in [*atoms, *graph.outputs])


def looked_at(graph: Graph, moving: Sequence[bool]) -> Looked:
    """Whether each equation of a Graph is linear in what depends on some of its inputs."""
    live = {id(v) for v, moved in zip(graph.inputs, moving, strict=True) if moved}
    for equation in graph.equations:
        moved = [id(atom) in live for atom in equation.inputs]
        if not any(moved):
            continue
        found = _equation(equation, moved)
        if found.culprit is not None:
            return found
        live.update(id(v) for v, m in zip(equation.outputs, found.moving, strict=True) if m)
    return Looked(None, [id(atom) in live for atom in graph.outputs])


def _equation(equation: Equation, moved: Sequence[bool]) -> Looked:
    inside = _inside(equation, moved)
    if inside is not None:
        return inside
    read = {id(a): a for a, m in zip(equation.inputs, moved, strict=True) if m}
    inputs = tuple([a for a in read.values() if a.type.inexact])
    outputs = tuple([v for v in equation.outputs if v.type.inexact])
    if outputs and (len(inputs) < len(read) or not _is_linear(equation, inputs, outputs)):
        return Looked(equation, [])
    return Looked(None, [True] * len(equation.outputs))


def _is_linear(equation: Equation, inputs: tuple[Any, ...], outputs: tuple[Variable, ...]) -> bool:
    taken = {id(atom) for atom in inputs}
    others = {id(a): a for a in equation.inputs if isinstance(a, Variable) and id(a) not in taken}
    constants = tuple([(a, a.type.zeros()) for a in others.values()])
    transposed, _ = pulled_back(Graph(inputs, constants, (equation,), outputs))
    return not reads(transposed, len(inputs))


def _inside(equation: Equation, moved: Sequence[bool]) -> Looked | None:
    """What is found in the Graphs of a call, a branch or a loop; None where there are none."""
    params = equation.params
    if "graph" in params and len(params["graph"].inputs) == len(moved):
        return looked_at(params["graph"], moved)
    if equation.primitive is switch and not moved[0]:
        found = [looked_at(branch, moved[1:]) for branch in params["branches"]]
        culprits = [f.culprit for f in found if f.culprit is not None]
        if culprits:
            return Looked(culprits[0], [])
        return Looked(None, [any(flags) for flags in zip(*(f.moving for f in found), strict=True)])
    if equation.primitive is while_loop:
        first, constants = params["counts"]
        found_loop = _loop(params["body"], moved[first:], constants, len(equation.outputs))
        if found_loop.culprit is not None:
            return found_loop
        asked = looked_at(params["cond"], [*moved[:first], *found_loop.moving]).moving
        return Looked(equation, []) if any(asked) else found_loop
    if equation.primitive is scan:
        return _loop(params["body"], moved, *params["counts"])
    return None


def _loop(body: Graph, moved: Sequence[bool], constants: int, carries: int) -> Looked:
    """The steps of a loop: what moves in one moves in the next."""
    carry = range(constants, constants + carries)
    flags = settled(body, moved, carry, lambda graph, state: looked_at(graph, state).moving)
    return looked_at(body, flags)


LOOKED_INTO = (switch, while_loop, scan)
"""What is refused where it is not linear, without a try at some points: a loop might not end."""

__all__ = ["LOOKED_INTO", "Looked", "looked_at", "pulled_back", "reads"]
