"""Floor 3: `checked`, a value that stands under a condition on values.

NumPy raises where an index is out of range or edges do not ascend. Where values are only known as
types the same check is an equation of the Graph, and raises when the program runs. Knows `declare`
and indexing's `with_batch`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.primitives.declare import Primitive, linear
from fungrad.primitives.indexing import with_batch


def _eval_checked(x: Any, holds: Any, *, message: str) -> Any:
    if not np.all(holds):
        found = np.asarray(x)[~np.asarray(holds)] if np.shape(x) == np.shape(holds) else x
        raise ValueError(message.format(np.ravel(found)[0] if np.size(found) else ""))
    return x


checked: Primitive = linear(
    "checked",
    eval=_eval_checked,
    type=lambda x, holds, *, message: x,
    transpose=lambda ct, x, holds, *, message: ct,
    batch=lambda args, batched, size, *, message: checked(
        with_batch(args[0], batched[0], size), args[1], message=message
    ),
    arguments=(0,),
    moves=True,
)
"""`checked(x, holds, message=)`: x itself, where `holds` is true everywhere.

Else it raises ValueError with the message, in which {} stands for the first element of x at which
`holds`, of the shape of x, is false.
"""


def in_range(x: Any, length: int, message: str) -> Any:
    """Integers, all of them in 0 ... length - 1."""
    return checked(x, np.logical_and(x >= 0, x < length), message=message)


__all__ = ["checked", "in_range"]
