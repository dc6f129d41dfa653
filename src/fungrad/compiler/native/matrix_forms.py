"""Equations on matrices of a few rows, and along one short axis, as arithmetic on their elements.

The elements are numbers of the program that is written (programs.py), or arrays of those of all
matrices of a stack, which a trace records (short_axes.py). They differ by their `Arithmetic`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.jacobi_rotations import diagonalised
from fungrad.ir.graph import Equation
from fungrad.primitives.linalg.cholesky_pullback import cholesky_pullback
from fungrad.primitives.linalg.cholesky_qr import cholesky, hermitian_weights
from fungrad.primitives.linalg.determinant import cofactors, det, slogdet
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.primitives.linalg.spectra import eigenspaces, eigvalsh, shares
from fungrad.primitives.movement.diagonal_roll import from_diagonal
from fungrad.primitives.reduction.cumulative import cumprod, cumsum, linear_recurrence
from fungrad.primitives.reduction.reduce import product_of_others, reduce_prod
from fungrad.support.lazy import Record
from fungrad.support.rules import Rules

Elements = Any
"""An array of objects: for each index along the short axes an element."""


class Arithmetic(Protocol):
    """What forms do with elements besides operators and NumPy's ufuncs."""

    def leave(self, condition: Any) -> None:
        """Leaves the program to NumPy where a condition holds."""

    def select(self, condition: Any, x: Any, y: Any) -> Any:
        """x where a condition holds, else y."""

    def typed(self, number: float, like: Any) -> Any:
        """A number of the dtype of an element."""

    def double(self, x: Any) -> Any:
        """An element in double precision."""


class Form(Record):
    """An equation on the elements of its operands.

    Attributes:
      write: `write(on, *elements, **params)`, the elements of the results, by an `Arithmetic`.
      rows: the most elements of each short axis.
      axes: how many axes after those of the stack the operands have.
    """

    write: Callable[..., Sequence[Elements]]
    rows: int
    axes: int = 2


FORMS = Rules(Form)
"""Equations on matrices."""


class _Factors:
    """The upper triangles of matrices, by elimination with exchanges of rows. A matrix that is not
    finite, where LAPACK places NaN by the pivots that it has chosen, is left to NumPy.

    Attributes:
      rows: the rows after elimination, each with what stood after it.
      pivots: the diagonal of the triangles.
      sign: the signs of the permutations.
    """

    def __init__(self, on: Arithmetic, rows: list[list[Any]], count: int) -> None:
        self.rows, self.sign = rows, 1.0
        for k in range(count):
            for i in range(k + 1, count):
                larger = abs(rows[i][k]) > abs(rows[k][k])
                for n in range(k, len(rows[k])):
                    x, y = rows[k][n], rows[i][n]
                    if x is not y:
                        rows[k][n], rows[i][n] = on.select(larger, y, x), on.select(larger, x, y)
                self.sign = on.select(larger, -self.sign, self.sign)
            for i in range(k + 1, count):
                factor = rows[i][k] / rows[k][k]
                for n in range(k + 1, len(rows[i])):
                    rows[i][n] = rows[i][n] - factor * rows[k][n]
        self.pivots = [rows[k][k] for k in range(count)]
        for p in self.pivots:
            on.leave(p - p != 0.0)

    def determinant(self, on: Arithmetic, size: Any, of_singular: float) -> tuple[Any, Any]:
        """The sign of the determinant, 0 if a pivot is, and its size, then `of_singular`."""
        sign = self.sign
        for p in self.pivots:
            sign = on.select(p < 0.0, -sign, sign)
        singular = functools.reduce(_or, [p == 0.0 for p in self.pivots])
        return on.select(singular, 0.0, sign), on.select(singular, of_singular, size)


def _or(x: Any, y: Any) -> Any:
    return x | y


def _sum(xs: Sequence[Any]) -> Any:
    return functools.reduce(lambda x, y: x + y, xs)


def _rows(a: Elements) -> list[list[Any]]:
    return [list(row) for row in a]


def _matrix(rows: Sequence[Sequence[Any]]) -> Elements:
    found = np.empty((len(rows), len(rows[0])), object)
    for i, j in np.ndindex(*found.shape):
        found[i, j] = rows[i][j]
    return found


def _filled(shape: Sequence[int], x: Any) -> Elements:
    return _matrix([[x] * shape[1]] * shape[0])


def _double(on: Arithmetic, a: Elements) -> Elements:
    """The elements in double precision, in which NumPy's LAPACK computes."""
    found = np.empty(a.shape, object)
    for place in np.ndindex(*a.shape):
        found[place] = on.double(a[place])
    return found


def _number(on: Arithmetic, a: Elements, number: float) -> Any:
    """A number of the dtype of a matrix's elements."""
    return on.typed(number, a.reshape(-1)[0])


@FORMS.rule(solve, rows=tuned.unrolled_rows)
def _solve(on: Arithmetic, a: Elements, b: Elements, *, triangle: str) -> Sequence[Elements]:
    a, b = _double(on, a), _double(on, b)
    if triangle:
        return [_substituted(on, a, b, triangle == "lower")]
    rows = [[*x, *y] for x, y in zip(a, b, strict=True)]
    _Factors(on, rows, len(a))
    upper = _matrix(rows)
    return [_substituted(on, upper[:, : len(a)], upper[:, len(a) :], lower=False)]


def _substituted(on: Arithmetic, a: Elements, b: Elements, lower: bool) -> Elements:
    """The solution of a triangular system; a zero on the diagonal leaves it to NumPy."""
    count, found = len(a), dict[int, list[Any]]()
    for k in range(count) if lower else range(count - 1, -1, -1):
        on.leave(a[k, k] == 0.0)
        row = list(b[k])
        for j, x in found.items():
            row = [y - a[k, j] * z for y, z in zip(row, x, strict=True)]
        found[k] = [y / a[k, k] for y in row]
    return _matrix([found[k] for k in range(count)])


@FORMS.rule(inv, rows=tuned.unrolled_rows)
def _inv(on: Arithmetic, a: Elements) -> Sequence[Elements]:
    zero, one = _number(on, a, 0.0), _number(on, a, 1.0)
    eye = [[one if i == j else zero for j in range(len(a))] for i in range(len(a))]
    return _solve(on, a, _matrix(eye), triangle="")


@FORMS.rule(slogdet, rows=tuned.unrolled_rows)
def _slogdet(on: Arithmetic, a: Elements) -> Sequence[Elements]:
    factors = _Factors(on, _rows(_double(on, a)), len(a))
    size = _sum([np.log(abs(p)) for p in factors.pivots])
    return factors.determinant(on, size, float("-inf"))


@FORMS.rule(det, rows=tuned.unrolled_rows)
def _det(on: Arithmetic, a: Elements) -> Sequence[Elements]:
    factors = _Factors(on, _rows(_double(on, a)), len(a))
    sign, size = factors.determinant(on, _of_extremes([abs(p) for p in factors.pivots]), 0.0)
    return [sign * size]


def _of_extremes(sizes: list[Any]) -> Any:
    """The product of positive numbers, which overflows only if the exact product does: of the
    largest and the smallest first.
    """
    while len(sizes) > 2:
        for end in range(len(sizes) - 1, 0, -1):  # sorted
            for i in range(end):
                x, y = sizes[i], sizes[i + 1]
                sizes[i], sizes[i + 1] = np.minimum(x, y), np.maximum(x, y)
        half = len(sizes) // 2
        middle = sizes[half : half + len(sizes) % 2]
        sizes = [x * y for x, y in zip(sizes[:half], reversed(sizes), strict=False)] + middle
    return sizes[0] * sizes[1] if len(sizes) == 2 else sizes[0]


@FORMS.rule(cofactors, rows=tuned.unrolled_minors)
def _cofactors(on: Arithmetic, a: Elements) -> Sequence[Elements]:
    """The minors, with signs; NaN for matrices that are not finite. Where their terms cancel to
    less than half of the digits, as near matrices of rank count - 2, they are left to NumPy.
    """
    a, count = _double(on, a), len(a)
    if count == 1:
        return [_matrix([[_number(on, a, 1.0)]])]
    everywhere = _sum([x * 0.0 for x in a.reshape(-1)])
    minors: dict[tuple[Any, Any], Any] = {((), ()): None}
    for size in range(1, count):
        for rows in itertools.combinations(range(count), size):
            for columns in itertools.combinations(range(count), size):
                minors[rows, columns] = _expanded(a, rows, columns, minors)
    found = np.empty((count, count), object)
    for i, j in np.ndindex(count, count):
        rest = [tuple([k for k in range(count) if k != n]) for n in (i, j)]
        minor = minors[rest[0], rest[1]]
        found[i, j] = everywhere + (-minor if (i + j) % 2 else minor)
    if count > 3:
        sizes = [_sum([abs(x) for x in row]) for row in a]
        kept = _sum([_sum([abs(x) for x in row]) * y for row, y in zip(found, sizes, strict=True)])
        terms = functools.reduce(lambda x, y: x * y, sizes)
        on.leave(kept < 4 * float(np.finfo(a[0, 0].dtype).eps) ** 0.5 * terms)
    return [found]


def _expanded(a: Elements, rows: Any, columns: Any, minors: Mapping[Any, Any]) -> Any:
    """A minor, expanded along its first row."""
    total = None
    for n, column in enumerate(columns):
        rest = minors[rows[1:], (*columns[:n], *columns[n + 1 :])]
        term = a[rows[0], column] if rest is None else a[rows[0], column] * rest
        total = term if total is None else total - term if n % 2 else total + term
    return total


@FORMS.rule(cholesky, rows=tuned.unrolled_rows)
def _cholesky(on: Arithmetic, a: Elements) -> Sequence[Elements]:
    a = _double(on, a)
    count, zero = len(a), _number(on, a, 0.0)
    found = _filled((count, count), zero)
    for j in range(count):
        pivot = a[j, j]
        for k in range(j):
            pivot = pivot - found[j, k] * found[j, k]
        on.leave(~(pivot > 0.0))
        found[j, j] = np.sqrt(pivot)
        for i in range(j + 1, count):
            total = a[i, j]
            for k in range(j):
                total = total - found[i, k] * found[j, k]
            found[i, j] = total / found[j, j]
    return [found]


@FORMS.rule(cholesky_pullback, rows=tuned.unrolled_rows)
def _cholesky_pullback(on: Arithmetic, y: Elements, ct: Elements) -> Sequence[Elements]:
    """The steps of `_cholesky` backwards."""
    count, y, g = len(y), _double(on, y), _double(on, ct)
    for j in reversed(range(count)):
        for i in reversed(range(j + 1, count)):
            g[i, j] = g[i, j] / y[j, j]
            g[j, j] = g[j, j] - g[i, j] * y[i, j]
            for k in range(j):
                g[i, k] = g[i, k] - g[i, j] * y[j, k]
                g[j, k] = g[j, k] - g[i, j] * y[i, k]
            g[i, j] = g[j, i] = 0.5 * g[i, j]
        g[j, j] = 0.5 * (g[j, j] / y[j, j])
        for k in range(j):
            g[j, k] = g[j, k] - 2.0 * (g[j, j] * y[j, k])
    return [g]


@FORMS.rule(eigvalsh, rows=tuned.unrolled_spectra)
def _eigvalsh(on: Arithmetic, a: Elements, *, lower: bool) -> Sequence[Elements]:
    return _eigenspaces(on, a, lower=lower)[:1]


@FORMS.rule(eigenspaces, rows=tuned.unrolled_spectra)
def _eigenspaces(on: Arithmetic, a: Elements, *, lower: bool) -> Sequence[Elements]:
    count, given = len(a), _double(on, a if lower else a.T)
    below = {(i, j): given[i, j] for i in range(count) for j in range(i + 1)}
    w, v, done = diagonalised(on.select, below, count)
    on.leave(~done)
    values = np.empty(count, object)
    values[:] = w
    return [values, _matrix(v)]


@FORMS.rule(hermitian_weights, rows=tuned.unrolled_rows)
def _weights(on: Arithmetic, a: Elements, *, lower: bool) -> Sequence[Elements]:
    count, dtype = len(a), a[0, 0].dtype
    size = functools.reduce(np.maximum, [abs(x) for x in a.reshape(-1)])
    pairs = [(i, j) for i in range(count) for j in range(i)]
    one = _number(on, a, 1.0)
    if not pairs:
        return [_filled((1, 1), one)]
    error = functools.reduce(np.maximum, [abs(a[i, j] - a[j, i]) for i, j in pairs])
    diagonals = _sum([a[k, k] * 0.0 for k in range(count)])
    hermitian = np.maximum(error, diagonals) <= 4 * count * np.finfo(dtype).eps * size
    found = _filled((count, count), one)
    for i, j in pairs:
        inside, beyond = on.select(hermitian, one, 2.0), on.select(hermitian, one, 0.0)
        found[i, j], found[j, i] = (inside, beyond) if lower else (beyond, inside)
    return [found]


@FORMS.rule(shares, rows=tuned.unrolled_rows, axes=1)
def _shares(on: Arithmetic, w: Elements) -> Sequence[Elements]:
    limit = 4 * len(w) * float(np.finfo(w[0].dtype).eps)
    found, one, zero = _filled((len(w), len(w)), None), _number(on, w, 1.0), _number(on, w, 0.0)
    for i, j in np.ndindex(*found.shape):
        near = abs(w[i] - w[j]) <= limit * np.maximum(abs(w[i]), abs(w[j]))
        found[i, j] = on.select(near, one, zero)
    for row in found:
        total = _sum(row)
        row[:] = [x / total for x in row]
    return [found]


@FORMS.rule(from_diagonal, rows=tuned.unrolled_rows, axes=1)
def _from_diagonal(
    on: Arithmetic, x: Elements, *, offset: int, shape: tuple[int, int]
) -> Sequence[Elements]:
    found = _filled(shape, _number(on, x, 0.0))
    for k, element in enumerate(x):
        found[k - min(offset, 0), k + max(offset, 0)] = element
    return [found]


# --- along one axis -------------------------------------------------------------------------------


def axes_of(equation: Equation) -> tuple[int, ...]:
    """The axes along which such an equation runs."""
    params = equation.params
    return tuple(params["axes"]) if "axes" in params else (params["axis"],)


def along(on: Arithmetic, equation: Equation, *xs: list[Any]) -> Any:
    """The elements of the result along its axis, or one without it."""
    reverse = equation.params.get("reverse", False)
    found = ALONG[equation.primitive](on, *[x[::-1] if reverse else x for x in xs])
    return found[::-1] if reverse and isinstance(found, list) else found


ALONG = Rules()
"""Equations along one short axis, on the list of its elements."""


def _accumulated(operation: Callable[[Any, Any], Any], xs: list[Any]) -> list[Any]:
    return list(itertools.accumulate(xs, operation))


@ALONG.rule(cumsum)
def _sums(on: Arithmetic, xs: list[Any]) -> list[Any]:
    return _accumulated(lambda x, y: x + y, xs)


@ALONG.rule(cumprod)
def _products(on: Arithmetic, xs: list[Any]) -> list[Any]:
    return _accumulated(lambda x, y: x * y, xs)


@ALONG.rule(reduce_prod)
def _of_all(on: Arithmetic, xs: list[Any]) -> Any:
    return functools.reduce(lambda x, y: x * y, xs)


@ALONG.rule(linear_recurrence)
def _recurrence(on: Arithmetic, a: list[Any], u: list[Any]) -> list[Any]:
    found = [u[0]]
    for x, y in zip(a[1:], u[1:], strict=True):
        found.append(x * found[-1] + y)
    return found


@ALONG.rule(product_of_others)
def _others(on: Arithmetic, xs: list[Any]) -> list[Any]:
    one = on.typed(1.0, xs[0])
    before = _accumulated(lambda x, y: x * y, [one, *xs[:-1]])
    after = _accumulated(lambda x, y: x * y, [one, *xs[:0:-1]])[::-1]
    return [x * y for x, y in zip(before, after, strict=True)]
