# ruff: noqa: F401 - a ufunc of SciPy reaches its primitive once the module that declares it is there
"""Floor 8: scipy.special for traced values (`fungrad.scipy.special`).

SciPy's own ufuncs work on traced values, so `scipy.special.gammaln(x)` is all that a function
needs. The functions that SciPy writes in Python (logsumexp, softmax, zeta, ...) take traced values
from here; all other names are SciPy's. Knows the primitives of the modules beside it.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from fungrad.numpy.prepare import array_of
from fungrad.primitives import ufuncs as u
from fungrad.primitives.elementwise import select
from fungrad.primitives.stopping import stop_gradient
from fungrad.scipy import (
    special_bessel,
    special_distributions,
    special_elementary,
    special_elliptic,
    special_entropy,
    special_equations,
    special_error,
    special_gamma,
    special_integrals,
    special_noncentral,
    special_polynomials,
)
from fungrad.scipy.extra import scipy_module, scipy_special
from fungrad.scipy.special_composed import (
    comb,
    diric,
    factorial,
    perm,
    softplus,
    spherical_in,
    spherical_jn,
    spherical_kn,
    spherical_yn,
)
from fungrad.tracing.trace import EVAL, current, registry, typeof

_special = scipy_special()

for _ufunc, _primitive in {
    _special.cbrt: u.cbrt,
    _special.exp2: u.exp2,
    _special.expm1: u.expm1,
    _special.log1p: u.log1p,
    _special._ufuncs._lambertw: lambda z, k, tol: special_bessel.lambertw(z, k),
}.items():
    registry.ufuncs[_ufunc] = _primitive


def _shifted(a: Any, axis: Any) -> tuple[Any, Any]:
    """a less its largest element along axes, which are kept, and that element; a - inf is never
    taken.
    """
    top = stop_gradient(np.max(np.real(a), axis=axis, keepdims=True, initial=-np.inf))
    top = np.where(np.isfinite(top), top, 0.0)
    top = top.astype(np.real(a).dtype)
    return a - top, top


def _floating(a: Any) -> Any:
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
    a = _floating(a)
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
    powers = np.exp(_shifted(_floating(x), axis)[0])
    return powers / np.sum(powers, axis=axis, keepdims=True)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """log(softmax(x)), as scipy.special.log_softmax, without loss where it is large and negative.

    >>> log_softmax(np.array([1000.0, 0.0]))
    array([    0., -1000.])
    """
    if current() is EVAL:
        return _special.log_softmax(x, axis=axis)
    shifted, _ = _shifted(_floating(x), axis)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def zeta(x: Any, q: Any = None) -> Any:
    """The Hurwitz zeta function, as scipy.special.zeta; its derivative is that in q.

    >>> import fungrad as fg
    >>> float(fg.grad(lambda q: zeta(2.0, q))(1.0)) == float(-2 * zeta(3.0, 1.0))
    True
    """
    return _special.zeta(x) if q is None else special_gamma.zeta(x, q)


def polygamma(n: Any, x: Any) -> Any:
    """The derivative of order n of digamma, as scipy.special.polygamma; n holds whole numbers,
    also as floats, that are not traced.

    >>> float(polygamma(0, 1.0)) == float(_special.psi(1.0))
    True
    """
    if current() is EVAL:
        return _special.polygamma(n, x)
    x = _floating(x)
    orders = np.asarray(n, typeof(x).dtype)
    if not orders.any():
        return special_gamma.digamma(x + orders if orders.ndim else x)
    factor = np.where(orders % 2 == 1, 1.0, -1.0).astype(orders.dtype) * _special.gamma(orders + 1)
    higher = special_gamma.zeta(np.maximum(orders, 1) + 1, x) * factor
    return higher if orders.all() else np.where(orders == 0, special_gamma.digamma(x), higher)


def lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Any:
    """The branch k of Lambert's function, as scipy.special.lambertw; always complex.

    >>> import fungrad as fg
    >>> float(fg.grad(lambda z: np.real(lambertw(z)))(0.0))
    1.0
    """
    if current() is EVAL:
        return _special.lambertw(z, k, tol)
    return special_bessel.lambertw(z, k)


def multigammaln(a: Any, d: Any) -> Any:
    """The logarithm of the gamma function of dimension d, as scipy.special.multigammaln.

    >>> bool(np.isclose(multigammaln(2.5, 1), _special.gammaln(2.5)))
    True
    """
    d = operator.index(d)
    total = d * (d - 1) / 4 * math.log(math.pi)
    for j in range(d):
        total = special_gamma.gammaln(a - j / 2) + total
    return total


def __getattr__(name: str) -> Any:
    return getattr(_special, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(scipy_module("scipy.special"))})
