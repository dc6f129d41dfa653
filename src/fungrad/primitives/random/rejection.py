"""Gamma, Poisson and binomial samples, by rejection.

Element i of a sample is computed from block i of its key's stream; if that is rejected, from the
same block of the next round. It depends on the key, i and its parameters alone, so that a batch
equals the loop to the bit. Samples have no derivatives here; see `log_gamma_quantile` for those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.movement.reshape_broadcast_cast import each_with_batch
from fungrad.primitives.primitive import Primitive, general
from fungrad.primitives.random import philox
from fungrad.primitives.random.bits import normal_of_bits, uniform_of_bits
from fungrad.primitives.special.polygamma import log_gamma

Array = np.ndarray[Any, Any]
Proposal = Callable[..., tuple[Array, Array]]
"""`propose(words, *parameters)`: values, and a mask of the accepted ones."""

_LOWEST = np.uint64(1 << 11)
_BLOCK = 16_384


def _uniform(words: Array) -> Array:
    """Doubles in (0, 1), the odd multiples of 2^-53."""
    uniform: Array = uniform_of_bits.eval(words | _LOWEST)
    return uniform


def _blocks(keys: Array, count: int) -> Iterator[tuple[slice, Array]]:
    """The words of the first round, four for each element, for parts of the elements."""
    if count <= _BLOCK:
        size = len(keys) * count
        data = np.zeros(len(keys), np.uint64)
        words = philox.streams(keys, data, philox.BITS, 4 * count).reshape(size, 4)
        for start in range(0, size, _BLOCK):
            part = slice(start, min(start + _BLOCK, size))
            yield part, words[part]
        return
    for row, key in enumerate(keys):
        for start in range(0, count, _BLOCK):
            size = min(_BLOCK, count - start)
            words = philox.stream(key, 0, philox.BITS, 4 * size, start).reshape(size, 4)
            yield slice(row * count + start, row * count + start + size), words


def _rejection(keys: Array, count: int, parameters: list[Array], propose: Proposal) -> Array:
    """One accepted value for each element: `count` elements for each key in turn."""
    out = np.empty(len(keys) * count)
    rejected = []
    for part, words in _blocks(keys, count):
        out[part], accepted = propose(words, *[p[part] for p in parameters])
        rejected.append(part.start + np.flatnonzero(~accepted))
    left = np.concatenate([np.zeros(0, np.intp), *rejected])
    round = 0
    while left.size:
        round += 1
        owner, index = np.divmod(left, count)
        words = philox.words(keys[owner], index.astype(np.uint64), round, philox.BITS)
        out[left], accepted = propose(words, *[p[left] for p in parameters])
        left = left[~accepted]
    return out


def _sampler(name: str, propose: Proposal, dtype: Callable[[Any], Any]) -> Primitive:
    """Declares `name(key, *parameters)`: a sample of the shape that the parameters all have."""

    def eval(key: Any, *parameters: Any) -> Any:
        shape = np.shape(parameters[0])
        keys = key.reshape(-1, 2)
        count = math.prod(shape[key.ndim - 1 :])
        columns = [np.asarray(p, np.float64).reshape(-1) for p in parameters]
        with np.errstate(all="ignore"):
            accepted = _rejection(keys, count, columns, propose)
            return accepted.astype(dtype(parameters[0].dtype), copy=False).reshape(shape)[()]

    def batch(args: Any, batched: Any, size: int) -> Any:
        return primitive(*each_with_batch(args, batched, size))

    primitive = general(
        name,
        eval=eval,
        type=lambda key, *parameters: Type(parameters[0].shape, dtype(parameters[0].dtype)),
        batch=batch,
        cuts=True,
    )
    return primitive


def _integer(dtype: Any) -> Any:
    return np.dtype(np.int64)


# --- gamma ----------------------------------------------------------------------------------------


def _propose_log_gamma(words: Array, a: Array) -> tuple[Array, Array]:
    """Marsaglia and Tsang 2000; for a < 1, a sample of a + 1 times u^(1 / a), u uniform."""
    raised = a < 1.0
    d = np.where(raised, a + 1.0, a) - 1.0 / 3.0
    x = normal_of_bits.eval(words[:, 0])
    v = 1.0 + x / np.sqrt(9.0 * d)
    log_v = 3.0 * np.log(v)
    test = 0.5 * x * x + d * (1.0 - v * v * v + log_v)
    accepted = np.log(_uniform(words[:, 1])) < test
    out = np.log(d) + log_v
    if raised.any():
        boost = np.log(_uniform(words[:, 2])) / a
        out = np.where(raised, out + boost, out)
    wrong = ~(a > 0)
    out[wrong] = np.where(a[wrong] == 0, -np.inf, np.nan)
    return out, accepted | wrong


random_log_gamma: Primitive = _sampler("random_log_gamma", _propose_log_gamma, lambda dtype: dtype)
"""`random_log_gamma(key, a)`: the logarithms of gamma variables of the shapes a (floats), of the
same dtype; NaN where a is negative. Each round takes one normal and one uniform number."""

# --- Poisson --------------------------------------------------------------------------------------

_FEW = 10.0
_LONGEST = 128


def _inversion(u: Array, first: Array, ratio: Callable[[int, Any], Array]) -> Array:
    """The k at which the sum of probabilities, `first` and then times `ratio(k, active)`, is
    above u.
    """
    out = np.zeros(u.size)
    active = np.arange(u.size)
    term, total = first, first.copy()
    for k in range(1, _LONGEST):
        beyond = ~(u[active] < total)
        active, term, total = active[beyond], term[beyond], total[beyond]
        if not active.size:
            break
        out[active] = k
        term = term * ratio(k, active)
        total = total + term
    return out


def _propose_poisson(words: Array, rate: Array) -> tuple[Array, Array]:
    """Rates below 10 by inversion, others by transformed rejection with squeeze (Hoermann 1993,
    PTRS).
    """
    u = _uniform(words[:, 0])
    out = np.zeros(u.size)
    accepted = np.ones(u.size, np.bool_)
    few = np.flatnonzero(rate < _FEW)
    low = np.maximum(rate[few], 0.0)
    out[few] = _inversion(u[few], np.exp(-low), lambda k, active: low[active] / k)
    many = np.flatnonzero(rate >= _FEW)
    if many.size:
        mean, u, v = rate[many], u[many] - 0.5, _uniform(words[many, 1])
        b = 0.931 + 2.53 * np.sqrt(mean)
        a = -0.059 + 0.02483 * b
        inner = 0.5 - np.abs(u)
        k = np.floor((2.0 * a / inner + b) * u + mean + 0.43)
        scale = 1.1239 + 1.1328 / (b - 3.4)
        height = np.log(v * scale / (a / (inner * inner) + b))
        inside = k >= 0
        mass = k * np.log(mean) - mean - log_gamma(np.maximum(k, 0.0) + 1.0)
        quick = (inner >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2.0))
        slow = inside & ((inner >= 0.013) | (v <= inner)) & (height <= mass)
        out[many], accepted[many] = k, quick | slow
    wrong = ~((rate >= 0) & (rate <= 1e18))
    out[wrong] = -1.0
    return out, accepted | wrong


random_poisson: Primitive = _sampler("random_poisson", _propose_poisson, _integer)
"""`random_poisson(key, rate)`: Poisson variables as int64; -1 where the rate is negative, NaN, or
above 1e18."""

# --- binomial -------------------------------------------------------------------------------------


def _propose_binomial(words: Array, n: Array, p: Array) -> tuple[Array, Array]:
    """Expectations below 10 by inversion, others by Hoermann's BTRS (1993), for p <= 1/2."""
    flipped = p > 0.5
    low = np.where(flipped, 1.0 - p, p)
    u = _uniform(words[:, 0])
    out = np.zeros(u.size)
    accepted = np.ones(u.size, np.bool_)
    wrong = ~((n >= 0) & (n < 2.0**63) & (p >= 0) & (p <= 1))
    few = np.flatnonzero(~wrong & (n * low < _FEW))
    count, share = n[few], low[few]
    odds = share / (1.0 - share)
    first = np.exp(count * np.log1p(-share))
    out[few] = np.minimum(
        _inversion(u[few], first, lambda k, i: (count[i] - (k - 1)) / k * odds[i]), count
    )
    many = np.flatnonzero(~wrong & (n * low >= _FEW))
    if many.size:
        out[many], accepted[many] = _transformed(
            u[many], _uniform(words[many, 1]), n[many], low[many]
        )
    out = np.where(flipped, n - out, out)
    out[wrong] = -1.0
    return out, accepted | wrong


def _transformed(u: Array, v: Array, n: Array, p: Array) -> tuple[Array, Array]:
    deviation = np.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    u = u - 0.5
    inner = 0.5 - np.abs(u)
    k = np.floor((2.0 * a / inner + b) * u + n * p + 0.5)
    inside = (k >= 0) & (k <= n)
    at = np.clip(k, 0.0, n)
    mode = np.floor((n + 1.0) * p)
    height = np.log(v * (2.83 + 5.1 / b) * deviation / (a / (inner * inner) + b))
    mass = log_gamma(mode + 1.0) + log_gamma(n - mode + 1.0)
    mass = mass - log_gamma(at + 1.0) - log_gamma(n - at + 1.0)
    mass = mass + (at - mode) * np.log(p / (1.0 - p))
    quick = (inner >= 0.07) & (v <= 0.92 - 4.2 / b)
    return k, inside & (quick | (height <= mass))


random_binomial: Primitive = _sampler("random_binomial", _propose_binomial, _integer)
"""`random_binomial(key, n, p)`: the number of successes of n trials of probability p, as int64; -1
if n is negative, or p no probability. n and p are floats of one shape."""
