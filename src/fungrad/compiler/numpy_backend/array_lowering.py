"""Lowers a Graph to nodes on arrays: one node for each equation.

A large result is computed in the memory of an operand that nothing else reads, or in memory of the
pool. An addition to a part of an array is done in place if nothing else reads the array. A function
that the caller passes lowers the loops.
"""

from __future__ import annotations

import functools
import keyword
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.compiler.loop_ir.printer import defined, printed
from fungrad.compiler.loop_ir.program import (
    Argument,
    Call,
    Copy,
    Expression,
    Local,
    Program,
    Return,
    listed,
    placed,
    value,
)
from fungrad.compiler.numpy_backend.kernels import kernel
from fungrad.compiler.numpy_backend.liveness import AliasLiveness, by_ufunc
from fungrad.compiler.numpy_backend.numpy_expressions import as_ufunc, dot, expressed
from fungrad.compiler.numpy_backend.scalar_program import of_equation
from fungrad.compiler.scalar.structural import structural
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.ir.types import Type
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import ARITHMETIC
from fungrad.primitives.movement.gather import ARRAY, scatter
from fungrad.primitives.movement.scatter import index_add
from fungrad.runtime import buffer_pool, kernels
from fungrad.support.forks import cached_property

Runner = Callable[..., Any]
LowerLoop = Callable[[Equation], Runner | None]
"""Takes the equation of a loop; returns a function that runs the loop on arrays, or None."""
_KEYWORD = ("maximum", "minimum")
"""Ufuncs that need `out` as a keyword."""

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
        array = self._zero_d.get(key)
        if array is None:
            array = self._zero_d[key] = np.array(number, dtype)
        return self.constant("c", array)

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
        short = kernels.is_short(type_.shape, axes) and type_.dtype.char in "fdFD"
        if short and type_.size >= costs.small_array:
            function = self.constant("by_terms", kernels.by_terms)
            return f"{function}({self.constant(ufunc.__name__, ufunc)}, {x})"
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
        function: Any = defined(printed(program), f"<graph {name}>", self.namespace, program.name)
        function.program = program
        return function  # type: ignore[no-any-return]


class ArrayLowering:
    """Lowers the equations of a Graph, in their order.

    Args:
      graph: the Graph.
      lower_loop: lowers the loops among its equations.
      carried: the number of its outputs, the first ones, that are in new memory; all without it.
      symbols: the constants of the program that it is a part of.
    """

    def __init__(
        self, graph: Graph, lower_loop: LowerLoop, carried: int | None = None,
        symbols: Symbols | None = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.lower_loop = lower_loop
        self.symbols = symbols or Symbols()
        self.constant = self.symbols.constant
        self.nodes: list[Any] = []
        self.values: dict[Atom, Local] = {v: Local() for v in graph.inputs}
        self.globals: dict[Local, str] = {}
        """The constants of the Graph, with their names."""
        for variable, array in graph.constants:
            self.values[variable] = local = Local()
            self.globals[local] = self.constant("a", array)
        self.targets: dict[Atom, Local] = {}
        """The memory in which ufuncs compute values."""
        self._own: set[Variable] = set()
        carried = len(graph.outputs) if carried is None else carried
        self.liveness = AliasLiveness(graph, carried)
        self.at = 0
        """The number of the equation that is lowered now."""

    @cached_property
    def uses(self) -> Counter[Atom]:
        """How often each value is read."""
        counts = Counter(atom for e in self.graph.equations for atom in e.inputs)
        counts.update(self.graph.outputs)
        return counts

    def lower(self) -> None:
        """Adds the nodes of all equations."""
        for at, equation in enumerate(self.graph.equations):
            self.at = at
            self.step(equation)

    def step(self, equation: Equation) -> None:
        """Adds the nodes of an equation, and notes that they are its."""
        start = len(self.nodes)
        self.equation(equation)
        for node in self.nodes[start:]:
            node.origin = equation

    def runner(self, program: Program) -> Runner:
        """The function of a program."""
        return self.symbols.function(program, self.graph.name)

    # --- values and nodes -----------------------------------------------------------------------

    def value(self, variable: Variable) -> Local:
        """The value of a variable."""
        local = self.values.get(variable)
        if local is None:
            local = self.values[variable] = Local()
        return local

    def read(self, atom: Atom) -> Argument:
        """The value of a variable, or the name of a literal's number."""
        return self.constant("c", atom.value) if isinstance(atom, Literal) else self.value(atom)

    def expression(self, atom: Atom) -> Expression:
        """The expression of a variable or a literal."""
        text = self.read(atom)
        return Expression(text) if isinstance(text, str) else value(text)

    def operands(self, equation: Equation) -> list[Argument]:
        """The operands of an equation.

        A literal beside arrays becomes a 0-d array: NumPy would convert a Python number at each
        call. So does a complex literal beside a NumPy scalar, since Python would return its own
        complex.
        """
        known: list[Argument] = [self.values[a] for a in equation.inputs if a in self.values]
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

    def call(self, text: str, operands: Sequence[Argument], kind: Any = Call) -> None:
        """Adds a node that defines no values; its text has a field `{i}` for each operand."""
        fields, inputs = placed(operands)
        self.nodes.append(kind(text.format(*fields), inputs))

    # --- steps ----------------------------------------------------------------------------------

    def equation(self, equation: Equation) -> None:
        """Adds the node of an equation."""
        primitive: Any = equation.primitive
        operands = self.operands(equation)
        target = self.targets.get(equation.outputs[0]) if equation.outputs else None
        if target is not None:
            self.values[equation.outputs[0]] = target
            self.call(*self.ufunc(equation, operands, target))
            return
        if primitive is scatter:
            self._own.add(equation.outputs[0])
        elif primitive is index_add and self.add_in_place(equation, operands):
            return
        reused = None if kernel(equation) else self.in_reused_memory(equation, operands)
        outputs = [self.value(v) for v in equation.outputs]
        fields, inputs = placed(operands if reused is None else reused[1])
        if reused is not None:
            text = reused[0].format(*fields)
        else:
            made = kernel(equation)
            called = None if made is None else self.constant(made.name, made)
            text = "" if called else expressed(equation, fields, self.symbols) or ""
            text = text or f"{called or self._function(equation)}({', '.join(fields)})"
        self.nodes.append(Call(text, inputs, outputs, primitive.multiple))

    def add_in_place(self, equation: Equation, operands: Sequence[Argument]) -> bool:
        """Adds to a part of an array in place, if nothing else reads the array."""
        x, (output,) = equation.inputs[0], equation.outputs
        if len(operands) != 2 or x not in self._own or self.uses[x] != 1:
            return False
        self._own.add(output)
        self.values[output] = self.values[x]
        index = self.constant("k", equation.params["index"].entries)
        self.call(f"{{0}}[{index}] += {{1}}", operands, kind=Copy)
        return True

    def in_reused_memory(
        self, equation: Equation, operands: Sequence[Argument]
    ) -> tuple[str, list[Argument]] | None:
        """The text that computes a large array in the memory of an operand that is dead then, or in
        memory of the pool, and its operands; None for outputs of the program.
        """
        ufunc = by_ufunc(equation)
        if not (ufunc or equation.primitive is dot_general):
            return None
        (output,) = equation.outputs
        type_ = output.type
        if type_.size < costs.small_array or output in self.liveness.carried:
            return None
        if ufunc:
            for atom in equation.inputs:
                if atom in self.made and atom in self.liveness.ended[self.at]:
                    alike = atom.type.shape == type_.shape and atom.type.dtype == type_.dtype
                    if alike:
                        return self.ufunc(equation, operands, self.values[atom])
        if type_.nbytes < buffer_pool.LARGE:
            return None
        reused = self.constant("reused", buffer_pool.empty)
        out = f"{reused}({type_.shape}, {self.symbols.dtype(type_.dtype)})"
        if ufunc:
            return self.ufunc(equation, operands, out)
        text = dot(equation, [f"{{{i}}}" for i in range(len(operands))], out)
        return None if text is None else (text, list(operands))

    @cached_property
    def made(self) -> set[Atom]:
        """The values in memory that the program has made for them alone."""
        return {v for e in self.graph.equations if _makes(e) for v in e.outputs}

    def ufunc(
        self, equation: Equation, operands: Sequence[Argument], out: Argument
    ) -> tuple[str, list[Argument]]:
        """The call of an equation's ufunc that writes into `out`, and its operands."""
        ufunc, given = as_ufunc(equation, list(operands))
        fields = [f"{{{i}}}" for i in range(len(given))]
        keyword = "out=" if ufunc.__name__ in _KEYWORD else ""
        called = self.constant(ufunc.__name__, ufunc)
        text = f"{called}({', '.join(fields)}, {keyword}{{{len(given)}}})"
        return text, [*given, out]

    def _function(self, equation: Equation) -> str:
        primitive: Any = equation.primitive
        if not equation.params:
            return self.constant(primitive.name, primitive.eval)
        if "runner" in equation.params:  # of a native cluster
            return self.constant(primitive.name, equation.params["runner"])
        steps = functools.partial(primitive.eval, **equation.params)
        loop = of_equation(equation, steps) if structural(primitive) else None
        if loop is None:
            loop = self.lower_loop(equation)
        return self.constant(primitive.name, loop or steps)


def _makes(equation: Equation) -> bool:
    """Whether the outputs of an equation have memory of their own."""
    if equation.primitive is dot_general:
        return dot(equation, ("", "")) is not None
    return equation.primitive.reduces is not None or by_ufunc(equation)


def lowered(graph: Graph, lower_loop: LowerLoop, carried: int | None = None) -> Runner:
    """The function that runs the equations of a Graph one after the other; see ArrayLowering."""
    lowering = ArrayLowering(graph, lower_loop, carried)
    parameters = [lowering.value(v) for v in graph.inputs]
    lowering.lower()
    end = Return(listed([lowering.expression(atom) for atom in graph.outputs]))
    nodes = [*lowering.nodes, end]
    return lowering.runner(Program("run", parameters, nodes, lowering.globals))


def tile_program(graph: Graph) -> Runner:
    """The function of a tile's Graph; its outputs, which are copied, may be in reused memory."""
    return lowered(graph, lambda *_: None, 0)
