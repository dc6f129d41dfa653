"""NumPy's special functions for traced values: sinc and i0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.numpy.protocol.implements import implements, of_arrays
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.special import bessel

_SINC_SERIES = [(-1) ** k / math.factorial(2 * k + 1) for k in range(11)]


@implements(np.sinc)
def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), as np.sinc; its power series near 0, for the derivatives there."""
    y = array_of(x) * math.pi
    near = np.abs(y) < 1.0
    t = np.square(select(near, y, 0.0))
    series = 0.0
    for coefficient in reversed(_SINC_SERIES):
        series = series * t + coefficient
    far = select(near, 1.0, y)
    return select(near, series, np.sin(far) / far)


@implements(np.i0)
@of_arrays
def i0(x: Any) -> Any:
    """The modified Bessel function of order 0, as numpy.i0; its derivative is that of order 1."""
    return bessel.i0(array_of(x))


__all__ = ["i0", "sinc"]
