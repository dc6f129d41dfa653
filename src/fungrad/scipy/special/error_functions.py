"""The error functions of scipy.special, the normal distribution's, and the logistic ones.

Formulas: DLMF chapter 7. Where 1 - 2x F(x) would lose all digits the asymptotic series is summed.
SciPy is imported when one is evaluated; large blocks of erf have a kernel, and numbers math.erf.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.compiler.lowering.fusion.fused_kernels import KERNELS
from fungrad.primitives.elementwise.family import Kind, Kinds, Over, elementwise, select
from fungrad.primitives.primitive import Primitive
from fungrad.runtime.kernels import elementwise as kernels
from fungrad.scipy.optional import real, scipy_special

sp = scipy_special(later=True)

_TWO_OVER_ROOT_PI = 2.0 / math.sqrt(math.pi)
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
FAR = 25.0
_TERMS = [math.prod(range(1, 2 * k, 2)) / 2**k for k in range(1, 8)]


def tail(x: Any, sign: float) -> Any:
    """The sum of sign^k (2k - 1)!! / (2 x^2)^k from k = 1 on (DLMF 7.12.1), for |x| > 25."""
    t = sign / (x * x)
    series: Any = 0.0
    for term in reversed(_TERMS):
        series = (series + term) * t
    return series


def _erfcx_slope(y: Any, x: Any) -> Any:
    far = real("erfcx", x) > FAR
    near = y * x * 2.0 - _TWO_OVER_ROOT_PI
    return select(far, _TWO_OVER_ROOT_PI * tail(select(far, x, FAR), -1.0), near)


def _dawsn_slope(y: Any, x: Any) -> Any:
    far = np.abs(real("dawsn", x)) > FAR
    return select(far, -tail(select(far, x, FAR), 1.0), 1.0 - 2.0 * x * y)


_REAL: dict[Kinds, Kind] = {
    ((np.dtype(dtype), weak),): (np.dtype(dtype), False)
    for dtype, weak in ((np.float64, False), (np.float64, True), (np.float32, False))
}
erf = elementwise(
    "erf",
    sp.erf,
    partials=[lambda y, x: np.exp(-x * x) * _TWO_OVER_ROOT_PI],
    types=_REAL,
    scalar="erf",
)
KERNELS[erf] = kernels.erf
erfc = elementwise("erfc", sp.erfc, partials=[lambda y, x: np.exp(-x * x) * -_TWO_OVER_ROOT_PI])
erfi = elementwise("erfi", sp.erfi, partials=[lambda y, x: np.exp(x * x) * _TWO_OVER_ROOT_PI])
erfcx = elementwise("erfcx", sp.erfcx, partials=[_erfcx_slope])
erfinv = elementwise("erfinv", sp.erfinv, partials=[lambda y, x: np.exp(y * y) / _TWO_OVER_ROOT_PI])
erfcinv = elementwise(
    "erfcinv", sp.erfcinv, partials=[lambda y, x: np.exp(y * y) / -_TWO_OVER_ROOT_PI]
)
dawsn = elementwise("dawsn", sp.dawsn, partials=[_dawsn_slope])


def _log_ndtr_slope(y: Any, x: Any) -> Any:
    """The normal density over its integral, by erfcx where both are tiny."""
    left = real("log_ndtr", x) < 0
    low = erfcx(select(left, x, 0.0) / -math.sqrt(2.0))
    high = np.exp(np.square(select(left, 0.0, x)) * -0.5 - select(left, 0.0, y))
    return select(left, math.sqrt(2.0 / math.pi) / low, high / _ROOT_TWO_PI)


ndtr = elementwise("ndtr", sp.ndtr, partials=[lambda y, x: np.exp(x * x * -0.5) / _ROOT_TWO_PI])
log_ndtr = elementwise("log_ndtr", sp.log_ndtr, partials=[_log_ndtr_slope])
ndtri = elementwise("ndtri", sp.ndtri, partials=[lambda y, x: np.exp(y * y * 0.5) * _ROOT_TWO_PI])
ndtri_exp = elementwise(
    "ndtri_exp", sp.ndtri_exp, partials=[lambda y, x: np.exp(y * y * 0.5 + x) * _ROOT_TWO_PI]
)

expit: Primitive = elementwise("expit", sp.expit, partials=[lambda y, x: y * expit(-x)])
logit = elementwise("logit", sp.logit, partials=[Over(lambda y, x: x * (1.0 - x))])
log_expit = elementwise("log_expit", sp.log_expit, partials=[lambda y, x: expit(-x)])
