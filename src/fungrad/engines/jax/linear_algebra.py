"""JAX rules of linear algebra. LAPACK's errors become NaN, as JAX has it."""

from __future__ import annotations

from typing import Any

import jax.scipy.linalg as jlinalg
import numpy as np
from jax import lax

from fungrad.engines.jax.table import jnp, rule
from fungrad.primitives.linalg import (
    cholesky_qr,
    degenerate_spectra,
    determinant,
    eig,
    eigh_svd,
    solve,
)


@rule(solve.solve)
def _solve(a: Any, b: Any, *, triangle: str) -> Any:
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    dtype = jnp.result_type(a, b)
    a = jnp.broadcast_to(a, (*lead, *a.shape[-2:])).astype(dtype)
    b = jnp.broadcast_to(b, (*lead, *b.shape[-2:])).astype(dtype)
    if triangle:
        return lax.linalg.triangular_solve(a, b, left_side=True, lower=triangle == "lower")
    return jnp.linalg.solve(a, b)


rule(solve.inv)(jnp.linalg.inv)
rule(solve.pinv)(lambda a, rtol: jnp.linalg.pinv(a, rtol=rtol))
rule(determinant.det)(jnp.linalg.det)
rule(determinant.slogdet)(lambda a: tuple(jnp.linalg.slogdet(a)))
rule(cholesky_qr.cholesky)(lambda a: jnp.linalg.cholesky(a, symmetrize_input=False))
rule(cholesky_qr.qr)(lambda a: tuple(jnp.linalg.qr(a)))
rule(eigh_svd.svd)(lambda a, *, full: tuple(jnp.linalg.svd(a, full)))
rule(eigh_svd.svdvals)(lambda a: jnp.linalg.svd(a, compute_uv=False))
rule(eig.eig)(lambda a: tuple(jnp.linalg.eig(a)))
rule(eig.eigvals)(jnp.linalg.eigvals)
rule(eig.trusted)(lambda inverse: inverse)


def _hermitian(a: Any, lower: bool) -> Any:
    """The Hermitian matrix that one triangle stands for."""
    side = jnp.tril(a, -1) if lower else jnp.triu(a, 1)
    middle = jnp.real(jnp.diagonal(a, 0, -2, -1))
    whole = side + jnp.conj(jnp.swapaxes(side, -1, -2))
    return whole + (jnp.eye(a.shape[-1]) * middle[..., None, :]).astype(a.dtype)


@rule(eigh_svd.eigh)
def _eigh(a: Any, *, lower: bool) -> Any:
    return tuple(jnp.linalg.eigh(_hermitian(a, lower), symmetrize_input=False))


@rule(eigh_svd.eigvalsh)
def _eigvalsh(a: Any, *, lower: bool) -> Any:
    return jnp.linalg.eigvalsh(_hermitian(a, lower), symmetrize_input=False)


@rule(cholesky_qr.hermitian_weights)
def _weights(a: Any, *, lower: bool) -> Any:
    n, dtype = a.shape[-1], jnp.finfo(a.dtype).dtype
    if not n:
        return jnp.ones(a.shape, dtype)
    triangle = np.tril(np.full((n, n), 2.0), -1) + np.eye(n)
    size = jnp.abs(a).max((-2, -1), keepdims=True)
    error = jnp.abs(a - jnp.conj(jnp.swapaxes(a, -1, -2))).max((-2, -1), keepdims=True)
    close = error <= 4 * n * jnp.finfo(dtype).eps * size
    return jnp.where(close, 1.0, triangle if lower else triangle.T).astype(dtype)


@rule(degenerate_spectra.coincide)
def _coincide(w: Any, *, opposite: bool) -> Any:
    n = w.shape[-1]
    if not n:
        return jnp.zeros((*w.shape, n), bool)
    tolerance = 4 * n * jnp.finfo(w.dtype).eps * jnp.abs(w).max(-1)[..., None, None]
    left, right = w[..., :, None], w[..., None, :]
    return jnp.abs(left + right if opposite else left - right) <= tolerance


@rule(degenerate_spectra.shares)
def _shares(w: Any) -> Any:
    left, right = w[..., :, None], w[..., None, :]
    dtype = jnp.finfo(w.dtype).dtype
    size = jnp.maximum(jnp.abs(left), jnp.abs(right))
    same = jnp.abs(left - right) <= 4 * w.shape[-1] * jnp.finfo(dtype).eps * size
    return (same / same.sum(-1, keepdims=True)).astype(dtype)


@rule(degenerate_spectra.apart)
def _apart(x: Any, same: Any, g: Any, *, values: str, strict: bool) -> Any:
    return jnp.where(same, jnp.zeros((), x.dtype), x)


@rule(eig.anchors)
def _anchors(v: Any) -> Any:
    if not v.size:
        return jnp.zeros(v.shape, bool)
    size = jnp.where(v.imag == 0, jnp.abs(v), -1.0)
    return jnp.arange(v.shape[-2])[:, None] == jnp.argmax(size, axis=-2, keepdims=True)


def matrix_exponential(a: Any, *, name: str) -> Any:
    """The matrix function of SciPy's that JAX has as well, by name."""
    return jlinalg.expm(a, max_squarings=48) if name == "expm" else None


__all__ = ["matrix_exponential"]
