"""`evaluate`, the reference evaluator of Graphs, and the walk over equations that it is.

It calls each equation's primitive under the current trace: on plain arrays it computes, under a
transform it retraces the Graph. A value is dropped after its last use. Equations recorded meanwhile
keep the user's line and scope of the replayed equation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.errors import StructureMismatchError
from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.tracing.provenance import Provenance, replayed
from fungrad.tracing.trace import current

Apply = Callable[[Equation, list[Any]], Any]
"""Returns the result of an equation on values of its inputs, as its primitive does."""


def evaluate(graph: Graph, args: Sequence[Any]) -> list[Any]:
    """The values of the outputs of a Graph for the given values of its inputs."""
    if len(args) != len(graph.inputs):
        raise StructureMismatchError(
            f"The Graph takes {len(graph.inputs)} values, {len(args)} were given."
        )
    return evaluated_by(_replayed if current().records else _applied, graph, args)


def _applied(equation: Equation, inputs: list[Any]) -> Any:
    return equation.primitive(*inputs, **equation.params)


def _replayed(equation: Equation, inputs: list[Any]) -> Any:
    token = replayed.set(Provenance(equation.source, equation.scope, equation.backward))
    try:
        return equation.primitive(*inputs, **equation.params)
    finally:
        replayed.reset(token)


def evaluated_by(apply: Apply, graph: Graph, args: Sequence[Any]) -> list[Any]:
    """The values of the outputs of a Graph, whose equations are applied one by one."""
    values: dict[Atom, Any] = dict(graph.constants)
    values.update(zip(graph.inputs, args, strict=True))

    def read(atom: Atom) -> Any:
        return atom.value if isinstance(atom, Literal) else values[atom]

    for equation, dead in zip(graph.equations, graph.last_uses, strict=True):
        result = apply(equation, list(map(read, equation.inputs)))
        if equation.primitive.multiple:
            for variable, value in zip(equation.outputs, result, strict=True):
                values[variable] = value
        else:
            values[equation.outputs[0]] = result
        del result
        for variable in dead:
            del values[variable]
    return [read(atom) for atom in graph.outputs]
