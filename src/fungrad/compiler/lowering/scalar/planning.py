"""Plans of Graphs: how each equation is scalarised, and what that costs, before it is written.

Types and parameters tell which Graphs have no scalar program, and a lower bound of the cost of the
others; most that are refused are refused here, before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fungrad.compiler.lowering.scalar.emitter import (
    BOOL,
    DTYPES,
    FLOAT,
    INT,
    Costs,
    Emitter,
    Unsupported,
)
from fungrad.compiler.passes.pipeline import optimised
from fungrad.ir.graph import Equation, Graph
from fungrad.support.lazy import Record

Write = Callable[[Any, Equation, list[Any]], list[Any]]
"""A rule: of the walk, an equation and what its inputs are, what its outputs are."""


class Rule(Record):
    """How a primitive that acts on elements by their position is written.

    Attributes:
      write: the rule.
      moves: whether it is a view, or nearly one, of arrays.
      long: whether inputs may be Stacks, and outputs arrays of any size.
      least: of an equation, the fewest operations that it takes if there are no zeros.
      zeros: whether it makes zeros that are known to be some.
    """

    write: Write
    moves: bool = False
    long: bool = False
    least: Callable[[Equation], int] = lambda equation: 0
    zeros: bool = False


class Elementwise(Record):
    """How equations are written that do the same to each element.

    Attributes:
      price: of an emitter and an equation the nanoseconds of one element; None where it is no such
        equation, or one that cannot be written.
      write: the rule.
    """

    price: Callable[[Emitter, Equation], float | None]
    write: Write


class Structural(Record):
    """How a primitive that holds Graphs is written.

    Attributes:
      write: the rule; its inputs may be Stacks.
      bodies: of an equation the Graphs that the rule writes, and how often each is run; None where
        that is not known.
      loop: whether a step of it costs time on arrays besides its equations.
      zeros: whether it may put zeros that are known to be some into its bodies or results.
    """

    write: Write
    bodies: Callable[[Equation], Sequence[tuple[Graph, int | None]]]
    loop: bool = False
    zeros: bool = False


class Plan(Record):
    """Facts about a Graph before it is written.

    Attributes:
      graph: the Graph, optimised.
      rules: how each of its equations is written, and whether its inputs may be Stacks.
      operations: a lower bound of the number of operations.
      cost: a lower bound of their cost, in nanoseconds; that of `sums` comes to it where no zeros
        that a scatter left can save them.
      sums: see `cost`.
      zeros: whether there may be such zeros.
      arrays: what the program on arrays would cost.
    """

    graph: Graph
    rules: list[tuple[Write, bool]]
    operations: int
    cost: float
    sums: float
    zeros: bool
    arrays: float


class Planner:
    """Makes the plans of a Graph and of all Graphs in it, each once.

    Args:
      emitter: tells the cost of operations.
      elementwise: of equations whose primitives may have no rule of their own.
      rules: of primitives that act on elements by position (movement, reductions, contractions).
      structural: of a primitive its Structural, None where it holds no Graph.
      costs: see `Costs`.
    """

    def __init__(
        self,
        emitter: Emitter,
        elementwise: Elementwise,
        rules: Mapping[Any, Rule],
        structural: Callable[[Any], Structural | None],
        costs: Costs,
    ) -> None:
        self.structural = structural
        self._costs = costs
        self._emitter = emitter
        self._elementwise = elementwise
        self._rules = rules
        self._plans: dict[int, Plan] = {}

    def plan(self, graph: Graph) -> Plan:
        """The plan of a Graph.

        Raises:
          Unsupported: where it is too long, or has what cannot be written.
        """
        graph = optimised(graph)
        found = self._plans.get(id(graph))
        if found is None:
            found = self._plans[id(graph)] = self._planned(graph)
        return found

    def _planned(self, graph: Graph) -> Plan:
        rules: list[tuple[Write, bool]] = []
        operations, cost, sums, zeros, arrays = 0, 0.0, 0.0, False, 0.0
        costs, emitter = self._costs, self._emitter
        for equation in graph.equations:  # at once: the Graphs that others hold take longer
            known = self._rules.get(equation.primitive)
            if self.structural(equation.primitive) is None and not (known and known.long):
                for variable in equation.outputs:
                    self.check(variable.type, equation.primitive.name)
        for equation in graph.equations:
            primitive: Any = equation.primitive
            structural = self.structural(primitive)
            if structural is not None:
                rules.append((structural.write, True))
                zeros = zeros or structural.zeros
                for i, (body, length) in enumerate(structural.bodies(equation)):
                    inner, times = self.plan(body), self.times(length)
                    operations, zeros = operations + inner.operations, zeros or inner.zeros
                    cost, sums = cost + times * inner.cost, sums + times * inner.sums
                    step = costs.step if structural.loop and i == 0 else 0
                    arrays += times * (inner.arrays + step)
                continue
            if not equation.outputs:  # an effect
                raise Unsupported(primitive.name)
            rule, each = self._rules.get(primitive), self._elementwise.price(emitter, equation)
            size = equation.outputs[0].type.size
            arrays += costs.movement if rule is not None and rule.moves else costs.ufunc
            zeros = zeros or (rule is not None and rule.zeros)
            if each is not None:
                rules.append(((rule or self._elementwise).write, False))
                if primitive.name in ("add", "sub"):
                    sums += size * each
                else:
                    operations, cost = operations + size, cost + size * each
            elif rule is not None and primitive.scalar is None:
                rules.append((rule.write, rule.long))
                sums += rule.least(equation) * costs.operation
            else:
                raise Unsupported(primitive.name)
            if operations > emitter.longest:
                raise Unsupported("too long")
        return Plan(graph, rules, operations, cost, sums, zeros, arrays)

    def times(self, length: int | None) -> int:
        """How often a body is run; None stands for a loop of unknown length."""
        return self._costs.trips if length is None else max(length, 1)

    def check(self, type_: Any, name: str = "a value") -> None:
        """Refuses what is not a small array of the dtypes that programs on numbers have."""
        if type_.dtype not in self._emitter.dtypes or type_.size > self._emitter.size:
            raise Unsupported(f"{name} of {type_}")


def computed_in(equation: Equation) -> Any:
    """The dtype in which numbers do what an elementwise equation does; None where none does.

    Where NumPy computes with floats, integers are made floats first: as they are, they would be
    compared and divided exactly.
    """
    primitive: Any = equation.primitive
    scalar = primitive.scalar
    if scalar is None:
        return None
    dtypes = [a.type.dtype for a in equation.inputs]
    output = equation.outputs[0].type.dtype
    if output not in DTYPES or not all(dtype in DTYPES for dtype in dtypes):
        return None
    operands = dtypes[1:] if scalar.operation == "select" else dtypes
    floats = output == FLOAT or FLOAT in operands
    kind = "f" if floats else "b" if BOOL in operands else "i"
    if kind not in scalar.kinds:
        return None
    return FLOAT if floats else INT if INT in operands else BOOL
