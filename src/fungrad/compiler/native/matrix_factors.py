"""Equations with the factors of a matrix, which LAPACK makes once for all of them.

A matrix of one equation has NumPy's LU factors, by the same routines. One of several has Cholesky's
if it is symmetric and positive definite beyond rounding, as `primitives/linalg/factors.py`. Factors
are an array with a row more than the matrix: LAPACK's exchanges of rows, of which the first is 0
for Cholesky's factor. They stay in a native program. Singular matrices leave it to NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native import lapack
from fungrad.compiler.native.elementary_functions import FUNCTIONS
from fungrad.compiler.native.factorisations import Matrix, cofactors_of, sign_and_log, terms
from fungrad.compiler.native.generators import Single
from fungrad.compiler.native.kernel import Kernel
from fungrad.compiler.native.lapack import WORK, LibraryWriter, integer_type
from fungrad.compiler.native.llvm_ir import Operand, Value
from fungrad.compiler.numpy_backend import shared_factors
from fungrad.compiler.numpy_backend.program_calls import called, program_call
from fungrad.compiler.numpy_backend.shared_factors import FactorMember, Held
from fungrad.compiler.refusal import Refusal, refusal
from fungrad.ir.graph import Equation, Graph, Variable
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.ufuncs import exp, log
from fungrad.primitives.linalg.cholesky_qr import cholesky
from fungrad.primitives.linalg.determinant import cofactors, det, slogdet
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.retracing.graph_transforms import memoised
from fungrad.support.lazy import Record
from fungrad.support.rules import Rules

RULES = Rules()
"""What writes the results of an equation from the factors of its matrix."""


class FactorPlan(Record):
    """How an equation gets its results.

    Attributes:
      factorises: whether it makes the factors; they are given else.
      alone: whether nothing else reads the factors.
      transposed: whether the equation is one of the matrix's transpose.
      turned: whether its result, an inverse, is transposed.
    """

    factorises: bool
    alone: bool
    transposed: bool
    turned: bool


def by_lapack(equation: Equation) -> bool:
    """Whether an equation is for the factors of a matrix by LAPACK."""
    rows = equation.inputs[0].type.shape[-1:] if equation.inputs else ()
    known = equation.primitive in RULES and max(rows, default=0) > tuned.lapack_rows
    return known and not equation.params.get("triangle") and lapack.unknown(equation) is None


def by_calls(graph: Graph) -> Graph:
    """The Graph with calls of LAPACK in place of equations with the factors of large matrices."""
    if not any(map(by_lapack, graph.equations)):
        return graph

    def large(matrix: Variable, equations: Sequence[Equation]) -> bool:
        return all(map(by_lapack, equations))

    def made() -> Graph:
        return shared_factors.by_calls(graph, large, _call, stacks=True)

    result: Graph = memoised(graph, "factors by LAPACK", made)
    return result


def _call(member: FactorMember, known: dict[Variable, Held], alone: bool) -> Equation:
    """The call in place of an equation; `known` are the factors of matrices. A matrix whose inverse
    may be that of the identity instead, as it is singular, leaves the program.
    """
    matrix, transposed, _, equations = member
    equation, outputs = equations[0], equations[-1].outputs
    factorises = matrix not in known
    if factorises:
        *stack, n, _ = matrix.type.shape
        known[matrix] = (Variable(Type((*stack, n + 1, n), np.dtype(np.float64))),)
    held = known[matrix]
    plan = FactorPlan(factorises, alone, transposed, len(equations) > 1)
    inputs = (matrix, *(() if factorises else held), *equation.inputs[1:])
    made = (*held, *outputs) if factorises else outputs
    name = _name(equation.primitive)
    return program_call(name, equation, plan, inputs, made, (equation,))


def _name(primitive: Any) -> str:
    return f"{primitive.name}_by_lapack"


class Factors(LibraryWriter):
    """The function of such an equation.

    Attributes:
      plan: how it gets its results.
      matrix: the matrix of the factors, and `own` that of the equation.
      packed: the factors, in Fortran's order.
      exchanges: the pointer to the exchanges of rows.
      factorised: whether they are there.
    """

    def __init__(self, graph: Graph, equation: Equation) -> None:
        super().__init__(graph, equation)
        self.plan: FactorPlan = equation.params["runner"]
        self.matrix, *self.inputs = self.inputs
        n, kept = self.rows, None
        if self.plan.factorises:
            kept, *self.outputs = self.outputs
        else:
            kept, *self.inputs = self.inputs
        self.own = self.matrix.transpose if self.plan.transposed else self.matrix
        held = self.memory((n + 1) * n) if kept is None else kept.pointer
        self.packed = Matrix(held, n).transpose
        self.exchanges = self.code.at(held, n * n, "double")
        self.factorised = not self.plan.factorises

    # --- factors ----------------------------------------------------------------------------------

    def factorise(self) -> None:
        """Makes the factors that several equations share."""
        self.factorised = True
        code, n = self.code, self.rows
        definite = code.initialised(code.constant(0, "i64"))

        def attempt() -> None:
            self.fill(self.packed.transpose, self.matrix, n, n)
            done = self.succeeds("dpotrf", "U", n, self.packed, n)
            regular = code.binary("and", done, self.beyond_rounding())
            code.set(definite, code.convert("zext", regular, "i64"))

        def mark() -> None:
            code.store(code.constant(0, integer_type()), self.exchanges)

        code.if_else(self.symmetric(), attempt)
        code.if_else(code.compare("ne", code.get(definite), 0), mark, self.by_exchanges)

    def by_exchanges(self) -> None:
        """LU factors; those that are not finite leave the program."""
        n = self.rows
        self.fill(self.packed, self.matrix, n, n)
        self.run("dgetrf", n, n, self.packed, n, self.exchanges)
        self.must_be_finite()

    def copy_own(self) -> None:
        """Copies the matrix of the equation for NumPy's routine."""
        matrix = self.own if self.plan.alone else self.matrix
        self.fill(self.packed, matrix, self.rows, self.rows)

    def systems(self, x: Matrix, columns: int) -> None:
        """Overwrites right-hand sides by the solutions, by LU factors."""
        n, given = self.rows, (self.packed, self.rows, self.exchanges, x, self.rows)
        if self.factorised:
            self.run("dgetrs", "T" if self.plan.transposed else "N", n, columns, *given)
            return
        self.copy_own()
        self.run("dgesv", n, columns, *given)
        self.factorised = True

    def must_not_be_a_triangle(self) -> None:
        """Leaves triangles to NumPy's program, which solves their systems by substitution."""
        code, n, a = self.code, self.rows, self.matrix
        above, below = code.variable("i64"), code.variable("i64")

        def look(found: Value, i: Operand, j: Operand) -> None:
            other = code.compare("une", self.get(a, i, j), 0.0)
            code.set(found, code.select(other, 1, code.get(found)))

        for found, corner in ((above, (0, n - 1)), (below, (n - 1, 0))):
            code.set(found, code.constant(0, "i64"))
            look(found, *corner)

        def search() -> None:
            self.each(n, lambda i: (code.add(i, 1), n), lambda i, j: look(above, i, j))
            self.each(n, lambda i: (0, i), lambda i, j: look(below, i, j))

        def both() -> Value:
            return code.binary("and", code.get(above), code.get(below))

        code.if_else(code.compare("eq", both(), 0), search)
        self.must(code.compare("ne", both(), 0))

    def must_be_finite(self) -> None:
        """Leaves the program unless the factors are finite."""
        code, size = self.code, self.rows**2
        flat = Matrix(self.packed.pointer, size)

        def gap(get: Callable[..., Value]) -> Value:
            x = get(flat, 0)
            return code.sub(x, x)

        self.must(code.compare("oeq", self.row_sum(0, size, gap), 0.0))

    def symmetric(self) -> Value:
        """Whether the matrix is its transpose, to the bit, with a positive diagonal."""
        code, n, a = self.code, self.rows, self.matrix
        unlike = code.initialised(code.constant(0, "i64"))

        def note(condition: Value) -> None:
            code.set(unlike, code.select(condition, 1, code.get(unlike)))

        def differ(i: Operand, j: Operand) -> None:
            note(code.compare("une", self.get(a, i, j), self.get(a, j, i)))

        def first(j: Value) -> None:
            differ(0, j)
            note(code.compare("ule", self.get(a, j, j), 0.0))

        code.for_range(0, n, first)
        code.if_else(code.compare("eq", code.get(unlike), 0), lambda: self.tiles(n, n, differ))
        return code.compare("eq", code.get(unlike), 0)

    def beyond_rounding(self) -> Value:
        """Whether Cholesky's pivots are finite and not as small as rounding."""
        code, n, packed = self.code, self.rows, self.packed
        least, largest, wrong = [code.variable("double") for _ in range(3)]
        for variable, number in ((least, math.inf), (largest, 0.0), (wrong, 0.0)):
            code.set(variable, code.constant(number, "double"))

        def compare(j: Value) -> None:
            pivot, now = self.get(packed, j, j), code.get(least)
            code.set(least, code.select(code.compare("olt", pivot, now), pivot, now))
            code.set(wrong, code.add(code.get(wrong), code.sub(pivot, pivot)))
            x, most = self.get(self.matrix, j, j), code.get(largest)
            code.set(largest, code.select(code.compare("ogt", x, most), x, most))

        code.for_range(0, n, compare)
        pivot = code.get(least)
        limit = code.mul(code.get(largest), n * float(np.finfo(np.float64).eps))
        large = code.compare("ogt", code.mul(pivot, pivot), limit)
        return code.binary("and", large, code.compare("oeq", code.get(wrong), 0.0))

    # --- what has them ----------------------------------------------------------------------------

    def by_kind(self, definite: Callable[[], None], general: Callable[[], None]) -> None:
        """Writes what is for Cholesky's factor, and for LU factors."""
        if self.plan.alone:
            general()
            return
        first = self.code.load(self.exchanges, integer_type(), 1)
        self.code.if_else(self.code.compare("eq", first, 0), definite, general)

    def inverse(self) -> Matrix:
        """The inverse of the equation's matrix."""
        code, n = self.code, self.rows
        x = self.in_fortran_order(n, n)

        def mirror(i: Value, j: Value) -> None:
            above = code.compare("slt", i, j)
            row, column = code.select(above, i, j), code.select(above, j, i)
            self.put(x, i, j, self.get(x, row, column))

        def definite() -> None:
            self.fill(x, self.packed, n, n)
            self.run("dpotri", "U", n, x, n)
            self.tiles(n, n, mirror)

        def general() -> None:
            if self.plan.alone:
                self.each(n, n, lambda i, j: self.put(x, j, i, 0.0))
                code.for_range(0, n, lambda i: self.put(x, i, i, 1.0))
                self.systems(x, n)
            else:
                self.fill(x, self.packed, n, n)
                self.run("dgetri", n, x, n, self.exchanges, WORK)

        self.by_kind(definite, general)
        return x.transpose if self.plan.transposed and not self.plan.alone else x

    def determinant(self) -> tuple[Value, Value]:
        """Its sign, and the logarithm of its size."""
        code, n, packed = self.code, self.rows, self.packed
        sign, size = code.variable("double"), code.variable("double")
        for variable, number in ((sign, 1.0), (size, 0.0)):
            code.set(variable, code.constant(number, "double"))

        def definite() -> None:
            def add(i: Value) -> None:
                twice = code.mul(FUNCTIONS[log](code, self.get(packed, i, i)), 2.0)
                code.set(size, code.add(code.get(size), twice))

            code.for_range(0, n, add)

        def exchange(i: Value) -> None:
            row = code.load(code.at(self.exchanges, i, integer_type()), integer_type(), 1)
            there = code.convert("sext", row, "i64") if row.type != "i64" else row
            moved = code.compare("ne", there, code.add(i, 1))
            code.set(sign, code.select(moved, code.neg(code.get(sign)), code.get(sign)))

        def general() -> None:
            if not self.factorised:
                self.copy_own()
                self.run("dgetrf", n, n, self.packed, n, self.exchanges)
            code.for_range(0, n, exchange)
            found, log_size = sign_and_log(self, packed, sign)
            code.set(sign, found)
            code.set(size, log_size)

        self.by_kind(definite, general)
        return code.get(sign), code.get(size)


@RULES.rule(solve)
def _solve(made: Factors) -> None:
    n, (b,) = made.rows, made.inputs
    columns = b.width
    x = made.in_fortran_order(n, columns, b)
    made.by_kind(
        lambda: made.run("dpotrs", "U", n, columns, made.packed, n, x, n),
        lambda: made.systems(x, columns),
    )
    made.out(0, x, n, columns)


@RULES.rule(inv)
def _inv(made: Factors) -> None:
    x = made.inverse()
    made.out(0, x.transpose if made.plan.turned else x, made.rows, made.rows)


@RULES.rule(slogdet)
def _slogdet(made: Factors) -> None:
    for x, out in zip(made.determinant(), made.outputs, strict=True):
        if out is not None:
            made.put(out, 0, 0, x)


@RULES.rule(det)
def _det(made: Factors) -> None:
    made.put(made.output, 0, 0, _value(made))


def _value(made: Factors) -> Value:
    sign, size = made.determinant()
    return made.code.mul(sign, FUNCTIONS[exp](made.code, size))


@RULES.rule(cofactors)
def _cofactors(made: Factors) -> None:
    """NumPy's program for a matrix that is nearly singular."""
    cofactors_of(made, made.own, made.inverse(), lambda: _value(made))


@RULES.rule(cholesky)
def _cholesky(made: Factors) -> None:
    code, n, out = made.code, made.rows, made.output

    def lower(x: Matrix) -> None:
        def store(i: Value, j: Value) -> None:
            below = code.compare("sle", j, i)
            made.put(out, i, j, code.select(below, made.get(x, i, j), 0.0))

        made.tiles(n, n, store)

    def general() -> None:
        x = made.packed if made.plan.alone else made.in_fortran_order(n, n)
        made.fill(x, made.matrix, n, n)
        made.run("dpotrf", "L", n, x, n)
        lower(x)

    made.by_kind(lambda: lower(made.packed.transpose), general)


def _refusal(equation: Equation) -> Refusal | None:
    """Why a call has no kernel: it is one for a stack."""
    if equation.inputs[0].type.ndim > 2:
        return refusal("a stack of matrices", equation=equation)
    return None


def _write(graph: Graph, equation: Equation) -> Kernel:
    made = Factors(graph, equation)
    (member,) = equation.params["members"]
    if made.plan.factorises:
        if member.inputs[0].type.ndim == 2 and (not made.plan.alone or member.primitive is solve):
            made.must_not_be_a_triangle()
        if not made.plan.alone:
            made.factorise()
    RULES[member.primitive](made)
    made.terms += terms(member) / math.prod(member.inputs[0].type.shape[:-2])
    return made.finished()


KERNELS = {called(_name(primitive)): Single(_refusal, _write) for primitive in RULES}
