"""numpy.linalg for traced values (`fungrad.numpy.linalg`), with NumPy's signatures.

Equations and factorisations; norms and products are in linalg_products.py.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.numpy import linalg_products, products, reductions
from fungrad.numpy.linalg_products import (
    Error,
    common,
    cond,
    cross,
    diagonal,
    matmul,
    matrices,
    matrix_norm,
    matrix_power,
    matrix_rank,
    matrix_transpose,
    multi_dot,
    norm,
    outer,
    squares,
    tensordot,
    tensorinv,
    tensorsolve,
    trace,
    vecdot,
    vector_norm,
)
from fungrad.numpy.protocol.implements import NO_VALUE, as_array, implements
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.elementwise.family import select, sub
from fungrad.primitives.linalg import cholesky_qr, determinant, spectra
from fungrad.primitives.linalg import solve as p
from fungrad.primitives.linalg.matrix_parts import adjoint, bar, columns, real_part
from fungrad.primitives.movement.reshape_broadcast_cast import (
    cast,
    concatenate,
    pad,
    reduce_sum,
    reshape,
)
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer

LinAlgError = np.linalg.LinAlgError


@lru_cache(maxsize=8)
def _named(function: Any) -> Any:
    """The class of a function's named result, which NumPy does not export."""
    return type(function(np.ones((1, 1))))


# --- equations ------------------------------------------------------------------------------------


@implements(np.linalg.solve)
def solve(a: Any, b: Any) -> Any:
    """x with a @ x = b, as numpy.linalg.solve: b is a vector if it has one axis."""
    b = array_of(b)
    (a,) = squares("solve", a)
    a, b = common([a, b])
    if len(b.shape) != 1:
        return p.solve(a, b, triangle="")
    x = p.solve(a, reshape(b, shape=(*b.shape, 1)), triangle="")
    return reshape(x, shape=x.shape[:-1])


@implements(np.linalg.inv)
def inv(a: Any) -> Any:
    """The inverses of square matrices, as numpy.linalg.inv."""
    return p.inv(*squares("inv", a))


@implements(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = NO_VALUE) -> Any:
    """The pseudoinverses, as numpy.linalg.pinv; the derivative assumes constant rank."""
    (a,) = matrices("pinv", a)
    if rcond is None:
        if rtol is NO_VALUE:
            rcond = 1e-15
        elif rtol is None:
            rcond = max(a.shape[-2:]) * np.finfo(a.dtype).eps
        else:
            rcond = rtol
    elif rtol is not NO_VALUE:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if hermitian:
        (a,) = squares("pinv", a)
        a = cholesky_qr.hermitian_part(a, True)
    return p.pinv(a, as_array(rcond))


@implements(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The x of least |a @ x - b|, the squared residuals, the rank and the singular values of a, as
    numpy.linalg.lstsq. As there, numbers in single precision are computed with in double precision.

    If the rank is not known (under jit and vmap), the residuals of a matrix without full rank are
    NaN; NumPy returns none.
    """
    b = array_of(b)
    (a,) = matrices("lstsq", a)
    a, b = common([a, b])
    if len(a.shape) != 2 or len(b.shape) not in (1, 2):
        raise Error("lstsq takes a matrix, and a vector or a matrix of right-hand sides")
    m, n = a.shape
    if b.shape[0] != m:
        raise Error("Incompatible dimensions")
    given, eps = a.dtype, np.finfo(float).eps
    a, b = [cast(x, np.result_type(given, float)) for x in (a, b)]
    rcond = eps * max(m, n) if rcond is None else array_of(rcond)
    rcond = select(rcond < 0, eps, rcond)
    s = linalg_products.singular_values(a)
    rank = cast(reductions.count_nonzero(s > rcond * reductions.max(s, initial=0)), np.int32)
    x = products.matmul(p.pinv(a, rcond), b)
    traced = type(rank) is Tracer
    if m <= n or (not traced and rank != n):
        squared: Any = np.zeros(0)
    else:
        error = sub(products.matmul(a, x), b)
        squared = reduce_sum(real_part(bar(error) * error), axes=(0,))
        squared = squared if len(b.shape) == 2 else reshape(squared, shape=(1,))
        squared = select(rank == n, squared, np.nan) if traced else squared
    real = np.finfo(given).dtype
    return cast(x, given), cast(squared, real), rank, cast(s, real)


# --- determinants ---------------------------------------------------------------------------------


@implements(np.linalg.det)
def det(a: Any) -> Any:
    """The determinants, as numpy.linalg.det; with derivatives at singular matrices too."""
    return determinant.det(*squares("det", a))


@implements(np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    """Signs and logarithms of the sizes of determinants, as numpy.linalg.slogdet."""
    return _named(np.linalg.slogdet)(*determinant.slogdet(*squares("slogdet", a)))


# --- factorisations -------------------------------------------------------------------------------


@implements(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """The lower (or upper) Cholesky factors of positive definite matrices, as
    numpy.linalg.cholesky."""
    (a,) = squares("cholesky", a)
    if upper:
        return adjoint(cholesky_qr.cholesky(adjoint(a)))
    return cholesky_qr.cholesky(a)


@implements(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """The QR factorisation in the modes "reduced", "complete" and "r", as numpy.linalg.qr.

    Raises:
      UnsupportedArgumentError: for the modes "raw" and (deprecated) "economic", LAPACK's own layout
        of reflectors.
    """
    if mode in ("raw", "e", "economic"):
        raise UnsupportedArgumentError(
            f"numpy.linalg.qr was called with mode={mode!r} on a traced value{user_line()}: it "
            "returns LAPACK's own layout of reflectors, which has no derivative here. Use "
            "'reduced', 'complete' or 'r'."
        )
    if mode in ("f", "full"):
        message = "The 'full' option is deprecated in favor of 'reduced'."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        mode = "reduced"
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"Unrecognized mode '{mode}'")
    (a,) = matrices("qr", a)
    q, r = cholesky_qr.qr(a)
    if mode == "r":
        return r
    m, n = a.shape[-2:]
    if mode == "reduced" or m <= n:
        return _named(np.linalg.qr)(q, r)
    axis = len(a.shape) - 1
    q = concatenate(q, cholesky_qr.complement(q), axis=axis)
    below = ((0, 0),) * (axis - 1) + ((0, m - n), (0, 0))
    return _named(np.linalg.qr)(q, pad(r, widths=below))


@implements(np.linalg.svd)
def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """The singular value decomposition, as numpy.linalg.svd."""
    if hermitian:
        return _hermitian_svd(a) if compute_uv else _hermitian_values(a)
    (a,) = matrices("svd", a)
    if compute_uv:
        return _named(np.linalg.svd)(*spectra.svd(a, full=bool(full_matrices)))
    return spectra.svdvals(a)


def _hermitian_values(a: Any) -> Any:
    (a,) = squares("svd", a)
    return np.sort(np.abs(spectra.eigvalsh(a, lower=True)))[..., ::-1]


def _hermitian_svd(a: Any) -> Any:
    w, u = spectra.eigh(*squares("svd", a), lower=True)
    order = np.argsort(np.abs(w))[..., ::-1]
    w = np.take_along_axis(w, order, axis=-1)
    u = np.take_along_axis(u, order[..., None, :], axis=-1)
    vh = adjoint(u * columns(np.copysign(1.0, w)))
    return _named(np.linalg.svd)(u, np.abs(w), vh)


@implements(np.linalg.svdvals)
def svdvals(x: Any, /) -> Any:
    """The singular values, as numpy.linalg.svdvals."""
    return svd(x, compute_uv=False, hermitian=False)


def _lower(UPLO: str) -> bool:
    if UPLO.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return UPLO.upper() == "L"


@implements(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues and eigenvectors of Hermitian matrices, as numpy.linalg.eigh."""
    return _named(np.linalg.eigh)(*spectra.eigh(*squares("eigh", a), lower=_lower(UPLO)))


@implements(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of Hermitian matrices, as numpy.linalg.eigvalsh."""
    return spectra.eigvalsh(*squares("eigvalsh", a), lower=_lower(UPLO))


@implements(np.linalg.eig)
def eig(a: Any) -> Any:
    """Eigenvalues and eigenvectors, as numpy.linalg.eig, but always complex: the dtype of a traced
    value cannot depend on numbers.
    """
    return _named(np.linalg.eig)(*spectra.eig(*squares("eig", a)))


@implements(np.linalg.eigvals)
def eigvals(a: Any) -> Any:
    """The eigenvalues, as numpy.linalg.eigvals, but always complex."""
    return spectra.eigvals(*squares("eigvals", a))


__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals",
    "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd",
    "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip
