"""Samples that are integers or booleans, without derivatives: counts, indices, permutations,
choices.

Where a parameter is invalid, a count is -1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.numpy.indexing import take, take_along_axis
from fungrad.numpy.protocol.operands import array_of, axis_index, sizes
from fungrad.numpy.sorting import searchsorted
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.random.bits import high_product
from fungrad.primitives.random.rejection import random_binomial, random_poisson
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.random.continuous import gumbel
from fungrad.random.keys import (
    WORD,
    bits_of,
    checked,
    fitting,
    integral,
    open_uniforms,
    parameter,
    split,
    spread,
    uniforms,
)
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, is_integer, shape_of


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = np.int64) -> Any:
    """Integers, at least minval and less than maxval, all equally likely (to 2^-64).

    Args:
      key: a key. shape: of the result. minval, maxval: integers or arrays that broadcast to the
        shape. dtype: an integer one that holds them.

    Raises:
      ArgumentError: if they are not integers, do not fit the dtype, or leave no integer between
        them (if known; for traced ones the result is minval then).

    >>> from fungrad import random
    >>> randint(random.key(0), (4,), 0, 10)
    array([0, 2, 1, 5])
    """
    found = np.dtype(dtype)
    low, high = array_of(minval), array_of(maxval)
    if found.kind not in "iu" or low.dtype.kind not in "iub" or high.dtype.kind not in "iub":
        raise ArgumentError(
            f"randint between {low.dtype} and {high.dtype} numbers, of dtype {found}{user_line()}: "
            "all three have to be integers."
        )
    if type(low) is not Tracer and type(high) is not Tracer:
        _check_range(low, high, found)
    shape = fitting("randint", shape, low, high)
    # Modulo 2^64, so that differences are right for all integers; NumPy's scalars would warn.
    start, end = (cast(np.reshape(v, shape_of(v) or (1,)), WORD) for v in (low, high))
    span = np.maximum(end - start, np.uint64(1))
    offset = high_product(bits_of(key, shape or (1,), WORD), span)
    return np.reshape(cast(start + offset, found), shape)[()]


def _check_range(low: Any, high: Any, dtype: np.dtype[Any]) -> None:
    limits = np.iinfo(dtype)
    if np.any(low >= high):
        raise ArgumentError(f"randint{user_line()}: no integer is at least {low} and below {high}.")
    if np.any(low < limits.min) or np.any(high - 1 > limits.max):
        raise ArgumentError(f"randint{user_line()}: {low} to {high} do not fit into {dtype}.")


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Any:
    """Booleans that are true with probability p.

    Args:
      key: a key. p: a number or an array. shape: of the result, by default that of p.

    >>> from fungrad import random
    >>> bernoulli(random.key(0), 0.5, (4,))
    array([ True,  True,  True, False])
    """
    share = stop_gradient(parameter(p, np.float64))
    shape = fitting("bernoulli", shape, share)
    return np.less(uniforms(key, shape, np.float64), share)


def rademacher(key: Any, shape: Any = (), dtype: Any = np.int64) -> Any:
    """1 and -1, equally likely.

    Args:
      key: a key. shape: of the result. dtype: of the numbers.

    >>> from fungrad import random
    >>> rademacher(random.key(0), (4,))
    array([ 1,  1,  1, -1])
    """
    type_ = integral(dtype)
    positive = np.less(bits_of(key, sizes(shape), WORD), np.uint64(1 << 63))
    return cast(np.where(positive, 1, -1), type_)


def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = np.int64) -> Any:
    """Poisson counts of mean lam. Below 10 by inversion, above by rejection (Hoermann 1993).

    Args:
      key: a key. lam: a number or an array; the count is -1 where it is negative. shape: of the
        result, by default that of lam. dtype: of the counts.

    >>> from fungrad import random
    >>> poisson(random.key(0), 3.0, (4,))
    array([0, 3, 2, 3])
    """
    type_ = integral(dtype)
    rate = stop_gradient(parameter(lam, np.float64))
    rate = spread(rate, fitting("poisson", shape, rate))
    return cast(random_poisson(checked(key), rate), type_)


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = np.int64) -> Any:
    """Numbers of successes in n trials of probability p. Inversion, and BTRS (Hoermann 1993).

    Args:
      key: a key. n: integers, a number or an array. p: a number or an array. shape: of the result,
        by default the broadcast shape of n and p. dtype: of the counts; JAX's are floats.

    Returns:
      The counts; -1 where p is not a probability, or n not within 0 ... 2**63 - 1.

    >>> from fungrad import random
    >>> binomial(random.key(0), 10, 0.5, (4,))
    array([2, 5, 4, 5])
    """
    type_ = integral(dtype)
    trials, share = (stop_gradient(parameter(v, np.float64)) for v in (n, p))
    shape = fitting("binomial", shape, trials, share)
    counts = random_binomial(checked(key), spread(trials, shape), spread(share, shape))
    return cast(counts, type_)


def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = np.int64) -> Any:
    """Numbers of trials of probability p until the first success, 1 or more.

    Args:
      key: a key. p: a number or an array. shape: of the result, by default that of p. dtype: of the
        counts.

    >>> from fungrad import random
    >>> geometric(random.key(0), 0.5, (4,))
    array([7, 3, 4, 1])
    """
    type_ = integral(dtype)
    share = stop_gradient(parameter(p, np.float64))
    shape = fitting("geometric", shape, share)
    possible = np.logical_and(np.greater(share, 0), np.less_equal(share, 1))
    uncertain = np.logical_and(possible, np.less(share, 1))
    rate = -np.log1p(-np.where(uncertain, share, 0.5))
    waits = np.floor(-np.log(open_uniforms(key, shape, np.float64)) / rate)
    waits = np.where(uncertain, np.minimum(waits, 2.0**62), 0.0)
    return cast(np.where(possible, waits + 1.0, -1.0), type_)


def multinomial(key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = np.int64) -> Any:
    """The numbers of n trials that fall into each category.

    Args:
      key: a key. n: integers, a number or an array. p: the probabilities, along the last axis; they
        are divided by their sum. shape: of the result, with its last axis. dtype: of the counts;
        JAX's are floats.

    Raises:
      ArgumentError: if p is a number.

    >>> from fungrad import random
    >>> int(multinomial(random.key(0), 100, np.array([0.2, 0.3, 0.5])).sum())
    100
    """
    type_ = integral(dtype)
    trials, shares = (stop_gradient(parameter(v, np.float64)) for v in (n, p))
    if not shape_of(shares):
        raise ArgumentError(f"The p of a multinomial distribution is a vector{user_line()}.")
    categories = shape_of(shares)[-1]
    lead = None if shape is None else sizes(shape)[:-1]
    lead = fitting("multinomial", lead, trials, shares[..., 0])
    left = spread(trials, lead)
    rest = np.flip(np.cumsum(np.flip(shares, -1), axis=-1), -1)
    keys = split(key, categories)
    counts = []
    for i in range(categories - 1):
        share = np.clip(shares[..., i] / np.where(rest[..., i] > 0, rest[..., i], 1.0), 0.0, 1.0)
        drawn = random_binomial(keys[i], left, spread(share, lead))
        counts.append(drawn)
        left = left - drawn
    return cast(np.stack([*[cast(c, np.float64) for c in counts], left], axis=-1), type_)


def categorical(
    key: Any, logits: Any, axis: int = -1, shape: Any = None, replace: bool = True
) -> Any:
    """Indices along an axis, each with a probability proportional to exp of its logit.

    Args:
      key: a key. logits: an array; -inf for impossible categories. axis: that of the categories.
      shape: of the result: the shape of the logits without the axis, after further axes of
        independent samples.
      replace: whether an index may be drawn again; if not, indices differ along the further axes.

    Raises:
      ArgumentError: if there are fewer indices than samples without replacement.

    >>> from fungrad import random
    >>> categorical(random.key(0), np.log(np.array([0.1, 0.9])), shape=(5,))
    array([1, 1, 1, 1, 1])
    """
    values = stop_gradient(parameter(logits, np.float64))
    axis = axis_index(axis, len(shape_of(values)))
    values = np.moveaxis(values, axis, -1)
    batch, count = shape_of(values)[:-1], shape_of(values)[-1]
    if not count:
        raise ArgumentError(f"categorical{user_line()} was given no categories.")
    wanted = fitting("categorical", shape, np.empty(batch))
    before = wanted[: len(wanted) - len(batch)]
    if replace:
        noise = gumbel(key, (*wanted, count))
        return np.argmax(noise + values, axis=-1)
    many = math.prod(before)
    if many > count:
        raise ArgumentError(
            f"categorical{user_line()} cannot draw {many} different indices of {count}."
        )
    full = wanted[len(before) :]
    order = np.argsort(-(gumbel(key, (*full, count)) + values), axis=-1, kind="stable")
    return np.reshape(np.moveaxis(order[..., :many], -1, 0), wanted)


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """The elements along an axis in a random order, all orders equally likely.

    Args:
      key: a key. x: an array, or an integer n for np.arange(n). axis: the axis.
      independent: whether each row along the axis gets its own order.

    >>> from fungrad import random
    >>> permutation(random.key(0), 5)
    array([0, 2, 1, 4, 3])
    """
    values = np.arange(x) if is_integer(x) else array_of(x)
    shape = shape_of(values)
    if not shape:
        raise ArgumentError(f"permutation{user_line()} takes an array, or a known integer.")
    axis = axis_index(axis, len(shape))
    if independent:
        order = np.argsort(bits_of(key, shape, WORD), axis=axis)
        return take_along_axis(values, order, axis)
    order = np.argsort(bits_of(key, (shape[axis],), WORD))
    return take(values, order, axis=axis)


def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0
) -> Any:
    """Elements along an axis of an array, at random.

    Args:
      key: a key. a: an array, or an integer n for np.arange(n). shape: the shape of the sample.
      replace: whether an element may be taken again. p: weights of the elements, which need not add
        up to 1; by default equal. axis: the axis.

    Raises:
      ArgumentError: if there are not enough elements.
      ShapeError: if p does not have one weight for each.

    >>> from fungrad import random
    >>> choice(random.key(0), np.array([10.0, 20.0, 30.0]), (4,))
    array([10., 10., 10., 20.])
    """
    values = np.arange(a) if is_integer(a) else array_of(a)
    axis = axis_index(axis, len(shape_of(values)))
    count = shape_of(values)[axis]
    wanted = sizes(shape)
    many = math.prod(wanted)
    if many and (not count or (not replace and many > count)):
        raise ArgumentError(
            f"choice{user_line()} cannot take {many} elements of {count}"
            f"{'' if replace else ' without replacement'}."
        )
    indices = np.reshape(_indices(key, count, many, replace, p), wanted)
    return take(values, indices, axis=axis)


def _indices(key: Any, count: int, many: int, replace: bool, p: Any) -> Any:
    if p is None:
        return (
            randint(key, (many,), 0, max(count, 1)) if replace else permutation(key, count)[:many]
        )
    weights = stop_gradient(parameter(p, np.float64))
    if shape_of(weights) != (count,):
        raise ShapeError(
            f"choice{user_line()} was given weights of shape {shape_of(weights)} for {count} "
            "elements."
        )
    if not replace:
        with np.errstate(divide="ignore"):
            return np.argsort(-(gumbel(key, (count,)) + np.log(weights)), kind="stable")[:many]
    total = np.cumsum(weights)
    ranks = searchsorted(total, uniforms(key, (many,), np.float64) * total[-1], side="right")
    return np.minimum(ranks, count - 1)


__all__ = [
    "bernoulli", "binomial", "categorical", "choice", "geometric", "multinomial", "permutation",
    "poisson", "rademacher", "randint",
]  # fmt: skip
