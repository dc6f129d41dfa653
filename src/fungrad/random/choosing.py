"""Samples that are taken out of something: indices, permutations, choices.

Knows discrete probabilities, and no other distribution.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.numpy.indexing import take, take_along_axis
from fungrad.numpy.protocol.operands import array_of, axis_index, sizes
from fungrad.numpy.sorting import searchsorted
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.random.continuous import gumbel
from fungrad.random.discrete import randint
from fungrad.random.prepare import WORD, bits_of, fitting, parameter, uniforms
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of


def categorical(
    key: Any, logits: Any, axis: int = -1, shape: Any = None, replace: bool = True
) -> Any:
    """Indices along an axis, each with a probability proportional to exp of its logit.

    Args:
      key: a key. logits: an array; -inf for what cannot be. axis: that of the categories.
      shape: of the result: the shape of the logits without the axis, with others before it, over
        which samples are independent.
      replace: whether an index may be drawn again; if not, those of the axes before differ.

    Raises:
      ArgumentError: where more indices are wanted than there are.

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
      independent: whether each row along the axis gets an order of its own.

    >>> from fungrad import random
    >>> permutation(random.key(0), 5)
    array([0, 2, 1, 4, 3])
    """
    values = np.arange(x) if isinstance(x, (int, np.integer)) else array_of(x)
    shape = shape_of(values)
    if not shape:
        raise ArgumentError(
            f"permutation{user_line()} takes an array, or an integer that is known."
        )
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
      key: a key. a: an array, or an integer n for np.arange(n). shape: how many, in what shape.
      replace: whether one may be taken again. p: weights of the elements, which need not add up to
        1; equal ones where they are left out. axis: the axis.

    Raises:
      ArgumentError: where there are not as many elements.
      ShapeError: where p has not one weight for each.

    >>> from fungrad import random
    >>> choice(random.key(0), np.array([10.0, 20.0, 30.0]), (4,))
    array([10., 10., 10., 20.])
    """
    values = np.arange(a) if isinstance(a, (int, np.integer)) else array_of(a)
    axis = axis_index(axis, len(shape_of(values)))
    count = shape_of(values)[axis]
    wanted = sizes(shape)
    many = math.prod(wanted)
    if many and (not count or (not replace and many > count)):
        raise ArgumentError(
            f"choice{user_line()} cannot take {many} elements of {count}"
            f"{'' if replace else ' without replacement'}."
        )
    places = np.reshape(_places(key, count, many, replace, p), wanted)
    return take(values, places, axis=axis)


def _places(key: Any, count: int, many: int, replace: bool, p: Any) -> Any:
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
    found = searchsorted(total, uniforms(key, (many,), np.float64) * total[-1], side="right")
    return np.minimum(found, count - 1)


__all__ = ["categorical", "choice", "permutation"]
