"""Determinants, their cofactors, and slogdet.

A determinant is a polynomial of the elements: its derivatives are defined for singular matrices,
too, which have no inverse.

Source: M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008), section 2.2.4; for singular matrices the polynomial itself, in the basis of
the singular vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import ne, select
from fungrad.primitives.elementwise.ufuncs import imag, real
from fungrad.primitives.linalg import flop_counts, lapack_calls
from fungrad.primitives.linalg.matrix_parts import (
    eye,
    real_dtype,
    result,
    square,
    sum_diagonal,
    swap,
)
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.primitives.movement.reshape_broadcast_cast import aligned, cast, reshape
from fungrad.primitives.primitive import Primitive, general
from fungrad.tracing.trace import shape_of, typeof

SINGULAR = 1e-8
"""The cofactors of matrices of a larger condition number (in the 1-norm) than the inverse of this
are computed from singular values, without a division."""


def _type_like(a: Type) -> Type:
    square("det", a)
    return Type(a.shape, result(a))


def _type_det(a: Type) -> Type:
    square("det", a)
    return Type(a.shape[:-2], result(a))


det: Primitive = general(
    "det",
    cost=flop_counts.cubed(2 / 3),  # that of its LU factors
    eval=lapack_calls.det,
    type=_type_det,
    vjp=lambda ct, y, args, wanted: [reshape(ct, shape=(*shape_of(ct), 1, 1)) * cofactors(args[0])],
    batch=lambda args, batched, size: det(args[0]),
)
"""`det(a)`: the determinants. They are polynomials: the first and second derivatives are right for
singular matrices too; the third is NaN there, or inv raises."""


def _products_of_others(s: Any) -> Any:
    """For each of the numbers the product of all others, without a division."""
    ones = np.ones((*s.shape[:-1], 1), s.dtype)
    before = np.cumprod(np.concatenate([ones, s[..., :-1]], -1), -1)
    after = np.cumprod(np.concatenate([ones, s[..., :0:-1]], -1), -1)[..., ::-1]
    return before * after


def _products_of_others_of_two(s: Any) -> Any:
    """For each two different ones of the numbers the product of all others; 0 on the diagonal."""
    n = s.shape[-1]
    ones = np.ones((*s.shape[:-1], 1), s.dtype)
    before = np.cumprod(np.concatenate([ones, s[..., :-1]], -1), -1)[..., :, None]
    after = np.cumprod(np.concatenate([ones, s[..., :0:-1]], -1), -1)[..., None, ::-1]
    inside = np.where(np.tri(n, dtype=bool), 1, s[..., None, :])
    between = np.cumprod(np.concatenate([ones[..., None].repeat(n, -2), inside], -1), -1)[..., :-1]
    products = np.triu(before * between * after, 1)
    return products + products.mT


def _finite(a: Any) -> Any:
    """Whether matrices are finite, with two axes of length 1. LAPACK's singular value decomposition
    does not terminate for some that are not, such as diag(inf, 1, 1).
    """
    return np.isfinite(a).all((-2, -1), keepdims=True)


def _turned(a: Any) -> tuple[Any, Any, Any, Any]:
    """The singular value decomposition, and the determinant of u times that of vh."""
    finite = _finite(a)
    u, s, vh = np.linalg.svd(np.where(finite, a, 0))
    s = np.where(finite[..., 0], s, np.nan)
    return u, s, vh, (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]


def _regular(a: Any, inv: Callable[[Any], Any] = lapack_calls.inv) -> tuple[Any, bool]:
    """The inverses, and whether all matrices are safely inverted."""
    try:
        inverse = inv(a)
    except np.linalg.LinAlgError:
        return a, False
    size = np.abs(a).sum(-2).max(-1, initial=0) * np.abs(inverse).sum(-2).max(-1, initial=0)
    return inverse, bool(np.all(size < 1 / SINGULAR))


def _eval_invertible(a: Any) -> Any:
    finite = _finite(a)
    s = np.linalg.svd(np.where(finite, a, 0), compute_uv=False)
    return finite & (s.min(-1, initial=np.inf) > SINGULAR * s.max(-1, initial=0))[..., None, None]


invertible: Primitive = general(
    "invertible",
    eval=_eval_invertible,
    type=lambda a: Type((*a.shape[:-2], 1, 1), np.bool_),
    batch=lambda args, batched, size: invertible(args[0]),
    cuts=True,
)
"""`invertible(a)`: whether matrices are safely inverted; with two axes of length 1."""


def cofactors_by(a: Any, inv: Callable[[Any], Any], det: Callable[[Any], Any]) -> Any:
    """The cofactors, by the inverse and the determinant if all matrices are safely inverted."""
    inverse, regular = _regular(a, inv)
    if regular:
        return det(a)[..., None, None] * inverse.mT
    u, s, vh, turn = _turned(a)
    # The cofactors of U S V^H are det(U) det(V^H) conj(U) C V^T, for the cofactors C of S.
    found = turn * np.conj((u * _products_of_others(s)[..., None, :]) @ vh)
    return found.astype(a.dtype, copy=False)


cofactors: Primitive = general(
    "cofactors",
    cost=flop_counts.cubed(8 / 3),  # of the inverse and of the determinant
    eval=lambda a: cofactors_by(a, lapack_calls.inv, lapack_calls.det),
    type=_type_like,
    vjp=lambda ct, y, args, wanted: [cofactors_along(args[0], ct)],
    jvp=lambda primals, tangents: (cofactors(*primals), cofactors_along(primals[0], tangents[0])),
    batch=lambda args, batched, size: cofactors(args[0]),
)
"""`cofactors(a)`: the gradient of det, for singular matrices too."""


def _eval_cofactors_along(a: Any, e: Any) -> Any:
    inverse, regular = _regular(a)
    if regular:
        x = inverse @ e
        trace = np.trace(x, axis1=-2, axis2=-1)[..., None, None]
        return lapack_calls.det(a)[..., None, None] * (trace * inverse - x @ inverse).mT
    u, s, vh, turn = _turned(a)
    e = u.conj().mT @ e @ vh.conj().mT
    others = _products_of_others_of_two(s)
    diagonal_ = np.arange(s.shape[-1])
    cofactors = -others * e.mT
    cofactors[..., diagonal_, diagonal_] = (others @ e[..., diagonal_, diagonal_, None])[..., 0]
    return (turn * (u.conj() @ cofactors @ vh.conj())).astype(np.result_type(a, e), copy=False)


def _type_cofactors_along(a: Type, e: Type) -> Type:
    square("det", a)
    return Type(np.broadcast_shapes(a.shape, e.shape), result(a, e))


def _vjp_cofactors_along(ct: Any, output: Any, args: Any, wanted: Any) -> list[Any]:
    # The second derivative of det is symmetric; the third is the sum over the ways to put e, ct
    # and da into one cycle, two, or three. By this formula it is NaN where there is no inverse.
    a, e = args
    ct_e = cofactors_along(a, ct) if wanted[1] else None
    if not wanted[0]:
        return [None, ct_e]
    inverse = select(invertible(a), inv(a), np.nan)
    x, y = inverse @ e, inverse @ ct
    trace_x, trace_y = sum_diagonal(x), sum_diagonal(y)
    xy = x @ y
    both = (trace_x * trace_y - sum_diagonal(xy)) * eye(a)
    both = both - trace_y * x - trace_x * y + xy + y @ x
    value = det(a)
    return [reshape(value, shape=(*shape_of(value), 1, 1)) * swap(both @ inverse), ct_e]


cofactors_along: Primitive = general(
    "cofactors_along",
    eval=_eval_cofactors_along,
    type=_type_cofactors_along,
    vjp=_vjp_cofactors_along,
    batch=lambda args, batched, size: cofactors_along(*aligned(args, batched)),
)
"""`cofactors_along(a, e)`: the derivative of the cofactors of a along e."""


def _type_slogdet(a: Type) -> tuple[Type, Type]:
    square("slogdet", a)
    dtype = result(a)
    return Type(a.shape[:-2], dtype), Type(a.shape[:-2], real_dtype(dtype))


def _regular_or_eye(a: Any, sign: Any) -> tuple[Any, Any]:
    """The matrices, and 1; the identity, and 0, for matrices whose sign is 0 (no inverse).

    A quotient by the second makes a derivative infinite or NaN there, with NumPy's warning.
    """
    regular = reshape(ne(sign, 0), shape=(*shape_of(sign), 1, 1))
    return select(regular, a, eye(a)), cast(regular, real_dtype(a.dtype))


def _vjp_slogdet(cts: Any, outputs: Any, args: Any, wanted: Any) -> list[Any]:
    ct_sign, ct_log = cts
    sign = outputs[0]
    scale = ct_log
    if ct_sign is not None and sign.dtype.kind == "c":
        # d sign = i sign Im(w), for w = tr(a^-1 da), and Im(w) = Re(-i w).
        turned = real(ct_sign * sign * 1j) * -1j
        scale = turned if scale is None else scale + turned
    if scale is None:
        return [None]
    regular, one = _regular_or_eye(args[0], sign)
    return [reshape(scale, shape=(*shape_of(scale), 1, 1)) / one * swap(inv(regular))]


def _jvp_slogdet(primals: Any, tangents: Any) -> tuple[Any, Any]:
    a = primals[0]
    sign, log = slogdet(a)
    regular, one = _regular_or_eye(a, sign)
    w = reshape(sum_diagonal(solve(regular, tangents[0], triangle="") / one), shape=shape_of(log))
    if typeof(sign).dtype.kind != "c":
        return (sign, log), (None, w)
    return (sign, log), (sign * imag(w) * 1j, real(w))


slogdet: Primitive = general(
    "slogdet",
    cost=flop_counts.cubed(2 / 3),
    eval=lambda a: tuple(lapack_calls.slogdet(a)),
    type=_type_slogdet,
    vjp=_vjp_slogdet,
    jvp=_jvp_slogdet,
    batch=lambda args, batched, size: slogdet(args[0]),
    multiple=True,
)
"""`slogdet(a)`: the signs (or phases) of the determinants, and the logarithms of their sizes. The
derivative at a singular matrix is infinite or NaN."""
