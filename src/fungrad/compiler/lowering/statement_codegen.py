"""The lines of a program: an equation a line, as NumPy is written by hand, or a region of
them.

Values that are read last hand their names on, or are dropped, and a part is added to an array in
its place where nothing else reads that. Knows the IR and that a primitive has an `eval`.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.fusion.clustering import Region, scheduled, spare
from fungrad.compiler.lowering.fusion.region_codegen import build as build_region
from fungrad.compiler.lowering.fusion.tile_size import heavy, shared
from fungrad.compiler.lowering.numpy_expressions import expressed
from fungrad.compiler.lowering.program_text import defined
from fungrad.compiler.lowering.scalar.scalar_codegen import structural
from fungrad.compiler.lowering.scalar.scalar_program import of_equation
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable, last_uses
from fungrad.primitives.elementwise.family import ARITHMETIC
from fungrad.primitives.movement.gather import scatter
from fungrad.primitives.movement.scatter import index_add
from fungrad.runtime.kernels.matmul import by_threads
from fungrad.support.lazy import ByPrimitive

Runner = Callable[..., Any]

loops = ByPrimitive(
    {
        "fungrad.control_flow.scan": "fungrad.compiler.lowering.loops.scan_codegen",
        "fungrad.control_flow.while_loop": "fungrad.compiler.lowering.loops.while_in_place",
    }
)
"""What makes the program of a loop on arrays, of its equation, the variables that it may write
over, and whether its outputs may be views of one array.
"""


class Lines:
    """The lines of the program of a Graph, and the names that it reads.

    Args:
      graph: the Graph.
      given: inputs that the program may write over; None where it may write over nothing.
    """

    def __init__(self, graph: Graph, given: Sequence[Variable] | None = ()) -> None:
        self.graph = graph
        self.namespace: dict[str, Any] = {}
        self._known: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._free: list[str] = []
        """Names of values that were dropped."""
        self._zero_d: dict[Any, Any] = {}
        self._own: set[int] = set()
        self.steps: Sequence[Equation | Region] = self.scheduled()
        self._spare = set() if given is None else spare(self.steps, graph.outputs, given)
        self.at = 0
        """Which step is being written."""
        for variable, value in graph.constants:
            self.namespace[self.name(variable)] = value

    @functools.cached_property
    def _reads(self) -> Counter[int]:
        """How often each value is read, by identity."""
        found = Counter(id(atom) for e in self.graph.equations for atom in e.inputs)
        found.update(id(atom) for atom in self.graph.outputs)
        return found

    def scheduled(self) -> Sequence[Equation | Region]:
        """The equations and regions, in their order."""
        return scheduled(self.graph)

    def function(self, lines: list[str]) -> Runner:
        """The function `run` that the lines define."""
        return defined("\n".join(lines), f"<graph {self.graph.name}>", self.namespace)

    def body(self) -> list[str]:
        """The lines of all equations."""
        lines: list[str] = []
        kept = [*self.graph.outputs, *(v for v, _ in self.graph.constants)]
        ends = last_uses(self.steps, kept)
        for at, (step, dead) in enumerate(zip(self.steps, ends, strict=True)):
            self.at = at
            left = self.handed_on(step, dead)
            lines += self.region(step) if isinstance(step, Region) else self.equation(step)
            lines += self.dropped(left)
        return lines

    def handed_on(self, step: Equation | Region, dead: Sequence[Variable]) -> Sequence[Variable]:
        """Gives the names of values that are read no more to what a step makes: Python compiles few
        names faster than many, and need not be told to drop what it writes over. Returns the dead
        that are left to be dropped.
        """
        names, free = self._names, self._free
        made = [v for v in step.outputs if v not in dead]
        left = []
        for old in dead:
            if made and old not in step.outputs:
                names[id(made.pop(0))] = self.name(old)
            else:
                left.append(old)
        for new in step.outputs:
            if free and id(new) not in names:
                names[id(new)] = free.pop()
        for old in left:  # free from the next step on: it is dropped behind this one
            free.append(self.name(old))
        return left

    def dropped(self, dead: Sequence[Variable]) -> list[str]:
        """The lines behind the last use of values."""
        return [f"del {', '.join(map(self.name, dead))}"] if dead else []

    # --- names --------------------------------------------------------------------------------

    def name(self, variable: Variable) -> str:
        """The name of a value."""
        found = self._names.get(id(variable))
        if found is None:
            found = self._names[id(variable)] = f"v{len(self._names)}"
        return found

    def read(self, atom: Atom) -> str:
        """The name of a value, or of a number."""
        return self.constant("c", atom.value) if isinstance(atom, Literal) else self.name(atom)

    def operands(self, equation: Equation) -> list[str]:
        """The names of what an equation reads.

        Beside arrays a number is an array without axes: NumPy converts one of Python's each time.
        So is a complex one beside a number of NumPy's, of which Python would make one of its own.
        """
        known = [self._names.get(id(atom), "") for atom in equation.inputs]
        if all(known):
            return known
        output = equation.outputs[0].type if equation.primitive in ARITHMETIC else None
        if output is None or not output.inexact or output.weak:
            return [self.read(atom) for atom in equation.inputs]
        if not output.shape and output.dtype.kind != "c":
            return [self.read(atom) for atom in equation.inputs]
        return [
            self.constant("c", self._array(atom.value, output.dtype))
            if isinstance(atom, Literal)
            else self.name(atom)
            for atom in equation.inputs
        ]

    def _array(self, number: Any, dtype: np.dtype[Any]) -> Any:
        key = (dtype, repr(number))
        found = self._zero_d.get(key)
        if found is None:
            found = self._zero_d[key] = np.array(number, dtype)
        return found

    def constant(self, wished: str, value: Any) -> str:
        """The name of a constant, its own wish if no other value has that."""
        if id(value) in self._known:
            return self._known[id(value)]
        name = wished
        if wished in ("c", "k") or name in self.namespace:
            name = f"{wished}{len(self.namespace)}"
        self.namespace[name] = value
        self._known[id(value)] = name
        return name

    # --- steps --------------------------------------------------------------------------------

    def region(self, region: Region) -> list[str]:
        """The lines of a region."""
        called = self.constant("region", build_region(region, self._spare))
        arguments = ", ".join(self.name(v) for v in region.inputs)
        self._own.update(id(v) for v in region.outputs)
        return [f"{', '.join(self.name(v) for v in region.outputs)}, = {called}({arguments})"]

    def equation(self, equation: Equation) -> list[str]:
        """The lines of an equation."""
        primitive: Any = equation.primitive
        arguments = self.operands(equation)
        results = ", ".join([self.name(v) for v in equation.outputs])
        if primitive is scatter:
            self._own.add(id(equation.outputs[0]))
        in_place = self._in_place(equation, arguments, results)
        if in_place:
            return in_place
        applied = self._by_threads(equation, arguments)
        if applied is None:
            applied = expressed(equation, arguments, self.constant)
        if applied is None:
            applied = f"{self._function(equation)}({', '.join(arguments)})"
        return [f"{results}{',' * primitive.multiple} = {applied}" if results else applied]

    @functools.cached_property
    def _shared(self) -> bool:
        """Whether threads of ours share a region of the program."""
        return any(isinstance(step, Region) and shared(step) for step in self.steps)

    def _by_threads(self, equation: Equation, arguments: Sequence[str]) -> str | None:
        """The text of a heavy product in a program whose regions threads of ours share: those of
        the BLAS would keep a core from the next region, since they go on to look for work.
        """
        if not heavy(equation) or not self._shared:
            return None
        (over_x,), (over_y,) = equation.params["contract"]
        x, y = arguments[0] + ".T" * (over_x == 0), arguments[1] + ".T" * (over_y == 1)
        return f"{self.constant('by_threads', by_threads)}({x}, {y})"

    def _in_place(self, equation: Equation, arguments: list[str], result: str) -> list[str]:
        """The lines of a sum with a part of an array that only this equation reads."""
        if equation.primitive is not index_add or len(arguments) != 2:
            return []
        x = equation.inputs[0]
        if id(x) not in self._own or self._reads[id(x)] != 1:
            return []
        self._own.add(id(equation.outputs[0]))
        place = self.constant("k", equation.params["index"].entries)
        added = f"{result}[{place}] += {arguments[1]}"
        return [added] if result == arguments[0] else [f"{result} = {arguments[0]}", added]

    def _function(self, equation: Equation) -> str:
        primitive: Any = equation.primitive
        if not equation.params:
            return self.constant(primitive.name, primitive.eval)
        steps, make = _steps(equation), loops.of(primitive)
        loop = of_equation(equation, steps) if structural.of(primitive) else None
        if loop is None and make is not None:
            loop = make(equation, self._spare, True)
        return self.constant(primitive.name, loop or steps)


def own(inputs: Sequence[Atom], spare: Collection[Variable]) -> list[int]:
    """The places of inputs that may be written over: what is spare and stands there once."""
    read = Counter(map(id, inputs))
    return [i for i, a in enumerate(inputs) if read[id(a)] == 1 and a in spare]


def _steps(equation: Equation) -> Runner:
    """The equation as its primitive does it."""
    primitive: Any = equation.primitive
    return functools.partial(primitive.eval, **equation.params)


__all__ = ["Lines", "Runner", "loops", "own"]
