"""The derivative of the Hurwitz zeta function with respect to its exponent.

The derivative of the Euler-Maclaurin sum, term by term (DLMF 25.2.9 and 25.11(iii)). It consists of
NumPy's functions, so that it has derivatives itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import select
from fungrad.scipy.optional import real, scipy_special

_TERMS = 10
"""The terms that are summed one by one."""
_CORRECTIONS = [
    (-1) ** (j + 1) * 2.0 * float(scipy_special().zeta(2.0 * j)) / (2.0 * math.pi) ** (2 * j)
    for j in range(1, 13)
]
"""B(2j)/(2j)! for the Bernoulli numbers B(2j) (DLMF 25.6.2): those of the correction terms. With
10 terms before them, the rest is below the rounding of double precision for x >= -1/2 and q > 0."""


def by_euler_maclaurin(x: Any, q: Any) -> Any:
    """The derivative with respect to x of the sum over k >= 0 of (q + k)**-x; not at x = 1."""
    slope: Any = 0.0
    for k in range(_TERMS):
        at = q + float(k)
        slope = slope - np.log(at) * at**-x
    at = q + float(_TERMS)
    log = np.log(at)
    tail = at / (x - 1.0) + 0.5
    tail_slope = -at / np.square(x - 1.0)
    product, product_slope = x / at, 1.0 / at  # of x (x + 1) ... (x + 2j - 2) / at**(2j - 1)
    for j, factor in enumerate(_CORRECTIONS, start=1):
        tail = tail + product * factor
        tail_slope = tail_slope + product_slope * factor
        for i in (2 * j - 1, 2 * j):
            product_slope = (product_slope * (x + float(i)) + product) / at
            product = product * (x + float(i)) / at
    return slope + at**-x * (tail_slope - log * tail)


def hurwitz_slope(y: Any, x: Any, q: Any) -> Any:
    """The derivative of zeta(x, q) with respect to x, where x > 1 and q > 0; elsewhere NaN."""
    inside = np.logical_and(real("zeta", x) > 1.0, q > 0.0)
    slope = by_euler_maclaurin(select(inside, x, 2.0), select(inside, q, 1.0))
    return select(inside, slope, np.nan)
