"""Floor 3: the roots of polynomials, differentiated as implicit functions of the coefficients.

    p(r) = 0   =>   dr = - sum over k of dp[k] r^(n - k) / p'(r)

At a repeated root there is no derivative: it is infinite, or NaN. Knows `declare`, shaping and
elementwise arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.declare import Primitive, general
from fungrad.primitives.elementwise import fit
from fungrad.primitives.shaping import broadcast_to, reduce_sum, reshape
from fungrad.tracing.trace import shape_of, typeof


def _eval_roots(p: Any) -> Any:
    degree = p.shape[-1] - 1
    companion = np.zeros((*p.shape[:-1], degree, degree), p.dtype)
    if degree:
        companion[..., np.arange(1, degree), np.arange(degree - 1)] = 1
        companion[..., 0, :] = -p[..., 1:] / p[..., :1]
    return np.linalg.eigvals(companion).astype(_complex(p.dtype))


def _complex(dtype: Any) -> Any:
    return np.result_type(dtype, np.complex64)


def _type_roots(p: Type) -> Type:
    return Type((*p.shape[:-1], p.shape[-1] - 1), _complex(p.dtype))


def _slopes(p: Any, roots: Any) -> Any:
    """-r^(n - k) / p'(r) for each root (the axis before the last) and coefficient (the last)."""
    count = shape_of(p)[-1]
    lead = shape_of(p)[:-1]
    column = reshape(roots, shape=(*lead, count - 1, 1))
    powers = np.power(column, np.arange(count - 1, -1, -1))
    row = reshape(p, shape=(*lead, 1, count))
    derivative = np.multiply(row, np.arange(count - 1, -1, -1))[..., :-1]
    axis = len(lead) + 1
    slope = reduce_sum(derivative * powers[..., 1:], axes=(axis,))
    return -powers / reshape(slope, shape=(*lead, count - 1, 1))


def _vjp_roots(ct: Any, roots: Any, args: Any, wanted: Any) -> list[Any]:
    lead, count = shape_of(ct)[:-1], shape_of(ct)[-1]
    terms = reshape(ct, shape=(*lead, count, 1)) * _slopes(args[0], roots)
    return [reduce_sum(terms, axes=(len(lead),))]


def _jvp_roots(primals: Any, tangents: Any) -> tuple[Any, Any]:
    roots = polynomial_roots(primals[0])
    slopes = _slopes(primals[0], roots)
    lead, count = shape_of(slopes)[:-2], shape_of(slopes)[-1]
    row = broadcast_to(reshape(tangents[0], shape=(*lead, 1, count)), shape=shape_of(slopes))
    tangent = reduce_sum(row * slopes, axes=(len(lead) + 1,))
    return roots, fit(tangent, typeof(roots))


polynomial_roots: Primitive = general(
    "polynomial_roots",
    eval=_eval_roots,
    type=_type_roots,
    vjp=_vjp_roots,
    jvp=_jvp_roots,
    batch=lambda args, batched, size: polynomial_roots(args[0]),
)
"""`polynomial_roots(p)`: the complex roots of p[0] x^n + ... + p[n], for p[0] other than 0."""

__all__ = ["polynomial_roots"]
