"""scipy.linalg's linear equations: general, triangular, banded, Toeplitz, circulant.

The derivative of a solution solves the same equation, that of its cotangent the transposed one (M.
Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation", 2008, section 2.3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.linalg.cholesky_qr import hermitian_part
from fungrad.primitives.linalg.matrix_parts import (
    adjoint,
    bar,
    diagonal_matrix,
    diagonals,
    eye,
    result,
    swap,
)
from fungrad.primitives.linalg.matrix_parts import (
    lower as lower_part,
)
from fungrad.primitives.linalg.matrix_parts import (
    upper as upper_part,
)
from fungrad.primitives.linalg.solve import inv as inverse
from fungrad.primitives.linalg.solve import solve as solve_matrix
from fungrad.primitives.movement.reshape_broadcast_cast import (
    aligned,
    pad,
    reduce_sum,
    reshape,
    slice_axis,
    transpose,
)
from fungrad.primitives.movement.stack_iota import stack
from fungrad.primitives.primitive import Primitive, general
from fungrad.scipy.linalg.structured import toeplitz
from fungrad.scipy.linalg.wrap import (
    each,
    finite,
    la,
    read,
    refuse,
    right_side,
    stands_for,
)
from fungrad.tracing.trace import shape_of

# --- matrices of known structure ------------------------------------------------------------------

_PLAIN = (None, "gen", "general", "banded", "tridiagonal")
_SYMMETRIC = ("sym", "symmetric")
_HERMITIAN = ("her", "hermitian", "pos", "positive definite")


def _structured(a: Any, assume_a: Any, lower: bool) -> tuple[Any, str]:
    """The matrix represented by a, and its triangle for `solve`."""
    if assume_a in _PLAIN:
        return a, ""
    if assume_a == "diagonal":
        return diagonal_matrix(diagonals(a)), ""
    if assume_a in ("lower triangular", "upper triangular"):
        return a, assume_a.split()[0]
    if assume_a in _HERMITIAN or (assume_a in _SYMMETRIC and a.dtype.kind != "c"):
        return hermitian_part(a, lower), ""
    if assume_a in _SYMMETRIC:
        half = lower_part(a) if lower else upper_part(a)
        return half + swap(half) - diagonal_matrix(diagonals(a)), ""
    raise ValueError(f"{assume_a!r} is not a recognized matrix structure")


@stands_for
def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: Any = None,
    transposed: bool = False,
) -> Any:
    """The x with a @ x = b, for square matrices.

    The derivative solves the same equation: a @ dx = db - da @ x.

    Args:
      a: real or complex, shape (..., n, n).
      b: right-hand sides, shape (n,) or (..., n, k).
      lower: whether the lower triangle is read (else the upper) if a is symmetric or Hermitian.
      overwrite_a, overwrite_b: whether SciPy may write into them; without effect on traced
        values.
      check_finite: whether to refuse infinities and NaN.
      assume_a: the structure of a: "gen", "diagonal", "banded", "tridiagonal",
        "upper triangular", "lower triangular", "sym", "her" or "pos"; None lets SciPy look for it,
        and is "gen" on traced values.
      transposed: whether to solve with the transpose of a.

    Returns:
      x, of the shape of b (broadcast), in the common floating dtype.

    Raises:
      ValueError: if the shapes do not fit or the structure is unknown, and for infinities and NaN
        if check_finite is set.
      numpy.linalg.LinAlgError: for a singular matrix.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: solve(a, np.array([2.0]))[0])(np.array([[4.0]]))
    array([[-0.125]])
    """
    (a,) = read("solve", a, check_finite=check_finite)
    a, b, vector = right_side(a, b, check_finite)
    a, triangle = _structured(a, assume_a, lower)
    if transposed:
        a, triangle = swap(a), {"": "", "lower": "upper", "upper": "lower"}[triangle]
    x = solve_matrix(a, b, triangle=triangle)
    return x[..., 0] if vector else x


@stands_for
def inv(
    a: Any,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    assume_a: Any = None,
    lower: bool = False,
) -> Any:
    """Inverses of square matrices; the derivative of the inverse y is -y @ da @ y.

    Args:
      a: real or complex, shape (..., n, n).
      overwrite_a: whether SciPy may write into a; without effect on traced values.
      check_finite: whether to refuse infinities and NaN.
      assume_a: the structure of a, as for `solve`.
      lower: whether the lower triangle is read (else the upper) if a is symmetric or Hermitian.

    Returns:
      An array of the shape of a, in its floating dtype.

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN.
      numpy.linalg.LinAlgError: for a singular matrix.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: inv(a)[0, 0])(np.array([[2.0]]))
    array([[-0.25]])
    """
    (a,) = read("inv", a, check_finite=check_finite)
    a, triangle = _structured(a, assume_a, lower)
    if triangle:
        return solve_matrix(a, eye(a).astype(a.dtype), triangle=triangle)
    return inverse(a)


@stands_for
def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """The x with a @ x = b, where one triangle of a is read and the other counts as 0.

    Args:
      a: real or complex, shape (..., n, n).
      b: right-hand sides, shape (n,) or (..., n, k).
      trans: 0 or "N" for a itself, 1 or "T" for its transpose, 2 or "C" for its adjoint.
      lower: whether the lower triangle of a is read, or the upper.
      unit_diagonal: whether ones replace the diagonal of a.
      overwrite_b: whether SciPy may write into b; without effect on traced values.
      check_finite: whether to refuse infinities and NaN.

    Returns:
      x, of the shape of b (broadcast). The triangle that is not read has derivative 0.

    Raises:
      ValueError: if the shapes do not fit, and for infinities and NaN if check_finite is set.
      numpy.linalg.LinAlgError: for a 0 on the diagonal.

    >>> import fungrad as fg
    >>> a, b = np.array([[2.0, 9.0], [1.0, 1.0]]), np.ones(2)
    >>> fg.grad(lambda b: solve_triangular(a, b, lower=True).sum())(b)
    array([0., 1.])
    """
    (a,) = read("solve_triangular", a, check_finite=check_finite)
    a, b, vector = right_side(a, b, check_finite)
    if unit_diagonal:
        a = (lower_part(a, -1) if lower else upper_part(a, 1)) + eye(a)
    if trans not in (0, "N"):
        a, lower = adjoint(a) if trans in (2, "C") else swap(a), not lower
    x = solve_matrix(a, b, triangle="lower" if lower else "upper")
    return x[..., 0] if vector else x


# --- bands: ab[u + i - j, j] = a[i, j] ------------------------------------------------------------


def _shifted(row: Any, offset: int) -> Any:
    """row[j + offset], and 0 outside."""
    axis, n = len(shape_of(row)) - 1, shape_of(row)[-1]
    count = min(abs(offset), n)
    start, stop = (count, n) if offset > 0 else (0, n - count)
    kept = slice_axis(row, axis=axis, start=start, stop=stop)
    width = (0, count) if offset > 0 else (count, 0)
    return pad(kept, widths=(*[(0, 0)] * axis, width))


def _bands(ab: Any, u: int) -> list[tuple[int, Any]]:
    """The rows of a band matrix, each with its offset j - i."""
    axis = len(shape_of(ab)) - 2
    rows = [slice_axis(ab, axis=axis, start=r, stop=r + 1) for r in range(shape_of(ab)[axis])]
    shape = (*shape_of(ab)[:axis], shape_of(ab)[-1])
    return [(u - r, reshape(row, shape=shape)) for r, row in enumerate(rows)]


def _stacked(rows: list[Any]) -> Any:
    ndim = len(shape_of(rows[0]))
    stacked = stack(*rows)
    return transpose(stacked, axes=(*range(1, ndim), 0, ndim))


def _transposed_bands(ab: Any, u: int) -> Any:
    return _stacked([_shifted(row, offset) for offset, row in reversed(_bands(ab, u))])


def _product(ab: Any, u: int, x: Any) -> Any:
    """The product of a band matrix and the columns of x."""
    columns = swap(x)
    total: Any = 0.0
    for offset, row in _bands(ab, u):
        moved = _shifted(reshape(row, shape=(*shape_of(row)[:-1], 1, shape_of(row)[-1])) * columns,
                         offset)  # fmt: skip
        total = total + moved
    return swap(total)


def _eval_banded(ab: Any, b: Any, *, u: int, definite: bool) -> Any:
    dtype = np.result_type(ab, b)
    if b.size == 0 or ab.size == 0:
        leading = np.broadcast_shapes(ab.shape[:-2], b.shape[:-2])
        return np.zeros((*leading, *b.shape[-2:]), dtype)
    below = ab.shape[-2] - 1 - u
    if definite:
        solution = each(lambda m, y: la.solveh_banded(m[u:], y, lower=True), 1, ab, b)
    else:
        solution = each(lambda m, y: la.solve_banded((below, u), m, y), 1, ab, b)
    return solution[0].astype(dtype, copy=False)


def _type_banded(ab: Type, b: Type, *, u: int, definite: bool) -> Type:
    leading = np.broadcast_shapes(ab.shape[:-2], b.shape[:-2])
    return Type((*leading, *b.shape[-2:]), result(ab, b))


def _vjp_banded(ct: Any, x: Any, args: Any, wanted: Any, *, u: int, definite: bool) -> list[Any]:
    ab = args[0]
    below = shape_of(ab)[-2] - 1 - u
    ct_b = banded(_transposed_bands(ab, u), ct, u=below, definite=definite)
    if not wanted[0]:
        return [None, ct_b]
    left, right = swap(ct_b), swap(x)
    rows = [
        -reduce_sum(_shifted(left, -offset) * right, axes=(len(shape_of(x)) - 2,))
        for offset in range(u, -below - 1, -1)
    ]
    return [_stacked(rows), ct_b]


def _jvp_banded(primals: Any, tangents: Any, *, u: int, definite: bool) -> tuple[Any, Any]:
    ab, b = primals
    dab, db = tangents
    x = banded(ab, b, u=u, definite=definite)
    right = db
    if dab is not None:
        moved = _product(dab, u, x)
        right = -moved if db is None else db - moved
    return x, banded(ab, right, u=u, definite=definite)


banded: Primitive = general(
    "solve_banded",
    eval=_eval_banded,
    type=_type_banded,
    vjp=_vjp_banded,
    jvp=_jvp_banded,
    batch=lambda args, batched, size, *, u, definite: banded(
        *aligned(args, batched), u=u, definite=definite
    ),
)
"""`solve_banded(ab, b, u=, definite=)`: x with a @ x = b for the band matrix a with u diagonals
above the main one, Hermitian and positive definite if `definite`. Elements of ab outside a have
derivative 0."""


@stands_for
def solve_banded(
    l_and_u: Any,
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """The x with a @ x = b for a band matrix a, which is given by its diagonals.

    Args:
      l_and_u: the numbers l and u of diagonals below and above the main one.
      ab: the diagonals, shape (l + u + 1, n): ab[u + i - j, j] = a[i, j].
      b: right-hand sides, shape (n,) or (n, k).
      overwrite_ab, overwrite_b: whether SciPy may write into them; without effect on traced values.
      check_finite: whether to refuse infinities and NaN.

    Returns:
      x, of the shape of b. Elements of ab outside of a have derivative 0.

    Raises:
      ValueError: if the shapes do not fit, and for infinities and NaN if check_finite is set.
      numpy.linalg.LinAlgError: for a singular matrix.

    >>> import fungrad as fg
    >>> ab = np.array([[0.0, 1.0], [2.0, 4.0]])  # [[2, 1], [0, 4]]
    >>> fg.grad(lambda b: solve_banded((0, 1), ab, b)[0])(np.array([2.0, 4.0]))
    array([ 0.5 , -0.125])
    """
    (ab,) = read("solve_banded", ab, check_finite=check_finite, square=False)
    ab, b, vector = right_side(ab, b, check_finite)
    below, above = l_and_u
    if below + above + 1 != ab.shape[-2]:
        raise ValueError(
            f"invalid values for the number of lower and upper diagonals: l+u+1 "
            f"({below + above + 1}) does not equal ab.shape[0] ({ab.shape[-2]})"
        )
    x = banded(ab, b, u=int(above), definite=False)
    return x[..., 0] if vector else x


@stands_for
def solveh_banded(
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Any:
    """The x with a @ x = b for a positive definite band matrix, given by half of its diagonals.

    Args:
      ab: the main diagonal and u others, shape (u + 1, n): ab[u + i - j, j] = a[i, j] for
        i <= j; or ab[i - j, j] = a[i, j] for i >= j if lower.
      b: right-hand sides, shape (n,) or (n, k).
      overwrite_ab, overwrite_b: whether SciPy may write into them; without effect on traced values.
      lower: whether ab holds the lower diagonals.
      check_finite: whether to refuse infinities and NaN.

    Returns:
      x, of the shape of b. An element of ab stands for both of its positions in a.

    Raises:
      ValueError: if the shapes do not fit, and for infinities and NaN if check_finite is set.
      numpy.linalg.LinAlgError: if a is not positive definite.

    >>> import fungrad as fg
    >>> ab = np.array([[2.0, 4.0], [0.0, 0.0]])  # [[2, 0], [0, 4]]
    >>> fg.grad(lambda b: solveh_banded(ab, b, lower=True).sum())(np.ones(2))
    array([0.5 , 0.25])
    """
    (ab,) = read("solveh_banded", ab, check_finite=check_finite, square=False)
    ab, b, vector = right_side(ab, b, check_finite)
    count = ab.shape[-2] - 1
    half = [row for _, row in _bands(ab, 0 if lower else count)]
    half = half if lower else half[::-1]  # from the main diagonal outwards
    mirrored = []
    for k, row in enumerate(half[1:], 1):
        mirrored.append(bar(_shifted(row, -k if lower else k)))
    whole = [*reversed(mirrored), *half] if lower else [*half[:0:-1], half[0], *mirrored]
    x = banded(_stacked(whole), b, u=count, definite=True)
    return x[..., 0] if vector else x


# --- Toeplitz and circulant -----------------------------------------------------------------------


@stands_for
def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    """The x with toeplitz(c, r) @ x = b.

    SciPy takes n^2 steps by Levinson's recursion; traced values take n^3 by elimination.

    Args:
      c_or_cr: the first column c, shape (n,); or the pair of c and the first row r.
      b: right-hand sides, shape (n,) or (n, k).
      check_finite: whether to refuse infinities and NaN.

    Returns:
      x, of the shape of b.

    Raises:
      ValueError: if the shapes do not fit, and for infinities and NaN if check_finite is set.
      numpy.linalg.LinAlgError: for a singular matrix.

    >>> import fungrad as fg
    >>> fg.grad(lambda c: solve_toeplitz(c, np.ones(2)).sum())(np.array([2.0, 0.0]))
    array([-0.5, -0.5])
    """
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    return solve(toeplitz(c, r), b, check_finite=check_finite)


@stands_for
def solve_circulant(
    c: Any,
    b: Any,
    singular: str = "raise",
    tol: Any = None,
    caxis: int = -1,
    baxis: int = 0,
    outaxis: int = 0,
) -> Any:
    """The x with circulant(c) @ x = b, by Fourier transforms: x = ifft(fft(b) / fft(c)).

    Args:
      c: the first column, shape (..., n), with its elements on caxis.
      b: right-hand sides, with their elements on baxis.
      singular: "raise", on traced values; SciPy has "lstsq" too.
      tol: None, on traced values; for SciPy the size up to which an eigenvalue counts as 0.
      caxis, baxis, outaxis: the axes of the elements of c, b and x.

    Returns:
      x, real if c and b are.

    Raises:
      numpy.linalg.LinAlgError: if the matrix is singular.
      UnsupportedArgumentError: for singular="lstsq" or a tolerance, on traced values.

    >>> import fungrad as fg
    >>> fg.grad(lambda b: solve_circulant(np.array([2.0, 0.0]), b).sum())(np.ones(2))
    array([0.5, 0.5])
    """
    refuse("solve_circulant", "Use pinv(circulant(c)) @ b.", singular=singular != "raise", tol=tol)
    c, b = array_of(c), array_of(b)
    c = np.moveaxis(c, caxis, -1)
    b = np.moveaxis(b, baxis, -1)
    c = reshape(c, shape=(*c.shape[:-1], *[1] * (len(b.shape) - 1), c.shape[-1]))
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.fft.ifft(np.fft.fft(b) / np.fft.fft(c))
    x = finite(x if "c" in (c.dtype.kind, b.dtype.kind) else x.real, solution=True)
    return np.moveaxis(x, -1, outaxis)


__all__ = [
    "inv", "solve", "solve_banded", "solve_circulant", "solve_toeplitz", "solve_triangular",
    "solveh_banded",
]  # fmt: skip
