"""The vocabulary of the rules of linear algebra: adjoints, triangles, diagonals.

The formulas of this folder use the inner product Re tr(G^H dA) of textbooks, and so the conjugates
of fungrad's cotangents, whose pairing is Re sum(c * dA): `adjoint` is a conjugate transpose.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.elementwise.ufuncs import real
from fungrad.primitives.movement.diagonal_roll import diagonal, from_diagonal
from fungrad.primitives.movement.reshape_broadcast_cast import (
    conj,
    reduce_sum,
    reshape,
    transpose,
)
from fungrad.tracing.trace import shape_of


def swap(x: Any) -> Any:
    """The transposes of matrices."""
    if type(x) is np.ndarray:
        return x.mT
    ndim = len(shape_of(x))
    return transpose(x, axes=(*range(ndim - 2), ndim - 1, ndim - 2))


def bar(x: Any) -> Any:
    """The complex conjugate; x itself if it is real."""
    return conj(x) if x.dtype.kind == "c" else x


def adjoint(x: Any) -> Any:
    """The conjugate transposes of matrices."""
    return bar(swap(x))


def product(x: Any, y: Any, z: Any) -> Any:
    """x @ y @ z, in the order of fewer operations."""
    (m, n), (k, count) = shape_of(x)[-2:], shape_of(z)[-2:]
    from_left = m * n * k + m * k * count
    return (x @ y) @ z if from_left <= n * k * count + m * n * count else x @ (y @ z)


def real_part(x: Any) -> Any:
    """The real part; x itself if it is real."""
    return real(x) if x.dtype.kind == "c" else x


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 for complex64, and so on."""
    return np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype


def columns(x: Any) -> Any:
    """Vectors, so that they scale the columns of matrices."""
    shape = shape_of(x)
    return reshape(x, shape=(*shape[:-1], 1, shape[-1]))


def rows(x: Any) -> Any:
    """Vectors, so that they scale the rows of matrices."""
    return reshape(x, shape=(*shape_of(x), 1))


def diagonals(x: Any) -> Any:
    """The diagonals of matrices, along a last axis."""
    return diagonal(x, offset=0)


def diagonal_matrix(x: Any) -> Any:
    """Diagonal matrices of vectors."""
    length = shape_of(x)[-1]
    return from_diagonal(x, offset=0, shape=(length, length))


def sum_diagonal(x: Any) -> Any:
    """The traces of matrices, with two axes of length 1 in place of the matrix axes."""
    total = reduce_sum(diagonals(x), axes=(len(shape_of(x)) - 2,))
    return reshape(total, shape=(*shape_of(total), 1, 1))


@lru_cache(maxsize=256)
def triangle(shape: tuple[int, int], offset: int) -> Any:
    """Where elements are not above a diagonal."""
    mask = np.tri(*shape, offset, dtype=bool)
    mask.flags.writeable = False
    return mask


def lower(x: Any, offset: int = 0) -> Any:
    """The lower triangles, zero above the given diagonal."""
    return select(triangle(shape_of(x)[-2:], offset), x, 0)


def upper(x: Any, offset: int = 0) -> Any:
    """The upper triangles, zero below the given diagonal."""
    return select(triangle(shape_of(x)[-2:], offset - 1), 0, x)


def eye(like: Any) -> Any:
    """The identity matrix of a matrix's size and real dtype."""
    return np.eye(shape_of(like)[-1], dtype=real_dtype(like.dtype))


def result(*types: Type) -> np.dtype[Any]:
    """The dtype of NumPy's linear algebra: single if all are single, otherwise double."""
    dtype = np.result_type(*[t.dtype for t in types])
    return dtype if dtype.kind in "fc" else np.dtype(np.float64)


def square(name: str, x: Type) -> None:
    """Checks that matrices are square.

    Raises:
      ShapeError: naming the function and the shape.
    """
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{name} takes square matrices, but got an array of shape {x.shape}.")
