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
    place = spectra.anchors(reference)
    anchor = np.sum(select(place, u, 0.0), axis=-2, keepdims=True)
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
    """Eigenvalues, and left and right eigenvectors, as scipy.linalg.eig; always complex.

    Raises:
      UnsupportedArgumentError: for a generalised problem.
    """
    refuse("eig", _GENERAL, b=b, homogeneous_eigvals=homogeneous_eigvals)
    (a,) = read("eig", a, check_finite=check_finite)
    if not (left or right):
        return spectra.eigvals(a)
    w, v = spectra.eig(a)
    found = [w, *([_left(a, v)] if left else []), *([v] if right else [])]
    return tuple(found)


@stands_for
def eigvals(
    a: Any,
    b: Any = None,
    overwrite_a: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """The eigenvalues, as scipy.linalg.eigvals; always complex."""
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
    """Eigenvalues and vectors of a @ v = w b @ v for Hermitian a and positive definite b, as
    scipy.linalg.eigh; `type` 2 and 3 are a @ b @ v = w v and b @ a @ v = w v.

    The vectors' signs are those of NumPy's driver, in and outside of transforms.

    >>> eigh(np.array([[2.0, 0.0], [0.0, 6.0]]), np.eye(2) * 2, eigvals_only=True)
    array([1., 3.])
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
    """The eigenvalues of Hermitian matrices, as scipy.linalg.eigvalsh."""
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
    """Eigenvalues and vectors of symmetric tridiagonal matrices, as
    scipy.linalg.eigh_tridiagonal; the vectors' signs are those of NumPy's eigh."""
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
    """The eigenvalues of symmetric tridiagonal matrices, as scipy.linalg.eigvalsh_tridiagonal."""
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
    """The singular value decomposition, as scipy.linalg.svd."""
    (a,) = read("svd", a, check_finite=check_finite, square=False)
    if not compute_uv:
        return spectra.svdvals(a)
    return tuple(spectra.svd(a, full=bool(full_matrices)))


@stands_for
def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The singular values, as scipy.linalg.svdvals."""
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
    """The pseudoinverses, as scipy.linalg.pinv; the derivative is that at constant rank."""
    (a,) = read("pinv", a, check_finite=check_finite, square=False)
    if atol:
        u, s, vh = spectra.svd(a, full=False)
        large = _rank(a, atol, rtol)[1]
        found = (adjoint(vh) * columns(select(large, 1.0 / select(large, s, 1.0), 0.0))) @ adjoint(
            u
        )
    else:
        cutoff = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps) if rtol is None else rtol
        found = pseudoinverse(a, as_array(cutoff))
    return (found, _rank(a, atol, rtol)[2]) if return_rank else found


@stands_for
def orth(A: Any, rcond: Any = None) -> Any:
    """An orthonormal basis of the range, as scipy.linalg.orth; the rank has to be known.

    Raises:
      AbstractValueError: under jit and vmap.
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


def _jvp_unitary(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """With U = a P^-1, the skew K = U^H dU solves K P + P K = U^H da - da^H U (N. Higham, 2008)."""
    a, da = primals[0], tangents[0]
    u = unitary_factor(a)
    p = adjoint(u) @ a
    p = full_rank(0.5 * (p + adjoint(p)))
    inner = adjoint(u) @ da
    turn = sylvester(p, p, inner - adjoint(inner))
    moved = u @ turn
    if a.shape[-2] > a.shape[-1]:
        moved = moved + adjoint(solve(p, adjoint(da - u @ inner), triangle=""))
    return u, moved


def _vjp_unitary(ct: Any, u: Any, args: Any, wanted: Any) -> list[Any]:
    a = args[0]
    g = bar(ct)
    p = adjoint(u) @ a
    p = full_rank(0.5 * (p + adjoint(p)))
    inner = adjoint(u) @ g
    k = sylvester(p, p, inner - adjoint(inner))
    gradient = u @ k
    if a.shape[-2] > a.shape[-1]:
        gradient = gradient + adjoint(solve(p, adjoint(g - u @ inner), triangle=""))
    return [bar(gradient)]


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
    """u and p with a = u @ p (or p @ u), as scipy.linalg.polar.

    Raises:
      numpy.linalg.LinAlgError: if differentiated at a matrix without full rank.
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
    """The orthogonal r of least |A @ r - B|, and a scale, as scipy.linalg.orthogonal_procrustes."""
    A, B = read("orthogonal_procrustes", A, B, check_finite=check_finite, square=False)
    product = adjoint(adjoint(B) @ A)
    r = unitary_factor(product)
    return r, np.sum(np.real(bar(r) * product), axis=(-2, -1))


__all__ = [
    "eig", "eigh", "eigh_tridiagonal", "eigvals", "eigvalsh", "eigvalsh_tridiagonal", "orth",
    "orthogonal_procrustes", "pinv", "polar", "svd", "svdvals",
]  # fmt: skip
