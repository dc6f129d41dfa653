"""Native forms that are written with NumPy's functions: what a trace records is applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.compiler.native.element_operations import apply_equation, cost, type_of
from fungrad.compiler.native.llvm_ir import Function, Value
from fungrad.compiler.native.native_forms import Rule
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.refusal import Refusal, Refused, attempted
from fungrad.ir.graph import Atom, Graph, Literal
from fungrad.ir.types import Type
from fungrad.support.forks import cached_property
from fungrad.tracing.graph_trace import stage


class Traced:
    """The rule of a function of numbers.

    Args:
      name: the primitive's name.
      function: `function(*numbers)`, with NumPy's functions.
      count: the number of its arguments.
      dtype: the dtype in which it computes.
    """

    def __init__(self, name: str, function: Callable[..., Any], count: int, dtype: Any) -> None:
        self.name, self.function, self.count, self.dtype = name, function, count, np.dtype(dtype)

    @cached_property
    def graph(self) -> Graph:
        """The equations of the function.

        Raises:
          Refused: if its result is not one number of the dtype.
        """
        types = [Type((), self.dtype)] * self.count
        names = [f"argument {n}" for n in range(self.count)]
        with np.errstate(all="ignore"):
            made = stage(
                lambda *xs: [self.function(*xs)], types, names,
                lambda: f"the native form of `{self.name}`",
            )  # fmt: skip
        found = [atom.type for atom in made.outputs]
        others = [v.type for v, _ in made.constants if v.type.shape]
        if others or [(t.shape, t.dtype) for t in found] != [((), self.dtype)]:
            raise Refused(f"{self.name}, whose native form is no function of one {self.dtype} each")
        return optimised(made)

    @property
    def nanoseconds(self) -> float:
        """The estimated time of an element; 0 for a function that is refused once it is written."""
        graph = attempted(lambda: self.graph)
        return 0.0 if isinstance(graph, Refusal) else sum(map(cost, graph.equations))

    def __call__(self, code: Function, *xs: Value) -> Value:
        lanes = xs[0].lanes
        values = dict(zip(self.graph.inputs, xs, strict=True))
        for variable, number in self.graph.constants:
            values[variable] = code.constant(number, type_of(variable.type.dtype), lanes)

        def read(atom: Atom) -> Value:
            if isinstance(atom, Literal):
                return code.constant(atom.value, type_of(atom.type.dtype), lanes)
            return values[atom]

        for equation in self.graph.equations:
            found = apply_equation(code, equation, list(map(read, equation.inputs)))
            values[equation.outputs[0]] = found
        return read(self.graph.outputs[0])


def rules(name: str, function: Callable[..., Any], count: int) -> tuple[Rule, Rule]:
    """The rules of a function for both precisions."""
    double, single = (Traced(name, function, count, dtype) for dtype in (np.float64, np.float32))
    return double, single
