"""Matrix products and reductions by the fastest NumPy calls.

Threads that multiply at the same time would wait for the BLAS's threads: products are in clusters
only if it can be set to one thread (blas_threads.py). NumPy reduces along the last axis in 3 to 36
times the time of one call for each index if the axis has 2 to 8 elements; sums along longer ones
take 2 to 7 times as long as the BLAS's products with ones, which are equal to rounding.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import Equation
from fungrad.runtime.blas_threads import one_blas_thread, single_in_clusters
from fungrad.runtime.thread_pool import num_threads, share

SMALL = 1_000_000
"""The most terms for which OpenBLAS has small-matrix kernels, up to twice as slow for a transposed
factor (dgemm_small_kernel_permit); larger products copy their factors anyway."""


def one_thread(dtype: np.dtype[Any]) -> bool:
    """Whether the BLAS computes products of a dtype, and can do so in one thread each."""
    return dtype.char in "fdFD" and single_in_clusters()


def product(ndim: int, size: int) -> Any:
    """The function that multiplies a matrix by an array with `ndim` axes and `size` elements:
    `f(x, y)`, or `f(x, y, out=z)` for z in C order.
    """
    if size <= 1:
        return np.matmul
    return np.dot if ndim > 1 else np.matmul  # does not copy a matrix in Fortran order


def second(terms: int) -> Any:
    """The function that prepares the second factor of many products of so many terms each: copies
    it to C order if products are faster then.
    """
    return _for_blas if terms > SMALL else np.ascontiguousarray


def by_threads(x: Any, y: Any) -> Any:
    """x @ y of two matrices of one dtype; the thread pool shares its rows or columns."""
    out = np.empty((len(x), y.shape[1]), x.dtype)
    rows, columns = out.shape
    threads = num_threads()
    step = max(1, -(-max(out.shape) // threads))

    def of_rows(start: int, stop: int) -> None:
        np.matmul(x[start:stop], y, out=out[start:stop])

    def of_columns(start: int, stop: int) -> None:
        np.matmul(x, y[:, start:stop], out=out[:, start:stop])

    with one_blas_thread() or contextlib.nullcontext():
        share(of_rows if rows >= columns else of_columns, max(out.shape), step, threads)
    return out


def _for_blas(x: Any) -> Any:
    """The array, copied if np.matmul would not pass it to the BLAS."""
    (least, length), *others = sorted(zip(x.strides, x.shape, strict=True))
    fits = least == x.itemsize and all(n % least == 0 and n >= length * least for n, _ in others)
    return x if fits else np.ascontiguousarray(x)


FEW = 8
"""The most terms that are reduced by one call each."""
ENOUGH = 500
"""The fewest elements of a term for which that is faster; otherwise calls take longer."""

Places = Sequence[tuple[Any, ...]]


def terms(shape: Sequence[int], axes: Collection[int]) -> Places | None:
    """The indices of a reduction's terms, if it is along the last axis among others and has 2 to
    FEW terms; else None.
    """
    count = math.prod(shape[axis] for axis in axes)
    if len(shape) - 1 not in axes or not 1 < count <= FEW:
        return None
    whole = slice(None)
    return list(
        itertools.product(*[range(n) if i in axes else (whole,) for i, n in enumerate(shape)])
    )


def by_terms(ufunc: np.ufunc, x: Any, places: Places, out: Any) -> None:
    """Writes the reduction of two or more terms of x."""
    first, second, *others = places
    ufunc(x[first], x[second], out=out)
    for place in others:
        ufunc(out, x[place], out=out)
    if ufunc is np.add:  # NumPy begins with 0.0: no sum is -0.0
        ufunc(out, 0.0, out=out)


def ties(mask: Any, axes: tuple[int, ...], out: Any) -> None:
    """Writes the numbers of true elements along axes, of which there is at least one each."""
    if np.count_nonzero(mask) == out.size:
        out.fill(1)
    else:
        np.add.reduce(mask, axes, None, out)


def row_sums(ndim: int) -> Any:
    """The function f(x, ones, out=z) that adds up rows: the BLAS's matrix-vector product if that
    uses one thread.
    """
    return np.matmul if ndim == 2 and single_in_clusters() else np.vecdot


def spreads(equation: Equation) -> bool:
    """Whether an equation broadcasts along a last axis of at most FEW elements."""
    before, after = equation.inputs[0].type.shape, equation.outputs[0].type.shape
    return before[-1:] == (1,) and 1 < after[-1] <= FEW


def spread(out: Any, x: Any) -> None:
    """Writes x, broadcast along the last axis, by one copy per index of that axis."""
    for i in range(out.shape[-1]):
        np.copyto(out[..., i], x[..., 0])
