"""NumPy's bincount and histograms for traced values.

Counts have no derivative; sums of weights have, and so have the edges between the extremes of the
data.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from fungrad.numpy.protocol.implements import as_array, implements, known
from fungrad.numpy.protocol.operands import array_of, common_dtype, flattened
from fungrad.primitives import sort as s
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.gather import ARRAY, Index, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import cast, reshape, slice_axis
from fungrad.primitives.movement.stack_iota import stack
from fungrad.primitives.runtime_check import checked
from fungrad.tracing.trace import Tracer, is_integer, shape_of


def _summed(values: Any, binned: Any, length: int) -> Any:
    """For each number below `length`, the sum of the values whose bin it is."""
    return scatter(values, binned, index=Index((ARRAY,)), shape=(length,))


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """The number of each integer, or the sum of its weights, as numpy.bincount.

    The integers have to be known, since the length of the result depends on them.
    """
    binned = np.asarray(known(x, "np.bincount (the length of its result depends on the values)"))
    minlength = operator.index(minlength)
    if weights is None:
        return np.bincount(binned, minlength=minlength)
    weights = cast(array_of(weights), np.float64)
    if weights.shape != binned.shape:
        raise ValueError("The weights and list don't have the same length.")
    return _summed(weights, binned.astype(np.intp), len(np.bincount(binned, minlength=minlength)))


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
    binned = s.searchsorted(cast(edges, dtype), cast(a, dtype), side="right") - 1
    binned = select(a == edges[number], number - 1, binned)
    outside = np.logical_not(np.logical_and(a >= edges[0], a <= edges[number]))
    return select(outside, number, binned)


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
    binned = cast(_bins_of(a, edges), np.intp)
    counts = slice_axis(_summed(ones, binned, number + 1), axis=0, start=0, stop=number)
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
        binned = _bins_of(column, edge)
        inside = np.logical_and(inside, binned < number)
        flat = flat * number + binned
        edges.append(edge)
        sizes.append(number)
    total = math.prod(sizes)
    binned = cast(select(inside, flat, total), np.intp)
    values: Any = np.ones(sample.shape[0])
    if weights is not None:
        values = cast(array_of(weights), np.float64)
    counts = slice_axis(_summed(values, binned, total + 1), axis=0, start=0, stop=total)
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


__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]
