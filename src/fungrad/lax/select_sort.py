"""JAX's lax on the values of elements: products, choices, bounds and order.
Compositions of primitives; knows JAX's signatures.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.numpy.protocol.operands import array_of, axis_indices
from fungrad.primitives.contraction import dot_general as contracting
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.sort import argsort
from fungrad.primitives.sort import sort as sort_primitive
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of

add, mul, max, min = np.add, np.multiply, np.maximum, np.minimum
"""NumPy's ufuncs by the names that JAX gives them, for reduce_window."""


def dot_general(
    lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """The sum of products over the contracted axes, for each index of the batch axes.

    Args:
      lhs, rhs: arrays. dimension_numbers: ((contracted axes of lhs, of rhs), (batch axes of lhs, of
        rhs)). precision: taken and ignored, as every product is exact to its dtype.
      preferred_element_type: the dtype to compute in.

    Returns:
      An array whose axes are the batch axes, the others of lhs, the others of rhs.

    >>> dot_general(np.ones((2, 3)), np.ones((3, 4)), (([1], [0]), ([], []))).shape
    (2, 4)
    """
    x, y = array_of(lhs), array_of(rhs)
    if preferred_element_type is not None:
        x, y = s.cast(x, preferred_element_type), s.cast(y, preferred_element_type)
    (cx, cy), (bx, by) = dimension_numbers
    nx, ny = len(shape_of(x)), len(shape_of(y))
    contract = (axis_indices(tuple(cx), nx), axis_indices(tuple(cy), ny))
    batch = (axis_indices(tuple(bx), nx), axis_indices(tuple(by), ny))
    if any(len(a) != len(b) for a, b in (contract, batch)):
        raise ArgumentError(f"dimension_numbers={dimension_numbers}{user_line()} are not in pairs.")
    return contracting.dot_general(x, y, contract=contract, batch=batch)


def select_n(which: Any, *cases: Any) -> Any:
    """The case that `which` names, element by element: False and True, or 0, 1, 2, ...

    Args:
      which: booleans (for two cases) or integers, of the shape of the cases or ().
      cases: arrays of one shape.

    >>> select_n(np.array([0, 2, 1]), np.zeros(3), np.ones(3), np.full(3, 2.0))
    array([0., 2., 1.])
    """
    found = [array_of(case) for case in cases]
    which = array_of(which)
    shapes = {shape_of(case) for case in found}
    if len(shapes) != 1 or shape_of(which) not in ((), *shapes):
        raise ShapeError(
            f"lax.select_n takes cases of one shape, and which of that shape or (){user_line()}, "
            f"not {sorted(shapes)} and {shape_of(which)}."
        )
    if which.dtype == np.bool_ and len(found) > 2:
        raise ArgumentError(f"Booleans choose between two cases, not {len(found)}{user_line()}.")
    result = found[0]
    for i, case in enumerate(found[1:], 1):
        result = np.where(which >= i, case, result)
    return result


def clamp(min: Any, x: Any, max: Any) -> Any:
    """x, but at least `min` and at most `max`; at the bounds one half of the derivative goes each
    way.

    >>> clamp(0.0, np.array([-1.0, 0.5, 2.0]), 1.0)
    array([0. , 0.5, 1. ])
    """
    return np.minimum(np.maximum(array_of(x), min), max)


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x).

    >>> float(rsqrt(4.0))
    0.5
    """
    return 1.0 / np.sqrt(array_of(x))


def top_k(operand: Any, k: int) -> tuple[Any, Any]:
    """The k largest elements along the last axis in descending order, and where they stand.

    Equal elements come in the order of their positions; as those of sort, they share the derivative
    (so do the last one that is taken and those equal to it that are not).

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
    """The elements in ascending order along an axis; of several arrays, in the order of the first.

    Args:
      operand: an array, or a sequence of arrays of one shape, which are put in order together.
      dimension: the axis. is_stable: whether equal ones keep their order (of several arrays they
        always do). num_keys: how many arrays decide the order, the first one first.

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


__all__ = ["add", "clamp", "dot_general", "max", "min", "mul", "rsqrt", "select_n", "sort", "top_k"]
