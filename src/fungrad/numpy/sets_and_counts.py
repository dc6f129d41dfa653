"""NumPy's set operations, bincount and histograms for traced values.

The values that set operations select have derivatives. The shape of the result depends on the
number of different elements, so that the values have to be known; under jit and vmap use
`fungrad.numpy.unique(x, size=n)`.

Counts have no derivative; sums of weights have, and so have the edges between the extremes of the
data.
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
from fungrad.numpy.protocol.implements import as_array, implements, known, of_arrays
from fungrad.numpy.protocol.operands import array_of, axis_index, common_dtype, flattened, promoted
from fungrad.numpy.sorting import joined_flat
from fungrad.primitives import sort as s
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.gather import ARRAY, Index, getitem, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import (
    cast,
    concatenate,
    moveaxis,
    reshape,
    slice_axis,
)
from fungrad.primitives.movement.stack_iota import stack
from fungrad.primitives.runtime_check import checked
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, is_integer, shape_of

_PLAIN_UNIQUE: Any = np.unique


def _picked(x: Any, places: Any) -> Any:
    return getitem(x, places, index=Index((ARRAY,)))


def _unique_flat(x: Any, values: Any) -> Any:
    """The known unique values of a vector, read from the sorted one, where ties share."""
    ordered = s.sort(x, axis=0)
    return _picked(ordered, np.searchsorted(known(ordered, "np.unique"), values))


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
    places = result[1]
    if axis is not None:
        axis = axis_index(axis, len(ar.shape))
        values = getitem(ar, places, index=Index((*[slice(None)] * axis, ARRAY)))
    elif np.isnan(result[0]).any() if ar.dtype.kind in "fc" else False:
        values = _picked(flattened(ar), places)
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
        ordered = _picked(x, order)
    differ = ordered[1:] != ordered[:-1]
    if equal_nan and x.dtype.kind in "fc":
        differ = np.logical_and(differ, ~(np.isnan(ordered[1:]) & np.isnan(ordered[:-1])))
    differ = np.any(differ, axis=tuple(range(1, 1 + len(rest))))
    first = concatenate(np.ones(1, np.bool_), differ, axis=0)
    starts = flatnonzero(first, size=size + 1, fill_value=number)
    there = starts[:-1] < number
    values = _picked(ordered, select(there, starts[:-1], 0))
    if fill_value is not None:
        kept = reshape(there, shape=(size, *[1] * len(rest)))
        values = select(kept, values, cast(array_of(fill_value), x.dtype))
    found = [values if axis is None else moveaxis(values, 0, axis_index(axis, len(shape)))]
    if return_index:
        found.append(_picked(order, select(there, starts[:-1], 0)))
    if return_inverse:
        places = scatter(np.cumsum(first) - 1, order, index=Index((ARRAY,), unique=True),
                         shape=(number,))  # fmt: skip
        found.append(reshape(places, shape=shape) if axis is None else places)
    if return_counts:
        found.append(np.diff(starts))
    return tuple(found) if len(found) > 1 else found[0]


def _result(function: Any, *parts: Any) -> Any:
    """A result of the class that a function of NumPy returns, with these parts."""
    return type(function(np.zeros(0)))(*parts)


@implements(np.unique_all)
def unique_all(x: Any) -> Any:
    """The different elements, their places, the inverse and the counts, as numpy.unique_all."""
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
    places = s.searchsorted(ordered, element, side="left")
    found = _picked(ordered, np.minimum(places, number - 1))
    return found != element if invert else found == element


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
    picked = _picked(x, first)
    return (picked, first, second) if return_indices else picked


@implements(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The different elements of the first array that are not in the second, as numpy.setdiff1d."""
    x, y = flattened(array_of(ar1)), flattened(array_of(ar2))
    values, others = known(x, "np.setdiff1d"), known(y, "np.setdiff1d")
    if assume_unique:
        return _picked(x, np.flatnonzero(np.isin(values, others, invert=True)))
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
            "it out, and with it the derivative by it. Use the functions of coefficients "
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


def _summed(values: Any, places: Any, length: int) -> Any:
    """For each number below `length`, the sum of the values whose place it is."""
    return scatter(values, places, index=Index((ARRAY,)), shape=(length,))


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """The number of each integer, or the sum of its weights, as numpy.bincount.

    The integers have to be known, since the length of the result depends on them.
    """
    places = np.asarray(known(x, "np.bincount (the length of its result depends on the values)"))
    minlength = operator.index(minlength)
    if weights is None:
        return np.bincount(places, minlength=minlength)
    weights = cast(array_of(weights), np.float64)
    if weights.shape != places.shape:
        raise ValueError("The weights and list don't have the same length.")
    return _summed(weights, places.astype(np.intp), len(np.bincount(places, minlength=minlength)))


def _ends(a: Any, range: Any) -> tuple[Any, Any, Any]:
    """The lowest and the highest edge, and the common dtype of them and the data."""
    first: Any
    last: Any
    if range is not None:
        first, last = as_array(range[0]), as_array(range[1])
        if type(first) is not Tracer and type(last) is not Tracer and first > last:
            raise ValueError("max must be larger than min in range parameter.")
    elif not a.size:
        first, last = 0.0, 1.0
    else:
        first, last = np.min(a), np.max(a)
        if type(first) is not Tracer and not (np.isfinite(first) and np.isfinite(last)):
            raise ValueError(f"autodetected range of [{first}, {last}] is not finite")
    same = first == last
    dtype = common_dtype(first, last, a)
    return select(same, first - 0.5, first), select(same, last + 0.5, last), dtype


def _edges(a: Any, bins: Any, range: Any, weights: Any) -> Any:
    if isinstance(bins, str):
        if weights is not None:
            raise TypeError(
                "Automated estimation of the number of bins is not supported for weighted data"
            )
        data = known(a, f"np.histogram(bins={bins!r})")
        ends: Any = None if range is None else [known(end, "range") for end in range]
        bins = len(np.histogram_bin_edges(data, bins, ends)) - 1
    bins = array_of(bins)
    if not bins.shape:
        count = operator.index(bins)
        if count < 1:
            raise ValueError("`bins` must be positive, when an integer")
        first, last, dtype = _ends(a, range)
        if dtype.kind in "iu":
            dtype = np.result_type(dtype, float)
        return np.linspace(first, last, count + 1, endpoint=True, dtype=dtype)
    if len(bins.shape) > 1:
        raise ValueError("`bins` must be 1d, when an array")
    ascends = bins[:-1] <= bins[1:]
    return checked(bins, ascends, message="`bins` must increase monotonically, when an array")


def _data(a: Any, weights: Any) -> tuple[Any, Any]:
    a = array_of(a)
    if a.dtype.kind == "b":
        a = cast(a, np.uint8)
    if weights is not None:
        weights = array_of(weights)
        if weights.shape != a.shape:
            raise ValueError("weights should have the same shape as a.")
        weights = flattened(weights)
    return flattened(a), weights


@implements(np.histogram_bin_edges)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges of the bins of a histogram, as numpy.histogram_bin_edges."""
    a, weights = _data(a, weights)
    return _edges(a, bins, range, weights)


def _bins_of(a: Any, edges: Any) -> Any:
    """The bin of each element (the last edge belongs to the last bin); for elements outside, the
    number of bins.
    """
    number = shape_of(edges)[0] - 1
    dtype = np.result_type(a.dtype, edges.dtype)
    places = s.searchsorted(cast(edges, dtype), cast(a, dtype), side="right") - 1
    places = select(a == edges[number], number - 1, places)
    outside = np.logical_not(np.logical_and(a >= edges[0], a <= edges[number]))
    return select(outside, number, places)


@implements(np.histogram)
def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any]:
    """The counts of data in bins, and their edges, as numpy.histogram.

    Differentiable by the weights, and by the edges through the density.
    """
    a, weights = _data(a, weights)
    edges = _edges(a, bins, range, weights)
    number = shape_of(edges)[0] - 1
    ones = np.ones(a.shape, np.intp) if weights is None else weights
    places = cast(_bins_of(a, edges), np.intp)
    counts = slice_axis(_summed(ones, places, number + 1), axis=0, start=0, stop=number)
    if not density:
        return counts, edges
    widths = cast(edges[1:] - edges[:-1], np.float64)
    return counts / widths / np.sum(counts), edges


@implements(np.histogramdd)
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any]:
    """The counts of points in boxes, and the edges of each axis, as numpy.histogramdd."""
    if isinstance(sample, (list, tuple)):
        columns = [array_of(x) for x in sample]
        sample = stack(*[cast(x, np.result_type(*[c.dtype for c in columns])) for x in columns]).T
    sample = array_of(sample)
    if len(sample.shape) == 1:
        sample = reshape(sample, shape=(sample.size, 1))
    dimensions = sample.shape[1]
    if is_integer(bins):
        bins = [bins] * dimensions
    if len(bins) != dimensions:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    if range is None:
        range = [None] * dimensions
    elif len(range) != dimensions:
        raise ValueError("range argument must have one entry per dimension")
    edges, flat, inside, sizes = [], 0, True, []
    for i, (count, ends) in enumerate(zip(bins, range, strict=True)):
        column = sample[:, i]
        edge = _edges(column, count, ends, None)
        number = shape_of(edge)[0] - 1
        place = _bins_of(column, edge)
        inside = np.logical_and(inside, place < number)
        flat = flat * number + place
        edges.append(edge)
        sizes.append(number)
    total = math.prod(sizes)
    places = cast(select(inside, flat, total), np.intp)
    values: Any = np.ones(sample.shape[0])
    if weights is not None:
        values = cast(array_of(weights), np.float64)
    counts = slice_axis(_summed(values, places, total + 1), axis=0, start=0, stop=total)
    counts = reshape(counts, shape=tuple(sizes))
    if density:
        whole = np.sum(counts)
        for i, edge in enumerate(edges):
            wide = tuple([-1 if j == i else 1 for j in np.arange(dimensions)])
            counts = counts / np.reshape(edge[1:] - edge[:-1], wide)
        counts = counts / whole
    return counts, tuple(edges)


@implements(np.histogram2d)
def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any, Any]:
    """The counts of points in rectangles, and both axes' edges, as numpy.histogram2d."""
    x, y = array_of(x), array_of(y)
    if x.shape != y.shape:
        raise ValueError("x and y must have the same length.")
    if not is_integer(bins) and len(bins) != 2:
        edges = array_of(bins)
        bins = [edges, edges]
    counts, both = histogramdd([x, y], bins, range, density, weights)
    return counts, both[0], both[1]


__all__ = [
    "bincount",
    "histogram",
    "histogram2d",
    "histogram_bin_edges",
    "histogramdd",
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
