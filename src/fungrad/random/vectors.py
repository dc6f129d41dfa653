"""Samples of normal vectors and orthogonal matrices. Knows linear algebra by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.numpy.protocol.operands import sizes
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, cast
from fungrad.random.prepare import fitting, floating, normals, parameter
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of


def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = np.float64,
    method: str = "cholesky",
) -> Any:  # fmt: skip
    """Normal vectors of a mean and a covariance: mean + F z with F F' = cov.

    Args:
      key: a key. mean: of shape (..., n). cov: of shape (..., n, n), positive definite; for "eigh"
        and "svd" semidefinite will do. shape: of the result without its last axis.
      dtype: a floating one. method: how F is found: "cholesky", "eigh" or "svd".

    Raises:
      ArgumentError: where the method is another.
      ShapeError: where mean is no vector, or cov no square matrix of its size.

    >>> from fungrad import random
    >>> multivariate_normal(random.key(0), np.zeros(2), np.eye(2), (3,)).shape
    (3, 2)
    """
    dtype = floating(dtype)
    mean, cov = parameter(mean, dtype), parameter(cov, dtype)
    if method not in ("cholesky", "eigh", "svd"):
        raise ArgumentError(f"method={method!r}{user_line()}: it is 'cholesky', 'eigh' or 'svd'.")
    if not shape_of(mean) or shape_of(cov)[-2:] != (shape_of(mean)[-1],) * 2:
        raise ShapeError(
            f"multivariate_normal{user_line()} got a mean of shape {shape_of(mean)} and a "
            f"covariance of shape {shape_of(cov)}; they have to be (..., n) and (..., n, n)."
        )
    shape = fitting("multivariate_normal", shape, mean[..., 0], cov[..., 0, 0])
    if method == "cholesky":
        factor = np.linalg.cholesky(cov)
    elif method == "eigh":
        values, vectors = np.linalg.eigh(cov)
        factor = vectors * np.expand_dims(np.sqrt(np.maximum(values, 0.0)), -2)
    else:
        vectors, values, _ = np.linalg.svd(cov)
        factor = vectors * np.expand_dims(np.sqrt(values), -2)
    return cast(mean + _product(factor, normals(key, (*shape, shape_of(mean)[-1]), dtype)), dtype)


def _product(matrices: Any, vectors: Any) -> Any:
    """Matrices times vectors, by the primitive, so that it is rounded alike traced and untraced."""
    lead = len(shape_of(vectors)) - 1
    if len(shape_of(matrices)) == 2:
        return dot_general(vectors, matrices, contract=((lead,), (1,)), batch=((), ()))
    stack = broadcast_to(matrices, shape=(*shape_of(vectors)[:-1], *shape_of(matrices)[-2:]))
    axes = tuple(range(lead))
    return dot_general(stack, vectors, contract=((lead + 1,), (lead,)), batch=(axes, axes))


def orthogonal(
    key: Any, n: int, shape: Any = (), dtype: Any = np.float64, m: int | None = None
) -> Any:
    """Orthogonal matrices, evenly distributed. Mezzadri 2007.

    Args:
      key: a key. n: rows. shape: of the result without its last two axes. dtype: a floating one.
      m: columns, n where it is left out: the shorter of rows and columns are orthonormal.

    >>> from fungrad import random
    >>> q = orthogonal(random.key(0), 3)
    >>> bool(np.allclose(q @ q.T, np.eye(3)))
    True
    """
    dtype = floating(dtype)
    columns = n if m is None else m
    tall, wide = max(n, columns), min(n, columns)
    work = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
    q, r = np.linalg.qr(normals(key, (*sizes(shape), tall, wide), work))
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    q = cast(q * np.expand_dims(cast(signs, work), -2), dtype)
    return q if n >= columns else np.swapaxes(q, -1, -2)


__all__ = ["multivariate_normal", "orthogonal"]
