"""`random_bits`, the source of all random numbers, and the conversions of bits to uniform and
normal numbers.

The conversions use +, -, *, / and the square root alone, whose results are the same to the last bit
on every machine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import Over, elementwise
from fungrad.primitives.facts import FUNCTION
from fungrad.primitives.movement.reshape_broadcast_cast import each_with_batch
from fungrad.primitives.primitive import Primitive, general
from fungrad.primitives.random import philox

Array = np.ndarray[Any, Any]
WORD = np.dtype(np.uint64)

# --- bits -----------------------------------------------------------------------------------------


def _eval_bits(key: Any, data: Any, *, shape: tuple[int, ...], dtype: Any, purpose: int) -> Any:
    lead = key.shape[:-1]
    size = math.prod(shape)
    count = -(-size * dtype.itemsize // 8)
    mask = 2**64 - 1
    if not lead:
        bits = philox.stream(key, int(data) & mask, purpose, count)[None]
    else:
        row = np.broadcast_to(np.asarray(data), lead).ravel()
        bits = philox.streams(key.reshape(-1, 2), row.astype(np.uint64), purpose, count)
    if dtype.itemsize < 8:
        little = bits.astype("<u8", copy=False).view(dtype.newbyteorder("<"))
        bits = little[:, :size].astype(dtype)
    return bits.reshape((*lead, *shape))[()]


random_bits: Primitive = general(
    "random_bits",
    eval=_eval_bits,
    type=lambda key, data, *, shape, dtype, purpose: Type((*key.shape[:-1], *shape), dtype),
    batch=lambda args, batched, size, **params: random_bits(
        *each_with_batch(args, batched, size), **params
    ),
    cuts=True,
)
"""`random_bits(key, data, shape=, dtype=, purpose=)`: the beginning of the stream of a key (the
last axis of `key`, two words) and a word `data`, as unsigned integers; the low parts of a word come
first."""

# --- uniform numbers and integers -----------------------------------------------------------------

_BLOCK = 32_768


def _by_blocks(given: Any, dtype: Any, compute: Any) -> Any:
    """`compute` of blocks whose intermediates stay in cache."""
    flat = np.ascontiguousarray(given).reshape(-1)
    out = np.empty(flat.size, dtype)
    for start in range(0, flat.size, _BLOCK):
        with np.errstate(all="ignore"):
            out[start : start + _BLOCK] = compute(flat[start : start + _BLOCK])
    return out.reshape(np.shape(given))[()]


def _eval_uniform(bits: Any) -> Any:
    wide = bits.dtype == np.uint64
    shift, scale = (11, 2.0**-53) if wide else (8, 2.0**-24)
    dtype = np.dtype(np.float64 if wide else np.float32)
    return _by_blocks(
        bits,
        dtype,
        lambda words: np.multiply(words >> bits.dtype.type(shift), scale, dtype=dtype),
    )


def _eval_high_product(x: Any, y: Any) -> Any:
    if np.ndim(x) == 0 or np.size(y) != 1:
        return philox.high_product(x, y)
    factor = np.reshape(y, 1)
    shape = np.broadcast_shapes(np.shape(x), np.shape(y))
    if factor[0] < 2**32:  # half of the partial products are zero
        low, half = np.uint64(2**32 - 1), np.uint64(32)
        product = _by_blocks(
            x, WORD, lambda w: ((w >> half) * factor + ((w & low) * factor >> half)) >> half
        )
    else:
        product = _by_blocks(x, WORD, lambda w: philox.high_product(w, factor))
    return product.reshape(shape)


uniform_of_bits: Primitive = elementwise("uniform_of_bits", _eval_uniform, partials=[None], cost=1)
"""`uniform_of_bits(bits)`: for words of 64 bits floor(bits / 2^11) / 2^53, a double in [0, 1); for
words of 32 bits floor(bits / 2^8) / 2^24, a float32."""

high_product: Primitive = elementwise(
    "high_product", _eval_high_product, partials=[None, None], cost=1
)
"""`high_product(x, y)`: the upper 64 bits of the product of words; for random x, an integer below
y, all with equal probability to 2^-64."""

# --- normal ---------------------------------------------------------------------------------------

# Wichura 1988, algorithm AS 241 (PPND16): numerators and denominators, highest powers first.
_CENTRAL = (
    (
        2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
        13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608,
    ),
    (
        5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
        5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0,
    ),
)  # fmt: skip
_NEAR_TAIL = (
    (
        7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
        1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
        4.6303378461565452959, 1.42343711074968357734,
    ),
    (
        1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
        0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
        2.05319162663775882187, 1.0,
    ),
)  # fmt: skip
_FAR_TAIL = (
    (
        2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386,
        0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358,
        5.4637849111641143699, 6.6579046435011037772,
    ),
    (
        2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
        7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531,
        0.59983220655588793769, 1.0,
    ),
)  # fmt: skip
_CENTRE = 0.425


def _ratio(polynomials: tuple[tuple[float, ...], tuple[float, ...]], r: Array) -> Array:
    """The quotient of two polynomials of degree 7."""
    values = []
    for coefficients in polynomials:
        value = r * coefficients[0]
        for coefficient in coefficients[1:-1]:
            value += coefficient
            value *= r
        value += coefficients[-1]
        values.append(value)
    values[0] /= values[1]
    return values[0]


_LOG_TERMS = tuple(2.0 / k for k in range(21, 0, -2))


def _log(p: Array) -> Array:
    """The logarithm, by the series of artanh: NumPy's differs in the last bit among machines."""
    mantissa, exponent = np.frexp(p)
    low = mantissa < math.sqrt(0.5)
    mantissa = np.where(low, mantissa + mantissa, mantissa)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    series = square * _LOG_TERMS[0]
    for term in _LOG_TERMS[1:-1]:
        series += term
        series *= square
    series += _LOG_TERMS[-1]
    series *= s
    series += (exponent - low) * math.log(2.0)
    return series


def _tail(p: Array) -> Array:
    """-z for which a standard normal variable is below z with the probability p < 0.075."""
    r = np.sqrt(-_log(p))
    z = _ratio(_NEAR_TAIL, r - 1.6)
    far = np.flatnonzero(r > 5.0)
    if far.size:
        z[far] = _ratio(_FAR_TAIL, r[far] - 5.0)
    return z


def _eval_normal(bits: Any) -> Any:
    wide = bits.dtype == np.uint64
    signed = np.dtype(np.int64 if wide else np.int32)
    shift, scale = (11, 2.0**-53) if wide else (0, 2.0**-32)

    def normal(words: Array) -> Array:
        q = (words.view(signed) >> signed.type(shift)).astype(np.float64)
        q += 0.5
        q *= scale
        size = np.abs(q)
        z = _ratio(_CENTRAL, _CENTRE * _CENTRE - q * q)
        z *= q
        far = np.flatnonzero(size > _CENTRE)
        z[far] = np.copysign(_tail(0.5 - size[far]), q[far])
        return z

    return _by_blocks(bits, np.float64 if wide else np.float32, normal)


normal_of_bits: Primitive = elementwise(
    "normal_of_bits", _eval_normal, partials=[None], rounding=FUNCTION
)
"""`normal_of_bits(bits)`: the standard normal quantile of 1/2 + (k + 1/2) / 2^53, where k is the
word of 64 bits as a signed number over 2^11, rounded down; for words of 32 bits that of
1/2 + (k + 1/2) / 2^32, a float32."""


def _eval_quantile(p: Any) -> Any:
    given = np.asarray(p)
    dtype = given.dtype if given.dtype.kind == "f" else np.dtype(np.float64)

    def quantile(p: Array) -> Array:
        q = p - 0.5
        z = _ratio(_CENTRAL, _CENTRE * _CENTRE - q * q) * q
        far = np.flatnonzero(~(np.abs(q) <= _CENTRE))
        side = np.minimum(p[far], 1.0 - p[far])
        tail = np.copysign(_tail(side), q[far])
        tail = np.where(side > 0, tail, np.copysign(np.inf, q[far]))
        z[far] = np.where(side >= 0, tail, np.nan)
        return z

    quantiles = _by_blocks(given.astype(np.float64), np.float64, quantile)
    return np.asarray(quantiles, dtype)[()]


normal_quantile: Primitive = elementwise(
    "normal_quantile",
    _eval_quantile,
    partials=[Over(lambda z, p: np.exp(z * z * -0.5) * (1.0 / math.sqrt(2.0 * math.pi)))],
)
"""`normal_quantile(p)`: the number below which a standard normal variable is with probability p, to
a relative error of 1e-15, even for p as small as 1e-300."""
