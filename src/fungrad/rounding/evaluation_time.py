"""How long the evaluator takes for a Graph: an estimate, and runs that end at a limit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.control_flow.call import interpreted
from fungrad.ir.graph import Equation, Graph, inner_graphs
from fungrad.primitives.facts import work_of
from fungrad.retracing.graph_transforms import memoised
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.trace import EVAL, EvalTrace, enter, leave

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


class TooLong(Exception):
    """A run has exceeded its time."""


class Limit:
    """So many seconds of this thread's CPU time, which do not depend on other work of the machine.

    At least as much time has passed on the clock, which is read faster and asked first.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.thread_time() + seconds
        self._earliest = time.perf_counter() + seconds

    def check(self) -> None:
        """Raises TooLong where the time is over."""
        if time.perf_counter() > self._earliest:
            left = self._end - time.thread_time()
            if left < 0.0:
                raise TooLong
            self._earliest = time.perf_counter() + left


class TimedTrace(EvalTrace):
    """Evaluates primitives up to a limit of time; then it raises TooLong."""

    __slots__ = ("limit",)

    def __init__(self, limit: Limit) -> None:
        super().__init__(None, lambda: "an evaluation")
        self.limit = limit

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        self.limit.check()
        return primitive.eval(*args, **params)


def evaluated(graph: Graph, args: Sequence[Any], trace: EvalTrace | None = None) -> Sequence[Any]:
    """The outputs of a Graph, by the evaluator: equation by equation, also those of loops and
    branches. Floating-point warnings are off.

    Args:
      graph: the program.
      args: its arguments.
      trace: evaluates the primitives; NumPy if it is None.
    """
    with interpreted(), np.errstate(all="ignore"):
        token = enter(EVAL if trace is None else trace)
        try:
            return evaluate(graph, args)
        finally:
            leave(token)
