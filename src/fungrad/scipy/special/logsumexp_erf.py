"""logsumexp, softmax and log_softmax, the error functions of scipy.special, the normal
distribution's, and the logistic ones.

Formulas: DLMF chapter 7. Where 1 - 2x F(x) would lose all digits the asymptotic series is summed.
SciPy is imported when one is evaluated; erf of large blocks is a kernel, and of numbers math.erf.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from fungrad.compiler.native.native_forms import (
    FUNCTIONS,
    double,
    exponentials,
    form_of,
    logarithms,
    single,
)
from fungrad.extend import kernel
from fungrad.numpy.protocol.operands import array_of, inexact_of
from fungrad.primitives.elementwise.family import Kind, Kinds, Over, select
from fungrad.primitives.primitive import Primitive
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.runtime import kernels
from fungrad.scipy import optional
from fungrad.scipy.optional import real, scipy_special, stands_for

_special = scipy_special()


def _shifted(a: Any, axis: Any) -> tuple[Any, Any]:
    """a minus its largest element along axes, and that element, with the axes kept; infinite ones
    are not subtracted.
    """
    top = stop_gradient(np.max(np.real(a), axis=axis, keepdims=True, initial=-np.inf))
    top = np.where(np.isfinite(top), top, 0.0)
    top = top.astype(np.real(a).dtype)
    return a - top, top


@stands_for("scipy.special")
def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """log(sum(b exp(a))) without overflow: the largest element is subtracted first.

    If all elements are -inf, the result is -inf and its derivative 0.

    Args:
      a: real or complex.
      axis: one or several; all elements for None.
      b: factors, which broadcast against a; ones if None.
      keepdims: whether the axes are kept, with the length 1.
      return_sign: whether to return the logarithm of the sum's size, and its sign.

    Returns:
      Numbers without the axes, of a floating dtype; or the pair of them and the signs.

    >>> import fungrad as fg
    >>> fg.grad(logsumexp)(np.array([1000.0, 1000.0]))
    array([0.5, 0.5])
    """
    a = inexact_of(a)
    if b is not None:
        a, b = np.broadcast_arrays(a, array_of(b))
        a = np.where(b == 0, -np.inf, a)
    shifted, top = _shifted(a, axis)
    terms = np.exp(shifted) if b is None else b * np.exp(shifted)
    total = np.sum(terms, axis=axis, keepdims=True)
    sign = np.sign(total)
    size = np.abs(total) if return_sign else total
    empty = size == 0
    out = np.where(empty, -np.inf, np.log(select(empty, 1.0, size)) + top)
    out = out.astype(total.dtype)
    if not keepdims:
        out, sign = np.squeeze(out, axis), np.squeeze(sign, axis)
    return (out, sign) if return_sign else out


@stands_for("scipy.special")
def softmax(x: Any, axis: Any = None) -> Any:
    """exp(x) / sum(exp(x)) without overflow.

    Args:
      x: real or complex.
      axis: that of the sum, one or several; all elements for None.

    Returns:
      An array of the shape of x, of a floating dtype.

    >>> import fungrad as fg
    >>> fg.grad(lambda x: softmax(x)[0])(np.array([1.0, 1.0]))
    array([ 0.25, -0.25])
    """
    powers = np.exp(_shifted(inexact_of(x), axis)[0])
    return powers / np.sum(powers, axis=axis, keepdims=True)


@stands_for("scipy.special")
def log_softmax(x: Any, axis: Any = None) -> Any:
    """log(softmax(x)), accurate for small probabilities too.

    Args:
      x, axis: as for `softmax`.

    >>> log_softmax(np.array([1000.0, 0.0]))
    array([    0., -1000.])
    """
    shifted, _ = _shifted(inexact_of(x), axis)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


sp = scipy_special(later=True)
special = functools.partial(optional.special, functions=sp)

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
erf = special("erf", lambda y, x: np.exp(-x * x) * _TWO_OVER_ROOT_PI, types=_REAL, scalar=math.erf)
kernel(erf, kernels.erf, scratch=4)
FUNCTIONS[erf] = form_of(lambda: (double.erf, single.erf), 2.7)
erfc = special("erfc", lambda y, x: np.exp(-x * x) * -_TWO_OVER_ROOT_PI)
FUNCTIONS[erfc] = form_of(lambda: (double.erfc, single.erfc), 2.8)
erfi = special("erfi", lambda y, x: np.exp(x * x) * _TWO_OVER_ROOT_PI)
erfcx = special("erfcx", _erfcx_slope)
erfinv = special("erfinv", lambda y, x: np.exp(y * y) / _TWO_OVER_ROOT_PI)
erfcinv = special("erfcinv", lambda y, x: np.exp(y * y) / -_TWO_OVER_ROOT_PI)
dawsn = special("dawsn", _dawsn_slope)


def _log_ndtr_slope(y: Any, x: Any) -> Any:
    """The normal density divided by its integral, by erfcx where both are tiny."""
    left = real("log_ndtr", x) < 0
    low = erfcx(select(left, x, 0.0) / -math.sqrt(2.0))
    high = np.exp(np.square(select(left, 0.0, x)) * -0.5 - select(left, 0.0, y))
    return select(left, math.sqrt(2.0 / math.pi) / low, high / _ROOT_TWO_PI)


ndtr = special("ndtr", lambda y, x: np.exp(x * x * -0.5) / _ROOT_TWO_PI)
log_ndtr = special("log_ndtr", _log_ndtr_slope)
ndtri = special("ndtri", lambda y, x: np.exp(y * y * 0.5) * _ROOT_TWO_PI)
ndtri_exp = special("ndtri_exp", lambda y, x: np.exp(y * y * 0.5 + x) * _ROOT_TWO_PI)

expit: Primitive = special("expit", lambda y, x: y * expit(-x))
FUNCTIONS[expit] = form_of(lambda: (exponentials.sigmoid, single.sigmoid), 1.0)
logit = special("logit", Over(lambda y, x: x * (1.0 - x)))
log_expit = special("log_expit", lambda y, x: expit(-x))
FUNCTIONS[log_expit] = form_of(lambda: (logarithms.log_sigmoid, single.log_sigmoid), 1.9)
