"""Floor 6: functions of blocks of doubles, where NumPy's own loops work number by number.

Measured in cache for each element: sin and cos cost NumPy 7.5 ns each, both here 6 to 7; logaddexp
14, here 3; hypot 6, here 1.5. They are within 2 ulp of the right value (tests/test_kernels.py) but
for the sign of a zero; where the short way does not hold, NumPy's own is called. Knows NumPy only;
which kernels are used is set in optimise/kernels.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LARGEST = 1e5
"""Beyond this the three parts of pi/2 leave too few digits of the reduced argument."""

# pi / 2 in parts of 33 bits, so that a multiple of them by an integer below 2^20 is exact (fdlibm,
# __ieee754_rem_pio2), and what is left of it.
_PI_2_A, _PI_2_B, _PI_2_C = (
    1.57079632673412561417,
    6.07710050630396597660e-11,
    2.02226624879595063e-21,
)
_TWO_OVER_PI = 0.63661977236758138243
# Minimax polynomials on [-pi/4, pi/4] (fdlibm, k_sin.c and k_cos.c), from the highest power down.
_SINE = (
    1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
    -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01,
)  # fmt: skip
_COSINE = (
    -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
    2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02,
)  # fmt: skip


def sincos(x: Any, sine: Any, cosine: Any, k: Any, r: Any, z: Any, t: Any) -> None:
    """Writes sin(x) and cos(x); k, r, z and t are scratch, and no array is another one.

    Cody and Waite's reduction in three parts, then fdlibm's polynomials; the quadrant picks by
    multiplication with 0 and 1, which is exact.
    """
    np.absolute(x, out=t)
    if not t.max(initial=0.0) < LARGEST:  # NaN is not either
        np.sin(x, out=k)
        np.cos(x, out=cosine)
        np.copyto(sine, k)
        return
    np.multiply(x, _TWO_OVER_PI, out=k)
    np.rint(k, out=k)
    np.multiply(k, _PI_2_A, out=t)
    np.subtract(x, t, out=r)
    for part in (_PI_2_B, _PI_2_C):
        np.multiply(k, part, out=t)
        np.subtract(r, t, out=r)
    np.multiply(r, r, out=z)
    _polynomial(_SINE, z, sine)
    np.multiply(sine, z, out=sine)
    np.multiply(sine, r, out=sine)
    np.add(sine, r, out=sine)
    _polynomial(_COSINE, z, cosine)
    np.multiply(cosine, z, out=cosine)
    np.subtract(cosine, 0.5, out=cosine)
    np.multiply(cosine, z, out=cosine)
    np.add(cosine, 1.0, out=cosine)
    _turned(sine, cosine, k, r, z, t)


def _polynomial(coefficients: tuple[float, ...], z: Any, out: Any) -> None:
    np.multiply(z, coefficients[0], out=out)
    for coefficient in coefficients[1:-1]:
        np.add(out, coefficient, out=out)
        np.multiply(out, z, out=out)
    np.add(out, coefficients[-1], out=out)


def _turned(sine: Any, cosine: Any, k: Any, odd: Any, sign: Any, t: Any) -> None:
    """From the sine and cosine of the reduced argument to those of k quarter turns more."""
    np.multiply(k, 0.5, out=t)
    np.floor(t, out=t)
    np.multiply(t, 2.0, out=odd)
    np.subtract(k, odd, out=odd)  # 1 where the quarter turns are odd
    np.multiply(t, 0.5, out=sign)
    np.floor(sign, out=sign)
    np.multiply(sign, 2.0, out=sign)
    np.subtract(t, sign, out=sign)
    np.multiply(sign, -2.0, out=sign)
    np.add(sign, 1.0, out=sign)  # -1 where the half turns are odd
    np.multiply(odd, sign, out=odd)
    np.abs(odd, out=t)
    np.subtract(1.0, t, out=t)
    np.multiply(t, sign, out=t)  # the sign where the quarter turns are even, else 0
    np.multiply(sine, odd, out=k)
    np.multiply(sine, t, out=sine)
    np.multiply(cosine, odd, out=odd)
    np.add(sine, odd, out=sine)
    np.multiply(cosine, t, out=cosine)
    np.subtract(cosine, k, out=cosine)


def sincos_by_tangent(x: Any, sine: Any, cosine: Any, t: Any) -> None:
    """Writes sin(x) and cos(x) by the tangent of the half angle, in 2 ns; t is scratch.

    Right to 4e-16, absolutely: near their zeros away from x = 0 few digits are.
    """
    np.multiply(x, 0.5, out=t)
    np.tan(t, out=t)
    np.multiply(t, t, out=cosine)
    np.add(cosine, 1.0, out=sine)
    np.subtract(1.0, cosine, out=cosine)
    np.divide(cosine, sine, out=cosine)
    np.add(t, t, out=t)
    np.divide(t, sine, out=sine)


def logaddexp(x: Any, y: Any, out: Any, t: Any) -> None:
    """Writes log(e^x + e^y) = max(x, y) + log1p(e^-|x - y|); t is scratch."""
    with np.errstate(invalid="ignore"):
        np.subtract(x, y, out=t)
    if np.isnan(np.add.reduce(t, axis=None)):  # infinities, or NaN
        np.logaddexp(x, y, out=t)
        np.copyto(out, t)
        return
    np.absolute(t, out=t)
    np.negative(t, out=t)
    with np.errstate(under="ignore"):
        np.exp(t, out=t)
    np.log1p(t, out=t)
    np.maximum(x, y, out=out)
    np.add(out, t, out=out)


def hypot(x: Any, y: Any, out: Any, t: Any) -> None:
    """Writes sqrt(x^2 + y^2); t is scratch."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        np.multiply(x, x, out=t)
        np.multiply(y, y, out=out)
        np.add(t, out, out=out)
    smallest, largest = out.min(initial=1.0), out.max(initial=1.0)
    if not (smallest > 1e-280 and largest < np.inf):
        np.hypot(x, y, out=out)
        return
    np.sqrt(out, out=out)


SCRATCH = {sincos: 4, sincos_by_tangent: 1, logaddexp: 1, hypot: 1}
"""How many scratch arrays each takes, behind what it writes."""

__all__ = ["SCRATCH", "hypot", "logaddexp", "sincos", "sincos_by_tangent"]
