"""The Gaussian distribution function, of the exact gelu."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import elementwise

_erfc = np.frompyfunc(math.erfc, 1, 1)


def _eval_normal_cdf(x: Any) -> Any:
    # erfc, not 1 + erf: full relative precision in the left tail. math.erfc is exact to an ulp;
    # NumPy has no such function.
    given = np.asarray(x).dtype
    dtype = given if given.kind == "f" else np.result_type(given, np.float16)
    scaled = np.asarray(x, np.float64) * -math.sqrt(0.5)
    return np.asarray(0.5 * np.asarray(_erfc(scaled), np.float64), dtype)[()]


def _density(x: Any) -> Any:
    return np.exp(x * x * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))


normal_cdf = elementwise(
    "normal_cdf",
    _eval_normal_cdf,
    partials=[lambda y, x: _density(np.clip(x, -40.0, 40.0))],  # beyond, the density is 0
)
"""`normal_cdf(x)`: the probability that a standard normal variable is at most x, for real x."""
