"""The JAX rule of `random_bits`: Philox 4x64, ten rounds, equal to NumPy's bit for bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jax import lax

from fungrad.engines.jax.elementwise import high_half, jnp, rule
from fungrad.primitives.random.bits import random_bits

MULTIPLIERS = (np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157))
STEPS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B))
"""Constants of Philox 4x64: Salmon, Moraes, Dror and Shaw, Parallel random numbers (2011)."""


def _philox(counter: Any, left: Any, right: Any) -> Any:
    a, b, c, d = counter
    for step in range(10):
        if step:
            left, right = left + STEPS[0], right + STEPS[1]
        a, b, c, d = (
            high_half(c, MULTIPLIERS[1]) ^ b ^ left, c * MULTIPLIERS[1],
            high_half(a, MULTIPLIERS[0]) ^ d ^ right, a * MULTIPLIERS[0],
        )  # fmt: skip
    return a, b, c, d


@rule(random_bits)
def _random_bits(key: Any, data: Any, *, shape: Any, dtype: Any, purpose: int) -> Any:
    lead = key.shape[:-1]
    size = math.prod(shape)
    count = -(-size * dtype.itemsize // 8)
    blocks = -(-count // 4)
    keys = key.reshape(-1, 2).astype(jnp.uint64)
    row = jnp.broadcast_to(data, lead).reshape(-1).astype(jnp.uint64)
    zero = jnp.zeros((keys.shape[0], blocks), jnp.uint64)
    block = jnp.arange(blocks, dtype=jnp.uint64) + np.uint64(1)
    counter = (zero + block, zero, zero + row[:, None], zero + np.uint64(purpose))
    words = jnp.stack(_philox(counter, zero + keys[:, :1], zero + keys[:, 1:]), -1)
    words = words.reshape(keys.shape[0], 4 * blocks)[:, :count]
    if dtype.itemsize < 8:
        words = lax.bitcast_convert_type(words, jnp.dtype(dtype)).reshape(keys.shape[0], -1)
    return words[:, :size].reshape((*lead, *shape)).astype(dtype)
