"""eig, eigvals, eigh, eigvalsh, svd and svdvals, and their derivatives at equal values.

A derivative of vectors divides by differences of values. If two values are equal (to rounding),
their vectors are determined up to a rotation of their space only, and have no derivative. A
function that is invariant under that rotation has a derivative, to which the pair adds nothing.
`apart` sets such pairs to zero, and warns if the function is not invariant. A value selected among
equal ones is a tie, which `shared` shares. docs/linalg.md states the policy.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.elementwise.ufuncs import imag
from fungrad.primitives.facts import SPACES
from fungrad.primitives.linalg import flop_counts, lapack_calls
from fungrad.primitives.linalg.cholesky_qr import hermitian_weights
from fungrad.primitives.linalg.matrix_parts import (
    adjoint,
    bar,
    columns,
    diagonal_matrix,
    diagonals,
    real_dtype,
    real_part,
    result,
    rows,
    square,
)
from fungrad.primitives.linalg.solve import inv
from fungrad.primitives.movement.reshape_broadcast_cast import (
    aligned,
    reduce_sum,
    reshape,
    slice_axis,
)
from fungrad.primitives.primitive import Primitive, general, or_zero
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of, typeof


def _all_apart(w: Any) -> bool:
    """Whether real numbers are known to lie apart, without a comparison of all pairs."""
    if w.ndim != 1 or w.dtype.kind != "f" or len(w) < 2:
        return False
    tolerance = 4 * len(w) * np.finfo(w.dtype).eps * np.abs(w).max()
    return bool(np.diff(np.sort(w)).min() > tolerance)


def _eval_coincide(w: Any, *, opposite: bool) -> Any:
    size = np.abs(w).max(-1, initial=0)[..., None, None]
    tolerance = 4 * w.shape[-1] * np.finfo(w.dtype).eps * size
    if not opposite and _all_apart(w):
        return np.eye(len(w), dtype=bool)
    left, right = w[..., :, None], w[..., None, :]
    return np.abs(left + right if opposite else left - right) <= tolerance


coincide: Primitive = general(
    "coincide",
    eval=_eval_coincide,
    type=lambda w, *, opposite: Type((*w.shape, w.shape[-1]), np.bool_),
    batch=lambda args, batched, size, *, opposite: coincide(args[0], opposite=opposite),
    cuts=True,
)
"""`coincide(w, opposite=)`: for each pair of numbers whether they are equal (with `opposite`,
whether their sum is zero), up to the rounding errors of the largest."""


def _eval_shares(w: Any) -> Any:
    dtype = real_dtype(w.dtype)
    if _all_apart(w):
        return np.eye(len(w), dtype=dtype)
    left, right = w[..., :, None], w[..., None, :]
    size = np.maximum(np.abs(left), np.abs(right))
    same = np.abs(left - right) <= 4 * w.shape[-1] * np.finfo(dtype).eps * size
    return (same / same.sum(-1, keepdims=True)).astype(dtype)


shares: Primitive = general(
    "shares",
    eval=_eval_shares,
    type=lambda w: Type((*w.shape, w.shape[-1]), real_dtype(w.dtype)),
    batch=lambda args, batched, size: shares(args[0]),
    cuts=True,
)
"""`shares(w)`: the matrix that replaces each number by the mean over those equal to it."""


def shared(g: Any, w: Any) -> Any:
    """Cotangents of values, shared equally among equal ones, as all ties are."""
    return reshape(columns(g) @ shares(w), shape=shape_of(g))


_ADVICE = (
    "The derivative of a factorisation was taken{line} at a matrix with equal {values} (to "
    "rounding), whose vectors are not determined. The function depends on their choice, or its "
    "cotangents do not exclude that. The part of the derivative that belongs to the equal ones is "
    "not determined either, and was taken as zero (docs/linalg.md)."
)


def _eval_apart(x: Any, same: Any, g: Any, *, values: str, strict: bool) -> Any:
    pairs = same
    if same.ndim >= 2 and same.shape[-1] == same.shape[-2]:
        pairs = same.copy()
        diagonal = np.arange(same.shape[-1])
        pairs[..., diagonal, diagonal] = False
    if pairs.any():
        size = np.abs(x)
        limit = 1e3 * x.shape[-1] * np.finfo(x.dtype).eps * np.max(size, initial=0)
        seen = size > limit
        if not strict and not g.any():
            seen = np.abs(x - x.conj().mT) > limit
        if np.any(seen & pairs):
            message = _ADVICE.format(values=values, line=user_line())
            warnings.warn(message, RuntimeWarning, stacklevel=2)
    return np.where(same, np.zeros((), x.dtype), x)


apart: Primitive = general(
    "apart",
    eval=_eval_apart,
    type=lambda x, same, g, *, values, strict: Type(
        np.broadcast_shapes(x.shape, same.shape), x.dtype
    ),
    # The transpose applies to tangents of matrices: there any element of a pair rotates vectors.
    vjp=lambda ct, y, args, wanted, *, values, strict: [
        apart(ct, args[1], args[2], values=values, strict=True), None, None
    ],
    jvp=lambda primals, tangents, *, values, strict: (
        apart(*primals, values=values, strict=strict),
        apart(tangents[0], *primals[1:], values=values, strict=strict),
    ),
    batch=lambda args, batched, size, *, values, strict: _batch_apart(
        args, batched, values, strict
    ),
    cuts=(1, 2),
)  # fmt: skip
"""`apart(x, same, g, values=, strict=)`: x, and zero where `same` holds.

It warns if a function with cotangents x of the rotations and g of the values has no derivative, or
one that is lost: x has to be Hermitian at such pairs, and zero unless g is zero (or `strict`)."""


def _batch_apart(args: Any, batched: Any, values: str, strict: bool) -> Any:
    x, same, g = args
    x, same = aligned((x, same), batched[:2])
    if not batched[0] and not batched[1]:
        x = x + np.zeros((shape_of(g)[0], *[1] * len(shape_of(x))), typeof(x).dtype)
    return apart(x, same, g, values=values, strict=strict)


def gaps(w: Any, same: Any) -> Any:
    """w_j - w_i for each pair; for equal values 1 or -1, skew as the others.

    So cotangents that `apart` has to examine, in either direction, do not cancel before.
    """
    index = np.arange(shape_of(w)[-1])
    sign = np.sign(index - index[:, None]).astype(real_dtype(w.dtype))
    return select(same, sign + np.eye(len(index), dtype=sign.dtype), columns(w) - rows(w))


def complex_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """complex64 for float32, and complex128 for float64."""
    return np.result_type(dtype, np.complex64)


def _eval_eig(a: Any) -> Any:
    dtype = complex_dtype(a.dtype)
    w, v = np.linalg.eig(a)
    return w.astype(dtype, copy=False), v.astype(dtype, copy=False)


def _type_eig(a: Type) -> tuple[Type, Type]:
    square("eig", a)
    dtype = complex_dtype(result(a))
    return Type(a.shape[:-1], dtype), Type(a.shape, dtype)


def _eval_anchors(v: Any) -> Any:
    size = np.where(v.imag == 0, np.abs(v), -1.0)
    largest = np.argmax(size, axis=-2, keepdims=True) if v.size else np.zeros(v.shape, int)
    return np.arange(v.shape[-2])[:, None] == largest


anchors: Primitive = general(
    "anchors",
    eval=_eval_anchors,
    type=lambda v: Type(v.shape, np.bool_),
    batch=lambda args, batched, size: anchors(args[0]),
    cuts=True,
)
"""`anchors(v)`: in each column the one element, the largest, that LAPACK made real."""


def _eval_trusted(inverse: Any) -> Any:
    if np.abs(inverse).max(initial=0) > 1e6:
        warnings.warn(
            f"The derivative of the eigenvalues of a general matrix was taken{user_line()} where "
            "its eigenvectors are nearly dependent: the matrix has too few of them, or is close "
            "to one that has, and the derivative is infinite or wrong (docs/linalg.md). "
            "Differentiate a function of the matrix itself instead: a trace of powers, a "
            "determinant, an exponential.",
            RuntimeWarning,
            stacklevel=2,
        )
    return inverse


trusted: Primitive = general(
    "trusted",
    eval=_eval_trusted,
    type=lambda inverse: inverse,
    vjp=lambda ct, y, args, wanted: [ct],
    jvp=lambda primals, tangents: (trusted(*primals), tangents[0]),
    batch=lambda args, batched, size: trusted(args[0]),
)
"""`trusted(inverse)`: the inverse of eigenvectors of length 1, unchanged; warns if it is huge."""


def _vjp_eig(cts: Any, outputs: Any, args: Any, wanted: Any) -> list[Any]:
    w, v = outputs
    gw, gv = [None if ct is None else bar(ct) for ct in cts]
    v_h = adjoint(v)
    gw = None if gw is None else shared(gw, w)
    left = trusted(inv(v_h))
    if gv is None:
        left = left * columns(gw)
    else:
        # A column u of V P moves v by u - v Re(v^H u) - i v Im(u_k) / v_k: its length stays 1, and
        # its element k real.
        axis = len(shape_of(v)) - 2
        is_anchor = anchors(v)
        along = columns(reduce_sum(bar(v) * gv, axes=(axis,)))
        real_v = select(is_anchor, real_part(v), 1.0)
        turned = imag(bar(along)) / real_v * 1j
        gv = gv - v * real_part(along) + select(is_anchor, turned, 0.0)
        same = coincide(w, opposite=False)
        x = apart(v_h @ gv, same, or_zero(gw, w), values="eigenvalues", strict=True)
        inner = x / bar(gaps(w, same))
        left = left @ (inner if gw is None else inner + diagonal_matrix(gw))
    if args[0].dtype.kind != "c":
        return [real_part(left) @ real_part(v_h) - imag(left) @ imag(v_h)]
    return [bar(left @ v_h)]


eig: Primitive = general(
    "eig",
    cost=flop_counts.cubed(25),  # GVL 7.5, Hessenberg QR
    eval=_eval_eig,
    type=_type_eig,
    vjp=_vjp_eig,
    batch=lambda args, batched, size: eig(args[0]),
    multiple=True,
)
"""`eig(a)`: eigenvalues and eigenvectors, always complex; the vectors as LAPACK scales them, of
length 1 and with a real largest element. M. Giles (2008), section 3.1; C. Boeddeker et al., "On the
computation of complex-valued gradients with application to statistically optimum beamforming"
(2017), for complex ones. If a has too few eigenvectors, it has no derivative: inv raises, or
`trusted` warns."""

eigvals: Primitive = general(
    "eigvals",
    cost=flop_counts.cubed(10),
    eval=lambda a: np.linalg.eigvals(a).astype(complex_dtype(a.dtype), copy=False),
    type=lambda a: _type_eig(a)[0],
    vjp=lambda ct, w, args, wanted: _vjp_eig((ct, None), eig(args[0]), args, wanted),
    batch=lambda args, batched, size: eigvals(args[0]),
)
"""`eigvals(a)`: the eigenvalues alone, always complex; see `eigvalsh`."""


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
    eval=lapack_calls.eigh,
    type=_type_eigh,
    vjp=_vjp_eigh,
    batch=lambda args, batched, size, *, lower: eigh(args[0], lower=lower),
    multiple=True,
)
"""`eigh(a, lower=)`: eigenvalues and eigenvectors of Hermitian matrices, from one triangle.
M. Giles (2008), section 3.1. The phase of a complex vector moves so that v^H dv is zero."""

eigenspaces: Primitive = general(
    "eigenspaces",
    cost=flop_counts.cubed(9),
    eval=lambda a, *, lower: eigh.eval(a, lower=lower),
    type=_type_eigh,
    vjp=_vjp_eigh,
    batch=lambda args, batched, size, *, lower: eigenspaces(args[0], lower=lower),
    multiple=True,
    rounding=SPACES,
)
"""`eigenspaces(a, lower=)`: as `eigh`, for functions that do not depend on the signs (phases) of
vectors, nor on the choice among those of equal values: these are left open."""

eigvalsh: Primitive = general(
    "eigvalsh",
    cost=flop_counts.cubed(4 / 3),
    eval=lapack_calls.eigvalsh,
    type=lambda a, *, lower: _type_eigh(a, lower=lower)[0],
    vjp=lambda ct, w, args, wanted, *, lower: _vjp_eigh(
        (ct, None), eigenspaces(args[0], lower=lower), args, wanted, lower=lower
    ),
    batch=lambda args, batched, size, *, lower: eigvalsh(args[0], lower=lower),
)
"""`eigvalsh(a, lower=)`: the eigenvalues alone. It shares eigh's rule, but computes no tangents of
vectors, so that it does not warn if a function of the values has a derivative."""

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
    """The first k of complete orthonormal columns, and their cotangent, to which that of the rest
    is added.

    The rest, u2, rotates with the first, d u2 = -u1 (u2^H du1)^H, and not within its own space.
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
        nothing = reduce_sum(free, axes=(ndim - 2, ndim - 1)) * 0.0  # for the warnings of `apart`
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
    # A sum is zero only if both values are zero; the diagonal of a real pair is zero, too.
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
    eval=lapack_calls.svd,
    type=_type_svd,
    vjp=_vjp_svd,
    batch=lambda args, batched, size, *, full: svd(args[0], full=full),
    multiple=True,
)
"""`svd(a, full=)`: u, s and v^H. J. Townsend, "Differentiating the singular value decomposition"
(2016), with 1 / (s_j^2 - s_i^2) factorised: the sum of the rotations of u and v divides by
s_j - s_i, their difference by s_j + s_i, so that u @ v^H has its derivative at equal values. A
complex phase is shared by u and v: the diagonals of u^H du and v^H dv are opposite."""

svdvals: Primitive = general(
    "svdvals",
    cost=flop_counts.svdvals,
    eval=lapack_calls.svdvals,
    type=lambda a: _type_svd(a, full=False)[1],
    vjp=lambda ct, s, args, wanted: _vjp_svd(
        (None, ct, None), svd(args[0], full=False), args, wanted, full=False
    ),
    batch=lambda args, batched, size: svdvals(args[0]),
)
"""`svdvals(a)`: the singular values alone; see `eigvalsh`."""
