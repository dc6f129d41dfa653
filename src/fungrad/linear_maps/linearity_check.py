"""Whether a Graph is linear in some of its inputs, equation by equation.

The check enters the bodies of calls, branches and loops, and their pullbacks: in the tangents that
a derivative carries beside the values, a loop is linear if its steps are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fungrad.control_flow.reverse_with_tape import parted
from fungrad.control_flow.scan import scan, scan_pullback
from fungrad.control_flow.switch import switch, switch_pullback
from fungrad.control_flow.unroll import RECORDS
from fungrad.control_flow.while_loop import while_loop, while_loop_pullback
from fungrad.ir.graph import Atom, Equation, Graph, Variable
from fungrad.retracing.graph_transforms import (
    drop_dead,
    fixed_point_over_carry,
    joint,
    memoised,
    reaches,
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
        found = pullback(values[count:])
        reached.extend(c is not None for c in found)
        return [c for c in found if c is not None]

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
            found = zip(equation.outputs, _equation(equation, given), strict=True)
            known.update({v: state for v, state in found if state})
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
    primitive: Any = RECORDS.get(equation.primitive, equation.primitive)
    if primitive in _PULLBACKS:
        return _pulled(equation, states)
    found = _inside_of(primitive, equation, states)
    if found is None or primitive is equation.primitive:
        return found
    return [*found, True]  # the tape


def _inside_of(
    primitive: Any, equation: Equation, states: Sequence[State]
) -> Sequence[State] | None:
    """The states of an equation's outputs, as if it had the given primitive."""
    params = equation.params
    if "graph" in params and len(params["graph"].inputs) == len(states):
        return looked_at(params["graph"], states)
    if primitive is switch:
        found = [looked_at(branch, states[1:]) for branch in params["branches"]]
        return [equation if states[0] else worst(column) for column in zip(*found, strict=True)]
    if primitive is while_loop:
        first, constants = params["counts"]
        body = params["body"]
        steps = _steps(body, states[first:], constants, len(body.outputs))
        if any(looked_at(params["cond"], [*states[:first], *steps[constants:]])):
            return [equation] * len(body.outputs)
        return looked_at(body, steps)
    if primitive is scan:
        return looked_at(params["body"], _steps(params["body"], states, *params["counts"]))
    return None


def _steps(body: Graph, states: Sequence[State], constants: int, carries: int) -> list[State]:
    """The states of the inputs of a loop's body in any step."""
    carry = range(constants, constants + carries)
    return _settled(states, carry, lambda given: looked_at(body, given))


def _settled(
    states: Sequence[State], carry: range, step: Callable[[list[State]], Sequence[State]]
) -> list[State]:
    """The fixed point of the states under `step`, which returns the next states of the carry."""
    result = list(states)
    while True:
        new = list(result)
        for position, state in zip(carry, step(result), strict=False):
            new[position] = worst((result[position], state))
        if new == result:
            return result
        result = new


_PULLBACKS = (switch_pullback, while_loop_pullback, scan_pullback)


def _pulled(equation: Equation, states: Sequence[State]) -> Sequence[State]:
    """The states of the outputs of the pullback of a branch or a loop; the tape is ignored."""
    params = equation.params
    wanted: Sequence[bool] = params["wanted"]
    args, _, cotangents = parted(states, wanted, params["taped"])
    if equation.primitive is switch_pullback:
        found = [_pulled_branch(b, args[1:], wanted[1:], cotangents) for b in params["branches"]]
        return [equation if args[0] else worst(column) for column in zip(*found, strict=True)]
    body = params["body"]
    if equation.primitive is scan_pullback:
        return _pulled_loop(body, args, wanted, cotangents, params["counts"])
    first, constants = params["counts"]
    counts = constants, len(body.outputs)
    steps = _steps(body, args[first:], *counts)
    if any(looked_at(params["cond"], [*args[:first], *steps[constants:]])):
        return [equation] * len(equation.outputs)
    rest = _pulled_loop(body, args[first:], wanted[first:], cotangents, counts)
    return [*(False for want in wanted[:first] if want), *rest]


def _pulled_branch(
    branch: Graph, states: Sequence[State], wanted: Sequence[bool], cotangents: Sequence[State]
) -> Sequence[State]:
    back, reached = _pullback(branch, wanted)
    by_input = dict(zip(reached, looked_at(back, [*states, *cotangents]), strict=True))
    return [by_input.get(i, False) for i, want in enumerate(wanted) if want]


def _pulled_loop(
    body: Graph, states: Sequence[State], wanted: Sequence[bool], cotangents: Sequence[State],
    counts: tuple[int, int],
) -> Sequence[State]:  # fmt: skip
    """The states of a loop's pullback: the fixed point of the forward steps, then of the backward
    steps.
    """
    constants, carries = counts
    forward = _steps(body, states, *counts)
    active = fixed_point_over_carry(body, wanted, range(constants, constants + carries), reaches)
    back, reached = _pullback(
        body, [a and t.inexact for a, t in zip(active, body.input_types, strict=True)]
    )
    moving = [i for i in range(carries) if body.output_types[i].inexact]
    """The carries that have cotangents, which come first among those of a step."""

    def step(given: Sequence[State]) -> list[State]:
        by_input = dict(zip(reached, looked_at(back, given), strict=True))
        return [by_input.get(constants + i, False) for i in moving]

    count = len(forward)
    found = _settled([*forward, *cotangents], range(count, count + len(moving)), step)
    by_input = dict(zip(reached, looked_at(back, found), strict=True))
    by_input |= {constants + i: found[count + k] for k, i in enumerate(moving)}
    return [by_input.get(i, False) for i, want in enumerate(wanted) if want]


def _pullback(graph: Graph, wanted: Sequence[bool]) -> tuple[Graph, tuple[int, ...]]:
    """The Graph (inputs, cotangents) -> cotangents of some inputs, and their positions."""

    def make() -> tuple[Graph, tuple[int, ...]]:
        whole, reached = joint(graph, wanted)
        return drop_dead(whole.replace(outputs=whole.outputs[len(graph.outputs) :])), reached

    found: tuple[Graph, tuple[int, ...]] = memoised(graph, ("pullback", tuple(wanted)), make)
    return found
