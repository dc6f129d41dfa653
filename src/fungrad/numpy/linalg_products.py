"""numpy.linalg's products, powers, norms, condition numbers, ranks, and the functions that it
shares with NumPy's main namespace.

A chain of products is computed in the cheapest order.

A norm has the derivative 0 where it is 0, never NaN. If a norm is the largest or smallest of
elements, sums or singular values, ties share the derivative equally, as all ties do.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.numpy import products, reductions, repeat_pad_roll, shaping
from fungrad.numpy.protocol.implements import implements
from fungrad.numpy.protocol.operands import array_of, axes_of, axis_index, flattened, with_axes_kept
from fungrad.numpy.protocol.result_order import results_in_order
from fungrad.primitives.elementwise.family import eq, logical_and, logical_not, mul, ne, select
from fungrad.primitives.linalg import solve as p
from fungrad.primitives.linalg.matrix_parts import bar, real_part
from fungrad.primitives.linalg.solve import inv
from fungrad.primitives.linalg.spectra import eigvalsh, svdvals
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    cast,
    reduce_sum,
    reshape,
    transpose,
)
from fungrad.primitives.reduction.reduce import reduce_all, reduce_any, root

Error = np.linalg.LinAlgError


def matrices(name: str, *arrays: Any) -> list[Any]:
    """Arguments of linear algebra: at least two axes, all in the dtype that NumPy computes in.

    Raises:
      numpy.linalg.LinAlgError: if there are fewer axes.
      TypeError: for half and extended precision, which LAPACK does not have.
    """
    stacks = [array_of(a) for a in arrays]
    for x in stacks:
        if len(x.shape) < 2:
            raise Error(
                f"{len(x.shape)}-dimensional array given to {name}. Array must be at least "
                "two-dimensional"
            )
    return common(stacks)


def common(arrays: Sequence[Any]) -> list[Any]:
    """The arrays in the dtype that NumPy's linear algebra computes their function in."""
    for x in arrays:
        if x.dtype.name in ("float16", "longdouble", "clongdouble"):
            raise TypeError(f"array type {x.dtype.name} is unsupported in linalg")
    dtype = np.result_type(*[x.dtype if x.dtype.kind in "fc" else np.float64 for x in arrays])
    return [x if x.dtype == dtype else cast(x, dtype) for x in arrays]


def squares(name: str, *arrays: Any) -> list[Any]:
    """Stacks of square matrices.

    Raises:
      numpy.linalg.LinAlgError: if they are not square.
    """
    stacks = matrices(name, *arrays)
    for x in stacks:
        if x.shape[-1] != x.shape[-2]:
            raise Error(
                f"Last 2 dimensions of the array given to {name} must be square, not {x.shape[-2:]}"
            )
    return stacks


# --- powers and chains ----------------------------------------------------------------------------


@implements(np.linalg.matrix_power)
def matrix_power(a: Any, n: Any) -> Any:
    """Square matrices to an integer power, as numpy.linalg.matrix_power."""
    a = array_of(a)
    if len(a.shape) < 2 or a.shape[-1] != a.shape[-2]:
        raise Error(f"matrix_power takes square matrices, not an array of shape {a.shape}")
    try:
        n = operator.index(n)
    except TypeError as error:
        raise TypeError("exponent must be an integer") from error
    if n == 0:
        return broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), shape=a.shape)
    if n < 0:
        a = p.inv(*squares("matrix_power", a))
        n = -n
    result: Any = None
    while True:
        n, odd = divmod(n, 2)
        if odd:
            result = a if result is None else products.matmul(result, a)
        if n == 0:
            return result
        a = products.matmul(a, a)


def _order(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """The index at which to split each part of a chain of matrices for the least cost.

    T. Cormen et al., "Introduction to Algorithms", section 15.2.
    """
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i, j], split[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return split


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """The product of two or more matrices in the cheapest order, as numpy.linalg.multi_dot."""
    chain = [array_of(a) for a in arrays]
    if len(chain) < 2:
        raise ValueError("Expecting at least two arrays.")
    first, last = len(chain[0].shape) == 1, len(chain[-1].shape) == 1
    if first:
        chain[0] = reshape(chain[0], shape=(1, *chain[0].shape))
    if last:
        chain[-1] = reshape(chain[-1], shape=(*chain[-1].shape, 1))
    for x in chain:
        if len(x.shape) != 2:
            raise Error(f"{len(x.shape)}-dimensional array given. Array must be two-dimensional")
    split = _order([*(x.shape[0] for x in chain), chain[-1].shape[1]])

    def product(i: int, j: int) -> Any:
        if i == j:
            return chain[i]
        k = split[i, j]
        return products.dot(product(i, k), product(k + 1, j))

    result = product(0, len(chain) - 1)
    shape = result.shape[first : 2 - last]
    return result if shape == result.shape else reshape(result, shape=shape)


# --- tensors --------------------------------------------------------------------------------------


@implements(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """x with tensordot(a, x, x.ndim) = b, as numpy.linalg.tensorsolve."""
    a, b = array_of(a), array_of(b)
    ndim = len(a.shape)
    if axes is not None:
        order = list(range(ndim))
        for k in axes:
            order.remove(k)
            order.insert(ndim, k)
        a = transpose(a, axes=tuple(order))
    shape = a.shape[-(ndim - len(b.shape)) :]
    size = math.prod(shape)
    if a.size != size**2:
        raise Error(
            "Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == "
            "prod(a.shape[:b.ndim])"
        )
    a, b = common([reshape(a, shape=(size, size)), reshape(b, shape=(size, 1))])
    return reshape(p.solve(a, b, triangle=""), shape=shape)


@implements(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse for tensordot(a, b, ind), as numpy.linalg.tensorinv."""
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    a = array_of(a)
    size = math.prod(a.shape[ind:])
    flat = reshape(a, shape=(size, a.size // size))
    return reshape(p.inv(*squares("tensorinv", flat)), shape=(*a.shape[ind:], *a.shape[:ind]))


# --- functions of the main namespace, for the last axes -------------------------------------------


@implements(np.linalg.outer)
def outer(x1: Any, x2: Any, /) -> Any:
    """All products of elements of two vectors, as numpy.linalg.outer."""
    x1, x2 = array_of(x1), array_of(x2)
    if len(x1.shape) != 1 or len(x2.shape) != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are x1.ndim={len(x1.shape)} and "
            f"x2.ndim={len(x2.shape)}."
        )
    return products.outer(x1, x2)


@implements(np.linalg.cross)
@results_in_order("C")
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The vector products of vectors of three components, as numpy.linalg.cross."""
    x1, x2 = array_of(x1), array_of(x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they are "
            f"{x1.shape[axis]} and {x2.shape[axis]} dimensional instead."
        )
    return np.cross(x1, x2, axis=axis)


@implements(np.linalg.trace)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of the last two axes, as numpy.linalg.trace."""
    return products.trace(x, offset, -2, -1, dtype)


@implements(np.linalg.diagonal)
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of the last two axes, as numpy.linalg.diagonal."""
    return repeat_pad_roll.diagonal(x, offset, -2, -1)


@implements(np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged, as numpy.linalg.matrix_transpose."""
    return shaping.matrix_transpose(x)


@implements(np.linalg.matmul)
def matmul(x1: Any, x2: Any, /) -> Any:
    """The matrix product, as numpy.linalg.matmul."""
    return products.matmul(x1, x2)


@implements(np.linalg.tensordot)
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """The sum of products over axes, as numpy.linalg.tensordot."""
    return products.tensordot(x1, x2, axes)


@implements(np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The dot products of vectors along an axis, the first conjugated, as numpy.linalg.vecdot."""
    return products.vecdot(x1, x2, axis=axis)


def singular_values(x: Any, hermitian: bool = False) -> Any:
    """The singular values in descending order; the derivative of a zero is 0, as of abs."""
    if hermitian:
        (x,) = squares("svd", x)
        return np.sort(np.abs(eigvalsh(x, lower=True)))[..., ::-1]
    s = svdvals(*matrices("svd", x))
    return select(s > 0, s, 0.0)


def _of_vectors(x: Any, ord: Any, axis: int) -> Any:
    if ord == np.inf:
        return reductions.max(np.abs(x), axis=axis, initial=0)
    if ord == -np.inf:
        return reductions.min(np.abs(x), axis=axis)
    if ord == 0:
        return reduce_sum(cast(ne(x, 0), real_part(x).dtype), axes=(axis,))
    if ord == 1:
        return reduce_sum(np.abs(x), axes=(axis,))
    if ord is None or ord == 2:
        return _root_of_squares(x, (axis,))
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    size = np.abs(x)
    if x.shape[axis] == 0:
        return reduce_sum(size**ord, axes=(axis,)) ** (1 / ord)
    nothing = reduce_all(eq(x, 0), axes=(axis,))
    kept = with_axes_kept(nothing, x.shape, (axis,))
    total = reduce_sum(select(kept, 1.0, size) ** ord, axes=(axis,))
    return select(nothing, 0.0, total ** (1 / ord))


def _root_of_squares(x: Any, axes: tuple[int, ...]) -> Any:
    return root(reduce_sum(real_part(mul(bar(x), x)), axes=axes))


def _of_matrices(x: Any, ord: Any, row: int, column: int) -> Any:
    if ord is None or ord in ("fro", "f"):
        return _root_of_squares(x, (row, column))
    if ord in (2, -2) or ord == "nuc":
        others = [i for i in range(len(x.shape)) if i not in (row, column)]
        s = singular_values(transpose(x, axes=(*others, row, column)))
        last = len(s.shape) - 1
        if ord == "nuc":
            return reduce_sum(s, axes=(last,))
        return reductions.max(s, axis=last, initial=0) if ord == 2 else reductions.min(s, axis=last)
    if ord in (1, -1):
        sums = reduce_sum(np.abs(x), axes=(row,))
        axis = column - (column > row)
    elif ord in (np.inf, -np.inf):
        sums = reduce_sum(np.abs(x), axes=(column,))
        axis = row - (row > column)
    else:
        raise ValueError("Invalid norm order for matrices.")
    return (
        reductions.max(sums, axis=axis, initial=0) if ord > 0 else reductions.min(sums, axis=axis)
    )


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    """The norm of vectors or matrices, as numpy.linalg.norm; its derivative is 0 where it is 0."""
    x = array_of(x)
    if x.dtype.kind not in "fc":
        x = cast(x, np.float64)
    shape = x.shape
    ndim = len(shape)
    if axis is None:
        axes = tuple(range(ndim))
        if ord is None:
            y = _root_of_squares(x, axes)
            return with_axes_kept(y, shape, axes) if keepdims else y
    elif isinstance(axis, tuple):
        axes = tuple([axis_index(i, ndim) for i in axis])
    else:
        try:
            axes = (axis_index(int(axis), ndim),)
        except TypeError as error:
            raise TypeError("'axis' must be None, an integer or a tuple of integers") from error
    if len(axes) == 1:
        y = _of_vectors(x, ord, axes[0])
    elif len(axes) == 2:
        if axes[0] == axes[1]:
            raise ValueError("Duplicate axes given.")
        y = _of_matrices(x, ord, *axes)
    else:
        raise ValueError("Improper number of dimensions to norm.")
    return with_axes_kept(y, shape, axes) if keepdims else y


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: Any = False, ord: Any = "fro") -> Any:
    """The norm of the matrices of the last two axes, as numpy.linalg.matrix_norm."""
    return norm(x, ord, (-2, -1), keepdims)


@implements(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: Any = False, ord: Any = 2) -> Any:
    """The norm of all elements along one axis or several, as numpy.linalg.vector_norm."""
    x = array_of(x)
    shape = x.shape
    axes = axes_of(axis, len(shape))
    if len(axes) == len(shape):
        x = flattened(x)
        y = norm(x, ord, 0)
    elif len(axes) == 1:
        y = norm(x, ord, axes[0])
    else:
        rest = [i for i in range(len(shape)) if i not in axes]
        count = math.prod([shape[i] for i in axes])
        moved = transpose(x, axes=(*axes, *rest))
        y = norm(reshape(moved, shape=(count, *[shape[i] for i in rest])), ord, 0)
    return with_axes_kept(y, shape, axes) if keepdims else y


# --- condition and rank ---------------------------------------------------------------------------


@implements(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """The condition number of matrices in the norm p, as numpy.linalg.cond.

    The derivative in a norm other than 2 needs an inverse: a singular matrix raises there.
    """
    (x,) = matrices("cond", x)
    if 0 in x.shape[-2:]:
        raise Error("cond is not defined on empty arrays")
    with np.errstate(all="ignore"):
        if p is None or p in (2, -2):
            s = singular_values(x)
            largest, smallest = s[..., 0], s[..., -1]
            r = smallest / largest if p == -2 else largest / smallest
        else:
            (x,) = squares("cond", x)
            r = norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))
    ndim = len(x.shape)
    undefined = logical_and(ne(r, r), logical_not(reduce_any(ne(x, x), axes=(ndim - 2, ndim - 1))))
    return select(undefined, np.inf, r)


@implements(np.linalg.matrix_rank)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """The number of singular values above the tolerance, as numpy.linalg.matrix_rank."""
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    x = array_of(A)
    if len(x.shape) < 2:
        return cast(reductions.any(ne(x, 0)), np.int64)
    s = singular_values(x, hermitian)
    if tol is None:
        if rtol is None:
            rtol = max(x.shape[-2:]) * np.finfo(s.dtype).eps
        else:
            rtol = array_of(rtol)[..., None]
        tol = reductions.max(s, axis=-1, keepdims=True, initial=0) * rtol
    else:
        tol = array_of(tol)[..., None]
    return reductions.count_nonzero(s > tol, axis=-1)


__all__ = [
    "cond",
    "cross",
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]
