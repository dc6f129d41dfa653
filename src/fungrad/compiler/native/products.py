"""Products of small arrays as loop nests, which compute one tile of results at a time in registers.

A result adds up its terms in the order of the contracted axes, by fused multiply-adds if the
machine has them. Lanes run along an axis that is contiguous in an operand: one of the result, else
a contracted one, whose lanes are added up at the end.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.block_sums import JOINING, Reduction
from fungrad.compiler.native.element_operations import type_of
from fungrad.compiler.native.generators import Single, unlike
from fungrad.compiler.native.kernel import Kernel, kernel_function, kernel_of, pointers_to
from fungrad.compiler.native.llvm_ir import FLOATS, Module, Value, size_of
from fungrad.compiler.native.machine_code import host
from fungrad.compiler.refusal import Refusal, refusal
from fungrad.ir.graph import Equation, Graph
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.support.lazy import Record
from fungrad.tracing.memory_order import dense

At = Sequence[Value]
"""The pointers into both operands and the result."""


class Axis(Record):
    """An axis of a product: its length, and its strides in the operands and the result."""

    length: int
    steps: tuple[int, int, int]


class Part(Record):
    """Results of a tile: the row and column of the first, and the number of lanes."""

    row: int
    column: int
    lanes: int


def refusal_of(equation: Equation, stacked: bool = False) -> Refusal | None:
    """Why a product has no kernel: its numbers, or it is for the BLAS. Of a stack of matrices the
    products of all count, or of one of them if the BLAS would get them one by one (`stacked`).
    """
    unknown = unlike(equation, ("double", "float", "i64", "i32"))
    if unknown is not None:
        return unknown
    x, (contracted, _) = equation.inputs[0].type, equation.params["contract"]
    batch = len(equation.params["batch"][0]) if stacked else 0
    terms = math.prod([*equation.outputs[0].type.shape[batch:], *[x.shape[i] for i in contracted]])
    if terms > tuned.product_terms:
        return refusal(f"a product of {terms} terms", "long", equation, terms=terms)
    return None


class _Product:
    """The loops of a product.

    Attributes:
      row, column: the axes along which a tile extends.
      lane: the axis of lanes: the columns', or a contracted one.
      outer, contracted: the other axes.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, (equation,) = graph, graph.equations
        (x, y), out = [atom.type for atom in equation.inputs], equation.outputs[0].type
        self.type, self.equation = type_of(out.dtype), equation
        contract, batch = equation.params["contract"], equation.params["batch"]
        steps_x, steps_y, steps = map(dense, (x.shape, y.shape, out.shape))
        free = [(steps_x[i], steps_y[j]) for i, j in zip(*batch, strict=True)]
        free += [(steps_x[i], 0) for i in range(x.ndim) if i not in (*contract[0], *batch[0])]
        free += [(0, steps_y[i]) for i in range(y.ndim) if i not in (*contract[1], *batch[1])]
        found = [Axis(n, (*pair, c)) for n, pair, c in zip(out.shape, free, steps, strict=True)]
        self.outer = [axis for axis in found if axis.length != 1]
        pairs = zip(*contract, strict=True)
        summed = [Axis(x.shape[i], (steps_x[i], steps_y[j], 0)) for i, j in pairs]
        self.contracted = [axis for axis in summed if axis.length != 1]
        self.terms = math.prod([axis.length for axis in (*self.outer, *self.contracted)])
        self._choose()

    def _choose(self) -> None:
        widest, one = host().vector_bytes // size_of(self.type), Axis(1, (0, 0, 0))
        lanes = [a for a in self.outer if max(a.steps[:2]) == 1]
        lanes += [a for a in self.contracted if a.steps[:2] == (1, 1)]
        best = max(lanes, key=lambda a: (min(a.length, widest), a.steps[2] == 1), default=one)
        self.lane, self.lanes = best, min(widest, 1 << best.length.bit_length() - 1)
        self.contracted = [a for a in self.contracted if a is not best]
        rest = sorted([a for a in self.outer if a is not best], key=lambda a: a.length)
        self.across = best not in self.outer
        self.column = best if not self.across else rest.pop() if rest else one
        self.row = rest.pop() if rest else one
        self.outer = rest

    def kernel(self) -> Kernel:
        module = Module()
        self.code = code = kernel_function(module)
        at = pointers_to(code, self.graph, [*self.equation.inputs, *self.equation.outputs])
        self._nest(self.outer, at, self._rows)
        code.ret()
        cost = 5.0 + self.terms * (0.05 if self.lanes > 1 else 0.5)
        return kernel_of(self.graph, module, cost_ns=cost)

    # --- loops --------------------------------------------------------------------------------

    def _nest(self, axes: Sequence[Axis], at: At, body: Callable[[At], None]) -> None:
        """Loops along axes."""
        if not axes:
            body(at)
            return
        whole = axes[0].length
        self._along(axes[0], whole, 1, at, lambda at: self._nest(axes[1:], at, body))

    def _along(self, axis: Axis, stop: int, step: int, at: At, body: Callable[[At], None]) -> At:
        """Steps along an axis; returns the pointers to its rest."""
        if stop == step:
            body(at)
        elif stop:
            self.code.for_range(0, stop, lambda i: body(self._moved(at, axis, i)), step)
        return self._moved(at, axis, stop) if stop < axis.length else at

    def _moved(self, at: At, axis: Axis, i: int | Value) -> At:
        """The pointers, further along an axis."""
        code = self.code
        by = [i * n if isinstance(i, int) else code.binary("mul", i, n) for n in axis.steps]
        return [code.at(p, n, self.type) if m else p
                for p, n, m in zip(at, by, axis.steps, strict=True)]  # fmt: skip

    def _rows(self, at: At) -> None:
        rows = min(self.row.length, 2 if self.column.length > self.lanes else tuned.product_tile)
        full = self.row.length // rows * rows
        rest = self._along(self.row, full, rows, at, lambda at: self._columns(rows, at))
        if full < self.row.length:
            self._columns(self.row.length - full, rest)

    def _columns(self, rows: int, at: At) -> None:
        """Tiles of some rows along the columns; the last ones have fewer lanes."""
        length, lanes = self.column.length, 1 if self.across else self.lanes
        block = min(tuned.product_tile // rows, length // lanes) * lanes
        full = length // block * block
        starts = [(n, lanes) for n in range(0, block, lanes)]
        rest = self._along(self.column, full, block, at, lambda at: self._tile(rows, starts, at))
        starts, start = [], 0
        while full + start < length:
            while full + start + lanes > length:
                lanes //= 2
            starts.append((start, lanes))
            start += lanes
        if starts:
            self._tile(rows, starts, rest)

    # --- tiles --------------------------------------------------------------------------------

    def _tile(self, rows: int, columns: Sequence[tuple[int, int]], at: At) -> None:
        """Some rows and columns of the result."""
        code = self.code
        parts = [Part(r, c, self.lanes if self.across else lanes)
                 for r in range(rows) for c, lanes in columns]  # fmt: skip
        tail = self.lane.length % self.lanes if self.across else 0
        sums = [self._zero(part.lanes) for part in parts]
        tails = [self._zero(1) for _ in parts if tail]

        def add(at: At) -> None:
            if not self.across:
                self._add(parts, sums, at)
                return
            whole, step = self.lane.length - tail, self.lanes
            rest = self._along(self.lane, whole, step, at, lambda at: self._add(parts, sums, at))
            if tail:
                ones = [part._replace(lanes=1) for part in parts]
                short = self.lane._replace(length=tail)
                self._along(short, tail, 1, rest, lambda at: self._add(ones, tails, at))

        self._nest(self.contracted, at, add)
        for n, part in enumerate(parts):
            x = code.get(sums[n])
            if self.across:
                x = Reduction(self.equation, JOINING[np.add], self.type).across(code, x)
            if tail:
                x = code.add(x, code.get(tails[n]))
            self._store(x, self._pointer(at, part, 2))

    def _zero(self, lanes: int) -> Value:
        return self.code.initialised(self.code.constant(0, self.type, lanes))

    def _pointer(self, at: At, part: Part, n: int) -> Value:
        offset = part.row * self.row.steps[n] + part.column * self.column.steps[n]
        return self.code.at(at[n], offset, self.type) if offset else at[n]

    def _add(self, parts: Sequence[Part], sums: Sequence[Value], at: At) -> None:
        """Adds a term to each result of a tile; shared operands are loaded once."""
        code, known = self.code, dict[tuple[int, int, int, int], Value]()
        for part, total in zip(parts, sums, strict=True):
            pair = []
            for n in (0, 1):
                offsets = part.row * self.row.steps[n], part.column * self.column.steps[n]
                key = (n, *offsets, part.lanes)
                if key not in known:
                    lanes = part.lanes if self.lane.steps[n] else 1
                    x = code.load(self._pointer(at, part, n), self.type, lanes)
                    known[key] = code.splat(x, part.lanes)
                pair.append(known[key])
            x = code.get(total)
            if self.type in FLOATS:
                code.set(total, code.intrinsic("fmuladd", [*pair, x]))
            else:
                code.set(total, code.add(x, code.mul(*pair)))

    def _store(self, x: Value, pointer: Value) -> None:
        """Stores the lanes of a result, which need not be adjacent in memory."""
        code, step = self.code, self.column.steps[2]
        if x.lanes == 1 or step == 1:
            code.store(x, pointer)
            return
        for lane in range(x.lanes):
            code.store(code.lane(x, lane), code.at(pointer, lane * step, self.type))


def _write(graph: Graph, equation: Equation) -> Kernel:
    return _Product(graph).kernel()


KERNELS = {dot_general: Single(refusal_of, _write)}
STACKED = Single(functools.partial(refusal_of, stacked=True), _write)
"""The kernel of a stack of products of any number."""
