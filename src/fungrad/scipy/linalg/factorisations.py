"""scipy.linalg's cholesky, lu and qr, and solving by them.

The derivative of an LU factorisation with fixed pivots: with W = L^-1 P^T dA U^-1, dL = L low(W)
and dU = up(W) U (S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions
with application in optimum experimental design", 2010).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.ir.types import Type
from fungrad.numpy import linalg as numpy_linalg
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.linalg import flop_counts
from fungrad.primitives.linalg.matrix_parts import (
    adjoint,
    eye,
    real_dtype,
    result,
    swap,
)
from fungrad.primitives.linalg.matrix_parts import (
    lower as lower_part,
)
from fungrad.primitives.linalg.matrix_parts import (
    upper as upper_part,
)
from fungrad.primitives.linalg.solve import solve
from fungrad.primitives.movement.reshape_broadcast_cast import concatenate, slice_axis
from fungrad.primitives.primitive import Primitive, general, zeros
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.linalg.wrap import each, la, read, refuse, right_side, stands_for
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of, typeof

# --- lu: a[i] = (l @ u)[p[i]] ---------------------------------------------------------------------


def _eval_lu(a: Any) -> Any:
    m, n = a.shape[-2:]
    k = min(m, n)
    if a.size == 0:
        lead = a.shape[:-2]
        p = np.broadcast_to(np.arange(m), (*lead, m)).astype(np.int64)
        return p, np.zeros((*lead, m, k), a.dtype), np.zeros((*lead, k, n), a.dtype)
    p, low, up = each(lambda x: la.lu(x, p_indices=True), 3, a)
    return p.astype(np.int64), low, up


def _type_lu(a: Type) -> tuple[Type, Type, Type]:
    m, n = a.shape[-2:]
    k, lead, dtype = min(m, n), a.shape[:-2], result(a)
    return Type((*lead, m), np.int64), Type((*lead, m, k), dtype), Type((*lead, k, n), dtype)


def _split(x: Any, axis: int, count: int) -> tuple[Any, Any]:
    axis += len(shape_of(x))
    size = shape_of(x)[axis]
    first = slice_axis(x, axis=axis, start=0, stop=count)
    return first, slice_axis(x, axis=axis, start=count, stop=size)


def _vjp_lu(cts: Any, outputs: Any, args: Any, wanted: Any) -> list[Any]:
    p, low, up = outputs
    g_low = zeros(typeof(low)) if cts[1] is None else cts[1]
    g_up = zeros(typeof(up)) if cts[2] is None else cts[2]
    m, n = shape_of(args[0])[-2:]
    k = min(m, n)
    beside: Any = None
    if m > n:  # the rows below: l2 = a2 u^-1
        low, _ = _split(low, -2, k)
        l2 = _split(outputs[1], -2, k)[1]
        g_low, g2 = _split(g_low, -2, k)
        beside = swap(solve(up, swap(g2), triangle="upper"))
        g_up = g_up - swap(l2) @ beside
    elif n > m:  # the columns to the right: u2 = l^-1 a2
        up, u2 = _split(up, -1, k)
        g_up, g2 = _split(g_up, -1, k)
        beside = solve(swap(low), g2, triangle="upper")
        g_low = g_low - beside @ swap(u2)
    inner = lower_part(swap(low) @ g_low, -1) + upper_part(g_up @ swap(up))
    left = solve(swap(low), inner, triangle="upper")
    gradient = swap(solve(up, swap(left), triangle="upper"))
    if beside is not None:
        gradient = concatenate(gradient, beside, axis=len(shape_of(gradient)) - (2 if m > n else 1))
    return [np.take_along_axis(gradient, p[..., None], axis=-2)]


lu_factors: Primitive = general(
    "lu",
    cost=flop_counts.lu,
    eval=_eval_lu,
    type=_type_lu,
    vjp=_vjp_lu,
    batch=lambda args, batched, size: lu_factors(args[0]),
    multiple=True,
)
"""`lu(a)`: indices p, a unit lower and an upper triangular matrix with a[i] = (l @ u)[p[i]]. If the
first min(m, n) columns are dependent, there is no derivative: solve raises."""


def _pivots_of_one(a: Any) -> Any:
    return la.lu_factor(a)[1].astype(np.int32)


def _eval_pivots(a: Any) -> Any:
    if a.size == 0:
        return np.zeros((*a.shape[:-2], min(a.shape[-2:])), np.int32)
    return each(_pivots_of_one, 1, a)[0]


pivots: Primitive = general(
    "lu_pivots",
    eval=_eval_pivots,
    type=lambda a: Type((*a.shape[:-2], min(a.shape[-2:])), np.int32),
    batch=lambda args, batched, size: pivots(args[0]),
    cuts=True,
)
"""`lu_pivots(a)`: LAPACK's row exchanges: row i with row piv[i], in turn."""


def _eval_permutation(piv: Any, *, size: int) -> Any:
    found = np.broadcast_to(np.arange(size), (*piv.shape[:-1], size)).copy()
    for index in np.ndindex(*piv.shape[:-1]):
        row = found[index]
        for i, j in enumerate(piv[index]):
            row[i], row[j] = row[j], row[i]
    return found


permutation: Primitive = general(
    "permutation_of_pivots",
    eval=_eval_permutation,
    type=lambda piv, *, size: Type((*piv.shape[:-1], size), np.int64),
    batch=lambda args, batched, size_, *, size: permutation(args[0], size=size),
    cuts=True,
)
"""`permutation_of_pivots(piv, size=)`: the order of the rows after LAPACK's exchanges."""


@stands_for
def lu(
    a: Any,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> Any:
    """p, l, u with p @ l @ u = a, as scipy.linalg.lu; the pivots have no derivative."""
    (a,) = read("lu", a, check_finite=check_finite, square=False)
    p, low, up = lu_factors(a)
    if permute_l:
        return np.take_along_axis(low, p[..., None], axis=-2), up
    if p_indices:
        return p, low, up
    return (p[..., :, None] == np.arange(p.shape[-1])).astype(real_dtype(up.dtype)), low, up


@stands_for
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Both triangles in one matrix, and the pivots, as scipy.linalg.lu_factor."""
    (a,) = read("lu_factor", a, check_finite=check_finite, square=False)
    m, n = a.shape[-2:]
    _, low, up = lu_factors(a)
    none = [(0, 0)] * (len(a.shape) - 2)
    low = np.pad(low, [*none, (0, 0), (0, max(n - m, 0))])
    up = np.pad(up, [*none, (0, max(m - n, 0)), (0, 0)])
    return lower_part(low, -1) + up, pivots(a)


@stands_for
def lu_solve(
    lu_and_piv: Any,
    b: Any,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """x with a @ x = b for a factorised a, as scipy.linalg.lu_solve."""
    packed, piv = lu_and_piv
    (packed,) = read("lu_solve", packed, check_finite=check_finite)
    packed, b, vector = right_side(packed, b, check_finite)
    order = permutation(array_of(piv), size=packed.shape[-1])[..., None]
    low = lower_part(packed, -1) + eye(packed)
    if trans == 0:
        rows = np.broadcast_shapes(order.shape, (*b.shape[:-1], 1))
        b = np.take_along_axis(np.broadcast_to(b, (*rows[:-1], b.shape[-1])), order, axis=-2)
        x = solve(packed, solve(low, b, triangle="lower"), triangle="upper")
    else:
        turn = adjoint if trans == 2 else swap
        y = solve(turn(low), solve(turn(packed), b, triangle="lower"), triangle="upper")
        x = np.take_along_axis(y, np.argsort(order, axis=-2), axis=-2)
    return x[..., 0] if vector else x


# --- cholesky -------------------------------------------------------------------------------------


@stands_for
def cholesky(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The upper (or lower) Cholesky factors of positive definite matrices, as
    scipy.linalg.cholesky."""
    (a,) = read("cholesky", a, check_finite=check_finite)
    return numpy_linalg.cholesky(a, upper=not lower)


@stands_for
def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """A Cholesky factor, with elements of a in the other triangle, as scipy.linalg.cho_factor."""
    (a,) = read("cho_factor", a, check_finite=check_finite)
    factor = numpy_linalg.cholesky(a, upper=not lower)
    rest = stop_gradient(upper_part(a, 1) if lower else lower_part(a, -1))
    return factor + rest, lower


@stands_for
def cho_solve(
    c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """x with a @ x = b for the Cholesky factor of a, as scipy.linalg.cho_solve."""
    c, lower = c_and_lower
    (c,) = read("cho_solve", c, check_finite=check_finite)
    c, b, vector = right_side(c, b, check_finite)
    first = c if lower else adjoint(c)
    x = solve(adjoint(first), solve(first, b, triangle="lower"), triangle="upper")
    return x[..., 0] if vector else x


# --- qr -------------------------------------------------------------------------------------------

_MODES = {"full": "complete", "r": "complete", "economic": "reduced"}


@stands_for
def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """The QR factorisation in the modes "full", "r" and "economic", as scipy.linalg.qr.

    Raises:
      UnsupportedArgumentError: for the mode "raw", LAPACK's own layout, and for pivoting, where the
        order of columns depends on the matrix.
    """
    refuse("qr", "Order the columns by plain numbers first: qr(a[:, order]).", pivoting=pivoting)
    if mode == "raw":
        raise UnsupportedArgumentError(
            f"scipy.linalg.qr was called with mode='raw' on a traced value{user_line()}. It "
            "returns LAPACK's own layout of reflectors, which has no derivative here. Use 'full', "
            "'economic' or 'r'."
        )
    if mode not in _MODES:
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic', 'raw']")
    (a,) = read("qr", a, check_finite=check_finite, square=False)
    m, n = a.shape[-2:]
    if mode == "r":
        r = numpy_linalg.qr(a, mode="r")
        below = [(0, 0)] * (len(a.shape) - 2)
        return (np.pad(r, [*below, (0, max(m - n, 0)), (0, 0)]),)
    return tuple(numpy_linalg.qr(a, mode=_MODES[mode]))


@stands_for
def rq(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    check_finite: bool = True,
) -> Any:
    """r and q with a = r @ q, as scipy.linalg.rq: by the QR factors of a reversed."""
    if mode not in ("full", "r", "economic"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic']")
    (a,) = read("rq", a, check_finite=check_finite, square=False)
    turned = adjoint(a)[..., ::-1, ::-1]
    q, r = numpy_linalg.qr(turned, mode="reduced" if mode == "economic" else "complete")
    r = adjoint(r)[..., ::-1, ::-1]
    return r if mode == "r" else (r, adjoint(q)[..., ::-1, ::-1])


__all__ = ["cho_factor", "cho_solve", "cholesky", "lu", "lu_factor", "lu_solve", "qr", "rq"]
