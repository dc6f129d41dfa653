"""Decides whether a Graph runs as a scalar program, and makes the program.

It does if the program costs less than the ufuncs of the program on arrays. Without scalar programs
Lorenz's equations take 13 times the time on NumPy, Newton's iterations 3.5 to 5 times, an ODE of
GradBench 2.3 to 2.9 times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler.numpy_backend.python_emitter import PythonEmitter
from fungrad.compiler.refusal import Refusal, Refused, attempted
from fungrad.compiler.scalar.element_rules import RULES
from fungrad.compiler.scalar.emitter import Costs
from fungrad.compiler.scalar.planning import Planner
from fungrad.compiler.scalar.scalarise import FORMS, Scalariser
from fungrad.compiler.scalar.structural import structural
from fungrad.ir.graph import Equation, Graph, Literal, Variable

ScalarProgram = Callable[..., Sequence[Any]]

COSTS = Costs()


def program(graph: Graph, instead: ScalarProgram) -> ScalarProgram | None:
    """The scalar program of an optimised Graph; None if it has none, or arrays are faster.

    Args:
      graph: the Graph.
      instead: runs in its place if the program gives up.
    """
    written = attempted(lambda: _written(graph, instead))
    return None if isinstance(written, Refusal) else written


def of_equation(equation: Equation, instead: ScalarProgram) -> ScalarProgram | None:
    """The scalar program of one equation, a function of its inputs; None if it has none."""
    outputs = tuple(Variable(v.type) for v in equation.outputs)
    arguments = tuple(Variable(a.type) for a in equation.inputs)
    given = tuple(
        a if isinstance(a, Literal) else v for a, v in zip(equation.inputs, arguments, strict=True)
    )
    alone = Equation(equation.primitive, given, outputs, equation.params, equation.source)
    return program(Graph(arguments, (), (alone,), outputs), instead)


def _written(graph: Graph, instead: ScalarProgram) -> ScalarProgram:
    emitter = PythonEmitter(COSTS)
    walk = Scalariser(Planner(emitter, FORMS, RULES, structural, COSTS))
    given = [emitter.argument(v.type) for v in graph.inputs]
    plan = walk.plans.plan(graph)
    types = [atom.type for atom in graph.outputs]
    if plan.cost + _transfers(types) > plan.arrays:
        raise Refused("ufuncs cost less")
    outputs = walk.graph(graph, given)
    results = [emitter.result(o, type_) for o, type_ in zip(outputs, types, strict=True)]
    begin = emitter.argument_conversions()
    if walk.cost + _transfers([*types, *(type_ for type_, _ in begin)]) > plan.arrays:
        raise Refused("ufuncs cost less")
    return emitter.function(graph.name, [line for _, line in begin], results, instead)


def _transfers(types: Sequence[Any]) -> float:
    """The cost of converting arrays of some Types to numbers, or back."""
    return COSTS.transfer * len(types) + COSTS.element * sum(int(t.size) for t in types)
