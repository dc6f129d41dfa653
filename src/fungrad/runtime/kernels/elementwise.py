"""Elementwise functions of doubles made of vectorised NumPy calls, where NumPy's loop is scalar.

CPU time in cache per element: a sine and its cosine take NumPy 19 to 34 ns, here 8 to 10;
logaddexp 21, here 4 (in single precision 19 and 2); hypot 13, here 2; a choice by random masks 1.5,
here 1.0; erf 14 by SciPy, here 5, without its import.
Errors are within 2 ulp (tests/compiler/test_kernels.py); special values and signs of zeros are
NumPy's. Arguments out of range go to NumPy's function.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

LARGEST = 1e5
"""Beyond it the three parts of pi/2 leave too few digits of the reduced argument."""
FEW = 32
"""One of so many elements of a mask is copied by itself in less time than the bits of all."""


def _numbers(*values: float) -> tuple[Any, ...]:
    """Numbers as 0-d arrays: to convert a Python number costs a ufunc call 0.1 us, while other
    threads wait.
    """
    return tuple(map(np.array, values))


_HALF, _ONE, _TWO, _FOUR = _numbers(0.5, 1.0, 2.0, 4.0)
_QUARTER, _SIXTH, _SIXTIETH = _numbers(1.0 / 4.0, 1.0 / 6.0, 1.0 / 60.0)
(_TWO_OVER_PI,) = _numbers(0.63661977236758138243)

# pi / 2 in parts of 33 bits, so that their product with an integer below 2^20 is exact (fdlibm,
# __ieee754_rem_pio2), and the rest. The nearest double to pi / 2 has 50 bits: twice it is exact.
_PARTS = _numbers(1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624879595063e-21)
_PARTS_OF_FEW = _numbers(1.5707963267948966, 6.123233995736766e-17)
_TINY = 1e-300
"""NumPy computes smaller angles: the sine of -0.0 would be 0.0."""
_FEW = 3.9
"""Smaller angles are reduced by at most two quarter turns."""
# Minimax polynomials on [-pi/4, pi/4] (fdlibm, k_sin.c and k_cos.c), from the highest power down.
_SINE = _numbers(
    1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
    -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01,
)  # fmt: skip
_COSINE = _numbers(
    -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
    2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02,
)  # fmt: skip

_POINTS = 8_192
_TO_GRID, _IN_GRID = _numbers(1.5 * 2.0**43, _POINTS - 1)
"""Adding the first rounds a number to a multiple of 1/512, whose index is in the lowest bits."""
(_LOG_SLOPE,) = _numbers(math.log(2.0 / math.sqrt(math.pi)))
"""The logarithm of the derivative of the error function at 0."""
_SQUARED = {"d": 1e-280, "f": 1e-30}
"""Larger sums of squares are accurate."""
_SATURATED = 6.0
"""From here on the error function is 1 in double precision."""


def sincos(x: Any, sine: Any, cosine: Any, k: Any, z: Any, t: Any) -> None:
    """Writes sin(x) and cos(x); k, z and t are scratch, z or t may be x.

    Cody and Waite's reduction by quarter turns, then fdlibm's polynomials. The quadrant selects by
    multiplication with 0 and 1, which is exact. Steps for larger angles are skipped if the block
    has none.
    """
    np.absolute(x, k)
    largest = k.max(initial=0.0)
    if not (largest < LARGEST and k.min(initial=1.0) > _TINY):  # NaN is not either
        np.sin(x, sine)
        np.cos(x, cosine)
        return
    np.multiply(x, _TWO_OVER_PI, k)
    np.rint(k, k)
    first, *others = _PARTS_OF_FEW if largest < _FEW else _PARTS
    np.multiply(k, first, cosine)
    np.subtract(x, cosine, cosine)
    np.multiply(k, others[-1], t)
    if largest >= _FEW:
        np.multiply(k, others[0], z)
        np.subtract(cosine, z, sine)
        np.subtract(cosine, sine, cosine)
        np.subtract(cosine, z, z)  # the rounding error of that difference
        np.subtract(t, z, t)
        np.copyto(cosine, sine)
    _by_polynomials(sine, cosine, z, t)
    if largest >= _FEW:
        np.multiply(k, _QUARTER, t)
        np.rint(t, t)
        np.multiply(t, _FOUR, t)
        np.subtract(k, t, k)
    _turned(sine, cosine, k, z, t)


def _by_polynomials(sine: Any, cosine: Any, z: Any, t: Any) -> None:
    """The sine and cosine of r - t by fdlibm's polynomials; `cosine` holds r at first."""
    np.multiply(cosine, cosine, z)
    _polynomial(_SINE, z, sine)
    np.multiply(sine, z, sine)
    np.multiply(sine, cosine, sine)
    np.subtract(sine, t, sine)
    np.add(sine, cosine, sine)
    np.multiply(t, sine, t)
    _polynomial(_COSINE, z, cosine)
    np.multiply(cosine, z, cosine)
    np.subtract(cosine, _HALF, cosine)
    np.multiply(cosine, z, cosine)
    np.add(cosine, t, cosine)
    np.add(cosine, _ONE, cosine)


def _polynomial(coefficients: tuple[Any, ...], z: Any, out: Any) -> None:
    np.multiply(z, coefficients[0], out)
    for coefficient in coefficients[1:-1]:
        np.add(out, coefficient, out)
        np.multiply(out, z, out)
    np.add(out, coefficients[-1], out)


def _turned(sine: Any, cosine: Any, k: Any, z: Any, t: Any) -> None:
    """Adds k quarter turns to the angle of a sine and cosine, for k from -2 to 2."""
    np.absolute(k, z)
    np.subtract(_ONE, z, t)  # 1, 0, -1: the cosine of the turns
    np.subtract(_TWO, z, z)
    np.multiply(k, z, k)  # 0, 1 and -1, 0: their sine
    np.multiply(sine, k, z)
    np.multiply(k, cosine, k)
    np.multiply(sine, t, sine)
    np.add(sine, k, sine)
    np.multiply(cosine, t, cosine)
    np.subtract(cosine, z, cosine)


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


def hypot(x: Any, y: Any, out: Any, t: Any) -> None:
    """Writes sqrt(x^2 + y^2); t is scratch."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        np.multiply(x, x, out=t)
        np.multiply(y, y, out=out)
        np.add(t, out, out=out)
    smallest, largest = out.min(initial=1.0), out.max(initial=1.0)
    if not (smallest > _SQUARED[out.dtype.char] and largest < np.inf):
        np.hypot(x, y, out=out)
        return
    np.sqrt(out, out=out)


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
        place = t.view(np.int64)
        np.bitwise_and(d.view(np.int64), _IN_GRID, out=place)
        _error_function().take(place, None, out, "clip")
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
    found = np.array([math.erf(i / 512) for i in (*range(half), *range(-half, 0))])
    found[0] = -0.0  # keeps the sign of an added zero
    return found


def chosen(mask: Any, x: Any, y: Any, out: Any, t: Any) -> None:
    """Writes x where the mask is true, else y, by bitwise operations; t is scratch.

    np.where branches: it takes 0.5 ns per element if branches are predicted, and 3.5 for a random
    mask; this takes 0.6, and 0.4 for few elements among zeros.
    """
    words, bits = t.view(f"i{t.itemsize}"), out.view(f"i{out.itemsize}")
    x, y = (np.asarray(a, out.dtype).view(bits.dtype) for a in (x, y))
    zeros = not y.ndim and not y  # 0.0, all of whose bits are 0
    if zeros and FEW * np.count_nonzero(mask) < mask.size:
        bits.fill(0)
        np.copyto(bits, x, where=mask)
        return
    np.negative(mask.view(np.int8), words)  # all bits set where it is true
    if zeros:
        np.bitwise_and(x, words, bits)
        return
    np.bitwise_xor(x, y, bits)
    np.bitwise_and(bits, words, bits)
    np.bitwise_xor(bits, y, bits)


SCRATCH = {
    sincos: (1, 2), logaddexp: (0, 1), hypot: (1, 0), chosen: (1, 0),
}  # fmt: skip
"""The numbers of scratch arrays of each, after its outputs: those that must differ from the
arguments, then those that may be arguments, as these are read before the first write to them."""
