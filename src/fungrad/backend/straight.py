"""Floor 6: runs a Graph as straight-line Python: one line an equation or a region
ones.

Dead values are dropped at their last use.

Knows the IR and that a primitive has an `eval`; knows no primitive by name. The reference evaluator
walks the same equations; this saves its walking.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.backend.blocked import build as build_region
from fungrad.backend.programs import of_equation, program
from fungrad.backend.regions import Region, scheduled
from fungrad.backend.scalars import structural
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable, last_uses
from fungrad.optimise.passes import optimised
from fungrad.structural.call import Backend, Runner


class StraightLine(Backend):
    """Compiles a Graph, optimised, to a Python function of its inputs."""

    def compile(self, graph: Graph) -> Runner:
        """The function; it returns the outputs as a list."""
        graph = optimised(graph)
        return program(graph, _Later(graph)) or build(graph)


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
    """The text of the program that runs a Graph."""
    return _written(graph)[0]


def build(graph: Graph) -> Callable[..., Sequence[Any]]:
    """A Python function that runs the equations of a Graph one after the other."""
    text, namespace = _written(graph)
    exec(compile(text, f"<graph {graph.name}>", "exec"), namespace)
    runner: Callable[..., Sequence[Any]] = namespace["run"]
    return runner


def _written(graph: Graph) -> tuple[str, dict[str, Any]]:
    """The text of the program and the names that it reads."""
    namespace: dict[str, Any] = {}
    names: dict[int, str] = {}
    functions: dict[int, str] = {}

    def name(variable: Variable) -> str:
        return names.setdefault(id(variable), f"v{len(names)}")

    def read(atom: Atom) -> str:
        if not isinstance(atom, Literal):
            return name(atom)
        constant = f"c{len(namespace)}"
        namespace[constant] = atom.value
        return constant

    def function(equation: Equation) -> str:
        primitive: Any = equation.primitive
        if equation.params:
            called = f"{primitive.name}_{len(namespace)}"
            evaluate = functools.partial(primitive.eval, **equation.params)
            loop = of_equation(equation, evaluate) if primitive in structural else None
            namespace[called] = loop or evaluate
            return called
        if id(primitive) not in functions:
            called = (
                primitive.name
                if primitive.name not in namespace
                else f"{primitive.name}_{len(namespace)}"
            )
            functions[id(primitive)] = called
            namespace[called] = primitive.eval
        return functions[id(primitive)]

    for variable, value in graph.constants:
        namespace[name(variable)] = value
    constants = {id(v) for v, _ in graph.constants}
    lines = [f"def run({', '.join(name(v) for v in graph.inputs)}):"]
    steps = scheduled(graph)
    for step, dead in zip(steps, last_uses(steps, graph.outputs), strict=True):
        if isinstance(step, Region):
            called = f"region_{len(namespace)}"
            namespace[called] = build_region(step)
            applied = f"{called}({', '.join(name(v) for v in step.inputs)})"
            applied = f"{', '.join(name(v) for v in step.outputs)}, = {applied}"
        else:
            applied = f"{function(step)}({', '.join(read(a) for a in step.inputs)})"
            results = ", ".join(name(v) for v in step.outputs)
            if results:
                applied = f"{results}{',' * step.primitive.multiple} = {applied}"
        lines.append(f"    {applied}")
        gone = [name(v) for v in dead if id(v) not in constants]
        if gone:
            lines.append(f"    del {', '.join(gone)}")
    lines.append(f"    return [{', '.join(read(a) for a in graph.outputs)}]")
    return "\n".join(lines), namespace
