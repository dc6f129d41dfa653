"""`evaluate`, the reference evaluator of Graphs.

It calls each equation's primitive under the current trace: on plain arrays it computes, under a
transform it retraces the Graph. A value is dropped after its last use. Equations recorded meanwhile
keep the user's line and scope of the replayed equation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.errors import StructureMismatchError
from fungrad.ir.graph import Atom, Graph, Literal
from fungrad.tracing.provenance import Provenance, replayed
from fungrad.tracing.trace import current


def evaluate(graph: Graph, args: Sequence[Any]) -> list[Any]:
    """The values of the outputs of a Graph for the given values of its inputs."""
    if len(args) != len(graph.inputs):
        raise StructureMismatchError(
            f"The Graph takes {len(graph.inputs)} values, {len(args)} were given."
        )
    values: dict[Atom, Any] = dict(graph.constants)
    values.update(zip(graph.inputs, args, strict=True))

    def read(atom: Atom) -> Any:
        return atom.value if isinstance(atom, Literal) else values[atom]

    recording = current().records
    for equation, dead in zip(graph.equations, graph.last_uses, strict=True):
        token = None
        if recording:
            origin = Provenance(equation.source, equation.scope, equation.backward)
            token = replayed.set(origin)
        try:
            result = equation.primitive(*map(read, equation.inputs), **equation.params)
        finally:
            if token is not None:
                replayed.reset(token)
        if equation.primitive.multiple:
            for variable, value in zip(equation.outputs, result, strict=True):
                values[variable] = value
        else:
            values[equation.outputs[0]] = result
        del result
        for variable in dead:
            del values[variable]
    return [read(atom) for atom in graph.outputs]
