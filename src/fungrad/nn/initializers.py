"""Initial values of parameters, with the names of jax.nn.initializers.

They take a key of fungrad.random, as JAX's, or a numpy.random.Generator, which advances: two calls
with the same generator return different values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.numpy.protocol.at_updates import At as at
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.random import continuous
from fungrad.tracing.trace import Tracer

Initializer = Callable[..., Any]
"""`initializer(rng, shape, dtype=np.float64)`: an array; `rng` is a key, or a generator."""


def _generator(rng: Any) -> bool:
    """Whether `rng` is a generator, not a key."""
    if isinstance(rng, (np.random.Generator, np.ndarray, Tracer)):
        return isinstance(rng, np.random.Generator)
    raise ArgumentError(
        "An initializer takes a key, as fg.random.key(0), or a numpy.random.Generator, as "
        f"np.random.default_rng(0), not {type(rng).__name__}."
    )


def _uniform(rng: Any, shape: tuple[int, ...]) -> Any:
    return rng.random(shape) if _generator(rng) else continuous.uniform(rng, shape)


def _normal(rng: Any, shape: tuple[int, ...]) -> Any:
    return rng.standard_normal(shape) if _generator(rng) else continuous.normal(rng, shape)


def zeros(rng: Any, shape: Sequence[int], dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    """Zeros; `rng` is not used.

    >>> zeros(None, (2,))
    array([0., 0.])
    """
    return np.zeros(shape, dtype)


def ones(rng: Any, shape: Sequence[int], dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    """Ones; `rng` is not used.

    >>> ones(None, (2,))
    array([1., 1.])
    """
    return np.ones(shape, dtype)


def constant(value: Any, dtype: Any = np.float64) -> Initializer:
    """An initializer with a constant, a number or an array that broadcasts.

    >>> constant(3.0)(None, (2,))
    array([3., 3.])
    """

    def init(rng: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        return np.full(shape, value, dtype)

    return init


def uniform(scale: float = 1e-2, dtype: Any = np.float64) -> Initializer:
    """An initializer with uniform numbers between 0 and scale.

    >>> uniform(1.0)(np.random.default_rng(0), (2, 3)).shape
    (2, 3)
    """

    def init(rng: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        return cast(_uniform(rng, tuple(shape)) * scale, dtype)

    return init


def normal(stddev: float = 1e-2, dtype: Any = np.float64) -> Initializer:
    """An initializer with normal numbers of mean 0 and deviation `stddev`.

    >>> normal()(np.random.default_rng(0), (2, 3)).shape
    (2, 3)
    """

    def init(rng: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        return cast(_normal(rng, tuple(shape)) * stddev, dtype)

    return init


def truncated_normal(
    stddev: float = 1e-2, dtype: Any = np.float64, lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    """An initializer: stddev times a standard normal variable between lower and upper.

    As in JAX, the deviation of the result is less than stddev.

    >>> bool(np.all(np.abs(truncated_normal(1.0)(np.random.default_rng(0), (100,))) <= 2))
    True
    """
    if not math.erf(upper / math.sqrt(2)) - math.erf(lower / math.sqrt(2)) > 1e-3:
        raise ArgumentError(f"truncated_normal between {lower} and {upper}: improbable values.")

    def init(rng: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        return cast(_truncated(rng, tuple(shape), lower, upper) * stddev, dtype)

    return init


def _truncated(rng: Any, shape: tuple[int, ...], lower: float, upper: float) -> Any:
    if not _generator(rng):
        return continuous.truncated_normal(rng, lower, upper, shape)
    values = np.asarray(rng.standard_normal(shape))
    outside = (values < lower) | (values > upper)
    while outside.any():
        values[outside] = rng.standard_normal(int(outside.sum()))
        outside = (values < lower) | (values > upper)
    return values


def _fans(shape: Sequence[int], in_axis: Any, out_axis: Any, batch_axis: Any) -> tuple[int, int]:
    """The number of inputs of an output, and of outputs of an input."""

    def lengths(axes: Any) -> int:
        return math.prod([shape[a] for a in (axes if np.ndim(axes) else [axes])])

    if len(shape) < 2:
        raise ArgumentError(f"An initializer by fans needs two axes at least, not shape {shape}.")
    inputs, outputs = lengths(in_axis), lengths(out_axis)
    if not inputs or not outputs:
        return 1, 1
    field = math.prod(shape) // (inputs * outputs * lengths(batch_axis))
    return inputs * field, outputs * field


def variance_scaling(
    scale: float, mode: str, distribution: str, in_axis: Any = -2, out_axis: Any = -1,
    batch_axis: Any = (), dtype: Any = np.float64,
) -> Initializer:  # fmt: skip
    """An initializer of variance scale / n, where n counts inputs, outputs or their mean.

    Args:
      scale: the factor.
      mode: n: "fan_in", "fan_out", "fan_avg", or "fan_geo_avg", their geometric mean.
      distribution: "truncated_normal", "normal" or "uniform".
      in_axis, out_axis, batch_axis: the axes of inputs, outputs and batches (kernels of `conv` have
        in_axis=1, out_axis=0).

    >>> variance_scaling(1.0, "fan_in", "normal")(np.random.default_rng(0), (3, 2)).shape
    (3, 2)
    """
    if mode not in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg"):
        raise ArgumentError(
            f"mode={mode!r} is not 'fan_in', 'fan_out', 'fan_avg' or 'fan_geo_avg'."
        )
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise ArgumentError(
            f"distribution={distribution!r} is not 'truncated_normal', 'normal' or 'uniform'."
        )

    def init(rng: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        fan_in, fan_out = _fans(shape, in_axis, out_axis, batch_axis)
        n = {
            "fan_in": fan_in,
            "fan_out": fan_out,
            "fan_avg": (fan_in + fan_out) / 2,
            "fan_geo_avg": math.sqrt(fan_in * fan_out),
        }[mode]
        deviation = math.sqrt(scale / n)
        shape = tuple(shape)
        if distribution == "uniform":
            values = (_uniform(rng, shape) * 2.0 - 1.0) * (math.sqrt(3.0) * deviation)
        elif distribution == "normal":
            values = _normal(rng, shape) * deviation
        else:  # the deviation of a standard normal variable between -2 and 2
            values = _truncated(rng, shape, -2.0, 2.0) * (deviation / 0.87962566103423978)
        return cast(values, dtype)

    return init


def _named(scale: float, mode: str, distribution: str, name: str, source: str) -> Any:
    def make(
        in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = np.float64
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = (
        f"`variance_scaling({scale}, {mode!r}, {distribution!r})`, with its axes. {source}"
    )
    return make


_GLOROT, _HE, _LECUN = "Glorot and Bengio 2010.", "He et al. 2015.", "LeCun et al. 1998."
glorot_uniform = _named(1.0, "fan_avg", "uniform", "glorot_uniform", _GLOROT)
glorot_normal = _named(1.0, "fan_avg", "truncated_normal", "glorot_normal", _GLOROT)
he_uniform = _named(2.0, "fan_in", "uniform", "he_uniform", _HE)
he_normal = _named(2.0, "fan_in", "truncated_normal", "he_normal", _HE)
lecun_uniform = _named(1.0, "fan_in", "uniform", "lecun_uniform", _LECUN)
lecun_normal = _named(1.0, "fan_in", "truncated_normal", "lecun_normal", _LECUN)
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = np.float64) -> Initializer:
    """An initializer of uniformly distributed orthogonal matrices: the columns, or the rows if they
    are fewer, are orthogonal and have the length `scale`. Saxe et al. 2013; Mezzadri 2006.

    >>> q = orthogonal()(np.random.default_rng(0), (4, 2))
    >>> bool(np.allclose(q.T @ q, np.eye(2)))
    True
    """

    def init(rng: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        if len(shape) < 2:
            raise ArgumentError(f"orthogonal needs two axes at least, not shape {tuple(shape)}.")
        columns = shape[column_axis]
        rows = math.prod(shape) // columns if columns else 0
        tall = (max(rows, columns), min(rows, columns))
        q, r = np.linalg.qr(_normal(rng, tall))
        q = q * np.where(np.diagonal(r) < 0, -1.0, 1.0)
        q = q if rows >= columns else q.T
        others = [n for i, n in enumerate(shape) if i != column_axis % len(shape)]
        values = np.moveaxis(q.reshape((*others, columns)), -1, column_axis)
        return cast(scale * values, dtype)

    return init


def delta_orthogonal(
    scale: float = 1.0, column_axis: int = -1, dtype: Any = np.float64
) -> Initializer:
    """An initializer of kernels with 1 to 3 spatial axes, (..., inputs, outputs): orthogonal at the
    centre, zero elsewhere, so that a convolution keeps norms. Xiao et al. 2018, arXiv:1806.05393.

    >>> kernel = delta_orthogonal()(np.random.default_rng(0), (3, 2, 2))
    >>> bool(np.allclose(kernel[1].T @ kernel[1], np.eye(2))), float(np.sum(np.abs(kernel[::2])))
    (True, 0.0)
    """

    def init(rng: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        if len(shape) not in (3, 4, 5) or shape[-1] < shape[-2]:
            raise ArgumentError(
                "delta_orthogonal needs 1 to 3 spatial axes and no fewer outputs than inputs, not "
                f"shape {tuple(shape)}."
            )
        centre = tuple([(n - 1) // 2 for n in shape[:-2]])
        matrix = orthogonal(scale, column_axis, dtype)(rng, shape[-2:])
        return at(np.zeros(shape, dtype))[centre].set(matrix)

    return init


__all__ = [
    "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
    "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones",
    "orthogonal", "truncated_normal", "uniform", "variance_scaling", "xavier_normal",
    "xavier_uniform", "zeros",
]  # fmt: skip
