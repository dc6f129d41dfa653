"""The distribution functions of scipy.special (bdtr, chdtr, fdtr, ...) and their inverses.

The derivative of a distribution function in its variable is the density; that of an inverse follows
by the implicit function theorem. Formulas: N. Johnson, S. Kotz and N. Balakrishnan, "Continuous
Univariate Distributions" (1994). Needs SciPy when it is imported.

The derivative of Student's integral (stdtr) in the degrees of freedom is that of the incomplete
beta function (DLMF 8.17), and at t = 0, where that has a corner, that of the density.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import Over, select
from fungrad.primitives.primitive import Primitive
from fungrad.scipy.optional import scipy_special, special
from fungrad.scipy.special.elementary import xlogy
from fungrad.scipy.special.gamma_functions import (
    beta_density,
    betainc,
    betaln,
    digamma,
    gamma_density,
    gammainc,
    poch,
)

sp = scipy_special()


def _density(df: Any, t: Any) -> Any:
    power = (df + 1.0) * -0.5 * np.log1p(t * t / df)
    return poch(df * 0.5, 0.5) / np.sqrt(df * math.pi) * np.exp(power)


def _by_freedom(df: Any, t: Any) -> Any:
    """The derivative of stdtr in df; I_z(df / 2, 1 / 2) / 2 at z = df / (df + t^2) is a tail."""
    middle = t == 0
    half = df * 0.5
    away = select(middle, 1.0, t)
    push = betainc.jvp
    assert push is not None
    _, by_half = push((half, 0.5, df / (df + away * away)), (0.5, None, None))
    elsewhere = np.sign(away) * by_half * -0.5 - away * _density(df, away) / (df * 2.0)
    slope = (digamma(half + 0.5) - digamma(half) - 1.0 / df) * 0.5
    return select(middle, t * slope * _density(df, 0.0), elsewhere)


stdtr = special("stdtr", lambda p, df, t: _by_freedom(df, t), lambda p, df, t: _density(df, t))
stdtrit = special(
    "stdtrit",
    lambda t, df, p: -_by_freedom(df, t) / _density(df, t),
    Over(lambda t, df, p: _density(df, t)),
)


Slopes = Mapping[str, Callable[..., Any]]
"""Partials as functions of the output and the arguments, by the names of the arguments."""


def slopes_of(primitive: Primitive, arguments: str) -> dict[str, Callable[..., Any]]:
    """The partials of a primitive as functions of its output and its arguments."""
    assert primitive.partials is not None

    def slope(scale: Any) -> Callable[..., Any]:
        return lambda y, *args: scale(1.0, y, args)

    return dict(zip(arguments.split(), map(slope, primitive.partials), strict=True))


def declare(name: str, arguments: str, slopes: Slopes) -> dict[str, Callable[..., Any]]:
    """Declares a ufunc of the arguments named in a string; those without a slope are refused."""
    return slopes_of(special(name, *[slopes.get(a, a) for a in arguments.split()]), arguments)


def declare_inverse(name: str, arguments: str, of: Slopes, order: str, found: str) -> None:
    """Declares the inverse of a distribution function in one of its arguments.

    Args:
      name: its name in SciPy.
      arguments: the names of its arguments; the one missing in `order` is the probability.
      of: the partials of the distribution function.
      order: the names of that function's arguments.
      found: the argument that the inverse returns.
    """
    names, ordered = arguments.split(), order.split()
    (probability,) = set(names) - set(ordered)

    def slope(wanted: str) -> Callable[..., Any]:
        def partial(result: Any, *args: Any) -> Any:
            given = dict(zip(names, args, strict=True))
            at = [result if name == found else given[name] for name in ordered]
            along = of[found](given[probability], *at)
            if wanted == probability:
                return 1.0 / along
            return of[wanted](given[probability], *at) / -along

        return partial

    declare(name, arguments, {a: slope(a) for a in names if a == probability or a in of})


def negated(slopes: Slopes) -> dict[str, Callable[..., Any]]:
    """The partials of 1 - f."""

    def negative(slope: Callable[..., Any]) -> Callable[..., Any]:
        return lambda y, *args: -slope(y, *args)

    return {name: negative(slope) for name, slope in slopes.items()}


# --- made of the incomplete beta function ---------------------------------------------------------

_BETA = slopes_of(betainc, "a b x")


def _binomial_by_k(y: Any, k: Any, n: Any, p: Any) -> Any:
    return _BETA["b"](None, k + 1.0, n - k, p) - _BETA["a"](None, k + 1.0, n - k, p)


def _f_density(y: Any, dfn: Any, dfd: Any, x: Any) -> Any:
    a, b = dfn * 0.5, dfd * 0.5
    power = xlogy(a, dfn) + xlogy(b, dfd) + xlogy(a - 1.0, x)
    return np.exp(power - (a + b) * np.log(dfd + dfn * x) - betaln(a, b))


def _f_by(parameter: str, sign: float) -> Callable[..., Any]:
    """The partial in a degree of freedom: directly by the beta function, and by its argument."""

    def slope(y: Any, dfn: Any, dfd: Any, x: Any) -> Any:
        share = dfn * x / (dfd + dfn * x)
        direct = _BETA[parameter](None, dfn * 0.5, dfd * 0.5, share) * 0.5
        moved = x * _f_density(y, dfn, dfd, x) * sign
        return direct + moved / (dfn if sign > 0 else dfd)

    return slope


_BINOMIAL: Slopes = {
    "k": _binomial_by_k,
    "n": lambda y, k, n, p: -_BETA["b"](None, k + 1.0, n - k, p),
    "p": lambda y, k, n, p: -beta_density(k + 1.0, n - k, p),
}
_WHOLE_BINOMIAL: Slopes = {
    "p": lambda y, k, n, p: _BINOMIAL["p"](y, np.floor(k), n, p),
}
_NEGATIVE_BINOMIAL: Slopes = {
    "k": lambda y, k, n, p: _BETA["b"](None, n, k + 1.0, p),
    "n": lambda y, k, n, p: _BETA["a"](None, n, k + 1.0, p),
    "p": lambda y, k, n, p: beta_density(n, k + 1.0, p),
}
_F: Slopes = {"dfn": _f_by("a", 1.0), "dfd": _f_by("b", -1.0), "x": _f_density}

declare("betaincc", "a b x", negated(_BETA))
declare_inverse("betainccinv", "a b y", negated(_BETA), "a b x", "x")
declare_inverse("btdtria", "p b x", _BETA, "a b x", "a")
declare_inverse("btdtrib", "a p x", _BETA, "a b x", "b")
declare("bdtr", "k n p", _WHOLE_BINOMIAL)
declare("bdtrc", "k n p", negated(_WHOLE_BINOMIAL))
declare_inverse("bdtri", "k n y", _WHOLE_BINOMIAL, "k n p", "p")
declare_inverse("bdtrik", "y n p", _BINOMIAL, "k n p", "k")
declare_inverse("bdtrin", "k y p", _BINOMIAL, "k n p", "n")
declare("nbdtr", "k n p", {"p": _NEGATIVE_BINOMIAL["p"]})
declare("nbdtrc", "k n p", negated({"p": _NEGATIVE_BINOMIAL["p"]}))
declare_inverse("nbdtri", "k n y", {"p": _NEGATIVE_BINOMIAL["p"]}, "k n p", "p")
declare_inverse("nbdtrik", "y n p", _NEGATIVE_BINOMIAL, "k n p", "k")
declare_inverse("nbdtrin", "k y p", _NEGATIVE_BINOMIAL, "k n p", "n")
declare("fdtr", "dfn dfd x", _F)
declare("fdtrc", "dfn dfd x", negated(_F))
declare_inverse("fdtri", "dfn dfd p", _F, "dfn dfd x", "x")
declare_inverse("fdtridfd", "dfn p x", _F, "dfn dfd x", "dfd")

# --- made of the incomplete gamma function --------------------------------------------------------

_GAMMA = slopes_of(gammainc, "a x")
_CHI: Slopes = {
    "v": lambda y, v, x: _GAMMA["a"](None, v * 0.5, x * 0.5) * 0.5,
    "x": lambda y, v, x: gamma_density(v * 0.5, x * 0.5) * 0.5,
}
_POISSON: Slopes = {
    "k": lambda y, k, m: -_GAMMA["a"](None, k + 1.0, m),
    "m": lambda y, k, m: -gamma_density(k + 1.0, m),
}
_WHOLE_POISSON: Slopes = {"m": lambda y, k, m: _POISSON["m"](y, np.floor(k), m)}
_SCALED: Slopes = {
    "a": lambda y, a, b, x: x * gamma_density(b, a * x),
    "b": lambda y, a, b, x: _GAMMA["a"](None, b, a * x),
    "x": lambda y, a, b, x: a * gamma_density(b, a * x),
}

declare("chdtr", "v x", _CHI)
declare("chdtrc", "v x", negated(_CHI))
declare_inverse("chdtri", "v p", negated(_CHI), "v x", "x")
declare_inverse("chdtriv", "p x", _CHI, "v x", "v")
declare("pdtr", "k m", _WHOLE_POISSON)
declare("pdtrc", "k m", negated(_WHOLE_POISSON))
declare_inverse("pdtri", "k y", _WHOLE_POISSON, "k m", "m")
declare_inverse("pdtrik", "p m", _POISSON, "k m", "k")
declare("gdtr", "a b x", _SCALED)
declare("gdtrc", "a b x", negated(_SCALED))
declare_inverse("gdtria", "p b x", _SCALED, "a b x", "a")
declare_inverse("gdtrib", "a p x", _SCALED, "a b x", "b")
declare_inverse("gdtrix", "a b p", _SCALED, "a b x", "x")

# --- normal: ndtr((x - mn) / std) = p -------------------------------------------------------------


def _normal_density(x: Any, mn: Any, std: Any) -> Any:
    return np.exp(np.square((x - mn) / std) * -0.5) / (std * math.sqrt(2.0 * math.pi))


_NORMAL: Slopes = {
    "x": lambda p, x, mn, std: _normal_density(x, mn, std),
    "mn": lambda p, x, mn, std: -_normal_density(x, mn, std),
    "std": lambda p, x, mn, std: _normal_density(x, mn, std) * (mn - x) / std,
}
declare_inverse("nrdtrimn", "p std x", _NORMAL, "x mn std", "mn")
declare_inverse("nrdtrisd", "mn p x", _NORMAL, "x mn std", "std")

# --- Student --------------------------------------------------------------------------------------

declare_inverse("stdtridf", "p t", slopes_of(stdtr, "df t"), "df t", "df")

# --- Kolmogorov -----------------------------------------------------------------------------------


def _kolmogorov_slope(p: Any, y: Any) -> Any:
    """The series in exp(-2 y^2), or its theta transform where that converges slowly."""
    near = y < 1.0
    inside = np.logical_and(near, y > 0.04)
    at = select(inside, y, 0.5)
    far = select(near, 1.0, y)
    low: Any = 0.0
    high: Any = 0.0
    for k in range(1, 6):
        square = ((2 * k - 1) * math.pi) ** 2 / 4.0
        low = low + np.exp(-square / (at * at * 2.0)) * (square / (at * at) - 1.0)
        high = high + np.exp(far * far * (-2.0 * k * k)) * (8.0 * k * k * (-1.0) ** (k + 1))
    low = low * math.sqrt(2.0 * math.pi) / (at * at)
    return -select(near, select(inside, low, 0.0), high * far)


declare("kolmogorov", "y", {"y": _kolmogorov_slope})
declare_inverse("kolmogi", "p", {"y": _kolmogorov_slope}, "y", "y")

# --- without a formula: batched and compiled, and refused where they are differentiated -----------

declare("smirnov", "n d", {})
declare("smirnovi", "n p", {})


__all__ = ["Slopes", "declare", "declare_inverse", "negated"]
