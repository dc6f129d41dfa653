"""Sparsity patterns: which elements of a value depend on which inputs, one csr array of booleans.

Row i of a pattern names the inputs that element i of the raveled value depends on; None stands for
a value that depends on no input. SciPy is imported when a pattern is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, MissingExtraError

Pattern = Any
"""A scipy.sparse.csr_array of booleans with one row for each element of a value."""

LIMIT = 1 << 28
"""The most entries of a pattern (8 bytes each while it is made)."""

NARROW = 1 << 31
"""Indices below have 32 bits: half the memory to read, and what SciPy's solvers take."""


def scipy_sparse() -> Any:
    """The module scipy.sparse; an error that names the extra where SciPy is missing."""
    try:
        import scipy.sparse
    except ImportError as error:
        raise MissingExtraError(
            'fungrad.sparse needs SciPy. Install it with: pip install "fungrad[scipy]"'
        ) from error
    return scipy.sparse


def positions(shape: Sequence[int]) -> np.ndarray:
    """The positions 0, 1, ... of the elements of an array of a shape."""
    return np.arange(math.prod(shape)).reshape(shape)


def csr(indices: np.ndarray, indptr: np.ndarray, count: int) -> Pattern:
    """The pattern with the given compressed rows over `count` inputs."""
    if max(len(indices), count, len(indptr)) < NARROW:
        indices, indptr = indices.astype(np.int32, copy=False), indptr.astype(np.int32, copy=False)
    data = np.ones(len(indices), np.bool_)
    return scipy_sparse().csr_array((data, indices, indptr), shape=(len(indptr) - 1, count))


def identity(size: int, start: int, count: int) -> Pattern:
    """The pattern of `size` of the `count` inputs themselves, from `start` on."""
    return csr(np.arange(start, start + size), np.arange(size + 1), count)


def empty(size: int, count: int) -> Pattern:
    """The pattern of `size` elements that depend on nothing."""
    return csr(np.zeros(0, np.int64), np.zeros(size + 1, np.int64), count)


def take(pattern: Pattern, rows: np.ndarray) -> Pattern:
    """The rows of a pattern in an order; a row may be named more than once."""
    if rows.size and rows[-1] - rows[0] + 1 == rows.size and np.all(rows[1:] > rows[:-1]):
        return pattern[rows[0] : rows[-1] + 1]  # which is faster
    _check_size(int(np.diff(pattern.indptr)[rows].sum()))
    return pattern[rows]


def take_numbered(pattern: Pattern, numbers: np.ndarray) -> Pattern:
    """The rows numbered from 1 in an order; 0 stands for an element that depends on nothing."""
    numbered = csr(
        pattern.indices, np.concatenate([[0], pattern.indptr]), pattern.shape[1]
    )  # row 0 is empty
    return take(numbered, np.ravel(numbers))


def union(patterns: Sequence[Pattern | None]) -> Pattern | None:
    """The union of patterns of one size."""
    result = None
    for pattern in patterns:
        if pattern is not None and pattern is not result:
            result = pattern if result is None else result + pattern
    return result


def mapped(targets: np.ndarray, sources: np.ndarray, size: int, pattern: Pattern) -> Pattern:
    """The pattern of `size` elements, where each target depends on what its source depends on."""
    if np.bincount(targets, minlength=1).max() <= 1:  # no sums
        numbers = np.zeros(size, np.int64)
        numbers[targets] = sources + 1
        return take_numbered(pattern, numbers)
    shape = (size, pattern.shape[0])
    _check_size(int(np.diff(pattern.indptr)[sources].sum()))
    ones = np.ones(len(targets), np.bool_)
    return scipy_sparse().csr_array((ones, (targets, sources)), shape=shape) @ pattern


def merged(pattern: Pattern, labels: np.ndarray, size: int) -> Pattern:
    """The pattern of `size` elements: element k depends on what the rows labelled k depend on."""
    return mapped(labels, np.arange(len(labels)), size, pattern)


def repeated(pattern: Pattern, size: int) -> Pattern:
    """The pattern of `size` elements, each of which depends on what any of the rows depend on."""
    found = np.unique(pattern.indices)
    _check_size(len(found) * size)
    return csr(np.tile(found, size), np.arange(size + 1) * len(found), pattern.shape[1])


def stacked(patterns: Sequence[Pattern | None], sizes: Sequence[int], count: int) -> Pattern:
    """The patterns of some values, of the given sizes, one below another."""
    if len(patterns) == 1 and patterns[0] is not None:
        return patterns[0]
    parts = [p if p is not None else empty(n, count) for p, n in zip(patterns, sizes, strict=True)]
    return scipy_sparse().vstack(parts, format="csr")


def equal(x: Pattern | None, y: Pattern | None) -> bool:
    """Whether two patterns are the same; `x` contains `y`."""
    if x is None or y is None:
        return x is y
    return bool(x.nnz == y.nnz)


def _check_size(entries: int) -> None:
    if entries > LIMIT:
        raise ArgumentError(
            f"The sparsity pattern has {entries:,} entries or more while it is made, and the limit "
            f"is {LIMIT:,}: the Jacobian is dense, or nearly so. Use fg.jacobian, products with "
            "vectors (fg.jvp, fg.vjp, fg.hvp), or pass pattern=."
        )


__all__ = ["LIMIT", "Pattern"]
