"""Memory that traced values have left, and the trace of it in results.

An array that traced values were written into has memory that is no longer used. Compiled code may
read it nevertheless, by a pointer (PyArray_DATA), which nothing can intercept. So floats there are
NaNs with a payload of their own, which arithmetic hands on: results that have it were computed from
such memory. Integers have no such mark.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fungrad.tracing.trace import value_under

_PAYLOAD = 0x2D4F5
"""Of 22 bits, the most of a single NaN besides the quiet one."""
_MARKS: dict[int, tuple[Any, int, int]] = {
    4: (np.uint32, 0x7FC00000 | _PAYLOAD, 0x7FFFFFFF),
    8: (np.uint64, 0x7FF8 << 48 | _PAYLOAD << 29, 0x7FFFFFFF << 32 | 0xE0000000),
}
"""By the bytes of a float: the integer of its bits, the NaN as one, and the bits to compare, all
but the sign; casts between the two keep the payload.
"""


class Spoiled:
    """What this process has spoiled."""

    arrays = 0
    """How many arrays."""
    read = 0
    """How many there were when numbers of spoiled memory were last found in results."""


def spoil(array: np.ndarray[Any, Any]) -> None:
    """Overwrites an array, so that code that still reads its memory cannot get outdated numbers."""
    Spoiled.arrays += 1
    array[...] = _worst(array.dtype)


@functools.cache
def _worst(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The number that spoiled memory of a dtype is filled with: a NaN, the smallest integer."""
    worst = np.zeros((), dtype)
    if dtype.kind not in "fc":
        worst[()] = np.iinfo(dtype).min if dtype.kind == "i" else np.array(-1).astype(dtype)
        return worst
    for part in (worst, worst.imag) if dtype.kind == "c" else (worst,):
        real = part.real
        integer, mark, _ = _MARKS.get(real.itemsize, (None, 0, 0))
        real[()] = np.nan if integer is None else np.array(mark, integer).view(real.dtype)
    return worst


def is_suspect(value: Any, any_nan: bool = False) -> bool:
    """Whether numbers of a value, traced or not, were computed from floats of spoiled memory.

    Args:
      value: the value.
      any_nan: whether each NaN counts.
    """
    value = value_under(value)
    if isinstance(value, float) and value == value:  # the usual case
        return False
    if not isinstance(value, (np.ndarray, np.generic, float, complex)):
        return False
    numbers = np.atleast_1d(np.asarray(value))
    if numbers.dtype.kind == "c":
        return is_suspect(numbers.real, any_nan) or is_suspect(numbers.imag, any_nan)
    if numbers.dtype.kind != "f" or numbers.itemsize not in _MARKS:
        return False
    numbers = numbers[np.isnan(numbers)]
    integer, mark, mask = _MARKS[numbers.itemsize]
    return bool(numbers.size and (any_nan or np.any(numbers.view(integer) & integer(mask) == mark)))
