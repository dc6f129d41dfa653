"""Eigenvalues and singular values that coincide, and what their derivatives are then.

A derivative of vectors divides by differences of values. Where those are zero (to rounding) the
vectors are free to turn among each other, and so have no derivative; a function that does not see
that turn has one, to which the pair adds nothing. `apart` takes such pairs out, and warns where the
function does see the turn. A value picked out of equal ones is a tie, which `shared` shares.
docs/linalg.md states the policy. Knows the forms of matrix_parts.py; knows no factorisation.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.linalg.matrix_parts import aligned, columns, real_dtype, rows
from fungrad.primitives.movement.reshape_broadcast_cast import reshape
from fungrad.primitives.primitive import Primitive, general
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of, typeof


def _eval_coincide(w: Any, *, opposite: bool) -> Any:
    size = np.abs(w).max(-1, initial=0)[..., None, None]
    tolerance = 4 * w.shape[-1] * np.finfo(w.dtype).eps * size
    left, right = w[..., :, None], w[..., None, :]
    return np.abs(left + right if opposite else left - right) <= tolerance


coincide: Primitive = general(
    "coincide",
    eval=_eval_coincide,
    type=lambda w, *, opposite: Type((*w.shape, w.shape[-1]), np.bool_),
    batch=lambda args, batched, size, *, opposite: coincide(args[0], opposite=opposite),
    cuts=True,
)
"""`coincide(w, opposite=)`: for each pair of numbers whether they are equal (or, where `opposite`,
whether their sum is zero), up to the rounding errors of the largest."""


def _eval_shares(w: Any) -> Any:
    dtype = real_dtype(w.dtype)
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
"""`shares(w)`: the matrix that puts in place of each number the mean over those equal to it."""


def shared(g: Any, w: Any) -> Any:
    """Cotangents of values, shared equally among equal ones, as all ties are."""
    return reshape(columns(g) @ shares(w), shape=shape_of(g))


_ADVICE = (
    "The derivative of a factorisation was taken{line} at a matrix with equal {values} (to "
    "rounding), whose vectors are not determined, along something that depends on their choice, or "
    "that its cotangents cannot tell from that. What the equal ones add to the derivative is not "
    "determined either, and was taken as zero (docs/linalg.md)."
)


def _eval_apart(x: Any, same: Any, g: Any, *, values: str, strict: bool) -> Any:
    if same.ndim >= 2 and same.shape[-1] == same.shape[-2]:
        pairs = same & ~np.eye(same.shape[-1], dtype=bool)
    else:
        pairs = same
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
    # Transposed it meets the tangents of matrices: there any element of a pair turns the vectors.
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

It warns where a function with cotangents x of the turns and g of the values has no derivative, or
one that is lost: x has to be Hermitian at such pairs, and zero unless g is zero (or `strict`)."""


def _batch_apart(args: Any, batched: Any, values: str, strict: bool) -> Any:
    x, same, g = args
    x, same = aligned((x, same), batched[:2])
    if not batched[0] and not batched[1]:
        x = x + np.zeros((shape_of(g)[0], *[1] * len(shape_of(x))), typeof(x).dtype)
    return apart(x, same, g, values=values, strict=strict)


def gaps(w: Any, same: Any) -> Any:
    """w_j - w_i for each pair; where that is zero 1 or -1, skew as the others.

    So nothing that `apart` has to see, in either direction, cancels before it gets there.
    """
    index = np.arange(shape_of(w)[-1])
    sign = np.sign(index - index[:, None]).astype(real_dtype(w.dtype))
    return select(same, sign + np.eye(len(index), dtype=sign.dtype), columns(w) - rows(w))


__all__ = ["apart", "coincide", "gaps", "shared", "shares"]
