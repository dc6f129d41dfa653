"""A sparse Jacobian or Hessian from few products: one for each colour, and a gather."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.branch_guards import content
from fungrad.compiler.cost_model import costs
from fungrad.compiler.jit import Jitted, jit
from fungrad.errors import ArgumentError, DensePatternWarning, MissingRuleError
from fungrad.ir.types import Type
from fungrad.numpy.creation import at
from fungrad.sparse.derivative import Arguments, Derivative, forward, reverse, second
from fungrad.sparse.derivative import columns as coloured_columns
from fungrad.sparse.derivative import symmetric as coloured_symmetric
from fungrad.sparse.patterns import Pattern, csr, scipy_sparse
from fungrad.sparse.propagation import (
    Entries,
    Reads,
    entries,
    is_dense,
    of_linear_map,
    reads,
    transposed,
)
from fungrad.tracing.source_location import describe, user_line
from fungrad.transforms.vmap_and_staging import vmap

FEW = 8
"""The most columns of a matrix that may be dense without a warning."""

PULLBACK = 2
"""The assumed cost of a reverse product, in forward products."""


MAX_FILL = 2
"""The most entries of the Jacobian of g in f(x) = g(gather(x)), relative to those of f's."""


class Compressed:
    """The plan for one derivative: its pattern, its colours, and the product that has each entry.

    Args:
      derivative: the two programs.
      pattern: rows by columns, canonical.
      groups: for each column (row, in reverse mode) its colour.
      read: for each entry the product that holds it, and its position there.
      by_rows: whether the products are vector-matrix products, and the groups those of rows.
      pulled: to use instead: the reverse derivative of the map after the reads, the groups of its
        rows, and, if some entries are sums, where each entry begins in `read`.
    """

    def __init__(
        self,
        derivative: Derivative,
        pattern: Pattern,
        groups: np.ndarray,
        read: Any,
        by_rows: bool = False,
        pulled: tuple[Derivative, np.ndarray, np.ndarray | None] | None = None,
    ) -> None:
        self.derivative = derivative
        self.by_rows = by_rows
        self.pattern = pattern
        self.groups = groups
        self._run, groups, self._starts = pulled or (derivative, groups, None)
        vectors = self._run.product.inputs[derivative.residuals :]
        types = [v.type for v in vectors]
        count = int(groups.max()) + 1 if groups.size else 0
        self.seeds = [_seed(groups == i, types) for i in range(count)]
        products, positions = read
        self._size = sum(a.type.size for a in self._run.product.outputs)
        self._read = products.astype(np.intp) * self._size + positions
        self._spare: list[np.ndarray] = []
        self._at_once: Jitted | None = None
        if 0 < count * self._size <= costs.small_array:
            self._at_once = jit(self._batched)
        csr_array = scipy_sparse().csr_array
        self._matrix = csr_array(pattern, dtype=np.float64)

    def content(self) -> Any:
        """What tells two plans for the same arguments apart."""
        return [content(g) for d in (self.derivative, self._run) for g in (d.first, d.product)]

    def at(self, values: Sequence[Any]) -> tuple[Sequence[Any], np.ndarray]:
        """The outputs at a point, and the entries of the derivative in the pattern's order."""
        if self._at_once is not None:
            *outputs, entries = self._at_once(*values)
            return outputs, entries
        outputs, product = self._run.at(values)
        try:  # each thread takes one of the arrays that earlier calls returned
            buffer = self._spare.pop()
        except IndexError:
            dtype = np.result_type(*[a.type.dtype for a in self._run.product.outputs])
            buffer = np.empty((len(self.seeds), self._size), dtype)
        for row, seed in zip(buffer, self.seeds, strict=True):
            start = 0
            for part in product(seed):
                row[start : start + part.size] = part.reshape(-1)
                start += part.size
        entries = buffer.reshape(-1).take(self._read, mode="clip")  # "clip" checks no bounds
        self._spare.append(buffer)
        if self._starts is not None:
            entries = np.add.reduceat(entries, self._starts)
        return outputs, entries

    def _batched(self, *values: Any) -> list[Any]:
        """What `at` returns, by one batched product."""
        outputs, product = self._run.traced_at(values)
        count = len(self.seeds)
        seeds = [np.stack(parts) for parts in zip(*self.seeds, strict=True)]
        parts = [np.reshape(part, (count, -1)) for part in vmap(product)(seeds)]
        entries = np.concatenate(parts, axis=1).reshape(-1)[self._read]
        if self._starts is not None:
            ends = np.append(self._starts[1:], self._read.size)
            sums = np.repeat(np.arange(self._starts.size), ends - self._starts)
            entries = at(np.zeros(self._starts.size, entries.dtype))[sums].add(entries)
        return [*outputs, entries]

    def check(self, values: Sequence[Any], entries: np.ndarray) -> None:
        """Compares a product of the matrix with the same product of the function.

        Raises:
          ArgumentError: if they differ: the pattern is too narrow.
        """
        derivative = self.derivative
        rng = np.random.default_rng(0)
        vectors = derivative.product.inputs[derivative.residuals :]
        vector = [rng.standard_normal(v.type.shape).astype(v.type.dtype) for v in vectors]
        _, product = derivative.at(values)
        want = _flat(product(vector))
        matrix = self.matrix(entries)
        flat = _flat(vector)
        got = matrix.T @ flat if self.by_rows else matrix @ flat
        scale = np.max(np.abs(want), initial=0.0) or 1.0
        tolerance = math.sqrt(np.finfo(want.dtype).eps) * scale
        wrong = ~(np.abs(got - want) <= tolerance) & ~(np.isnan(got) & np.isnan(want))
        if wrong.any():
            raise ArgumentError(
                f"The sparsity pattern is too narrow{user_line()}: its product with a vector "
                f"differs from that of {describe(derivative.call.f)} at position "
                f"{int(np.flatnonzero(wrong)[0])} (by {float(np.max(np.abs(got - want)[wrong]))})."
            )

    def matrix(self, entries: np.ndarray) -> Any:
        """The matrix with the given entries."""
        matrix = self._matrix.__class__.__new__(self._matrix.__class__)
        matrix.__dict__.update(self._matrix.__dict__)  # as copy.copy: SciPy's checks have been made
        matrix.data = entries
        matrix.indices, matrix.indptr = self._matrix.indices.copy(), self._matrix.indptr.copy()
        return matrix


def _flat(parts: Sequence[Any]) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts]) if parts else np.zeros(0)


def _seed(chosen: np.ndarray, types: Sequence[Type]) -> list[np.ndarray]:
    """Vectors that are 1 at the chosen elements, else 0."""
    parts = np.split(chosen, np.cumsum([t.size for t in types])[:-1])
    return [p.reshape(t.shape).astype(t.dtype) for p, t in zip(parts, types, strict=True)]


def rows_of(pattern: Pattern) -> np.ndarray:
    """The row of each entry of a pattern."""
    return np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))


def canonical(pattern: Any) -> Pattern:
    """The pattern with sorted columns and without duplicates."""
    result = scipy_sparse().csr_array(pattern, copy=True)
    result = scipy_sparse().csr_array(result != 0) if result.dtype != np.bool_ else result
    result.sum_duplicates()
    result.eliminate_zeros()
    return csr(result.indices, result.indptr, result.shape[1])


def given_pattern(pattern: Any, shape: tuple[int, int]) -> Pattern:
    """The user's pattern, checked."""
    known = canonical(pattern)
    if known.shape != shape:
        raise ArgumentError(
            f"pattern= has the shape {known.shape}, but the matrix has {shape}{user_line()}."
        )
    return known


def found_pattern(derivative: Derivative) -> Pattern:
    """The pattern of a derivative's products by its vectors; warns if it is dense."""
    return _found(derivative)[2].pattern


def _found(derivative: Derivative) -> tuple[Reads, Pattern, Entries]:
    """The reads of a derivative's product, the pattern of the rest, and the matrix's entries."""
    first = reads(derivative)
    vectors, read = (g.inputs[derivative.residuals :] for g in (derivative.product, first.graph))
    count = sum(v.type.size for v in vectors)
    sizes = [v.type.size for v in read]
    rest, dense = of_linear_map(first.graph, sizes, derivative.residuals, count)
    rest = canonical(rest)
    made = entries(rest, first.numbers, count)
    pattern = made.pattern
    rows, columns = pattern.shape
    if rows > 1 and columns > FEW and is_dense(pattern.nnz, rows, columns):
        lines = sorted({f"`{e.primitive.name}`{_at(e.source)}" for e in dense})
        warnings.warn(
            f"{derivative.call.label()}: {pattern.nnz:,} of {rows * columns:,} entries of the "
            f"matrix may differ from zero, because of {', '.join(lines[:4])}. Use fg.jacobian or "
            "fg.hessian, or pass pattern= if you know that fewer do.\n"
            "(more: fungrad explain DensePatternWarning)",
            DensePatternWarning,
            stacklevel=6,
        )
    return first, rest, made


def _at(source: Any) -> str:
    return f" ({source.file}:{source.line})" if source is not None else ""


def jacobian_plan(
    f: Callable[..., Any], argnums: Any, given: Arguments, mode: str, pattern: Any
) -> Compressed:
    """The plan for the Jacobian of f: by columns, by rows, or the one with fewer products."""
    verb = "fg.sparse.jacobian"
    pushed = pulled = None
    if mode != "reverse":
        try:
            pushed = Derivative(f, argnums, given, verb, forward)
        except MissingRuleError:
            if mode == "forward":
                raise
    if pushed is None:
        pulled = Derivative(f, argnums, given, verb, reverse)
    one: Any = pushed or pulled
    shape = (sum(t.size for t in one.outputs), sum(t.size for t in one.inputs))
    parts = None
    if pattern is not None:
        known = given_pattern(pattern, shape)
    elif pushed is not None:
        parts = _found(pushed)
        known = parts[2].pattern
    else:
        assert pulled is not None
        known = canonical(found_pattern(pulled).T.tocsr())
    if pushed is not None:
        groups = coloured_columns(known)
        if mode == "auto":
            plan = None if parts is None else _partially_separable(pushed, groups, *parts)
            if plan is not None:
                return plan
            pulled = _cheaper(f, argnums, given, known, groups)
        if pulled is None:
            return Compressed(pushed, known, groups, (groups[known.indices], rows_of(known)))
    assert pulled is not None
    rows = coloured_columns(known.T.tocsr())
    read = (rows[rows_of(known)], known.indices)
    if pushed is not None:  # the groups that the user sees stay those of columns
        return Compressed(pushed, known, groups, read, pulled=(pulled, rows, None))
    return Compressed(pulled, known, rows, read, by_rows=True)


def _partially_separable(
    pushed: Derivative, groups: np.ndarray, first: Reads, rest: Pattern, made: Entries
) -> Compressed | None:
    """The plan by colours of the rows of g's Jacobian in f(x) = g(gather(x)); None if these are no
    fewer.
    """
    arrays = (*first.graph.inputs[pushed.residuals :], *first.graph.outputs)
    mixed = len({v.type.dtype for v in arrays}) != 1  # cotangents have the dtype of the reads
    if mixed or not 0 < rest.nnz <= MAX_FILL * made.pattern.nnz:
        return None
    rows = _fewer(rest, int(groups.max(initial=-1)) + 1)
    pulled = None if rows is None else transposed(pushed, first.graph)
    if rows is None or pulled is None:
        return None
    read = rows[rows_of(rest)][made.order], rest.indices[made.order]
    return Compressed(pushed, made.pattern, groups, read, pulled=(pulled, rows, made.starts))


def _fewer(pattern: Pattern, products: int) -> np.ndarray | None:
    """Groups of rows that cost less than `products` forward products, or None.

    The entries of a column bound the number of groups of rows from below.
    """
    longest = int(np.bincount(pattern.indices, minlength=1).max(initial=0))
    if PULLBACK * longest >= products:
        return None
    groups = coloured_columns(pattern.T.tocsr())
    return groups if PULLBACK * (groups.max(initial=-1) + 1) < products else None


def _cheaper(
    f: Callable[..., Any], argnums: Any, given: Arguments, pattern: Pattern, groups: np.ndarray
) -> Derivative | None:
    """The reverse derivative if groups of rows cost less, else None."""
    if _fewer(pattern, int(groups.max(initial=-1)) + 1) is None:
        return None
    try:
        return Derivative(f, argnums, given, "fg.sparse.jacobian", reverse)
    except MissingRuleError:
        return None


def hessian_plan(f: Callable[..., Any], argnums: Any, given: Arguments, pattern: Any) -> Compressed:
    """The plan for the Hessian of f; each entry is read from one of two columns."""
    derivative = Derivative(f, argnums, given, "fg.sparse.hessian", second)
    size = sum(t.size for t in derivative.inputs)
    if pattern is not None:
        known = given_pattern(pattern, (size, size))
    else:
        known = found_pattern(derivative)
    known = canonical(known + known.T.tocsr())
    groups = coloured_symmetric(known)
    rows, columns = rows_of(known), known.indices
    keys = rows.astype(np.int64) * (int(groups.max(initial=0)) + 1) + groups[columns]
    counts = np.bincount(keys)
    alone = counts[keys] == 1  # the only one of its colour in its row
    read = (np.where(alone, groups[columns], groups[rows]), np.where(alone, rows, columns))
    return Compressed(derivative, known, groups, read)
