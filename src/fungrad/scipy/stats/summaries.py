"""Functions of samples of scipy.stats: entropy, mode, rankdata and sem.

Ranks have the derivative 0, on purpose; that of a mode is shared by the elements that are equal to
it. Outside of transforms these are SciPy's own.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.host.external import pure_callback
from fungrad.ir.types import Type
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.optional import scipy_module
from fungrad.scipy.special.entropy import entr, rel_entr
from fungrad.scipy.stats.family import floating
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import EVAL, current, typeof


class ModeResult(NamedTuple):
    """What `mode` gives: the most common values, and how often they occur."""

    mode: Any
    count: Any


def _only_propagate(function: str, nan_policy: str) -> None:
    if nan_policy != "propagate":
        raise ArgumentError(
            f"scipy.stats.{function}(nan_policy={nan_policy!r}) was called on a traced "
            f"value{user_line()}, whose NaN are not known. Take them out before, and leave "
            "nan_policy at 'propagate'."
        )


def _last(a: Any, axis: int | None) -> Any:
    """The array with an axis last; all of it as a vector for None."""
    return np.reshape(a, (-1,)) if axis is None else np.moveaxis(a, axis, -1)


def _entropy(values: list[Any], axis: int, keepdims: bool) -> Any:
    """Of numbers that are divided by their sum first as a constant, and then by the sum of these,
    after the logarithm: a number that is 0 has an infinite derivative alone.
    """
    shares = [v / stop_gradient(np.sum(v, axis=axis, keepdims=True)) for v in values]
    sums = [np.sum(share, axis=axis, keepdims=keepdims) for share in shares]
    terms = entr(*shares) if len(shares) == 1 else rel_entr(*shares)
    total = np.sum(terms, axis=axis, keepdims=keepdims) / sums[0]
    if len(shares) == 1:
        return total + np.log(sums[0])
    return total + np.log(sums[1]) - np.log(sums[0])


def entropy(
    pk: Any,
    qk: Any = None,
    base: float | None = None,
    axis: int | None = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """The entropy of probabilities pk, or relative to qk, as scipy.stats.entropy.

    Args:
      pk, qk: numbers that are made to sum to 1 along the axis.
      base: of the logarithm; e if None.
      axis: the axis; all elements for None.
      nan_policy: "propagate", on traced values.
      keepdims: whether the axis is kept, with the length 1.

    >>> import fungrad as fg
    >>> fg.grad(entropy)(np.array([1.0, 1.0]))
    array([0., 0.])
    """
    if base is not None and base <= 0:
        raise ValueError("`base` must be a positive number or `None`.")
    if current() is EVAL:
        return scipy_module("scipy.stats").entropy(
            pk, qk, base, axis, nan_policy=nan_policy, keepdims=keepdims
        )
    _only_propagate("entropy", nan_policy)
    values = floating("entropy", pk, *(() if qk is None else (qk,)))
    if axis is None:
        values = [np.reshape(v, (-1,)) for v in values]
    with np.errstate(all="ignore"):
        total = _entropy(values, axis or 0, keepdims)
    if keepdims and axis is None:
        total = np.reshape(total, (1,) * len(np.shape(pk)))
    return total if base is None else total / math.log(base)


def sem(
    a: Any,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """The standard error of the mean, as scipy.stats.sem.

    Args:
      a: real numbers.
      axis: the axis; all elements for None.
      ddof: what is taken from the number of elements in the divisor of the variance.
      nan_policy: "propagate", on traced values.
      keepdims: whether the axis is kept, with the length 1.

    >>> float(sem(np.array([1.0, 3.0])))
    1.0
    """
    if current() is EVAL:
        return scipy_module("scipy.stats").sem(
            a, axis, ddof, nan_policy=nan_policy, keepdims=keepdims
        )
    _only_propagate("sem", nan_policy)
    (a,) = floating("sem", a)
    count = math.prod(a.shape) if axis is None else a.shape[axis]
    return np.std(a, axis=axis, ddof=ddof, keepdims=keepdims) / math.sqrt(count)


def rankdata(
    a: Any,
    method: str = "average",
    *,
    axis: int | None = None,
    nan_policy: str = "propagate",
) -> Any:
    """The ranks of elements, as scipy.stats.rankdata; their derivative is 0, on purpose.

    Args:
      a: real numbers.
      method: what equal elements get: "average", "min", "max", "dense" or "ordinal".
      axis: the axis along which they are ranked; all elements, as a vector, for None.
      nan_policy: "propagate", on traced values.

    >>> rankdata(np.array([3.0, 1.0, 1.0]))
    array([3. , 1.5, 1.5])
    """
    ranks = scipy_module("scipy.stats").rankdata
    if current() is EVAL:
        return ranks(a, method, axis=axis, nan_policy=nan_policy)
    _only_propagate("rankdata", nan_policy)
    last = _last(stop_gradient(array_of(a)), axis)
    dtype = ranks(np.zeros(1), method).dtype

    def along_last(x: Any) -> Any:
        return np.asarray(ranks(x, method, axis=-1), dtype)

    found = pure_callback(along_last, Type(last.shape, dtype), last, vectorized=True)
    return found if axis is None else np.moveaxis(found, -1, axis)


def mode(
    a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> Any:
    """The most common value along an axis (of several, the least), as scipy.stats.mode.

    Args:
      a: numbers.
      axis: the axis; all elements for None.
      nan_policy: "propagate", on traced values.
      keepdims: whether the axis is kept, with the length 1.

    Returns:
      (mode, count); the derivative of the mode is shared by the elements that are equal to it.

    >>> float(mode(np.array([1.0, 2.0, 2.0])).mode)
    2.0
    """
    modes = scipy_module("scipy.stats").mode
    if current() is EVAL:
        return modes(a, axis, nan_policy=nan_policy, keepdims=keepdims)
    _only_propagate("mode", nan_policy)
    a = array_of(a)
    last = _last(a, axis)
    shape = last.shape[:-1]
    if not last.shape[-1]:  # nothing to count: NaN, whatever the dtype
        return modes(np.empty(a.shape, a.dtype), axis, keepdims=keepdims)

    def along_last(x: Any) -> Any:
        found = modes(x, axis=-1)
        return np.asarray(found.mode, x.dtype), np.asarray(found.count, np.int64)

    types = (Type(shape, typeof(last).dtype), Type(shape, np.dtype(np.int64)))
    value, count = pure_callback(along_last, types, stop_gradient(last), vectorized=True)
    if a.dtype.kind == "f":
        where = stop_gradient(last) == value[..., np.newaxis]
        moved = np.sum(select(where, last - value[..., np.newaxis], 0.0), axis=-1)
        value = value + moved / cast(np.maximum(count, 1), a.dtype)
    if keepdims:
        kept = tuple(1 if axis is None or i == axis % a.ndim else n for i, n in enumerate(a.shape))
        value, count = np.reshape(value, kept), np.reshape(count, kept)
    return ModeResult(value, count)
