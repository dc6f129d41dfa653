"""NumPy's covariances, and the positions and running sums that ignore NaN.

Compositions for traced values, with NumPy's formulas. Averages stand in mean_var.py, order
statistics in order_statistics.py.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from fungrad.numpy.mean_var import average
from fungrad.numpy.protocol.implements import NO_VALUE, implements
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.reshape_broadcast_cast import cast, concatenate, reshape
from fungrad.tracing.trace import Tracer, registry, shape_of


def _variables(m: Any, dtype: Any, rowvar: bool) -> Any:
    """Observations as a matrix whose rows are the variables."""
    m = cast(m, dtype)
    if len(m.shape) < 2:
        return reshape(m, shape=(1, m.size))
    return m if rowvar else m.T


def _weights(name: str, given: Any, count: int) -> Any:
    weights = cast(array_of(given), np.float64)
    if len(weights.shape) > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if weights.shape[0] != count:
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    if type(weights) is not Tracer:
        if np.any(weights < 0):
            raise ValueError(f"{name} cannot be negative")
        if name == "fweights" and not np.all(weights == np.round(weights)):
            raise TypeError("fweights must be integer")
    return weights


@implements(np.cov)
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None,
    fweights: Any = None, aweights: Any = None, *, dtype: Any = None,
) -> Any:  # fmt: skip
    """The covariance matrix of variables, as numpy.cov."""
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    m = array_of(m)
    y = None if y is None else array_of(y)
    if len(m.shape) > 2 or (y is not None and len(y.shape) > 2):
        raise ValueError(f"{'m' if len(m.shape) > 2 else 'y'} has more than 2 dimensions")
    if dtype is None:
        dtype = np.result_type(m.dtype, np.float64, *([] if y is None else [y.dtype]))
    x = _variables(m, np.dtype(dtype), rowvar)
    if not x.shape[0]:
        return np.zeros((0, 0))
    if y is not None:
        x = concatenate(x, _variables(y, np.dtype(dtype), rowvar or y.shape[0] == 1), axis=0)
    if ddof is None:
        ddof = 0 if bias else 1
    count = x.shape[1]
    weights: Any = None
    if fweights is not None:
        weights = _weights("fweights", fweights, count)
    if aweights is not None:
        analytic = _weights("aweights", aweights, count)
        weights = analytic if weights is None else weights * analytic
    center, total = average(x, axis=1, weights=weights, returned=True)
    factor: Any = count - ddof
    if weights is not None:
        factor = total[0]
        if ddof and aweights is None:
            factor = factor - ddof
        elif ddof:
            factor = factor - ddof * np.sum(weights * analytic) / factor
    if type(factor) is not Tracer and factor <= 0:
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=3)
        factor = 0.0
    x = x - center[:, None]
    other = x if weights is None else x * weights
    product = x @ np.conj(other.T)
    result = cast(product * np.true_divide(1, factor), product.dtype)
    kept = tuple([n for n in shape_of(result) if n != 1])
    return reshape(result, shape=kept)


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """The correlation coefficients of variables, as numpy.corrcoef."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.shape:
        return c / c
    scale = np.sqrt(np.real(np.diag(c)))
    c = c / scale[:, None] / scale[None, :]
    if c.dtype.kind == "c":
        return cast(np.clip(np.real(c), -1, 1) + np.clip(np.imag(c), -1, 1) * 1j, c.dtype)
    return np.clip(c, -1, 1)


# --- ignoring NaN ---------------------------------------------------------------------------------


def _position(function: Any, fill: float, a: Any, axis: Any, keepdims: Any) -> Any:
    a = array_of(a)
    if a.dtype.kind in "fc":
        nan = np.isnan(a)
        if type(nan) is not Tracer and np.any(np.all(nan, axis=axis)):
            raise ValueError("All-NaN slice encountered")
        a = select(nan, fill, a)
    return registry.functions[function](a, axis, keepdims=keepdims)


@implements(np.nanargmax)
def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
    """The position of the largest of what is not NaN, as numpy.nanargmax."""
    return _position(np.argmax, -np.inf, a, axis, keepdims)


@implements(np.nanargmin)
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
    """The position of the smallest of what is not NaN, as numpy.nanargmin."""
    return _position(np.argmin, np.inf, a, axis, keepdims)


def _running(function: Any, fill: float, a: Any, axis: Any, dtype: Any) -> Any:
    a = array_of(a)
    if a.dtype.kind in "fc":
        a = select(np.isnan(a), fill, a)
    return registry.functions[function](a, axis, dtype)


@implements(np.nancumsum)
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """The running sums with 0 for NaN, as numpy.nancumsum."""
    return _running(np.cumsum, 0.0, a, axis, dtype)


@implements(np.nancumprod)
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """The running products with 1 for NaN, as numpy.nancumprod."""
    return _running(np.cumprod, 1.0, a, axis, dtype)


__all__ = ["corrcoef", "cov", "nanargmax", "nanargmin", "nancumprod", "nancumsum"]
