"""JAX's selections and sorts: select, clamp, top_k, sort."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.numpy.protocol.implements import as_array
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.elementwise import family
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.sort import argsort
from fungrad.primitives.sort import sort as sort_primitive
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of, typeof


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """The elements of on_true where pred holds, else of on_false; pred has their shape or ().

    Args:
      pred: booleans.
      on_true, on_false: arrays of one shape and dtype.

    >>> import numpy as np
    >>> select(np.array([True, False]), np.zeros(2), np.ones(2))
    array([0., 1.])
    """
    pred, on_true, on_false = as_array(pred), as_array(on_true), as_array(on_false)
    if shape_of(on_true) != shape_of(on_false) or shape_of(pred) not in ((), shape_of(on_true)):
        raise ShapeError(
            "lax.select takes two arrays of one shape and a predicate of that shape or "
            f"(){user_line()}, not {typeof(pred)}, {typeof(on_true)} and {typeof(on_false)}; "
            "np.where broadcasts."
        )
    return family.select(pred, on_true, on_false)


def select_n(which: Any, *cases: Any) -> Any:
    """The elements of the case number `which`: False and True, or 0, 1, 2, ...

    Args:
      which: booleans (for two cases) or integers, of the shape of the cases or ().
      cases: arrays of one shape.

    >>> select_n(np.array([0, 2, 1]), np.zeros(3), np.ones(3), np.full(3, 2.0))
    array([0., 2., 1.])
    """
    arrays = [array_of(case) for case in cases]
    which = array_of(which)
    shapes = {shape_of(case) for case in arrays}
    if len(shapes) != 1 or shape_of(which) not in ((), *shapes):
        raise ShapeError(
            f"lax.select_n takes cases of one shape, and which of that shape or (){user_line()}, "
            f"not {sorted(shapes)} and {shape_of(which)}."
        )
    if which.dtype == np.bool_ and len(arrays) > 2:
        raise ArgumentError(f"Booleans choose between two cases, not {len(arrays)}{user_line()}.")
    result = arrays[0]
    for i, case in enumerate(arrays[1:], 1):
        result = np.where(which >= i, case, result)
    return result


def clamp(min: Any, x: Any, max: Any) -> Any:
    """x limited to [min, max]; at a bound x and the bound share the derivative equally.

    Args:
      min: the lower bounds, a number or of the shape of x.
      x: a real array or number.
      max: the upper bounds, a number or of the shape of x.

    >>> clamp(0.0, np.array([-1.0, 0.5, 2.0]), 1.0)
    array([0. , 0.5, 1. ])
    """
    return np.minimum(np.maximum(array_of(x), min), max)


def top_k(operand: Any, k: int) -> tuple[Any, Any]:
    """The k largest elements along the last axis in descending order, and their indices.

    Equal elements stay in their order, and share the derivative as in `sort`, also with those equal
    to the last one that are not taken.

    Args:
      operand: a real array with at least one axis.
      k: the number of elements to take, at most the length of the last axis.

    >>> values, indices = top_k(np.array([1.0, 3.0, 2.0]), 2)
    >>> values, indices
    (array([3., 2.]), array([1, 2]))
    """
    x = array_of(operand)
    shape = shape_of(x)
    if not shape or not 0 <= k <= shape[-1]:
        raise ArgumentError(f"top_k of {k} elements of an array of shape {shape}{user_line()}.")
    axis = len(shape) - 1
    n = shape[-1]

    def last(y: Any) -> Any:
        return s.flip(s.slice_axis(y, axis=axis, start=n - k, stop=n), axes=(axis,))

    turned = argsort(s.flip(x, axes=(axis,)), axis=axis, kind="stable")
    return last(sort_primitive(x, axis=axis)), n - 1 - last(turned)


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """The elements in ascending order along an axis; several arrays in the order of the first.

    Args:
      operand: an array, or a sequence of arrays of one shape, which are sorted together.
      dimension: the axis. is_stable: whether equal elements keep their order (with several arrays
        they always do). num_keys: the number of leading arrays that are sort keys.

    >>> sort((np.array([2, 1]), np.array([5.0, 6.0])))
    (array([1, 2]), array([6., 5.]))
    """
    if not isinstance(operand, (tuple, list)):
        return np.sort(array_of(operand), axis=dimension)
    arrays = [array_of(x) for x in operand]
    if not 1 <= num_keys <= len(arrays) or len({shape_of(x) for x in arrays}) != 1:
        raise ArgumentError(
            f"lax.sort by {num_keys} keys of arrays of shapes {[shape_of(x) for x in arrays]}"
            f"{user_line()}."
        )
    order = np.lexsort(tuple(reversed(arrays[:num_keys])), axis=dimension)
    return tuple([np.take_along_axis(x, order, dimension) for x in arrays])


__all__ = ["clamp", "select", "select_n", "sort", "top_k"]
