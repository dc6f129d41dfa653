"""Factorisations of matrices of up to some dozen rows, as loops over their rows.

A factorisation changes a copy of the matrix in scratch memory, in double precision as NumPy's.
Its rows are whole vectors: what an update writes beside its columns is not read again. What has no
solution leaves the program to NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.block_sums import JOINING, Reduction
from fungrad.compiler.native.element_operations import convert, type_of
from fungrad.compiler.native.element_values import transposed
from fungrad.compiler.native.elementary_functions import FUNCTIONS
from fungrad.compiler.native.generators import Single, unfit
from fungrad.compiler.native.kernel import GIVEN_UP, Kernel, kernel_function, kernel_of, pointers_to
from fungrad.compiler.native.llvm_ir import Module, Operand, Value, size_of
from fungrad.compiler.native.machine_code import host
from fungrad.compiler.native.scratch_layout import whole_lines
from fungrad.compiler.refusal import Refusal, refusal
from fungrad.ir.graph import Equation, Graph, Literal
from fungrad.primitives.elementwise.ufuncs import exp, log
from fungrad.primitives.facts import work_of
from fungrad.primitives.linalg.cholesky_pullback import cholesky_pullback
from fungrad.primitives.linalg.cholesky_qr import cholesky, hermitian_weights
from fungrad.primitives.linalg.determinant import SINGULAR, cofactors, det, slogdet
from fungrad.primitives.linalg.finite import finite
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.primitives.movement.diagonal_roll import from_diagonal
from fungrad.support.rules import Rules

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


_TILE = 8
"""Columns that are transposed together: a line of memory."""
RULES = Rules()
"""What writes a factorisation, or the solution of equations."""
LIGHT = Rules()
"""What writes that which stands beside them."""


def _refusal(equation: Equation) -> Refusal | None:
    """Why a factorisation of one matrix, or a system of equations, has no kernel."""
    unknown = unfit(equation, ("double", "float"))
    if unknown is not None:
        return unknown
    if any(a.type.ndim > 2 for a in (*equation.inputs, *equation.outputs)):
        return refusal("a stack of matrices", equation=equation)
    rows = max([n for a in equation.inputs for n in a.type.shape])
    most = math.inf if substitutes(equation) else tuned.factor_rows
    if not tuned.unrolled_rows < rows <= most:
        return refusal(f"a matrix of {rows} rows or columns", "long", equation, rows=rows)
    return None


def factorised(equation: Equation) -> bool:
    """Whether an equation is a factorisation of a matrix of suitable size, or of a stack."""
    shapes = [a.type.shape for a in equation.inputs]
    most = math.inf if substitutes(equation) else tuned.factor_rows
    return equation.primitive in RULES and all(
        tuned.unrolled_rows < shape[-2] <= most for shape in shapes
    )


def substitutes(equation: Equation) -> bool:
    """Whether an equation is a triangular system with one column: the matrix is read once."""
    alone = equation.primitive is solve and equation.inputs[1].type.shape[-1] == 1
    return alone and bool(equation.params["triangle"])


def terms(equation: Equation) -> float:
    """Roughly the multiplications of a factorisation."""
    work = work_of(equation)
    if work is not None:
        return work.flops / 2
    shapes = [a.type.shape for a in equation.inputs]
    return max(math.prod(shape) * max(1, *shape[-1:]) for shape in shapes) / 2


class Matrix:
    """A matrix in memory.

    Attributes:
      pointer: that to its first element.
      width: the elements between two rows.
      type: the type of its elements.
      lanes: the most lanes of a vector that divide the width.
      turned: whether it is in Fortran's order: a row in memory is one of its columns.
    """

    def __init__(
        self, pointer: Value, width: int, type: str = "double", lanes: int = 1, turned: bool = False
    ) -> None:
        self.pointer, self.width, self.type, self.lanes = pointer, width, type, lanes
        self.turned = turned

    @property
    def transpose(self) -> Matrix:
        """Its transpose, in the same memory."""
        return Matrix(self.pointer, self.width, self.type, self.lanes, not self.turned)


class Writer:
    """The function of a factorisation."""

    def __init__(self, graph: Graph, equation: Equation) -> None:
        self.graph, self.equation = graph, equation
        self.code = code = kernel_function(Module(), "i32")
        self.widest = host().vector_bytes // 8
        self.scratch = 0
        self.terms = 0.0

        def given(atom: Any) -> Matrix:
            (pointer,) = pointers_to(code, graph, [atom])
            width = atom.type.shape[-1] if atom.type.ndim else 1
            return Matrix(pointer, width, type_of(atom.type.dtype))

        self.inputs = [given(a) for a in equation.inputs if not isinstance(a, Literal)]
        self.outputs = [given(a) if a in graph.outputs else None for a in equation.outputs]
        self.rows = (*equation.inputs[0].type.shape, 1)[0]

    @property
    def output(self) -> Matrix:
        """The one output."""
        (found,) = self.outputs
        assert found is not None
        return found

    def kernel(self, rules: Rules) -> Kernel:
        """The kernel by one of some rules."""
        rules[self.equation.primitive](self, **self.equation.params)
        return self.finished()

    def finished(self) -> Kernel:
        """The kernel of what is written."""
        code = self.code
        code.ret(code.constant(0, "i32"))
        cost = 20.0 + tuned.factor_term_ns * self.terms
        return kernel_of(self.graph, code.module, scratch=self.scratch, cost_ns=cost,
                         interruptible=True)  # fmt: skip

    # --- elements ---------------------------------------------------------------------------------

    def at(self, x: Matrix, row: Operand, column: Operand) -> Value:
        code = self.code
        row, column = (column, row) if x.turned else (row, column)
        index = code.add(code.mul(code.of(row, "i64", 1), x.width), column)
        return code.at(x.pointer, index, x.type)

    def get(self, x: Matrix, row: Operand, column: Operand) -> Value:
        return convert(self.code, self.code.load(self.at(x, row, column), x.type), "double")

    def put(self, x: Matrix, row: Operand, column: Operand, value: Operand) -> None:
        value = self.code.of(value, "double", 1)
        self.code.store(convert(self.code, value, x.type), self.at(x, row, column))

    def memory(self, count: int) -> Value:
        """The pointer to so many new numbers."""
        found = self.code.at(self.code.parameters[3], self.scratch)
        self.scratch += whole_lines(8 * count)
        return found

    def room(self, columns: int) -> Matrix:
        """A new matrix of zeros."""
        lanes = min(self.widest, 1 << (columns - 1).bit_length())
        width = -(-columns // lanes) * lanes
        code = self.code
        made = Matrix(code.at(code.parameters[3], self.scratch), width, "double", lanes)
        self.scratch += whole_lines(8 * width * self.rows)
        zero = code.constant(0, "double", lanes)

        def clear(i: Value) -> None:
            code.store(zero, code.at(made.pointer, i, "double"))

        code.for_range(0, width * self.rows, clear, lanes)
        return made

    def each(self, rows: Operand, columns: Callable[[Value], tuple[Operand, Operand]] | int,
             body: Callable[[Value, Value], None]) -> None:  # fmt: skip
        """`body(i, j)` for each row, and each column of its range."""

        def row(i: Value) -> None:
            start, stop = (0, columns) if isinstance(columns, int) else columns(i)
            self.code.for_range(start, stop, lambda j: body(i, j))

        self.code.for_range(0, rows, row)

    def largest(self, rows: int, columns: int, of: Callable[[Value, Value], Value]) -> Value:
        """The largest of numbers that are not NaN, or 0."""
        code = self.code
        found = code.initialised(code.constant(0.0, "double"))

        def compare(i: Value, j: Value) -> None:
            x, now = of(i, j), code.get(found)
            code.set(found, code.select(code.compare("ogt", x, now), x, now))

        self.each(rows, columns, compare)
        return code.get(found)

    def largest_sum(self, x: Matrix) -> Value:
        """The largest sum of the sizes of a column."""
        code, n, lanes = self.code, self.rows, self.widest
        largest = code.initialised(code.constant(0.0, "double"))

        def compare(total: Value) -> None:
            more = code.compare("ogt", total, code.get(largest))
            code.set(largest, code.select(more, total, code.get(largest)))

        def of_columns(start: Value) -> None:
            sums = code.initialised(code.constant(0.0, "double", lanes))
            inside = self.lanes_below(code.sub(n, start))

            def add(i: Value) -> None:
                numbers = code.load_where(inside, self.at(x, i, start), x.type)
                size = code.fabs(convert(code, numbers, "double"))
                code.set(sums, code.add(code.get(sums), size))

            code.for_range(0, n, add)
            for lane in range(lanes):
                compare(code.lane(code.get(sums), lane))

        if x.turned:
            rows = x.transpose
            code.for_range(0, n, lambda i: compare(
                self.row_sum(0, n, lambda get: code.fabs(get(rows, i)))))  # fmt: skip
        else:
            code.for_range(0, n, of_columns, lanes)
        return code.get(largest)

    def tiles(self, rows: int, columns: int, body: Callable[[Value, Value], None]) -> None:
        """`body(i, j)` for each element, some columns at a time."""
        code = self.code

        def tile(start: Value) -> None:
            stop = code.add(start, _TILE)
            stop = code.select(code.compare("slt", stop, columns), stop, columns)
            code.for_range(0, rows, lambda i: code.for_range(start, stop, lambda j: body(i, j)))

        code.for_range(0, columns, tile, _TILE)

    def copy(self, x: Matrix, columns: int) -> Matrix:
        """A copy that may be changed."""
        made = self.room(columns)
        self.fill(made, x, self.rows, columns)
        return made

    def fill(self, to: Matrix, x: Matrix, rows: int, columns: int) -> None:
        """Writes the elements of a matrix into another one."""
        if x.turned:
            self.fill(to.transpose, x.transpose, columns, rows)
        elif to.turned:
            self.turn(to, x, rows, columns)
        elif to.type == x.type and to.width == x.width == columns:
            self.code.copy(to.pointer, x.pointer, size_of(x.type) * rows * columns)
        else:
            self.each(rows, columns, lambda i, j: self.put(to, i, j, self.get(x, i, j)))

    def turn(self, to: Matrix, x: Matrix, rows: int, columns: int) -> None:
        """The same into a turned matrix: by squares of vectors, a line of memory at a time."""
        code, lanes = self.code, self.widest
        high, wide = rows - rows % lanes, columns - columns % _TILE if rows >= lanes else 0

        def square(i: Value, j: Value) -> None:
            given = [code.load(self.at(x, code.add(i, n), j), x.type, lanes) for n in range(lanes)]
            both = transposed(code, [convert(code, row, to.type) for row in given])
            for n in range(lanes):
                code.store(code.part(both, n * lanes, lanes), self.at(to, i, code.add(j, n)))

        def line(i: Value, j: Value) -> None:
            for n in range(0, _TILE, lanes):
                square(i, code.add(j, n))

        def one(i: Value, j: Value) -> None:
            self.put(to, i, j, self.get(x, i, j))

        if wide:
            code.for_range(
                0, wide, lambda j: code.for_range(0, high, lambda i: line(i, j), lanes), _TILE
            )
        if wide < columns:
            code.for_range(wide, columns, lambda j: code.for_range(0, rows, lambda i: one(i, j)))
        if wide and high < rows:
            code.for_range(high, rows, lambda i: code.for_range(0, wide, lambda j: one(i, j)))

    def lower(self, x: Matrix) -> Matrix:
        """A copy of the lower triangle."""
        made = self.room(self.rows)
        self.each(self.rows, lambda i: (0, self.code.add(i, 1)),
                  lambda i, j: self.put(made, i, j, self.get(x, i, j)))  # fmt: skip
        return made

    def backwards(self, body: Callable[[Value], None]) -> None:
        """`body(i)` for each row, from the last."""
        self.code.for_range(0, self.rows, lambda i: body(self.code.sub(self.rows - 1, i)))

    # --- rows -------------------------------------------------------------------------------------

    def row(self, x: Matrix, start: Operand, stop: Operand, body: Callable[[Value], None]) -> None:
        """`body(j)` for each vector of a row that has a column of a range."""
        code = self.code
        first = code.binary("and", code.of(start, "i64", 1), -x.lanes)
        code.for_range(first, stop, body, x.lanes)

    def subtract(
        self, x: Matrix, to: Operand, factor: Value, other: tuple[Matrix, Operand],
        start: Operand = 0, stop: Operand | None = None,
    ) -> None:  # fmt: skip
        """Subtracts a multiple of a row of a matrix of the same width from a row."""
        code = self.code
        by = code.splat(code.neg(factor), x.lanes)

        def once(j: Value) -> None:
            place = self.at(x, to, j)
            row = code.load(self.at(*other, j), "double", x.lanes)
            now = code.load(place, "double", x.lanes)
            code.store(code.intrinsic("fmuladd", [by, row, now]), place)

        self.row(x, start, x.width if stop is None else stop, once)

    def divide(self, x: Matrix, row: Operand, number: Value, start: Operand = 0) -> None:
        """Divides a row by a number."""
        code = self.code
        by = code.splat(number, x.lanes)

        def once(j: Value) -> None:
            place = self.at(x, row, j)
            code.store(code.div(code.load(place, "double", x.lanes), by), place)

        self.row(x, start, x.width, once)

    def lanes_below(self, count: Value) -> Value:
        """The mask of the first lanes of a vector."""
        code, lanes = self.code, self.widest
        return code.compare("slt", code.iota(lanes), code.splat(count, lanes))

    def row_sum(
        self, start: Operand, stop: Operand, term: Callable[[Callable[..., Value]], Value]
    ) -> Value:
        """The sum of `term(get)` over columns, by vectors: `get(x, row)` are the numbers of a row
        of a matrix in some of the columns, 0 beyond them.
        """
        code, lanes = self.code, self.widest
        total = code.initialised(code.constant(0.0, "double", lanes))
        start, stop = [code.of(x, "i64", 1) for x in (start, stop)]
        last = code.add(start, code.binary("and", code.sub(stop, start), -lanes))

        def whole(j: Value) -> None:
            def get(x: Matrix, row: Operand) -> Value:
                return convert(code, code.load(self.at(x, row, j), x.type, lanes), "double")

            code.set(total, code.add(code.get(total), term(get)))

        inside = self.lanes_below(code.sub(stop, last))

        def rest(x: Matrix, row: Operand) -> Value:
            return convert(code, code.load_where(inside, self.at(x, row, last), x.type), "double")

        code.for_range(start, last, whole, lanes)
        code.set(total, code.add(code.get(total), term(rest)))
        sums = Reduction(self.equation, JOINING[np.add], "double")
        return sums.across(code, code.get(total))

    def exchange(self, x: Matrix, first: Value, second: Value) -> None:
        """Exchanges two rows."""
        code = self.code

        def once(j: Value) -> None:
            places = [self.at(x, row, j) for row in (first, second)]
            values = [code.load(place, "double", x.lanes) for place in places]
            for value, place in zip(values, reversed(places), strict=True):
                code.store(value, place)

        self.row(x, 0, x.width, once)

    def must(self, condition: Value) -> None:
        """Leaves the program to NumPy if a condition does not hold."""
        self.code.ret_unless(condition, self.code.constant(GIVEN_UP, "i32"))

    # --- systems ----------------------------------------------------------------------------------

    def eliminate(self, a: Matrix, b: Matrix | None, sign: Value | None = None) -> None:
        """The upper triangle of a, with exchanges of rows, also of b."""
        code, n = self.code, self.rows
        self.terms += n * n * (a.width / 3 + (b.width if b else 0) / 2)

        def column(c: Value) -> None:
            best, place = code.initialised(code.fabs(self.get(a, c, c))), code.initialised(c)

            def compare(r: Value) -> None:
                size, now = code.fabs(self.get(a, r, c)), code.get(best)
                larger = code.compare("ogt", size, now)
                code.set(best, code.select(larger, size, now))
                code.set(place, code.select(larger, r, code.get(place)))

            following = code.add(c, 1)
            code.for_range(following, n, compare)
            if sign is None:
                self.must(code.compare("une", code.get(best), 0.0))
            pivot = code.get(place)
            chosen = self.get(a, pivot, c)
            self.must(code.compare("oeq", code.sub(chosen, chosen), 0.0))

            def exchange() -> None:
                for x in (a, b):
                    if x is not None:
                        self.exchange(x, c, pivot)
                if sign is not None:
                    code.set(sign, code.neg(code.get(sign)))

            code.if_else(code.compare("ne", pivot, c), exchange)

            def reduce(r: Value) -> None:
                factor = code.div(self.get(a, r, c), self.get(a, c, c))
                self.subtract(a, r, factor, (a, c), following)
                if b is not None:
                    self.subtract(b, r, factor, (b, c))

            code.for_range(following, n, reduce)

        code.for_range(0, n, column)

    def substitute(self, a: Matrix, b: Matrix, lower: bool) -> None:
        """Overwrites b by the solution of a triangular system."""
        code, n = self.code, self.rows
        self.terms += n * n * b.width / 2

        def unknown(r: Value) -> None:
            pivot = self.get(a, r, r)
            self.must(code.compare("une", pivot, 0.0))
            start, stop = (0, r) if lower else (code.add(r, 1), n)
            if b.width == 1:
                row = Matrix(b.pointer, n)
                known = self.row_sum(start, stop, lambda get: code.mul(get(a, r), get(row, 0)))
                self.put(b, r, 0, code.div(code.sub(self.get(b, r, 0), known), pivot))
                return
            code.for_range(start, stop, lambda j: self.subtract(b, r, self.get(a, r, j), (b, j)))
            self.divide(b, r, pivot)

        if lower:
            code.for_range(0, n, unknown)
        else:
            self.backwards(unknown)


@RULES.rule(solve, inv)
def _solve(made: Writer, triangle: str = "") -> None:
    a, *given = made.inputs
    columns = given[0].width if given else made.rows
    if given:
        b = made.copy(given[0], columns)
    else:  # an inverse
        b = made.room(columns)
        made.code.for_range(0, made.rows, lambda i: made.put(b, i, i, 1.0))
    if not triangle:
        a = made.copy(a, made.rows)
        made.eliminate(a, b)
    made.substitute(a, b, triangle == "lower")
    made.fill(made.output, b, made.rows, columns)


def sign_and_log(made: Writer, a: Matrix, sign: Value) -> tuple[Value, Value]:
    """Those of the determinant, from the triangle and the sign of the exchanges."""
    code = made.code
    total = code.initialised(code.constant(0.0, "double"))

    def factor(r: Value) -> None:
        pivot, now = made.get(a, r, r), code.get(sign)
        turned = code.select(code.compare("olt", pivot, 0.0), code.neg(now), now)
        code.set(sign, code.select(code.compare("oeq", pivot, 0.0), 0.0, turned))
        size = FUNCTIONS[log](code, code.fabs(pivot))
        size = code.select(code.compare("oeq", pivot, 0.0), float("-inf"), size)
        code.set(total, code.add(code.get(total), size))

    code.for_range(0, made.rows, factor)
    return code.get(sign), code.get(total)


def _one(made: Writer) -> Value:
    """The variable of a sign."""
    return made.code.initialised(made.code.constant(1.0, "double"))


def _determinant(made: Writer, a: Matrix, sign: Value) -> Value:
    signed, total = sign_and_log(made, a, sign)
    return made.code.mul(signed, FUNCTIONS[exp](made.code, total))


@RULES.rule(slogdet)
def _slogdet(made: Writer) -> None:
    a, sign = made.copy(made.inputs[0], made.rows), _one(made)
    made.eliminate(a, None, sign)
    for x, out in zip(sign_and_log(made, a, sign), made.outputs, strict=True):
        if out is not None:
            made.put(out, 0, 0, x)


@RULES.rule(det)
def _det(made: Writer) -> None:
    a, sign = made.copy(made.inputs[0], made.rows), _one(made)
    made.eliminate(a, None, sign)
    made.put(made.output, 0, 0, _determinant(made, a, sign))


@RULES.rule(cofactors)
def _cofactors(made: Writer) -> None:
    """The transposed inverse times the determinant; NumPy's program for a matrix that is nearly
    singular.
    """
    code, n, (given,) = made.code, made.rows, made.inputs
    a, inverse, sign = made.copy(given, n), made.room(n), _one(made)
    code.for_range(0, n, lambda i: made.put(inverse, i, i, 1.0))
    made.eliminate(a, inverse, sign)
    made.substitute(a, inverse, False)
    cofactors_of(made, given, inverse, lambda: _determinant(made, a, sign))


def cofactors_of(
    made: Writer, a: Matrix, inverse: Matrix, determinant: Callable[[], Value]
) -> None:
    """Stores the transposed inverse of a matrix times its determinant."""
    code, n, out, turned = made.code, made.rows, made.output, inverse.transpose
    made.must(
        code.compare("olt", code.mul(made.largest_sum(a), made.largest_sum(inverse)), 1 / SINGULAR)
    )
    value = determinant()
    made.must(code.compare("oeq", code.sub(value, value), 0.0))
    store = lambda i, j: made.put(out, i, j, code.mul(value, made.get(turned, i, j)))  # noqa: E731
    (made.tiles if turned.turned else made.each)(n, n, store)


@RULES.rule(cholesky)
def _cholesky(made: Writer) -> None:
    """Row j of the transposed factor, and its product with itself, subtracted from the rows below
    (Golub and Van Loan, Matrix Computations, 4.2.5).
    """
    code, n = made.code, made.rows
    (a,), out = made.inputs, made.output
    u = made.room(n)
    made.each(n, lambda i: (0, code.add(i, 1)), lambda i, j: made.put(u, j, i, made.get(a, i, j)))
    made.terms += n**3 / 6

    def column(j: Value) -> None:
        pivot = made.get(u, j, j)
        made.must(code.compare("ogt", pivot, 0.0))
        made.divide(u, j, code.sqrt(pivot), j)
        code.for_range(code.add(j, 1), n,
                       lambda i: made.subtract(u, i, made.get(u, j, i), (u, j), i))  # fmt: skip

    code.for_range(0, n, column)

    def store(i: Value, j: Value) -> None:
        below = code.compare("sle", j, i)
        made.put(out, i, j, code.select(below, made.get(u, j, i), 0.0))

    made.each(n, n, store)


@RULES.rule(cholesky_pullback)
def _cholesky_pullback(made: Writer) -> None:
    """The steps of the factorisation by rows, backwards."""
    code, n = made.code, made.rows
    y, g = [made.lower(x) for x in made.inputs]
    made.terms += n**3 / 3

    def column(j: Value) -> None:
        pivot, following = made.get(y, j, j), code.add(j, 1)

        def below(i: Value) -> None:
            factor = code.div(made.get(g, i, j), pivot)
            made.subtract(g, i, factor, (y, j), 0, following)
            made.subtract(g, j, factor, (y, i), 0, following)
            made.put(g, i, j, code.mul(factor, 0.5))

        code.for_range(following, n, below)
        half = code.mul(code.div(made.get(g, j, j), pivot), 0.5)
        made.subtract(g, j, code.add(half, half), (y, j), 0, j)
        made.put(g, j, j, half)

    made.backwards(column)
    out = made.output

    def store(i: Value, j: Value) -> None:
        for place in ((i, j), (j, i)):
            made.put(out, *place, made.get(g, i, j))

    made.each(n, lambda i: (0, code.add(i, 1)), store)


@LIGHT.rule(hermitian_weights)
def _weights(made: Writer, lower: bool) -> None:
    code, n = made.code, made.rows
    (a,), out = made.inputs, made.output
    made.terms += 10.0 * n * n
    eps = float(np.finfo(made.equation.outputs[0].type.dtype).eps)
    size = made.largest(n, n, lambda i, j: code.fabs(made.get(a, i, j)))
    limit, unlike = code.mul(size, 4 * n * eps), code.initialised(code.constant(0, "i64"))

    def differ(i: Value, j: Value) -> None:
        error = code.fabs(code.sub(made.get(a, i, j), made.get(a, j, i)))
        other = code.compare("ugt", error, limit)
        code.set(unlike, code.select(other, 1, code.get(unlike)))

    made.each(n, lambda i: (0, code.add(i, 1)), differ)
    hermitian = code.compare("eq", code.get(unlike), 0)

    def store(i: Value, j: Value) -> None:
        inside = code.compare("slt", j, i) if lower else code.compare("slt", i, j)
        weight = code.select(inside, code.constant(2.0, "double"), 0.0)
        weight = code.select(code.compare("eq", i, j), 1.0, weight)
        made.put(out, i, j, code.select(hermitian, 1.0, weight))

    made.each(n, n, store)


@LIGHT.rule(from_diagonal)
def _from_diagonal(made: Writer, offset: int, shape: tuple[int, int]) -> None:
    code, (x,), out = made.code, made.inputs, made.output
    rows, columns = shape
    made.terms += 5.0 * rows * columns

    def store(i: Value, j: Value) -> None:
        made.put(out, i, j, 0.0)

    def place(k: Value) -> None:
        row, column = code.add(k, max(-offset, 0)), code.add(k, max(offset, 0))
        made.put(out, row, column, made.get(x, 0, k))

    made.each(rows, columns, store)
    code.for_range(0, made.rows, place)


@LIGHT.rule(finite)
def _finite(made: Writer, solution: bool = False) -> None:
    (x,), out = made.inputs, made.output
    size = made.equation.inputs[0].type.size
    row = Matrix(x.pointer, size, x.type)
    made.terms += 10.0 * size
    zero = made.row_sum(0, size, lambda get: made.code.sub(get(row, 0), get(row, 0)))
    made.must(made.code.compare("oeq", zero, 0.0))
    made.code.copy(out.pointer, x.pointer, size_of(x.type) * size)


def beside(rules: Rules) -> dict[Any, Single]:
    """The kernels of what stands beside factorisations: few operations for each element."""
    return dict.fromkeys(rules, Single(_light_refusal, partial(_written, rules)))


def _light_refusal(equation: Equation) -> Refusal | None:
    """Why an equation beside factorisations has no kernel."""
    if any(a.type.ndim > 2 for a in (*equation.inputs, *equation.outputs)):
        return refusal("a stack of matrices", equation=equation)
    return unfit(equation, ("double", "float", "i1"))


def _written(rules: Rules, graph: Graph, equation: Equation) -> Kernel:
    return Writer(graph, equation).kernel(rules)


KERNELS = {
    **dict.fromkeys(RULES, Single(_refusal, partial(_written, RULES))),
    **beside(LIGHT),
}
