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
    order = np.broadcast_to(np.arange(size), (*piv.shape[:-1], size)).copy()
    for index in np.ndindex(*piv.shape[:-1]):
        row = order[index]
        for i, j in enumerate(piv[index]):
            row[i], row[j] = row[j], row[i]
    return order


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
    """The factors of a = p @ l @ u, with row exchanges p, a unit lower l and an upper triangle u.

    Args:
      a: real or complex, shape (..., m, n); k is the lesser of m and n.
      permute_l: whether to return p @ l and u.
      overwrite_a: whether SciPy may write into a; without effect on traced values.
      check_finite: whether to refuse infinities and NaN.
      p_indices: whether p is an index of rows, with a = l[p] @ u, and not a matrix.

    Returns:
      (p, l, u) of shapes (..., m, m), (..., m, k) and (..., k, n); or (p @ l, u). p has no
      derivative.

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN.
      numpy.linalg.LinAlgError: if differentiated where the first k columns are dependent.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: lu(a)[2][1, 1])(np.array([[2.0, 1.0], [1.0, 3.0]]))
    array([[ 0.25, -0.5 ],
           [-0.5 ,  1.  ]])
    """
    (a,) = read("lu", a, check_finite=check_finite, square=False)
    p, low, up = lu_factors(a)
    if permute_l:
        return np.take_along_axis(low, p[..., None], axis=-2), up
    if p_indices:
        return p, low, up
    return (p[..., :, None] == np.arange(p.shape[-1])).astype(real_dtype(up.dtype)), low, up


@stands_for
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Both triangles of a = p @ l @ u in one matrix, and the row exchanges, for `lu_solve`.

    Args:
      a: real or complex, shape (..., m, n).
      overwrite_a: whether SciPy may write into a; without effect on traced values.
      check_finite: whether to refuse infinities and NaN.

    Returns:
      (lu, piv): u with l - 1 below its diagonal, of the shape of a; and integers of shape
      (..., min(m, n)): row i was exchanged with row piv[i], in turn. piv has no derivative.

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN.

    >>> packed, piv = lu_factor(np.array([[2.0, 1.0], [1.0, 3.0]]))
    >>> packed, piv.tolist()
    (array([[2. , 1. ],
           [0.5, 2.5]]), [0, 1])
    """
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
    """The x with a @ x = b, by the factors of a from `lu_factor`.

    Args:
      lu_and_piv: the pair (lu, piv) of shapes (..., n, n) and (..., n).
      b: right-hand sides, shape (n,) or (..., n, k).
      trans: 0 for a itself, 1 for its transpose, 2 for its adjoint.
      overwrite_b: whether SciPy may write into b; without effect on traced values.
      check_finite: whether to refuse infinities and NaN.

    Returns:
      x, of the shape of b (broadcast).

    Raises:
      ValueError: if the shapes do not fit, and for infinities and NaN if check_finite is set.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: lu_solve(lu_factor(a), np.array([2.0]))[0])(np.array([[4.0]]))
    array([[-0.125]])
    """
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
    """The Cholesky factors of positive definite matrices: a = u^H @ u, or l @ l^H if lower.

    Args:
      a: Hermitian, shape (..., n, n); one triangle is read.
      lower: whether to read the lower triangle and return l, or the upper one and u.
      overwrite_a: whether SciPy may write into a; without effect on traced values.
      check_finite: whether to refuse infinities and NaN.

    Returns:
      u or l, of the shape of a, with zeros in the other triangle.

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN.
      numpy.linalg.LinAlgError: if a matrix is not positive definite.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: cholesky(a)[1, 1])(np.diag([1.0, 4.0]))
    array([[0.  , 0.  ],
           [0.  , 0.25]])
    """
    (a,) = read("cholesky", a, check_finite=check_finite)
    return numpy_linalg.cholesky(a, upper=not lower)


@stands_for
def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """A Cholesky factor of positive definite matrices, for `cho_solve`.

    Args:
      a: Hermitian, shape (..., n, n); one triangle is read.
      lower: whether to read the lower triangle and return l, or the upper one and u.
      overwrite_a: whether SciPy may write into a; without effect on traced values.
      check_finite: whether to refuse infinities and NaN.

    Returns:
      (c, lower): the factor, with elements of a in the other triangle, which have no derivative.

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN.
      numpy.linalg.LinAlgError: if a matrix is not positive definite.

    >>> c, lower = cho_factor(np.array([[4.0, 2.0], [2.0, 5.0]]), lower=True)
    >>> np.tril(c), bool(lower)
    (array([[2., 0.],
           [1., 2.]]), True)
    """
    (a,) = read("cho_factor", a, check_finite=check_finite)
    factor = numpy_linalg.cholesky(a, upper=not lower)
    rest = stop_gradient(upper_part(a, 1) if lower else lower_part(a, -1))
    return factor + rest, lower


@stands_for
def cho_solve(
    c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """The x with a @ x = b, by the Cholesky factor of a from `cho_factor`.

    Args:
      c_and_lower: the pair of a factor, shape (..., n, n), and whether it is the lower one.
      b: right-hand sides, shape (n,) or (..., n, k).
      overwrite_b: whether SciPy may write into b; without effect on traced values.
      check_finite: whether to refuse infinities and NaN.

    Returns:
      x, of the shape of b (broadcast).

    Raises:
      ValueError: if the shapes do not fit, and for infinities and NaN if check_finite is set.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: cho_solve(cho_factor(a), np.array([2.0]))[0])(np.array([[4.0]]))
    array([[-0.125]])
    """
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
    """The factors of a = q @ r, with orthonormal columns q and an upper triangle r.

    Args:
      a: real or complex, shape (..., m, n); k is the lesser of m and n.
      overwrite_a: whether SciPy may write into a; without effect on traced values.
      lwork: the size of LAPACK's workspace; without effect on traced values.
      mode: "full" for q of shape (..., m, m), "economic" for (..., m, k), "r" for (r,) alone.
      pivoting: False, on traced values; SciPy may exchange columns.
      check_finite: whether to refuse infinities and NaN.

    Returns:
      (q, r), or (r,), with r of shape (..., m, n), or (..., k, n) if "economic".

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN. Also for an unknown mode.
      UnsupportedArgumentError: on traced values for the mode "raw", LAPACK's own layout, and for
        pivoting, where the order of columns depends on the matrix.

    >>> import fungrad as fg
    >>> fg.grad(lambda a: np.abs(qr(a)[1][0, 0]))(np.array([[3.0, 1.0], [4.0, 1.0]])).round(9) + 0.0
    array([[0.6, 0. ],
           [0.8, 0. ]])
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
    """The factors of a = r @ q, with an upper triangle r and orthonormal rows q.

    Traced values take the QR factors of the reversed adjoint of a.

    Args:
      a: real or complex, shape (..., m, n); k is the lesser of m and n.
      overwrite_a: whether SciPy may write into a; without effect on traced values.
      lwork: the size of LAPACK's workspace; without effect on traced values.
      mode: "full" for q of shape (..., n, n), "economic" for (..., k, n), "r" for r alone.
      check_finite: whether to refuse infinities and NaN.

    Returns:
      (r, q), or r, with r of shape (..., m, n), or (..., m, k) if "economic".

    Raises:
      ValueError: if check_finite is set, and a number is infinite or NaN. Also for an unknown mode.

    >>> import fungrad as fg
    >>> last = lambda a: np.abs(rq(a, mode="r")[1, 1])
    >>> fg.grad(last)(np.array([[1.0, 1.0], [3.0, 4.0]])).round(9) + 0.0
    array([[0. , 0. ],
           [0.6, 0.8]])
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic']")
    (a,) = read("rq", a, check_finite=check_finite, square=False)
    turned = adjoint(a)[..., ::-1, ::-1]
    q, r = numpy_linalg.qr(turned, mode="reduced" if mode == "economic" else "complete")
    r = adjoint(r)[..., ::-1, ::-1]
    return r if mode == "r" else (r, adjoint(q)[..., ::-1, ::-1])


__all__ = ["cho_factor", "cho_solve", "cholesky", "lu", "lu_factor", "lu_solve", "qr", "rq"]
