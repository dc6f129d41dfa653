"""Samples of continuous distributions by a formula of uniform or normal numbers.

Each is differentiable in its parameters. A formula without a source is the inverse of the
distribution function.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.numpy.protocol.operands import sizes
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.random.bits import normal_quantile
from fungrad.primitives.special.normal_distribution import normal_cdf
from fungrad.random.keys import (
    fitting,
    floating,
    normals,
    open_uniforms,
    parameter,
    split,
    spread,
    uniforms,
)


def uniform(
    key: Any, shape: Any = (), dtype: Any = np.float64, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Uniform numbers, at least minval and less than maxval.

    Args:
      key: a key. shape: of the result. dtype: float64, float32 or float16.
      minval, maxval: numbers or arrays that broadcast to the shape. By rounding the result may be
        maxval.

    >>> from fungrad import random
    >>> uniform(random.key(0), (2,))
    array([0.01154675, 0.2415492 ])
    """
    dtype = floating(dtype)
    if type(minval) is type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return uniforms(key, sizes(shape), dtype)
    low, high = parameter(minval, dtype), parameter(maxval, dtype)
    u = uniforms(key, fitting("uniform", shape, low, high), dtype)
    return low + u * (high - low)


def normal(key: Any, shape: Any = (), dtype: Any = np.float64) -> Any:
    """Standard normal numbers, by the inverse of the distribution function.

    Args:
      key: a key. shape: of the result. dtype: a floating one; complex64 or complex128 for numbers
        whose real and imaginary parts have variance 1/2.

    >>> from fungrad import random
    >>> normal(random.key(0), (2,))
    array([0.02894746, 0.64812886])
    """
    type_ = np.dtype(dtype)
    if type_.kind == "c":
        part = np.float64 if type_ == np.complex128 else np.float32
        pairs = normals(key, (*sizes(shape), 2), part) * part(math.sqrt(0.5))
        return cast(pairs[..., 0] + 1j * pairs[..., 1], type_)
    return normals(key, sizes(shape), floating(dtype))


def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = np.float64
) -> Any:
    """Standard normal numbers between lower and upper, exact in both tails, up to 37 deviations.

    Args:
      key: a key. lower, upper: numbers or arrays, which may be infinite. shape: of the result, by
        default the broadcast shape of lower and upper. dtype: a floating one.

    >>> from fungrad import random
    >>> truncated_normal(random.key(0), 10.0, 11.0, (2,))
    array([10.43241576, 10.13972277])
    """
    dtype = floating(dtype)
    low, high = parameter(lower, np.float64), parameter(upper, np.float64)
    shape = fitting("truncated_normal", shape, low, high)
    u = cast(open_uniforms(key, shape, dtype), np.float64)
    # The right tail is computed as the mirrored left one, where probabilities keep their digits.
    right = np.greater(low, 0.0)
    left_end = np.where(right, -high, low)
    right_end = np.where(right, -low, high)
    start = normal_cdf(left_end)
    z = normal_quantile(start + u * (normal_cdf(right_end) - start))
    z = np.where(right, -z, z)
    return cast(np.clip(z, low, high), dtype)


def exponential(key: Any, shape: Any = (), dtype: Any = np.float64) -> Any:
    """Exponential numbers of mean 1.

    Args:
      key: a key. shape: of the result. dtype: a floating one.

    >>> from fungrad import random
    >>> exponential(random.key(0), (2,))
    array([4.4613509 , 1.42068211])
    """
    dtype = floating(dtype)
    return cast(-np.log(open_uniforms(key, sizes(shape), dtype)), dtype)


def _centred(key: Any, shape: Any, dtype: Any) -> Any:
    """Uniform numbers in (-1, 1), never 0, without rounding."""
    return open_uniforms(key, sizes(shape), dtype) * 2.0 - 1.0


def laplace(key: Any, shape: Any = (), dtype: Any = np.float64) -> Any:
    """Laplace numbers: exponential ones with a random sign.

    Args:
      key: a key. shape: of the result. dtype: a floating one.

    >>> from fungrad import random
    >>> laplace(random.key(0), (2,))
    array([-3.76820372, -0.72753493])
    """
    dtype = floating(dtype)
    v = _centred(key, shape, dtype)
    return cast(np.copysign(np.log1p(-np.abs(v)), v), dtype)


def gumbel(key: Any, shape: Any = (), dtype: Any = np.float64) -> Any:
    """Gumbel numbers: -log of exponential ones.

    Args:
      key: a key. shape: of the result. dtype: a floating one.

    >>> from fungrad import random
    >>> gumbel(random.key(0), (2,))
    array([-1.49545161, -0.35113712])
    """
    dtype = floating(dtype)
    return cast(-np.log(-np.log(open_uniforms(key, sizes(shape), dtype))), dtype)


def logistic(key: Any, shape: Any = (), dtype: Any = np.float64) -> Any:
    """Logistic numbers.

    Args:
      key: a key. shape: of the result. dtype: a floating one.

    >>> from fungrad import random
    >>> logistic(random.key(0), (2,))
    array([-4.44973696, -1.14420477])
    """
    dtype = floating(dtype)
    u = open_uniforms(key, sizes(shape), dtype)
    return cast(np.log(u) - np.log1p(-u), dtype)


def cauchy(key: Any, shape: Any = (), dtype: Any = np.float64) -> Any:
    """Cauchy numbers.

    Args:
      key: a key. shape: of the result. dtype: a floating one.

    >>> from fungrad import random
    >>> cauchy(random.key(0), (2,))
    array([-27.55495144,  -1.05455928])
    """
    dtype = floating(dtype)
    return cast(np.tan(_centred(key, shape, dtype) * (math.pi / 2)), dtype)


def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = np.float64) -> Any:
    """exp of normal numbers of mean 0 and deviation sigma.

    Args:
      key: a key. sigma: a number or an array. shape: of the result, by default that of sigma.
        dtype: a floating one.

    >>> from fungrad import random
    >>> lognormal(random.key(0), 0.5, (2,))
    array([1.01457898, 1.3827364 ])
    """
    dtype = floating(dtype)
    scale = parameter(sigma, dtype)
    return np.exp(normals(key, fitting("lognormal", shape, scale), dtype) * scale)


def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Pareto numbers: the density is b / x^(b + 1) for x >= 1.

    Args:
      key: a key. b: a number or an array. shape: of the result, by default that of b. dtype: a
        floating one.

    >>> from fungrad import random
    >>> bool(pareto(random.key(0), 3.0) >= 1)
    True
    """
    dtype = floating(dtype)
    tail = parameter(b, dtype)
    return np.exp(exponential(key, fitting("pareto", shape, tail), dtype) / tail)


def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """The lengths of pairs of normal numbers of deviation scale.

    Args:
      key: a key. scale: a number or an array. shape: of the result, by default that of scale.
        dtype: a floating one.

    >>> from fungrad import random
    >>> rayleigh(random.key(0), np.array([1.0, 2.0]))
    array([2.98708918, 3.37126933])
    """
    dtype = floating(dtype)
    size = parameter(scale, dtype)
    return np.sqrt(exponential(key, fitting("rayleigh", shape, size), dtype) * 2.0) * size


def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = np.float64
) -> Any:
    """scale times an exponential number^(1 / concentration).

    Args:
      key: a key. scale, concentration: numbers or arrays that broadcast to the shape.
      shape: of the result. dtype: a floating one.

    >>> from fungrad import random
    >>> weibull_min(random.key(0), 1.0, 2.0, (2,))
    array([2.11219102, 1.1919237 ])
    """
    dtype = floating(dtype)
    size, power = parameter(scale, dtype), parameter(concentration, dtype)
    shape = fitting("weibull_min", shape, size, power)
    return exponential(key, shape, dtype) ** (1.0 / power) * size


def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = np.float64
) -> Any:
    """Numbers whose density rises linearly from left to mode, and falls to right.

    Args:
      key: a key. left, mode, right: numbers or arrays, ascending.
      shape: of the result, by default their broadcast shape. dtype: a floating one.

    >>> from fungrad import random
    >>> triangular(random.key(0), 0.0, 1.0, 4.0, (2,))
    array([0.21491165, 0.98295309])
    """
    dtype = floating(dtype)
    low, top, high = (parameter(p, dtype) for p in (left, mode, right))
    u = open_uniforms(key, fitting("triangular", shape, low, top, high), dtype)
    width = high - low
    rising = low + np.sqrt(u * width * (top - low))
    falling = high - np.sqrt((1.0 - u) * width * (high - top))
    return cast(np.where(u * width < top - low, rising, falling), dtype)


def maxwell(key: Any, shape: Any = (), dtype: Any = np.float64) -> Any:
    """The lengths of triples of standard normal numbers.

    Args:
      key: a key. shape: of the result. dtype: a floating one.

    >>> from fungrad import random
    >>> bool(maxwell(random.key(0)) > 0)
    True
    """
    dtype = floating(dtype)
    return np.sqrt(np.sum(normals(key, (*sizes(shape), 3), dtype) ** 2, axis=-1))


def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = np.float64
) -> Any:
    """loc plus scale times a Maxwell number with a random sign.

    Args:
      key: a key. loc: the center. scale: a number or an array, as loc.
      shape: of the result. dtype: a floating one.

    >>> from fungrad import random
    >>> double_sided_maxwell(random.key(0), 0.0, np.ones(2), (3, 2)).shape
    (3, 2)
    """
    dtype = floating(dtype)
    middle, size = parameter(loc, dtype), parameter(scale, dtype)
    shape = fitting("double_sided_maxwell", shape, middle, size)
    first, second = split(key)
    sign = np.sign(_centred(second, shape, dtype))
    return cast(middle + size * sign * maxwell(first, shape, dtype), dtype)


def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Inverse Gaussian numbers of the given mean and scale 1. Michael, Schucany and Haas 1976.

    Args:
      key: a key. mean: a number or an array. shape: of the result, by default that of mean. dtype:
        a floating one.

    >>> from fungrad import random
    >>> bool(wald(random.key(0), 2.0) > 0)
    True
    """
    dtype = floating(dtype)
    mean = parameter(mean, dtype)
    shape = fitting("wald", shape, mean)
    mean = spread(mean, shape)
    first, second = split(key)
    # The smaller root, mean (1 + w - sqrt(2 w + w^2)), without cancellation.
    w = normals(first, shape, dtype) ** 2 * mean * 0.5
    small = mean / (1.0 + w + np.sqrt(w * (w + 2.0)))
    taken = uniforms(second, shape, dtype) * (mean + small) <= mean
    return np.where(taken, small, mean * mean / small)


__all__ = [
    "cauchy", "double_sided_maxwell", "exponential", "gumbel", "laplace", "logistic",
    "lognormal", "maxwell", "normal", "pareto", "rayleigh", "triangular", "truncated_normal",
    "uniform", "wald", "weibull_min",
]  # fmt: skip
