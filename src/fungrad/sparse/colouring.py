"""Colouring: which columns of a sparse matrix can be computed together, in one product.

Columns of one colour have no row in common, so each entry of their sum belongs to one of them. For
a symmetric matrix a star colouring does with fewer: each entry (i, j) can be read off column i or
column j. Algorithm 4.1 of Gebremedhin, Tarafdar, Manne and Pothen, SIAM J. Sci. Comput. 29 (2007)
1042, made incremental.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.sparse.patterns import Pattern, scipy_sparse

FEW = 2_000
"""How many columns a star colouring is always tried for: a few ms."""

UNEVEN = 2.0
"""How many times as many colours as a mean row has entries make a star colouring worth its time."""


def columns(pattern: Pattern) -> np.ndarray:
    """Groups 0, 1, ... of columns, such that no two columns of a group share a row.

    Columns are taken in their order; each gets the first group that fits.
    """
    try:
        from scipy.optimize._numdiff import group_columns
    except ImportError:  # SciPy's function is not a public one
        return _columns(pattern)
    if not pattern.shape[1]:
        return np.zeros(0, np.int64)
    groups = group_columns(pattern, order=np.arange(pattern.shape[1]))
    return np.asarray(groups, np.int64)


def _columns(pattern: Pattern) -> np.ndarray:
    """`columns` in plain Python."""
    of_column = pattern.tocsc()
    groups = np.zeros(pattern.shape[1], np.int64)
    used: list[set[int]] = [set() for _ in range(pattern.shape[0])]
    for j in range(pattern.shape[1]):
        rows = of_column.indices[of_column.indptr[j] : of_column.indptr[j + 1]]
        taken = set().union(*[used[i] for i in rows])
        group = 0
        while group in taken:
            group += 1
        groups[j] = group
        for i in rows:
            used[i].add(group)
    return groups


def star(pattern: Pattern) -> np.ndarray:
    """Groups of the columns of a symmetric matrix, such that each path of 4 columns has 3 colours.

    Two columns that share an entry have different colours. Vertices are taken by falling degree.
    """
    size = pattern.shape[0]
    indptr, indices = pattern.indptr.tolist(), pattern.indices.tolist()
    around = [[i for i in indices[indptr[v] : indptr[v + 1]] if i != v] for v in range(size)]
    colours = [-1] * size
    seen: list[dict[int, list[int]]] = [{} for _ in range(size)]
    """For each vertex its coloured neighbours, by colour."""
    closed: list[set[int]] = [set() for _ in range(size)]
    """For each coloured vertex the colours that would end a path of two colours through it."""
    for v in sorted(range(size), key=lambda v: -len(around[v])):
        taken = set()
        for w in around[v]:
            if colours[w] < 0:
                continue
            taken.add(colours[w])
            if len(seen[v][colours[w]]) > 1:
                taken.update(seen[w])  # w - v - w' with one colour: no neighbour of w like v
            else:
                taken |= closed[w]
        colour = 0
        while colour in taken:
            colour += 1
        colours[v] = colour
        for x in around[v]:
            same = seen[x].setdefault(colour, [])
            same.append(v)
            if colours[x] >= 0 and len(same) > 1:  # same - x - same: x is between two of a colour
                for w in same if len(same) == 2 else (v,):
                    closed[w].add(colours[x])
        for same in seen[v].values():
            if len(same) > 1:
                for w in same:
                    closed[w].add(colour)
    return np.array(colours, np.int64)


def symmetric(pattern: Pattern) -> np.ndarray:
    """Groups of the columns of a symmetric matrix: a star colouring where it may have fewer.

    Where all rows have about as many entries, columns that share no row need hardly more groups,
    and are found much faster.
    """
    groups = columns(pattern)
    even = groups.max(initial=-1) + 1 <= UNEVEN * pattern.nnz / max(pattern.shape[0], 1)
    if not groups.size or (even and groups.size > FEW):
        return groups
    stars = star(pattern)
    return stars if stars.max() < groups.max() else groups


def colour(pattern: Any, kind: str = "columns") -> np.ndarray:
    """Groups of columns, or rows, of a sparse matrix that one product can serve.

    Args:
      pattern: a matrix, sparse or dense; what is not zero counts.
      kind: "columns": no two columns of a group share a row; "rows": no two rows of a group share a
        column; "symmetric": each entry of a symmetric matrix can be read off one of two columns.

    Returns:
      An integer array with the group, 0, 1, ..., of each column (row).

    >>> colour(np.array([[1, 1, 0], [0, 1, 1]]))
    array([0, 1, 0])
    """
    matrix = scipy_sparse().csr_array(pattern)
    matrix = scipy_sparse().csr_array(matrix != 0)
    if kind == "columns":
        return columns(matrix)
    if kind == "rows":
        return columns(matrix.T.tocsr())
    if kind == "symmetric":
        if matrix.shape[0] != matrix.shape[1] or (matrix != matrix.T).nnz:
            raise ArgumentError(f"The pattern of shape {matrix.shape} is not symmetric.")
        return symmetric(matrix)
    raise ArgumentError(f'kind={kind!r} is not "columns", "rows" or "symmetric".')


__all__ = ["colour"]
