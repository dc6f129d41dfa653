# ruff: noqa: F401 - a ufunc of SciPy reaches its primitive once the module that declares it is there
"""The functions of scipy.special that need SciPy at import, loaded at the first use of one of them,
or of a SciPy ufunc on a traced value.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from fungrad.numpy.protocol.implements import if_known
from fungrad.numpy.protocol.operands import inexact_of
from fungrad.primitives.elementwise import ufuncs as u
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.scipy.optional import scipy_special, stands_for
from fungrad.scipy.special import (
    bessel,
    cdfs,
    differential_equations,
    elementary,
    elliptic,
    gamma_functions,
    integrals,
    logsumexp_erf,
    noncentral,
)
from fungrad.scipy.special.gamma_functions import (
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
    _special._ufuncs._lambertw: lambda z, k, tol: bessel.lambertw(z, k),
}.items():
    registry.ufuncs[_ufunc] = _primitive
for _later in list(vars(logsumexp_erf.sp).values()):
    registry.ufuncs[_later.ufunc] = registry.ufuncs[_later]


def zeta(x: Any, q: Any = None) -> Any:
    """The zeta function of Hurwitz, sum of (k + q)^-x over k >= 0 (DLMF 25.11.1), or of Riemann.

    Args:
      x: the exponent, real; with q above 1.
      q: real, broadcasts against x. None is Riemann's function, also for x below 1.

    Returns:
      Numbers of the common floating dtype.

    >>> import fungrad as fg
    >>> float(fg.grad(lambda q: zeta(2.0, q))(1.0)) == float(-2 * zeta(3.0, 1.0))
    True
    """
    return _special.zeta(x) if q is None else gamma_functions.zeta(x, q)


@stands_for("scipy.special")
def polygamma(n: Any, x: Any) -> Any:
    """The derivative of order n of digamma, (-1)^(n + 1) n! zeta(n + 1, x) (DLMF 25.11.12).

    Args:
      n: integers from 0 up, also as floats; they have no derivative.
      x: real numbers, which broadcast against n.

    Returns:
      Numbers of the floating dtype of x.

    >>> float(polygamma(0, 1.0)) == float(_special.psi(1.0))
    True
    """
    x = inexact_of(x)
    if if_known(n) is None:
        return _polygamma_of_traced_orders(cast(n, typeof(x).dtype), x)
    orders = np.asarray(n, typeof(x).dtype)
    if not orders.any():
        return gamma_functions.digamma(x + orders if orders.ndim else x)
    factor = np.where(orders % 2 == 1, 1.0, -1.0).astype(orders.dtype) * _special.gamma(orders + 1)
    higher = gamma_functions.zeta(np.maximum(orders, 1) + 1, x) * factor
    return higher if orders.all() else np.where(orders == 0, gamma_functions.digamma(x), higher)


def _polygamma_of_traced_orders(orders: Any, x: Any) -> Any:
    factor = np.where(orders % 2 == 1, 1.0, -1.0) * gamma_functions.gamma(orders + 1)
    higher = gamma_functions.zeta(np.maximum(orders, 1) + 1, x) * cast(factor, typeof(orders).dtype)
    return np.where(orders == 0, gamma_functions.digamma(x), higher)


@stands_for("scipy.special")
def lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Any:
    """The branch k of Lambert's function, the w with w exp(w) = z (DLMF 4.13).

    Args:
      z: real or complex.
      k: integers, 0 for the principal branch.
      tol: SciPy's tolerance; without effect on traced values.

    Returns:
      Complex numbers of the broadcast shape of z and k.

    >>> import fungrad as fg
    >>> float(fg.grad(lambda z: np.real(lambertw(z)))(0.0))
    1.0
    """
    return bessel.lambertw(z, k)


def multigammaln(a: Any, d: Any) -> Any:
    """The logarithm of the gamma function of dimension d, or of d x d matrices (DLMF 35.3.4).

    It is d (d - 1) / 4 log pi plus the sum of gammaln(a - j / 2) over j from 0 to d - 1.

    Args:
      a: real numbers above (d - 1) / 2.
      d: one integer, from 1 up.

    Returns:
      Numbers of the shape of a, of its floating dtype.

    >>> bool(np.isclose(multigammaln(2.5, 1), _special.gammaln(2.5)))
    True
    """
    d = operator.index(d)
    total = d * (d - 1) / 4 * math.log(math.pi)
    for j in range(d):
        total = gamma_functions.gammaln(a - j / 2) + total
    return total


__all__ = [
    "comb", "diric", "factorial", "lambertw", "multigammaln", "perm", "polygamma", "softplus",
    "spherical_in", "spherical_jn", "spherical_kn", "spherical_yn", "zeta",
]  # fmt: skip
