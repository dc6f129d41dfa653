"""The orthogonal polynomials of scipy.special (eval_*), by x.

The derivative of a polynomial of degree n is one of degree n - 1 of a neighbouring family (DLMF
18.9). Degrees and parameters have no derivative. Needs SciPy when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fungrad.primitives.elementwise.family import elementwise, select
from fungrad.primitives.primitive import Primitive
from fungrad.scipy.optional import scipy_special, unknown

sp = scipy_special()


def _polynomial(name: str, slope: Callable[..., Any], *parameters: str) -> Primitive:
    """Declares eval_<name>(n, *parameters, x) by its derivative in x."""
    full = f"eval_{name}"
    lost = [unknown(full, argument) for argument in ("n", *parameters)]
    return elementwise(full, getattr(sp, full), partials=[*lost, lambda y, *args: slope(*args)])


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

lpmv: Primitive = elementwise(
    "lpmv",
    sp.lpmv,
    partials=[
        unknown("lpmv", "m"),
        unknown("lpmv", "v"),
        lambda y, m, v, x: (v * x * y - (v + m) * lpmv(m, v - 1.0, x)) / (x * x - 1.0),
    ],
)
"""DLMF 14.10.5; the derivative at x = -1 and 1 is not finite, or lost."""
