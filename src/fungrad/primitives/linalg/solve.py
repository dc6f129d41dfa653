"""solve, inv and pinv of the matrices in the last two axes.

The leading axes broadcast as NumPy's.

Source, where none is named: M. Giles, "Collected matrix derivative results for forward and reverse
mode algorithmic differentiation" (2008), sections 2.2.3 (inverse) and 2.3.1 (solve).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.ir.types import Type
from fungrad.primitives.linalg import flop_counts, lapack_calls
from fungrad.primitives.linalg.matrix_parts import (
    adjoint,
    bar,
    lower,
    product,
    result,
    square,
    swap,
    upper,
)
from fungrad.primitives.linalg.substitution import solved, substituted
from fungrad.primitives.movement.reshape_broadcast_cast import (
    aligned,
    prepend_axes,
    reshape,
    transpose,
    with_batch,
)
from fungrad.primitives.primitive import Primitive, general
from fungrad.tracing.trace import shape_of

# --- solve ----------------------------------------------------------------------------------------

_OTHER = {"": "", "lower": "upper", "upper": "lower"}


def _eval_solve(a: Any, b: Any, *, triangle: str) -> Any:
    return substituted(a, b, triangle == "lower") if triangle else solved(a, b)


def _type_solve(a: Type, b: Type, *, triangle: str) -> Type:
    square("solve", a)
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise ShapeError(
            f"solve got matrices of shape {a.shape} and right-hand sides of shape {b.shape}: they "
            "need the same number of rows."
        )
    leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return Type((*leading, *b.shape[-2:]), result(a, b))


def _vjp_solve(ct: Any, x: Any, args: Any, wanted: Any, *, triangle: str) -> list[Any]:
    a, _ = args
    ct_b = solve(swap(a), ct, triangle=_OTHER[triangle])
    if not wanted[0]:
        return [None, ct_b]
    return [_in_triangle((-ct_b) @ swap(x), triangle), ct_b]


def _in_triangle(x: Any, triangle: str) -> Any:
    return lower(x) if triangle == "lower" else upper(x) if triangle == "upper" else x


def _jvp_solve(primals: Any, tangents: Any, *, triangle: str) -> tuple[Any, Any]:
    a, b = primals
    da, db = tangents
    x = solve(a, b, triangle=triangle)
    if da is None:
        return x, solve(a, db, triangle=triangle)
    moved = _in_triangle(da, triangle) @ x
    return x, solve(a, -moved if db is None else db - moved, triangle=triangle)


def _batch_solve(args: Any, batched: Any, size: int, *, triangle: str) -> Any:
    a, b = args
    if not batched[0] and len(shape_of(a)) == 2 and len(shape_of(b)) == 3:
        # One factorisation for all: the examples' columns side by side.
        n, count = shape_of(b)[1:]
        wide = reshape(transpose(b, axes=(1, 0, 2)), shape=(n, size * count))
        x = reshape(solve(a, wide, triangle=triangle), shape=(n, size, count))
        return transpose(x, axes=(1, 0, 2))
    return solve(*aligned(args, batched), triangle=triangle)


solve: Primitive = general(
    "solve",
    fresh=True,
    cost=flop_counts.solve,
    eval=_eval_solve,
    type=_type_solve,
    vjp=_vjp_solve,
    jvp=_jvp_solve,
    batch=_batch_solve,
)
"""`solve(a, b, triangle=)`: x with a @ x = b, for matrices b. Only the "lower" or the "upper"
triangle of a is read; all of it if `triangle` is ""."""

# --- inverses -------------------------------------------------------------------------------------


def _type_inv(a: Type) -> Type:
    square("inv", a)
    return Type(a.shape, result(a))


def _jvp_inv(primals: Any, tangents: Any) -> tuple[Any, Any]:
    y = inv(primals[0])
    return y, -(y @ tangents[0] @ y)


inv: Primitive = general(
    "inv",
    fresh=True,
    cost=flop_counts.cubed(2),  # WN41, GETRF and GETRI
    eval=lapack_calls.inv,
    type=_type_inv,
    vjp=lambda ct, y, args, wanted: [-(swap(y) @ ct @ swap(y))],
    jvp=_jvp_inv,
    batch=lambda args, batched, size: inv(args[0]),
)
"""`inv(a)`: the inverses of square matrices."""


def _vjp_pinv(ct: Any, p: Any, args: Any, wanted: Any) -> list[Any]:
    a = args[0]
    g, p_h = bar(ct), adjoint(p)
    g_h = adjoint(g)
    total = -product(p_h, g, p_h)
    inner = product(g_h, p, p_h)
    total = total + (inner - a @ (p @ inner))
    inner = product(p_h, p, g_h)
    return [bar(total + (inner - product(inner, p, a))), None]


def _batch_pinv(args: Any, batched: Any, size: int) -> Any:
    a, rtol = with_batch(args[0], batched[0], size), args[1]
    return pinv(a, prepend_axes(rtol, len(shape_of(a)) - 2) if batched[1] else rtol)


pinv: Primitive = general(
    "pinv",
    cost=flop_counts.pinv,
    eval=np.linalg.pinv,
    type=lambda a, rtol: Type((*a.shape[:-2], a.shape[-1], a.shape[-2]), result(a)),
    vjp=_vjp_pinv,
    batch=_batch_pinv,
    cuts=(1,),
)
"""`pinv(a, rtol)`: the pseudoinverses; singular values up to rtol times the largest are taken as
zero. The derivative assumes constant rank: G. Golub and V. Pereyra, "The differentiation of
pseudo-inverses and nonlinear least squares problems whose variables separate" (1973), equation
4.12. It needs no singular vectors, and so is right for equal singular values, too."""
