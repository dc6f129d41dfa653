"""eigh and svd, and their values alone.

Knows the forms of matrix_parts.py and `hermitian_weights`; what becomes of equal values is said in
degenerate_spectra.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.linalg import flop_counts
from fungrad.primitives.linalg.cholesky_qr import hermitian_weights
from fungrad.primitives.linalg.degenerate_spectra import apart, coincide, gaps, shared
from fungrad.primitives.linalg.matrix_parts import (
    adjoint,
    bar,
    columns,
    diagonal_matrix,
    diagonals,
    real_dtype,
    result,
    rows,
    square,
)
from fungrad.primitives.movement.reshape_broadcast_cast import reduce_sum, slice_axis
from fungrad.primitives.primitive import Primitive, general, or_zero
from fungrad.tracing.trace import shape_of

# --- eigh -----------------------------------------------------------------------------------------


def _type_eigh(a: Type, *, lower: bool) -> tuple[Type, Type]:
    square("eigh", a)
    dtype = result(a)
    return Type(a.shape[:-1], real_dtype(dtype)), Type(a.shape, dtype)


def _vjp_eigh(cts: Any, outputs: Any, args: Any, wanted: Any, *, lower: bool) -> list[Any]:
    w, v = outputs
    gw, gv = cts
    gw = None if gw is None else shared(gw, w)
    v_h = adjoint(v)
    if gv is None:
        gradient = (v * columns(gw)) @ v_h
    else:
        same = coincide(w, opposite=False)
        x = apart(v_h @ bar(gv), same, or_zero(gw, w), values="eigenvalues", strict=False)
        inner = 0.5 * (x - adjoint(x)) / gaps(w, same)
        if gw is not None:
            inner = inner + diagonal_matrix(gw)
        gradient = v @ inner @ v_h
    return [bar(gradient) * hermitian_weights(args[0], lower=lower)]


eigh: Primitive = general(
    "eigh",
    cost=flop_counts.cubed(9),  # GVL 8.3, symmetric QR
    eval=lambda a, *, lower: tuple(np.linalg.eigh(a, "L" if lower else "U")),
    type=_type_eigh,
    vjp=_vjp_eigh,
    batch=lambda args, batched, size, *, lower: eigh(args[0], lower=lower),
    multiple=True,
)
"""`eigh(a, lower=)`: eigenvalues and eigenvectors of Hermitian matrices, of which one triangle is
read. M. Giles (2008), section 3.1. The phase of a complex vector moves so that v^H dv is zero."""

eigvalsh: Primitive = general(
    "eigvalsh",
    cost=flop_counts.cubed(4 / 3),
    eval=lambda a, *, lower: np.linalg.eigvalsh(a, "L" if lower else "U"),
    type=lambda a, *, lower: _type_eigh(a, lower=lower)[0],
    vjp=lambda ct, w, args, wanted, *, lower: _vjp_eigh(
        (ct, None), eigh(args[0], lower=lower), args, wanted, lower=lower
    ),
    batch=lambda args, batched, size, *, lower: eigvalsh(args[0], lower=lower),
)
"""`eigvalsh(a, lower=)`: the eigenvalues alone. It shares eigh's rule, but no tangent of a vector
is made, so that nothing warns where a function of the values has a derivative."""

# --- svd ------------------------------------------------------------------------------------------


def _type_svd(a: Type, *, full: bool) -> tuple[Type, Type, Type]:
    m, n = a.shape[-2:]
    k = min(m, n)
    lead, dtype = a.shape[:-2], result(a)
    return (
        Type((*lead, m, m if full else k), dtype),
        Type((*lead, k), real_dtype(dtype)),
        Type((*lead, n if full else k, n), dtype),
    )


def _without_rest(u: Any, gu: Any, k: int) -> tuple[Any, Any]:
    """The first k of complete orthonormal columns, and their cotangent with the rest's moved there.

    The rest [u2] turns as the first do, d u2 = -u1 (u2^H du1)^H, and not among itself.
    """
    ndim, count = len(shape_of(u)), shape_of(u)[-1]
    if count == k:
        return u, gu
    u1 = slice_axis(u, axis=ndim - 1, start=0, stop=k)
    if gu is None:
        return u1, None
    u2 = slice_axis(u, axis=ndim - 1, start=k, stop=count)
    g1 = slice_axis(gu, axis=ndim - 1, start=0, stop=k)
    g2 = slice_axis(gu, axis=ndim - 1, start=k, stop=count)
    g1 = g1 - u2 @ (adjoint(g2) @ u1)
    if count - k > 1:
        same = np.ones((count - k, count - k), bool)
        values = "singular values (zero)"
        free = apart(adjoint(u2) @ g2, same, np.zeros(()), values=values, strict=False)
        nothing = reduce_sum(free, axes=(ndim - 2, ndim - 1)) * 0.0  # asked for, so that it warns
        g1 = g1 + columns(rows(nothing))
    return u1, g1


def _vjp_svd(cts: Any, outputs: Any, args: Any, wanted: Any, *, full: bool) -> list[Any]:
    gu, gs, gvh = cts
    s = outputs[1]
    gs = None if gs is None else shared(gs, s)
    k = shape_of(s)[-1]
    u, gu = _without_rest(outputs[0], None if gu is None else bar(gu), k)
    v, gv = _without_rest(adjoint(outputs[2]), None if gvh is None else adjoint(bar(gvh)), k)
    u_h, v_h = adjoint(u), adjoint(v)
    if gu is None and gv is None:
        return [bar((u * columns(gs)) @ v_h)]
    values = "singular values"
    weight = or_zero(gs, s)
    x: Any = None if gu is None else u_h @ gu
    y: Any = None if gv is None else v_h @ gv
    plus = y if x is None else x if y is None else x + y
    minus = -y if x is None else x if y is None else x - y
    same = coincide(s, opposite=False)
    null = coincide(s, opposite=True)
    plus = apart(plus, same, weight, values=values, strict=False)
    inner = (plus - adjoint(plus)) / gaps(s, same)
    # Alone the sum of two values that are both zero is; of a real pair the diagonal is zero too.
    minus = apart(minus - adjoint(minus), null, weight, values=values + " (zero)", strict=False)
    inner = 0.5 * (inner + minus / select(null, 1.0, columns(s) + rows(s)))
    if gs is not None:
        inner = inner + diagonal_matrix(gs)
    gradient = u @ inner @ v_h
    zero = diagonals(null)
    safe = columns(select(zero, 1.0, s))
    m, n = shape_of(args[0])[-2:]
    if gu is not None and m > k:
        out = gu - u @ x
        out = apart(out, columns(zero), weight, values=values + " (zero)", strict=True)
        gradient = gradient + (out / safe) @ v_h
    if gv is not None and n > k:
        out = gv - v @ y
        out = apart(out, columns(zero), weight, values=values + " (zero)", strict=True)
        gradient = gradient + u @ adjoint(out / safe)
    return [bar(gradient)]


svd: Primitive = general(
    "svd",
    cost=flop_counts.svd,
    eval=lambda a, *, full: tuple(np.linalg.svd(a, full)),
    type=_type_svd,
    vjp=_vjp_svd,
    batch=lambda args, batched, size, *, full: svd(args[0], full=full),
    multiple=True,
)
"""`svd(a, full=)`: u, s and v^H. J. Townsend, "Differentiating the singular value decomposition"
(2016), with 1 / (s_j^2 - s_i^2) taken apart: the sum of the turns of u and v divides by s_j - s_i,
their difference by s_j + s_i, so that u @ v^H has its derivative where values are equal. A complex
phase is shared by u and v: the diagonals of u^H du and v^H dv are opposite."""

svdvals: Primitive = general(
    "svdvals",
    cost=flop_counts.svdvals,
    eval=lambda a: np.linalg.svd(a, compute_uv=False),
    type=lambda a: _type_svd(a, full=False)[1],
    vjp=lambda ct, s, args, wanted: _vjp_svd(
        (None, ct, None), svd(args[0], full=False), args, wanted, full=False
    ),
    batch=lambda args, batched, size: svdvals(args[0]),
)
"""`svdvals(a)`: the singular values alone; see `eigvalsh`."""

__all__ = ["eigh", "eigvalsh", "svd", "svdvals"]
