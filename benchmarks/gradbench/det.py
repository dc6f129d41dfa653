"""The eval `det`: the determinant by expansion along the first row, without sharing of minors.

The expansion goes level by level over batches [m, m, c] of matrices; matrices of order 4 are
written out. From order 9 on the first row's choices are taken one after another, for memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import fungrad as fg
from fungrad import lax

WRITTEN_OUT, AT_ONCE = 4, 8


def written_out(rows: Any, columns: tuple[int, ...], first: int) -> Any:
    """The determinants of the rows from `first` on and of some columns of [m, m, c]."""
    if len(columns) == 1:
        return rows[first][columns[0]]
    total = None
    for n, column in enumerate(columns):
        minor = written_out(rows, columns[:n] + columns[n + 1 :], first + 1)
        term = rows[first][column] * minor
        total = term if total is None else total - term if n % 2 else total + term
    return total


def signs(m: int) -> Any:
    """1, -1, 1, ..., as a column."""
    return np.array([1.0 - 2.0 * (n % 2) for n in range(m)])[:, None]


def minors(a: Any) -> Any:
    """The m matrices without the first row and one of the columns: [m - 1, m - 1, m, c]."""
    m = a.shape[0]
    kept = [
        np.concatenate([a[1:, :column], a[1:, column + 1 :]], axis=1) if 0 < column < m - 1
        else a[1:, 1:] if column == 0 else a[1:, :-1]
        for column in range(m)
    ]  # fmt: skip
    return np.stack(kept, axis=2)


def determinants(a: Any) -> Any:
    """The determinants [c] of matrices [m, m, c]."""
    m, _, count = a.shape
    if m <= WRITTEN_OUT:
        rows = [[a[i, j] for j in range(m)] for i in range(m)]
        return written_out(rows, tuple(range(m)), 0)
    below = determinants(minors(a).reshape(m - 1, m - 1, m * count)).reshape(m, count)
    return np.sum(signs(m) * a[0] * below, axis=0)


def determinant(flat: Any, ell: int) -> Any:
    """The determinant of a matrix given row by row."""
    return expanded(flat.reshape(ell, ell, 1))[0]


def expanded(a: Any) -> Any:
    """As `determinants`, with few of the largest minors in memory at a time."""
    m = a.shape[0]
    if m <= AT_ONCE:
        return determinants(a)

    def one(total: Any, choice: tuple[Any, Any]) -> tuple[Any, None]:
        entry, minor = choice
        return total + entry * fg.checkpoint(expanded)(minor), None

    choices = (signs(m) * a[0], np.transpose(minors(a), (2, 0, 1, 3)))
    return lax.scan(one, np.zeros(a.shape[2]), choices)[0]


def prepared(f: Callable[..., Any]) -> Callable[[Mapping[str, Any]], tuple[Any, Any]]:
    """Decodes the matrix for a function of it and its order."""

    def prepare(given: Mapping[str, Any]) -> tuple[Any, Any]:
        a, ell = np.asarray(given["A"]), given["ell"]
        return lambda: f(a, ell), lambda out: out.tolist()

    return prepare


FUNCTIONS = {
    "primal": prepared(fg.jit(determinant, static_argnums=1)),
    "gradient": prepared(fg.jit(fg.grad(determinant), static_argnums=1)),
}
