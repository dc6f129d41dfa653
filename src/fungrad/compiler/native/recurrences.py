"""Cumulative sums, products and extrema, linear recurrences, and products of all elements or of all
others: along adjacent axes, one element after the other, as in NumPy.

Rows are independent of each other: along a last axis some of them run side by side, since each step
waits for the one before; along others lanes are columns. Threads share rows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs, tuned
from fungrad.compiler.native.element_operations import TYPES, convert, type_of
from fungrad.compiler.native.generators import Single, unfit
from fungrad.compiler.native.kernel import Kernel, kernel_function, kernel_of, pointers_to
from fungrad.compiler.native.llvm_ir import FLOATS, Function, Module, Value, size_of
from fungrad.compiler.native.machine_code import host
from fungrad.compiler.native.native_forms import OPERATIONS
from fungrad.compiler.refusal import Refusal, refusal
from fungrad.ir.graph import Equation, Graph
from fungrad.primitives.elementwise.family import add, mul
from fungrad.primitives.elementwise.ufuncs import maximum, minimum
from fungrad.primitives.reduction.cumulative import (
    cummax,
    cummin,
    cumprod,
    cumsum,
    linear_recurrence,
)
from fungrad.primitives.reduction.reduce import product_of_others, reduce_prod

OPERATION: Mapping[Any, Any] = {
    cumsum: add, cumprod: mul, cummax: maximum, cummin: minimum, reduce_prod: mul,
    product_of_others: mul,
}  # fmt: skip
ROUNDED_ONCE = (linear_recurrence, reduce_prod, product_of_others)
"""Those that NumPy does not compute in halves, step by step."""


def _axes(equation: Equation) -> tuple[int, ...]:
    """The axes along which the steps follow one another."""
    params = equation.params
    axes: tuple[int, ...] = params["axes"] if "axes" in params else (params["axis"],)
    return axes


def _refusal(equation: Equation) -> Refusal | None:
    """Why a recurrence along an axis has no kernel: its numbers, or it is empty."""
    axes, types = _axes(equation), set(TYPES.values())
    if equation.primitive in ROUNDED_ONCE:
        types.discard("half")
    if not axes or axes != tuple(range(axes[0], axes[-1] + 1)):
        reason = f"{equation.primitive.name} along axes that are not adjacent"
        return refusal(reason, "layout", equation)
    if equation.outputs[0].type.dtype == np.bool_:
        return refusal(f"{equation.primitive.name} of bools", "dtype", equation)
    return unfit(equation, types)


def _numpy_ns(equation: Equation) -> float:
    """An estimate of NumPy's time for a recurrence."""
    size = equation.inputs[-1].type.size
    if equation.primitive is not linear_recurrence:
        return costs.numpy_call + tuned.numpy_accumulated_ns * size
    length: int = equation.outputs[0].type.shape[equation.params["axis"]]
    return costs.numpy_call + tuned.numpy_pass_ns * size * max(1, length.bit_length())


class _Recurrence:
    """The loops of a recurrence.

    Attributes:
      length, inner: the length of its axes, and the number of elements after each of them.
      rows: the number of recurrences, or of groups of lanes of them.
      overlaps: whether the last group of lanes may compute columns of the one before again.
    """

    overlaps = True

    def __init__(self, graph: Graph, equation: Equation) -> None:
        self.graph, self.equation = graph, equation
        self.out = equation.outputs[0].type
        shape, axes = equation.inputs[-1].type.shape, _axes(equation)
        self.length = math.prod([shape[axis] for axis in axes])
        self.inner = math.prod(shape[axes[-1] + 1 :])
        self.type = type_of(self.out.dtype)
        lanes = host().vector_bytes // size_of(self.type)
        while lanes > self.inner or (self.inner % lanes and not self.overlaps):
            lanes //= 2
        self.lanes, self.groups = lanes, -(-self.inner // lanes)
        self.rows = math.prod(shape[: axes[0]]) * self.groups
        self.side = (
            tuned.recurrences_at_once
            if self.inner == 1 and self.rows >= tuned.recurrences_at_once
            else 1
        )

    def kernel(self) -> Kernel:
        module = Module()
        self.code = code = kernel_function(module)
        atoms = (*self.equation.inputs, *self.equation.outputs)
        self.pointers = pointers_to(code, self.graph, atoms)
        work = self.length * self.lanes * self.side
        per = max(1, tuned.recurrence_unit // work) * self.side
        units = -(-self.rows // per)
        _, begin, end, _ = code.parameters
        low, high = code.mul(begin, per), code.intrinsic("smin", [code.mul(end, per), self.rows])
        if self.side > 1:
            whole = code.sub(high, code.binary("srem", code.sub(high, low), self.side))
            code.for_range(low, whole, lambda row: self._row(row, self.side), self.side)
            low = whole
        code.for_range(low, high, lambda row: self._row(row, 1))
        code.ret()
        cost = tuned.recurrence_ns * self.length * self.rows / self.side
        return kernel_of(self.graph, module, units=units, cost_ns=cost)

    def _begins(self, row: Value, side: int, length: int) -> list[Value]:
        """Where some recurrences begin in an array with a number of elements along their axes."""
        code = self.code
        if self.inner == 1:
            return [code.mul(code.add(row, n), length) for n in range(side)]
        above = code.binary("sdiv", row, self.groups)
        column = code.mul(code.sub(row, code.mul(above, self.groups)), self.lanes)
        column = code.intrinsic("smin", [column, self.inner - self.lanes])
        return [code.add(code.mul(above, length * self.inner), column)]

    def _row(self, row: Value, side: int) -> None:
        """All steps of some recurrences, which begin at a row; of a product its last result."""
        code, length = self.code, self.length
        start = self._begins(row, side, length)
        states = [code.variable(self.type, self.lanes) for _ in start]
        total = self.equation.primitive is reduce_prod

        def step(i: Value, first: bool) -> None:
            place = code.sub(length - 1, i) if self.equation.params.get("reverse") else i
            at = code.mul(place, self.inner)
            for begin, state in zip(start, states, strict=True):
                xs = [self._read(n, code.add(begin, at)) for n in range(len(self.pointers) - 1)]
                y = xs[-1] if first else self._next(code.get(state), xs)
                code.set(state, y)
                if not total:
                    code.write(y, code.at(self.pointers[-1], code.add(begin, at), self.type))

        step(code.constant(0, "i64", 1), True)
        code.for_range(1, length, lambda i: step(i, False))
        for to, state in zip(self._begins(row, side, 1), states, strict=True) if total else ():
            code.write(code.get(state), code.at(self.pointers[-1], to, self.type))

    def _read(self, n: int, at: Value) -> Value:
        """The elements of an operand, of the type of the result."""
        code, type = self.code, type_of(self.equation.inputs[n].type.dtype)
        x = code.read(code.at(self.pointers[n], at, type), type, self.lanes)
        return convert(code, x, self.type)

    def _next(self, y: Value, xs: Sequence[Value]) -> Value:
        code, kind = self.code, "f" if self.type in FLOATS else "i"
        if self.equation.primitive is linear_recurrence:
            return code.add(code.mul(xs[0], y), xs[1])
        operation: Callable[[Function, Value, Value], Value]
        operation = OPERATIONS[OPERATION[self.equation.primitive]].rules[kind]
        return operation(code, y, xs[0])


class _ProductOfOthers(_Recurrence):
    """The loops of products of all other elements: those before each, then times those after it.

    The second sweep reads what the first one wrote: no other thread may write there.
    """

    overlaps = False

    def _row(self, row: Value, side: int) -> None:
        code, start = self.code, self._begins(row, side, self.length)
        states = [code.variable(self.type, self.lanes) for _ in start]

        def sweep(i: Value, back: bool) -> None:
            at = code.mul(code.sub(self.length - 1, i) if back else i, self.inner)
            for begin, state in zip(start, states, strict=True):
                here = code.add(begin, at)
                to, product = code.at(self.pointers[-1], here, self.type), code.get(state)
                code.set(state, self._next(product, [self._read(0, here)]))
                if back:
                    product = self._next(code.read(to, self.type, self.lanes), [product])
                code.write(product, to)

        for back in (False, True):
            for state in states:
                code.set(state, code.constant(1, self.type, self.lanes))
            code.for_range(0, self.length, functools.partial(sweep, back=back))


def _written(graph: Graph, equation: Equation) -> Kernel:
    """The kernel of a recurrence, or of products."""
    others = equation.primitive is product_of_others
    return (_ProductOfOthers if others else _Recurrence)(graph, equation).kernel()


_KERNEL = Single(_refusal, _written, _numpy_ns, separate=True)
KERNELS = dict.fromkeys((*OPERATION, linear_recurrence), _KERNEL)
