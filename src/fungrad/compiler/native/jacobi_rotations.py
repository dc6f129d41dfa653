"""Eigenvalues and eigenvectors of stacks of small symmetric matrices, by Jacobi's rotations of
their elements.

G. Golub and C. Van Loan, Matrix Computations, 8.5.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

Select = Callable[[Any, Any, Any], Any]

SWEEPS = {1: 0, 2: 1, 3: 4}
"""How often each element beside the diagonal is made zero, by the number of rows."""
LARGEST = float(np.finfo(np.float64).max) / 8
"""Larger elements have differences that overflow."""


def diagonalised(
    select: Select, a: dict[tuple[int, int], Any], n: int
) -> tuple[list[Any], list[list[Any]], Any]:
    """The eigenvalues, ascending, the columns of vectors, and whether only rounding
    errors are left beside the diagonal.

    Args:
      select: see `Arithmetic`.
      a: the elements of the lower triangles; it is overwritten.
      n: the number of rows.
    """
    size = functools.reduce(np.maximum, [abs(x) for x in a.values()])
    v: list[list[Any]] = [[float(i == j) for j in range(n)] for i in range(n)]
    pairs = list(itertools.combinations(range(n), 2))
    for p, q in pairs * SWEEPS[n]:
        _rotate(select, a, v, p, q)
    w = [a[k, k] for k in range(n)]
    limit = 4 * np.finfo(np.float64).eps * size
    done = [abs(a[q, p]) <= limit for p, q in pairs] + [size < LARGEST]
    for end in range(n - 1, 0, -1):
        for k in range(end):
            _order(select, w, v, k)
    return w, v, functools.reduce(lambda x, y: x & y, done)


def _rotate(
    select: Select, a: dict[tuple[int, int], Any], v: list[list[Any]], p: int, q: int
) -> None:
    """Makes the element (q, p) zero, by the smaller of two angles."""
    x = a[q, p]
    ratio = (a[q, q] - a[p, p]) / (2.0 * x)
    size = 1.0 / (abs(ratio) + np.sqrt(1.0 + ratio * ratio))
    tangent = select(x == 0.0, 0.0, select(ratio < 0.0, -size, size))
    cosine = 1.0 / np.sqrt(1.0 + tangent * tangent)
    sine = tangent * cosine
    a[p, p], a[q, q], a[q, p] = a[p, p] - tangent * x, a[q, q] + tangent * x, x * 0.0
    n = len(v)
    for k in range(n):
        if k not in (p, q):
            one, other = (max(k, p), min(k, p)), (max(k, q), min(k, q))
            a[one], a[other] = cosine * a[one] - sine * a[other], sine * a[one] + cosine * a[other]
    for row in v:
        row[p], row[q] = cosine * row[p] - sine * row[q], sine * row[p] + cosine * row[q]


def _order(select: Select, w: list[Any], v: list[list[Any]], k: int) -> None:
    """Exchanges two neighbours if the second is smaller."""
    wrong = w[k] > w[k + 1]
    for row in (w, *v):
        x, y = row[k], row[k + 1]
        row[k], row[k + 1] = select(wrong, y, x), select(wrong, x, y)
