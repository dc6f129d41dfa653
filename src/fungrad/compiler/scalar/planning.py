"""Plans of Graphs: how each equation is scalarised, and the cost, before a program is written.

Types and parameters tell which Graphs have no scalar program, and bound the cost of the others from
below. Most refusals happen here, before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.refusal import Refused
from fungrad.compiler.scalar.emitter import (
    BOOL,
    DTYPES,
    FLOAT,
    INT,
    Costs,
    Emitter,
)
from fungrad.ir.graph import Equation, Graph
from fungrad.support.lazy import Record

Write = Callable[[Any, Equation, list[Any]], list[Any]]
"""A rule: takes the walk, an equation and the values of its inputs; returns those of its outputs.
"""


class ElementRule(Record):
    """How a primitive that acts on elements by their position is written.

    Attributes:
      write: the rule.
      moves: whether it costs no more than a view in the program on arrays.
      long: whether inputs may be Stacks, and outputs arrays of any size.
      operations: the number of operations of an equation.
    """

    write: Write
    moves: bool = False
    long: bool = False
    operations: Callable[[Equation], int] = lambda equation: 0


class Elementwise(Record):
    """How elementwise equations are written.

    Attributes:
      price: returns the nanoseconds of one element, given an emitter and an equation; None if the
        equation is not elementwise, or cannot be written.
      write: the rule.
    """

    price: Callable[[Emitter, Equation], float | None]
    write: Write


class Structural(Record):
    """How a primitive that holds Graphs is written.

    Attributes:
      write: the rule; its inputs may be Stacks.
      bodies: returns the Graphs that the rule writes for an equation, and how often each runs (None
        if unknown).
      loop: whether a step on arrays costs time besides that of its equations.
      tape: whether it writes or reads a tape.
    """

    write: Write
    bodies: Callable[[Equation], Sequence[tuple[Graph, int | None]]]
    loop: bool = False
    tape: bool = False


class Plan(Record):
    """Facts about a Graph before it is written.

    Attributes:
      graph: the Graph, optimised.
      rules: how each of its equations is written, and whether its inputs may be Stacks.
      operations: a lower bound of the number of operations.
      cost: a lower bound of their cost in nanoseconds.
      arrays: the cost of the program on arrays.
    """

    graph: Graph
    rules: list[tuple[Write, bool]]
    operations: int
    cost: float
    arrays: float


class Planner:
    """Makes the plans of a Graph and of all Graphs in it, each once.

    Args:
      emitter: provides the cost of operations.
      elementwise: the rule of elementwise equations whose primitives have none in `rules`.
      rules: of primitives that act on elements by position (movement, reductions, contractions).
      structural: returns the Structural of a primitive; None if it holds no Graph.
      costs: see `Costs`.
    """

    def __init__(
        self,
        emitter: Emitter,
        elementwise: Elementwise,
        rules: Mapping[Any, ElementRule],
        structural: Callable[[Any], Structural | None],
        costs: Costs,
    ) -> None:
        self.structural = structural
        self.costs = costs
        self.emitter = emitter
        self._elementwise = elementwise
        self._rules = rules
        self._plans: dict[Graph, Plan] = {}

    def plan(self, graph: Graph) -> Plan:
        """The plan of a Graph.

        Raises:
          Refused: if it is too long, or an equation or a Type cannot be written.
        """
        graph = optimised(graph)
        plan = self._plans.get(graph)
        if plan is None:
            plan = self._plans[graph] = self._planned(graph)
        return plan

    def _planned(self, graph: Graph) -> Plan:
        rules: list[tuple[Write, bool]] = []
        operations, cost, arrays = 0, 0.0, 0.0
        costs, emitter = self.costs, self.emitter
        for equation in graph.equations:  # first, since plans of inner Graphs take longer
            known = self._rules.get(equation.primitive)
            if self.structural(equation.primitive) is None and not (known and known.long):
                for variable in equation.outputs:
                    self.check(variable.type, equation.primitive.name)
        for equation in graph.equations:
            primitive: Any = equation.primitive
            structural = self.structural(primitive)
            if structural is not None:
                rules.append((structural.write, True))
                for i, (body, length) in enumerate(structural.bodies(equation)):
                    inner, times = self.plan(body), self.times(length)
                    operations, cost = operations + inner.operations, cost + times * inner.cost
                    step = costs.step if structural.loop and i == 0 else 0
                    arrays += times * (inner.arrays + step)
                continue
            if not equation.outputs:  # an effect
                raise Refused(primitive.name, equation=equation)
            rule, each = self._rules.get(primitive), self._elementwise.price(emitter, equation)
            size = equation.outputs[0].type.size
            arrays += costs.movement if rule is not None and rule.moves else costs.ufunc
            if each is not None:
                rules.append(((rule or self._elementwise).write, False))
                operations, cost = operations + size, cost + size * each
            elif rule is not None and primitive.scalar is None:
                rules.append((rule.write, rule.long))
                cost += rule.operations(equation) * costs.operation
            else:
                raise Refused(primitive.name, equation=equation)
            if operations > emitter.longest:
                raise Refused("too many operations")
        return Plan(graph, rules, operations, cost, arrays)

    def times(self, length: int | None) -> int:
        """The assumed number of runs of a body; None stands for a loop of unknown length."""
        return self.costs.trips if length is None else max(length, 1)

    def check(self, type_: Any, name: str = "a value") -> None:
        """Raises Refused if a Type is not that of a small array of the emitter's dtypes."""
        if type_.dtype not in self.emitter.dtypes or type_.size > self.emitter.size:
            raise Refused(f"{name} of {type_}")


def computed_in(equation: Equation) -> Any:
    """The dtype in which numbers compute an elementwise equation as NumPy does; None if none does.

    Where NumPy computes with floats, integers are converted first: Python would compare and divide
    them exactly.
    """
    primitive: Any = equation.primitive
    scalar = primitive.scalar
    if scalar is None:
        return None
    dtypes = [a.type.dtype for a in equation.inputs]
    output = equation.outputs[0].type.dtype
    if output not in DTYPES or not all(dtype in DTYPES for dtype in dtypes):
        return None
    operands = dtypes[1:] if scalar.chooses else dtypes
    floats = output == FLOAT or FLOAT in operands
    kind = "f" if floats else "b" if BOOL in operands else "i"
    if kind not in scalar.kinds:
        return None
    return FLOAT if floats else INT if INT in operands else BOOL
