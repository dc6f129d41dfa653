"""The logarithm of the gamma function and its derivatives for positive arguments, by NumPy alone.

The recurrence increases small arguments, and Stirling's series is summed there (DLMF 5.5.1, 5.11.1,
5.15.8).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.facts import TRANSCENDENTAL
from fungrad.primitives.primitive import Primitive, general

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""B_2, B_4, ... B_16."""


def log_gamma(x: Any) -> Any:
    """The logarithm of the gamma function of positive doubles, to 1e-14 of the larger of 1 and
    itself.
    """
    low = x < 10.0
    shift = np.where(low, 10.0, 0.0)
    product = np.ones_like(x)
    for k in range(10):
        product = np.where(low, product * (x + k), product)
    y = x + shift
    square = 1.0 / (y * y)
    series = np.zeros_like(y)
    for k in range(len(_BERNOULLI), 0, -1):
        series = series * square + _BERNOULLI[k - 1] / (2 * k * (2 * k - 1))
    return (y - 0.5) * np.log(y) - y + 0.5 * math.log(2 * math.pi) + series / y - np.log(product)


def polygamma_of(x: Any, order: int) -> Any:
    """The derivative of order + 1 of `log_gamma`, for doubles; NaN where x is not positive."""
    with np.errstate(all="ignore"):
        x = np.where(x > 0, x, np.nan)
        top = 10 + order
        low = x < top
        total = np.zeros_like(x)
        for k in range(top):
            total = np.where(low, total + (x + k) ** (-order - 1.0), total)
        y = np.where(low, x + top, x)
        square = 1.0 / (y * y)
        series = np.zeros_like(y)
        for k in range(len(_BERNOULLI), 0, -1):
            rising = math.factorial(2 * k + order - 1) / math.factorial(2 * k)
            series = series * square + _BERNOULLI[k - 1] * rising
        scale = y ** (-order - 1.0)
        series = series * scale / y + 0.5 * math.factorial(order) * scale
        if order == 0:
            return np.log(y) - series - total
        leading = math.factorial(order - 1) * y ** (-float(order))
        return (-1.0) ** (order + 1) * (math.factorial(order) * total + leading + series)


def digamma_difference(x: Any, step: Any) -> Any:
    """digamma(x + step) - digamma(x) for positive doubles, accurate for small steps."""
    with np.errstate(all="ignore"):
        low = x < 10.0
        total = np.zeros_like(x)
        for k in range(10):
            total = np.where(low, total + step / ((x + k) * (x + step + k)), total)
        y = np.where(low, x + 10.0, x)
        z = y + step
        near, far = 1.0 / (y * y), 1.0 / (z * z)
        series = [np.zeros_like(y), np.zeros_like(y)]
        for k in range(len(_BERNOULLI), 0, -1):
            term = _BERNOULLI[k - 1] / (2 * k)
            series = [(series[0] + term) * near, (series[1] + term) * far]
        return total + np.log1p(step / y) + 0.5 * step / (y * z) + (series[0] - series[1])


def _eval(x: Any, *, order: int) -> Any:
    given = np.asarray(x)
    return polygamma_of(given.astype(np.float64), order).astype(given.dtype)[()]


def _slope(x: Any, order: int) -> Any:
    return polygamma(x, order=order + 1)


polygamma: Primitive = general(
    "polygamma",
    cost=TRANSCENDENTAL,
    eval=_eval,
    type=lambda x, *, order: Type(x.shape, x.dtype),
    vjp=lambda ct, y, args, wanted, *, order: [ct * _slope(args[0], order)],
    jvp=lambda primals, tangents, *, order: (
        polygamma(primals[0], order=order),
        tangents[0] * _slope(primals[0], order),
    ),
    batch=lambda args, batched, size, *, order: polygamma(args[0], order=order),
)
"""`polygamma(x, order=)`: the derivative of order + 1 of log gamma, for positive floats; order 0 is
digamma."""
