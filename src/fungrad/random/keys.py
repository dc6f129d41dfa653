"""Keys: made of a seed, split, folded. A key is an array of two words, u64[2].

Knows the streams of a key; knows no distribution.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.numpy.protocol.operands import sizes
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.random import philox
from fungrad.primitives.random.bits import random_bits
from fungrad.random.prepare import WORD, bits_of, checked
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer

_MASK = 2**64 - 1


def key(seed: Any) -> Any:
    """A key of a seed.

    Args:
      seed: an integer: of up to 128 bits, or traced. A negative one is read as two's complement.

    Returns:
      An array of two uint64: the low and the high word of the seed.

    Raises:
      ArgumentError: where the seed is no integer.

    >>> key(42)
    array([42,  0], dtype=uint64)
    """
    if type(seed) is Tracer or isinstance(seed, np.ndarray):
        if seed.shape or seed.dtype.kind not in "iub":
            raise ArgumentError(
                f"A seed has to be one integer, not an array of shape {seed.shape} and dtype "
                f"{seed.dtype}{user_line()}."
            )
        if type(seed) is Tracer:
            high = np.where(np.less(seed, 0), np.uint64(_MASK), np.uint64(0))
            return np.stack([cast(seed, WORD), high])
    try:
        number = operator.index(seed)
    except TypeError:
        raise ArgumentError(f"A seed has to be an integer, not {seed!r}{user_line()}.") from None
    if not -(2**127) <= number < 2**128:
        raise ArgumentError(f"A seed has at most 128 bits{user_line()}.")
    return np.array([number & _MASK, number >> 64 & _MASK], np.uint64)


PRNGKey = key
"""JAX's older name of `key`."""


def split(key: Any, num: Any = 2) -> Any:
    """New keys, whose streams have nothing in common with each other or with that of the key.

    Args:
      key: a key, not to be used again.
      num: how many; or the shape of the array of keys.

    Returns:
      Keys, of shape (num, 2).

    >>> one, two = split(key(0))
    >>> split(key(0), 5).shape
    (5, 2)
    """
    return bits_of(key, (*sizes(num), 2), WORD, philox.SPLIT)


def fold_in(key: Any, data: Any) -> Any:
    """A new key of a key and an integer, as the number of a step.

    Args:
      key: a key, which may be folded with other integers, but not used otherwise.
      data: an integer, traced or not, taken modulo 2^64.

    Returns:
      A key.

    Raises:
      ArgumentError: where `data` is not one integer.

    >>> keys = [fold_in(key(0), step) for step in range(3)]
    """
    kind = data.dtype.kind if hasattr(data, "dtype") else "i" if isinstance(data, int) else "O"
    if kind not in "iub" or np.shape(data):
        raise ArgumentError(
            f"fold_in takes one integer{user_line()}, not {data!r}. For several, map it: "
            "fg.vmap(fg.random.fold_in, in_axes=(None, 0))(key, data)."
        )
    word = cast(data, WORD) if type(data) is Tracer else np.uint64(int(data) & _MASK)
    return random_bits(checked(key), word, shape=(2,), dtype=WORD, purpose=philox.FOLD)


def key_data(keys: Any) -> Any:
    """The words of keys: the keys themselves, which are plain arrays.

    >>> key_data(key(7))
    array([7, 0], dtype=uint64)
    """
    return keys


def wrap_key_data(data: Any) -> Any:
    """Keys of their words, such as were saved.

    Args:
      data: integers; the last axis has length 2.

    Raises:
      ArgumentError: where they are none.

    >>> wrap_key_data([7, 0])
    array([7, 0], dtype=uint64)
    """
    found = data if type(data) is Tracer else np.asarray(data)
    if found.dtype.kind not in "iu" or found.shape[-1:] != (2,):
        raise ArgumentError(
            f"Keys are integers with a last axis of length 2, not an array of shape {found.shape} "
            f"and dtype {found.dtype}{user_line()}."
        )
    return cast(found, WORD)


def clone(key: Any) -> Any:
    """The key again, for those who mean to use it twice.

    >>> bool(np.all(clone(key(7)) == key(7)))
    True
    """
    return checked(key)


def bits(key: Any, shape: Any = (), dtype: Any = np.uint64) -> Any:
    """Random bits: unsigned integers, all equally likely.

    Args:
      key: a key. shape: of the result. dtype: uint64, uint32, uint16 or uint8.

    Raises:
      ArgumentError: where the dtype is another.

    >>> bits(key(0), (3,), np.uint8)
    array([155, 216, 228], dtype=uint8)
    """
    found = np.dtype(dtype)
    if found.kind != "u":
        raise ArgumentError(
            f"bits of dtype {found}{user_line()}: they are unsigned integers. Use "
            "fg.random.randint for others."
        )
    return bits_of(key, sizes(shape), found)


__all__ = ["PRNGKey", "bits", "clone", "fold_in", "key", "key_data", "split", "wrap_key_data"]
