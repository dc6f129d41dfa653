"""An estimate of how long the evaluator takes for a Graph."""

from __future__ import annotations

from typing import Any

from fungrad.ir.graph import Equation, Graph, inner_graphs
from fungrad.primitives.facts import work_of
from fungrad.retracing.graph_transforms import memoised

EQUATION = 2e-6
"""Seconds for an equation on few numbers."""
OPERATION, FUNCTION, BYTE = 0.5e-9, 8e-9, 0.15e-9
"""Seconds for an addition, an elementary function, and a byte read or written."""
UNKNOWN = 20e-9
"""Seconds for an element of an equation that does not state its cost."""
IMPORT = 1e3
"""Seconds for an equation that would have to import SciPy first: such a Graph is not evaluated."""
TRIPS = 100
"""The assumed number of steps of a loop of unknown length."""


def evaluation_seconds(graph: Graph) -> float:
    """The estimated time of the evaluator for a Graph, loops included."""
    seconds: float = memoised(
        graph, "evaluation seconds", lambda: sum(map(_seconds, graph.equations))
    )
    return seconds


def trips(equation: Equation) -> int:
    """How often an equation runs the Graphs in its parameters."""
    if "length" in equation.params:
        return int(equation.params["length"])
    return TRIPS if "cond" in equation.params or "tol" in equation.params else 1


def _seconds(equation: Equation) -> float:
    inner = sum(map(evaluation_seconds, inner_graphs(equation)))
    if inner:
        return EQUATION + trips(equation) * (EQUATION + inner)
    read = sum(atom.type.nbytes for atom in (*equation.inputs, *equation.outputs))
    primitive: Any = equation.primitive
    if not primitive.ready:
        return IMPORT
    work = work_of(equation)
    if work is None:
        return EQUATION + UNKNOWN * read / 8
    moved = 0 if equation.primitive.view else read
    return EQUATION + OPERATION * work.flops + FUNCTION * work.transcendentals + BYTE * moved
