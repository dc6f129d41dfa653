"""numpy.linalg's products, powers, and what it shares with NumPy's main namespace.

Compositions of matmul, solve and inv; knows NumPy's arguments, and the order of a chain of
products that costs least.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.numpy import products, repeat_pad_roll, shaping
from fungrad.numpy.protocol.implements import implements
from fungrad.numpy.protocol.operands import array_of
from fungrad.numpy.protocol.result_order import lies
from fungrad.primitives.linalg import solve as p
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    cast,
    reshape,
    transpose,
)

Error = np.linalg.LinAlgError


def matrices(name: str, *arrays: Any) -> list[Any]:
    """Arguments of linear algebra: at least two axes, all in the dtype that NumPy computes in.

    Raises:
      numpy.linalg.LinAlgError: where there are fewer axes.
      TypeError: for half and extended precision, which LAPACK has not.
    """
    found = [array_of(a) for a in arrays]
    for x in found:
        if len(x.shape) < 2:
            raise Error(
                f"{len(x.shape)}-dimensional array given to {name}. Array must be at least "
                "two-dimensional"
            )
    return common(found)


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
      numpy.linalg.LinAlgError: where they are not square.
    """
    found = matrices(name, *arrays)
    for x in found:
        if x.shape[-1] != x.shape[-2]:
            raise Error(
                f"Last 2 dimensions of the array given to {name} must be square, not {x.shape[-2:]}"
            )
    return found


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
    """Where to split each stretch of a chain of matrices, so that the products cost least.

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


# --- as in the main namespace, but for the last axes ----------------------------------------------


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
@lies("C")
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


__all__ = [
    "cross", "diagonal", "matmul", "matrix_power", "matrix_transpose", "multi_dot", "outer",
    "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot",
]  # fmt: skip
