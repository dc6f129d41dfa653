"""JAX's associative_scan, cumulative operations, products, choices, bounds and order.

Compositions of primitives, with JAX's signatures; nothing is staged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.numpy.protocol.operands import array_of, axis_indices
from fungrad.primitives.contraction import dot_general as contracting
from fungrad.primitives.elementwise import family, ufuncs
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement.reshape_broadcast_cast import (
    concatenate,
    flip,
    moveaxis,
    slice_axis,
)
from fungrad.primitives.reduction import cumulative as scanning
from fungrad.primitives.sort import argsort
from fungrad.primitives.sort import sort as sort_primitive
from fungrad.support import pytree
from fungrad.tracing.source_location import boundary, user_line
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
    if shape_of(on_true) != shape_of(on_false) or shape_of(pred) not in ((), shape_of(on_true)):
        raise ShapeError(
            "lax.select takes two arrays of one shape and a predicate of that shape or "
            f"(){user_line()}, not {typeof(pred)}, {typeof(on_true)} and {typeof(on_false)}; "
            "np.where broadcasts."
        )
    return family.select(pred, on_true, on_false)


@boundary
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """All prefix combinations by an associative function, in O(log n) calls on whole arrays.

    Args:
      fn: (a, b) -> their combination, elementwise along `axis`, on trees like elems; associative.
      elems: a tree of arrays of the same length along axis.
      reverse: whether to combine from the end.
      axis: the axis to scan along.

    The even/odd recursion of Blelloch 1990, Prefix Sums and Their Applications.

    >>> import numpy as np
    >>> associative_scan(np.maximum, np.array([1.0, 3.0, 2.0, 5.0]))
    array([1., 3., 3., 5.])
    """
    leaves, treedef = pytree.flatten(elems)
    lengths = {shape_of(x)[axis] for x in leaves}
    if len(lengths) != 1:
        raise ArgumentError(
            f"associative_scan needs one length along axis {axis}, not {sorted(lengths)}."
        )
    moved = [moveaxis(x, axis % len(shape_of(x)), 0) for x in leaves]
    if reverse:
        moved = [flip(x, axes=(0,)) for x in moved]

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        back = [pytree.unflatten(treedef, [_axis_back(x, axis) for x in side]) for side in (a, b)]
        found = pytree.match(treedef, fn(*back), "result of the associative function")
        return [moveaxis(x, axis % len(shape_of(x)), 0) for x in found]

    result = _prefix(combine, moved)
    if reverse:
        result = [flip(x, axes=(0,)) for x in result]
    return pytree.unflatten(treedef, [_axis_back(x, axis) for x in result])


def _axis_back(x: Any, axis: int) -> Any:
    return moveaxis(x, 0, axis % len(shape_of(x)))


def _part(x: Any, start: int, stop: int) -> Any:
    return slice_axis(x, axis=0, start=start, stop=stop)


def _prefix(combine: Callable[[list[Any], list[Any]], list[Any]], xs: list[Any]) -> list[Any]:
    n = shape_of(xs[0])[0]
    if n < 2:
        return xs
    pairs = combine([x[: n - 1 : 2] for x in xs], [x[1:n:2] for x in xs])
    odd = _prefix(combine, pairs)
    even_later: list[Any] = []
    if n > 2:
        before = odd if n % 2 else [_part(x, 0, shape_of(x)[0] - 1) for x in odd]
        even_later = combine(before, [x[2:n:2] for x in xs])
    even = [
        concatenate(_part(x, 0, 1), e, axis=0) if n > 2 else _part(x, 0, 1)
        for x, e in zip(xs, even_later or xs, strict=True)
    ]
    return [_interleaved(e, o, n) for e, o in zip(even, odd, strict=True)]


def _interleaved(even: Any, odd: Any, n: int) -> Any:
    """even[0], odd[0], even[1], ... : n items along axis 0."""
    half = shape_of(odd)[0]
    both = np.stack([_part(even, 0, half), odd], axis=1)
    joined = np.reshape(both, (2 * half, *shape_of(odd)[1:]))
    return joined if n == 2 * half else concatenate(joined, _part(even, half, half + 1), axis=0)


def _cumulative(along: Callable[[Any, int], Any], name: str, what: str) -> Callable[..., Any]:
    def cumulative(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
        ndim = len(shape_of(operand))
        if not -ndim <= axis < ndim:
            raise ArgumentError(
                f"lax.{name} along axis {axis} of an array of shape {shape_of(operand)}."
            )
        axis %= ndim
        if not reverse:
            return along(operand, axis)
        return flip(along(flip(operand, axes=(axis,)), axis), axes=(axis,))

    cumulative.__name__ = cumulative.__qualname__ = name
    cumulative.__doc__ = f"""The running {what} along `axis`, from its end if `reverse` is set.

    Args:
      operand: an array with at least one axis.
      axis: the axis along which it runs.
      reverse: whether it begins at the end.
    """
    return cumulative


cumsum = _cumulative(lambda x, axis: scanning.cumsum(x, axis=axis), "cumsum", "sum")
cumprod = _cumulative(lambda x, axis: scanning.cumprod(x, axis=axis), "cumprod", "product")
cummax = _cumulative(lambda x, axis: scanning.cummax(x, axis=axis), "cummax", "maximum")
cummin = _cumulative(lambda x, axis: scanning.cummin(x, axis=axis), "cummin", "minimum")
cumlogsumexp = _cumulative(
    lambda x, axis: associative_scan(ufuncs.logaddexp, x, axis=axis),
    "cumlogsumexp",
    "log of the sum of exponentials",
)


add, mul, max, min = np.add, np.multiply, np.maximum, np.minimum
"""NumPy's ufuncs by JAX's names."""


def dot_general(
    lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """The sum of products over the contracted axes, for each index of the batch axes.

    Args:
      lhs, rhs: arrays. dimension_numbers: ((contracted axes of lhs, of rhs), (batch axes of lhs, of
        rhs)). precision: ignored; products have the full precision of their dtype.
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
    """The elements of the case number `which`: False and True, or 0, 1, 2, ...

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
    """x limited to [min, max]; at a bound x and the bound share the derivative equally.

    Args:
      min: the lower bounds, a number or of the shape of x.
      x: a real array or number.
      max: the upper bounds, a number or of the shape of x.

    >>> clamp(0.0, np.array([-1.0, 0.5, 2.0]), 1.0)
    array([0. , 0.5, 1. ])
    """
    return np.minimum(np.maximum(array_of(x), min), max)


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x).

    Args:
      x: an inexact array or number.

    >>> float(rsqrt(4.0))
    0.5
    """
    return 1.0 / np.sqrt(array_of(x))


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


__all__ = [
    "add",
    "associative_scan",
    "clamp",
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "dot_general",
    "max",
    "min",
    "mul",
    "rsqrt",
    "select",
    "select_n",
    "sort",
    "top_k",
]
