"""Answers: the plain values that Python's control flow needs from a traced value.

`if x > 0:` calls `bool`, `range(n)` calls `operator.index`. In a batch the answers of all examples
have to be equal, their values need not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
"""An answer."""
floor: Callable[[Any], int] = math.floor
ceil: Callable[[Any], int] = math.ceil


def whole(value: Any) -> Any:
    """The value itself as the answer, as for the positions of a mask."""
    return value


def key(answer: Any) -> Hashable:
    """A key that two answers share if and only if they are equal to the bit."""
    if type(answer) is bool:
        return answer
    if isinstance(answer, (np.ndarray, np.generic)):
        return answer.dtype.str, answer.shape, answer.tobytes()
    if isinstance(answer, Exception):
        return type(answer), str(answer)
    if isinstance(answer, tuple):
        return tuple(key(part) for part in answer)
    return type(answer), answer


def words(answer: Any) -> str:
    """An answer as text for messages; of a large one its first element."""
    if isinstance(answer, np.ndarray) and answer.size > 1:
        return f"an array that begins with {answer.flat[0]}" if answer.size > 8 else f"{answer}"
    return str(answer) if isinstance(answer, (np.ndarray, np.generic)) else repr(answer)
