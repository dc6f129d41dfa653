"""`bitcast`, the bits of numbers read as numbers of another dtype. Knows `declare`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.primitive import Primitive, general


def _eval_bitcast(x: Any, *, dtype: Any) -> Any:
    return np.ascontiguousarray(x).reshape(np.shape(x)).view(dtype)[()]


def _type_bitcast(x: Type, *, dtype: Any) -> Type:
    return Type(np.empty(x.shape, x.dtype).view(dtype).shape, dtype)


bitcast: Primitive = general(
    "bitcast",
    cost=0,
    eval=_eval_bitcast,
    type=_type_bitcast,
    batch=lambda args, batched, size, *, dtype: bitcast(args[0], dtype=dtype),
    cuts=True,
)
"""`bitcast(x, dtype=)`: the bits of x, in C order, read in another dtype, as ndarray.view; the last
axis is so much longer or shorter. It has no derivative.
"""

__all__ = ["bitcast"]
