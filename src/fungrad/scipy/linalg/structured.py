"""scipy.linalg's structured matrices (toeplitz, block_diag, ...) and the matrix equations of
Sylvester and Lyapunov.

Structured matrices move or multiply elements; a batch of vectors makes a batch of matrices, as in
SciPy 1.17 (hankel: 1.19).

The derivative of a solution solves the same equation, that of its cotangent the transposed one (M.
Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation", 2008, section 2.3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.numpy.linalg_products import common
from fungrad.numpy.protocol.operands import array_of, promoted
from fungrad.primitives.linalg import flop_counts
from fungrad.primitives.linalg.matrix_parts import adjoint, bar, eye, result, swap
from fungrad.primitives.linalg.solve import inv as inverse
from fungrad.primitives.linalg.solve import solve as solve_matrix
from fungrad.primitives.movement.reshape_broadcast_cast import aligned, broadcast_to, reshape
from fungrad.primitives.primitive import Primitive, general
from fungrad.scipy.linalg.wrap import Error, each, la, read, stands_for
from fungrad.scipy.optional import scipy_module


def _vector(x: Any) -> Any:
    x = array_of(x)
    return x if len(x.shape) else reshape(x, shape=(1,))


def _joined(*parts: Any) -> Any:
    """Vectors joined along their last axis, with broadcast leading axes."""
    leading = np.broadcast_shapes(*[p.shape[:-1] for p in parts])
    return np.concatenate(
        [broadcast_to(p, shape=(*leading, p.shape[-1])) for p in promoted(parts)], axis=-1
    )


@stands_for
def toeplitz(c: Any, r: Any = None) -> Any:
    """Matrices with equal elements along each diagonal: element (i, j) is c[i - j], or r[j - i].

    Args:
      c: the first column, shape (..., m).
      r: the first row, shape (..., n), whose first element is not read; conj(c) if None.

    Returns:
      An array of shape (..., m, n), of the common dtype.

    >>> import fungrad as fg
    >>> fg.grad(lambda c: toeplitz(c).sum())(np.array([1.0, 2.0, 3.0]))
    array([3., 4., 2.])
    """
    c = _vector(c)
    r = bar(c) if r is None else _vector(r)
    m, n = c.shape[-1], r.shape[-1]
    values = _joined(r[..., :0:-1], c)
    return values[..., np.arange(m)[:, None] - np.arange(n) + (n - 1)]


@stands_for
def hankel(c: Any, r: Any = None) -> Any:
    """The matrix with equal elements along each antidiagonal: element (i, j) is c[i + j].

    For several vectors SciPy 1.17 makes one matrix, SciPy 1.19 a batch: SciPy itself computes the
    positions of the elements.

    Args:
      c: the first column, shape (m,).
      r: the last row, shape (n,), whose first element is not read; zeros if None.

    Returns:
      An array of shape (m, n), or (m, m) without r, of the common dtype.

    >>> import fungrad as fg
    >>> fg.grad(lambda c: hankel(c).sum())(np.array([1.0, 2.0, 3.0]))
    array([1., 2., 3.])
    """
    c = array_of(c)
    parts = [np.zeros(1, c.dtype), np.ravel(c)]
    numbers = [np.arange(1, c.size + 1).reshape(c.shape)]
    if r is not None:
        r = array_of(r)
        parts.append(np.ravel(r))
        numbers.append(np.arange(c.size + 1, c.size + 1 + r.size).reshape(r.shape))
    return np.concatenate(promoted(parts))[scipy_module("scipy.linalg").hankel(*numbers)]


@stands_for
def circulant(c: Any) -> Any:
    """Matrices whose columns are the rotations of a vector: element (i, j) is c[(i - j) mod n].

    Args:
      c: the first column, shape (..., n).

    Returns:
      An array of shape (..., n, n), of the dtype of c.

    >>> import fungrad as fg
    >>> fg.grad(lambda c: circulant(c)[0, 1])(np.array([1.0, 2.0, 3.0]))
    array([0., 0., 1.])
    """
    c = _vector(c)
    n = c.shape[-1]
    return c[..., (np.arange(n)[:, None] - np.arange(n)) % max(n, 1)]


@stands_for
def companion(a: Any) -> Any:
    """Companion matrices, whose eigenvalues are the roots of a polynomial.

    The first row is -a[1:] / a[0]; ones stand below the diagonal (R. Horn and C. Johnson, "Matrix
    Analysis", section 3.3).

    Args:
      a: coefficients from the highest power down, shape (..., n), n at least 2.

    Returns:
      An array of shape (..., n - 1, n - 1).

    Raises:
      ValueError: if there are fewer than two coefficients; for SciPy also if a[0] is 0.

    >>> companion([1.0, -3.0, 2.0])
    array([[ 3., -2.],
           [ 1.,  0.]])
    """
    a = array_of(a)
    n = a.shape[-1]
    if n < 2:
        raise ValueError(f"The length of `a` along the last axis must be at least 2; it is {n}.")
    first = (-a[..., 1:] / a[..., :1])[..., None, :]
    rest = np.broadcast_to(np.eye(n - 2, n - 1), (*a.shape[:-1], n - 2, n - 1))
    return np.concatenate([first, rest.astype(first.dtype)], axis=-2)


@stands_for
def matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool = False, workers: Any = None) -> Any:
    """The product toeplitz(c, r) @ x.

    SciPy takes Fourier transforms; traced values take the matrix itself.

    Args:
      c_or_cr: the first column c, shape (m,); or the pair of c and the first row r, shape (n,).
      x: shape (n,) or (n, k).
      check_finite: whether SciPy refuses infinities and NaN; without effect on traced values.
      workers: the number of SciPy's threads; without effect on traced values.

    Returns:
      An array of shape (m,) or (m, k).

    Raises:
      ValueError: if the shapes do not fit.

    >>> import fungrad as fg
    >>> fg.grad(lambda x: matmul_toeplitz(np.array([1.0, 2.0]), x)[0])(np.ones(2))
    array([1., 2.])
    """
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    return np.matmul(*common([toeplitz(c, r), array_of(x)]))


def _eval_sylvester(a: Any, b: Any, q: Any) -> Any:
    dtype = np.result_type(a, b, q)
    if q.size == 0:
        leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], q.shape[:-2])
        return np.zeros((*leading, *q.shape[-2:]), dtype)
    return each(_sylvester_of_one, 1, a, b, q)[0].astype(dtype, copy=False)


def _sylvester_of_one(a: Any, b: Any, q: Any) -> Any:
    x = la.solve_sylvester(a, b, q)
    size = np.abs(a).max() + np.abs(b).max()
    if not np.abs(x).max() * size * np.finfo(x.dtype).eps < np.abs(q).max() or not size:
        if np.any(q):
            raise Error("Singular matrix: a and -b have an eigenvalue in common.")
    return x


def _type_sylvester(a: Type, b: Type, q: Type) -> Type:
    leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], q.shape[:-2])
    return Type((*leading, *q.shape[-2:]), result(a, b, q))


def _vjp_sylvester(ct: Any, x: Any, args: Any, wanted: Any) -> list[Any]:
    y = sylvester(swap(args[0]), swap(args[1]), ct)
    ct_a = -(y @ swap(x)) if wanted[0] else None
    return [ct_a, -(swap(x) @ y) if wanted[1] else None, y]


def _jvp_sylvester(primals: Any, tangents: Any) -> tuple[Any, Any]:
    a, b, q = primals
    da, db, dq = tangents
    x = sylvester(a, b, q)
    right = dq
    for moved in (None if da is None else da @ x, None if db is None else x @ db):
        if moved is not None:
            right = -moved if right is None else right - moved
    return x, sylvester(a, b, right)


sylvester: Primitive = general(
    "sylvester",
    cost=flop_counts.sylvester,
    eval=_eval_sylvester,
    type=_type_sylvester,
    vjp=_vjp_sylvester,
    jvp=_jvp_sylvester,
    batch=lambda args, batched, size: sylvester(*aligned(args, batched)),
)
"""`sylvester(a, b, q)`: x with a @ x + x @ b = q (R. Bartels and G. Stewart, "Solution of the
matrix equation AX + XB = C", 1972)."""


@stands_for
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """The x with a @ x + x @ b = q.

    The method is Bartels and Stewart's ("Solution of the matrix equation AX + XB = C", 1972).

    Args:
      a: real or complex, shape (..., m, m).
      b: real or complex, shape (..., n, n).
      q: the right-hand side, shape (..., m, n).

    Returns:
      x, shape (..., m, n). Its derivative solves the equation with dq - da @ x - x @ db.

    Raises:
      numpy.linalg.LinAlgError: if a and -b have an eigenvalue in common, on traced values.

    >>> import fungrad as fg
    >>> one = np.eye(1)
    >>> fg.grad(lambda a: solve_sylvester(a, one, 4 * one)[0, 0])(one)
    array([[-1.]])
    """
    a, b = read("solve_sylvester", a, b, check_finite=False)
    (q,) = read("solve_sylvester", q, check_finite=False, square=False)
    return sylvester(a, b, q)


@stands_for
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """The x with a @ x + x @ a^H = q.

    Args:
      a: real or complex, shape (..., n, n).
      q: the right-hand side, shape (..., n, n).

    Returns:
      x, shape (..., n, n).

    Raises:
      ValueError: for infinities and NaN.
      numpy.linalg.LinAlgError: if a and -a^H have an eigenvalue in common, on traced values.

    >>> import fungrad as fg
    >>> one = np.eye(1)
    >>> fg.grad(lambda a: solve_continuous_lyapunov(a, 4 * one)[0, 0])(one)
    array([[-2.]])
    """
    a, q = read("solve_continuous_lyapunov", a, q)
    return sylvester(a, adjoint(a), q)


@stands_for
def solve_discrete_lyapunov(a: Any, q: Any, method: Any = None) -> Any:
    """The x with a @ x @ a^H - x + q = 0.

    Args:
      a: real or complex, shape (..., n, n).
      q: the constant term, shape (..., n, n).
      method: "direct" solves for all elements of x at once, in n^6 steps; "bilinear" maps to the
        continuous equation (S. Barnett, "Introduction to Mathematical Control Theory", 1985). None
        is "direct" for fewer than 10 rows.

    Returns:
      x, shape (..., n, n).

    Raises:
      ValueError: for an unknown method.
      numpy.linalg.LinAlgError: if the solution is not unique.

    >>> import fungrad as fg
    >>> half = np.array([[0.5]])
    >>> fg.grad(lambda q: solve_discrete_lyapunov(half, q)[0, 0])(np.array([[3.0]])).round(9)
    array([[1.33333333]])
    """
    a, q = read("solve_discrete_lyapunov", a, q)
    n = a.shape[-1]
    method = ("direct" if n < 10 else "bilinear") if method is None else method.lower()
    if method == "direct":
        pairs = a[..., :, None, :, None] * bar(a)[..., None, :, None, :]
        leading = pairs.shape[:-4]
        left = np.eye(n * n) - reshape(pairs, shape=(*leading, n * n, n * n))
        flat = reshape(q, shape=(*q.shape[:-2], n * n, 1))
        x = solve_matrix(left.astype(a.dtype), flat, triangle="")
        return reshape(x, shape=(*x.shape[:-2], n, n))
    if method != "bilinear":
        raise ValueError(f"Unknown solver {method}")
    a_h, identity = adjoint(a), eye(a)
    half = inverse(a_h + identity)
    b = (a_h - identity) @ half
    c = 2.0 * (inverse(a + identity) @ q @ half)
    return sylvester(adjoint(b), b, -c)


__all__ = [
    "circulant",
    "companion",
    "hankel",
    "matmul_toeplitz",
    "solve_continuous_lyapunov",
    "solve_discrete_lyapunov",
    "solve_sylvester",
    "toeplitz",
]
