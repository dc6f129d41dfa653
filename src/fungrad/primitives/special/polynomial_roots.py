"""The roots of polynomials, differentiated as implicit functions of the coefficients.

    p(r) = 0   =>   dr = - sum over k of dp[k] r^(n - k) / p'(r)

At a repeated root there is no derivative: it is infinite, or NaN. Knows `declare`, shaping and
elementwise arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import fit
from fungrad.primitives.linalg import flop_counts
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, reduce_sum, reshape
from fungrad.primitives.primitive import Primitive, general
from fungrad.tracing.trace import shape_of, typeof


def _eval_roots(p: Any, *, start: int = 0) -> Any:
    used = p[..., start:]
    if not np.all(used[..., :1]):
        raise ValueError(
            "np.roots met a polynomial whose first coefficient is 0. How many roots there are "
            "depends on that, so under jit and vmap it has to be another number: leave the "
            "coefficient out, or call np.roots without tracing it."
        )
    count = used.shape[-1]
    rows = used.reshape(math.prod(p.shape[:-1]), count)
    found = np.zeros((len(rows), count - 1), _complex(p.dtype))
    degrees = count - 1 - np.argmax(rows[:, ::-1] != 0, axis=1)  # of what is left without roots 0
    for degree in np.unique(degrees).tolist():
        chosen = rows[degrees == degree, : degree + 1]
        companion = np.zeros((len(chosen), degree, degree), p.dtype)
        if degree:
            companion[:, np.arange(1, degree), np.arange(degree - 1)] = 1
            companion[:, 0] = -chosen[:, 1:] / chosen[:, :1]
            found[degrees == degree, :degree] = np.linalg.eigvals(companion)
    return found.reshape(*p.shape[:-1], count - 1)


def _complex(dtype: Any) -> Any:
    return np.result_type(dtype, np.complex64)


def _type_roots(p: Type, *, start: int = 0) -> Type:
    return Type((*p.shape[:-1], p.shape[-1] - 1 - start), _complex(p.dtype))


def _slopes(p: Any, roots: Any) -> Any:
    """-r^(n - k) / p'(r) for each root (the axis before the last) and coefficient (the last)."""
    *lead, count = shape_of(p)
    column = reshape(roots, shape=(*shape_of(roots), 1))
    powers = np.power(column, np.arange(count - 1, -1, -1))
    row = reshape(p, shape=(*lead, 1, count))
    derivative = np.multiply(row, np.arange(count - 1, -1, -1))[..., :-1]
    slope = reduce_sum(derivative * powers[..., 1:], axes=(len(lead) + 1,))
    return -powers / reshape(slope, shape=(*shape_of(roots), 1))


def _vjp_roots(ct: Any, roots: Any, args: Any, wanted: Any, **params: Any) -> list[Any]:
    terms = reshape(ct, shape=(*shape_of(ct), 1)) * _slopes(args[0], roots)
    return [reduce_sum(terms, axes=(len(shape_of(ct)) - 1,))]


def _jvp_roots(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
    roots = polynomial_roots(primals[0], **params)
    slopes = _slopes(primals[0], roots)
    lead, count = shape_of(slopes)[:-2], shape_of(slopes)[-1]
    row = broadcast_to(reshape(tangents[0], shape=(*lead, 1, count)), shape=shape_of(slopes))
    tangent = reduce_sum(row * slopes, axes=(len(lead) + 1,))
    return roots, fit(tangent, typeof(roots))


polynomial_roots: Primitive = general(
    "polynomial_roots",
    cost=flop_counts.roots,
    eval=_eval_roots,
    type=_type_roots,
    vjp=_vjp_roots,
    jvp=_jvp_roots,
    batch=lambda args, batched, size, **params: polynomial_roots(args[0], **params),
)
"""`polynomial_roots(p, start=)`: the complex roots of p[0] x^n + ... + p[n].

The first `start` coefficients are 0, the next one is not: they have no root of their own, but the
roots change with them. Roots that are exactly 0 come last, as many as there are zeros at the end.
"""

__all__ = ["polynomial_roots"]
