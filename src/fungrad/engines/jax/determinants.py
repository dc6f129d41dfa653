"""JAX's rules of the derivatives of determinants, for singular matrices too.

The formulas are those of primitives/linalg/determinant.py. JAX differentiates them by fungrad's
rules, since the derivative of a singular value decomposition does not exist where singular values
agree; of the third derivatives by JAX's own rules (`derivatives="jax"`) it makes NaN there.
"""

from __future__ import annotations

import functools
from typing import Any

from fungrad.engines.jax.elementwise import jax, jnp, rule
from fungrad.primitives.linalg import determinant


def _others(s: Any, but: int) -> Any:
    """For each of the numbers (`but` = 1), or each two different ones (2, and 0 on the diagonal),
    the product of all others.
    """
    n = s.shape[-1]
    left_out = jnp.eye(n, dtype=bool)
    if but == 2:
        left_out = left_out[:, None] | left_out
    shape = (*s.shape[:-1], *(1,) * but, n)
    product = jnp.prod(jnp.where(left_out, 1, s.reshape(shape)), -1)
    return product if but == 1 else jnp.where(jnp.eye(n, dtype=bool), 0, product)


_product: Any = functools.partial(jnp.matmul, precision="highest")
"""The matrix product. By default GPUs round the factors of a single product to TF32's 11 bits."""


def _turned(a: Any) -> tuple[Any, Any, Any, Any]:
    u, s, vh = jnp.linalg.svd(a)
    return u, s, vh, (jnp.linalg.det(u) * jnp.linalg.det(vh))[..., None, None]


@rule(determinant.invertible)
def _invertible(a: Any) -> Any:
    s = jnp.linalg.svd(a, compute_uv=False)
    regular = s.min(-1, initial=jnp.inf) > determinant.SINGULAR * s.max(-1, initial=0)
    return regular[..., None, None]


def _of_cofactors(a: Any) -> Any:
    u, s, vh, turn = _turned(a)
    return (turn * jnp.conj(_product(u * _others(s, 1)[..., None, :], vh))).astype(a.dtype)


def _cofactors_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    return _cofactors(*primals), _cofactors_along(primals[0], tangents[0])


def _of_cofactors_along(a: Any, e: Any) -> Any:
    dtype = jnp.result_type(a, e)
    u, s, vh, turn = _turned(a)
    e = _product(_product(u.conj().mT, e), vh.conj().mT)
    others = _others(s, 2)
    diagonal = jnp.diagonal(e, axis1=-2, axis2=-1)[..., None]
    on = jnp.eye(s.shape[-1], dtype=bool)
    cofactors = jnp.where(on, _product(others, diagonal), -others * e.mT)
    return (turn * _product(_product(u.conj(), cofactors), vh.conj())).astype(dtype)


def _cofactors_along_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    a, e = primals
    da, de = tangents
    inverse = jnp.where(_invertible(a), jnp.linalg.inv(a), jnp.nan)
    x, y = _product(inverse, e), _product(inverse, da)
    trace_x, trace_y = _trace(x), _trace(y)
    xy = _product(x, y)
    both = (trace_x * trace_y - _trace(xy)) * jnp.eye(a.shape[-1], dtype=a.dtype)
    both = both - trace_y * x - trace_x * y + xy + _product(y, x)
    third = jnp.linalg.det(a)[..., None, None] * _product(both, inverse).mT
    return _cofactors_along(a, e), _cofactors_along(a, de) + third


def _trace(x: Any) -> Any:
    return jnp.trace(x, axis1=-2, axis2=-1)[..., None, None]


_cofactors: Any = jax.custom_jvp(_of_cofactors)
_cofactors.defjvp(_cofactors_jvp)
_cofactors_along: Any = jax.custom_jvp(_of_cofactors_along)
_cofactors_along.defjvp(_cofactors_along_jvp)
rule(determinant.cofactors)(_cofactors)
rule(determinant.cofactors_along)(_cofactors_along)
