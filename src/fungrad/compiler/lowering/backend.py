"""Runs a Graph as straight-line Python: one line an equation, or a region of them.

The reference evaluator walks the same equations; this saves its walking. Knows which programs there
are: on numbers, on arrays, of loops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler.lowering.program_text import written_out
from fungrad.compiler.lowering.scalar.scalar_program import of_equation, program
from fungrad.compiler.lowering.statement_codegen import Lines, loops
from fungrad.compiler.passes.pipeline import optimised
from fungrad.control_flow.call import Backend, Runner, compiled
from fungrad.ir.graph import Equation, Graph, Variable
from fungrad.ir.types import Type
from fungrad.primitives.primitive import Primitive


class StraightLine(Backend):
    """Compiles a Graph, optimised, to a Python function of its inputs."""

    def compile(self, graph: Graph) -> Runner:
        """The function; it returns the outputs as a list."""
        graph = optimised(graph)
        return program(graph, _Later(graph)) or build(graph)

    def loop(
        self, primitive: Primitive, types: Sequence[Type], params: dict[str, Any], steps: Runner
    ) -> Runner | None:
        """The loop as Python's own: on numbers, or over arrays."""
        arguments = tuple([Variable(type_) for type_ in types])
        outputs = tuple([Variable(type_) for type_ in primitive.infer(types, params)])
        equation = Equation(primitive, arguments, outputs, params)
        found, make = of_equation(equation, steps), loops.of(primitive)
        return found if found is not None or make is None else make(equation, (), False)


class _Later:
    """The program on arrays, made when it is first called."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __call__(self, *args: Any) -> Sequence[Any]:
        return self._run(*args)

    @functools.cached_property
    def _run(self) -> Runner:
        return build(self._graph)


def source(graph: Graph) -> str:
    """The text of the program that runs a Graph, and of what it calls: regions, loops, branches."""
    return written_out(compiled(graph))


def build(graph: Graph, given: Sequence[Variable] = ()) -> Callable[..., Sequence[Any]]:
    """A Python function that runs the equations of a Graph one after the other.

    Args:
      graph: the Graph.
      given: inputs that it may write over.
    """
    lines = Lines(graph, given)
    return lines.function(_written(lines))


def _written(lines: Lines) -> list[str]:
    graph = lines.graph
    return [
        f"def run({', '.join(lines.name(v) for v in graph.inputs)}):",
        *(f"    {line}" for line in lines.body()),
        f"    return [{', '.join(lines.read(a) for a in graph.outputs)}]",
    ]
