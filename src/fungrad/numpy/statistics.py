"""NumPy's covariances, and the reductions that ignore NaN, for traced values.

A reduction that ignores NaN replaces it by the neutral value and calls the plain reduction, as
NumPy does; NaN elements have exactly no derivative. Averages are in mean_var.py, order statistics
in order_statistics.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.ir.canonical import canonical_dtype
from fungrad.numpy.mean_var import average, squared_size
from fungrad.numpy.protocol.implements import NO_VALUE, as_array, implements, of_arrays
from fungrad.numpy.protocol.operands import array_of, reduced_axes, with_axes_kept
from fungrad.numpy.reductions import only
from fungrad.primitives.elementwise.family import div, le, logical_and, logical_not, select, sub
from fungrad.primitives.elementwise.ufuncs import isnan
from fungrad.primitives.movement.gather import Index, getitem
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    cast,
    concatenate,
    reduce_sum,
    reshape,
)
from fungrad.primitives.reduction.reduce import reduce_all, root
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.tracing.trace import Tracer, registry, shape_of, typeof


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


def _combined_weights(fweights: Any, aweights: Any, count: int) -> tuple[Any, Any]:
    """The product of the two kinds of weights of observations, and the analytic ones; or None."""
    repeats = None if fweights is None else _weights("fweights", fweights, count)
    analytic = None if aweights is None else _weights("aweights", aweights, count)
    if repeats is None or analytic is None:
        return (repeats if analytic is None else analytic), analytic
    return repeats * analytic, analytic


def _degrees_of_freedom(total: Any, ddof: Any, weights: Any, analytic: Any) -> Any:
    """The divisor of a covariance of weighted observations."""
    if not ddof:
        return total
    if analytic is None:
        return total - ddof
    return total - ddof * np.sum(weights * analytic) / total


@implements(np.cov)
@of_arrays
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None,
    fweights: Any = None, aweights: Any = None, *, dtype: Any = None,
) -> Any:  # fmt: skip
    """The covariance matrix of variables, as numpy.cov."""
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    m = array_of(m)
    y = None if y is None else array_of(y)
    for name, given in (("m", m), ("y", y)):
        if given is not None and len(given.shape) > 2:
            raise ValueError(f"{name} has more than 2 dimensions")
    if dtype is None:
        dtype = np.result_type(m.dtype, np.float64, *([] if y is None else [y.dtype]))
    x = _variables(m, canonical_dtype(dtype), rowvar)
    if not x.shape[0]:
        return np.zeros((0, 0))
    if y is not None:
        x = concatenate(x, _variables(y, canonical_dtype(dtype), rowvar or y.shape[0] == 1), axis=0)
    if ddof is None:
        ddof = 0 if bias else 1
    count = x.shape[1]
    weights, analytic = _combined_weights(fweights, aweights, count)
    center, total = average(x, axis=1, weights=weights, returned=True)
    factor: Any = count - ddof
    if weights is not None:
        factor = _degrees_of_freedom(total[0], ddof, weights, analytic)
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
    """The position of the largest element, ignoring NaN, as numpy.nanargmax."""
    return _position(np.argmax, -np.inf, a, axis, keepdims)


@implements(np.nanargmin)
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
    """The position of the smallest element, ignoring NaN, as numpy.nanargmin."""
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


def _filled(a: Any, fill: Any) -> tuple[Any, Any]:
    """a with `fill` for NaN, and the mask of NaN (None if a cannot hold NaN)."""
    a = as_array(a)
    if typeof(a).dtype.kind not in "fc":
        return a, None
    nan = isnan(a)
    return select(nan, fill, a), nan


def _plain(function: Any) -> Callable[..., Any]:
    return registry.functions[function]


@implements(np.nansum)
def nansum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE, where: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The sum, ignoring NaN, as numpy.nansum."""
    return _plain(np.sum)(_filled(a, 0)[0], axis, dtype, None, keepdims, initial, where)


@implements(np.nanprod)
def nanprod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE, where: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The product, ignoring NaN, as numpy.nanprod."""
    return _plain(np.prod)(_filled(a, 1)[0], axis, dtype, None, keepdims, initial, where)


def _extremum(
    function: Any, fill: float, a: Any, axis: Any, keepdims: Any, initial: Any, where: Any
) -> Any:
    filled, nan = _filled(a, fill)
    y = _plain(function)(filled, axis, None, keepdims, initial, where)
    if nan is None or not typeof(filled).size:
        return y
    axes = reduced_axes(axis, len(shape_of(nan)))
    nothing = reduce_all(only(nan, where, True), axes=axes)
    if keepdims is not NO_VALUE and keepdims:
        nothing = with_axes_kept(nothing, shape_of(nan), axes)
    if initial is not NO_VALUE:
        return y
    missing = np.nan if typeof(filled).dtype.kind == "f" else _first(a, axes, shape_of(y))
    return select(nothing, missing, y)


def _first(a: Any, axes: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """The first element along axes: the complex NaN that NumPy returns if all are NaN."""
    a = as_array(a)
    index = tuple([0 if i in axes else slice(None) for i in range(len(shape_of(a)))])
    return reshape(stop_gradient(getitem(a, index=Index(index))), shape=shape)


@implements(np.nanmax)
def nanmax(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE, where: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The largest element, ignoring NaN, as numpy.nanmax; NaN if all are NaN."""
    return _extremum(np.max, -np.inf, a, axis, keepdims, initial, where)


@implements(np.nanmin)
def nanmin(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE, where: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The smallest element, ignoring NaN, as numpy.nanmin; NaN if all are NaN."""
    return _extremum(np.min, np.inf, a, axis, keepdims, initial, where)


def _counted(nan: Any, where: Any) -> Any:
    """The mask of the elements that count."""
    counted = logical_not(nan)
    if where is NO_VALUE or where is True:
        return counted
    return logical_and(counted, broadcast_to(as_array(where), shape=shape_of(nan)))


@implements(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE,
    *, where: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The mean, ignoring NaN, as numpy.nanmean."""
    filled, nan = _filled(a, 0)
    if nan is None:
        return _plain(np.mean)(filled, axis, dtype, None, keepdims, where=where)
    total = _plain(np.sum)(filled, axis, dtype, None, keepdims, where=where)
    count = _plain(np.sum)(_counted(nan, where), axis, np.intp, None, keepdims)
    return cast(div(total, count), typeof(total).dtype)


@implements(np.nanvar)
def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE, mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The variance, ignoring NaN, as numpy.nanvar."""
    filled, nan = _filled(a, 0)
    if nan is None:
        return _plain(np.var)(
            filled, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction
        )
    if correction is not NO_VALUE:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    shape = shape_of(filled)
    axes = reduced_axes(axis, len(shape))
    counted = _counted(nan, where)
    count = reduce_sum(counted, axes=axes)
    if mean is NO_VALUE:
        summed = filled if dtype is None else cast(filled, dtype)
        total = reduce_sum(only(summed, where, 0), axes=axes)
        center = cast(div(total, count), typeof(total).dtype)
        center = with_axes_kept(center, shape, axes)
    else:
        center = as_array(mean)
    squares = squared_size(select(counted, sub(filled, center), 0))
    if dtype is not None:
        squares = cast(squares, dtype)
    total = reduce_sum(squares, axes=axes)
    free = sub(count, ddof)
    y = cast(div(total, free), typeof(total).dtype)
    y = select(le(free, 0), np.nan, y)
    return with_axes_kept(y, shape, axes) if keepdims is not NO_VALUE and keepdims else y


@implements(np.nanstd)
def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE, mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The standard deviation, ignoring NaN, as numpy.nanstd; derivative 0 at constant data."""
    return root(
        _plain(np.nanvar)(
            a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction
        )
    )


__all__ = [
    "corrcoef",
    "cov",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
]
