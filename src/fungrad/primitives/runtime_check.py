"""`checked`, a value with a condition on its elements.

NumPy raises if an index is out of range or edges do not ascend. If only the types of values are
known, the same check is an equation of the Graph, and raises when the program runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.reshape_broadcast_cast import with_batch
from fungrad.primitives.primitive import Primitive, linear

_ERRORS = {error.__name__: error for error in (ValueError, IndexError)}


def _eval_checked(x: Any, holds: Any, *, message: str, error: str = "ValueError") -> Any:
    if not np.all(holds):
        failed = np.asarray(x)[~np.asarray(holds)] if np.shape(x) == np.shape(holds) else x
        raise _ERRORS[error](message.format(np.ravel(failed)[0] if np.size(failed) else ""))
    return x


checked: Primitive = linear(
    "checked",
    cost=0,
    eval=_eval_checked,
    type=lambda x, holds, **params: x,
    transpose=lambda ct, x, holds, **params: ct,
    batch=lambda args, batched, size, **params: checked(
        with_batch(args[0], batched[0], size), args[1], **params
    ),
    arguments=(0,),
    moves=True,
)
"""`checked(x, holds, message=, error="ValueError")`: x itself, if `holds` is true everywhere.

Else it raises the error, a ValueError or an IndexError, with the message, in which {} is replaced
by the first element of x at which `holds`, of the shape of x, is false.
"""


def in_range(x: Any, length: int, message: str) -> Any:
    """Integers, checked to be in 0 ... length - 1."""
    return checked(x, np.logical_and(x >= 0, x < length), message=message)


def index_on(i: Any, length: int, axis: int, end: int) -> Any:
    """Integers, negative ones counted from the end of an axis, checked, as 0 ... end - 1."""
    i = checked(
        i,
        np.logical_and(i >= -length, i < end),
        message=f"index {{}} is out of bounds for axis {axis} with size {length}",
        error="IndexError",
    )
    return select(i < 0, i + length, i)
