"""Functions of blocks of doubles, where NumPy's own loops work number by number.

Measured in cache for each element: sin and cos cost NumPy 7.5 ns each, both here 4 to 6; logaddexp
14, here 3 (of singles here 1.6); hypot 6, here 1.5; a sum of products 0.45, here 0.2; erf costs
SciPy 11 to 35 ns, here 9 to 13, without its import.
Functions are within 2 ulp of the right value (tests/test_kernels.py), and what is taken where the
setting is "fast" within 3; special results are NumPy's, signs of zeros among them. Where the short
way does not hold, NumPy's own is called.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

PIECE = 1_024
"""Elements of vectors that are given to BLAS."""
LARGEST = 1e5
"""Beyond this the three parts of pi/2 leave too few digits of the reduced argument."""
COUNTED = 1e14
"""Beyond this half turns are not counted right."""


def _numbers(*values: float) -> tuple[Any, ...]:
    """Numbers as ufuncs are given them fastest: NumPy takes 0.1 us to make an array of one of
    Python's, while other threads wait.
    """
    return tuple(map(np.array, values))


_HALF, _ONE, _TWO, _FOUR = _numbers(0.5, 1.0, 2.0, 4.0)
_QUARTER, _SIXTH, _SIXTIETH = _numbers(1.0 / 4.0, 1.0 / 6.0, 1.0 / 60.0)
_ONE_OVER_PI, _TWO_OVER_PI = _numbers(0.31830988618379067154, 0.63661977236758138243)
_ROUND, _TO_SIGN = _numbers(1.5 * 2.0**52, 63)
"""A number to which the first is added is rounded to an integer, which stands in the last bits."""

# pi / 2 in parts of 33 bits, so that a multiple of them by an integer below 2^20 is exact (fdlibm,
# __ieee754_rem_pio2), and what is left of it. The nearest double to pi / 2
# has 50 bits: twice it is exact.
_PARTS = _numbers(1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624879595063e-21)
_PARTS_OF_FEW = _numbers(1.5707963267948966, 6.123233995736766e-17)
_TINY = 1e-300
"""Half of an angle below this may be none, and the sine of -0.0 would be 0.0."""
_FEW = 3.9
"""Angles below this are at most two quarter turns from 0, and less than half of one more."""
_FEWER = 2.35
"""Angles below this are at most one."""
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
"""A number added to the first is rounded to a multiple of 1/512; its last bits count that."""
(_LOG_SLOPE,) = _numbers(math.log(2.0 / math.sqrt(math.pi)))
"""The logarithm of the derivative of the error function at 0."""
_SQUARED = {"d": 1e-280, "f": 1e-30}
"""Sums of squares above this have all digits."""
_SATURATED = 6.0
"""From here on the error function is 1."""


def sincos(x: Any, sine: Any, cosine: Any, k: Any, z: Any, t: Any) -> None:
    """Writes sin(x) and cos(x); k, z and t are scratch, z or t may be x.

    Cody and Waite's reduction to a quarter turn; of what is left the tangent of its half where that
    is fast, else fdlibm's polynomials; the quadrant picks by multiplication with 0 and 1, which is
    exact. Steps that only larger angles need are left out where the block has none.
    """
    np.absolute(x, k)
    largest = k.max(initial=0.0)
    if not (largest < LARGEST and k.min(initial=1.0) > _TINY):  # NaN is not either
        _by_numpy(x, sine, cosine)
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
        np.subtract(cosine, z, z)  # what that difference was rounded by
        np.subtract(t, z, t)
        np.copyto(cosine, sine)
    one = largest < _FEWER
    if fast_tangent():
        _by_half_angle(sine, cosine, z, t, one)
    else:
        _by_polynomials(sine, cosine, z, t)
    if largest >= _FEW:
        np.multiply(k, _QUARTER, t)
        np.rint(t, t)
        np.multiply(t, _FOUR, t)
        np.subtract(k, t, k)
    _turned(sine, cosine, k, z, t, one)


def _magnitude(x: Any) -> Any:
    """The largest absolute value; NaN where there is one."""
    return max(x.item(x.argmax()), -x.item(x.argmin())) if x.size else 0.0


def _by_numpy(x: Any, sine: Any, cosine: Any) -> None:
    np.sin(x, sine)
    np.cos(x, cosine)


@functools.cache
def fast_tangent() -> bool:
    """Whether this NumPy has a loop of vectors for the tangents of doubles on this processor."""
    try:
        found = np.lib.introspect.opt_func_info("^tan$", "float64")
    except AttributeError:  # NumPy below 2.1
        return False
    loops = found.get("tan", {}).values()  # none where no processor has another
    return any(not loop["current"].startswith("baseline") for loop in loops)


def _by_half_angle(sine: Any, cosine: Any, z: Any, t: Any, one: bool) -> None:
    """The sine and cosine of r - t, an eighth of a turn at most; r is given in place of the cosine,
    and t is a few units of its last place, which go into what is small beside the results. Of one
    quarter turn t is at most 6e-17: 0.4 ulp of the cosine, which has 1.5 without.
    """
    np.multiply(cosine, _HALF, cosine)
    np.tan(cosine, cosine)
    np.multiply(cosine, cosine, z)
    np.add(z, _ONE, sine)
    np.divide(z, sine, z)
    np.add(z, z, z)  # 1 - cos r
    np.multiply(cosine, z, sine)
    np.add(sine, t, sine)
    np.add(cosine, cosine, cosine)
    np.subtract(cosine, sine, sine)
    if not one:
        np.multiply(t, sine, t)
        np.subtract(z, t, z)
    np.subtract(_ONE, z, cosine)


def _by_polynomials(sine: Any, cosine: Any, z: Any, t: Any) -> None:
    """The same by the polynomials of fdlibm."""
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


def _turned(sine: Any, cosine: Any, k: Any, z: Any, t: Any, one: bool) -> None:
    """From the sine and cosine of the reduced argument to those of k quarter turns more, where k is
    one of -2, ..., 2; `one` says that there is but one at most.
    """
    np.absolute(k, z)
    np.subtract(_ONE, z, t)  # 1, 0, -1: the cosine of the turns
    if not one:
        np.subtract(_TWO, z, z)
        np.multiply(k, z, k)  # 0, 1 and -1, 0: their sine
    np.multiply(sine, k, z)
    np.multiply(k, cosine, k)
    np.multiply(sine, t, sine)
    np.add(sine, k, sine)
    np.multiply(cosine, t, cosine)
    np.subtract(cosine, z, cosine)


def sincos_by_tangent(x: Any, sine: Any, cosine: Any, t: Any) -> None:
    """Writes sin(x) and cos(x), each within 3 ulp; t is scratch, and may be x.

    The cosine is 1 / sqrt(1 + tan^2) and the sine tan times that, of an angle r that is x but for a
    number of half turns, from -pi/2 to pi/2. x - sin(r) is so near to a multiple of pi that
    rounding finds it, and an odd one turns both signs.
    """
    if not _magnitude(x) < COUNTED:  # NaN is not either
        _by_numpy(x, sine, cosine)
        return
    np.tan(x, sine)
    np.multiply(sine, sine, cosine)
    np.add(cosine, _ONE, cosine)
    np.divide(_ONE, cosine, cosine)
    np.sqrt(cosine, cosine)
    np.multiply(sine, cosine, sine)
    np.subtract(x, sine, t)
    np.multiply(t, _ONE_OVER_PI, t)
    np.add(t, _ROUND, t)
    sign, *results = (a.view(np.int64) for a in (t, sine, cosine))
    np.left_shift(sign, _TO_SIGN, sign)
    for result in results:
        np.bitwise_xor(result, sign, result)


def logaddexp(x: Any, y: Any, out: Any, t: Any) -> None:
    """Writes log(e^x + e^y) = max(x, y) + log1p(e^-|x - y|); t is scratch, and may be x or y."""
    with np.errstate(over="ignore", invalid="ignore"):
        np.maximum(x, y, out=out)
        np.subtract(x, y, out=t)
        unsure = np.isnan(np.add.reduce(t, axis=None))
    if unsure:  # of equal infinities and of NaN the maximum is the result
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

    The value of a grid next to x, and the integral of exp(-u^2) from there: d = x - x0 times the
    value at the midpoint m, times the mean of what is left of the exponential between them, whose
    logarithm is d^2 ((m^2 - 1/2) / 6 + d^2 / 360) to all digits that count (the Taylor series
    of exp(-u^2) about m, integrated: those of odd order cancel).
    """
    if not _magnitude(x) < _SATURATED:
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
    """The error function at the points of the grid, by the C library: from 0 up, then from -8."""
    half = _POINTS // 2
    found = np.array([math.erf(i / 512) for i in (*range(half), *range(-half, 0))])
    found[0] = -0.0  # to which 0.0 and -0.0 are added
    return found


def dot(x: Any, y: Any) -> Any:
    """The sum of x * y, in pieces for which OpenBLAS takes no threads of its own: those of several
    callers at once wait for each other, for a hundred times as long.
    """
    if x.dtype.char not in "fdFD":  # not by OpenBLAS
        return x.dot(y)
    whole = 0 if x.dtype.kind == "c" else len(x) // PIECE * PIECE
    total = x[whole : whole + PIECE].dot(y[whole : whole + PIECE])
    if whole:  # all in one call, as threads wait for each other between calls
        rows = (a[:whole].reshape(-1, PIECE) for a in (x, y))
        total += np.add.reduce(np.vecdot(*rows))
    for i in range(whole + PIECE, len(x), PIECE):
        total += x[i : i + PIECE].dot(y[i : i + PIECE])
    return total


def chosen(mask: Any, x: Any, y: Any, out: Any, t: Any) -> None:
    """Writes x where the mask is true, else y, by all bits of an element or none; t is scratch.

    np.where guesses which side comes next: it takes 0.5 ns an element where it is right, and 3.5
    where a mask is random; this takes 0.6.
    """
    words, bits = t.view(f"i{t.itemsize}"), out.view(f"i{out.itemsize}")
    np.negative(mask.view(np.int8), words)  # all bits where it is true
    x, y = (np.asarray(a, out.dtype).view(bits.dtype) for a in (x, y))
    if not y.ndim and not y:  # 0.0, all of whose bits are 0
        np.bitwise_and(x, words, bits)
        return
    np.bitwise_xor(x, y, bits)
    np.bitwise_and(bits, words, bits)
    np.bitwise_xor(bits, y, bits)


SCRATCH = {
    sincos: (1, 2), sincos_by_tangent: (0, 1), logaddexp: (0, 1), hypot: (1, 0),
    chosen: (1, 0),
}  # fmt: skip
"""How many scratch arrays each takes behind what it writes: those that are no arguments, and then
those that may be: they are first written when these were read."""
