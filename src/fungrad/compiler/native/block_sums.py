"""Reductions to one number: partial results of blocks, combined in pairs.

Blocks do not depend on the number of threads, so neither do the results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fungrad.compiler.native.element_operations import TYPES, convert
from fungrad.compiler.native.llvm_ir import FLOATS, Function, Module, Value
from fungrad.compiler.native.native_forms import OPERATIONS
from fungrad.ir.graph import Atom, Equation
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import add
from fungrad.primitives.elementwise.ufuncs import maximum, minimum
from fungrad.primitives.primitive import Primitive
from fungrad.support.lazy import Record


class Joining(Record):
    """The primitive that combines two partial results, and the initial value by a Value's type."""

    operation: Primitive
    start: Callable[[str], float]


JOINING = {
    np.add: Joining(add, lambda type: 0),
    np.maximum: Joining(
        maximum, lambda type: -math.inf if type in FLOATS else -(2 ** (int(type[1:]) - 1))
    ),
    np.minimum: Joining(
        minimum, lambda type: math.inf if type in FLOATS else 2 ** (int(type[1:]) - 1) - 1
    ),
}
"""By the ufunc of a primitive's fact `reduces`."""


class Reduction(Record):
    """A reduction.

    Attributes:
      equation: a sum, maximum, minimum, or a contraction of vectors.
      joining: how two partial results are combined.
      type: the type of the values. Sums of halves along the last axis add up in single precision,
        and are rounded at their end; along other axes NumPy adds rows, and rounds each sum.
    """

    equation: Equation
    joining: Joining
    type: str

    @property
    def operation(self) -> Primitive:
        """The primitive that combines two partial results."""
        return self.joining.operation

    @property
    def operands(self) -> Sequence[Atom]:
        return self.equation.inputs

    def start(self, code: Function, lanes: int) -> Value:
        """The initial value of the operation."""
        return code.constant(self.joining.start(self.type), self.type, lanes)

    def term(self, code: Function, operands: Sequence[Value]) -> Value:
        """The contribution of an element."""
        values = [convert(code, x, self.type) for x in operands]
        return values[0] if len(values) == 1 else code.mul(*values)

    def result(self, code: Function, x: Value) -> Value:
        """The combined values as the number that the equation gives."""
        return convert(code, x, TYPES[self.equation.outputs[0].type.dtype])

    def joined(self, code: Function, x: Value, y: Value) -> Value:
        kind = "f" if self.type in FLOATS else "i"
        return OPERATIONS[self.operation].rules[kind](code, x, y)

    def add(self, code: Function, variable: Value, x: Value, counted: Value | None) -> None:
        """Combines the first lanes of a variable with a value, where it is counted."""
        if counted is not None:
            x = code.select(counted, x, self.start(code, x.lanes))
        total = code.get(variable)
        while x.lanes > total.lanes:  # of several rows
            x = self.halved(code, x)
        if x.lanes < total.lanes:
            places = [min(n, x.lanes) for n in range(total.lanes)]
            x = code.shuffled([x, self.start(code, x.lanes)], places)
        code.set(variable, self.joined(code, total, x))

    def joined_lanes(self, code: Function, x: Value) -> Value:
        """`across`, by a call: for code that runs once per unit."""
        name = f"{self.operation.name}_across_{self.type}_{x.lanes}"
        if x.lanes > 1 and name not in code.module.functions:
            given = [(x.full, "x")]
            inner = Function(code.module, name, self.type, given, attributes="internal")
            inner.ret(self.across(inner, inner.parameters[0]))
        return code.call(name, self.type, [x]) if x.lanes > 1 else x

    def across(self, code: Function, x: Value) -> Value:
        """The lanes of a value, combined by halves."""
        while x.lanes > 1:
            x = self.halved(code, x)
        return x

    def halved(self, code: Function, x: Value) -> Value:
        """The first half of the lanes, combined with the second."""
        half = x.lanes // 2
        return self.joined(code, *[code.part(x, start, half) for start in (0, half)])


def reduction(equation: Equation) -> Reduction | None:
    """The Reduction of an equation; None if it is no supported one."""
    product = equation.primitive is dot_general
    joining = JOINING.get(np.add if product else equation.primitive.reduces)
    if joining is None:
        return None
    if product:
        x, y = [atom.type for atom in equation.inputs]
        if not (x.ndim == y.ndim == 1 and x.dtype == y.dtype) or equation.outputs[0].type.ndim:
            return None
    type = TYPES.get(equation.outputs[0].type.dtype, "i1")
    if type == "half":
        type = type_of_sum(equation)
    if type == "i1":
        return None
    return Reduction(equation, joining, type)


def type_of_sum(equation: Equation) -> str:
    """The type in which a reduction combines halves; "i1" if NumPy rounds between two axes."""
    shape, axes = equation.inputs[0].type.shape, equation.params.get("axes", (0,))
    long = [axis for axis, n in enumerate(shape) if n > 1]
    reduced = [axis for axis in long if axis in axes]
    if equation.primitive.reduces is not np.add or reduced == long[len(long) - len(reduced) :]:
        return "float"
    return "half" if long[-1] not in reduced else "i1"


def by_pairs(module: Module, reduction: Reduction) -> str:
    """The name of a function `T(ptr parts, i64 count)` that combines partial results, 8 bytes
    apart, in place."""
    name = f"{reduction.operation.name}_pairs_{reduction.type}"
    if name in module.functions:
        return name
    type = reduction.type
    code = Function(module, name, type, [("ptr", "parts"), ("i64", "count")], attributes="internal")
    code.rare()
    parts, count = code.parameters
    left = code.initialised(count)

    def halve() -> None:
        now = code.get(left)
        half = code.binary("lshr", code.add(now, 1), 1)

        def join(i: Value) -> None:
            to, other = code.at(parts, i, "i64"), code.at(parts, code.add(i, half), "i64")
            x, y = code.load(to, type), code.load(other, type)
            code.store(reduction.joined(code, x, y), to)

        code.for_range(0, code.sub(now, half), join)
        code.set(left, half)

    code.while_loop(lambda: code.compare("sgt", code.get(left), 1), halve)
    code.ret(code.load(parts, type))
    return name
