"""Sums and shares of exponentials: logsumexp, softmax, log_softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.optional import scipy_special
from fungrad.tracing.trace import EVAL, current

_special = scipy_special()


def _shifted(a: Any, axis: Any) -> tuple[Any, Any]:
    """a less its largest element along axes, which are kept, and that element; a - inf is never
    taken.
    """
    top = stop_gradient(np.max(np.real(a), axis=axis, keepdims=True, initial=-np.inf))
    top = np.where(np.isfinite(top), top, 0.0)
    top = top.astype(np.real(a).dtype)
    return a - top, top


def floating(a: Any) -> Any:
    """An array of floats or complex numbers."""
    a = array_of(a)
    return a if a.dtype.kind in "fc" else a.astype(np.float64)


def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """log(sum(b exp(a))), as scipy.special.logsumexp, without overflow.

    Where all elements are -inf the result is -inf and its derivative 0.

    >>> import fungrad as fg
    >>> fg.grad(logsumexp)(np.array([1000.0, 1000.0]))
    array([0.5, 0.5])
    """
    if current() is EVAL:
        return _special.logsumexp(a, axis=axis, b=b, keepdims=keepdims, return_sign=return_sign)
    a = floating(a)
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


def softmax(x: Any, axis: Any = None) -> Any:
    """exp(x) / sum(exp(x)), as scipy.special.softmax.

    >>> softmax(np.array([1.0, 1.0]))
    array([0.5, 0.5])
    """
    if current() is EVAL:
        return _special.softmax(x, axis=axis)
    powers = np.exp(_shifted(floating(x), axis)[0])
    return powers / np.sum(powers, axis=axis, keepdims=True)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """log(softmax(x)), as scipy.special.log_softmax, without loss where it is large and negative.

    >>> log_softmax(np.array([1000.0, 0.0]))
    array([    0., -1000.])
    """
    if current() is EVAL:
        return _special.log_softmax(x, axis=axis)
    shifted, _ = _shifted(floating(x), axis)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
