"""The comparison of a program's outputs with those of the evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.ir.graph import Graph
from fungrad.primitives.movement.stack_iota import basis
from fungrad.retracing.graph_transforms import memoised
from fungrad.rounding.agreement import Disagreement, disagreement
from fungrad.rounding.perturbed_evaluation import (
    Limit,
    PerturbedRuns,
    TimedTrace,
    accumulated_ulp,
    evaluated,
)
from fungrad.tracing.effects import EffectLog

PATIENCE = 20.0
"""Perturbed runs may take so many times the limit of a check: they are rarely needed."""


def compared(
    graph: Graph, args: Sequence[Any], found: Sequence[Any], log: EffectLog, seconds: float
) -> tuple[Sequence[Any], Disagreement | None]:
    """The evaluator's outputs, and how a program's outputs disagree with them, if they do.

    Args:
      graph: what the program computes, as traced.
      args: the arguments.
      found: the outputs of the program.
      log: the effects of its run, which are replayed.
      seconds: the limit of the evaluator's time.

    Raises:
      TooLong: if the evaluator takes longer.
    """
    trace = TimedTrace(Limit(seconds))
    with log.replaying():
        expected = evaluated(graph, args, trace)
    seconds *= PATIENCE
    runs = PerturbedRuns(graph, args, True, seconds, log.replaying, zeros=_regroups(graph))
    wrong = disagreement(
        expected,
        found,
        lambda count: [expected, *runs.first(count)],
        accumulated_ulp(graph),
        signs=False,
        regrouped=graph.reassociates,
        sparse=_pushes_a_basis(graph),
    )
    return expected, wrong


def _regroups(graph: Graph) -> bool:
    """Whether a program of a Graph may add in another order, so that sums of zeros get other signs:
    one that was asked to, and derivatives, whose cotangents are added up in place.
    """

    def derived(graph: Graph) -> bool:
        inside = any(map(derived, graph.subgraphs()))
        return inside or any(equation.backward for equation in graph.equations)

    def found() -> bool:
        return derived(graph) or _pushes_a_basis(graph)

    result: bool = graph.reassociates or memoised(graph, "regroups", found)
    return result


def _pushes_a_basis(graph: Graph) -> bool:
    """Whether a Jacobian may be computed, in the Graph or in one inside."""

    def found() -> bool:
        return any(equation.primitive is basis for equation in graph.equations) or any(
            map(_pushes_a_basis, graph.subgraphs())
        )

    result: bool = memoised(graph, "pushes a basis", found)
    return result
