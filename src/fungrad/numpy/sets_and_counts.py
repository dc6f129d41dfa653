"""NumPy's set operations for traced values, and trim_zeros.

The values that set operations select have derivatives. The shape of the result depends on the
number of different elements, so that the values have to be known; under jit and vmap use
`fungrad.numpy.unique(x, size=n)`.
"""

from __future__ import annotations

import math
import operator
import sys
from typing import Any

import numpy as np

from fungrad.errors import GradientCutError
from fungrad.numpy.indexing import SIZED, flatnonzero
from fungrad.numpy.mutation.views import Indexed, linked
from fungrad.numpy.protocol.implements import implements, known, of_arrays
from fungrad.numpy.protocol.operands import array_of, axis_index, flattened, promoted
from fungrad.numpy.sorting import joined_flat
from fungrad.primitives import sort as s
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.gather import ARRAY, Index, getitem, picked, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import cast, concatenate, moveaxis, reshape
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, shape_of

_PLAIN_UNIQUE: Any = np.unique


def _unique_flat(x: Any, values: Any) -> Any:
    """The known unique values of a vector, read from the sorted one, where ties share."""
    ordered = s.sort(x, axis=0)
    return picked(ordered, np.searchsorted(known(ordered, "np.unique"), values))


def _unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    ar = array_of(ar)
    concrete = known(ar, "np.unique (its number of results depends on the values)")
    result = _PLAIN_UNIQUE(
        concrete, return_index=True, return_inverse=return_inverse, return_counts=return_counts,
        axis=axis, equal_nan=equal_nan,
    )  # fmt: skip
    indices = result[1]
    if axis is not None:
        axis = axis_index(axis, len(ar.shape))
        values = getitem(ar, indices, index=Index((*[slice(None)] * axis, ARRAY)))
    elif np.isnan(result[0]).any() if ar.dtype.kind in "fc" else False:
        values = picked(flattened(ar), indices)
    else:
        values = _unique_flat(flattened(ar), result[0])
    extras = result[2:] if not return_index else result[1:]
    return (values, *extras) if extras else values


@implements(np.unique, own=SIZED)
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The different elements in ascending order, as numpy.unique; equal ones share the derivative.

    Args:
      ar: the array; it has to be known, unless `size` is given.
      return_index, return_inverse, return_counts, axis, equal_nan, sorted: as in NumPy.
      size: the number of results, so that the shape does not depend on the values (under jit and
        vmap): of more values the first are returned; missing ones are `fill_value` (the smallest
        element, if None), with its index and the count 0. The inverse numbers all values, also
        those that are not returned.

    >>> import numpy as np, fungrad as fg
    >>> fg.vmap(lambda x: unique(x, size=3))(np.array([[1, 2, 1], [3, 3, 3]]))
    array([[1, 2, 1],
           [3, 3, 3]])
    """
    if size is None:
        return _unique(ar, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan)
    x = array_of(ar)
    size, shape = operator.index(size), shape_of(x)
    x = flattened(x) if axis is None else moveaxis(x, axis_index(axis, len(shape)), 0)
    number, *rest = shape_of(x)
    if not number:
        raise ValueError("unique(size=...) needs at least one element.")
    if axis is None:
        order = s.argsort(x, axis=0, kind="stable")
        ordered = s.sort(x, axis=0)  # where ties share the derivative
    else:
        columns = reshape(x, shape=(number, math.prod(rest)))
        order = np.lexsort(columns.T[::-1]) if math.prod(rest) else np.arange(number)
        ordered = picked(x, order)
    differ = ordered[1:] != ordered[:-1]
    if equal_nan and x.dtype.kind in "fc":
        differ = np.logical_and(differ, ~(np.isnan(ordered[1:]) & np.isnan(ordered[:-1])))
    differ = np.any(differ, axis=tuple(range(1, 1 + len(rest))))
    first = concatenate(np.ones(1, np.bool_), differ, axis=0)
    starts = flatnonzero(first, size=size + 1, fill_value=number)
    there = starts[:-1] < number
    values = picked(ordered, select(there, starts[:-1], 0))
    if fill_value is not None:
        kept = reshape(there, shape=(size, *[1] * len(rest)))
        values = select(kept, values, cast(array_of(fill_value), x.dtype))
    results = [values if axis is None else moveaxis(values, 0, axis_index(axis, len(shape)))]
    if return_index:
        results.append(picked(order, select(there, starts[:-1], 0)))
    if return_inverse:
        indices = scatter(np.cumsum(first) - 1, order, index=Index((ARRAY,), unique=True),
                         shape=(number,))  # fmt: skip
        results.append(reshape(indices, shape=shape) if axis is None else indices)
    if return_counts:
        results.append(np.diff(starts))
    return tuple(results) if len(results) > 1 else results[0]


def _result(function: Any, *parts: Any) -> Any:
    """A result of the class that a function of NumPy returns, with these parts."""
    return type(function(np.zeros(0)))(*parts)


@implements(np.unique_all)
def unique_all(x: Any) -> Any:
    """The different elements, their indices, the inverse and the counts, as numpy.unique_all."""
    return _result(np.unique_all, *_unique(x, True, True, True, equal_nan=False))


@implements(np.unique_counts)
def unique_counts(x: Any) -> Any:
    """The different elements and their counts, as numpy.unique_counts."""
    return _result(np.unique_counts, *_unique(x, return_counts=True, equal_nan=False))


@implements(np.unique_inverse)
def unique_inverse(x: Any) -> Any:
    """The different elements, and where each element is among them, as numpy.unique_inverse."""
    return _result(np.unique_inverse, *_unique(x, return_inverse=True, equal_nan=False))


@implements(np.unique_values)
def unique_values(x: Any) -> Any:
    """The different elements, as numpy.unique_values; in ascending order."""
    return _unique(x, equal_nan=False)


@implements(np.isin)
@of_arrays
def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
) -> Any:
    """Which elements are among others, as numpy.isin."""
    element, test = promoted([array_of(element), flattened(array_of(test_elements))])
    number = shape_of(test)[0]
    if not number:
        return np.full(shape_of(element), bool(invert))
    ordered = s.sort(test, axis=0)
    indices = s.searchsorted(ordered, element, side="left")
    nearest = picked(ordered, np.minimum(indices, number - 1))
    return nearest != element if invert else nearest == element


@implements(np.union1d)
def union1d(ar1: Any, ar2: Any) -> Any:
    """The different elements of both arrays, as numpy.union1d."""
    return _unique(joined_flat([ar1, ar2]))


@implements(np.intersect1d)
def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The elements that are in both arrays, read from the first, as numpy.intersect1d."""
    x, y = promoted([flattened(array_of(ar1)), flattened(array_of(ar2))])
    _, first, second = np.intersect1d(
        known(x, "np.intersect1d"), known(y, "np.intersect1d"), assume_unique, return_indices=True
    )
    common = picked(x, first)
    return (common, first, second) if return_indices else common


@implements(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The different elements of the first array that are not in the second, as numpy.setdiff1d."""
    x, y = flattened(array_of(ar1)), flattened(array_of(ar2))
    values, others = known(x, "np.setdiff1d"), known(y, "np.setdiff1d")
    if assume_unique:
        return picked(x, np.flatnonzero(np.isin(values, others, invert=True)))
    return _unique_flat(x, np.setdiff1d(values, others))


@implements(np.setxor1d)
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The elements that are in one array alone, as numpy.setxor1d."""
    x, y = promoted([flattened(array_of(ar1)), flattened(array_of(ar2))])
    values = np.setxor1d(known(x, "np.setxor1d"), known(y, "np.setxor1d"), assume_unique)
    return _unique_flat(joined_flat([x, y]), values)


# --- trimming -------------------------------------------------------------------------------------


def _by_poly1d() -> bool:
    """Whether np.poly1d called the function that calls this one."""
    frame: Any = sys._getframe(2)
    while frame.f_globals.get("__name__", "").startswith("fungrad"):
        frame = frame.f_back
    return bool(frame.f_code is np.poly1d.__init__.__code__)


@implements(np.trim_zeros)
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """An array without its zeros at the ends, which have to be known, as numpy.trim_zeros.

    Raises:
      GradientCutError: if numpy.poly1d drops a leading coefficient that has a derivative.
    """
    x = array_of(filt)
    sides = trim.lower()
    if sides not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    ndim = len(x.shape)
    axes = range(ndim) if axis is None else [axis_index(a, ndim) for a in np.atleast_1d(axis)]
    used = known(x, "np.trim_zeros", np.argwhere)
    if _by_poly1d() and type(x) is Tracer and not (len(used) and used[0, 0] == 0):
        raise GradientCutError(
            f"The first coefficient of a traced polynomial is 0{user_line()}. numpy.poly1d leaves "
            "it out, and its derivative, too. Use the functions of coefficients "
            "(np.polyval(c, x), np.polymul, np.roots), which keep it, or cut it on purpose: "
            'np.poly1d(np.trim_zeros(c, "f")).'
        )
    entries = [slice(None)] * ndim
    for i in axes:
        if not len(used):
            entries[i] = slice(0, 0)
            continue
        first, last = int(used[:, i].min()), int(used[:, i].max()) + 1
        entries[i] = slice(first if "f" in sides else None, last if "b" in sides else None)
    if not ndim:
        return reshape(x, shape=())
    index = Index(tuple(entries))
    return linked(getitem(x, index=index), x, Indexed(index))


__all__ = [
    "intersect1d",
    "isin",
    "setdiff1d",
    "setxor1d",
    "trim_zeros",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]
