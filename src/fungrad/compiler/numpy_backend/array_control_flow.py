"""Loops and branches in programs on NumPy.

The Graphs inside are functions of their own, compiled at their first call.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fungrad.compiler.loop_ir.printer import Later
from fungrad.compiler.loop_ir.program import Program, Return, coalesce, listed, touched
from fungrad.compiler.numpy_backend.array_lowering import Runner, Symbols
from fungrad.compiler.scalar.array_walk import ArrayControlFlow, handles
from fungrad.compiler.scalar.emitter import Elements
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
        return self.symbols.function(Program("run", parameters, nodes, {}), equation.primitive.name)


def lower(equation: Equation) -> Runner | None:
    """The program of a loop of unknown length or of a branch, or of a half of its gradient; None
    for other equations, and for a pullback without a tape, which runs the steps again.
    """
    rule = structural(equation.primitive)
    if rule is None or equation.primitive in (call, scan) or not equation.params.get("taped", True):
        return None
    return _OnNumPy(equation).run(rule.write, equation)
