"""The pullback of a Cholesky factorisation, by halves: as few operations as the factorisation
itself and its products, most of them in products of matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.linalg import flop_counts
from fungrad.primitives.linalg.matrix_parts import (
    adjoint,
    bar,
    diagonal_matrix,
    diagonals,
    lower,
    result,
    triangle,
)
from fungrad.primitives.linalg.solve import solve
from fungrad.primitives.linalg.substitution import substituted
from fungrad.primitives.movement.reshape_broadcast_cast import aligned
from fungrad.primitives.primitive import Primitive, general

LEAF = 80
"""The most rows of a block whose pullback is one formula."""


def _eval_pullback(y: Any, ct: Any) -> Any:
    shape = np.broadcast_shapes(y.shape, ct.shape)
    g = np.array(np.broadcast_to(ct.conj(), shape), np.result_type(y, ct), order="C")
    _pull_back(y, g)
    return g.conj()


def _pull_back(y: Any, g: Any) -> None:
    """Overwrites the cotangents of a factor y = [[a, 0], [b, c]] by those of the Hermitian matrix.

    c is the factor of s - b @ b^H, and b is r @ a^-H. Of the former one triangle is read.
    """
    n = y.shape[-1]
    if n <= LEAF:
        kept = triangle((n, n), 0)
        y_h = np.where(kept, y, 0).conj().mT
        p = y_h @ np.where(kept, g, 0)
        p = np.where(kept, p, p.conj().mT)
        p = 0.5 * (p + p.conj().mT) if p.dtype.kind == "c" else p  # of the diagonal, the real part
        half = substituted(y_h, p, False).conj().mT
        np.multiply(0.5, substituted(y_h, half, False), g)
        return
    k = n // 2
    a, b, c = y[..., :k, :k], y[..., k:, :k], y[..., k:, k:]
    ga, gb, gc = g[..., :k, :k], g[..., k:, :k], g[..., k:, k:]
    _pull_back(c, gc)
    gb -= 2 * (gc @ b)
    gr = substituted(a.conj().mT, gb.conj().mT, False)
    ga -= gr @ b
    _pull_back(a, ga)
    g[..., :k, k:] = 0.5 * gr
    gb[...] = g[..., :k, k:].conj().mT


def _type_pullback(y: Type, ct: Type) -> Type:
    return Type(np.broadcast_shapes(y.shape, ct.shape), result(y, ct))


def _vjp_pullback(ct: Any, out: Any, args: Any, wanted: Any) -> list[Any]:
    """With H the Hermitian part of the cotangent, and M = L^-1 H L^-H, of which `halved` is the
    lower triangle with half of the diagonal: that of G is L @ halved, and that of L the lower
    triangle of G @ halved^H - 2 P H L^-H.
    """
    y, g = args
    h = 0.5 * (ct + adjoint(ct))  # the argument and the result are conjugates of G and P
    right = adjoint(solve(y, h, triangle="lower"))
    m = solve(y, right, triangle="lower")
    halved = lower(m) - 0.5 * diagonal_matrix(diagonals(m))
    of_factor = lower(lower(bar(g)) @ adjoint(halved) - 2.0 * (bar(out) @ right))
    return [bar(of_factor) if wanted[0] else None, y @ halved if wanted[1] else None]


cholesky_pullback: Primitive = general(
    "cholesky_pullback",
    fresh=True,
    cost=flop_counts.cubed(1.0),
    eval=_eval_pullback,
    type=_type_pullback,
    vjp=_vjp_pullback,
    batch=lambda args, batched, size: cholesky_pullback(*aligned(args, batched)),
)
"""`cholesky_pullback(y, ct)`: the Hermitian cotangents of the matrices with Cholesky factors y, of
cotangents ct, of which the lower triangles are read. I. Murray, "Differentiation of the Cholesky
decomposition" (2016), equation 10 for small blocks, and section 4.3 for larger matrices."""
