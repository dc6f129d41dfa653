"""Sparsity patterns: which elements of a value depend on which inputs, one csr array of booleans.

Row i of a pattern names the inputs on which element i of the raveled value depends; None means that
the value depends on no input. SciPy is imported when a pattern is made.

Opaque functions have the patterns declared by `fg.external(f, sparsity=)`; a batch of calls has a
block for each example, also without a declaration.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, MissingExtraError
from fungrad.host.host_function import BatchedHost, Host, Sparsity
from fungrad.support import pytree
from fungrad.tracing.source_location import describe

Pattern = Any
"""A scipy.sparse.csr_array of booleans with one row for each element of a value."""

LIMIT = 1 << 28
"""The most entries of a pattern (of 8 bytes each during its construction)."""

NARROW = 1 << 31
"""Smaller indices have 32 bits, as SciPy's solvers take them."""


def scipy_sparse() -> Any:
    """The module scipy.sparse; without SciPy an error that names the extra."""
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
    """The pattern of `size` of the `count` inputs, from number `start` on."""
    return csr(np.arange(start, start + size), np.arange(size + 1), count)


def empty(size: int, count: int) -> Pattern:
    """The pattern of `size` constant elements."""
    return csr(np.zeros(0, np.int64), np.zeros(size + 1, np.int64), count)


def take(pattern: Pattern, rows: np.ndarray) -> Pattern:
    """The given rows of a pattern, in order; rows may repeat."""
    if rows.size and rows[-1] - rows[0] + 1 == rows.size and np.all(rows[1:] > rows[:-1]):
        return pattern[rows[0] : rows[-1] + 1]  # which is faster
    _check_size(int(np.diff(pattern.indptr)[rows].sum()))
    return pattern[rows]


def take_numbered(pattern: Pattern, numbers: np.ndarray) -> Pattern:
    """The given rows, numbered from 1, in order; 0 stands for a constant element."""
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
    """The pattern of `size` elements; each target depends on the inputs of its sources."""
    if np.bincount(targets, minlength=1).max() <= 1:  # no sums
        numbers = np.zeros(size, np.int64)
        numbers[targets] = sources + 1
        return take_numbered(pattern, numbers)
    shape = (size, pattern.shape[0])
    _check_size(int(np.diff(pattern.indptr)[sources].sum()))
    ones = np.ones(len(targets), np.bool_)
    return scipy_sparse().csr_array((ones, (targets, sources)), shape=shape) @ pattern


def merged(pattern: Pattern, labels: np.ndarray, size: int) -> Pattern:
    """The pattern of `size` elements: element k depends on the inputs of the rows labelled k."""
    return mapped(labels, np.arange(len(labels)), size, pattern)


def repeated(pattern: Pattern, size: int) -> Pattern:
    """The pattern of `size` elements that all depend on the inputs of all rows."""
    columns = np.unique(pattern.indices)
    _check_size(len(columns) * size)
    return csr(np.tile(columns, size), np.arange(size + 1) * len(columns), pattern.shape[1])


def stacked(patterns: Sequence[Pattern | None], sizes: Sequence[int], count: int) -> Pattern:
    """The patterns of values of the given sizes, one below another."""
    if len(patterns) == 1 and patterns[0] is not None:
        return patterns[0]
    parts = [p if p is not None else empty(n, count) for p, n in zip(patterns, sizes, strict=True)]
    return scipy_sparse().vstack(parts, format="csr")


def equal(x: Pattern | None, y: Pattern | None) -> bool:
    """Whether two patterns are the same, where `x` contains `y`."""
    if x is None or y is None:
        return x is y
    return bool(x.nnz == y.nnz)


def _check_size(entries: int) -> None:
    if entries > LIMIT:
        raise ArgumentError(
            f"The sparsity pattern needs {entries:,} entries or more, and the limit "
            f"is {LIMIT:,}: the Jacobian is dense, or nearly so. Use fg.jacobian, products with "
            "vectors (fg.jvp, fg.vjp, fg.hvp), or pass pattern=."
        )


# --- opaque functions -----------------------------------------------------------------------------


def called(equation: Any, given: Sequence[Any], count: int) -> list[Any] | None:
    """The patterns of an opaque function's results."""
    host = equation.params["host"]
    sizes = [v.type.size for v in equation.outputs]
    parts = []
    for g, entries in zip(given, _entries(host, [g.size for g in given]), strict=True):
        if g.pattern is not None:
            dense = entries is None
            parts.append(repeated(g.pattern, sum(sizes)) if dense else entries @ g.pattern)
    whole: Any = union(parts)
    return [whole[a:b] for a, b in itertools.pairwise(np.cumsum([0, *sizes]).tolist())]


def _entries(host: Host, sizes: Sequence[int]) -> list[Any]:
    """For each argument which of its elements each result depends on; None: all on all."""
    if isinstance(host, BatchedHost):
        count = max(host.size, 1)
        inner = [n // count if flag else n for n, flag in zip(sizes, host.flags, strict=True)]
        rows = [t.size for t in host.inner.types()]
        return [
            _repeated(m, n, flag, rows, host.size)
            for m, n, flag in zip(_entries(host.inner, inner), inner, host.flags, strict=True)
        ]
    by_leaf: list[Any] = [None] * len(host.arguments.slots)
    if host.sparsity is not None:
        by_leaf = _of_rule(host, host.sparsity)
    entries: list[Any] = [None] * len(sizes)
    for slot, matrix in zip(host.arguments.slots, by_leaf, strict=True):
        if slot is not None:
            entries[slot] = matrix
    return entries


def _repeated(entries: Any, size: int, batched: bool, rows: Sequence[int], count: int) -> Any:
    """The entries for a batch: a block for each example, stacked for an argument not batched."""
    if entries is None:
        if not batched or sum(rows) * size * count > LIMIT:
            return None
        entries = np.ones((sum(rows), size), np.bool_)
    sparse = scipy_sparse()
    entries = sparse.csr_array(entries)
    each = sparse.eye_array(count, dtype=np.bool_) if batched else np.ones((count, 1), np.bool_)
    ends = np.cumsum([0, *rows]).tolist()
    return sparse.vstack(
        [sparse.kron(each, entries[a:b], "csr") for a, b in itertools.pairwise(ends)], "csr"
    )


def _of_rule(host: Host, known: Sparsity) -> list[Any]:
    """The declared entries for each leaf of a call's arguments."""
    by_leaf = _declared(host, known)
    if known.of == "value":
        return by_leaf
    if known.of == "jvp":
        return by_leaf + [by_leaf[i] for i in known.places or ()]
    rest = len(host.arguments.slots)
    if known.places is None:
        return [None] * rest
    sizes = [leaf.size for type_ in known.types for leaf in pytree.leaves(type_)]
    wide = [
        np.ones((sum(known.places), n), np.bool_) if m is None else m
        for m, n in zip(by_leaf, sizes, strict=True)
    ]
    pulled = scipy_sparse().hstack(wide, "csr").T.tocsc()
    ends = np.cumsum([0, *known.places]).tolist()
    patterns = [pulled[:, a:b] for a, b in itertools.pairwise(ends)]
    return patterns + [None] * (rest - len(patterns))


def _declared(host: Host, known: Sparsity) -> list[Any]:
    """The user's matrices, split by leaves of the arguments."""
    given = known.declared(*known.types) if callable(known.declared) else known.declared
    given = given if isinstance(given, tuple) else (given,)
    sizes = [[leaf.size for leaf in pytree.leaves(type_)] for type_ in known.types]
    matrices = [None if m is None else scipy_sparse().csc_array(m) != 0 for m in given]
    rows = None if known.of != "value" else sum(t.size for t in host.types())
    fit = [
        m is None or (m.shape[1] == sum(n) and rows in (None, m.shape[0]))
        for m, n in zip(matrices, sizes, strict=False)
    ]
    if len(matrices) != len(sizes) or not all(fit):
        raise ArgumentError(
            f"sparsity= of {describe(host.f)} has to be one matrix for each argument, of shape "
            "(elements of the result, elements of the argument), or None: its arguments are "
            f"{', '.join(map(str, known.types))}."
        )
    patterns: list[Any] = []
    for matrix, leaves in zip(matrices, sizes, strict=True):
        ends = itertools.pairwise(np.cumsum([0, *leaves]).tolist())
        patterns += [None if matrix is None else matrix[:, a:b].tocsr() for a, b in ends]
    return patterns
