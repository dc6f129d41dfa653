"""Loops and branches in programs on NumPy.

The steps of a scan are lines of its loop; a step computes a value in its row of a stack if a ufunc
makes it. Other Graphs inside are functions of their own, compiled at their first call.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler.loop_ir.printer import Later
from fungrad.compiler.loop_ir.program import (
    Copy,
    Local,
    Program,
    Return,
    coalesce,
    listed,
    touched,
)
from fungrad.compiler.numpy_backend.array_lowering import (
    ArrayLowering,
    LowerLoop,
    Runner,
    Symbols,
)
from fungrad.compiler.numpy_backend.liveness import by_ufunc
from fungrad.compiler.numpy_backend.scalar_program import program
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.scalar.array_walk import ArrayControlFlow, handles
from fungrad.compiler.scalar.emitter import Elements, boxed
from fungrad.compiler.scalar.emitter import Number as Array
from fungrad.compiler.scalar.structural import structural
from fungrad.control_flow.call import built, call
from fungrad.control_flow.scan import scan
from fungrad.control_flow.tape_type import TAPE, as_tape, residuals_of
from fungrad.ir.graph import Equation, Graph


class _OnNumPy(ArrayControlFlow):
    """Loops and branches that call the programs of the Graphs inside."""

    def __init__(self, equation: Equation) -> None:
        self.symbols = Symbols()
        super().__init__(self.symbols)
        self.globals: dict[Local, str] = {}
        """The constants of Graphs that are written here, with their names."""
        self._half = "backward" if "taped" in equation.params else "forward"
        self._names: dict[Graph, str] = {}
        for key, param in equation.params.items():
            graphs = enumerate(param) if isinstance(param, tuple) else [("", param)]
            self._names.update({graph: f"{key}{i}" for i, graph in graphs})

    def graph(self, graph: Graph, inputs: Sequence[Elements]) -> list[Elements]:
        name = self._names.get(graph, self._half)
        called = self.symbols.constant(name, Later(functools.partial(built, graph)))
        single = len(graph.outputs) == 1
        text = f"{called}({', '.join(['{}'] * len(inputs))})" + "[0]" * single
        return self.call(text, handles(inputs), graph.output_types, unpack=not single)

    def run(self, write: Any, equation: Equation) -> Runner:
        """The function of an equation's inputs that returns its outputs."""
        given = [self.variables(atom.type) for atom in equation.inputs]
        parameters, results = handles(given), []
        for i, atom in enumerate(equation.inputs):
            if atom.type == TAPE:
                read = self.symbols.constant("residuals_of", residuals_of)
                given[i] = self.call(f"{read}({{}})", [parameters[i]], [TAPE])[0]
        for array, variable in zip(write(self, equation, given), equation.outputs, strict=True):
            made = self.symbols.constant("as_tape", as_tape)
            text = f"{made}({{}})" if variable.type == TAPE else "{}"
            results.append(self.expression(text, handles([array])))
        nodes = [*self.nodes, Return(listed(results))]
        coalesce(nodes, Counter(touched(nodes)))
        whole = Program("run", parameters, nodes, self.globals)
        return self.symbols.function(whole, equation.primitive.name)


class _Steps(_OnNumPy):
    """A scan, with the equations of its body in the loop."""

    def __init__(self, equation: Equation, lower_loop: LowerLoop) -> None:
        super().__init__(equation)
        self._lower_loop = lower_loop
        self._carried = equation.params["counts"][1]
        self._rows: list[Local | None] = []
        """The rows of this step in the stacks that the loop fills; numbers have none."""

    def graph(self, graph: Graph, inputs: Sequence[Elements]) -> list[Elements]:
        """Adds the nodes of the body."""
        lowering = ArrayLowering(optimised(graph), self._lower_loop, self._carried, self.symbols)
        better = lowering.graph
        made = {v: e for e in better.equations for v in e.outputs if by_ufunc(e)}
        for atom, row in zip(better.outputs[self._carried :], self._rows, strict=False):
            if row and atom in made:
                lowering.targets.setdefault(atom, row)
        lowering.values.update(zip(better.inputs, handles(inputs), strict=True))
        lowering.lower()
        self.nodes += lowering.nodes
        self.globals.update(lowering.globals)
        return [boxed(Array(lowering.read(atom), atom.type.dtype)) for atom in better.outputs]

    def rows(self, length: int, types: Sequence[Any], reverse: bool) -> list[Any]:
        self._rows = [Local("y") if type_.shape else None for type_ in types]
        return super().rows(length, types, reverse)

    def append(self, rows: list[Any], values: Sequence[Array]) -> None:
        step, *stacks = rows
        for stack, row, made in zip(handles(stacks), self._rows, values, strict=True):
            if row is None:
                self.node(Copy, "{}[{}] = {}", [stack, step, made.handle])
            elif row is not made.handle:
                self.node(Copy, "{}[...] = {}", [row, made.handle])

    def scan(
        self, length: int, reverse: bool, reads: Any, makes: Any, step: Callable[[], None]
    ) -> None:
        stacks = [] if makes is None else handles(makes[1:])
        rows = [(row, stack) for row, stack in zip(self._rows, stacks, strict=True) if row]
        super().scan(length, reverse, [*reads, *rows], makes, step)


def lower(equation: Equation, lower_loop: LowerLoop) -> Runner | None:
    """The program of a loop or of a branch, or of a half of its gradient; None for other equations,
    for a scan whose step runs faster on numbers, and for a pullback without a tape, which runs the
    steps again.
    """
    rule = structural(equation.primitive)
    if rule is None or equation.primitive is call or not equation.params.get("taped", True):
        return None
    if equation.primitive is not scan:
        return _OnNumPy(equation).run(rule.write, equation)
    if program(optimised(equation.params["body"]), _unused) is not None:
        return None
    return _Steps(equation, lower_loop).run(rule.write, equation)


def _unused(*args: Any) -> Any:
    raise NotImplementedError
