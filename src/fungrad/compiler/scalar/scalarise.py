"""Scalarisation: a Graph of small arrays becomes operations on numbers, one for each element.

A value of the Graph is an object array of `Number`s, so moving elements costs nothing at run time.
A Graph is planned first (planning.py), then walked once: rules call an Emitter, which writes the
program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.refusal import Refused
from fungrad.compiler.scalar.emitter import (
    INT,
    Elements,
    Number,
    Stack,
    flattened,
    shaped,
)
from fungrad.compiler.scalar.planning import Elementwise, Planner, computed_in
from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.primitives.elementwise.family import add
from fungrad.primitives.facts import ScalarForm

_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Scalariser:
    """The walk of one Graph and of all Graphs in it, by the rules and the emitter of `plans`."""

    def __init__(self, plans: Planner) -> None:
        self.plans, self.emitter, self.costs = plans, plans.emitter, plans.costs
        self.cost = 0.0
        self._weight = 1

    # --- Graphs -------------------------------------------------------------------------------

    def graph(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        """Writes the equations of a Graph, and returns its outputs.

        Args:
          graph: the Graph.
          inputs: the Elements of each input, or a Stack.
        """
        plan = self.plans.plan(graph)
        graph = plan.graph
        values: dict[Any, Any] = dict(zip(graph.inputs, inputs, strict=True))
        for variable, constant in graph.constants:
            values[variable] = self.constants(constant, variable.type)

        def read(atom: Atom) -> Any:
            if isinstance(atom, Literal):
                return self.constants(atom.value, atom.type)
            return values[atom]

        for equation, (write, long) in zip(graph.equations, plan.rules, strict=True):
            operands = [read(atom) for atom in equation.inputs]
            if not long:
                operands = [self.whole(x) for x in operands]
            values.update(zip(equation.outputs, write(self, equation, operands), strict=True))
        return [read(atom) for atom in graph.outputs]

    def repeated(self, length: int | None, write: Callable[[], None]) -> None:
        """Calls `write`, whose statements run `length` times; None if the number is unknown."""
        before = self._weight
        self._weight = before * self.plans.times(length)
        write()
        self._weight = before

    # --- values -------------------------------------------------------------------------------

    def constants(self, value: Any, type_: Any) -> Any:
        """The elements of a constant array; a Stack if it is long."""
        if type_.size > self.emitter.size and self.emitter.long_arrays:
            return self.emitter.long_constant(np.asarray(value, type_.dtype), type_)
        self.plans.check(type_)
        if type(value) is int and not _LOWEST <= value <= _HIGHEST:
            raise Refused("an integer of more than 64 bits")
        numbers = np.asarray(value, type_.dtype).reshape(-1).tolist()
        return shaped([self.emitter.constant(n, type_.dtype) for n in numbers], type_.shape)

    def zero(self, dtype: Any) -> Number:
        """The number 0 of a dtype."""
        return self.emitter.constant(dtype.type(0).item(), dtype)

    def zeros(self, type_: Any) -> Elements:
        """Zeros, as the elements of a value of a Type."""
        return np.full(type_.shape, self.zero(type_.dtype), object)

    def variables(self, type_: Any) -> Elements:
        """New variables, as the elements of a value of a Type."""
        if type_.dtype != object:  # the tape of an inner loop
            self.plans.check(type_)
        return shaped(self.emitter.variables([type_.dtype] * type_.size), type_.shape)

    def assign(self, variables: Sequence[Elements], values: Sequence[Any]) -> None:
        """Sets the variables of some values to the elements of others, all at once."""
        changed = [
            (variable, value)
            for variable, value in zip(flattened(variables), flattened(values), strict=True)
            if variable.handle != value.handle
        ]
        if changed:
            self.cost += self.costs.assign * len(changed)
            self.emitter.assign(*zip(*changed, strict=True))

    def initialised(self, values: Sequence[Any], types: Sequence[Any]) -> list[Elements]:
        """New variables, set to some values."""
        variables = [self.variables(type_) for type_ in types]
        self.assign(variables, values)
        return variables

    def whole(self, value: Any) -> Elements:
        """The elements of a value, or of a Stack if they are few."""
        if isinstance(value, np.ndarray):
            return value
        self.plans.check(value.type)
        variables = self.variables(value.type)
        before = [None] * value.start
        after = [None] * (value.rows.width - value.start - value.width)
        length = value.type.shape[value.axis]
        rows = np.moveaxis(variables, value.axis, 0).reshape(length, value.width)
        if len(rows):
            self.emitter.unpack(value.rows, [[*before, *row, *after] for row in rows])
        return variables

    # --- the rows of loops --------------------------------------------------------------------

    def reads(
        self, xs: Sequence[Any], rows: Sequence[Elements], length: int
    ) -> list[tuple[Any, list[Number | None]]]:
        """The Rows that a loop reads, each with the variables for its columns.

        None stands for a column that is not read. A column that is read twice has one variable.
        """
        items: dict[int, tuple[Any, list[Number | None]]] = {}
        for x, row in zip(xs, rows, strict=True):
            if not row.size:
                continue
            if isinstance(x, Stack):
                if x.axis:
                    raise Refused("a scan along another axis than the first")
                source, start = x.rows, x.start
            else:  # a small array
                source, start = self.emitter.table(x.reshape(length, row.size), row.size), 0
            columns = items.setdefault(id(source), (source, [None] * source.width))[1]
            for column, index in enumerate(np.ndindex(row.shape), start):
                if columns[column] is None:
                    columns[column] = row[index]
                row[index] = columns[column]
        return list(items.values())

    def stacks(self, made: Any, types: Sequence[Any]) -> list[Any]:
        """The stacks of some Types that a loop wrote: adjacent columns of the Rows `made`."""
        if made is not None:
            self.cost += made.cost  # of long stacks
        stacks: list[Any] = []
        column = 0
        for type_ in types:
            width = type_.size // max(type_.shape[0], 1)
            if width:
                stacks.append(Stack(made, type_, column, width))
            else:
                stacks.append(np.empty(type_.shape, object))
            column += width
        return stacks

    # --- operations ---------------------------------------------------------------------------

    def pay(self, cost: float) -> None:
        """Counts the cost of an operation that is written here."""
        self.cost += cost * self._weight

    def total(self, parts: Sequence[Number], operation: Any, dtype: Any) -> Number:
        """The parts combined by a primitive of two operands, one after the other."""
        result = parts[0]
        for part in parts[1:]:
            self.pay(self.costs.operation)
            result = self.emitter.apply(operation, (result, part), dtype, dtype)
        return result

    def accumulate(self, total: Elements, part: Elements, dtype: Any) -> None:
        """Adds `part` to the variables `total`, which start at 0.0."""
        pairs = zip(flattened([total]), flattened([part]), strict=True)
        sums = [self.total(pair, add, dtype) for pair in pairs]
        self.assign([total], [np.array(sums, object)])

    def checked(self, values: Elements, dtype: Any) -> list[Elements]:
        """The result of arithmetic, with its integers checked for overflow."""
        if dtype == INT:
            for value in values.reshape(-1):
                if value.number is None:
                    self.pay(self.costs.operation)
                    self.emitter.check_overflow(value)
        return [values]


def elementwise(
    walk: Scalariser, equation: Equation, inputs: list[Elements], form: ScalarForm | None = None
) -> list[Elements]:
    """Applies a primitive's scalar form, or the given one, to each element."""
    primitive: Any = equation.primitive
    emitter: Any = walk.emitter
    computed, result = computed_in(equation), equation.outputs[0].type.dtype
    spread = np.broadcast_arrays(*inputs) if len(inputs) > 1 else inputs
    rows = zip(*[x.reshape(-1) for x in spread], strict=True)
    form = form or primitive.scalar
    results = [emitter.written(form, parts, computed, result) for parts in rows]
    walk.pay((price(emitter, equation) or 0.0) * len(results))
    elements = shaped(results, spread[0].shape)
    return walk.checked(elements, result) if primitive.scalar.grows else [elements]


def price(emitter: Any, equation: Equation) -> float | None:
    """Nanoseconds of one element by the primitive's scalar form; None if it has none for these
    dtypes.
    """
    computed = computed_in(equation)
    if computed is None:
        return None
    primitive: Any = equation.primitive
    dtypes = [a.type.dtype for a in equation.inputs]
    cost: float = emitter.cost(primitive.scalar, dtypes, computed)
    return cost


FORMS = Elementwise(price, elementwise)
"""Elementwise equations by the scalar forms of their primitives, for the Python emitter."""
