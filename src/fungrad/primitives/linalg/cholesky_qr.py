"""The factorisations that need no eigenvalues: cholesky and qr.

Functions of a Hermitian matrix read one triangle; for their gradients see `hermitian_weights`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import logical_not, ne
from fungrad.primitives.elementwise.ufuncs import imag
from fungrad.primitives.linalg import flop_counts, lapack_calls
from fungrad.primitives.linalg.cholesky_pullback import cholesky_pullback
from fungrad.primitives.linalg.matrix_parts import (
    adjoint,
    bar,
    diagonal_matrix,
    diagonals,
    eye,
    lower,
    real_dtype,
    result,
    rows,
    square,
    upper,
)
from fungrad.primitives.linalg.solve import solve
from fungrad.primitives.movement.reshape_broadcast_cast import cast, concatenate, slice_axis
from fungrad.primitives.primitive import Primitive, general, zeros
from fungrad.tracing.trace import shape_of, typeof

# --- Hermitian arguments --------------------------------------------------------------------------


def _eval_weights(a: Any, *, lower: bool) -> Any:
    n = a.shape[-1]
    dtype = real_dtype(a.dtype)
    difference = a - a.conj().mT
    if not difference.any():
        return np.ones(a.shape, dtype)
    triangle = np.tril(np.full((n, n), 2, dtype), -1) + np.eye(n, dtype=dtype)
    size = np.abs(a).max((-2, -1), initial=0, keepdims=True)
    error = np.abs(difference).max((-2, -1), initial=0, keepdims=True)
    hermitian = error <= 4 * n * np.finfo(dtype).eps * size
    weights = np.where(hermitian, np.ones((), dtype), triangle if lower else triangle.T)
    return weights.astype(dtype, copy=False)


hermitian_weights: Primitive = general(
    "hermitian_weights",
    eval=_eval_weights,
    type=lambda a, *, lower: Type(a.shape, real_dtype(a.dtype)),
    batch=lambda args, batched, size, *, lower: hermitian_weights(args[0], lower=lower),
    cuts=True,
)
"""`hermitian_weights(a, lower=)`: the factors of a Hermitian cotangent.

cholesky and eigh read one triangle of a. If a is Hermitian (to rounding), so is its gradient: the
weights are 1. Otherwise only the triangle is an argument, and its elements also represent their
mirror images: 2 in the triangle, 1 on the diagonal, 0 beyond it. Both lead to the same derivative
along all paths on which a stays Hermitian."""


def hermitian_part(a: Any, lower: bool) -> Any:
    """The Hermitian matrices with the given triangles, differentiated by `hermitian_weights`."""
    half = 0.5 * (a * hermitian_weights(a, lower=lower))
    return half + adjoint(half)


# --- cholesky -------------------------------------------------------------------------------------


def _type_cholesky(a: Type) -> Type:
    square("cholesky", a)
    return Type(a.shape, result(a))


def _vjp_cholesky(ct: Any, y: Any, args: Any, wanted: Any) -> list[Any]:
    return [cholesky_pullback(y, ct) * hermitian_weights(args[0], lower=True)]


cholesky: Primitive = general(
    "cholesky",
    fresh=True,
    cost=flop_counts.cubed(1 / 3),  # GVL 4.2
    eval=lapack_calls.cholesky,
    type=_type_cholesky,
    vjp=_vjp_cholesky,
    batch=lambda args, batched, size: cholesky(args[0]),
)
"""`cholesky(a)`: the lower triangular L with L @ L^H = a, of which the lower triangle is read."""

# --- qr -------------------------------------------------------------------------------------------


def _type_qr(a: Type) -> tuple[Type, Type]:
    m, n = a.shape[-2:]
    dtype = result(a)
    k = min(m, n)
    return Type((*a.shape[:-2], m, k), dtype), Type((*a.shape[:-2], k, n), dtype)


def _vjp_qr(cts: Any, outputs: Any, args: Any, wanted: Any) -> list[Any]:
    q, r = outputs
    gq, gr = [None if ct is None else bar(ct) for ct in cts]
    m, n = shape_of(args[0])[-2:]
    axis = len(shape_of(q)) - 1
    right = None
    if m < n:  # R = [R1, R2], A = [A1, A2]: Q R1 = A1, and R2 = Q^H A2
        if gr is not None:
            g2 = slice_axis(gr, axis=axis, start=m, stop=n)
            right = q @ g2
            r2 = slice_axis(r, axis=axis, start=m, stop=n)
            moved = q @ (r2 @ adjoint(g2))
            gq = moved if gq is None else gq + moved
            gr = slice_axis(gr, axis=axis, start=0, stop=m)
        r = slice_axis(r, axis=axis, start=0, stop=m)
    gradient = _gradient_tall(q, r, gq, gr)
    if m < n:
        if right is None:
            shape = (*shape_of(q)[:-1], n - m)
            right = zeros(Type(shape, typeof(q).dtype))
        gradient = concatenate(gradient, right, axis=axis)
    return [bar(gradient)]


def _gradient_tall(q: Any, r: Any, gq: Any, gr: Any) -> Any:
    """The gradient for m >= n.

    With E = Q^H dA R^-1, the skew Q^H dQ takes the strict lower triangle of E and the imaginary
    part of its diagonal (LAPACK's R has a real one); dR R^-1 is the rest.
    """
    q_h = adjoint(q)
    y: Any = None if gr is None else upper(gr) @ adjoint(r)
    if gq is None:
        z = -y
        total = y
    else:
        x = q_h @ gq
        z = x if y is None else x - y
        total = -x if y is None else y - x
    total = total + lower(z - adjoint(z), -1)
    if z.dtype.kind == "c":
        total = total + diagonal_matrix(imag(diagonals(z)) * 1j)
    total = q @ total
    if gq is not None:
        total = total + gq
    # If R has a zero on its diagonal, quotients by it are infinite or NaN.
    pivots = diagonals(r)
    some = ne(pivots, 0)
    r = r + diagonal_matrix(cast(logical_not(some), r.dtype))
    return adjoint(solve(r, adjoint(total) / rows(cast(some, r.dtype)), triangle="upper"))


qr: Primitive = general(
    "qr",
    cost=flop_counts.qr,
    eval=lapack_calls.qr,
    type=_type_qr,
    vjp=_vjp_qr,
    batch=lambda args, batched, size: qr(args[0]),
    multiple=True,
)
"""`qr(a)`: the reduced factorisation. S. Walter and L. Lehmann, "Algorithmic differentiation of
linear algebra functions with application in optimum experimental design" (2010), and D. Roberts and
L. Roberts, "QR and LQ decomposition matrix backpropagation algorithms for square, wide, and deep
matrices" (2020). If the first min(m, n) columns are dependent, there is no derivative: the result
is infinite or NaN, or very large if rounding has replaced R's zero."""


def complement(q: Any) -> Any:
    """The columns of LAPACK's complete Q after those of the reduced one.

    The product of Householder's reflectors is I - V T V^H with unit lower trapezoidal
    V = [V1; V2]. Its first columns, q = [q1; q2], determine the rest without V and T: with
    w = q1 - I it is [0; I] + [w; q2] w^-H q2^H. If a reflector is missing (a column is zero below
    the diagonal already), w is singular, and so is the dependence of Q on the matrix: solve raises.
    """
    shape = shape_of(q)
    m, n = shape[-2:]
    axis = len(shape) - 2
    top = slice_axis(q, axis=axis, start=0, stop=n)
    bottom = slice_axis(q, axis=axis, start=n, stop=m)
    w = top - eye(top)
    beside = solve(adjoint(w), adjoint(bottom), triangle="")
    identity = np.eye(m - n, dtype=real_dtype(q.dtype))
    return concatenate(w @ beside, bottom @ beside + identity, axis=axis)
