"""Calls of the LAPACK in NumPy's OpenBLAS, and of its products, by C pointers.

A factorisation is NumPy's: the same routine on the same copy in Fortran's order, in double
precision. What does not converge leaves the program to NumPy, which raises.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native import products
from fungrad.compiler.native.factorisations import FLOATS, Matrix, Writer, substitutes, terms
from fungrad.compiler.native.generators import Single
from fungrad.compiler.native.kernel import Kernel
from fungrad.compiler.native.llvm_ir import Value
from fungrad.compiler.native.machine_code import symbol
from fungrad.compiler.native.short_axes import unrollable
from fungrad.compiler.refusal import Refusal, refusal
from fungrad.ir.graph import Equation, Graph, Literal
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.linalg.cholesky_pullback import LEAF, cholesky_pullback
from fungrad.primitives.linalg.cholesky_qr import qr
from fungrad.primitives.linalg.solve import pinv, solve
from fungrad.primitives.linalg.spectra import eigenspaces, eigh, eigvalsh, svd, svdvals
from fungrad.primitives.linalg.substitution import BLOCK, LEAST
from fungrad.primitives.movement.reshape_broadcast_cast import transpose
from fungrad.runtime.openblas import openblas
from fungrad.support.lazy import imported
from fungrad.support.rules import Rules

RULES = Rules()
"""What writes a factorisation by LAPACK."""
WORK, _IWORK = "work", "iwork"
"""A workspace and its length, as arguments of a routine."""
_ROWS, _COLUMNS, _LEFT, _RIGHT = 101, 102, 141, 142
_AS_IT_IS, _TRANSPOSED, _DIAGONAL = 111, 112, 131
_OF = {"upper": 121, "lower": 122}
"""CBLAS's constants."""


@functools.cache
def _address(name: str) -> int:
    """The address of a routine; 0 if NumPy has another library."""
    library = openblas()
    return 0 if library is None else library.address(name)


@functools.cache
def integer_type() -> str:
    """The type of the library's integers."""
    library: Any = openblas()
    return "i64" if imported("ctypes").sizeof(library.integer) == 8 else "i32"


_ROUTINES = (
    "dgeqrf_", "dorgqr_", "dgesdd_", "dsyevd_", "dgetrf_", "dgetrs_", "dgetri_", "dgesv_",
    "dpotrf_", "dpotrs_", "dpotri_", "cblas_dgemm", "cblas_sgemm", "cblas_dtrsm",
    "cblas_dtrmm",
)  # fmt: skip


@functools.cache
def available() -> bool:
    """Whether NumPy's library has the routines."""
    return all(map(_address, _ROUTINES))


def unknown(equation: Equation) -> Refusal | None:
    """Why an equation has no routine, by its numbers and the library."""
    atoms = (*equation.inputs, *equation.outputs)
    literals = [a for a in atoms if isinstance(a, Literal) and a not in equation.inputs[1:]]
    if literals or any(a.type.dtype not in FLOATS for a in atoms):
        return refusal(equation.primitive.name, "dtype", equation)
    if not available():
        return refusal("NumPy's LAPACK is not OpenBLAS", equation=equation)
    return None


def _refusal(equation: Equation) -> Refusal | None:
    """Why a factorisation is not one of a matrix by LAPACK."""
    a, *numbers = equation.inputs
    if a.type.ndim > 2:
        return refusal("a stack of matrices", equation=equation)
    if any(number.type.ndim for number in numbers):
        return refusal("numbers of each matrix", equation=equation)
    if not a.type.size:
        return refusal("a matrix without elements", equation=equation)
    if unrollable(equation):
        return refusal("a factorisation in registers", equation=equation)
    return unknown(equation)


def by_lapack(equation: Equation) -> bool:
    """Whether an equation is a factorisation by LAPACK, a large triangular system, or a stack of
    them.
    """
    if equation.primitive is solve:
        known = _large_triangle(equation)
    elif equation.primitive is cholesky_pullback:
        known = _large_factor(equation)
    else:
        known = equation.primitive in RULES and not unrollable(equation)
    return known and equation.inputs[0].type.size > 0 and unknown(equation) is None


class LibraryWriter(Writer):
    """The function of an equation by calls of LAPACK and the BLAS."""

    def length(self, number: int) -> Value:
        return self.code.constant(number, integer_type(), 1)

    def call(self, name: str, flags: Sequence[int], *args: Value) -> None:
        """Calls a routine of CBLAS."""
        symbol(f"fg_cblas_{name}", _address(f"cblas_{name}"))
        given = [self.code.constant(flag, "i32", 1) for flag in flags]
        self.code.call(f"fg_cblas_{name}", "void", [*given, *args])

    def integer(self, number: int) -> Value:
        """The pointer to an integer."""
        return self.code.initialised(self.code.constant(number, integer_type()))

    def letter(self, which: str) -> Value:
        """The pointer to a letter."""
        return self.code.initialised(self.code.constant(ord(which), "i8"))

    def run(self, name: str, *args: Matrix | Value | int | str) -> None:
        """Calls a routine of LAPACK, with workspaces; a failure leaves the program to NumPy."""
        self.must(self.succeeds(name, *args))

    def succeeds(self, name: str, *args: Matrix | Value | int | str) -> Value:
        """Calls a routine of LAPACK, with workspaces; whether it has no failure."""
        sizes = _workspaces(name, [x if isinstance(x, int | str) else None for x in args])
        given = []
        for x in args:
            if x in sizes:
                given += [self.memory(sizes[x]), self.integer(sizes[x])]
            elif isinstance(x, Matrix):
                given.append(x.pointer)
            elif isinstance(x, Value):
                given.append(x)
            else:
                given.append(self.integer(x) if isinstance(x, int) else self.letter(x))
        info = self.integer(0)
        symbol(f"fg_{name}", _address(f"{name}_"))
        self.code.call(f"fg_{name}", "void", [*given, info])
        return self.code.compare("eq", self.code.get(info), 0)

    def in_fortran_order(self, rows: int, columns: int, x: Matrix | None = None) -> Matrix:
        """A new matrix, or a copy of one."""
        made = Matrix(self.memory(rows * columns), rows).transpose
        if x is not None:
            self.fill(made, x, rows, columns)
        return made

    def out(self, place: int, x: Matrix, rows: int, columns: int) -> None:
        """Stores a result, if it is read."""
        to = self.outputs[place]
        if to is not None:
            self.fill(to, x, rows, columns)

    def doubles(self, x: Matrix, rows: int, columns: int) -> Matrix:
        """A matrix in double precision: itself, or a copy."""
        if x.type == "double":
            return x
        made = Matrix(self.memory(rows * columns), columns)
        self.fill(made, x, rows, columns)
        return made

    def overwritten(
        self, x: Matrix, rows: int, columns: int, body: Callable[[Matrix], None]
    ) -> None:
        """Stores a copy of a matrix after `body` has overwritten it, in double precision."""
        out = self.output
        made = out if out.type == "double" else Matrix(self.memory(rows * columns), columns)
        self.fill(made, x, rows, columns)
        body(made)
        if made is not out:
            self.fill(out, made, rows, columns)


def _workspaces(name: str, args: Sequence[Any]) -> dict[Any, int]:
    """The lengths of the workspaces that a routine wants: -1 asks it."""
    ctypes, library = imported("ctypes"), openblas()
    integer: Any = library and library.integer
    wanted = {x: kind() for x, kind in ((WORK, ctypes.c_double), (_IWORK, integer)) if x in args}
    if not wanted:
        return {}
    given = []
    for x in args:
        if x in wanted:
            given += [wanted[x], integer(-1)]
        else:
            given.append(ctypes.c_char(x.encode()) if isinstance(x, str) else integer(x or 0))
    routine = ctypes.CFUNCTYPE(None)(_address(f"{name}_"))
    routine(*map(ctypes.byref, given), ctypes.byref(integer(0)))
    return {x: max(1, int(found.value)) for x, found in wanted.items()}


@RULES.rule(qr)
def _qr(made: LibraryWriter) -> None:
    m, n = made.equation.inputs[0].type.shape
    a, k = made.in_fortran_order(m, n, made.inputs[0]), min(m, n)
    tau, code = made.memory(k), made.code
    made.run("dgeqrf", m, n, a, m, tau, WORK)
    r = made.outputs[1]
    if r is not None:

        def store(i: Value, j: Value) -> None:
            number = made.get(a, i, j)
            made.put(r, i, j, code.select(code.compare("slt", j, i), 0.0, number))

        made.tiles(k, n, store)
    if made.outputs[0] is not None:
        made.run("dorgqr", m, k, k, a, m, tau, WORK)
        made.out(0, a, m, k)


@RULES.rule(eigh, eigenspaces, eigvalsh)
def _eigh(made: LibraryWriter, lower: bool) -> None:
    n, vectors = made.rows, len(made.outputs) > 1
    a = made.in_fortran_order(n, n, made.inputs[0])
    w = Matrix(made.memory(n), n)
    letters = "V" if vectors else "N", "L" if lower else "U"
    made.run("dsyevd", *letters, n, a, n, w, WORK, _IWORK)
    made.out(0, w, 1, n)
    if vectors:
        made.out(1, a, n, n)


@RULES.rule(svd, svdvals)
def _svd(made: LibraryWriter, full: bool | None = None) -> None:
    m, n = made.equation.inputs[0].type.shape
    a, k = made.in_fortran_order(m, n, made.inputs[0]), min(m, n)
    s, job = Matrix(made.memory(k), k), "N" if full is None else "A" if full else "S"
    columns, rows = (m, n) if full else (k, k)
    none = full is None
    u = made.in_fortran_order(1 if none else m, 1 if none else columns)
    vh = made.in_fortran_order(1 if none else rows, 1 if none else n)
    made.run("dgesdd", job, m, n, a, m, s, u, m, vh, rows, WORK, made.memory(8 * k))
    if none:
        made.out(0, s, 1, k)
        return
    made.out(0, u, m, columns)
    made.out(1, s, 1, k)
    made.out(2, vh, rows, n)


@RULES.rule(pinv)
def _pinv(made: LibraryWriter) -> None:
    """The transpose of U S^-1 V^H in Fortran's order, without the singular values below rtol times
    the largest.
    """
    m, n = made.equation.inputs[0].type.shape
    a, k, code, out = made.in_fortran_order(m, n, made.inputs[0]), min(m, n), made.code, made.output
    s = Matrix(made.memory(k), k)
    u, vh = made.in_fortran_order(m, k), made.in_fortran_order(k, n)
    made.run("dgesdd", "S", m, n, a, m, s, u, m, vh, k, WORK, made.memory(8 * k))
    rtol: Any = made.equation.inputs[1]
    if isinstance(rtol, Literal):
        share = code.constant(float(rtol.value), "double")
    else:
        share = made.get(made.inputs[1], 0, 0)
    least = code.mul(share, made.get(s, 0, 0))

    def divide(j: Value) -> None:
        value = made.get(s, 0, j)
        large = code.compare("ogt", value, least)
        factor = code.select(large, code.div(1.0, value), 0.0)
        code.for_range(0, m, lambda i: made.put(u, i, j, code.mul(factor, made.get(u, i, j))))

    code.for_range(0, k, divide)
    found = out if out.type == "double" else Matrix(made.memory(n * m), m)
    one, zero = [code.constant(number, "double", 1) for number in (1.0, 0.0)]
    lengths = [made.length(count) for count in (m, n, k)]
    made.call("dgemm", (_COLUMNS, _AS_IT_IS, _AS_IT_IS), *lengths, one, u.pointer, lengths[0],
              vh.pointer, lengths[2], zero, found.pointer, lengths[0])  # fmt: skip
    if found is not out:
        made.fill(out, found, n, m)


def _factorisation(graph: Graph, equation: Equation) -> Kernel:
    made = LibraryWriter(graph, equation)
    made.terms += terms(equation)
    return made.kernel(RULES)


KERNELS = dict.fromkeys(RULES, Single(_refusal, _factorisation))


# --- by the BLAS ----------------------------------------------------------------------------------


BLAS = Rules()
"""What writes an equation on large matrices beside factorisations."""


def _for_matrices(made: LibraryWriter, body: Callable[..., None]) -> None:
    """`body(*inputs, output)` for the matrices of stacks in C order."""
    code, atoms = made.code, (*made.equation.inputs, *made.equation.outputs)
    shapes = [atom.type.shape for atom in atoms]
    given = [*made.inputs, made.output]

    def at(place: Value) -> None:
        pointers = [code.at(x.pointer, code.mul(place, math.prod(shape[-2:])), x.type)
                    for x, shape in zip(given, shapes, strict=True)]  # fmt: skip
        body(*[Matrix(p, x.width, x.type) for p, x in zip(pointers, given, strict=True)])

    code.for_range(0, math.prod(shapes[0][:-2]), at)


@BLAS.rule(dot_general)
def _product(made: LibraryWriter, contract: Any, batch: Any) -> None:
    stack, type = len(batch[0]), made.output.type
    shapes = [atom.type.shape for atom in (*made.equation.inputs, *made.equation.outputs)]
    (a, b, (m, n)), (i, j) = [shape[stack:] for shape in shapes], [x - stack for (x,) in contract]
    one, zero = [made.code.constant(number, type, 1) for number in (1.0, 0.0)]
    flags = _ROWS, _AS_IT_IS if i == 1 else _TRANSPOSED, _AS_IT_IS if j == 0 else _TRANSPOSED
    name = "sgemm" if type == "float" else "dgemm"

    def multiply(x: Matrix, y: Matrix, out: Matrix) -> None:
        made.call(name, flags, *map(made.length, (m, n, a[i])), one, x.pointer, made.length(a[1]),
                  y.pointer, made.length(b[1]), zero, out.pointer, made.length(n))  # fmt: skip

    _for_matrices(made, multiply)
    made.terms += m * n  # the products themselves take as long on NumPy


@BLAS.rule(transpose)
def _transpose(made: LibraryWriter, axes: Any) -> None:
    type_ = made.equation.inputs[0].type
    rows, columns = type_.shape[-2:]
    _for_matrices(made, lambda x, out: made.fill(out.transpose, x, rows, columns))
    made.terms += 5.0 * type_.size


@BLAS.rule(solve)
def _solve(made: LibraryWriter, triangle: str) -> None:
    """By blocks, as `substitution`, so that most of the work are products."""
    code = made.code
    (n, k), (a, b) = made.equation.inputs[1].type.shape, made.inputs
    code.for_range(0, n, lambda i: made.must(code.compare("une", made.get(a, i, i), 0.0)))
    a = made.doubles(a, n, n)
    one, minus = [code.constant(number, "double", 1) for number in (1.0, -1.0)]
    columns, width = made.length(k), made.length(n)

    def substitute(x: Matrix, start: int, stop: int) -> None:
        if stop - start <= BLOCK:
            flags = _ROWS, _LEFT, _OF[triangle], _AS_IT_IS, _DIAGONAL
            made.call("dtrsm", flags, made.length(stop - start), columns, one,
                      made.at(a, start, start), width, made.at(x, start, 0), columns)  # fmt: skip
            return
        middle = start + (stop - start) // 2
        parts = [(start, middle), (middle, stop)]
        first, rest = parts if triangle == "lower" else parts[::-1]
        substitute(x, *first)
        sizes = [made.length(m) for m in (rest[1] - rest[0], k, first[1] - first[0])]
        made.call("dgemm", (_ROWS, _AS_IT_IS, _AS_IT_IS), *sizes, minus,
                  made.at(a, rest[0], first[0]), width, made.at(x, first[0], 0), columns, one,
                  made.at(x, rest[0], 0), columns)  # fmt: skip
        substitute(x, *rest)

    made.overwritten(b, n, k, lambda x: substitute(x, 0, n))
    made.terms += terms(made.equation)


@BLAS.rule(cholesky_pullback)
def _cholesky_pullback(made: LibraryWriter) -> None:
    """By halves, as NumPy's program: the cotangents become those of the symmetric matrix."""
    code, n = made.code, made.rows
    y, ct = made.inputs
    factor, width = made.doubles(y, n, n), made.length(n)
    one, minus, twice = [code.constant(number, "double", 1) for number in (1.0, -1.0, -2.0)]

    def by_triangle(
        name: str, side: int, turned: int, start: int, x: Value, rows: int, columns: int
    ) -> None:
        flags = _ROWS, side, _OF["lower"], turned, _DIAGONAL
        lengths = made.length(rows), made.length(columns)
        made.call(name, flags, *lengths, one, made.at(factor, start, start), width, x, width)

    def multiply(turned: int, sizes: Sequence[int], scale: Value, x: Value, z: Value,
                 out: Value) -> None:  # fmt: skip
        flags = _ROWS, turned, _AS_IT_IS
        made.call("dgemm", flags, *map(made.length, sizes), scale, x, width, z, width, one,
                  out, width)  # fmt: skip

    def leaf(g: Matrix, start: int, size: int) -> None:
        x = made.at(g, start, start)
        block = Matrix(x, n)
        made.each(size, lambda i: (code.add(i, 1), size), lambda i, j: made.put(block, i, j, 0.0))
        by_triangle("dtrmm", _LEFT, _TRANSPOSED, start, x, size, size)
        made.each(size, lambda i: (0, i),
                  lambda i, j: made.put(block, j, i, made.get(block, i, j)))  # fmt: skip
        by_triangle("dtrsm", _RIGHT, _AS_IT_IS, start, x, size, size)
        by_triangle("dtrsm", _LEFT, _TRANSPOSED, start, x, size, size)
        halve = lambda i, j: made.put(block, i, j, code.mul(made.get(block, i, j), 0.5))  # noqa: E731
        made.each(size, size, halve)

    def pull(g: Matrix, start: int, stop: int) -> None:
        if stop - start <= LEAF:
            leaf(g, start, stop - start)
            return
        middle = start + (stop - start) // 2
        first, rest = middle - start, stop - middle
        pull(g, middle, stop)
        below, b = made.at(g, middle, start), made.at(factor, middle, start)
        multiply(_AS_IT_IS, (rest, first, rest), twice, made.at(g, middle, middle), b, below)
        by_triangle("dtrsm", _RIGHT, _AS_IT_IS, start, below, rest, first)
        multiply(_TRANSPOSED, (first, first, rest), minus, below, b, made.at(g, start, start))
        pull(g, start, middle)

        def mirror(i: Value, j: Value) -> None:
            row, column = code.add(i, middle), code.add(j, start)
            number = code.mul(made.get(g, row, column), 0.5)
            made.put(g, row, column, number)
            made.put(g, column, row, number)

        made.tiles(rest, first, mirror)

    made.overwritten(ct, n, n, lambda g: pull(g, 0, n))
    made.terms += terms(made.equation)


def _large_factor(equation: Equation) -> bool:
    return equation.inputs[0].type.shape[-1] > tuned.factor_rows


def _large_triangle(equation: Equation) -> bool:
    large = equation.inputs[0].type.shape[-1] > LEAST
    return bool(equation.params["triangle"]) and large and not substitutes(equation)


def _blas_refusal(equation: Equation) -> Refusal | None:
    """Why an equation is not one of large matrices by the BLAS."""
    primitive, params, (x, *_) = equation.primitive, equation.params, equation.inputs
    ndim, large = x.type.ndim, x.type.nbytes > tuned.gathered_bytes
    stack = tuple(range(ndim - 2))
    if primitive is dot_general:
        whole = params["batch"] == (stack, stack) and len(params["contract"][0]) == 1
        large = whole and products.refusal_of(equation, stacked=True) is not None
    elif primitive is solve:
        large = ndim == 2 and _large_triangle(equation)
    elif primitive is cholesky_pullback:
        large = ndim == 2 and _large_factor(equation)
    else:
        large = large and params["axes"] == (*stack, ndim - 1, ndim - 2)
    if ndim < 2 or not large or any(a.type.ndim != ndim for a in equation.inputs):
        return refusal(primitive.name, equation=equation)
    return unknown(equation)


def _by_blas(graph: Graph, equation: Equation) -> Kernel:
    return LibraryWriter(graph, equation).kernel(BLAS)


LARGE = dict.fromkeys(BLAS, Single(_blas_refusal, _by_blas))
