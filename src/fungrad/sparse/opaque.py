"""The patterns of opaque functions: what `fg.external(f, sparsity=)` declares, and batches of them.

A batch of calls has a block for each example, also where nothing is declared.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.host.host_function import BatchedHost, Host, Sparsity
from fungrad.sparse.patterns import LIMIT, repeated, scipy_sparse, union
from fungrad.support import pytree
from fungrad.tracing.source_location import describe


def called(equation: Any, given: Sequence[Any], count: int) -> list[Any] | None:
    """The patterns of the results of an opaque function for those of its arguments."""
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
    """For each argument the elements of all results that depend on its elements; None: all do."""
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
    found: list[Any] = [None] * len(sizes)
    for slot, matrix in zip(host.arguments.slots, by_leaf, strict=True):
        if slot is not None:
            found[slot] = matrix
    return found


def _repeated(entries: Any, size: int, batched: bool, rows: Sequence[int], count: int) -> Any:
    """The entries for a batch: a block for each example, one below another if it is shared."""
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
    """For each leaf of a call's arguments the declared entries by it."""
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
    found = [pulled[:, a:b] for a, b in itertools.pairwise(ends)]
    return found + [None] * (rest - len(found))


def _declared(host: Host, known: Sparsity) -> list[Any]:
    """The user's matrices, cut into one for each leaf of the arguments."""
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
    found: list[Any] = []
    for matrix, leaves in zip(matrices, sizes, strict=True):
        ends = itertools.pairwise(np.cumsum([0, *leaves]).tolist())
        found += [None if matrix is None else matrix[:, a:b].tocsr() for a, b in ends]
    return found


__all__ = ["called"]
