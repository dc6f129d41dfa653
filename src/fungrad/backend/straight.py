"""Floor 6: runs a Graph as straight-line Python: one line an equation, or a region of them.

Dead values are dropped at their last use, and a part is added to an array in its place where
nothing else reads that. Knows the IR and that a primitive has an `eval`. The reference evaluator
walks the same equations; this saves its walking.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.backend.blocked import build as build_region
from fungrad.backend.expressions import expressed
from fungrad.backend.looping import in_place
from fungrad.backend.programs import of_equation, program
from fungrad.backend.regions import Region, scheduled, spare
from fungrad.backend.scalars import structural
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable, last_uses
from fungrad.ir.types import Type
from fungrad.optimise.passes import optimised
from fungrad.primitives.declare import Primitive
from fungrad.primitives.indexing import scatter
from fungrad.primitives.scattering import index_add
from fungrad.structural.call import Backend, Runner
from fungrad.structural.loop import while_loop


class StraightLine(Backend):
    """Compiles a Graph, optimised, to a Python function of its inputs."""

    def compile(self, graph: Graph) -> Runner:
        """The function; it returns the outputs as a list."""
        graph = optimised(graph)
        return program(graph, _Later(graph)) or build(graph)

    def loop(
        self, primitive: Primitive, types: Sequence[Type], params: dict[str, Any], steps: Runner
    ) -> Runner | None:
        """The loop as Python's own, on numbers, or over the arrays of the step before."""
        arguments = tuple([Variable(type_) for type_ in types])
        outputs = tuple([Variable(type_) for type_ in primitive.infer(types, params)])
        equation = Equation(primitive, arguments, outputs, params)
        found = of_equation(equation, steps)
        return in_place(equation, build) if found is None and primitive is while_loop else found


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
    return "\n".join(_Program(graph).lines)


def build(graph: Graph, given: Sequence[Variable] = ()) -> Callable[..., Sequence[Any]]:
    """A Python function that runs the equations of a Graph one after the other.

    Args:
      graph: the Graph.
      given: inputs that it may write over.
    """
    written = _Program(graph, given)
    exec(compile("\n".join(written.lines), f"<graph {graph.name}>", "exec"), written.namespace)
    runner: Callable[..., Sequence[Any]] = written.namespace["run"]
    return runner


class _Program:
    """The lines of the program of a Graph, and the names that it reads."""

    def __init__(self, graph: Graph, given: Sequence[Variable] = ()) -> None:
        self.namespace: dict[str, Any] = {}
        self._known: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._reads = Counter(id(atom) for e in graph.equations for atom in e.inputs)
        self._reads.update(id(atom) for atom in graph.outputs)
        self._own: set[int] = set()
        for variable, value in graph.constants:
            self.namespace[self._name(variable)] = value
        constants = {id(v) for v, _ in graph.constants}
        self.lines = [f"def run({', '.join(self._name(v) for v in graph.inputs)}):"]
        steps = scheduled(graph)
        self._spare = spare(steps, graph.outputs, given)
        for step, dead in zip(steps, last_uses(steps, graph.outputs), strict=True):
            made = self._region(step) if isinstance(step, Region) else self._equation(step)
            self.lines += [f"    {line}" for line in made]
            gone = [self._name(v) for v in dead if id(v) not in constants]
            if gone:
                self.lines.append(f"    del {', '.join(gone)}")
        self.lines.append(f"    return [{', '.join(self._read(a) for a in graph.outputs)}]")

    def _name(self, variable: Variable) -> str:
        return self._names.setdefault(id(variable), f"v{len(self._names)}")

    def _read(self, atom: Atom) -> str:
        return self._constant("c", atom.value) if isinstance(atom, Literal) else self._name(atom)

    def _constant(self, wished: str, value: Any) -> str:
        """The name of a value, its own wish if no other value has that."""
        if id(value) in self._known:
            return self._known[id(value)]
        name = wished
        if wished in ("c", "k") or name in self.namespace:
            name = f"{wished}{len(self.namespace)}"
        self.namespace[name] = value
        self._known[id(value)] = name
        return name

    def _region(self, region: Region) -> list[str]:
        called = self._constant("region", build_region(region, self._spare))
        arguments = ", ".join(self._name(v) for v in region.inputs)
        self._own.update(id(v) for v in region.outputs)
        return [f"{', '.join(self._name(v) for v in region.outputs)}, = {called}({arguments})"]

    def _equation(self, equation: Equation) -> list[str]:
        primitive: Any = equation.primitive
        arguments = [self._read(atom) for atom in equation.inputs]
        results = ", ".join(self._name(v) for v in equation.outputs)
        if primitive is scatter:
            self._own.add(id(equation.outputs[0]))
        in_place = self._in_place(equation, arguments, results)
        if in_place:
            return in_place
        applied = expressed(equation, arguments, self._constant)
        if applied is None:
            applied = f"{self._function(equation)}({', '.join(arguments)})"
        return [f"{results}{',' * primitive.multiple} = {applied}" if results else applied]

    def _in_place(self, equation: Equation, arguments: list[str], result: str) -> list[str]:
        """The lines of a sum with a part of an array that only this equation reads."""
        if equation.primitive is not index_add or len(arguments) != 2:
            return []
        x = equation.inputs[0]
        if id(x) not in self._own or self._reads[id(x)] != 1:
            return []
        self._own.add(id(equation.outputs[0]))
        place = self._constant("k", equation.params["index"].entries)
        return [f"{result} = {arguments[0]}", f"{result}[{place}] += {arguments[1]}"]

    def _function(self, equation: Equation) -> str:
        primitive: Any = equation.primitive
        if not equation.params:
            return self._constant(primitive.name, primitive.eval)
        evaluate = functools.partial(primitive.eval, **equation.params)
        loop = of_equation(equation, evaluate) if primitive in structural else None
        return self._constant(primitive.name, loop or evaluate)
