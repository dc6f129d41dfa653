"""Discrete Fourier transforms: `fft` along axes, and `rfft` and `irfft` along one.

All are linear. Unlike in textbooks, their transposes do not conjugate: the pairing of complex
numbers here is Re(sum(c * x)), under which the matrix exp(-2 pi i j k / n) is symmetric.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from fungrad.ir.graph import Equation
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import mul
from fungrad.primitives.movement.reshape_broadcast_cast import conj
from fungrad.primitives.primitive import Primitive, linear

Axes = tuple[int, ...]

OPPOSITE = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""By norm: the norm under which the transform in the other direction has the same factor."""


@lru_cache(maxsize=64)
def _complex(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.fft.fft(np.zeros(1, dtype)).dtype


@lru_cache(maxsize=64)
def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.fft.irfft(np.zeros(1, dtype), 1).dtype


def _with_length(shape: Axes, axis: int, length: int) -> Axes:
    return (*shape[:axis], length, *shape[axis + 1 :])


def _eval_fft(x: Any, *, axes: Axes, inverse: bool, norm: str) -> Any:
    return (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=axes, norm=norm)  # type: ignore[arg-type]


def _cost_of_fft(equation: Equation) -> float:
    """5 n log2 n for n complex points, as FFTW's benchmarks count; half of it for real data."""
    axes = equation.params.get("axes") or (equation.params["axis"],)
    before, after = equation.inputs[0].type, equation.outputs[0].type
    real = "axis" in equation.params
    data = after if real and before.dtype.kind == "c" else before
    length = math.prod([data.shape[axis] for axis in axes])
    return (2.5 if real else 5.0) * data.size * math.log2(length) if length > 1 else 0


fft: Primitive = linear(
    "fft",
    cost=_cost_of_fft,
    eval=_eval_fft,
    type=lambda x, *, axes, inverse, norm: Type(x.shape, _complex(x.dtype)),
    transpose=lambda ct, x, *, axes, inverse, norm: fft(ct, axes=axes, inverse=inverse, norm=norm),
    batch=lambda args, batched, size, *, axes, inverse, norm: fft(
        args[0], axes=tuple([axis + 1 for axis in axes]), inverse=inverse, norm=norm
    ),
)
"""`fft(x, axes=, inverse=, norm=)`: the transform along each of one or more different axes; the
norm is "backward", "ortho" or "forward", as in NumPy."""

rfft: Primitive = linear(
    "rfft",
    cost=_cost_of_fft,
    eval=lambda x, *, axis, norm: np.fft.rfft(x, axis=axis, norm=norm),
    type=lambda x, *, axis, norm: Type(
        _with_length(x.shape, axis, x.shape[axis] // 2 + 1), _complex(x.dtype)
    ),
    transpose=lambda ct, x, *, axis, norm: _transpose_rfft(ct, x, axis, norm),
    batch=lambda args, batched, size, *, axis, norm: rfft(args[0], axis=axis + 1, norm=norm),
)
"""`rfft(x, axis=, norm=)`: the first n // 2 + 1 frequencies of a real x of length n."""

irfft: Primitive = linear(
    "irfft",
    cost=_cost_of_fft,
    eval=lambda x, *, axis, length, norm: np.fft.irfft(x, length, axis=axis, norm=norm),
    type=lambda x, *, axis, length, norm: Type(_with_length(x.shape, axis, length), _real(x.dtype)),
    transpose=lambda ct, x, *, axis, length, norm: _transpose_irfft(ct, x, axis, length, norm),
    batch=lambda args, batched, size, *, axis, length, norm: irfft(
        args[0], axis=axis + 1, length=length, norm=norm
    ),
)
"""`irfft(x, axis=, length=, norm=)`: the real array of that length whose first length // 2 + 1
frequencies are x. Imaginary parts of frequencies that have to be real are ignored."""


@lru_cache(maxsize=256)
def _interior(length: int, trailing: int, factor: float, dtype: np.dtype[Any]) -> Any:
    """`factor` for each frequency that also represents its conjugate, 1 for the others."""
    weights = np.full(length // 2 + 1, factor, dtype)
    weights[0] = 1
    if length % 2 == 0:
        weights[-1] = 1
    weights = weights.reshape((-1,) + (1,) * trailing)
    weights.flags.writeable = False
    return weights


def _transpose_rfft(ct: Any, x: Type, axis: int, norm: str) -> Any:
    # x_t gets Re sum_k c_k exp(-2 pi i k t / n): an irfft that counts each frequency once.
    length = x.shape[axis]
    half = _interior(length, x.ndim - axis - 1, 0.5, _real(ct.dtype))
    return irfft(mul(conj(ct), half), axis=axis, length=length, norm=OPPOSITE[norm])


def _transpose_irfft(ct: Any, x: Type, axis: int, length: int, norm: str) -> Any:
    twice = _interior(length, x.ndim - axis - 1, 2.0, ct.dtype)
    return mul(conj(rfft(ct, axis=axis, norm=OPPOSITE[norm])), twice)
