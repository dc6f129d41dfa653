"""The Bessel functions of scipy.special, the hypergeometric ones, and their relatives.

Formulas: DLMF 10.6 and 10.29 (Bessel), 13.3 and 15.5 (hypergeometric), 19.4 and 4.13. Functions
scaled by exp(-|x|) have a kink at 0, where the derivative is the mean of both sides. The derivative
of an orthogonal polynomial (eval_*) of degree n is one of degree n - 1 of a neighbouring family
(DLMF 18.9). Orders, degrees and parameters have no derivative. Needs SciPy when it is imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import Over, elementwise, select
from fungrad.primitives.primitive import Primitive
from fungrad.scipy.optional import real, scipy_special, special

sp = scipy_special()


def _neighbours(function: Callable[..., Any], v: Any, x: Any, sign: float) -> Any:
    """The mean of the functions of order v - 1 and v + 1, the latter times a sign."""
    above = function(v + 1.0, x)
    below = function(v - 1.0, x)
    return (below + above) * 0.5 if sign > 0 else (below - above) * 0.5


# --- of the first and second kind -----------------------------------------------------------------

jv: Primitive = special("jv", "order", lambda y, v, x: _neighbours(jv, v, x, -1.0))
yv: Primitive = special("yv", "order", lambda y, v, x: _neighbours(yv, v, x, -1.0))
yn = special("yn", "order", lambda y, n, x: _neighbours(yv, n, x, -1.0))
j0: Primitive = special("j0", lambda y, x: -j1(x))
j1: Primitive = special("j1", lambda y, x: (j0(x) - jv(2.0, x)) * 0.5)
y0: Primitive = special("y0", lambda y, x: -y1(x))
y1: Primitive = special("y1", lambda y, x: (y0(x) - yv(2.0, x)) * 0.5)

# --- modified, and scaled by exp(-|x|) and exp(x) -------------------------------------------------

iv: Primitive = special("iv", "order", lambda y, v, x: _neighbours(iv, v, x, 1.0))
ive: Primitive = special(
    "ive", "order", lambda y, v, x: _neighbours(ive, v, x, 1.0) - np.sign(real("ive", x)) * y
)
kv: Primitive = special("kv", "order", lambda y, v, x: -_neighbours(kv, v, x, 1.0))
kve: Primitive = special("kve", "order", lambda y, v, x: y - _neighbours(kve, v, x, 1.0))
kn = special("kn", "order", lambda y, n, x: -_neighbours(kv, n, x, 1.0))
i0: Primitive = elementwise("bessel_i0", sp.i0, partials=[lambda y, x: i1(x)])
i1: Primitive = elementwise("bessel_i1", sp.i1, partials=[lambda y, x: (i0(x) + iv(2.0, x)) * 0.5])
i0e: Primitive = special("i0e", lambda y, x: i1e(x) - np.sign(x) * y)
i1e: Primitive = special("i1e", lambda y, x: (i0e(x) + ive(2.0, x)) * 0.5 - np.sign(x) * y)
k0: Primitive = special("k0", lambda y, x: -k1(x))
k1: Primitive = special("k1", lambda y, x: (k0(x) + kv(2.0, x)) * -0.5)
k0e: Primitive = special("k0e", lambda y, x: y - k1e(x))
k1e: Primitive = special("k1e", lambda y, x: y - (k0e(x) + kve(2.0, x)) * 0.5)

# --- hypergeometric: every derivative is one of them, so nothing cancels --------------------------

hyp0f1: Primitive = special("hyp0f1", "v", lambda y, v, z: hyp0f1(v + 1.0, z) / v)
hyp1f1: Primitive = special(
    "hyp1f1", "a", "b", lambda y, a, b, x: hyp1f1(a + 1.0, b + 1.0, x) * (a / b)
)
hyp2f1: Primitive = special(
    "hyp2f1", *"abc",
    lambda y, a, b, c, z: hyp2f1(a + 1.0, b + 1.0, c + 1.0, z) * (a * b / c),
)  # fmt: skip
hyperu: Primitive = special("hyperu", "a", "b", lambda y, a, b, x: -a * hyperu(a + 1.0, b + 1.0, x))
wright_bessel: Primitive = special(
    "wright_bessel", "a", "b", lambda y, a, b, x: wright_bessel(a, a + b, x)
)
"""The sum of x^k / (k! Gamma(a k + b))."""
if hasattr(sp, "log_wright_bessel"):  # SciPy 1.14
    log_wright_bessel: Primitive = special(
        "log_wright_bessel", "a", "b", lambda y, a, b, x: np.exp(log_wright_bessel(a, a + b, x) - y)
    )
exprel = special("exprel", lambda y, x: hyp1f1(2.0, 3.0, x) * 0.5)
ellipk = special("ellipk", lambda y, m: hyp2f1(1.5, 1.5, 2.0, m) * (math.pi / 8))
ellipe = special("ellipe", lambda y, m: hyp2f1(0.5, 1.5, 2.0, m) * (-math.pi / 8))
spence = special("spence", lambda y, z: -hyp2f1(1.0, 1.0, 2.0, 1.0 - z))
expi = special("expi", lambda y, x: np.exp(x) / x)
exp1 = special("exp1", lambda y, x: -np.exp(-x) / x)

lambertw = elementwise(
    "lambertw",
    lambda z, k: sp.lambertw(z, k),
    partials=[Over(lambda w, z, k: np.exp(w) * (w + 1.0)), None],
)
"""The branch k of Lambert's function; complex, as SciPy's."""


def _polynomial(name: str, slope: Callable[..., Any], *parameters: str) -> Primitive:
    """Declares eval_<name>(n, *parameters, x) by its derivative in x."""
    return special(f"eval_{name}", "n", *parameters, lambda y, *args: slope(*args))


def _from_one(n: Any, below: Callable[[Any], Any]) -> Any:
    """A term of degree n - 1; 0 where n is 0."""
    constant = n == 0
    return select(constant, 0.0, below(select(constant, 1, n) - 1))


gegenbauer: Primitive = _polynomial(
    "gegenbauer",
    lambda n, a, x: _from_one(n, lambda k: gegenbauer(k, a + 1.0, x)) * (a * 2.0),
    "alpha",
)
jacobi: Primitive = _polynomial(
    "jacobi",
    lambda n, a, b, x: (
        _from_one(n, lambda k: jacobi(k, a + 1.0, b + 1.0, x)) * ((n + a + b + 1.0) * 0.5)
    ),
    "alpha",
    "beta",
)
sh_jacobi: Primitive = _polynomial(
    "sh_jacobi",
    lambda n, p, q, x: _from_one(n, lambda k: sh_jacobi(k, p + 2.0, q + 1.0, x)) * n,
    "p",
    "q",
)
genlaguerre: Primitive = _polynomial(
    "genlaguerre", lambda n, a, x: -_from_one(n, lambda k: genlaguerre(k, a + 1.0, x)), "alpha"
)
laguerre = _polynomial("laguerre", lambda n, x: -_from_one(n, lambda k: genlaguerre(k, 1.0, x)))
hermite: Primitive = _polynomial(
    "hermite", lambda n, x: _from_one(n, lambda k: hermite(k, x)) * (n * 2)
)
hermitenorm: Primitive = _polynomial(
    "hermitenorm", lambda n, x: _from_one(n, lambda k: hermitenorm(k, x)) * n
)
legendre = _polynomial("legendre", lambda n, x: _from_one(n, lambda k: gegenbauer(k, 1.5, x)))
sh_legendre = _polynomial(
    "sh_legendre", lambda n, x: _from_one(n, lambda k: gegenbauer(k, 1.5, x * 2.0 - 1.0)) * 2.0
)

# --- Chebyshev's, of four kinds, on [-1, 1], [-2, 2] and [0, 1] -----------------------------------

chebyu = _polynomial("chebyu", lambda n, x: _from_one(n, lambda k: gegenbauer(k, 2.0, x)) * 2.0)
chebyt = _polynomial("chebyt", lambda n, x: _from_one(n, lambda k: chebyu(k, x)) * n)
chebys = _polynomial("chebys", lambda n, x: _from_one(n, lambda k: gegenbauer(k, 2.0, x * 0.5)))
chebyc = _polynomial("chebyc", lambda n, x: _from_one(n, lambda k: chebys(k, x)) * n)
sh_chebyu = _polynomial(
    "sh_chebyu", lambda n, x: _from_one(n, lambda k: gegenbauer(k, 2.0, x * 2.0 - 1.0)) * 4.0
)
sh_chebyt = _polynomial("sh_chebyt", lambda n, x: _from_one(n, lambda k: sh_chebyu(k, x)) * n * 2.0)

# --- associated Legendre functions ----------------------------------------------------------------

lpmv: Primitive = special(
    "lpmv", "m", "v", lambda y, m, v, x: (v * x * y - (v + m) * lpmv(m, v - 1.0, x)) / (x * x - 1.0)
)
"""DLMF 14.10.5; the derivative at x = -1 and 1 is not finite, or lost."""
