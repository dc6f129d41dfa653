"""Lowers a Graph to nodes on arrays: one node for each equation or fused cluster.

An addition to a part of an array is done in place if nothing else reads the array. A function that
the caller passes lowers the loops.
"""

from __future__ import annotations

import functools
import keyword
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.loop_ir.printer import defined, printed
from fungrad.compiler.loop_ir.program import (
    INVARIANT,
    Call,
    Copy,
    Expression,
    Operand,
    Program,
    Return,
    Value,
    listed,
    placed,
    value,
)
from fungrad.compiler.numpy_backend.fusion.clustering import FusionCluster, cluster_and_schedule
from fungrad.compiler.numpy_backend.fusion.tiling import heavy, shared
from fungrad.compiler.numpy_backend.numpy_expressions import dot, expressed
from fungrad.compiler.numpy_backend.scalar_program import of_equation
from fungrad.compiler.scalar.structural import structural
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import ARITHMETIC
from fungrad.primitives.movement.gather import ARRAY, scatter
from fungrad.primitives.movement.scatter import index_add
from fungrad.runtime.kernels.reductions import by_threads

Runner = Callable[..., Any]
LowerLoop = Callable[[Equation | FusionCluster, bool], Runner | None]
"""Takes the equation or cluster of a loop, and whether its outputs may be views of one array;
returns a function that runs the loop on arrays, or None.
"""

_GENERATED = re.compile(r"[a-z](_?\d+|_\d+_\d+)$")
"""The names that programs give to values, which functions must not have."""


class Symbols:
    """The constants of a program: its global names (see `Names`)."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {}
        self._known: dict[int, str] = {}
        self._zero_d: dict[Any, Any] = {}

    def constant(self, wished: str, value: Any) -> str:
        """The name of a constant: the wished one, unless another value may have it."""
        if id(value) in self._known:
            return self._known[id(value)]
        name = (
            wished
            if wished.isidentifier()
            and not keyword.iskeyword(wished)
            and not _GENERATED.match(wished)
            else "function"
        )
        if name in ("c", "k", "function") or name in self.namespace:
            name = f"{name}{len(self.namespace)}"
        self.namespace[name] = value
        self._known[id(value)] = name
        return name

    def zero_d(self, number: Any, dtype: np.dtype[Any]) -> str:
        """The name of a number as a 0-d array."""
        key = (dtype, repr(number))
        found = self._zero_d.get(key)
        if found is None:
            found = self._zero_d[key] = np.array(number, dtype)
        return self.constant("c", found)

    def dtype(self, dtype: np.dtype[Any]) -> str:
        return self.constant(dtype.name, dtype)

    def number(self, dtype: np.dtype[Any]) -> None:
        return None

    def filled(self, function: str, type_: Type, *values: Any) -> str:
        given = [str(type_.shape), *[self.constant("c", value) for value in values]]
        called = self.constant(function, getattr(np, function))
        return f"{called}({', '.join([*given, self.dtype(type_.dtype)])})"

    def part(self, x: str, entries: Sequence[Any], arrays: Sequence[str]) -> str | None:
        if arrays:
            return f"{x}[{arrays[0]}]" if tuple(entries) == (ARRAY,) else None
        entry = entries[0] if len(entries) == 1 else tuple(entries)
        return f"{x}[{self.constant('k', entry)}]"

    def reduced(self, x: str, type_: Type, ufunc: np.ufunc, axes: tuple[int, ...]) -> str:
        axis = axes[0] if len(axes) == 1 else None if len(axes) == type_.ndim else axes
        return f"{self.constant(ufunc.__name__, ufunc)}.reduce({x}, {axis})"

    def product(self, equation: Equation, arguments: Sequence[str]) -> str | None:
        return dot(equation, arguments)

    def function(self, program: Program, name: str) -> Runner:
        """The function of a program; it keeps its text and the program.

        Args:
          program: the program.
          name: the name in tracebacks.
        """
        found: Any = defined(printed(program), f"<graph {name}>", self.namespace, program.name)
        found.program = program
        return found  # type: ignore[no-any-return]


class ArrayLowering:
    """Lowers the equations of a Graph, in their order.

    Args:
      graph: the Graph.
      lower_loop: lowers the loops among its equations.
    """

    def __init__(self, graph: Graph, lower_loop: LowerLoop) -> None:
        self.graph = graph
        self.lower_loop = lower_loop
        self.symbols = Symbols()
        self.constant = self.symbols.constant
        self.nodes: list[Any] = []
        self.values: dict[Atom, Value] = {v: Value() for v in graph.inputs}
        self.globals: dict[Value, str] = {}
        """The constants of the Graph, with their names."""
        for variable, array in graph.constants:
            self.values[variable] = found = Value(memory=INVARIANT)
            self.globals[found] = self.constant("a", array)
        self._own: set[Variable] = set()
        self.steps: Sequence[Equation | FusionCluster] = self.cluster_and_schedule()

    @functools.cached_property
    def uses(self) -> Counter[Atom]:
        """How often each value is read."""
        found = Counter(atom for e in self.graph.equations for atom in e.inputs)
        found.update(self.graph.outputs)
        return found

    def cluster_and_schedule(self) -> Sequence[Equation | FusionCluster]:
        """The equations and clusters, in their order."""
        return cluster_and_schedule(self.graph)

    def lower(self) -> None:
        """Adds the nodes of all steps."""
        for step in self.steps:
            self.step(step)

    def step(self, step: Equation | FusionCluster) -> None:
        """Adds the nodes of a step."""
        start = len(self.nodes)
        if isinstance(step, FusionCluster):
            self.cluster(step)
        else:
            self.equation(step)
        for node in self.nodes[start:]:
            node.origin = step

    def runner(self, program: Program) -> Runner:
        """The function of a program."""
        return self.symbols.function(program, self.graph.name)

    # --- values and nodes -----------------------------------------------------------------------

    def value(self, variable: Variable) -> Value:
        """The value of a variable."""
        found = self.values.get(variable)
        if found is None:
            found = self.values[variable] = Value()
        return found

    def read(self, atom: Atom) -> Operand:
        """The value of a variable, or the name of a literal's number."""
        return self.constant("c", atom.value) if isinstance(atom, Literal) else self.value(atom)

    def expression(self, atom: Atom) -> Expression:
        """The expression of a variable or a literal."""
        found = self.read(atom)
        return Expression(found) if isinstance(found, str) else value(found)

    def operands(self, equation: Equation) -> list[Operand]:
        """The operands of an equation.

        A literal beside arrays becomes a 0-d array: NumPy would convert a Python number at each
        call. So does a complex literal beside a NumPy scalar, since Python would return its own
        complex.
        """
        known: list[Operand] = [self.values[a] for a in equation.inputs if a in self.values]
        if len(known) == len(equation.inputs):  # none of them is a literal
            return known
        output = equation.outputs[0].type if equation.primitive in ARITHMETIC else None
        if output is None or not output.inexact or output.weak:
            return [self.read(atom) for atom in equation.inputs]
        if not output.shape and output.dtype.kind != "c":
            return [self.read(atom) for atom in equation.inputs]
        return [
            self.symbols.zero_d(atom.value, output.dtype)
            if isinstance(atom, Literal)
            else self.value(atom)
            for atom in equation.inputs
        ]

    def call(self, text: str, operands: Sequence[Operand], kind: Any = Call) -> None:
        """Adds a node that defines no values; its text has a field `{i}` for each operand."""
        fields, inputs = placed(operands)
        self.nodes.append(kind(text.format(*fields), inputs))

    # --- steps ----------------------------------------------------------------------------------

    def cluster(self, cluster: FusionCluster) -> None:
        """Adds the call of a fusion cluster."""
        called = self.constant("region", self.lower_loop(cluster, True))
        fields, inputs = placed([self.value(v) for v in cluster.inputs])
        outputs = [self.value(v) for v in cluster.outputs]
        self._own.update(cluster.outputs)
        text = f"{called}({', '.join(fields)})"
        self.nodes.append(Call(text, inputs, outputs, unpack=True))

    def equation(self, equation: Equation) -> None:
        """Adds the node of an equation."""
        primitive: Any = equation.primitive
        operands = self.operands(equation)
        if primitive is scatter:
            self._own.add(equation.outputs[0])
        elif primitive is index_add and self.add_in_place(equation, operands):
            return
        fields, inputs = placed(operands)
        text = self._by_threads(equation, fields)
        if text is None:
            text = expressed(equation, fields, self.symbols)
        if text is None:
            text = f"{self._function(equation)}({', '.join(fields)})"
        outputs = [self.value(v) for v in equation.outputs]
        self.nodes.append(Call(text, inputs, outputs, primitive.multiple))

    def add_in_place(self, equation: Equation, operands: Sequence[Operand]) -> bool:
        """Adds to a part of an array in place, if nothing else reads the array."""
        x, (output,) = equation.inputs[0], equation.outputs
        if len(operands) != 2 or x not in self._own or self.uses[x] != 1:
            return False
        self._own.add(output)
        self.values[output] = self.values[x]
        index = self.constant("k", equation.params["index"].entries)
        self.call(f"{{0}}[{index}] += {{1}}", operands, kind=Copy)
        return True

    @functools.cached_property
    def _shared(self) -> bool:
        """Whether threads share a cluster of the program."""
        return any(isinstance(step, FusionCluster) and shared(step) for step in self.steps)

    def _by_threads(self, equation: Equation, fields: Sequence[str]) -> str | None:
        """The text of a large product in a program whose clusters run on threads.

        It runs on the same threads: idle BLAS threads would keep spinning on cores that the next
        cluster needs.
        """
        if not heavy(equation) or not self._shared:
            return None
        (over_x,), (over_y,) = equation.params["contract"]
        x, y = fields[0] + ".T" * (over_x == 0), fields[1] + ".T" * (over_y == 1)
        return f"{self.constant('by_threads', by_threads)}({x}, {y})"

    def _function(self, equation: Equation) -> str:
        primitive: Any = equation.primitive
        if not equation.params:
            return self.constant(primitive.name, primitive.eval)
        if "runner" in equation.params:  # of a native cluster
            return self.constant(primitive.name, equation.params["runner"])
        steps = functools.partial(primitive.eval, **equation.params)
        loop = of_equation(equation, steps) if structural(primitive) else None
        if loop is None:
            loop = self.lower_loop(equation, True)
        return self.constant(primitive.name, loop or steps)


def lowered(graph: Graph, lower_loop: LowerLoop) -> Runner:
    """The function that runs the equations of a Graph one after the other.

    Args:
      graph: the Graph.
      lower_loop: lowers the loops among its equations.
    """
    lowering = ArrayLowering(graph, lower_loop)
    parameters = [lowering.value(v) for v in graph.inputs]
    lowering.lower()
    end = Return(listed([lowering.expression(atom) for atom in graph.outputs]))
    nodes = [*lowering.nodes, end]
    return lowering.runner(Program("run", parameters, nodes, lowering.globals, reuse=True))
