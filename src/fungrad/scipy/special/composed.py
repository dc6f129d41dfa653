"""Elementwise functions that scipy.special writes in Python, for traced values: spherical
Bessel functions, combinations, factorials, diric, softplus.

Formulas: DLMF 10.51 (spherical Bessel functions), 18.5.2 (diric by a Chebyshev polynomial, which is
smooth at multiples of 2 pi). Needs SciPy when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.elementwise.family import elementwise, select
from fungrad.primitives.primitive import Primitive
from fungrad.scipy.optional import scipy_special, unknown
from fungrad.scipy.special.gamma_functions import binom, gamma, poch
from fungrad.scipy.special.orthogonal_polynomials import chebyu
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import EVAL, current

sp = scipy_special()

# --- spherical Bessel functions -------------------------------------------------------------------


def _spherical(name: str, below: float, above: float) -> Primitive:
    """By (2n + 1) f_n' = below n f_(n-1) + above (n + 1) f_(n+1)."""

    def slope(y: Any, n: Any, z: Any) -> Any:
        lowest = n == 0
        before = select(lowest, 0.0, primitive(select(lowest, 1, n) - 1, z) * n * below)
        return (before + primitive(n + 1, z) * (n + 1) * above) / (2 * n + 1)

    function = getattr(sp, name)
    primitive: Primitive = elementwise(
        name, lambda n, z: function(n, z), partials=[unknown(name, "n"), slope]
    )
    return primitive


_JN = _spherical("spherical_jn", 1.0, -1.0)
_YN = _spherical("spherical_yn", 1.0, -1.0)
_IN = _spherical("spherical_in", 1.0, 1.0)
_KN = _spherical("spherical_kn", -1.0, -1.0)


def _public(name: str, primitive: Primitive) -> Callable[..., Any]:
    function = getattr(sp, name)

    def spherical(n: Any, z: Any, derivative: bool = False) -> Any:
        if current() is EVAL:
            return function(n, z, derivative)
        n, z = array_of(n), array_of(z)
        if not derivative:
            return primitive(n, z)
        assert primitive.partials is not None
        return primitive.partials[1](1.0, None, (n, z))

    spherical.__name__ = spherical.__qualname__ = name
    spherical.__doc__ = f"As scipy.special.{name}; the order n is a whole number."
    return spherical


spherical_jn = _public("spherical_jn", _JN)
spherical_yn = _public("spherical_yn", _YN)
spherical_in = _public("spherical_in", _IN)
spherical_kn = _public("spherical_kn", _KN)

# --- combinations and factorials ------------------------------------------------------------------


def _inexact(name: str, exact: bool) -> None:
    if exact:
        raise UnsupportedArgumentError(
            f"scipy.special.{name} was called with exact=True on a traced value{user_line()}: "
            "Python's integers have no derivative. Leave it out."
        )


def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """How many ways there are to choose k of N, as scipy.special.comb; by the gamma function.

    >>> comb(5, 2).item()
    10.0
    """
    if current() is EVAL:
        return sp.comb(N, k, exact=exact, repetition=repetition)
    _inexact("comb", exact)
    N, k = array_of(N), array_of(k)
    if repetition:
        return select(np.logical_and(k == 0, N >= 0), 1.0, binom(N + k - 1, k))
    inside = np.logical_and(np.logical_and(k <= N, N >= 0), k >= 0)
    return select(inside, binom(N, k), 0.0)


def perm(N: Any, k: Any, exact: bool = False) -> Any:
    """How many ordered choices of k of N there are, as scipy.special.perm.

    >>> perm(5, 2).item()
    20.0
    """
    if current() is EVAL:
        return sp.perm(N, k, exact=exact)
    _inexact("perm", exact)
    N, k = array_of(N), array_of(k)
    inside = np.logical_and(np.logical_and(k <= N, N >= 0), k >= 0)
    return select(inside, poch(select(inside, N - k + 1, 1), k), 0.0)


def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    """gamma(n + 1), and 0 for n < 0, as scipy.special.factorial.

    >>> factorial(3.0).item()
    6.0
    """
    if current() is EVAL:
        return sp.factorial(n, exact=exact, **({} if extend == "zero" else {"extend": extend}))
    _inexact("factorial", exact)
    n = array_of(n)
    if extend == "complex":
        return gamma(n + 1)
    inside = n >= 0
    return select(inside, gamma(select(inside, n, 0) + 1), 0.0)


# --- periodic, and smooth -------------------------------------------------------------------------


def diric(x: Any, n: int) -> Any:
    """sin(n x / 2) / (n sin(x / 2)), as scipy.special.diric, for one whole number n.

    >>> round(float(diric(0.5, 3)), 12) == round((1 + 2 * float(np.cos(0.5))) / 3, 12)
    True
    """
    if current() is EVAL:
        return sp.diric(x, n)
    return chebyu(int(n) - 1, np.cos(array_of(x) * 0.5)) / float(n)


def softplus(x: Any, **kwargs: Any) -> Any:
    """log(1 + exp(x)), as scipy.special.softplus, which came with SciPy 1.17.

    >>> bool(softplus(0.0) == np.log(2.0))
    True
    """
    return np.logaddexp(0.0, x, **kwargs)


__all__ = [
    "comb", "diric", "factorial", "perm", "softplus", "spherical_in", "spherical_jn",
    "spherical_kn", "spherical_yn",
]  # fmt: skip
