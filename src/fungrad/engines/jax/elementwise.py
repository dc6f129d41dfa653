"""JAX rules of elementwise primitives.

A primitive that applies a ufunc of NumPy's has the function of that name in jax.numpy; the others
are written out. Arguments come in the dtypes of the ufunc's loop, since JAX promotes differently.
"""

from __future__ import annotations

import math
from typing import Any

import jax.scipy.special as jsp
import numpy as np
from jax import lax

from fungrad.engines.jax.table import RULES, jnp, rule
from fungrad.primitives.elementwise import ufuncs
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.sliding_window import normal_cdf
from fungrad.primitives.primitive import Primitive
from fungrad.primitives.random import bits as random_bits
from fungrad.primitives.random.bits import (
    high_product,
    normal_of_bits,
    normal_quantile,
    uniform_of_bits,
)
from fungrad.primitives.reduction.cumulative import attains
from fungrad.primitives.reduction.reduce import exp2_difference, exp_difference
from fungrad.primitives.reduction.reduce import root as norm_root
from fungrad.primitives.special import bessel, polygamma


def of_ufunc(primitive: Any) -> Any:
    """The function of jax.numpy for a primitive that applies a ufunc of NumPy's, or None."""
    ufunc = primitive.ufunc
    return None if ufunc is None else getattr(jnp, ufunc.__name__, None)


def loop_dtypes(primitive: Any, types: Any) -> list[Any] | None:
    """The dtypes in which NumPy's ufunc computes for arguments of some types."""
    plain = {"f": float, "i": int, "c": complex}
    given = [plain.get(t.dtype.kind, t.dtype) if t.weak else t.dtype for t in types]
    try:
        loop = primitive.ufunc.resolve_dtypes((*given, *[None] * primitive.ufunc.nout))
    except (TypeError, AttributeError):
        return None
    return [np.dtype(d) for d in loop[: len(types)]]


rule(select)(lambda condition, x, y: jnp.where(condition.astype(bool), x, y))
rule(bessel.i0)(jsp.i0)
rule(bessel.i1)(jsp.i1)
rule(ufuncs.real)(jnp.real)
rule(ufuncs.imag)(jnp.imag)
rule(ufuncs.complex_of)(lambda x, y: lax.complex(*jnp.broadcast_arrays(x, y)))
rule(ufuncs.phase)(jnp.sign)
rule(ufuncs.frexp_exponent)(lambda x: jnp.frexp(x)[1])
rule(attains)(lambda x, y: (x == y) | (x != x) & (y != y))
rule(normal_cdf)(lambda x: 0.5 * jsp.erfc(x.astype(jnp.float64) * -math.sqrt(0.5)))


def _difference(exp: Any) -> Any:
    return lambda x, y: exp(jnp.where(x == y, 0, x - y))


rule(norm_root)(jnp.sqrt)
rule(exp_difference)(_difference(jnp.exp))
rule(exp2_difference)(_difference(jnp.exp2))

# --- random numbers from bits ---------------------------------------------------------------------


@rule(uniform_of_bits)
def _uniform(bits: Any) -> Any:
    wide = bits.dtype == jnp.uint64
    unit = 2.0**-53 if wide else np.float32(2.0**-24)
    return (bits >> bits.dtype.type(11 if wide else 8)).astype(
        jnp.float64 if wide else jnp.float32
    ) * unit


def _polynomial(coefficients: Any, r: Any) -> Any:
    value = r * coefficients[0]
    for c in coefficients[1:-1]:
        value = (value + c) * r
    return value + coefficients[-1]


def _rational(parts: Any, r: Any) -> Any:
    return _polynomial(parts[0], r) / _polynomial(parts[1], r)


def _tail(p: Any) -> Any:
    r = jnp.sqrt(-jnp.log(p))
    near, far = random_bits._NEAR_TAIL, random_bits._FAR_TAIL
    return jnp.where(r > 5.0, _rational(far, r - 5.0), _rational(near, r - 1.6))


def _central(q: Any) -> Any:
    return _rational(random_bits._CENTRAL, random_bits._CENTRE**2 - q * q) * q


@rule(normal_of_bits)
def _normal(bits: Any) -> Any:
    wide = bits.dtype == jnp.uint64
    signed = lax.bitcast_convert_type(bits, jnp.int64 if wide else jnp.int32)
    q = ((signed >> (11 if wide else 0)).astype(jnp.float64) + 0.5) * (
        2.0**-53 if wide else 2.0**-32
    )
    side = jnp.abs(q)
    outer = jnp.copysign(_tail(0.5 - side), q)
    return jnp.where(side > random_bits._CENTRE, outer, _central(q)).astype(
        jnp.float64 if wide else jnp.float32
    )


@rule(normal_quantile)
def _quantile(p: Any) -> Any:
    q = p.astype(jnp.float64) - 0.5
    side = jnp.minimum(p, 1 - p).astype(jnp.float64)
    outer = jnp.copysign(_tail(side), q)
    outer = jnp.where(side > 0, outer, jnp.copysign(jnp.inf, q))
    outer = jnp.where(side >= 0, outer, jnp.nan)
    return jnp.where(jnp.abs(q) <= random_bits._CENTRE, _central(q), outer)


@rule(high_product)
def high_half(x: Any, y: Any) -> Any:
    """The upper 64 bits of the product of two 64-bit integers."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x_low, x_high, y_low, y_high = x & low, x >> half, y & low, y >> half
    middle = x_high * y_low + (x_low * y_low >> half)
    other = x_low * y_high + (middle & low)
    return x_high * y_high + (middle >> half) + (other >> half)


rule(polygamma.polygamma)(lambda x, *, order: jsp.polygamma(order, x))

# --- SciPy's special functions --------------------------------------------------------------------

SPECIAL = (
    "erf erfc erfinv ndtr log_ndtr ndtri expit logit digamma gammaln gammainc gammaincc betainc "
    "betaln beta xlogy xlog1py entr rel_entr kl_div zeta i0e i1e expi exp1 spence gamma poch"
).split()
"""Functions of scipy.special that jax.scipy.special has under the same name."""


def special(primitive: Primitive) -> Any:
    """The function of jax.scipy.special for one of scipy.special's, or None."""
    if not primitive.module.startswith("fungrad.scipy.special") or primitive.name not in SPECIAL:
        return None
    return getattr(jsp, primitive.name, None)


__all__ = ["RULES", "high_half", "loop_dtypes", "of_ufunc", "special"]
