"""scipy.special's powers, transforms of Box and Cox, functions of degrees, x log y, and losses.

Every derivative is elementary; where the power's logarithm would cancel it is Kummer's function. At
x = 0 and y = 0 the derivative of x log y in y is 0, as at every other y. Needs SciPy when it is
imported.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.compiler.native.native_forms import FUNCTIONS, double, form_of
from fungrad.primitives.elementwise.family import elementwise, select
from fungrad.primitives.primitive import Primitive
from fungrad.scipy.optional import scipy_special, special
from fungrad.scipy.special.bessel import hyp1f1

sp = scipy_special()

_DEGREE = math.pi / 180.0

# --- of degrees, minutes and seconds --------------------------------------------------------------

sindg: Primitive = special("sindg", lambda y, x: cosdg(x) * _DEGREE)
cosdg: Primitive = special("cosdg", lambda y, x: sindg(x) * -_DEGREE)
tandg = special("tandg", lambda y, x: (y * y + 1.0) * _DEGREE)
cotdg = special("cotdg", lambda y, x: (y * y + 1.0) * -_DEGREE)
radian = special("radian", _DEGREE, _DEGREE / 60.0, _DEGREE / 3600.0)

# --- exponentials and powers ----------------------------------------------------------------------

exp10 = special("exp10", lambda y, x: y * math.log(10.0))
cosm1 = special("cosm1", lambda y, x: -np.sin(x))
powm1 = special(
    "powm1", lambda z, x, y: y * np.power(x, y - 1.0), lambda z, x, y: (z + 1.0) * np.log(x)
)
wrightomega = special("wrightomega", lambda y, z: y / (y + 1.0))
"""The y with y + log y = z (R. Corless and D. Jeffrey, "The Wright omega function", 2002)."""

round_half_even = elementwise("round_half_even", sp.round, partials=[None], cost=1)
gammasgn = special("gammasgn", None)

# --- Box and Cox: log(x) exprel(lmbda log(x)) -----------------------------------------------------


def _by_lambda(log: Any, lmbda: Any) -> Any:
    """The derivative of (x^lmbda - 1) / lmbda in lmbda, for log x; also at lmbda = 0."""
    return log * log * hyp1f1(2.0, 3.0, lmbda * log) * 0.5


def _power(log: Any, lmbda: Any) -> Any:
    """x^(lmbda - 1), for log x."""
    return np.exp((lmbda - 1.0) * log)


boxcox = special(
    "boxcox",
    lambda y, x, lmbda: np.power(x, lmbda - 1.0),
    lambda y, x, lmbda: _by_lambda(np.log(x), lmbda),
)
boxcox1p = special(
    "boxcox1p",
    lambda y, x, lmbda: _power(np.log1p(x), lmbda),
    lambda y, x, lmbda: _by_lambda(np.log1p(x), lmbda),
)
inv_boxcox = special(
    "inv_boxcox",
    lambda x, y, lmbda: _power(np.log(x), 2.0 - lmbda),
    lambda x, y, lmbda: -_by_lambda(np.log(x), lmbda) * _power(np.log(x), 2.0 - lmbda),
)
inv_boxcox1p = special(
    "inv_boxcox1p",
    lambda x, y, lmbda: _power(np.log1p(x), 2.0 - lmbda),
    lambda x, y, lmbda: -_by_lambda(np.log1p(x), lmbda) * _power(np.log1p(x), 2.0 - lmbda),
)


def _inside(p: Any) -> tuple[Any, Any]:
    """Whether 0 < p < 1, and p there."""
    inside = np.logical_and(p > 0, p < 1)
    return inside, select(inside, p, 0.5)


def _tukey_density(p: Any, lmbda: Any) -> Any:
    inside, p = _inside(p)
    return select(inside, 1.0 / (_power(np.log(p), lmbda) + _power(np.log1p(-p), lmbda)), 0.0)


def _tukey_by_lambda(p: Any, lmbda: Any) -> Any:
    q = _inside(p)[1]
    moved = _by_lambda(np.log(q), lmbda) - _by_lambda(np.log1p(-q), lmbda)
    return -moved * _tukey_density(p, lmbda)


tklmbda = special(
    "tklmbda",
    lambda p, x, lmbda: _tukey_density(p, lmbda),
    lambda p, x, lmbda: _tukey_by_lambda(p, lmbda),
)
"""Tukey's distribution: the p with boxcox(p, lmbda) - boxcox(1 - p, lmbda) = x."""


def _ratio(x: Any, y: Any) -> Any:
    """x / y, and 0 where both are 0."""
    return x / select(np.logical_and(x == 0, y == 0), 1.0, y)


xlogy = special("xlogy", lambda z, x, y: np.log(y), lambda z, x, y: _ratio(x, y))
xlog1py = special("xlog1py", lambda z, x, y: np.log1p(y), lambda z, x, y: _ratio(x, y + 1.0))
FUNCTIONS[xlogy] = form_of(lambda: (double.xlogy, double.xlogy), 1.0)
FUNCTIONS[xlog1py] = form_of(lambda: (double.xlog1py, double.xlog1py), 1.3)
entr = special("entr", lambda y, x: -1.0 - np.log(x))
FUNCTIONS[entr] = form_of(lambda: (double.entr, double.entr), 1.1)
rel_entr = special("rel_entr", lambda z, x, y: np.log(x / y) + 1.0, lambda z, x, y: -_ratio(x, y))
kl_div = special("kl_div", lambda z, x, y: np.log(x / y), lambda z, x, y: 1.0 - _ratio(x, y))


def _excess(delta: Any, r: Any) -> Any:
    """The excess of |r| over delta."""
    size = np.abs(r)
    return select(size > delta, size - delta, 0.0)


huber = special(
    "huber",
    lambda z, delta, r: _excess(delta, r),
    lambda z, delta, r: select(np.abs(r) > delta, np.sign(r) * delta, r),
)
pseudo_huber = special(
    "pseudo_huber",
    lambda z, delta, r: z / delta * 2.0 - r * r / np.hypot(delta, r),
    lambda z, delta, r: r * delta / np.hypot(delta, r),
)
