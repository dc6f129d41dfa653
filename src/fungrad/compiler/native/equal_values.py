"""Which eigenvalues or singular values are equal, and what does not belong to their vectors.

See `primitives/linalg/spectra.py`. Cotangents of vectors of equal values leave the program to NumPy
if they are larger than rounding errors: it examines them, and warns.
"""

from __future__ import annotations

import numpy as np

from fungrad.compiler.native.factorisations import Writer, beside
from fungrad.compiler.native.llvm_ir import Operand, Value
from fungrad.ir.graph import Equation
from fungrad.primitives.linalg.spectra import apart, coincide, shares
from fungrad.support.rules import Rules

RULES = Rules()


def _eps(equation: Equation) -> float:
    return float(np.finfo(equation.inputs[0].type.dtype).eps)


@RULES.rule(coincide)
def _coincide(made: Writer, opposite: bool) -> None:
    code, (w,), out = made.code, made.inputs, made.output
    n = made.rows
    size = made.largest(1, n, lambda i, j: code.fabs(made.get(w, i, j)))
    limit = code.mul(size, 4 * n * _eps(made.equation))
    made.terms += 2.0 * n * n

    def row(i: Value) -> None:
        mine = made.get(w, 0, i)
        mine = code.neg(mine) if opposite else mine

        def store(j: Value) -> None:
            gap = code.fabs(code.sub(made.get(w, 0, j), mine))
            same = code.convert("zext", code.compare("ole", gap, limit), "i8")
            code.store(same, code.at(out.pointer, code.add(code.mul(i, n), j)))

        code.for_range(0, n, store)

    code.for_range(0, n, row)


@RULES.rule(shares)
def _shares(made: Writer) -> None:
    code, (w,), out = made.code, made.inputs, made.output
    n, unit = made.rows, 4 * made.rows * _eps(made.equation)
    made.terms += 6.0 * n * n

    def row(i: Value) -> None:
        mine = made.get(w, 0, i)
        count = code.initialised(code.constant(0.0, "double"))

        def same(j: Value) -> Value:
            other = made.get(w, 0, j)
            one, two = code.fabs(mine), code.fabs(other)
            size = code.select(code.compare("ogt", one, two), one, two)
            near = code.compare("ole", code.fabs(code.sub(mine, other)), code.mul(size, unit))
            return code.select(near, code.constant(1.0, "double"), 0.0)

        code.for_range(0, n, lambda j: code.set(count, code.add(code.get(count), same(j))))
        total = code.get(count)
        code.for_range(0, n, lambda j: made.put(out, i, j, code.div(same(j), total)))

    code.for_range(0, n, row)


@RULES.rule(apart)
def _apart(made: Writer, values: str, strict: bool) -> None:
    code, (x, same, _), out = made.code, made.inputs, made.output
    (rows, columns), shape = made.equation.outputs[0].type.shape, made.equation.inputs[1].type.shape
    size = made.largest(rows, columns, lambda i, j: code.fabs(made.get(x, i, j)))
    limit = code.mul(size, 1e3 * columns * _eps(made.equation))
    seen = code.initialised(code.constant(0, "i64"))
    made.terms += 3.0 * rows * columns

    def place(i: Operand, j: Operand) -> Value:
        row, column = [k if length > 1 else 0 for k, length in zip((i, j), shape, strict=True)]
        index = code.add(code.mul(code.of(row, "i64", 1), shape[1]), code.of(column, "i64", 1))
        return code.compare("ne", code.load(code.at(same.pointer, index), "i8"), 0)

    def store(i: Value, j: Value) -> None:
        number, equal = made.get(x, i, j), place(i, j)
        pair = equal
        if shape[0] == shape[1]:
            pair = code.binary("and", equal, code.compare("ne", i, j))
        large = code.binary("and", pair, code.compare("ogt", code.fabs(number), limit))
        code.set(seen, code.select(large, 1, code.get(seen)))
        made.put(out, i, j, code.select(equal, 0.0, number))

    made.each(rows, columns, store)
    made.must(code.compare("eq", code.get(seen), 0))


KERNELS = beside(RULES)
