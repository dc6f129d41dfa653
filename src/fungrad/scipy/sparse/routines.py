"""Counterparts of the compiled routines of scipy.sparse for traced data.

A routine that moves data (a slice, a transpose, another format) is run by SciPy on the positions
of the data, and the data follow by a gather. One that computes is a gather, a product and a sum by
rows, in O(nonzeros). Each takes SciPy's routine and its arguments, and writes into the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.movement.gather import ARRAY, Index, getitem, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import cast, concatenate, reshape
from fungrad.scipy.optional import scipy_module
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of, typeof

Routine = Callable[..., Any]
Elements = tuple[Any, Any, Any]
"""The numbers of a matrix that are stored, and the row and the column of each."""


def taken(data: Any, positions: Any) -> Any:
    """The elements of flat data at these positions."""
    return getitem(data, np.asarray(positions, np.intp), index=Index((ARRAY,)))


def sums(values: Any, positions: Any, count: int) -> Any:
    """The sums of the rows of `values` that have the same position, for `count` positions."""
    shape = (count, *shape_of(values)[1:])
    return scatter(values, np.asarray(positions, np.intp), index=Index((ARRAY,)), shape=shape)


def flat(data: Any) -> Any:
    """Data as a traced vector."""
    data = array_of(data)
    return (
        data if len(shape_of(data)) == 1 else reshape(data, shape=(int(np.prod(shape_of(data))),))
    )


def rows_of(pointers: Any) -> Any:
    """The row of each element of compressed rows."""
    return np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))


def _put(out: Any, values: Any) -> None:
    """Writes values into an array that SciPy made for them, as many as there are."""
    count = shape_of(values)[0]
    if len(shape_of(out)) == 1:
        out[:count] = values
    else:
        out[...] = reshape(values, shape=shape_of(out))


def _add(out: Any, values: Any) -> None:
    """Adds values to an array that SciPy made."""
    out[...] = out + reshape(values, shape=shape_of(out))


def _numbered(data: Any) -> Any:
    """1, 2, 3, ... in the shape of data: 0 is where there are none."""
    shape = shape_of(data)
    return np.arange(1, int(np.prod(shape)) + 1, dtype=np.int64).reshape(shape)


def _following(data: Any, positions: Any) -> Any:
    """The data at positions that begin at 1, and 0 for position 0."""
    data, positions = flat(data), np.ravel(positions)
    if not np.all(positions):
        zero = np.zeros(1, typeof(data).dtype)
        return taken(concatenate(zero, data, axis=0), positions)
    return taken(data, positions - 1)


def _moving(source: int, target: int, once: bool = False) -> Routine:
    """The counterpart of a routine that moves the data of one argument into another one. `once`:
    SciPy's would add the data of elements that are stored twice.
    """

    def routine(original: Routine, *args: Any) -> Any:
        data, out = args[source], args[target]
        given = list(args)
        given[target] = np.zeros(shape_of(out), np.int64)
        given[source] = _numbered(data)  # in place where both are one
        if once:
            _require_once(original, given, source, target)
        result = original(*given)
        _put(out, _following(data, given[target]))
        return result

    return routine


def _require_once(original: Routine, given: list[Any], source: int, target: int) -> None:
    """Raises if elements are stored more than once, which the routine would add."""
    ones, counts = list(given), np.zeros_like(given[target])
    ones[source], ones[target] = np.ones_like(given[source]), counts
    original(*ones)
    if np.any(counts > 1):
        raise UnsupportedArgumentError(
            f"A sparse matrix with traced data stores an element twice{user_line()}. Call "
            "sum_duplicates() first."
        )


coo_tocsr = _moving(5, 8)
csr_tocsc = _moving(4, 7)
csr_tobsr = _moving(6, 9, once=True)
bsr_tocsr = _moving(6, 9)
bsr_transpose = _moving(6, 9)
bsr_sort_indices = _moving(6, 6)
bsr_diagonal = _moving(7, 8, once=True)
csr_diagonal = _moving(5, 6, once=True)
csc_diagonal = csr_diagonal
csr_sort_indices = _moving(3, 3)
csr_row_index = _moving(4, 6)
csr_row_slice = _moving(5, 7)
csr_column_index2 = _moving(4, 6)
csr_sample_values = _moving(4, 8, once=True)
csr_hstack = _moving(5, 8)
dia_tocsr = _moving(5, 7)


def get_csr_submatrix(original: Routine, *args: Any) -> Any:
    """The part of a matrix with these rows and columns."""
    given = list(args)
    given[4] = _numbered(args[4])
    pointers, indices, positions = original(*given)
    return pointers, indices, _following(args[4], positions)


def csr_eliminate_zeros(original: Routine, *args: Any) -> None:
    """Leaves all elements, whose numbers may not be known."""


# --- sums -------------------------------------------------------------------------------------


def csr_sum_duplicates(
    original: Routine, rows: int, columns: int, pointers: Any, indices: Any, data: Any
) -> None:
    """Adds elements of the same row and column, which are sorted, in place."""
    row = rows_of(pointers)
    first = np.append(True, (np.diff(row) != 0) | (np.diff(indices[: len(row)]) != 0))[: len(row)]
    position = np.cumsum(first) - 1
    added = sums(taken(flat(data), np.arange(len(row))), position, int(np.sum(first)))
    original(rows, columns, pointers, indices, np.zeros(len(indices)))
    _put(data, added)


def _dense(out: Any, positions: Any, data: Any) -> None:
    count = int(np.prod(shape_of(out)))
    _add(out, sums(flat(data), positions, count))


def csr_todense(
    original: Routine, rows: int, columns: int, pointers: Any, indices: Any, data: Any, out: Any
) -> None:
    """Adds a matrix to a dense one."""
    _dense(out, rows_of(pointers) * columns + indices, data)


def coo_todense(
    original: Routine,
    rows: int,
    columns: int,
    count: int,
    row: Any,
    column: Any,
    data: Any,
    out: Any,
    fortran: int,
) -> None:
    """Adds a matrix to a dense one."""
    row, column = np.asarray(row, np.intp), np.asarray(column, np.intp)
    _dense(out, column * rows + row if fortran else row * columns + column, data)


# --- products ---------------------------------------------------------------------------------


def _of_rows(rows: int, columns: int, pointers: Any, indices: Any, data: Any) -> Elements:
    return flat(data), rows_of(pointers), indices


def _of_columns(rows: int, columns: int, pointers: Any, indices: Any, data: Any) -> Elements:
    return flat(data), indices, rows_of(pointers)


def _of_coordinates(nonzeros: int, row: Any, column: Any, data: Any) -> Elements:
    return flat(data), row, column


def _of_diagonals(
    rows: int, columns: int, count: int, length: int, offsets: Any, data: Any
) -> Elements:
    position = np.arange(len(offsets) * length).reshape(len(offsets), length)
    column = np.broadcast_to(np.arange(length), position.shape)
    row = column - np.asarray(offsets, np.intp)[:, None]
    inside = (row >= 0) & (row < rows) & (column < columns)
    return taken(flat(data), position[inside]), row[inside], column[inside]


def _of_blocks(
    rows: int, columns: int, height: int, width: int, pointers: Any, indices: Any, data: Any
) -> Elements:
    block_row = rows_of(pointers)
    inner_row, inner_column = np.divmod(np.arange(height * width), width)
    row = block_row[:, None] * height + inner_row
    column = np.asarray(indices, np.intp)[: len(block_row), None] * width + inner_column
    return flat(data), np.ravel(row), np.ravel(column)


def _times(elements: Callable[..., Elements], count_at: int | None = None) -> Routine:
    """The counterpart of a routine that adds matrix @ x to its last argument.

    Args:
      elements: the nonzeros of the matrix, with their rows and columns, by its arguments.
      count_at: the position of the number of vectors side by side in x; None for one vector.
    """

    def routine(original: Routine, *args: Any) -> None:
        *matrix, x, out = args
        count = None if count_at is None else matrix.pop(count_at)
        data, row, column = elements(*matrix)
        size = int(np.prod(shape_of(out)))
        if count is None:
            _add(out, sums(data * taken(flat(x), column), row, size))
        elif size:
            given = int(np.prod(shape_of(x))) // count
            picked = taken(reshape(array_of(x), shape=(given, count)), column)
            products = reshape(data, shape=(len(row), 1)) * picked
            _add(out, sums(products, row, size // count))

    return routine


csr_matvec, csr_matvecs = _times(_of_rows), _times(_of_rows, 2)
csc_matvec, csc_matvecs = _times(_of_columns), _times(_of_columns, 2)
coo_matvec, coo_matmat_dense = _times(_of_coordinates), _times(_of_coordinates, 1)
dia_matvec, dia_matvecs = _times(_of_diagonals), _times(_of_diagonals, 6)
bsr_matvec, bsr_matvecs = _times(_of_blocks), _times(_of_blocks, 2)


def pairs(pointers: Any, indices: Any, other_pointers: Any) -> tuple[Any, Any]:
    """The pairs of elements that a product of two matrices of compressed rows multiplies: their
    positions in both.
    """
    counts = np.diff(other_pointers)[indices]
    left = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return left, np.arange(len(left)) - starts[left] + other_pointers[indices][left]


def csr_matmat(
    original: Routine, rows: int, columns: int, p: Any, j: Any, x: Any, q: Any, k: Any, y: Any,
    pointers: Any, indices: Any, out: Any,
) -> None:  # fmt: skip
    """The product of two matrices."""
    count = len(indices)
    original(rows, columns, p, j, np.ones(len(j)), q, k, np.ones(len(k)), pointers, indices,
             np.zeros(count))  # fmt: skip
    entries = int(pointers[-1])
    left, right = pairs(p, j, q)
    keys = rows_of(pointers) * columns + indices[:entries]
    order = np.argsort(keys)
    wanted = rows_of(p)[left] * columns + np.asarray(k, np.intp)[right]
    position = order[np.searchsorted(keys, wanted, sorter=order)]
    _put(out, sums(taken(flat(x), left) * taken(flat(y), right), position, entries))


# --- elements of two matrices -----------------------------------------------------------------


def _union(add: Routine, args: Any) -> tuple[Any, Any, Any, Any]:
    """Writes the structure of a sum; returns the position of each element in both data, from 1."""
    rows, columns, p, j, _, q, k, _, pointers, indices, out = args
    scale = len(k) + 1
    codes = np.zeros(shape_of(out), np.int64)
    left = np.arange(1, len(j) + 1, dtype=np.int64) * scale
    add(rows, columns, p, j, left, q, k, np.arange(1, scale, dtype=np.int64), pointers, indices,
        codes)  # fmt: skip
    first, second = np.divmod(codes[: int(pointers[-1])], scale)
    return first, second, out, pointers


def _both(combine: Callable[[Any, Any], Any]) -> Routine:
    """The counterpart of a routine on the elements that either matrix has."""

    def routine(original: Routine, *args: Any) -> None:
        add = _plain("csr_plus_csr")
        first, second, out, _ = _union(add, args)
        value = combine(_following(args[4], first), _following(args[7], second))
        dtype = typeof(out).dtype
        _put(out, value if typeof(value).dtype == dtype else cast(value, dtype=dtype))

    return routine


def _plain(name: str) -> Routine:
    """SciPy's routine, also while it is replaced."""
    return vars(scipy_module("scipy.sparse._sparsetools"))[name]  # type: ignore[no-any-return]


csr_plus_csr = _both(lambda x, y: x + y)
csr_minus_csr = _both(lambda x, y: x - y)
csr_eldiv_csr = _both(lambda x, y: x / y)
csr_maximum_csr = _both(np.maximum)
csr_minimum_csr = _both(np.minimum)
csr_ne_csr = _both(lambda x, y: x != y)


def csr_elmul_csr(original: Routine, *args: Any) -> None:
    """The products of the elements that both matrices have."""
    rows, columns, p, j, x, q, k, y, pointers, indices, out = args
    entries = []
    one, other = np.ones(len(j), np.int64), np.ones(len(k), np.int64)
    for left, right in ((_numbered(j), other), (one, _numbered(k))):
        positions = np.zeros(shape_of(out), np.int64)
        original(rows, columns, p, j, left, q, k, right, pointers, indices, positions)
        entries.append(positions[: int(pointers[-1])])
    _put(out, _following(x, entries[0]) * _following(y, entries[1]))
