"""Products of matrices and reductions of blocks, in the calls that take least.

Several threads that multiply at once would wait for those that a BLAS has of its own. OpenBLAS
takes none for real products of few terms (its interface/gemm.c and gemv.c): where it cannot be told
to take one thread (blas_threads.py), larger products are done in such pieces. NumPy's loops run
along the last axis: of 2 to 8 elements they take 4 to 25 times as long as a call for each of these,
and of more, in sums, 1.5 to 5 times as long as BLAS's products with ones: equal to rounding.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import Equation
from fungrad.runtime.blas_threads import alone, single_in_regions
from fungrad.runtime.kernels.elementwise import PIECE
from fungrad.runtime.thread_pool import num_threads, share

TERMS = 262_144
"""The most terms of a product of matrices that OpenBLAS computes on one thread."""
SMALL = 1_000_000
"""The most terms for which OpenBLAS has kernels of its own, which take up to twice as long where a
factor is transposed (dgemm_small_kernel_permit); larger products copy their factors anyway."""


def one_thread(dtype: np.dtype[Any]) -> bool:
    """Whether products of a dtype are the BLAS's, and can be done so that each takes one thread."""
    return dtype.char in ("fdFD" if single_in_regions() else "fd" if _openblas() else "")


@functools.cache
def _openblas() -> bool:
    built: Any = np.show_config(mode="dicts")
    return "openblas" in built.get("Build Dependencies", {}).get("blas", {}).get("name", "")


def product(ndim: int) -> Any:
    """The function that multiplies a matrix by an array of so many axes: `f(x, y)`,
    `f(x, y, out=z)` for a z in C order.
    """
    if not single_in_regions():
        return in_pieces
    return np.dot if ndim > 1 else np.matmul  # which copies no matrix that lies in columns


def second(terms: int) -> Any:
    """The function of the second factor of many products, of so many terms each: the factor as it
    is multiplied fastest, in C order or as it stands.
    """
    return _for_blas if single_in_regions() and terms > SMALL else np.ascontiguousarray


def in_pieces(x: Any, y: Any, out: Any = None) -> Any:
    """x @ y, in pieces of rows, or of terms where those are few, all in one call: threads wait for
    each other between calls.

    Args:
      x: a matrix.
      y: a matrix or a vector, of the same dtype.
      out: where it is written, in C order.
    """
    (rows, terms), columns = x.shape, y.size // max(1, len(y))
    count = -(-rows * terms * columns // (PIECE if columns == 1 or rows == 1 else TERMS))
    if count <= 1:
        return np.dot(x, y, out=out)
    x, y = _for_blas(x), _for_blas(y)
    if out is None:
        out = np.empty((rows, *y.shape[1:]), x.dtype)
    by_rows = rows >= count
    length = rows if by_rows else terms
    step = -(-length // count)
    count = length // step
    end = count * step  # what is left is less than a piece
    if by_rows:
        pieces = out[:end].reshape(count, step, *y.shape[1:])
        np.matmul(x[:end].reshape(count, step, terms), y, out=pieces)
        np.dot(x[end:], y, out=out[end:])
        return out
    parts = x[:, :end].reshape(rows, count, step).swapaxes(0, 1)
    sums = np.matmul(parts, y[:end].reshape(count, step, columns))
    np.add.reduce(sums.reshape(count, *out.shape), 0, out=out)
    out += np.dot(x[:, end:], y[end:])
    return out


def by_threads(x: Any, y: Any) -> Any:
    """x @ y of two matrices of one dtype, its rows or its columns shared among threads of ours."""
    out = np.empty((len(x), y.shape[1]), x.dtype)
    rows, columns = out.shape
    threads = num_threads()
    step = max(1, -(-max(out.shape) // threads))

    def of_rows(start: int, stop: int) -> None:
        np.matmul(x[start:stop], y, out=out[start:stop])

    def of_columns(start: int, stop: int) -> None:
        np.matmul(x, y[:, start:stop], out=out[:, start:stop])

    with alone() or contextlib.nullcontext():
        share(of_rows if rows >= columns else of_columns, max(out.shape), step, threads)
    return out


def _for_blas(x: Any) -> Any:
    """The array, a copy where np.matmul would not hand it to the BLAS as it stands."""
    (least, length), *others = sorted(zip(x.strides, x.shape, strict=True))
    fits = least == x.itemsize and all(n % least == 0 and n >= length * least for n, _ in others)
    return x if fits else np.ascontiguousarray(x)


FEW = 8
"""The most terms that are taken one at a time."""
ENOUGH = 500
"""The fewest elements of a term for which that takes less: shorter ones take longer to call for."""

Places = Sequence[tuple[Any, ...]]


def terms(shape: Sequence[int], axes: Collection[int]) -> Places | None:
    """The indices of what is reduced along some axes, the last among them; None where they are many
    or one.
    """
    count = math.prod(shape[axis] for axis in axes)
    if len(shape) - 1 not in axes or not 1 < count <= FEW:
        return None
    whole = slice(None)
    return list(
        itertools.product(*[range(n) if i in axes else (whole,) for i, n in enumerate(shape)])
    )


def by_terms(ufunc: np.ufunc, x: Any, places: Places, out: Any) -> None:
    """Writes a reduction of two terms of x or more."""
    first, second, *others = places
    ufunc(x[first], x[second], out=out)
    for place in others:
        ufunc(out, x[place], out=out)
    if ufunc is np.add:  # NumPy begins with 0.0, which -0.0 does not outlive
        ufunc(out, 0.0, out=out)


def row_sums(ndim: int) -> Any:
    """The function f(x, ones, out=z) that adds up rows: a BLAS's product of a matrix and a vector
    where that takes one thread.
    """
    return np.matmul if ndim == 2 and single_in_regions() else np.vecdot


def spreads(equation: Equation) -> bool:
    """Whether an equation broadcasts one element along a last axis of few."""
    before, after = equation.inputs[0].type.shape, equation.outputs[0].type.shape
    return before[-1:] == (1,) and 1 < after[-1] <= FEW


def spread(out: Any, x: Any) -> None:
    """Writes x, of which all elements along the last axis are one, element by element of that."""
    for i in range(out.shape[-1]):
        np.copyto(out[..., i], x[..., 0])
