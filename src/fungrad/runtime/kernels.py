"""Elementwise functions of doubles made of vectorised NumPy calls, where NumPy's loop is scalar.

CPU time in cache per element: logaddexp takes NumPy 21 ns, here 4 (in single precision 19 and 2);
hypot 13, here 2; a choice of few elements 0.8, here 0.3; erf 14 by SciPy, here 5, without its
import.
Errors are within 2 ulp (tests/compiler/test_kernels.py); special values and signs of zeros are
NumPy's. Arguments out of range go to NumPy's function.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np


def _numbers(*values: float) -> tuple[Any, ...]:
    """Numbers as 0-d arrays: to convert a Python number costs a ufunc call 0.1 us, while other
    threads wait.
    """
    return tuple(map(np.array, values))


_HALF, _SIXTH, _SIXTIETH = _numbers(0.5, 1.0 / 6.0, 1.0 / 60.0)

_POINTS = 8_192
_TO_GRID, _IN_GRID = _numbers(1.5 * 2.0**43, _POINTS - 1)
"""Adding the first rounds a number to a multiple of 1/512, whose index is in the lowest bits."""
(_LOG_SLOPE,) = _numbers(math.log(2.0 / math.sqrt(math.pi)))
"""The logarithm of the derivative of the error function at 0."""
_SATURATED = 6.0
"""From here on the error function is 1 in double precision."""


def logaddexp(x: Any, y: Any, out: Any, t: Any) -> None:
    """Writes log(e^x + e^y) = max(x, y) + log1p(e^-|x - y|); t is scratch, and may be x or y."""
    with np.errstate(over="ignore", invalid="ignore"):
        np.maximum(x, y, out=out)
        np.subtract(x, y, out=t)
        unsure = np.isnan(np.add.reduce(t, axis=None))
    if unsure:  # the maximum is the result for equal infinities and for NaN
        np.copyto(t, np.inf, where=np.isnan(t))
    np.absolute(t, out=t)
    np.negative(t, out=t)
    with np.errstate(under="ignore"):
        np.exp(t, out=t)
    np.log1p(t, out=t)
    np.add(out, t, out=out)


def erf(x: Any, out: Any, d: Any, y: Any, t: Any, s: Any) -> None:
    """Writes the error function of x; d, y, t and s are scratch, s may be x.

    It is the value at the nearest grid point x0 plus the integral of exp(-u^2) from there: d =
    x - x0, times the exponential at the midpoint m, times a correction factor whose logarithm is
    d^2 ((m^2 - 1/2) / 6 + d^2 / 360) to the needed accuracy (the integrated Taylor series of
    exp(-u^2) about m: terms of odd order cancel).
    """
    if not (x.size and -_SATURATED < x.min() and x.max() < _SATURATED):  # NaN is not either
        x = np.minimum(x, _SATURATED, out=s)
        np.maximum(x, -_SATURATED, out=x)
    with np.errstate(under="ignore"):
        np.add(x, _TO_GRID, out=d)
        index = t.view(np.int64)
        np.bitwise_and(d.view(np.int64), _IN_GRID, out=index)
        _error_function().take(index, None, out, "clip")
        np.subtract(d, _TO_GRID, out=d)
        np.subtract(x, d, out=d)
        np.multiply(d, _HALF, out=y)
        np.subtract(x, y, out=y)
        np.multiply(y, y, out=y)
        np.multiply(d, d, out=s)
        np.multiply(s, _SIXTIETH, out=t)
        np.add(t, y, out=t)
        np.subtract(t, _HALF, out=t)
        np.multiply(t, s, out=t)
        np.multiply(t, _SIXTH, out=t)
        np.subtract(t, y, out=t)
        np.add(t, _LOG_SLOPE, out=t)
        np.exp(t, out=t)
        np.multiply(t, d, out=t)
        np.add(out, t, out=out)


@functools.cache
def _error_function() -> Any:
    """The error function at the grid points, by the C library: from 0 up, then from -8."""
    half = _POINTS // 2
    table = np.array([math.erf(i / 512) for i in (*range(half), *range(-half, 0))])
    table[0] = -0.0  # keeps the sign of an added zero
    return table


FEW = 7
"""The most terms that are reduced by one call each; NumPy adds more in another order."""


def is_short(shape: Sequence[int], axes: Collection[int]) -> bool:
    """Whether a reduction is along the last axis alone, among others, which has 2 to FEW terms."""
    return len(shape) > 1 and tuple(axes) == (len(shape) - 1,) and 1 < shape[-1] <= FEW


def by_terms(ufunc: np.ufunc, x: Any) -> Any:
    """The reduction along a short last axis, which takes NumPy's own loop 3 to 16 times as long."""
    out = ufunc(x[..., 0], x[..., 1])
    for i in range(2, x.shape[-1]):
        ufunc(out, x[..., i], out=out)
    return ufunc(out, 0.0, out=out) if ufunc is np.add else out  # NumPy begins with 0.0
