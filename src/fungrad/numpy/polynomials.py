"""NumPy's functions of polynomials, given by their coefficients, the highest power first.

The roots are differentiated as implicit functions of the coefficients.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

from fungrad.numpy.diff_interp_trapezoid import convolve
from fungrad.numpy.join_split import concatenate
from fungrad.numpy.protocol.implements import if_known, implements, known
from fungrad.numpy.protocol.operands import array_of
from fungrad.numpy.protocol.result_order import results_in_order
from fungrad.primitives.movement.reshape_broadcast_cast import cast, pad, reduce_sum, reshape
from fungrad.primitives.special.bessel import polynomial_roots
from fungrad.tracing.trace import Tracer


def _coefficients(p: Any) -> Any:
    """Coefficients as a vector; those of a poly1d too."""
    p = array_of(p.coeffs if isinstance(p, np.poly1d) else p)
    return p if p.shape else reshape(p, shape=(1,))


def _aligned(a1: Any, a2: Any) -> tuple[Any, Any]:
    x, y = _coefficients(a1), _coefficients(a2)
    if len(x.shape) > 1 or len(y.shape) > 1:  # NumPy adds arrays of one length
        return x, y
    length = max(x.size, y.size)
    return pad(x, widths=((length - x.size, 0),)), pad(y, widths=((length - y.size, 0),))


def _as_given(result: Any, *given: Any) -> Any:
    """A result as np.poly1d if an argument was one."""
    return np.poly1d(result) if any(isinstance(p, np.poly1d) for p in given) else result


@implements(np.polyadd)
def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials, as numpy.polyadd."""
    x, y = _aligned(a1, a2)
    return _as_given(x + y, a1, a2)


@implements(np.polysub)
def polysub(a1: Any, a2: Any) -> Any:
    """The difference of two polynomials, as numpy.polysub."""
    x, y = _aligned(a1, a2)
    return _as_given(x - y, a1, a2)


def _leading_zeros(p: Any) -> int:
    """The number of leading zeros, which numpy.poly1d drops; 0 if only the type is known."""
    values = if_known(p)
    if values is None:
        return 0
    used = np.flatnonzero(values)
    return int(used[0]) if used.size else max(values.size - 1, 0)


@implements(np.polymul)
def polymul(a1: Any, a2: Any) -> Any:
    """The product of two polynomials, as numpy.polymul.

    Leading zeros are dropped if they are known; the other coefficients keep their derivatives by
    them.
    """
    x, y = _coefficients(a1), _coefficients(a2)
    if len(x.shape) > 1 or len(y.shape) > 1:
        raise ValueError("Polynomial must be 1d only.")
    x, y = (p if p.size else np.zeros(1, p.dtype) for p in (x, y))
    return _as_given(convolve(x, y)[_leading_zeros(x) + _leading_zeros(y) :], a1, a2)


@implements(np.polydiv)
def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """The quotient and the remainder of two polynomials, as numpy.polydiv.

    Leading zeros of the remainder are dropped, so it has to be known.
    """
    given = (u, v)
    u, v = _coefficients(u) + 0.0, _coefficients(v) + 0.0
    dtype = np.result_type(u.dtype, v.dtype)
    n, m = v.size - 1, u.size - 1
    rest, scale = cast(u, dtype), 1.0 / v[0]
    quotients = []
    for k in range(m - n + 1):
        factor = scale * rest[k]
        quotients.append(factor)
        rest = rest - pad(factor * v, widths=((k, m - n - k),))
    quotient = np.stack(quotients) if quotients else np.zeros(1, dtype)
    values = known(rest, "np.polydiv (it leaves out zeros in front of the remainder)")
    start = 0
    while start < values.size - 1 and np.allclose(values[start], 0, rtol=1e-14):
        start += 1
    return _as_given(quotient, *given), _as_given(rest[start:], *given)


@implements(np.polyder)
def polyder(p: Any, m: Any = 1) -> Any:
    """The m-th derivative of a polynomial, as numpy.polyder."""
    order = operator.index(m)
    if order < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    coefficients = _coefficients(p)
    for _ in range(order):
        coefficients = coefficients[:-1] * np.arange(coefficients.size - 1, 0, -1)
    return _as_given(coefficients, p)


@implements(np.polyint)
def polyint(p: Any, m: Any = 1, k: Any = None) -> Any:
    """The m-th integral of a polynomial, with constants k, as numpy.polyint."""
    order = operator.index(m)
    if order < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    coefficients = _coefficients(p)
    constants = _coefficients(0.0 if k is None else k)
    if constants.size == 1 and order > 1:
        constants = constants[0] * np.ones(order)
    if constants.size < order:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    for i in range(order):
        coefficients = concatenate(
            [coefficients / np.arange(coefficients.size, 0, -1), constants[i : i + 1]]
        )
    return _as_given(coefficients, p)


@implements(np.polyval)
@results_in_order("K", 1)
def polyval(p: Any, x: Any) -> Any:
    """The value of a polynomial at x, as numpy.polyval; x may be a poly1d."""
    p = _coefficients(p)
    if isinstance(x, np.poly1d):
        x = _coefficients(x)
        result: Any = np.zeros(1)
        for i in range(p.size):
            result = polyadd(polymul(result, x), p[i])
        return result
    x = array_of(x)
    result = np.zeros(x.shape, x.dtype)
    for coefficient in p:
        result = result * x + coefficient
    return result


@implements(np.poly)
def poly(seq_of_zeros: Any) -> Any:
    """The coefficients of the polynomial with the given roots, as numpy.poly.

    If the roots are known and come in conjugate pairs, the coefficients are real.
    """
    zeros = array_of(seq_of_zeros)
    zeros = zeros if zeros.shape else reshape(zeros, shape=(1,))
    if len(zeros.shape) == 2 and zeros.shape[0] == zeros.shape[1] != 0:
        zeros = np.linalg.eigvals(zeros)
    elif len(zeros.shape) != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    if not zeros.size:
        return 1.0
    zeros = cast(zeros, np.mintypecode(zeros.dtype.char))
    result: Any = np.ones(1, zeros.dtype)
    for zero in zeros:
        result = convolve(result, np.stack([np.ones_like(zero), -zero]))
    if zeros.dtype.kind == "c":
        values = known(zeros, "np.poly of complex roots")
        if np.all(np.sort(values) == np.sort(values.conjugate())):
            result = np.real(result)
    return result


@implements(np.roots)
def roots(p: Any) -> Any:
    """The roots of a polynomial, as numpy.roots.

    If the coefficients are known, leading zeros are dropped, though the roots have derivatives by
    them, and roots that are all real are returned as real numbers. If only their type is known, the
    first must not be 0, and the roots are complex.

    Raises:
      ValueError: if the first coefficient is 0 when a compiled program runs.
    """
    p = _coefficients(p)
    if len(p.shape) != 1:
        raise ValueError("Input must be a rank-1 array.")
    if p.dtype.kind not in "fc":
        p = cast(p, np.float64)
    values = if_known(p)
    if values is None:
        return polynomial_roots(p)
    used = np.flatnonzero(values)
    if not used.size:
        return np.zeros(0)
    results = polynomial_roots(p, start=int(used[0]))
    if used[0] == used[-1]:  # no root but 0: NumPy's are doubles
        return cast(np.real(results), np.float64)
    if p.dtype.kind == "f" and not np.any(np.imag(known(results, "np.roots"))):
        results = np.real(results)
    return results


# --- least squares --------------------------------------------------------------------------------


@implements(np.polyfit)
def polyfit(
    x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """The polynomial that fits points best, as numpy.polyfit; also differentiable by x and w."""
    order = operator.index(deg) + 1
    if order < 1:
        raise ValueError("expected deg >= 0")
    x, y = array_of(x) + 0.0, array_of(y) + 0.0
    if len(x.shape) != 1:
        raise TypeError("expected 1D vector for x")
    if not x.size:
        raise TypeError("expected non-empty vector for x")
    if len(y.shape) not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if x.shape[0] != y.shape[0]:
        raise TypeError("expected x and y to have same length")
    if rcond is None:
        rcond = x.size * np.finfo(x.dtype).eps
    lhs, rhs = np.vander(x, order), y
    if w is not None:
        w = array_of(w) + 0.0
        if len(w.shape) != 1:
            raise TypeError("expected a 1-d array for weights")
        if w.shape[0] != y.shape[0]:
            raise TypeError("expected w and y to have the same length")
        lhs = lhs * w[:, None]
        rhs = rhs * (w[:, None] if len(y.shape) == 2 else w)
    scale = np.sqrt((lhs * lhs).sum(axis=0))
    lhs = lhs / scale
    c, residuals, rank, values = _least_squares(lhs, rhs, rcond)
    c = (c.T / scale).T
    if not full and type(rank) is not Tracer and rank != order:
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=3)
    if full:
        return c, residuals, rank, values, rcond
    if not cov:
        return c
    base = np.linalg.inv(lhs.T @ lhs) / np.outer(scale, scale)
    factor: Any = 1
    if cov != "unscaled":
        if x.size <= order:
            raise ValueError(
                "the number of data points must exceed order to scale the covariance matrix"
            )
        factor = residuals / (x.size - order)
    return c, (base if len(y.shape) == 1 else base[:, :, None]) * factor


def _least_squares(lhs: Any, rhs: Any, rcond: Any) -> tuple[Any, Any, Any, Any]:
    """As numpy.linalg.lstsq; by the pseudo-inverse if the matrix is not traced."""
    if type(lhs) is Tracer:
        solution: tuple[Any, Any, Any, Any] = np.linalg.lstsq(lhs, rhs, rcond)
        return solution
    values = np.linalg.svd(lhs, compute_uv=False)
    rank = np.int32(np.sum(values > rcond * values[0]))
    c = np.linalg.pinv(lhs, rcond) @ rhs
    rest = rhs - lhs @ c
    residuals = np.zeros(0, rest.dtype)
    if rank == lhs.shape[1] and lhs.shape[0] > rank:
        residuals = reduce_sum(np.real(rest * np.conj(rest)), axes=(0,))
        residuals = residuals if residuals.shape else reshape(residuals, shape=(1,))
    return c, residuals, rank, values


__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval",
    "roots",
]  # fmt: skip
