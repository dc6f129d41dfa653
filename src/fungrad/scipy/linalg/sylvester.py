"""scipy.linalg's matrix equations, of Sylvester and Lyapunov.

The derivative of a solution solves the same equation, that of its cotangent the transposed one (M.
Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation", 2008, section 2.3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.linalg import flop_counts
from fungrad.primitives.linalg.matrix_parts import adjoint, aligned, bar, eye, result, swap
from fungrad.primitives.linalg.solve import inv as inverse
from fungrad.primitives.linalg.solve import solve as solve_matrix
from fungrad.primitives.movement.reshape_broadcast_cast import reshape
from fungrad.primitives.primitive import Primitive, general
from fungrad.scipy.linalg.wrap import Error, each, la, read, stands_for


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
    """x with a @ x + x @ b = q, as scipy.linalg.solve_sylvester.

    Raises:
      numpy.linalg.LinAlgError: where a and -b have an eigenvalue in common.
    """
    a, b = read("solve_sylvester", a, b, check_finite=False)
    (q,) = read("solve_sylvester", q, check_finite=False, square=False)
    return sylvester(a, b, q)


@stands_for
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """x with a @ x + x @ a^H = q, as scipy.linalg.solve_continuous_lyapunov."""
    a, q = read("solve_continuous_lyapunov", a, q)
    return sylvester(a, adjoint(a), q)


@stands_for
def solve_discrete_lyapunov(a: Any, q: Any, method: Any = None) -> Any:
    """x with a @ x @ a^H - x + q = 0, as scipy.linalg.solve_discrete_lyapunov.

    "direct" (for less than 10 rows) solves for all elements of x at once; "bilinear" maps to the
    continuous equation (S. Barnett, "Introduction to Mathematical Control Theory", 1985).
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


__all__ = ["solve_continuous_lyapunov", "solve_discrete_lyapunov", "solve_sylvester"]
