"""What Python asks of a traced value, as a function of the plain value: its answer.

`if x > 0:` asks by `bool`, `range(n)` by `operator.index`. The answer, not the value, is what has
to be the same for all examples of a batch.
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
    """The answer of what needs the value itself, as the positions of a mask."""
    return value


def key(answer: Any) -> Hashable:
    """A key that two answers share if and only if they are the same, to the bit."""
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
    """An answer in a message: small ones only."""
    if isinstance(answer, np.ndarray) and answer.size > 1:
        return f"an array that begins with {answer.flat[0]}" if answer.size > 8 else f"{answer}"
    return str(answer) if isinstance(answer, (np.ndarray, np.generic)) else repr(answer)
