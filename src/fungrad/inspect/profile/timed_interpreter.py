"""Runs a Graph equation by equation, and takes the time of each.

The Graphs inside of loops and branches are replaced by copies that know this runner as their
program, so that their equations are timed wherever they are run. Knows how Graphs keep what was
made of them; knows nothing of what the times are for.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler.passes.pipeline import optimised
from fungrad.control_flow.call import by_steps, compiled_key
from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.retracing.graph_transforms import Differentiated

Clock = Callable[[], int]


class Watch:
    """The equations of an optimised Graph and of the Graphs inside, with times and counts.

    Attributes:
      equations: each with its depth: 0 in the Graph itself, 1 in the body of a loop in it.
      spent: nanoseconds of each equation in the last run, by its id, without the Graphs inside.
      counts: how often each was run.
    """

    def __init__(self, graph: Graph, clock: Clock = time.perf_counter_ns) -> None:
        self.equations: list[tuple[Equation, int]] = []
        self.spent: dict[int, int] = defaultdict(int)
        self.counts: dict[int, int] = defaultdict(int)
        self._clock = clock
        self._inside = 0
        self._copies: dict[int, tuple[Graph, Graph]] = {}
        self._graph = self._opened(graph, 0)

    def run(self, args: Sequence[Any]) -> list[Any]:
        """The outputs of the Graph, with its times taken anew."""
        self.spent.clear()
        self.counts.clear()
        self._inside = 0
        return self._evaluated(self._graph, args)

    def _opened(self, graph: Graph, depth: int) -> Graph:
        """The Graph with copies in place of those inside."""
        equations = []
        for equation in graph.equations:
            place = len(self.equations)
            params = {k: self._watched(v, depth + 1) for k, v in equation.params.items()}
            new = Equation(
                equation.primitive, equation.inputs, equation.outputs, params, equation.source,
                equation.scope, equation.backward,
            )  # fmt: skip
            self.equations.insert(place, (new, depth))
            equations.append(new)
        return graph.replace(equations=tuple(equations))

    def _watched(self, value: Any, depth: int) -> Any:
        if isinstance(value, Graph):
            return self._copy(value, depth)
        if isinstance(value, tuple):
            parts = [self._watched(part, depth) for part in value]
            return value if all(map(_same, parts, value)) else tuple(parts)
        return value

    def _copy(self, graph: Graph, depth: int) -> Graph:
        """A Graph that is equal, and whose program, and that of its derivatives, is timed."""
        if id(graph) in self._copies:
            return self._copies[id(graph)][1]
        copy = graph.replace()
        self._copies[id(graph)] = (graph, copy)
        opened = self._opened(optimised(graph), depth)

        def compiled(*args: Any) -> list[Any]:
            start = self._clock()
            outputs = self._evaluated(opened, args)
            self._inside += self._clock() - start
            return outputs

        copy.derived[compiled_key(copy)] = compiled
        for key, made in list(graph.derived.items()):
            if isinstance(made, Differentiated):
                forward, backward = (self._copy(half, depth) for half in made[:2])
                copy.derived[key] = Differentiated(forward, backward, made.reached)
        return copy

    def _evaluated(self, graph: Graph, args: Sequence[Any]) -> list[Any]:
        values: dict[int, Any] = {id(variable): value for variable, value in graph.constants}
        values.update((id(v), arg) for v, arg in zip(graph.inputs, args, strict=True))

        def read(atom: Atom) -> Any:
            return atom.value if isinstance(atom, Literal) else values[id(atom)]

        for equation, dead in zip(graph.equations, graph.last_uses, strict=True):
            inputs = [read(atom) for atom in equation.inputs]
            result = self._timed(equation, inputs)
            if not equation.primitive.multiple:
                result = (result,)
            values.update((id(v), x) for v, x in zip(equation.outputs, result, strict=True))
            del inputs, result
            for variable in dead:
                del values[id(variable)]
        return [read(atom) for atom in graph.outputs]

    def _timed(self, equation: Equation, inputs: list[Any]) -> Any:
        primitive: Any = equation.primitive
        if isinstance(equation.params.get("body"), Graph):
            by_steps(primitive, inputs, equation.params)
        outside, self._inside = self._inside, 0
        start = self._clock()
        result = primitive.eval(*inputs, **equation.params)
        self.spent[id(equation)] += self._clock() - start - self._inside
        self.counts[id(equation)] += 1
        self._inside = outside
        return result


def _same(a: Any, b: Any) -> bool:
    return a is b


__all__ = ["Watch"]
