"""The table of JAX rules, with those of elementwise primitives and linear algebra.

The rule of a primitive is a function of jax.numpy with the same result. It gets arrays of the types
of the equation's inputs, and the parameters; its result is cast to the type of the output. Other
packages add rules by `fungrad.extend.jax_rule`.

A primitive that applies a ufunc of NumPy has the function of that name in jax.numpy; arguments are
cast to the dtypes of the ufunc's loop, since JAX promotes differently. LAPACK's errors become NaN,
as in JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jlinalg
import jax.scipy.special as jsp
import numpy as np
from jax import lax

from fungrad.extend import jax_rules as RULES
from fungrad.primitives.elementwise import ufuncs
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.linalg import cholesky_qr, determinant, solve, spectra
from fungrad.primitives.linalg.cholesky_pullback import cholesky_pullback
from fungrad.primitives.primitive import Primitive
from fungrad.primitives.random import bits as random_bits
from fungrad.primitives.random import philox
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
from fungrad.primitives.special.normal_distribution import normal_cdf

Rule = Callable[..., Any]


class Options:
    """The options of a translation: callbacks for primitives without a rule, and loop bounds."""

    __slots__ = ("callbacks", "max_steps")

    def __init__(self, callbacks: bool, max_steps: int | None) -> None:
        self.callbacks = callbacks
        self.max_steps = max_steps


STRUCTURAL: dict[Primitive, Rule] = {}
"""Rules of primitives that run Graphs: `(equation, args, options) -> results`."""


def rule(*primitives: Primitive) -> Callable[[Rule], Rule]:
    """Makes a function the rule of some primitives."""

    def enter(function: Rule) -> Rule:
        for primitive in primitives:
            RULES[primitive] = function
        return function

    return enter


def cast(x: Any, dtype: Any) -> Any:
    """An array cast to a dtype; the real part if that makes it real."""
    x = jnp.asarray(x)
    if x.dtype == dtype:
        return x
    return (x.real if x.dtype.kind == "c" and dtype.kind not in "cb" else x).astype(dtype)


def of_ufunc(primitive: Any) -> Any:
    """The function of jax.numpy for a primitive that applies a ufunc, or None.

    A ufunc of another package may have the name of NumPy's and compute something else.
    """
    ufunc = primitive.ufunc
    name = getattr(ufunc, "__name__", "")
    known = primitive.module.startswith("fungrad.") or getattr(np, name, None) is ufunc
    return getattr(jnp, name, None) if known else None


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


# Philox uses operators on 64-bit integers, which JAX's arrays also have.
rule(high_product)(philox.high_product)


@rule(random_bits.random_bits)
def _random_bits(key: Any, data: Any, *, shape: Any, dtype: Any, purpose: int) -> Any:
    lead = key.shape[:-1]
    size = math.prod(shape)
    count = -(-size * dtype.itemsize // 8)
    blocks = -(-count // 4)
    keys = key.reshape(-1, 2).astype(jnp.uint64)
    row = jnp.broadcast_to(data, lead).reshape(-1).astype(jnp.uint64)
    zero = jnp.zeros((keys.shape[0], blocks), jnp.uint64)
    block = jnp.arange(blocks, dtype=jnp.uint64) + np.uint64(1)
    counter = [zero + block, zero, zero + row[:, None], zero + np.uint64(purpose)]
    words = jnp.stack(philox._philox(counter, zero + keys[:, :1], zero + keys[:, 1:]), -1)
    words = words.reshape(keys.shape[0], 4 * blocks)[:, :count]
    if dtype.itemsize < 8:
        words = lax.bitcast_convert_type(words, jnp.dtype(dtype)).reshape(keys.shape[0], -1)
    return words[:, :size].reshape((*lead, *shape)).astype(dtype)


rule(polygamma.polygamma)(lambda x, *, order: jsp.polygamma(order, x))

# --- SciPy's special functions --------------------------------------------------------------------

SPECIAL = (
    "erf erfc erfinv ndtr log_ndtr ndtri expit logit digamma gammaln gammainc gammaincc betainc "
    "betaln beta xlogy xlog1py entr rel_entr kl_div zeta i0e i1e expi exp1 spence gamma poch"
).split()
"""Functions of scipy.special that jax.scipy.special has under the same name."""


def special(primitive: Primitive) -> Any:
    """The function of jax.scipy.special for one of scipy.special's, or None."""
    if not primitive.module.startswith("fungrad.scipy.special.") or primitive.name not in SPECIAL:
        return None
    return getattr(jsp, primitive.name, None)


@rule(solve.solve)
def _solve(a: Any, b: Any, *, triangle: str) -> Any:
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    dtype = jnp.result_type(a, b)
    a = jnp.broadcast_to(a, (*lead, *a.shape[-2:])).astype(dtype)
    b = jnp.broadcast_to(b, (*lead, *b.shape[-2:])).astype(dtype)
    if triangle:
        return lax.linalg.triangular_solve(a, b, left_side=True, lower=triangle == "lower")
    return jnp.linalg.solve(a, b)


rule(solve.inv)(jnp.linalg.inv)
rule(solve.pinv)(lambda a, rtol: jnp.linalg.pinv(a, rtol=rtol))
rule(determinant.det)(jnp.linalg.det)
rule(determinant.slogdet)(lambda a: tuple(jnp.linalg.slogdet(a)))
rule(cholesky_qr.cholesky)(lambda a: jnp.linalg.cholesky(a, symmetrize_input=False))
rule(cholesky_qr.qr)(lambda a: tuple(jnp.linalg.qr(a)))
rule(spectra.svd)(lambda a, *, full: tuple(jnp.linalg.svd(a, full)))
rule(spectra.svdvals)(lambda a: jnp.linalg.svd(a, compute_uv=False))
rule(spectra.eig)(lambda a: tuple(jnp.linalg.eig(a)))
rule(spectra.eigvals)(jnp.linalg.eigvals)
rule(spectra.trusted)(lambda inverse: inverse)


def _hermitian(a: Any, lower: bool) -> Any:
    """The Hermitian matrix with the given triangle."""
    side = jnp.tril(a, -1) if lower else jnp.triu(a, 1)
    middle = jnp.real(jnp.diagonal(a, 0, -2, -1))
    whole = side + jnp.conj(jnp.swapaxes(side, -1, -2))
    return whole + (jnp.eye(a.shape[-1]) * middle[..., None, :]).astype(a.dtype)


@rule(spectra.eigh)
@rule(spectra.eigenspaces)
def _eigh(a: Any, *, lower: bool) -> Any:
    return tuple(jnp.linalg.eigh(_hermitian(a, lower), symmetrize_input=False))


@rule(spectra.eigvalsh)
def _eigvalsh(a: Any, *, lower: bool) -> Any:
    return jnp.linalg.eigvalsh(_hermitian(a, lower), symmetrize_input=False)


@rule(cholesky_pullback)
def _cholesky_pullback(y: Any, ct: Any) -> Any:
    stack = jnp.broadcast_shapes(y.shape, ct.shape)
    y, ct = jnp.tril(jnp.broadcast_to(y, stack)), jnp.broadcast_to(ct, stack)
    p = jnp.tril(jnp.conj(jnp.swapaxes(y, -1, -2)) @ jnp.tril(jnp.conj(ct)))
    p = _hermitian(p, lower=True)
    for _ in range(2):
        p = lax.linalg.triangular_solve(y, p, left_side=False, lower=True)
        p = jnp.conj(jnp.swapaxes(p, -1, -2))
    return 0.5 * jnp.conj(p)


@rule(cholesky_qr.hermitian_weights)
def _weights(a: Any, *, lower: bool) -> Any:
    n, dtype = a.shape[-1], jnp.finfo(a.dtype).dtype
    if not n:
        return jnp.ones(a.shape, dtype)
    triangle = np.tril(np.full((n, n), 2.0), -1) + np.eye(n)
    size = jnp.abs(a).max((-2, -1), keepdims=True)
    error = jnp.abs(a - jnp.conj(jnp.swapaxes(a, -1, -2))).max((-2, -1), keepdims=True)
    close = error <= 4 * n * jnp.finfo(dtype).eps * size
    return jnp.where(close, 1.0, triangle if lower else triangle.T).astype(dtype)


@rule(spectra.coincide)
def _coincide(w: Any, *, opposite: bool) -> Any:
    n = w.shape[-1]
    if not n:
        return jnp.zeros((*w.shape, n), bool)
    tolerance = 4 * n * jnp.finfo(w.dtype).eps * jnp.abs(w).max(-1)[..., None, None]
    left, right = w[..., :, None], w[..., None, :]
    return jnp.abs(left + right if opposite else left - right) <= tolerance


@rule(spectra.shares)
def _shares(w: Any) -> Any:
    left, right = w[..., :, None], w[..., None, :]
    dtype = jnp.finfo(w.dtype).dtype
    size = jnp.maximum(jnp.abs(left), jnp.abs(right))
    same = jnp.abs(left - right) <= 4 * w.shape[-1] * jnp.finfo(dtype).eps * size
    return (same / same.sum(-1, keepdims=True)).astype(dtype)


@rule(spectra.apart)
def _apart(x: Any, same: Any, g: Any, *, values: str, strict: bool) -> Any:
    return jnp.where(same, jnp.zeros((), x.dtype), x)


@rule(spectra.anchors)
def _anchors(v: Any) -> Any:
    if not v.size:
        return jnp.zeros(v.shape, bool)
    size = jnp.where(v.imag == 0, jnp.abs(v), -1.0)
    return jnp.arange(v.shape[-2])[:, None] == jnp.argmax(size, axis=-2, keepdims=True)


def matrix_exponential(a: Any, *, name: str) -> Any:
    """The matrix function `name`, if JAX has it."""
    return jlinalg.expm(a, max_squarings=48) if name == "expm" else None


__all__ = [
    "RULES",
    "STRUCTURAL",
    "Options",
    "Rule",
    "cast",
    "jax",
    "jnp",
    "loop_dtypes",
    "matrix_exponential",
    "of_ufunc",
    "rule",
    "special",
]
