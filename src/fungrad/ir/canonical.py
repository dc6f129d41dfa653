"""Canonical dtypes and arrays: what all values that arrive from outside become.

NumPy has many dtype objects for numbers of one type: unpickled or copied ones, ones with metadata,
C's long long beside its long, the other byte order. Its ufuncs pass them on from operands to
results. Here only NumPy's own object of each type is used, in every Type, argument, buffer and
result: equal dtypes are one object, as native code and the checks `dtype is` assume.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from fungrad.errors import ArgumentError

NUMBERS: dict[int, np.dtype[Any]] = {
    np.dtype(char).num: np.dtype(np.dtype(char).str)
    for char in (*np.typecodes["AllInteger"], *np.typecodes["AllFloat"], "?")
}
"""The canonical dtypes of numbers, by NumPy's number of the type."""

DOUBLE = np.dtype(np.float64)
_KNOWN: dict[Any, np.dtype[Any]] = {
    key: dtype for dtype in NUMBERS.values() for key in (dtype, dtype.type, type(dtype))
}


def canonical_dtype(dtype: Any) -> np.dtype[Any]:
    """NumPy's own object of a dtype of numbers, in the machine's byte order, without metadata.

    Args:
      dtype: anything that np.dtype takes, or a class of dtypes, `type(a.dtype)`, as the functions
        of NumPy take them. Dtypes of other things than numbers stay as they are.

    >>> canonical_dtype(">f8") is np.dtype(np.float64)
    True
    """
    try:
        return _KNOWN[dtype]  # equal dtypes have equal hashes
    except (KeyError, TypeError):
        native: np.dtype[Any] = np.dtype(dtype)
        return NUMBERS.get(native.num, native)


def canonical(value: Any) -> Any:
    """An array or NumPy scalar of numbers with its canonical dtype, an array as a plain ndarray.

    It shares the memory of the argument if that has the machine's byte order. Values of all other
    kinds, and arrays whose class has its own arithmetic, are returned as they are.
    """
    kind = type(value)
    if kind is ndarray:
        array = value
    elif issubclass(kind, np.generic):
        wanted = NUMBERS.get(value.dtype.num, value.dtype)
        return value if wanted.type is kind else wanted.type(value)
    elif issubclass(kind, ndarray) and not own_arithmetic(value):
        array = value.view(ndarray)
    else:
        return value
    dtype = array.dtype
    wanted = NUMBERS.get(dtype.num, dtype)
    if wanted is dtype:
        return array
    return array.view(wanted) if dtype.isnative else array.astype(wanted)


def in_rows(array: ndarray) -> ndarray:
    """An array in C order in memory, and aligned; a copy if it is not."""
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else array.copy()


PLAIN_KINDS: set[type] = set()
"""Subclasses of ndarray that were declared to have NumPy's arithmetic, whatever they define."""


def own_arithmetic(array: ndarray) -> bool:
    """Whether an array's class has its own arithmetic (np.matrix)."""
    kind = type(array)
    return not (kind.__module__.startswith("fungrad.") or kind in PLAIN_KINDS) and (
        kind.__mul__ is not ndarray.__mul__ or kind.__array_ufunc__ is not ndarray.__array_ufunc__
    )


def refused_arithmetic(value: Any, line: str = "") -> ArgumentError:
    """The error for such an array, whose products would be others silently."""
    name = type(value).__name__
    return ArgumentError(
        f"A {name} was given to fungrad{line}. Its class has its own arithmetic, which derivatives "
        "and compiled programs would ignore. Take np.asarray(x)."
    )
