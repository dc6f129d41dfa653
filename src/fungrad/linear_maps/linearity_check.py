"""Whether a Graph is linear in some of its inputs, equation by equation.

The check enters the bodies of calls, branches and loops, and their pullbacks: in the tangents that
a derivative carries beside the values, a loop is linear if its steps are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fungrad.control_flow.loop_bodies import body_counts
from fungrad.control_flow.reverse_with_tape import RECORDS
from fungrad.control_flow.scan import scan
from fungrad.control_flow.switch import switch
from fungrad.control_flow.while_loop import while_loop, while_loop_pullback
from fungrad.control_flow.without_tape import uses_tape, without_tape
from fungrad.ir.graph import Atom, Equation, Graph, Variable
from fungrad.retracing.graph_transforms import (
    drop_dead,
    strong_type,
)
from fungrad.tracing.graph_trace import stage
from fungrad.tracing.interpreter import evaluate
from fungrad.transforms.engine.reverse import linearized

State = bool | Equation
"""How a value depends on the inputs in question: False, not at all; True, linearly; or the equation
that is not linear."""


def pulled_back(graph: Graph) -> tuple[Graph, list[bool]]:
    """The Graph (inputs, cotangents) -> cotangents of inputs, and whether each input has one."""
    count = len(graph.inputs)
    reached: list[bool] = []

    def joint(*values: Any) -> list[Any]:
        _, pullback = linearized(
            lambda *xs: evaluate(graph, xs),
            values[:count],
            lambda: f"the transpose of {graph.name}",
        )
        cotangents = pullback(values[count:])
        reached.extend(c is not None for c in cotangents)
        return [c for c in cotangents if c is not None]

    types = [strong_type(t) for t in [*graph.input_types, *graph.output_types]]
    whole = stage(joint, types, [""] * len(types), lambda: "linear_transpose", graph.name)
    return drop_dead(whole), reached


def reads(graph: Graph, count: int) -> bool:
    """Whether the live part of a Graph reads any of its first `count` inputs."""
    first = set(graph.inputs[:count])
    atoms = [atom for equation in graph.equations for atom in equation.inputs]
    return any(atom in first for atom in [*atoms, *graph.outputs])


def looked_at(graph: Graph, states: Sequence[State]) -> list[State]:
    """The states of the outputs of a Graph, from those of its inputs."""
    known: dict[Atom, State] = {
        v: state for v, state in zip(graph.inputs, states, strict=True) if state
    }
    for equation in graph.equations:
        given = [known.get(atom, False) for atom in equation.inputs]
        if any(given):
            pairs = zip(equation.outputs, _equation(equation, given), strict=True)
            known.update({v: state for v, state in pairs if state})
    return [known.get(atom, False) for atom in graph.outputs]


def worst(states: Iterable[State]) -> State:
    """The state of a linear function of values, from their states."""
    result: State = False
    for state in states:
        if isinstance(state, Equation):
            return state
        result = result or state
    return result


def _equation(equation: Equation, states: Sequence[State]) -> Sequence[State]:
    inside = _inside(equation, states)
    if inside is not None:
        return inside
    count = len(equation.outputs)
    state = worst(states)
    if isinstance(state, Equation):
        return [state] * count
    read = dict.fromkeys([a for a, m in zip(equation.inputs, states, strict=True) if m])
    inputs = tuple([a for a in read if a.type.inexact])
    outputs = tuple([v for v in equation.outputs if v.type.inexact])
    if outputs and (len(inputs) < len(read) or not _is_linear(equation, inputs, outputs)):
        return [equation] * count
    return [True] * count


def _is_linear(equation: Equation, inputs: tuple[Any, ...], outputs: tuple[Variable, ...]) -> bool:
    taken = set(inputs)
    others = [a for a in equation.inputs if isinstance(a, Variable) and a not in taken]
    constants = tuple([(a, a.type.zeros()) for a in dict.fromkeys(others)])
    transposed, _ = pulled_back(Graph(inputs, constants, (equation,), outputs))
    return not reads(transposed, len(inputs))


def _inside(equation: Equation, states: Sequence[State]) -> Sequence[State] | None:
    """The states of the outputs of a call, a branch or a loop; None for other equations."""
    primitive: Any = equation.primitive
    params = equation.params
    if primitive in (while_loop, while_loop_pullback) and _decides(equation, states):
        return [equation] * len(equation.outputs)
    if uses_tape(primitive):
        types = [atom.type for atom in equation.inputs]
        pairs = looked_at(without_tape(primitive, types, params, steps=1), states)
        return [*pairs, True] if primitive in RECORDS else pairs  # the tape
    if "graph" in params and len(params["graph"].inputs) == len(states):
        return looked_at(params["graph"], states)
    if primitive is switch:
        branches = [looked_at(branch, states[1:]) for branch in params["branches"]]
        return [equation if states[0] else worst(column) for column in zip(*branches, strict=True)]
    if primitive is while_loop:
        first, counts = body_counts(params)
        return looked_at(params["body"], _steps(params["body"], states[first:], *counts))
    if primitive is scan:
        return looked_at(params["body"], _steps(params["body"], states, *params["counts"]))
    return None


def _decides(equation: Equation, states: Sequence[State]) -> bool:
    """Whether the number of steps of a loop depends on the inputs in question."""
    params = equation.params
    first, counts = body_counts(params)
    steps = _steps(params["body"], states[first : first + sum(counts)], *counts)
    return any(looked_at(params["cond"], [*states[:first], *steps[counts[0] :]]))


def _steps(body: Graph, states: Sequence[State], constants: int, carries: int) -> list[State]:
    """The states of the inputs of a loop's body in any step: a fixed point."""
    result = list(states)
    while True:
        new = list(result)
        for i, state in zip(
            range(constants, constants + carries), looked_at(body, result), strict=False
        ):
            new[i] = worst((result[i], state))
        if new == result:
            return result
        result = new
