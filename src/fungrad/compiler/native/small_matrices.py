"""Small systems of linear equations, unrolled: Gaussian elimination with LAPACK's pivots.

Rows are exchanged by selects. A singular matrix leaves the program, so that NumPy raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fungrad.compiler.lowering.scalar.emitter import Elements, Unsupported
from fungrad.compiler.lowering.scalar.emitter import Value as Number
from fungrad.compiler.lowering.scalar.planning import Rule
from fungrad.compiler.native.element_operations import type_of
from fungrad.compiler.native.elementary_functions import FUNCTIONS
from fungrad.compiler.native.llvm_ir import Value
from fungrad.ir.graph import Equation
from fungrad.primitives.linalg.determinant import slogdet
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.primitives.movement.sliding_window import diagonal, from_diagonal

MOST = 6
"""The most unknowns of a system."""
Row = list[Value]


class _Eliminated:
    """The upper triangle of a matrix, with rows in the order of their pivots.

    Args:
      walk: the Scalariser that writes the program.
      rows: the rows of the matrix, each followed by its right-hand sides.
      count: the number of columns of the matrix.
      exchanges: whether rows are exchanged.

    Attributes:
      rows: the rows after elimination.
      sign: the sign of the permutation.
    """

    def __init__(self, walk: Any, rows: list[Row], count: int, exchanges: bool = True) -> None:
        self.code = code = walk.emitter.code
        self.rows, self.count = rows, count
        self.sign = code.constant(1, rows[0][0].type, 1)
        for k in range(count):
            for i in range(k + 1, count if exchanges else k):
                larger = code.compare("ogt", code.fabs(rows[i][k]), code.fabs(rows[k][k]))
                for n in range(k, len(rows[k])):
                    x, y = rows[k][n], rows[i][n]
                    rows[k][n], rows[i][n] = code.select(larger, y, x), code.select(larger, x, y)
                self.sign = code.select(larger, code.neg(self.sign), self.sign)
            for i in range(k + 1, count):
                factor = code.div(rows[i][k], rows[k][k])
                for n in range(k + 1, len(rows[i])):
                    rows[i][n] = code.sub(rows[i][n], code.mul(factor, rows[k][n]))
        walk.pay(walk.costs.operation * count * count * len(rows[0]))
        walk.emitter.check_length()

    def solution(self, walk: Any) -> list[Row]:
        """The solution by back substitution; a zero pivot leaves the program."""
        code, found = self.code, list[Row]()
        for k in reversed(range(self.count)):
            walk.emitter.must(code.compare("une", self.rows[k][k], 0.0))
            row = self.rows[k][self.count :]
            for j, below in zip(range(self.count - 1, k, -1), found, strict=True):
                row = [
                    code.sub(x, code.mul(self.rows[k][j], y))
                    for x, y in zip(row, below, strict=True)
                ]
            found.append([code.div(x, self.rows[k][k]) for x in row])
        return found[::-1]


def _values(walk: Any, x: Elements, type: str) -> list[Row]:
    if not 0 < len(x) <= MOST:
        raise Unsupported(f"a system of {len(x)} equations")
    return [[walk.emitter.converted(number, type) for number in row] for row in x]


def _solve(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    dtype, triangle = equation.outputs[0].type.dtype, equation.params.get("triangle", "")
    type = type_of(dtype)
    a = inputs[0]
    ahead = a.shape[:-2]
    if len(inputs) > 1:
        ahead = np.broadcast_shapes(ahead, inputs[1].shape[:-2])
        b = np.broadcast_to(inputs[1], (*ahead, *inputs[1].shape[-2:]))
        a = np.broadcast_to(a, (*ahead, *a.shape[-2:]))
    count = a.shape[-1]
    result = np.empty((*ahead, count, b.shape[-1] if len(inputs) > 1 else count), object)
    for place in np.ndindex(*ahead):
        rows = _values(walk, a[place], type)
        zero, one = (walk.emitter.code.constant(n, type, 1) for n in (0, 1))
        if triangle:
            outside = np.tri(count, k=-1) if triangle == "upper" else np.tri(count, k=-1).T
            rows = [[zero if outside[i, j] else x for j, x in enumerate(row)]
                    for i, row in enumerate(rows)]  # fmt: skip
        if len(inputs) > 1:
            right = _values(walk, b[place], type)
        else:
            right = [[one if i == j else zero for j in range(count)] for i in range(count)]
        rows = [[*x, *y] for x, y in zip(rows, right, strict=True)]
        if triangle == "lower":  # reversed to an upper triangle
            rows = [[*reversed(row[:count]), *row[count:]] for row in reversed(rows)]
        found = _Eliminated(walk, rows, count, not triangle).solution(walk)
        for i, row in enumerate(reversed(found) if triangle == "lower" else found):
            for j, x in enumerate(row):
                result[(*place, i, j)] = Number(x, dtype)
    return [result]


def _slogdet(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    (a,), code = inputs, walk.emitter.code
    dtype = equation.outputs[0].type.dtype
    signs, logs = np.empty(a.shape[:-2], object), np.empty(a.shape[:-2], object)
    for place in np.ndindex(*a.shape[:-2]):
        rows = _values(walk, a[place], type_of(dtype))
        found = _Eliminated(walk, rows, a.shape[-1])
        sign, total, singular = found.sign, None, None
        for k, row in enumerate(found.rows):
            sign = code.select(code.compare("olt", row[k], 0.0), code.neg(sign), sign)
            log = FUNCTIONS["log"](code, code.fabs(row[k]))
            total = log if total is None else code.add(total, log)
            none = code.compare("oeq", row[k], 0.0)
            singular = none if singular is None else code.binary("or", singular, none)
        assert singular is not None
        signs[place] = Number(code.select(singular, 0.0, sign), dtype)
        logs[place] = Number(code.select(singular, float("-inf"), total), dtype)
    return [signs, logs]


def _from_diagonal(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    primitive: Any = equation.primitive
    (x,) = inputs
    places = primitive.eval(np.arange(1, x.size + 1).reshape(x.shape), **equation.params)
    result = walk.zeros(equation.outputs[0].type)
    result[places > 0] = x.reshape(-1)[places[places > 0] - 1]
    return [result]


def _diagonal(walk: Any, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    return [np.diagonal(inputs[0], equation.params["offset"], -2, -1)]


RULES: Mapping[Any, Rule] = {
    solve: Rule(_solve),
    inv: Rule(_solve),
    slogdet: Rule(_slogdet),
    from_diagonal: Rule(_from_diagonal),
    diagonal: Rule(_diagonal),
}
"""Rules for matrices of up to MOST rows."""
