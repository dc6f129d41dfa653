"""The comparison of a program's outputs with those of the evaluator."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from fungrad.ir.graph import Graph
from fungrad.primitives.movement.stack_iota import basis
from fungrad.retracing.graph_transforms import memoised
from fungrad.rounding.agreement import Disagreement, disagreement
from fungrad.rounding.evaluation_time import Limit, TimedTrace, evaluated
from fungrad.support.lazy import Module
from fungrad.tracing.effects import Replaying

perturbed_evaluation: Any = Module("fungrad.rounding.perturbed_evaluation")

PATIENCE = 20.0
"""Perturbed runs may take so many times the limit of a check: they are rarely needed."""


def compared(
    graph: Graph, args: Sequence[Any], found: Sequence[Any], replaying: Replaying, seconds: float
) -> tuple[Sequence[Any], Disagreement | None]:
    """The evaluator's outputs, and how a program's outputs disagree with them, if they do.

    Args:
      graph: what the program computes, as traced.
      args: the arguments.
      found: the outputs of the program.
      replaying: makes the context of each further run.
      seconds: the limit of the evaluator's time.

    Raises:
      TooLong: if the evaluator takes longer.
    """
    with replaying():
        expected = evaluated(graph, args, TimedTrace(Limit(seconds)))

    @functools.cache
    def perturbed() -> Any:
        return perturbed_evaluation.PerturbedRuns(
            graph, args, True, PATIENCE * seconds, replaying, zeros=_regroups(graph)
        )

    wrong = disagreement(
        expected,
        found,
        lambda count: [expected, *perturbed().first(count)],
        lambda: perturbed_evaluation.accumulated_ulp(graph),
        signs=False,
        regrouped=graph.reassociates,
        sparse=lambda: _pushes_a_basis(graph),
    )
    return expected, wrong


def acts(graph: Graph) -> bool:
    """Whether a Graph has effects or calls opaque functions, which a further run would repeat."""

    def found() -> bool:
        return any(e.primitive.effect or "host" in e.params for e in graph.equations) or any(
            map(acts, graph.subgraphs())
        )

    result: bool = memoised(graph, "acts", found)
    return result


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
