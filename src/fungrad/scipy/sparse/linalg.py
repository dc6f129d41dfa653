"""scipy.sparse.linalg for traced values: equations and few eigenvalues of sparse matrices.

The derivative of a solution solves the same equation, that of its cotangent the transposed one
(M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation", 2008, section 2.3); that of the matrix is read at its nonzeros alone. All names
that are not written here are SciPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.ir.types import Type
from fungrad.primitives.movement.reshape_broadcast_cast import (
    concatenate,
    reduce_sum,
    reshape,
    slice_axis,
    transpose,
)
from fungrad.primitives.movement.stack_iota import stack
from fungrad.primitives.primitive import Primitive, general
from fungrad.scipy.optional import scipy_module
from fungrad.scipy.sparse.routines import flat, sums, taken
from fungrad.support.lazy import Record
from fungrad.tracing.captured_arrays import same_bits
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of, typeof

sparse = scipy_module("scipy.sparse")
theirs = scipy_module("scipy.sparse.linalg")

# --- equations ------------------------------------------------------------------------------------


class Structure:
    """The positions of the nonzeros of a square matrix, and the factors of the last one."""

    __slots__ = ("columns", "factors", "rows", "size")

    def __init__(self, rows: Any, columns: Any, size: int) -> None:
        self.rows = rows
        self.columns = columns
        self.size = size
        self.factors: tuple[Any, Any] | None = None

    def matrix(self, data: Any) -> Any:
        """The plain matrix with these nonzeros."""
        return sparse.csc_matrix((data, (self.rows, self.columns)), shape=(self.size, self.size))

    def factorised(self, data: Any) -> Any:
        """SciPy's LU factors of the matrix, of the call before if it had the same numbers."""
        known = self.factors
        if known is None or not same_bits(known[0], data):
            known = self.factors = np.array(data), theirs.splu(self.matrix(data))
        return known[1]

    def product(self, data: Any, x: Any, transposed: bool) -> Any:
        """The matrix, or its transpose, times vectors in columns, traced or not."""
        rows, columns = (self.columns, self.rows) if transposed else (self.rows, self.columns)
        factors = reshape(data, shape=(len(rows), 1))
        return sums(factors * taken(x, columns), rows, self.size)


class Method(Record):
    """How an equation is solved: by LU factors, or by a function of the matrix and a vector."""

    iterate: Callable[[Any, Any], Any] | None = None


LU = Method()


def _eval_solve(
    data: Any, b: Any, *, structure: Structure, transposed: bool, method: Method
) -> Any:
    dtype = np.result_type(data, b)
    if method.iterate is not None:
        matrix = structure.matrix(data)
        matrix = matrix.T if transposed else matrix
        columns = [method.iterate(matrix, column) for column in np.asarray(b).T]
        return np.stack(columns, axis=-1).astype(dtype, copy=False)
    factors = structure.factorised(np.asarray(data))
    given, way = np.asfortranarray(b), "T" if transposed else "N"
    if given.dtype.kind == "c" and dtype != np.asarray(data).dtype:
        real, imag = [factors.solve(part.copy(), way) for part in (given.real, given.imag)]
        return (real + 1j * imag).astype(dtype, copy=False)
    x = factors.solve(given.astype(dtype), way)
    return np.asarray(x).astype(dtype, copy=False)


def _type_solve(data: Type, b: Type, **params: Any) -> Type:
    return Type(b.shape, np.result_type(data.dtype, b.dtype))


def _vjp_solve(
    ct: Any, x: Any, args: Any, wanted: Any, *, structure: Structure, transposed: bool, method: Any
) -> list[Any]:
    data, _ = args
    ct_b = solve(data, ct, structure=structure, transposed=not transposed, method=LU)
    if not wanted[0]:
        return [None, ct_b]
    rows, columns = structure.rows, structure.columns
    rows, columns = (columns, rows) if transposed else (rows, columns)
    return [-reduce_sum(taken(ct_b, rows) * taken(x, columns), axes=(1,)), ct_b]


def _jvp_solve(
    primals: Any, tangents: Any, *, structure: Structure, transposed: bool, method: Any
) -> tuple[Any, Any]:
    data, b = primals
    d_data, d_b = tangents
    x = solve(data, b, structure=structure, transposed=transposed, method=method)
    moved = d_b
    if d_data is not None:
        product = structure.product(d_data, x, transposed)
        moved = -product if d_b is None else d_b - product
    return x, solve(data, moved, structure=structure, transposed=transposed, method=LU)


def _batch_solve(args: Any, batched: Any, size: int, **params: Any) -> Any:
    data, b = args
    if not batched[0]:  # one factorisation for all
        rows, columns = shape_of(b)[1:]
        wide = reshape(transpose(b, axes=(1, 0, 2)), shape=(rows, size * columns))
        x = reshape(solve(data, wide, **params), shape=(rows, size, columns))
        return transpose(x, axes=(1, 0, 2))

    def example(value: Any, has_axis: bool, k: int) -> Any:
        if not has_axis:
            return value
        part = slice_axis(value, axis=0, start=k, stop=k + 1)
        return reshape(part, shape=shape_of(value)[1:])

    found = [
        solve(example(data, True, k), example(b, batched[1], k), **params) for k in range(size)
    ]
    return stack(*found)


solve: Primitive = general(
    "sparse_solve",
    fresh=True,
    eval=_eval_solve,
    type=_type_solve,
    vjp=_vjp_solve,
    jvp=_jvp_solve,
    batch=_batch_solve,
)
"""`solve(data, b, structure=, transposed=, method=)`: x with A @ x = b, for the matrix A with these
data at its nonzeros, and b with vectors in its columns."""


def _square(name: str, a: Any) -> tuple[Structure, Any]:
    """The structure and the data of a sparse or dense square matrix, traced or not.

    Raises:
      UnsupportedArgumentError: if it is a LinearOperator, whose numbers are not at hand.
    """
    if not sparse.issparse(a):
        if not hasattr(a, "shape") or isinstance(a, theirs.LinearOperator):
            raise UnsupportedArgumentError(
                f"scipy.sparse.linalg.{name} was called with a {type(a).__name__} on a traced "
                f"value{user_line()}. Give it a sparse matrix, or use fg.custom_linear_solve."
            )
        rows, columns = np.indices(a.shape)
        return Structure(np.ravel(rows), np.ravel(columns), a.shape[0]), flat(a)
    if a.shape[0] != a.shape[1]:
        raise ValueError(f"matrix must be square (has shape {a.shape})")
    a = a.tocsc() if a.format in ("csc", "csr") else a.tocsr()
    a.sum_duplicates()
    a = a.tocoo()
    rows, columns = (np.array(part, np.intp) for part in (a.row, a.col))
    return Structure(rows, columns, a.shape[0]), flat(a.data)


def _solved(structure: Structure, data: Any, b: Any, transposed: bool, method: Method) -> Any:
    b = b.toarray() if sparse.issparse(b) else b
    shape = shape_of(b)
    wide = reshape(np.asarray(b), shape=(structure.size, int(np.prod(shape)) // structure.size))
    wide = wide if typeof(wide).inexact else wide * 1.0
    data = data if typeof(data).inexact else data * 1.0
    x = solve(data, wide, structure=structure, transposed=transposed, method=method)
    return reshape(x, shape=shape)


def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    """x with A @ x = b, as scipy.sparse.linalg.spsolve; the derivative is O(nonzeros) and solves.

    >>> import numpy as np, scipy.sparse, fungrad as fg
    >>> A = scipy.sparse.csc_matrix([[2.0, 1.0], [0.0, 4.0]])
    >>> fg.grad(lambda b: np.sum(spsolve(A, b)))(np.ones(2))
    array([0.5  , 0.125])
    """
    structure, data = _square("spsolve", A)
    x = _solved(structure, data, b, False, LU)
    if sparse.issparse(b):
        return type(b)(x)
    return reshape(x, shape=(structure.size,)) if shape_of(x) == (structure.size, 1) else x


class Factors:
    """The LU factors of a matrix, whose `solve` is differentiated."""

    def __init__(self, name: str, a: Any) -> None:
        self._matrix = a
        self._structure, self._data = _square(name, a)
        self.shape = (self._structure.size,) * 2
        self.nnz = len(self._structure.rows)

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """x with A @ x = rhs, or with the transpose ("T") or the adjoint ("H") of A."""
        data = self._data
        if trans == "H" and typeof(data).dtype.kind == "c":
            data = np.conj(data)
        return _solved(self._structure, data, rhs, trans != "N", LU)

    def __getattr__(self, name: str) -> Any:
        return getattr(theirs.splu(self._matrix), name)


def splu(A: Any, *args: Any, **kwargs: Any) -> Factors:
    """The LU factors of A, as scipy.sparse.linalg.splu, for `solve`."""
    return Factors("splu", A)


def factorized(A: Any) -> Callable[[Any], Any]:
    """The function that solves A @ x = b for b, as scipy.sparse.linalg.factorized."""
    return Factors("factorized", A).solve


def _iterative(name: str) -> Callable[..., Any]:
    run = getattr(theirs, name)

    def solver(A: Any, b: Any, x0: Any = None, **options: Any) -> tuple[Any, int]:
        for option in ("callback", "M", "M1", "M2"):
            value = options.get(option)
            if value is not None and (option == "callback" or not _is_plain(value)):
                raise UnsupportedArgumentError(
                    f"scipy.sparse.linalg.{name} was called with {option}= on a traced "
                    f"value{user_line()}: leave it out, or make it of plain numbers."
                )
        structure, data = _square(name, A)
        start = None if x0 is None or not _is_plain(x0) else np.ravel(np.array(x0))

        def iterate(matrix: Any, right: Any) -> Any:
            return run(matrix, right, x0=start, **options)[0]

        x = _solved(structure, data, b, False, Method(iterate))
        return reshape(x, shape=(structure.size,)), 0

    solver.__name__ = name
    solver.__doc__ = (
        f"x with A @ x = b, and 0, as scipy.sparse.linalg.{name}; derivatives by direct solves."
    )
    return solver


def _is_plain(value: Any) -> bool:
    return isinstance(
        getattr(value, "data", value), (np.ndarray, memoryview, theirs.LinearOperator)
    ) and type(value).__module__.partition(".")[0] in ("numpy", "scipy")


bicg, bicgstab, cg, cgs = map(_iterative, ("bicg", "bicgstab", "cg", "cgs"))
gmres, lgmres, minres, qmr = map(_iterative, ("gmres", "lgmres", "minres", "qmr"))

# --- norms and eigenvalues ------------------------------------------------------------------------


def norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    """The norm of a sparse matrix, as scipy.sparse.linalg.norm."""
    if ord in (None, "fro", "f") and axis is None:
        return np.sqrt(np.sum(np.abs(x.tocsr().data) ** 2))
    if axis is None and ord in (1, np.inf):
        return np.max(np.sum(np.abs(x.toarray()), axis=0 if ord == 1 else 1))
    return np.linalg.norm(x.toarray(), ord, axis)


class Options(Record):
    """Arguments of SciPy's eigsh, by name."""

    by_name: dict[str, Any]


def _eval_few(data: Any, *mass: Any, structures: Any, options: Options) -> tuple[Any, Any]:
    second = structures[1].matrix(mass[0]) if mass else None
    return tuple(theirs.eigsh(structures[0].matrix(data), M=second, **options.by_name))


def _type_few(data: Type, *mass: Type, structures: Any, options: Options) -> tuple[Type, Type]:
    count = options.by_name["k"]
    return Type((count,), data.dtype), Type((structures[0].size, count), data.dtype)


def _batch_few(args: Any, batched: Any, size: int, **params: Any) -> list[Any]:
    rows = [
        few_eigenvalues(
            *[a[k] if has else a for a, has in zip(args, batched, strict=True)], **params
        )
        for k in range(size)
    ]
    return [stack(*part) for part in zip(*rows, strict=True)]


few_eigenvalues: Primitive = general(
    "sparse_eigsh",
    fresh=True,
    multiple=True,
    eval=_eval_few,
    type=_type_few,
    cuts=True,
    batch=_batch_few,
)
"""`few_eigenvalues(data, *mass, structures=, options=)`: SciPy's eigenvalues and vectors, without a
derivative."""


def eigsh(
    A: Any, k: int = 6, M: Any = None, sigma: Any = None, which: str = "LM", v0: Any = None,
    ncv: Any = None, maxiter: Any = None, tol: float = 0, return_eigenvectors: bool = True,
    mode: str = "normal",
) -> Any:  # fmt: skip
    """k eigenvalues and vectors of a symmetric matrix, as scipy.sparse.linalg.eigsh.

    Two steps of Newton's method for A v = w M v, v' M v = 1 follow SciPy's result: they change it
    by rounding errors only, and have its derivatives up to the third order, by sparse solves. The
    eigenvalues have to be simple.
    """
    structure, data = _square("eigsh", A)
    parts = [(structure, data)] if M is None else [(structure, data), _square("eigsh", M)]
    if any(typeof(d).dtype.kind == "c" for _, d in parts):
        raise UnsupportedArgumentError(
            f"scipy.sparse.linalg.eigsh was called on traced complex numbers{user_line()}. Give it "
            "a real symmetric matrix."
        )
    options = {
        "k": k, "sigma": sigma, "which": which, "v0": v0, "ncv": ncv, "maxiter": maxiter,
        "tol": tol, "mode": mode,
    }  # fmt: skip
    values, vectors = few_eigenvalues(
        *[d if typeof(d).inexact else d * 1.0 for _, d in parts],
        structures=tuple([s for s, _ in parts]),
        options=Options(options),
    )
    eye = np.arange(structure.size)
    mass = parts[1] if M is not None else (Structure(eye, eye, len(eye)), np.ones(len(eye)))
    refined = [_refined(parts[0], mass, values[i], vectors[:, i]) for i in range(k)]
    values = stack(*[value for value, _ in refined])
    if not return_eigenvectors:
        return values
    return values, transpose(stack(*[vector for _, vector in refined]), axes=(1, 0))


def _refined(matrix: Any, mass: Any, value: Any, vector: Any) -> tuple[Any, Any]:
    """An eigenvalue and its vector after two steps of Newton's method."""
    (a, a_data), (m, m_data) = matrix, mass
    size, last = a.size, np.full(a.size, a.size)
    every = np.arange(size)
    bordered = Structure(
        np.concatenate([a.rows, m.rows, every, last]),
        np.concatenate([a.columns, m.columns, last, every]),
        size + 1,
    )
    column = (size, 1)
    for _ in range(2):
        v = reshape(vector, shape=column)
        mv = m.product(m_data, v, False)
        left = a.product(a_data, v, False) - value * mv
        right = concatenate(-left, reshape((np.sum(v * mv) - 1.0) * 0.5, shape=(1, 1)), axis=0)
        border = -reshape(mv, shape=(size,))
        data = concatenate(a_data, -value * m_data, border, border, axis=0)
        step = solve(data, right, structure=bordered, transposed=False, method=LU)
        step = reshape(step, shape=(size + 1,))
        vector = vector + step[:size]
        value = value + step[size]
    return value, vector


def __getattr__(name: str) -> Any:
    return getattr(theirs, name)
