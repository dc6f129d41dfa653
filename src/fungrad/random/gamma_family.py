"""Samples of the gamma distribution and those derived from it; normal vectors, orthogonal matrices.

Gamma numbers are drawn by rejection, and have derivatives of all orders by implicit
reparameterisation (Figurnov, Mohamed and Mnih 2018); the others are formulas of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.numpy.protocol.operands import sizes
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, cast
from fungrad.primitives.random.rejection import random_log_gamma
from fungrad.primitives.special.incomplete_gamma_beta import log_gamma_quantile
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.random.continuous import exponential
from fungrad.random.discrete import rademacher
from fungrad.random.keys import checked, fitting, floating, normals, parameter, split, spread
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of


def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """The logarithms of gamma numbers, also of those too small for a float.

    Args:
      key: a key. a: the shape parameter, a number or an array; NaN results where it is negative.
      shape: of the result, by default that of a. dtype: a floating one.

    >>> import fungrad as fg
    >>> bool(loggamma(fg.random.key(0), 1e-3) < -300)
    True
    """
    dtype = floating(dtype)
    a = parameter(a, dtype)
    a = spread(a, fitting("loggamma", shape, a))
    fixed = stop_gradient(a)
    return log_gamma_quantile(a, fixed, random_log_gamma(checked(key), fixed))


def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Gamma numbers of the shape parameter a and scale 1. Marsaglia and Tsang 2000.

    Args:
      key: a key. a: a number or an array; NaN results where it is negative. shape: of the result,
        by default that of a. dtype: a floating one.

    >>> import fungrad as fg
    >>> key = fg.random.key(0)
    >>> x, slope = fg.value_and_grad(lambda a: gamma(key, a))(2.0)
    >>> round(float(x), 6), round(float(slope), 6)
    (1.704318, 1.001213)
    """
    return np.exp(loggamma(key, a, shape, dtype))


def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Beta numbers: x / (x + y) of gamma numbers x and y of shapes a and b.

    Args:
      key: a key. a, b: numbers or arrays. shape: of the result, by default their broadcast shape.
        dtype: a floating one.

    >>> from fungrad import random
    >>> bool(0 < beta(random.key(0), 2.0, 3.0) < 1)
    True
    """
    dtype = floating(dtype)
    a, b = parameter(a, dtype), parameter(b, dtype)
    shape = fitting("beta", shape, a, b)
    first, second = split(key)
    other = loggamma(second, b, shape, dtype) - loggamma(first, a, shape, dtype)
    return np.exp(-np.logaddexp(0.0, other))


def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Points whose coordinates are positive and add up to 1: gamma numbers over their sum.

    Args:
      key: a key. alpha: the concentrations, along the last axis. shape: of the result without its
        last axis. dtype: a floating one.

    Raises:
      ShapeError: if alpha is a number.

    >>> from fungrad import random
    >>> bool(np.isclose(dirichlet(random.key(0), np.ones(3)).sum(), 1.0))
    True
    """
    dtype = floating(dtype)
    alpha = parameter(alpha, dtype)
    if not shape_of(alpha):
        raise ShapeError(f"The alpha of a Dirichlet distribution is a vector{user_line()}.")
    shape = fitting("dirichlet", shape, alpha[..., 0])
    logs = loggamma(key, alpha, (*shape, shape_of(alpha)[-1]), dtype)
    powers = np.exp(logs - stop_gradient(np.max(logs, axis=-1, keepdims=True)))
    return powers / np.sum(powers, axis=-1, keepdims=True)


def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Sums of squares of df standard normal numbers: twice gamma numbers of df / 2.

    Args:
      key: a key. df: a number or an array. shape: of the result, by default that of df. dtype: a
        floating one.

    >>> from fungrad import random
    >>> bool(chisquare(random.key(0), 3.0) > 0)
    True
    """
    df = parameter(df, floating(dtype))
    return gamma(key, df * 0.5, shape, dtype) * 2.0


def t(key: Any, df: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Student's numbers: a normal one over the root of a chi-square one divided by df.

    Args:
      key: a key. df: a number or an array. shape: of the result, by default that of df. dtype: a
        floating one.

    >>> from fungrad import random
    >>> t(random.key(0), 5.0, (2,)).shape
    (2,)
    """
    dtype = floating(dtype)
    half = parameter(df, dtype) * 0.5
    shape = fitting("t", shape, half)
    first, second = split(key)
    spare = np.log(half) - loggamma(second, half, shape, dtype)
    return normals(first, shape, dtype) * np.exp(spare * 0.5)


def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Fisher's numbers: the ratio of the means of dfnum and of dfden squared normal numbers.

    Args:
      key: a key. dfnum, dfden: numbers or arrays. shape: of the result, by default their broadcast
        shape. dtype: a floating one.

    >>> from fungrad import random
    >>> bool(f(random.key(0), 3.0, 4.0) > 0)
    True
    """
    dtype = floating(dtype)
    above, below = parameter(dfnum, dtype) * 0.5, parameter(dfden, dtype) * 0.5
    shape = fitting("f", shape, above, below)
    first, second = split(key)
    ratio = loggamma(first, above, shape, dtype) - loggamma(second, below, shape, dtype)
    return np.exp(ratio) * (below / above)


def generalized_normal(key: Any, p: Any, shape: Any = (), dtype: Any = np.float64) -> Any:
    """Numbers whose density is proportional to exp(-|x|^p).

    Args:
      key: a key. p: the power, a number or an array that broadcasts to the shape.
      shape: of the result. dtype: a floating one.

    >>> from fungrad import random
    >>> generalized_normal(random.key(0), 3.0, (2,)).shape
    (2,)
    """
    dtype = floating(dtype)
    power = parameter(p, dtype)
    shape = fitting("generalized_normal", shape, power)
    first, second = split(key)
    size = np.exp(loggamma(first, 1.0 / power, shape, dtype) / power)
    return size * rademacher(second, shape, dtype)


def ball(key: Any, d: int, p: Any = 2.0, shape: Any = (), dtype: Any = np.float64) -> Any:
    """Uniformly distributed points of the unit ball of d dimensions, where sum |x|^p <= 1.

    Args:
      key: a key. d: dimensions. p: the power. shape: of the result without its last axis.
      dtype: a floating one.

    Barthe, Guedon, Mendelson and Naor 2005, A probabilistic approach to the geometry of the l_p^n
    ball.

    >>> from fungrad import random
    >>> bool(np.sum(ball(random.key(0), 3) ** 2) < 1)
    True
    """
    dtype = floating(dtype)
    first, second = split(key)
    shape = sizes(shape)
    power = parameter(p, dtype)
    points = generalized_normal(first, power, (*shape, d), dtype)
    total = np.sum(np.abs(points) ** power, axis=-1) + exponential(second, shape, dtype)
    return points / np.expand_dims(total ** (1.0 / power), -1)


def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = np.float64,
    method: str = "cholesky",
) -> Any:  # fmt: skip
    """Normal vectors of a mean and a covariance: mean + F z with F F' = cov.

    Args:
      key: a key. mean: of shape (..., n). cov: of shape (..., n, n), positive definite; for "eigh"
        and "svd" semidefinite suffices. shape: of the result without its last axis.
      dtype: a floating one. method: the factorization for F: "cholesky", "eigh" or "svd".

    Raises:
      ArgumentError: for another method.
      ShapeError: if mean is not a vector, or cov not a square matrix of its size.

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
    """Matrices times vectors, by the primitive, so that rounding is the same traced or not."""
    lead = len(shape_of(vectors)) - 1
    if len(shape_of(matrices)) == 2:
        return dot_general(vectors, matrices, contract=((lead,), (1,)), batch=((), ()))
    stack = broadcast_to(matrices, shape=(*shape_of(vectors)[:-1], *shape_of(matrices)[-2:]))
    axes = tuple(range(lead))
    return dot_general(stack, vectors, contract=((lead + 1,), (lead,)), batch=(axes, axes))


def orthogonal(
    key: Any, n: int, shape: Any = (), dtype: Any = np.float64, m: int | None = None
) -> Any:
    """Uniformly distributed orthogonal matrices. Mezzadri 2007.

    Args:
      key: a key. n: rows. shape: of the result without its last two axes. dtype: a floating one.
      m: columns, by default n; the shorter of rows and columns are orthonormal.

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


__all__ = [
    "ball", "beta", "chisquare", "dirichlet", "f", "gamma", "generalized_normal", "loggamma",
    "multivariate_normal", "orthogonal", "t",
]  # fmt: skip
