"""The random words of a key: Philox4x64 of 10 rounds, with a counter.

Word 4 i + j of a stream is output j of the block whose counter is (i + 1, round, data, purpose).
One key's stream comes from NumPy's bit generator, whose output NumPy promises not to change; short
streams of many keys are computed by NumPy's arithmetic, and are the same (Salmon, Moraes, Dror and
Shaw 2011, Parallel random numbers: as easy as 1, 2, 3).
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BITS, SPLIT, FOLD = 0, 1, 2
"""The purpose of a stream: a word of the counter, so that streams do not overlap."""
_MULTIPLIERS = (np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157))
_WEYL = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B))
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_BLOCK = 8192
_SHORT = 64
"""The longest streams, in words, of which many are computed together."""


class _Local(threading.local):
    """The bit generator of a thread; setting its state is cheaper than making one."""

    def __init__(self) -> None:
        self.generator = np.random.Philox(key=0)
        self.state: Any = self.generator.state


_local = _Local()


def stream(key: Array, data: int, purpose: int, count: int, block: int = 0) -> Array:
    """The first words of the stream of one key, from a block on."""
    inner = _local.state["state"]
    inner["key"] = key
    inner["counter"] = np.array([block, 0, data, purpose], np.uint64)
    _local.generator.state = _local.state
    words: Array = _local.generator.random_raw(count)
    return words


def streams(keys: Array, data: Array, purpose: int, count: int) -> Array:
    """The first words of the streams of many keys, one row for each.

    Args:
      keys: two words for each key. data: a word for each key.
    """
    size = len(keys)
    if size == 1:
        return stream(keys[0], int(data[0]), purpose, count)[None]
    if size < 8 or count > _SHORT:
        rows = np.empty((size, count), np.uint64)
        for row, key, word in zip(rows, keys, data, strict=True):
            row[:] = stream(key, int(word), purpose, count)
        return rows
    blocks = -(-count // 4)
    index = np.tile(np.arange(blocks, dtype=np.uint64), size)
    bits = words(np.repeat(keys, blocks, axis=0), index, 0, purpose, data=np.repeat(data, blocks))
    return bits.reshape(size, 4 * blocks)[:, :count]


def words(keys: Array, index: Array, round: int, purpose: int, data: Array | int = 0) -> Array:
    """The four words of block `index[i]` of the key `keys[i]`, one row for each."""
    size = len(index)
    data = np.broadcast_to(np.asarray(data, np.uint64), (size,))
    out = np.empty((size, 4), np.uint64)
    for start in range(0, size, _BLOCK):
        part = slice(start, start + _BLOCK)
        counter = [
            index[part] + np.uint64(1),
            np.full(len(index[part]), round, np.uint64),
            data[part],
            np.full(len(index[part]), purpose, np.uint64),
        ]
        out[part] = np.stack(_philox(counter, keys[part, 0], keys[part, 1]), axis=1)
    return out


def _philox(counter: list[Array], left: Array, right: Array) -> list[Array]:
    """The block cipher on four words, with the keys left and right."""
    a, b, c, d = counter
    for step in range(_ROUNDS):
        if step:
            left, right = left + _WEYL[0], right + _WEYL[1]
        high_a = high_product(a, _MULTIPLIERS[0])
        high_c = high_product(c, _MULTIPLIERS[1])
        a, b, c, d = (
            high_c ^ b ^ left,
            c * _MULTIPLIERS[1],
            high_a ^ d ^ right,
            a * _MULTIPLIERS[0],
        )
    return [a, b, c, d]


def high_product(x: Any, y: Any) -> Any:
    """The upper 64 bits of the product of words."""
    x_low, x_high = x & _LOW, x >> _HALF
    y_low, y_high = y & _LOW, y >> _HALF
    cross = x_high * y_low + (x_low * y_low >> _HALF)
    other = x_low * y_high + (cross & _LOW)
    return x_high * y_high + (cross >> _HALF) + (other >> _HALF)
