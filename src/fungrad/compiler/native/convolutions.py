"""Convolutions along the last axis as loops over results: some registers of them at a time add up
the products of adjacent elements of the longer operand with one of the shorter.

A result adds up its terms in order, by fused multiply-adds if the machine has them. Threads share
blocks of results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.element_operations import TYPES, type_of
from fungrad.compiler.native.generators import Single
from fungrad.compiler.native.kernel import Kernel, kernel_function
from fungrad.compiler.native.llvm_ir import Module, Value, size_of
from fungrad.compiler.native.machine_code import host
from fungrad.compiler.refusal import Refusal, refusal
from fungrad.ir.graph import Equation, Graph, Literal
from fungrad.primitives.contraction.convolution import convolve


def _refusal(equation: Equation) -> Refusal | None:
    """Why a convolution has no kernel: other numbers than floats, or too few results for lanes."""
    types = [a.type for a in (*equation.inputs, *equation.outputs)]
    dtype, lead = types[2].dtype, types[2].shape[:-1]
    if any(t.dtype != dtype for t in types) or TYPES.get(dtype) not in ("double", "float"):
        return refusal(f"{equation.primitive.name} of {dtype}", "dtype", equation)
    if any(isinstance(a, Literal) for a in equation.inputs):
        return refusal(f"{equation.primitive.name} of a number", equation=equation)
    if any(not t.size or t.shape[:-1] not in ((), lead) for t in types):
        return refusal(f"{equation.primitive.name} of empty or broadcast arrays", equation=equation)
    count, least = types[2].shape[-1], _lanes(types[2])
    if count < least:
        return refusal(f"{count} results", "small", equation, results=count, least=least)
    return None


def _lanes(type_: Any) -> int:
    return host().vector_bytes // size_of(type_of(type_.dtype))


def terms(equation: Equation) -> int:
    """The products of a convolution, at the most."""
    return equation.outputs[0].type.size * min(a.type.shape[-1] for a in equation.inputs)


def _numpy_ns(equation: Equation) -> float:
    """An estimate of NumPy's time for a convolution."""
    rows = math.prod(equation.outputs[0].type.shape[:-1])
    return tuned.numpy_convolution_call * rows + tuned.numpy_convolution_ns * terms(equation)


class _Convolution:
    """The loops of a convolution.

    Attributes:
      long, short: the operands, in elements along the last axis, the longer one first.
      count: the results of a row.
      edge: how many results at each end have fewer terms.
    """

    def __init__(self, graph: Graph, equation: Equation) -> None:
        self.graph, out = graph, equation.outputs[0].type
        self.type, self.width, self.count = type_of(out.dtype), _lanes(out), out.shape[-1]
        self.atoms = sorted(equation.inputs, key=lambda a: -a.type.shape[-1])
        self.long, self.short = [a.type.shape[-1] for a in self.atoms]
        self.edge = self.short - 1 if equation.params["mode"] == "full" else 0
        self.rows = math.prod(out.shape[:-1])
        self.steps = [a.type.shape[-1] if a.type.ndim > 1 else 0 for a in self.atoms]
        self.cost = tuned.convolution_ns * terms(equation)

    def kernel(self) -> Kernel:
        module = Module()
        self.code = code = kernel_function(module)
        places = [*map(self.graph.inputs.index, self.atoms), len(self.graph.inputs)]
        pointers = [code.load(code.at(code.parameters[0], n, "ptr"), "ptr", 1) for n in places]
        blocks = -(-self.count // tuned.convolution_unit)

        def unit(number: Value) -> None:
            row = code.binary("sdiv", number, blocks)
            self.x, self.y, self.out = [
                code.at(pointer, code.mul(row, step), self.type)
                for pointer, step in zip(pointers, (*self.steps, self.count), strict=True)
            ]
            low = code.mul(code.sub(number, code.mul(row, blocks)), tuned.convolution_unit)
            high = code.intrinsic("smin", [code.add(low, tuned.convolution_unit), self.count])
            self._block(low, high)

        code.for_range(code.parameters[1], code.parameters[2], unit)
        code.ret()
        return Kernel(
            module, self.graph.input_types, self.graph.output_types, units=self.rows * blocks,
            cost_ns=self.cost,
        )  # fmt: skip

    def _block(self, low: Value, high: Value) -> None:
        """The results from `low` to `high`: those at the ends one by one. The last step of a loop
        ends where the block does, and repeats results.
        """
        code, inner = self.code, self.count - 2 * self.edge
        first = code.intrinsic("smin", [code.intrinsic("smax", [low, self.edge]), high])
        last = code.intrinsic("smin", [high, self.count - self.edge])
        last = code.intrinsic("smax", [last, first])
        code.for_range(low, first, self._single)
        if inner >= self.width:
            wide = min(self.width * tuned.convolution_registers, inner)
            places = [*range(0, wide - self.width, self.width), wide - self.width]
            code.if_else(
                code.compare("sge", code.sub(last, first), wide),
                lambda: self._steps(first, last, places, wide),
                lambda: code.for_range(first, last, self._single),
            )
        else:
            code.for_range(first, last, self._single)
        code.for_range(last, high, self._single)

    def _steps(self, first: Value, last: Value, places: Sequence[int], wide: int) -> None:
        """Steps of `wide` results, whose registers begin at `places`."""
        code = self.code

        def step(i: Value) -> None:
            self._vectors(code.intrinsic("smin", [i, code.sub(last, wide)]), places)

        code.for_range(first, last, step, wide)

    def _vectors(self, i: Value, places: Sequence[int]) -> None:
        """Results that have all terms: registers of adjacent ones."""
        code, lanes = self.code, self.width
        sums = [code.variable(self.type, lanes) for _ in places]
        for total in sums:
            code.set(total, code.constant(0, self.type, lanes))
        start = code.add(i, (self.short - 1) - self.edge)

        def term(k: Value) -> None:
            factor = code.load(code.at(self.y, k, self.type), self.type, 1)
            at = code.at(self.x, code.sub(start, k), self.type)
            for place, total in zip(places, sums, strict=True):
                code.lanes = lanes
                x = code.load(code.at(at, place, self.type), self.type, lanes)
                code.set(total, code.intrinsic("fmuladd", [x, code.splat(factor), code.get(total)]))

        code.for_range(0, self.short, term)
        for place, total in zip(places, sums, strict=True):
            code.store(code.get(total), code.at(self.out, code.add(i, place), self.type))

    def _single(self, i: Value) -> None:
        """A result at an end, which has the terms that lie within the longer operand."""
        code, total = self.code, self.code.variable(self.type)
        code.set(total, code.constant(0, self.type, 1))
        low = code.intrinsic("smax", [code.sub(i, self.long - 1), 0])
        high = code.intrinsic("smin", [code.add(i, 1), self.short])

        def term(k: Value) -> None:
            x = code.load(code.at(self.x, code.sub(i, k), self.type), self.type, 1)
            y = code.load(code.at(self.y, k, self.type), self.type, 1)
            code.set(total, code.intrinsic("fmuladd", [x, y, code.get(total)]))

        code.for_range(low, high, term)
        code.store(code.get(total), code.at(self.out, i, self.type))


_KERNEL = Single(
    _refusal, lambda graph, equation: _Convolution(graph, equation).kernel(), _numpy_ns,
    constants=False, separate=True,
)  # fmt: skip
KERNELS = {convolve: _KERNEL}
