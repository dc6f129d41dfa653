"""`unbroadcast`, which clients' reverse rules use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.primitives.movement.reshape_broadcast_cast import sum_to
from fungrad.tracing.trace import registry, shape_of


def unbroadcast(x: Any, target_meta: Any, broadcast_idx: int = 0) -> Any:
    """The cotangent of an array from that of the broadcast array: sums over broadcast axes.

    Args:
      x: the cotangent.
      target_meta: the result of `autograd.numpy.metadata` for the array.
      broadcast_idx: the place of further axes of x: 0 before, -1 after those of the array.

    >>> unbroadcast(np.ones((2, 3)), ((3,), 1, np.dtype(float), False))
    array([2., 2., 2.])
    """
    shape, ndim, _, is_complex = target_meta
    x = registry.operand(x)
    extra = len(shape_of(x)) - ndim
    if broadcast_idx == -1 and extra > 0:
        x = np.sum(x, axis=tuple(range(ndim, ndim + extra)))
    if shape_of(x) != shape:
        x = sum_to(x, shape)
    return np.real(x) if x.dtype.kind == "c" and not is_complex else x


def unbroadcast_f(target: Any, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A reverse rule `f` followed by `unbroadcast` to the argument `target`.

    >>> unbroadcast_f(1.0, lambda g: 2.0 * g)(np.ones(3))
    np.float64(6.0)
    """
    shape = np.shape(target)
    real = not np.iscomplexobj(target)

    def pull(g: Any) -> Any:
        x = f(g)
        return unbroadcast(x, (shape, len(shape), None, not real))

    return pull


__all__ = ["unbroadcast", "unbroadcast_f"]
