"""Convolutions along last axes as loops, in one of two forms: some registers of adjacent results at
a time add up the products of adjacent elements of the longer operand with one of the shorter; or,
where there are few results of many terms each, lanes run along the terms.

Fused multiply-adds add up the terms, if the machine has them: those of a result in order, or those
of a lane in order within each row. Threads share rows of results, and blocks of long ones. Elements
beyond the ends of an operand take no part, so that 0 * inf does not occur there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.block_sums import JOINING, Reduction
from fungrad.compiler.native.element_operations import type_of
from fungrad.compiler.native.generators import Single, unlike
from fungrad.compiler.native.kernel import Kernel, kernel_function, kernel_of, pointers_to
from fungrad.compiler.native.llvm_ir import FLOATS, Module, Value, size_of
from fungrad.compiler.native.machine_code import host
from fungrad.compiler.refusal import Refusal
from fungrad.ir.graph import Atom, Equation, Graph
from fungrad.ir.types import Type
from fungrad.primitives.contraction.convolution import convolve_nd, cost_of_convolution
from fungrad.tracing.memory_order import dense


def _refusal(equation: Equation) -> Refusal | None:
    """Why a convolution has no kernel: other numbers than floats, or none at all."""
    return unlike(equation, FLOATS[:2])


Sizes = tuple[int, ...]


def _lead(equation: Equation, type_: Type) -> Sizes:
    """The axes of an operand before those of the convolution."""
    return type_.shape[: type_.ndim - equation.params["axes"]]


def _terms(equation: Equation) -> int:
    """The products of a convolution."""
    return cost_of_convolution(equation) // 2


def _numpy_ns(equation: Equation) -> float:
    """An estimate of NumPy's time for a convolution."""
    rows = math.prod(_lead(equation, equation.outputs[0].type))
    return tuned.numpy_convolution_call * rows + tuned.numpy_convolution_ns * _terms(equation)


def _lanes(length: int, type_: Type) -> int:
    """The lanes of a register, at most those that a length fills."""
    return min(host().vector_bytes // size_of(type_of(type_.dtype)), 1 << length.bit_length() - 1)


def _steps(lead: Sizes, result: Sizes, item: int) -> Sizes:
    """The strides of an operand of items along the axes of the result before them."""
    along = zip(lead, dense(lead), strict=True)
    found = [item * step if length > 1 else 0 for length, step in along]
    return (*[0] * (len(result) - len(lead)), *found)


Body = Callable[[Value, Value], None]
"""Writes what is done with a row of the longer operand and one of the shorter, by pointers."""


class _Convolution:
    """The loops of a convolution.

    Attributes:
      longs, shorts: the lengths of the operands, the one with the longer last axis first.
      counts: the lengths of the results.
      lead, steps: the axes before those of the convolution, and the operands' strides along them.
      edge: how many results at each end of a row have fewer terms.
      across: whether lanes run along the terms.
    """

    def __init__(self, graph: Graph, equation: Equation) -> None:
        self.graph, self.equation, out = graph, equation, equation.outputs[0].type
        axes, self.type = equation.params["axes"], type_of(out.dtype)
        self.atoms: list[Atom] = sorted(equation.inputs, key=lambda a: -a.type.shape[-1])
        lengths = [a.type.shape[a.type.ndim - axes :] for a in (*self.atoms, *equation.outputs)]
        self.longs, self.shorts, self.counts = lengths
        self.long, self.short, self.count = [n[-1] for n in lengths]
        self.full = equation.params["mode"] == "full"
        self.edge = self.short - 1 if self.full else 0
        few = self.count <= 2 * tuned.convolution_registers
        self.across = not self.full and few and self.count < self.short
        self.width = _lanes(self.short if self.across else self.count, out)
        self.rows = out.size // self.count
        self.lead = _lead(equation, out)
        self.steps = [_steps(_lead(equation, a.type), self.lead, math.prod(n))
                      for a, n in zip(self.atoms, lengths, strict=False)]  # fmt: skip

    def kernel(self) -> Kernel:
        module = Module()
        self.code = code = kernel_function(module)
        pointers = pointers_to(code, self.graph, [*self.atoms, *self.equation.outputs])
        size = self.count if self.across else tuned.convolution_unit
        blocks = -(-self.count // size)

        def unit(number: Value) -> None:
            row, block = self._divided(number, blocks)
            rest, self.index = row, list[Value]()
            for length in reversed(self.counts[:-1]):
                rest, i = self._divided(rest, length)
                self.index.insert(0, i)
            items = [code.constant(0, "i64", 1) for _ in self.atoms]
            for axis in reversed(range(len(self.lead))):
                rest, i = self._divided(rest, self.lead[axis])
                items = [code.add(item, code.mul(i, steps[axis])) if steps[axis] else item
                         for item, steps in zip(items, self.steps, strict=True)]  # fmt: skip
            self.x, self.y, self.out = [
                code.at(pointer, item, self.type)
                for pointer, item in zip(pointers, (*items, code.mul(row, self.count)), strict=True)
            ]
            if self.across:
                self._sums_across()
                return
            low = code.mul(block, size)
            self._block(low, code.intrinsic("smin", [code.add(low, size), self.count]))

        code.for_range(code.parameters[1], code.parameters[2], unit)
        code.ret()
        cost = tuned.convolution_ns * _terms(self.equation)
        return kernel_of(self.graph, module, units=self.rows * blocks, cost_ns=cost)

    def _divided(self, number: Value, by: int) -> tuple[Value, Value]:
        """The quotient and the remainder."""
        code = self.code
        if by == 1:
            return number, code.constant(0, "i64", 1)
        quotient = code.binary("sdiv", number, by)
        return quotient, code.sub(number, code.mul(quotient, by))

    def _each_row(self, body: Body) -> None:
        """The rows of both operands that have terms of a row of results."""
        code, steps = self.code, [dense(self.longs), dense(self.shorts)]

        def along(axis: int, x: Value, y: Value) -> None:
            if axis == len(self.index):
                body(x, y)
                return
            i, n, m = self.index[axis], self.longs[axis], self.shorts[axis]
            low, high, start = code.constant(0, "i64", 1), code.constant(m, "i64", 1), i
            if self.full:
                low = code.intrinsic("smax", [code.sub(i, n - 1), 0])
                high = code.intrinsic("smin", [code.add(i, 1), m])
            else:
                start = code.add(i, m - 1)

            def term(k: Value) -> None:
                far = code.mul(code.sub(start, k), steps[0][axis])
                near = code.mul(k, steps[1][axis])
                along(axis + 1, code.at(x, far, self.type), code.at(y, near, self.type))

            code.for_range(low, high, term)

        along(0, self.x, self.y)

    # --- lanes along results ------------------------------------------------------------------

    def _block(self, low: Value, high: Value) -> None:
        """The results from `low` to `high` of a row. The last step of a loop ends where the row
        does, and repeats results, with the same digits.
        """
        code, inner, most = self.code, self.count - 2 * self.edge, tuned.convolution_registers
        first = code.intrinsic("smin", [code.intrinsic("smax", [low, self.edge]), high])
        last = code.intrinsic("smin", [high, self.count - self.edge])
        last = code.intrinsic("smax", [last, first])

        def ends(low: Value, high: Value) -> None:
            def step(i: Value) -> None:
                self._results(
                    code.intrinsic("smin", [i, self.count - self.width]), [0], ends=self.edge > 0
                )

            code.for_range(low, high, step, self.width)

        ends(low, first)
        if inner >= self.width:
            registers = -(-inner // self.width)
            steps = -(-registers // most)
            wide = min(-(-registers // steps) * self.width, inner)
            places = [*range(0, wide - self.width, self.width), wide - self.width]

            def step(i: Value) -> None:
                self._results(code.intrinsic("smin", [i, code.sub(last, wide)]), places)

            code.if_else(
                code.compare("sge", code.sub(last, first), wide),
                lambda: code.for_range(first, last, step, wide),
                lambda: ends(first, last),
            )
        else:
            ends(first, last)
        ends(last, high)

    def _results(self, i: Value, places: Sequence[int], ends: bool = False) -> None:
        """Registers of adjacent results, which begin at `places`; those with all terms, or, with
        `ends`, any.
        """
        code, lanes, sums = self.code, self.width, self._zeros(len(places))
        start = code.add(i, (self.short - 1) - self.edge)
        low, high = code.constant(0, "i64", 1), code.constant(self.short, "i64", 1)
        if ends:
            low = code.intrinsic("smax", [code.sub(start, self.long - 1), low])
            high = code.intrinsic("smin", [code.add(start, lanes), high])

        def row(x: Value, y: Value) -> None:
            def term(k: Value) -> None:
                factor = code.load(code.at(y, k, self.type), self.type, 1)
                at, factor = code.sub(start, k), code.splat(factor, lanes)
                for place, total in zip(places, sums, strict=True):
                    pointer = code.at(code.at(x, at, self.type), place, self.type)
                    if not ends:
                        self._add(total, code.load(pointer, self.type, lanes), factor)
                        continue
                    index = code.add(code.splat(at, lanes), code.add(code.iota(lanes), place))
                    within = code.compare("ult", index, self.long)
                    self._add(total, code.load_where(within, pointer, self.type), factor, within)

            code.for_range(low, high, term)

        self._each_row(row)
        for place, total in zip(places, sums, strict=True):
            code.store(code.get(total), code.at(self.out, code.add(i, place), self.type))

    def _zeros(self, count: int) -> list[Value]:
        """Variables of registers, with zeros."""
        zero = self.code.constant(0, self.type, self.width)
        return [self.code.initialised(zero) for _ in range(count)]

    def _add(self, total: Value, x: Value, y: Value, where: Value | None = None) -> None:
        """Adds x * y to a variable, in the lanes of a mask."""
        code, before = self.code, self.code.get(total)
        after = code.intrinsic("fmuladd", [x, y, before])
        code.set(total, after if where is None else code.select(where, after, before))

    # --- lanes along terms --------------------------------------------------------------------

    def _sums_across(self) -> None:
        """A row of results: some at a time."""
        chunks = -(-self.count // tuned.convolution_registers)
        for number in range(chunks):
            stop = self.count * (number + 1) // chunks
            self._few([*range(self.count * number // chunks, stop)])

    def _few(self, results: Sequence[int]) -> None:
        """Some results, each of which is a sum along the terms of all rows. A row's terms are added
        up first, so that rounding grows with the length of a row, and with the rows.
        """
        code, lanes = self.code, self.width
        totals = self._zeros(len(results))
        whole, rest = divmod(self.short, lanes)

        def row(x: Value, y: Value) -> None:
            sums = self._zeros(len(results))

            def step(k: Value, where: Value | None = None) -> None:
                factors = code.reverse(code.load(code.at(y, k, self.type), self.type, lanes))
                at = code.at(x, code.sub(self.short - lanes, k), self.type)
                for i, total in zip(results, sums, strict=True):
                    x_part = code.load(code.at(at, i, self.type), self.type, lanes)
                    self._add(total, x_part, factors, where)

            code.for_range(0, whole * lanes, step, lanes)
            if rest:  # the last terms; the lanes above are added up before
                new = code.compare("slt", code.iota(lanes), rest)
                step(code.constant(self.short - lanes, "i64", 1), new)
            for total, part in zip(totals, sums, strict=True):
                code.set(total, code.add(code.get(total), code.get(part)))

        self._each_row(row)
        for i, total in zip(results, totals, strict=True):
            joined = Reduction(self.equation, JOINING[np.add], self.type)
            code.store(joined.across(code, code.get(total)), code.at(self.out, i, self.type))


_KERNEL = Single(
    _refusal, lambda graph, equation: _Convolution(graph, equation).kernel(), _numpy_ns,
    separate=True,
)  # fmt: skip
KERNELS: dict[Any, Single] = {convolve_nd: _KERNEL}
