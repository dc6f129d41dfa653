"""JAX's lax.linalg: factorizations with JAX's signatures, composed of those of numpy.linalg."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.numpy.protocol.operands import array_of
from fungrad.tracing.source_location import user_line


def _adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def _hermitian(x: Any) -> Any:
    return (x + _adjoint(x)) / 2


def _none(function: str, **arguments: Any) -> None:
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise ArgumentError(
                f"lax.linalg.{function}({name}={value!r}){user_line()} is not supported: LAPACK is "
                "called as NumPy calls it. Leave it out."
            )


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """The lower triangular L with L L^H = x, for Hermitian positive definite x (..., n, n).

    With `symmetrize_input` of (x + x^H) / 2, else only the lower triangle is read.

    >>> cholesky(np.array([[4.0]]))
    array([[2.]])
    """
    x = array_of(x)
    return np.linalg.cholesky(_hermitian(x) if symmetrize_input else x)


def eigh(
    x: Any, *, lower: bool = True, symmetrize_input: bool = True, sort_eigenvalues: bool = True,
    subset_by_index: None = None, implementation: None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Eigenvectors (as columns) and eigenvalues, in ascending order, of Hermitian x (..., n, n).

    >>> v, w = eigh(np.diag([2.0, 1.0]))
    >>> w
    array([1., 2.])
    """
    _none("eigh", subset_by_index=subset_by_index, implementation=implementation)
    x = array_of(x)
    w, v = np.linalg.eigh(_hermitian(x) if symmetrize_input else x, "L" if lower else "U")
    return v, w


def svd(
    x: Any, *, full_matrices: bool = True, compute_uv: bool = True, subset_by_index: None = None,
    algorithm: None = None,
) -> Any:  # fmt: skip
    """u, s, v^H with x = u s v^H, for x (..., m, n); only s if compute_uv is false.

    >>> svd(np.diag([3.0, 2.0]), compute_uv=False)
    array([3., 2.])
    """
    _none("svd", subset_by_index=subset_by_index, algorithm=algorithm)
    x = array_of(x)
    if not compute_uv:
        return np.linalg.svdvals(x)
    return tuple(np.linalg.svd(x, full_matrices))


def qr(
    x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Any, Any]:
    """q with orthonormal columns and upper triangular r, with x = q r, for x (..., m, n).

    >>> q, r = qr(np.eye(2))
    >>> np.abs(r)
    array([[1., 0.], [0., 1.]])
    """
    _none("qr", pivoting=pivoting, use_magma=use_magma)
    q, r = np.linalg.qr(array_of(x), "complete" if full_matrices else "reduced")
    return q, r


def triangular_solve(
    a: Any, b: Any, *, left_side: bool = False, lower: bool = False, transpose_a: bool = False,
    conjugate_a: bool = False, unit_diagonal: bool = False,
) -> Any:  # fmt: skip
    """The solution x of op(a) x = b if left_side, else of x op(a) = b, for triangular a.

    Args:
      a: (..., n, n). b: (..., n, k) if left_side, else (..., k, n).
      lower: whether the lower triangle of a is read; the other one has no derivative.
      transpose_a, conjugate_a: whether op transposes and conjugates.
      unit_diagonal: whether ones replace the diagonal of a.

    >>> triangular_solve(np.array([[2.0, 9.0], [1.0, 1.0]]), np.ones((2, 1)), left_side=True,
    ...                  lower=True)
    array([[0.5], [0.5]])
    """
    a, b = array_of(a), array_of(b)
    triangle: Callable[..., Any] = np.tril if lower else np.triu
    a = triangle(a, (-1 if lower else 1) if unit_diagonal else 0)
    if unit_diagonal:
        a = a + np.eye(a.shape[-1], dtype=a.dtype)
    a = np.conj(a) if conjugate_a else a
    if transpose_a:
        a = np.swapaxes(a, -1, -2)
    if left_side:
        return np.linalg.solve(a, b)
    return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)


def eig(
    x: Any, *, compute_left_eigenvectors: bool = True, compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = True, implementation: None = None, use_magma: bool | None = None,
) -> list[Any]:  # fmt: skip
    """Eigenvalues, and left and right eigenvectors of length 1 as columns, of x (..., n, n).

    The left ones fulfil vl^H x = w vl^H, and are computed as the inverse of the right ones.
    `enable_eigvec_derivs` is ignored: eigenvectors always have derivatives.

    >>> w, vr = eig(np.diag([1.0, 2.0]), compute_left_eigenvectors=False)
    >>> np.sort(w.real)
    array([1., 2.])
    """
    _none("eig", implementation=implementation, use_magma=use_magma)
    w, right = np.linalg.eig(array_of(x))
    results = [w + 0j]
    if compute_left_eigenvectors:
        left = _adjoint(np.linalg.inv(right + 0j))
        results.append(left / np.linalg.norm(left, axis=-2, keepdims=True))
    if compute_right_eigenvectors:
        results.append(right + 0j)
    return results


def symmetric_product(
    a_matrix: Any, c_matrix: Any, *, alpha: float = 1.0, beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Any:  # fmt: skip
    """alpha a a^T + beta c, for a (..., n, k) and symmetric c (..., n, n).

    Both triangles are valid, also without `symmetrize_output`.

    >>> symmetric_product(np.ones((1, 2)), np.ones((1, 1)))
    array([[2.]])
    """
    a, c = array_of(a_matrix), array_of(c_matrix)
    return alpha * np.matmul(a, np.swapaxes(a, -1, -2)) + beta * c


def cholesky_update(r_matrix: Any, w_vector: Any) -> Any:
    """The upper triangular R' with R'^T R' = R^T R + w w^T, for R (n, n) and w (n).

    It is r, with a positive diagonal, of the QR decomposition of R with the row w appended.

    >>> cholesky_update(np.array([[3.0]]), np.array([4.0]))
    array([[5.]])
    """
    upper, w = np.triu(array_of(r_matrix)), array_of(w_vector)
    _, r = np.linalg.qr(np.concatenate([upper, w[None, :]], axis=0))
    sign = np.where(np.less(np.diagonal(r), 0), -1.0, 1.0).astype(r.dtype)
    return sign[:, None] * r


__all__ = [
    "cholesky", "cholesky_update", "eig", "eigh", "qr", "svd", "symmetric_product",
    "triangular_solve",
]  # fmt: skip
