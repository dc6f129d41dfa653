"""Keys, made from seeds and other keys; a key is an array of two words, u64[2].

Also checks of keys, shapes, dtypes and parameters, and the uniform and normal numbers from which
the distributions are computed.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.numpy.protocol.operands import array_of, sizes
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, cast
from fungrad.primitives.random import philox
from fungrad.primitives.random.bits import normal_of_bits, random_bits, uniform_of_bits
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, is_integer, shape_of, typeof

WORD = np.dtype(np.uint64)
_FLOATS: dict[str, np.dtype[Any]] = {"e": np.dtype(np.uint32), "f": np.dtype(np.uint32), "d": WORD}
"""The dtype of random bits for a number of each floating dtype."""
_HIGHEST = np.uint32(0xFFE00000)
_LOWEST: dict[np.dtype[Any], Any] = {
    WORD: np.uint64(1 << 11),
    np.dtype(np.uint32): np.uint32(1 << 8),
}


def checked(key: Any) -> Any:
    """A key, checked to be two words.

    Raises:
      ArgumentError: for a number, a generator, several keys, or another array.
    """
    if isinstance(key, (np.ndarray, Tracer)):
        if key.dtype == WORD and key.shape == (2,):
            return key
        if key.dtype == WORD and key.ndim > 1 and key.shape[-1] == 2:
            raise ArgumentError(
                f"An array of {key.shape[:-1]} keys was given in place of one{user_line()}. Take "
                "one of them, keys[i], or map the function over all: fg.vmap(f)(keys)."
            )
        raise ArgumentError(
            f"An array of type {typeof(key)} was given as a key{user_line()}. A key is u64[2]: "
            "make one by fg.random.key(seed)."
        )
    if is_integer(key):
        raise ArgumentError(
            f"The number {key} was given as a key{user_line()}. Make a key from it: "
            f"fg.random.key({key})."
        )
    raise ArgumentError(
        f"A {type(key).__name__} was given as a key{user_line()}. A key is made by "
        "fg.random.key(seed), and further ones by fg.random.split(key)."
    )


def floating(dtype: Any) -> np.dtype[Any]:
    """A dtype of random numbers: float64, float32 or float16.

    Raises:
      ArgumentError: for another dtype.
    """
    found: np.dtype[Any] = np.dtype(dtype)
    if found.char not in _FLOATS:
        raise ArgumentError(
            f"Random numbers of dtype {found}{user_line()}: they are float64, float32 or float16. "
            "Convert them afterwards, by x.astype(...), or use fg.random.randint for integers."
        )
    return found


def integral(dtype: Any) -> np.dtype[Any]:
    """A dtype of counts: integers, or floats that hold them.

    Raises:
      ArgumentError: for another dtype.
    """
    found: np.dtype[Any] = np.dtype(dtype)
    if found.kind not in "iuf":
        raise ArgumentError(f"Random integers of dtype {found}{user_line()}: take int or float.")
    return found


def parameter(value: Any, dtype: Any) -> Any:
    """A parameter of a distribution, as an array of the sample's dtype.

    Raises:
      ArgumentError: if it is complex.
    """
    array = array_of(value)
    if array.dtype.kind not in "fiub":
        raise ArgumentError(
            f"A parameter of a distribution has dtype {array.dtype}{user_line()}: it has to be "
            "real."
        )
    return cast(array, dtype)


def fitting(function: str, shape: Any, *parameters: Any) -> tuple[int, ...]:
    """The shape of a sample: the given one, or the broadcast shape of the parameters.

    Raises:
      ShapeError: if the parameters do not broadcast to the given shape.
    """
    shapes = [shape_of(p) for p in parameters]
    try:
        common = np.broadcast_shapes(*shapes)
        if shape is None:
            return common
        wanted = sizes(shape)
        if min(wanted, default=0) >= 0 and np.broadcast_shapes(wanted, common) == wanted:
            return wanted
    except ValueError:
        pass
    given = ", ".join(map(str, shapes))
    raise ShapeError(
        f"fg.random.{function}{user_line()} got shape={shape}, to which parameters of shapes "
        f"{given or '()'} do not broadcast. The shape is that of the whole result: leave it out to "
        "get one number for each element of the parameters."
    )


def spread(value: Any, shape: tuple[int, ...]) -> Any:
    """A parameter broadcast to the shape of the sample."""
    return value if shape_of(value) == shape else broadcast_to(value, shape=shape)


# --- streams --------------------------------------------------------------------------------------


def bits_of(key: Any, shape: tuple[int, ...], dtype: np.dtype[Any], purpose: int = 0) -> Any:
    """Unsigned integers from the stream of a key."""
    if min(shape, default=0) < 0:
        raise ShapeError(f"A sample of shape {shape}{user_line()}.")
    return random_bits(checked(key), 0, shape=shape, dtype=dtype, purpose=purpose)


def uniforms(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Uniform numbers in [0, 1): multiples of 2^-53, 2^-24 or 2^-11."""
    bits = bits_of(key, shape, _FLOATS[np.dtype(dtype).char], philox.BITS)
    if np.dtype(dtype).char == "e":  # 11 bits, so that none is rounded up to 1
        bits = np.bitwise_and(bits, _HIGHEST)
    return cast(uniform_of_bits(bits), dtype)


def open_uniforms(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Uniform numbers in (0, 1): odd multiples of 2^-53, or for float32 and float16 of 2^-24, in
    float32.
    """
    kind = _FLOATS[np.dtype(dtype).char]
    bits = bits_of(key, shape, kind, philox.BITS)
    return uniform_of_bits(np.bitwise_or(bits, _LOWEST[kind]))


def normals(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Standard normal numbers."""
    values = normal_of_bits(bits_of(key, shape, _FLOATS[np.dtype(dtype).char], philox.BITS))
    return cast(values, dtype)


_MASK = 2**64 - 1


def key(seed: Any) -> Any:
    """A key from a seed.

    Args:
      seed: an integer of up to 128 bits, or traced. A negative one means its two's complement.

    Returns:
      An array of two uint64: the low and the high word of the seed.

    Raises:
      ArgumentError: if the seed is not an integer.

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
    """New keys, with streams independent of each other and of that of the key.

    Args:
      key: a key, not to be used again.
      num: their number, or the shape of the array of keys.

    Returns:
      Keys, of shape (num, 2).

    >>> one, two = split(key(0))
    >>> split(key(0), 5).shape
    (5, 2)
    """
    return bits_of(key, (*sizes(num), 2), WORD, philox.SPLIT)


def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and an integer, such as the number of a step.

    Args:
      key: a key, which may be folded with other integers, but not used otherwise.
      data: an integer, traced or not, taken modulo 2^64.

    Returns:
      A key.

    Raises:
      ArgumentError: if `data` is not one integer.

    >>> keys = [fold_in(key(0), step) for step in range(3)]
    """
    kind = data.dtype.kind if hasattr(data, "dtype") else "i" if is_integer(data) else "O"
    if kind not in "iub" or np.shape(data):
        raise ArgumentError(
            f"fold_in takes one integer{user_line()}, not {data!r}. For several, map it: "
            "fg.vmap(fg.random.fold_in, in_axes=(None, 0))(key, data)."
        )
    word = cast(data, WORD) if type(data) is Tracer else np.uint64(int(data) & _MASK)
    return random_bits(checked(key), word, shape=(2,), dtype=WORD, purpose=philox.FOLD)


def key_data(keys: Any) -> Any:
    """The words of keys: the keys themselves, which are plain arrays.

    Args:
      keys: one key, or an array of them.

    >>> key_data(key(7))
    array([7, 0], dtype=uint64)
    """
    return keys


def wrap_key_data(data: Any) -> Any:
    """Keys from their words, as saved.

    Args:
      data: integers; the last axis has length 2.

    Raises:
      ArgumentError: for other arrays.

    >>> wrap_key_data([7, 0])
    array([7, 0], dtype=uint64)
    """
    words = data if type(data) is Tracer else np.asarray(data)
    if words.dtype.kind not in "iu" or words.shape[-1:] != (2,):
        raise ArgumentError(
            f"Keys are integers with a last axis of length 2, not an array of shape {words.shape} "
            f"and dtype {words.dtype}{user_line()}."
        )
    return cast(words, WORD)


def clone(key: Any) -> Any:
    """The key unchanged, to mark an intended second use.

    Args:
      key: a key.

    >>> bool(np.all(clone(key(7)) == key(7)))
    True
    """
    return checked(key)


def bits(key: Any, shape: Any = (), dtype: Any = np.uint64) -> Any:
    """Random bits: unsigned integers, all equally likely.

    Args:
      key: a key. shape: of the result. dtype: uint64, uint32, uint16 or uint8.

    Raises:
      ArgumentError: for another dtype.

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
