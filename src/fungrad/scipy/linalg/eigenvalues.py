"""scipy.linalg's eigenvalues, singular values, and functions of them.

For equal eigenvalues see docs/linalg.md. Left eigenvectors are the rows of the inverse of the right
ones; a generalised problem is reduced by Cholesky factors (G. Golub and C. Van Loan, "Matrix
Computations", section 8.7.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.numpy.linalg_products import singular_values
from fungrad.numpy.protocol.implements import as_array, known
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.linalg import cholesky_qr, spectra
from fungrad.primitives.linalg.matrix_parts import adjoint, bar, columns, result
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.primitives.linalg.solve import pinv as pseudoinverse
from fungrad.primitives.primitive import Primitive, general
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.linalg.structured import sylvester
from fungrad.scipy.linalg.wrap import Error, each, la, read, refuse, stands_for
from fungrad.tracing.trace import EVAL, current

_GENERAL = "Solve with b first: eig(np.linalg.solve(b, a))."
_SUBSET = "Take all eigenvalues, and slice them."

# --- general --------------------------------------------------------------------------------------


def _left_of_one(a: Any) -> Any:
    return la.eig(a, left=True, right=False)[1].astype(spectra.complex_dtype(a.dtype))


left_vectors: Primitive = general(
    "left_vectors",
    eval=lambda a: each(_left_of_one, 1, a)[0] if a.size else _empty(a),
    type=lambda a: Type(a.shape, spectra.complex_dtype(result(a))),
    batch=lambda args, batched, size: left_vectors(args[0]),
    cuts=True,
)
"""`left_vectors(a)`: LAPACK's left eigenvectors, used only for their phases."""


def _empty(a: Any) -> Any:
    return np.zeros(a.shape, spectra.complex_dtype(a.dtype))


def _left(a: Any, v: Any) -> Any:
    """The left eigenvectors, of length 1 and with a real largest element, as in LAPACK."""
    u = adjoint(inv(v))
    u = u / np.sqrt(np.sum(np.abs(u) ** 2, axis=-2, keepdims=True))
    reference = left_vectors(stop_gradient(a))
    is_anchor = spectra.anchors(reference)
    anchor = np.sum(select(is_anchor, u, 0.0), axis=-2, keepdims=True)
    u = u * bar(anchor) / np.abs(anchor)
    sign = np.sum(bar(reference) * stop_gradient(u), axis=-2, keepdims=True)
    return u * stop_gradient(np.sign(np.real(sign)))


@stands_for
def eig(
    a: Any,
    b: Any = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """Eigenvalues and left and right eigenvectors: a @ v = w v and u^H @ a = w u^H.

    Args:
      a: real or complex, shape (..., n, n).
      b: None, on traced values; SciPy solves a @ v = w b @ v.
      left, right: whether to return the left and the right eigenvectors.
      overwrite_a, overwrite_b: whether SciPy may write into them; without effect on traced
        values.
      check_finite: whether to refuse infinities and NaN.
      homogeneous_eigvals: False, on traced values; SciPy may return quotients as pairs.

    Returns:
      The eigenvalues w, shape (..., n), or a tuple of them, the left and the right vectors, in the
      columns of arrays of shape (..., n, n). All are complex.

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN.
      UnsupportedArgumentError: for a generalised problem, on traced values.

    >>> import fungrad as fg
    >>> largest = lambda a: np.max(np.real(eig(a)[0]))
    >>> fg.grad(largest)(np.array([[1.0, 0.0], [0.0, 2.0]]))
    array([[0., 0.],
           [0., 1.]])
    """
    refuse("eig", _GENERAL, b=b, homogeneous_eigvals=homogeneous_eigvals)
    (a,) = read("eig", a, check_finite=check_finite)
    if not (left or right):
        return spectra.eigvals(a)
    w, v = spectra.eig(a)
    results = [w, *([_left(a, v)] if left else []), *([v] if right else [])]
    return tuple(results)


@stands_for
def eigvals(
    a: Any,
    b: Any = None,
    overwrite_a: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """Eigenvalues of square matrices: the derivative of w is u^H @ da @ v / (u^H @ v).

    Args:
      a, b, overwrite_a, check_finite, homogeneous_eigvals: as for `eig`, with the same errors.

    Returns:
      Complex numbers of shape (..., n).

    >>> import fungrad as fg
    >>> fg.grad(lambda a: np.sum(np.real(eigvals(a))))(np.diag([1.0, 2.0]))
    array([[1., 0.],
           [0., 1.]])
    """
    refuse("eigvals", _GENERAL, b=b, homogeneous_eigvals=homogeneous_eigvals)
    return spectra.eigvals(*read("eigvals", a, check_finite=check_finite))


# --- Hermitian ------------------------------------------------------------------------------------


def eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: Any = None,
) -> Any:
    """Eigenvalues and eigenvectors of a @ v = w b @ v for Hermitian a and positive definite b.

    The vectors' signs are those of NumPy's driver, in and outside of transforms.

    Args:
      a: Hermitian, shape (..., n, n); one triangle is read.
      b: Hermitian and positive definite, of the shape of a; the identity if None.
      lower: whether the lower triangles are read, or the upper.
      eigvals_only: whether to return w alone.
      overwrite_a, overwrite_b: without effect.
      type: 1 for a @ v = w b @ v, 2 for a @ b @ v = w v, 3 for b @ a @ v = w v.
      check_finite: whether to refuse infinities and NaN.
      subset_by_index: the first and last index of the eigenvalues wanted; all if None.
      subset_by_value: None, on traced values; for SciPy an interval of eigenvalues.
      driver: LAPACK's routine, used by SciPy alone; without effect on traced values.

    Returns:
      (w, v): real numbers in ascending order, shape (..., n), and the vectors in the columns of an
      array of shape (..., n, n).

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN.
      numpy.linalg.LinAlgError: if b is not positive definite.
      UnsupportedArgumentError: for subset_by_value, on traced values.

    >>> import fungrad as fg
    >>> eigh(np.array([[2.0, 0.0], [0.0, 6.0]]), np.eye(2) * 2, eigvals_only=True)
    array([1., 3.])
    >>> fg.grad(lambda a: eigh(a, eigvals_only=True)[1])(np.diag([2.0, 6.0]))
    array([[0., 0.],
           [0., 1.]])
    """
    subset = subset_by_index is not None or subset_by_value is not None
    if current() is EVAL and (subset or driver is not None):
        return la.eigh(
            a, b, lower=lower, eigvals_only=eigvals_only, type=type, check_finite=check_finite,
            subset_by_index=subset_by_index, subset_by_value=subset_by_value, driver=driver,
        )  # fmt: skip
    refuse("eigh", _SUBSET, subset_by_value=subset_by_value)
    chosen = slice(None)
    if subset_by_index is not None:
        chosen = slice(int(subset_by_index[0]), int(subset_by_index[1]) + 1)
    (a,) = read("eigh", a, check_finite=check_finite)
    if b is None:
        if eigvals_only:
            return spectra.eigvalsh(a, lower=lower)[..., chosen]
        w, v = spectra.eigh(a, lower=lower)
        return w[..., chosen], v[..., chosen]
    a, b = read("eigh", a, b, check_finite=check_finite)
    factor = cholesky_qr.cholesky(b if lower else adjoint(b))
    a = cholesky_qr.hermitian_part(a, lower)
    if type == 1:
        half = solve(factor, a, triangle="lower")
        inner = adjoint(solve(factor, adjoint(half), triangle="lower"))
    else:
        inner = adjoint(factor) @ a @ factor
    if eigvals_only:
        return spectra.eigvalsh(inner, lower=True)[..., chosen]
    w, v = spectra.eigh(inner, lower=True)
    v = factor @ v if type == 3 else solve(adjoint(factor), v, triangle="upper")
    return w[..., chosen], v[..., chosen]


@stands_for
def eigvalsh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: Any = None,
) -> Any:
    """Eigenvalues of Hermitian matrices, also of a @ v = w b @ v; the derivative is v^H @ da @ v.

    Args:
      a, b, lower, overwrite_a, overwrite_b, type, check_finite: as for `eigh`; so are the errors.
      subset_by_index, subset_by_value, driver: likewise.

    Returns:
      Real numbers in ascending order, shape (..., n).

    >>> import fungrad as fg
    >>> fg.grad(lambda a: eigvalsh(a)[1])(np.diag([2.0, 6.0]))
    array([[0., 0.],
           [0., 1.]])
    """
    return eigh(
        a, b, lower=lower, eigvals_only=True, type=type, check_finite=check_finite,
        subset_by_index=subset_by_index, subset_by_value=subset_by_value,
    )  # fmt: skip


def _tridiagonal(name: str, d: Any, e: Any, check_finite: bool) -> Any:
    d, e = array_of(d), array_of(e)
    if d.shape[-1] != e.shape[-1] + 1:
        raise ValueError(f"d ({d.shape}) must have one more element than e ({e.shape})")
    rows = np.arange(d.shape[-1])
    beside = np.pad(e, [(0, 0)] * (len(e.shape) - 1) + [(0, 1)])[..., None, :]
    whole = np.where(rows[:, None] == rows, d[..., None, :], 0.0)
    whole = whole + np.where(rows[:, None] == rows + 1, beside, 0.0)
    return read(name, whole, check_finite=check_finite)[0]


@stands_for
def eigh_tridiagonal(
    d: Any,
    e: Any,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: Any = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:
    """Eigenvalues and eigenvectors of symmetric tridiagonal matrices.

    The vectors' signs are those of NumPy's eigh on traced values, which form the whole matrix.

    Args:
      d: the diagonal, real, shape (..., n).
      e: the elements beside it, real, shape (..., n - 1).
      eigvals_only: whether to return w alone.
      select: "a" for all, on traced values; for SciPy also "v" and "i".
      select_range: the interval or indices that SciPy selects.
      check_finite: whether to refuse infinities and NaN.
      tol: SciPy's tolerance; without effect on traced values.
      lapack_driver: LAPACK's routine, used by SciPy alone; without effect on traced values.

    Returns:
      (w, v): real numbers in ascending order, shape (..., n), and the vectors in the columns of an
      array of shape (..., n, n).

    Raises:
      ValueError: if the lengths do not fit, and for infinities and NaN if check_finite is set.
      UnsupportedArgumentError: for select other than "a", on traced values.

    >>> import fungrad as fg
    >>> fg.grad(lambda d: eigh_tridiagonal(d, np.zeros(1))[0][1])(np.array([2.0, 6.0]))
    array([0., 1.])
    """
    refuse("eigh_tridiagonal", _SUBSET, select=select != "a" and select)
    a = _tridiagonal("eigh_tridiagonal", d, e, check_finite)
    return eigh(a, eigvals_only=eigvals_only)


@stands_for
def eigvalsh_tridiagonal(
    d: Any,
    e: Any,
    select: str = "a",
    select_range: Any = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:
    """Eigenvalues of symmetric tridiagonal matrices.

    Args:
      d, e, select, select_range, check_finite: as for `eigh_tridiagonal`; so are the errors.
      tol, lapack_driver: likewise.

    Returns:
      Real numbers in ascending order, shape (..., n).

    >>> import fungrad as fg
    >>> fg.grad(lambda d: eigvalsh_tridiagonal(d, np.zeros(1))[1])(np.array([2.0, 6.0]))
    array([0., 1.])
    """
    refuse("eigvalsh_tridiagonal", _SUBSET, select=select != "a" and select)
    a = _tridiagonal("eigvalsh_tridiagonal", d, e, check_finite)
    return spectra.eigvalsh(a, lower=True)


# --- singular values ------------------------------------------------------------------------------


@stands_for
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """The singular value decomposition: a = u @ diag(s) @ vh, with orthonormal columns and rows.

    Args:
      a: real or complex, shape (..., m, n); k is the lesser of m and n.
      full_matrices: whether u and vh are square.
      compute_uv: whether to return u and vh too.
      overwrite_a: whether SciPy may write into a; without effect on traced values.
      check_finite: whether to refuse infinities and NaN.
      lapack_driver: LAPACK's routine, used by SciPy alone; without effect on traced values.

    Returns:
      (u, s, vh) of shapes (..., m, m), (..., k) and (..., n, n), or (..., m, k), (..., k) and
      (..., k, n); or s alone. s is real, in descending order.

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN.
      numpy.linalg.LinAlgError: if LAPACK does not converge.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: svd(a)[1][0])(np.diag([3.0, 2.0])) + 0.0
    array([[1., 0.],
           [0., 0.]])
    """
    (a,) = read("svd", a, check_finite=check_finite, square=False)
    if not compute_uv:
        return spectra.svdvals(a)
    return tuple(spectra.svd(a, full=bool(full_matrices)))


@stands_for
def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Singular values: the derivative of s is that of Re(u^H @ da @ v).

    Args:
      a, overwrite_a, check_finite: as for `svd`, with the same errors.

    Returns:
      Real numbers in descending order, shape (..., min(m, n)).

    >>> import fungrad as fg
    >>> fg.grad(lambda a: svdvals(a)[0])(np.diag([3.0, 2.0])) + 0.0
    array([[1., 0.],
           [0., 0.]])
    """
    return spectra.svdvals(*read("svdvals", a, check_finite=check_finite, square=False))


def _rank(a: Any, atol: Any, rtol: Any) -> tuple[Any, Any, Any]:
    """The singular values, flags of those above the tolerance, and their number."""
    s = singular_values(a)
    if rtol is None:
        rtol = max(a.shape[-2:]) * np.finfo(s.dtype).eps if not atol else 0.0
    large = s > np.max(s, axis=-1, keepdims=True, initial=0.0) * rtol + (atol or 0.0)
    return s, large, np.sum(large, axis=-1)


@stands_for
def pinv(
    a: Any,
    *,
    atol: Any = None,
    rtol: Any = None,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Any:
    """Pseudoinverses of Moore and Penrose, by singular values.

    The derivative is that at constant rank (G. Golub and V. Pereyra, "The differentiation of
    pseudo-inverses and nonlinear least squares problems whose variables separate", 1973).

    Args:
      a: real or complex, shape (..., m, n).
      atol: the size up to which a singular value counts as 0; 0 if None.
      rtol: the same as a share of the largest one; by default max(m, n) times the rounding error,
        or 0 with atol.
      return_rank: whether to return the rank too.
      check_finite: whether to refuse infinities and NaN.

    Returns:
      An array of shape (..., n, m), or the pair of it and the rank.

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: pinv(a)[0, 0])(np.array([[2.0]]))
    array([[-0.25]])
    """
    (a,) = read("pinv", a, check_finite=check_finite, square=False)
    if atol:
        u, s, vh = spectra.svd(a, full=False)
        large = _rank(a, atol, rtol)[1]
        pseudo = (adjoint(vh) * columns(select(large, 1.0 / select(large, s, 1.0), 0.0))) @ adjoint(
            u
        )
    else:
        cutoff = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps) if rtol is None else rtol
        pseudo = pseudoinverse(a, as_array(cutoff))
    return (pseudo, _rank(a, atol, rtol)[2]) if return_rank else pseudo


@stands_for
def orth(A: Any, rcond: Any = None) -> Any:
    """An orthonormal basis of the range: the left singular vectors of nonzero singular values.

    Args:
      A: real or complex, shape (..., m, n).
      rcond: the share of the largest singular value up to which one counts as 0; by default
        max(m, n) times the rounding error.

    Returns:
      An array of shape (..., m, rank).

    Raises:
      ValueError: for infinities and NaN.
      AbstractValueError: under jit and vmap, where the rank, and so the shape, is not known.

    >>> np.abs(orth(np.array([[2.0, 0.0], [0.0, 0.0]])))
    array([[1.],
           [0.]])
    """
    (A,) = read("orth", A, square=False)
    rank = int(known(_rank(A, None, rcond)[2], "the rank, which determines orth's shape"))
    return spectra.svd(A, full=False)[0][..., :rank]


def _unitary_of(a: Any) -> Any:
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    return u @ vh


def _eval_full_rank(p: Any) -> Any:
    w = np.linalg.eigvalsh(p)
    if w.size and np.any(w[..., 0] <= 1e-14 * w[..., -1]):
        raise Error("polar has no derivative at a matrix without full rank.")
    return p


full_rank: Primitive = general(
    "full_rank",
    eval=_eval_full_rank,
    type=lambda p: Type(p.shape, p.dtype),
    vjp=lambda ct, y, args, wanted: [ct],
    jvp=lambda primals, tangents: (full_rank(*primals), tangents[0]),
    batch=lambda args, batched, size: full_rank(args[0]),
)
"""`full_rank(p)`: p itself if positive definite; LinAlgError if singular."""


def _unitary_tangent(a: Any, u: Any, da: Any) -> Any:
    """The tangent of U: the skew K = U^H dU solves K P + P K = U^H da - da^H U (N. Higham, 2008).

    The map is self-adjoint.
    """
    p = adjoint(u) @ a
    p = full_rank(0.5 * (p + adjoint(p)))
    inner = adjoint(u) @ da
    tangent = u @ sylvester(p, p, inner - adjoint(inner))
    if a.shape[-2] > a.shape[-1]:
        tangent = tangent + adjoint(solve(p, adjoint(da - u @ inner), triangle=""))
    return tangent


def _jvp_unitary(primals: Any, tangents: Any) -> tuple[Any, Any]:
    u = unitary_factor(primals[0])
    return u, _unitary_tangent(primals[0], u, tangents[0])


def _vjp_unitary(ct: Any, u: Any, args: Any, wanted: Any) -> list[Any]:
    return [bar(_unitary_tangent(args[0], u, bar(ct)))]


unitary_factor: Primitive = general(
    "unitary_factor",
    eval=_unitary_of,
    type=lambda a: Type(a.shape, result(a)),
    vjp=_vjp_unitary,
    jvp=_jvp_unitary,
    batch=lambda args, batched, size: unitary_factor(args[0]),
)
"""`unitary_factor(a)`: the U of a = U P, for matrices with at least as many rows as columns; also
for equal singular values. N. Higham, "Functions of Matrices" (2008), section 8."""


@stands_for
def polar(a: Any, side: str = "right") -> Any:
    """The factors of a = u @ p (or p @ u), with orthonormal u and positive semidefinite p.

    The derivative of u solves a Sylvester equation (N. Higham, "Functions of Matrices", 2008,
    section 8).

    Args:
      a: real or complex, shape (..., m, n).
      side: "right" for a = u @ p, "left" for a = p @ u.

    Returns:
      (u, p): u of the shape of a, and p of shape (..., n, n), or (..., m, m) for "left".

    Raises:
      ValueError: for another side, and for infinities and NaN.
      numpy.linalg.LinAlgError: if differentiated at a matrix without full rank.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: np.trace(polar(a)[1]))(np.diag([2.0, 4.0])).round(9) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    (a,) = read("polar", a, square=False)
    wide = a.shape[-2] < a.shape[-1]
    u = adjoint(unitary_factor(adjoint(a))) if wide else unitary_factor(a)
    p = adjoint(u) @ a if side == "right" else a @ adjoint(u)
    return u, 0.5 * (p + adjoint(p))


@stands_for
def orthogonal_procrustes(A: Any, B: Any, check_finite: bool = True) -> Any:
    """The orthogonal r that minimises |A @ r - B|, and the sum of the singular values of A^H @ B.

    With the singular vectors u and vh of A^H @ B, r is u @ vh (P. Schonemann, "A generalized
    solution of the orthogonal Procrustes problem", 1966).

    Args:
      A: real or complex, shape (m, n).
      B: of the shape of A.
      check_finite: whether to refuse infinities and NaN.

    Returns:
      (r, scale): an array of shape (n, n), and a number.

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN.
      numpy.linalg.LinAlgError: if differentiated where A^H @ B has no full rank.

    >>> import fungrad as fg
    >>> identity = np.eye(2)
    >>> scale = lambda A: orthogonal_procrustes(A, identity)[1]
    >>> fg.grad(scale)(2 * identity).round(9) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    A, B = read("orthogonal_procrustes", A, B, check_finite=check_finite, square=False)
    product = adjoint(adjoint(B) @ A)
    r = unitary_factor(product)
    return r, np.sum(np.real(bar(r) * product), axis=(-2, -1))


__all__ = [
    "eig", "eigh", "eigh_tridiagonal", "eigvals", "eigvalsh", "eigvalsh_tridiagonal", "orth",
    "orthogonal_procrustes", "pinv", "polar", "svd", "svdvals",
]  # fmt: skip
