"""Loops of a function that is differentiated while it is recorded: they become scans before the
backward walk, which then makes the equations of one step instead of those of all.

The function's part of the recording becomes a Graph, and is rolled (`reroll`). Its derivative has
to be that of the recorded operations, in which a value that the result does not depend on has no
cotangent. In a scan such a cotangent is zero, and zero times infinity is NaN. So nothing is rolled
unless all differentiated values reach the only result, and no rule masks cotangents.
The rolled Graph is evaluated beside the recorded one for the arguments of the call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.passes.pipeline import reroll_loops
from fungrad.compiler.self_check import report
from fungrad.control_flow.call import interpreted
from fungrad.errors import MiscompiledError
from fungrad.ir.graph import Equation, Graph, Variable, effectful
from fungrad.primitives.facts import may_mask
from fungrad.primitives.movement.scatter import index_set
from fungrad.retracing.graph_transforms import drop_dead
from fungrad.rounding.agreement import disagreement
from fungrad.rounding.evaluation_time import evaluation_seconds
from fungrad.tracing.graph_trace import GraphTrace
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.source_location import strict
from fungrad.tracing.trace import EVAL, Tracer, enter, leave
from fungrad.transforms.engine.reverse import VjpTrace

Values = Callable[[Sequence[Variable]], Sequence[Any]]


def rolled(
    recorder: GraphTrace, trace: VjpTrace, starts: Sequence[Any], first: int,
    results: Sequence[Any], values: Values,
) -> tuple[VjpTrace, Sequence[Any]]:  # fmt: skip
    """The trace of the rolled function, with its results; the given ones if nothing is rolled.

    Args:
      recorder: records the Graph.
      trace: differentiates the function.
      starts: the arguments of the function, values of the recorder.
      first: the number of equations that were recorded before.
      results: the results of the function.
      values: the numbers of variables, in the present call.
    """
    variables = [_variable(recorder, value) for value in starts]
    ends = {n: v for n, v in enumerate(results) if type(v) is Tracer and v.owner is trace}
    ends_of = [_variable(recorder, v.inner) for v in ends.values()]
    if None in variables or len({*variables}) < len(variables) or len(ends) != 1 or None in ends_of:
        return trace, results
    ((place, end),) = ends.items()
    equations = recorder.equations[first:]
    graph = _function(equations, variables, trace, ends_of[0], end.extra)  # type: ignore[arg-type]
    if graph is None:
        return trace, results
    started = time.thread_time()
    short = reroll_loops(graph)
    took = time.thread_time() - started
    if short is graph or _writes(short) or evaluation_seconds(graph) > took:
        return trace, results
    if not _agree(graph, short, values):
        return trace, results
    again = VjpTrace(recorder, trace.label)
    given = {v: again.tracer(Tracer(recorder, None, v)) for v in variables}
    arguments = [given[v] if v in given else Tracer(recorder, None, v) for v in short.inputs]
    (result,) = again.run(evaluate, short, arguments)
    again.ended = True
    return again, [result if n == place else value for n, value in enumerate(results)]


def _variable(recorder: GraphTrace, value: Any) -> Variable | None:
    return value.extra if type(value) is Tracer and value.owner is recorder else None


def _function(
    equations: Sequence[Equation], inputs: Sequence[Variable], trace: VjpTrace, output: Variable,
    slot: int,
) -> Graph | None:  # fmt: skip
    """The Graph of the equations that a function has recorded. Its inputs are all values that they
    read. None if the derivative of a rolled Graph might differ from that of the records.
    """
    slots = {v: n for n, v in enumerate(inputs, 1)}
    active: list[tuple[Equation, list[int]]] = []
    written: set[Any] = set()
    records = trace.tape.records()
    for equation in equations:
        primitive: Any = equation.primitive
        if effectful(equation) or primitive.forward is not None:
            return None
        read = [slots.get(atom, 0) for atom in equation.inputs]  # type: ignore[arg-type]
        if primitive.cuts:
            cuts = primitive.cuts
            read = [0 if cuts is True or i in cuts else slot for i, slot in enumerate(read)]
        if not any(read):
            continue
        record = next(records, None)
        if record is None or record[:3] != (primitive, equation.params, tuple(read)):
            return None
        if record[1] is not equation.params:
            return None
        if _writes_into_plain(equation, read[0], written):
            written.add(equation.outputs[0])
        elif may_mask(equation):
            return None
        made = record[5]
        slots.update(zip(equation.outputs, [made] if type(made) is int else made, strict=True))
        active.append((equation, read))
    if next(records, None) is not None or slots.get(output) != slot:
        return None
    made = {v for e in equations for v in e.outputs}
    outside = dict.fromkeys(
        a for e in equations for a in e.inputs if type(a) is Variable and a not in made
    )
    graph = drop_dead(Graph(tuple(outside), (), tuple(equations), (output,)))
    return graph if _all_reach(graph, active, slots, output) else None


def _writes_into_plain(equation: Equation, slot: int, written: set[Any]) -> bool:
    """Whether an equation writes at a known place of an array that is not differentiated, but for
    what was written into it. Such writes mask cotangents of values that nothing else reads.
    """
    plain = not slot or equation.inputs[0] in written
    return equation.primitive is index_set and len(equation.inputs) == 2 and plain


def _writes(graph: Graph) -> bool:
    own = any(equation.primitive is index_set for equation in graph.equations)
    return own or any(map(_writes, graph.subgraphs()))


def _all_reach(
    graph: Graph, active: Sequence[tuple[Equation, list[int]]], slots: dict[Variable, int],
    output: Variable,
) -> bool:  # fmt: skip
    """Whether the output depends, differentiably, on all differentiated values of a Graph."""
    kept, reached = {*graph.equations}, {slots[output]}
    for equation, read in reversed(active):
        if equation in kept:
            if not reached.issuperset(filter(None, [slots[v] for v in equation.outputs])):
                return False
            reached.update(read)
    return True


def _agree(graph: Graph, short: Graph, values: Values) -> bool:
    """Whether the rolled Graph has the values of the recorded one; a defect is reported."""
    given = values(graph.inputs)
    token = enter(EVAL)
    try:
        with interpreted(), np.errstate(all="ignore"):
            expected, found = evaluate(graph, given), evaluate(short, given)
    finally:
        leave(token)
    wrong = disagreement(expected, found, None, signs=False)
    if wrong is None:
        return True
    if strict():
        raise MiscompiledError(report.message(graph, wrong))
    report.miscompiled(graph, given, wrong)
    return False
