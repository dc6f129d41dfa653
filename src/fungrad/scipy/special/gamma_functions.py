"""The gamma family of scipy.special: gamma, beta, zeta and the incomplete integrals.

Formulas: DLMF chapters 5 (gamma), 8 (incomplete) and 25.11 (zeta). Digamma's derivatives are those
of the Hurwitz zeta function. Needs SciPy when it is imported.

Also elementwise functions that scipy.special writes in Python: spherical Bessel functions (DLMF
10.51), combinations, factorials, softplus, and diric (by a Chebyshev polynomial, DLMF 18.5.2, which
is smooth at multiples of 2 pi).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.compiler.native.native_forms import FUNCTIONS, double, form_of, single
from fungrad.errors import UnsupportedArgumentError
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.elementwise.family import Over, elementwise, select
from fungrad.primitives.primitive import Primitive
from fungrad.primitives.special.incomplete_gamma_beta import beta_slope, gamma_slope
from fungrad.scipy.optional import real, scipy_special, special, stands_for, unknown
from fungrad.scipy.special.bessel import chebyu
from fungrad.scipy.special.elementary import xlog1py, xlogy
from fungrad.scipy.special.zeta_slopes import by_euler_maclaurin, hurwitz_slope
from fungrad.tracing.source_location import user_line

sp = scipy_special()

zeta: Primitive = elementwise(
    "zeta",
    lambda x, q: sp.zeta(x, q),
    ufunc=sp._ufuncs._zeta,
    partials=[hurwitz_slope, lambda y, x, q: -x * zeta(x + 1.0, q)],
)
"""The Hurwitz zeta function (DLMF 25.11.17)."""

digamma = elementwise("digamma", sp.psi, partials=[lambda y, x: zeta(2.0, real("digamma", x))])
gammaln = special("gammaln", lambda y, x: digamma(x))
FUNCTIONS[digamma] = form_of(lambda: (double.digamma, single.digamma), 5.7)
FUNCTIONS[gammaln] = form_of(lambda: (double.gammaln, single.gammaln), 3.8)
loggamma = special("loggamma", lambda y, x: digamma(x))
gamma = special("gamma", lambda y, x: y * digamma(x))


def _riemann_slope(y: Any, x: Any) -> Any:
    """The derivative of zeta at all real x but its pole, 1, where it is NaN; below -1/2 by the
    reflection formula (DLMF 25.4.1).
    """
    left, pole = real("zeta", x) < -0.5, x == 1.0
    right = by_euler_maclaurin(select(np.logical_or(left, pole), 2.0, x), 1.0)
    at = select(left, 1.0 - x, 2.0)  # zeta(x) = 2 (2 pi)**(x - 1) sin(pi x / 2) gamma(at) zeta(at)
    turn = math.pi / 2.0 * select(left, x, -1.0)
    scale = 2.0 * (2.0 * math.pi) ** -at * gamma(at)
    total = riemann_zeta(at)
    rate = math.log(2.0 * math.pi) - digamma(at)
    odd = np.sin(turn) * (rate * total - by_euler_maclaurin(at, 1.0))
    reflected = scale * (odd + math.pi / 2.0 * np.cos(turn) * total)
    return select(pole, np.nan, select(left, reflected, right))


riemann_zeta = elementwise(
    "riemann_zeta", lambda x: sp.zeta(x), ufunc=sp._ufuncs._riemann_zeta, partials=[_riemann_slope]
)
zetac = special("zetac", _riemann_slope)


def _rgamma_slope(y: Any, x: Any) -> Any:
    """The derivative of 1/gamma; below 1/2 by reflection (DLMF 5.5.3), smooth at gamma's poles."""
    left = real("rgamma", x) < 0.5
    at = select(left, 1.0 - x, 1.0)
    turn = math.pi * x
    reflected = gamma(at) * (np.cos(turn) - np.sin(turn) * digamma(at) / math.pi)
    return select(left, reflected, -y * digamma(select(left, 1.0, x)))


rgamma = special("rgamma", _rgamma_slope)
beta = special(
    "beta",
    lambda z, a, b: z * (digamma(a) - digamma(a + b)),
    lambda z, a, b: z * (digamma(b) - digamma(a + b)),
)
betaln = special(
    "betaln",
    lambda z, a, b: digamma(a) - digamma(a + b),
    lambda z, a, b: digamma(b) - digamma(a + b),
)
poch = special(
    "poch", lambda y, z, m: y * (digamma(z + m) - digamma(z)), lambda y, z, m: y * digamma(z + m)
)
binom = special(
    "binom",
    lambda y, n, k: y * (digamma(n + 1.0) - digamma(n - k + 1.0)),
    lambda y, n, k: y * (digamma(n - k + 1.0) - digamma(k + 1.0)),
)

# --- incomplete integrals: by x the integrand, by a parameter an integral of its derivative -------


def gamma_density(a: Any, x: Any) -> Any:
    """x^(a-1) exp(-x) / Gamma(a)."""
    return np.exp(xlogy(a - 1.0, x) - x - gammaln(a))


def beta_density(a: Any, b: Any, x: Any) -> Any:
    """x^(a-1) (1-x)^(b-1) / B(a, b)."""
    return np.exp(xlogy(a - 1.0, x) + xlog1py(b - 1.0, -x) - betaln(a, b))


def _gamma_height(a: Any, x: Any) -> Any:
    """The density of log x, which does not overflow near 0."""
    return np.exp(xlogy(a, x) - x - gammaln(a))


def _beta_height(a: Any, b: Any, x: Any) -> Any:
    """The density of log(x / (1 - x))."""
    return np.exp(xlogy(a, x) + xlog1py(b, -x) - betaln(a, b))


def _gamma_by_a(a: Any, x: Any, height: Any = _gamma_height) -> Any:
    """The derivative of gammainc by a; 0 at both ends."""
    inside = np.logical_and(x > 0, x < np.inf)
    at = select(inside, x, 1.0)
    return select(inside, gamma_slope(a, np.log(at), order=1) * height(a, at), 0.0)


def _beta_by(a: Any, b: Any, x: Any, m: int, n: int, height: Any = _beta_height) -> Any:
    """The derivative of betainc with respect to a (m = 1) or b (n = 1); 0 at both ends."""
    inside = np.logical_and(x > 0, x < 1)
    at = select(inside, x, 0.5)
    return select(inside, beta_slope(a, b, at, m=m, n=n) * height(a, b, at), 0.0)


def _gamma_inverse_by_a(a: Any, x: Any) -> Any:
    """The derivative with respect to a of the x with a given probability: the density cancels."""
    return -_gamma_by_a(a, x, lambda a, x: x)


def _beta_inverse_by(a: Any, b: Any, x: Any, m: int, n: int) -> Any:
    return -_beta_by(a, b, x, m, n, lambda a, b, x: x * (1.0 - x))


gammainc = special(
    "gammainc", lambda y, a, x: _gamma_by_a(a, x), lambda y, a, x: gamma_density(a, x)
)
gammaincc = special(
    "gammaincc", lambda y, a, x: -_gamma_by_a(a, x), lambda y, a, x: -gamma_density(a, x)
)
gammaincinv = special(
    "gammaincinv",
    lambda x, a, y: _gamma_inverse_by_a(a, x),
    Over(lambda x, a, y: gamma_density(a, x)),
)
gammainccinv = special(
    "gammainccinv",
    lambda x, a, y: _gamma_inverse_by_a(a, x),
    Over(lambda x, a, y: -gamma_density(a, x)),
)
betainc = special(
    "betainc",
    lambda y, a, b, x: _beta_by(a, b, x, 1, 0),
    lambda y, a, b, x: _beta_by(a, b, x, 0, 1),
    lambda y, a, b, x: beta_density(a, b, x),
)
betaincinv = special(
    "betaincinv",
    lambda x, a, b, y: _beta_inverse_by(a, b, x, 1, 0),
    lambda x, a, b, y: _beta_inverse_by(a, b, x, 0, 1),
    Over(lambda x, a, b, y: beta_density(a, b, x)),
)


# --- spherical Bessel functions -------------------------------------------------------------------


def _spherical(name: str, below: float, above: float) -> Primitive:
    """By (2n + 1) f_n' = below n f_(n-1) + above (n + 1) f_(n+1)."""

    def slope(y: Any, n: Any, z: Any) -> Any:
        lowest = n == 0
        before = select(lowest, 0.0, primitive(select(lowest, 1, n) - 1, z) * n * below)
        return (before + primitive(n + 1, z) * (n + 1) * above) / (2 * n + 1)

    function = getattr(sp, name)
    rules = [unknown(name, "n"), slope]
    primitive: Primitive = elementwise(name, lambda n, z: function(n, z), partials=rules)
    return primitive


_JN = _spherical("spherical_jn", 1.0, -1.0)
_YN = _spherical("spherical_yn", 1.0, -1.0)
_IN = _spherical("spherical_in", 1.0, 1.0)
_KN = _spherical("spherical_kn", -1.0, -1.0)


def _public(name: str, primitive: Primitive, what: str) -> Callable[..., Any]:
    def spherical(n: Any, z: Any, derivative: bool = False) -> Any:
        n, z = array_of(n), array_of(z)
        if not derivative:
            return primitive(n, z)
        assert primitive.partials is not None
        return primitive.partials[1](1.0, None, (n, z))

    spherical.__name__ = spherical.__qualname__ = name
    spherical.__doc__ = f"""The {what}.

    Args:
      n: orders, integers from 0 up; they have no derivative.
      z: real or complex, broadcasts against n.
      derivative: whether to return the derivative in z in place of the value.

    Returns:
      Numbers of the broadcast shape, of the floating dtype of z.

    >>> import fungrad as fg
    >>> slope = fg.grad(lambda z: {name}(2, z))(1.0)
    >>> bool(np.isclose(slope, {name}(2, 1.0, derivative=True)))
    True
    """
    return stands_for("scipy.special")(spherical)


spherical_jn = _public(
    "spherical_jn",
    _JN,
    "spherical Bessel function of the first kind: sqrt(pi / 2z) J_(n + 1/2)(z) (DLMF 10.47.3)",
)
spherical_yn = _public(
    "spherical_yn",
    _YN,
    "spherical Bessel function of the second kind: sqrt(pi / 2z) Y_(n + 1/2)(z) (DLMF 10.47.4)",
)
spherical_in = _public(
    "spherical_in",
    _IN,
    "modified spherical Bessel function: sqrt(pi / 2z) I_(n + 1/2)(z) (DLMF 10.47.7)",
)
spherical_kn = _public(
    "spherical_kn",
    _KN,
    "modified spherical Bessel function: sqrt(pi / 2z) K_(n + 1/2)(z) (DLMF 10.47.9)",
)

# --- combinations and factorials ------------------------------------------------------------------


def _inexact(name: str, exact: bool) -> None:
    if exact:
        raise UnsupportedArgumentError(
            f"scipy.special.{name} was called with exact=True on a traced value{user_line()}: "
            "Python's integers have no derivative. Leave it out."
        )


@stands_for("scipy.special")
def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """The number of combinations of k of N: Gamma(N + 1) / (Gamma(k + 1) Gamma(N - k + 1)).

    Args:
      N, k: real numbers, which broadcast.
      exact: False, on traced values; SciPy may compute with Python's integers.
      repetition: whether an element may be taken more than once: binom(N + k - 1, k).

    Returns:
      Numbers of a floating dtype; 0 for k > N and for negative numbers.

    Raises:
      UnsupportedArgumentError: for exact=True, on traced values.

    >>> import fungrad as fg
    >>> comb(5, 2).item(), float(fg.grad(lambda N: comb(N, 1))(5.0).round(9))
    (10.0, 1.0)
    """
    _inexact("comb", exact)
    N, k = array_of(N), array_of(k)
    if repetition:
        return select(np.logical_and(k == 0, N >= 0), 1.0, binom(N + k - 1, k))
    inside = np.logical_and(np.logical_and(k <= N, N >= 0), k >= 0)
    return select(inside, binom(N, k), 0.0)


@stands_for("scipy.special")
def perm(N: Any, k: Any, exact: bool = False) -> Any:
    """The number of ordered choices of k of N: Gamma(N + 1) / Gamma(N - k + 1).

    Args:
      N, k: real numbers, which broadcast.
      exact: False, on traced values; SciPy may compute with Python's integers.

    Returns:
      Numbers of a floating dtype; 0 for k > N and for negative numbers.

    Raises:
      UnsupportedArgumentError: for exact=True, on traced values.

    >>> perm(5, 2).item()
    20.0
    """
    _inexact("perm", exact)
    N, k = array_of(N), array_of(k)
    inside = np.logical_and(np.logical_and(k <= N, N >= 0), k >= 0)
    return select(inside, poch(select(inside, N - k + 1, 1), k), 0.0)


@stands_for("scipy.special")
def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    """The factorial: Gamma(n + 1), and 0 for n < 0.

    Args:
      n: real numbers; for extend="complex" also complex.
      exact: False, on traced values; SciPy may compute with Python's integers.
      extend: "complex" continues the function to negative numbers, in place of "zero".

    Returns:
      Numbers of the shape of n, of a floating dtype.

    Raises:
      UnsupportedArgumentError: for exact=True, on traced values.

    >>> factorial(3.0).item()
    6.0
    """
    _inexact("factorial", exact)
    n = array_of(n)
    if extend == "complex":
        return gamma(n + 1)
    inside = n >= 0
    return select(inside, gamma(select(inside, n, 0) + 1), 0.0)


# --- periodic, and smooth -------------------------------------------------------------------------


@stands_for("scipy.special")
def diric(x: Any, n: int) -> Any:
    """Dirichlet's kernel, the periodic sinc function: sin(n x / 2) / (n sin(x / 2)).

    Args:
      x: real numbers.
      n: one integer, from 1 up.

    Returns:
      Numbers of the shape of x; the limits 1 and -1 at multiples of 2 pi.

    >>> round(float(diric(0.5, 3)), 12) == round((1 + 2 * float(np.cos(0.5))) / 3, 12)
    True
    """
    return chebyu(int(n) - 1, np.cos(array_of(x) * 0.5)) / float(n)


def softplus(x: Any, **kwargs: Any) -> Any:
    """log(1 + exp(x)) without overflow; SciPy has it from 1.17 on.

    Args:
      x: real numbers.
      **kwargs: the arguments of a ufunc of NumPy (`out`, `where`, ...).

    Returns:
      Numbers of the shape of x, of its floating dtype.

    >>> import fungrad as fg
    >>> float(fg.grad(softplus)(0.0))
    0.5
    """
    return np.logaddexp(0.0, x, **kwargs)


__all__ = [
    "comb",
    "diric",
    "factorial",
    "perm",
    "softplus",
    "spherical_in",
    "spherical_jn",
    "spherical_kn",
    "spherical_yn",
]
