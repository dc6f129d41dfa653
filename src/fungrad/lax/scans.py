"""JAX's associative_scan and cumulative operations.

Compositions of primitives, with JAX's signatures; nothing is staged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.numpy.protocol.implements import as_array
from fungrad.primitives.elementwise import ufuncs
from fungrad.primitives.movement.reshape_broadcast_cast import (
    concatenate,
    flip,
    moveaxis,
    slice_axis,
)
from fungrad.primitives.reduction import cumulative as scanning
from fungrad.support import pytree
from fungrad.tracing.trace import shape_of
from fungrad.tracing.transformed_function import boundary


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
        combined = pytree.match(treedef, fn(*back), "result of the associative function")
        return [moveaxis(x, axis % len(shape_of(x)), 0) for x in combined]

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


def _cumulative(
    along: Callable[[Any, int], Any], name: str, what: str, shown: str
) -> Callable[..., Any]:
    def cumulative(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
        operand = as_array(operand)
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

    >>> print({name}(np.array([1.0, 3.0, 2.0])).round(3))
    {shown}
    """
    return cumulative


cumsum = _cumulative(lambda x, axis: scanning.cumsum(x, axis=axis), "cumsum", "sum", "[1. 4. 6.]")
cumprod = _cumulative(
    lambda x, axis: scanning.cumprod(x, axis=axis), "cumprod", "product", "[1. 3. 6.]"
)
cummax = _cumulative(
    lambda x, axis: scanning.cummax(x, axis=axis), "cummax", "maximum", "[1. 3. 3.]"
)
cummin = _cumulative(
    lambda x, axis: scanning.cummin(x, axis=axis), "cummin", "minimum", "[1. 1. 1.]"
)
cumlogsumexp = _cumulative(
    lambda x, axis: associative_scan(ufuncs.logaddexp, x, axis=axis),
    "cumlogsumexp", "log of the sum of exponentials", "[1.    3.127 3.408]",
)  # fmt: skip


__all__ = ["associative_scan", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"]
