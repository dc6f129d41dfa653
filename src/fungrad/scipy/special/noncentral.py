"""scipy.special's noncentral distribution functions (chndtr, ncfdtr, nctdtr) and their inverses.

They are mixtures over a Poisson number, so a derivative is a difference of two of them (N. Johnson,
S. Kotz and N. Balakrishnan, "Continuous Univariate Distributions", volume 2, 1995, chapters 29-31).
Needs SciPy when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import select
from fungrad.primitives.primitive import Primitive
from fungrad.scipy.optional import special
from fungrad.scipy.special.bessel import hyp0f1, ive
from fungrad.scipy.special.cdfs import Slopes, declare, declare_inverse
from fungrad.scipy.special.gamma_functions import betaln, gamma_density

# --- chi squared ----------------------------------------------------------------------------------


def _chi_density(y: Any, x: Any, df: Any, nc: Any) -> Any:
    """The density by 0F1, or where that overflows by the scaled Bessel function (equation 29.4)."""
    z = nc * x * 0.25
    far = z > 1e4
    half = df * 0.5
    central = gamma_density(half, x * 0.5) * 0.5
    near = np.exp(nc * -0.5) * central * hyp0f1(half, select(far, 1.0, z))
    x, nc = select(far, x, 1.0), select(far, nc, 1.0)
    power = np.square(np.sqrt(x) - np.sqrt(nc)) * -0.5 + (half - 1.0) * 0.5 * np.log(x / nc)
    return select(far, np.exp(power) * ive(half - 1.0, np.sqrt(x * nc)) * 0.5, near)


chndtr: Primitive
_NONCENTRAL_CHI: Slopes = {
    "x": _chi_density,
    "nc": lambda y, x, df, nc: (chndtr(x, df + 2.0, nc) - y) * 0.5,
}
chndtr = special("chndtr", _NONCENTRAL_CHI["x"], "df", _NONCENTRAL_CHI["nc"])
declare_inverse("chndtrix", "p df nc", _NONCENTRAL_CHI, "x df nc", "x")
declare_inverse("chndtrinc", "x df p", _NONCENTRAL_CHI, "x df nc", "nc")
declare("chndtridf", "x p nc", {})

# --- F --------------------------------------------------------------------------------------------


def _more(dfn: Any, dfd: Any, nc: Any, f: Any, count: float) -> Any:
    """ncfdtr with more degrees of freedom in the numerator, at the same share."""
    return ncfdtr(dfn + count, dfd, nc, f * dfn / (dfn + count))


def _noncentral_f_density(y: Any, dfn: Any, dfd: Any, nc: Any, f: Any) -> Any:
    """The density, by I_w(a, b) - I_w(a + 1, b) = w^a (1 - w)^b / (a B(a, b)), with w the share."""
    more, most = _more(dfn, dfd, nc, f, 2.0), _more(dfn, dfd, nc, f, 4.0)
    return (dfn * (y - more) + nc * (more - most)) / (f * 2.0)


ncfdtr: Primitive
_NONCENTRAL_F: Slopes = {
    "nc": lambda y, dfn, dfd, nc, f: (_more(dfn, dfd, nc, f, 2.0) - y) * 0.5,
    "f": _noncentral_f_density,
}
ncfdtr = special("ncfdtr", "dfn", "dfd", _NONCENTRAL_F["nc"], _NONCENTRAL_F["f"])
declare_inverse("ncfdtri", "dfn dfd nc p", _NONCENTRAL_F, "dfn dfd nc f", "f")
declare_inverse("ncfdtrinc", "dfn dfd p f", _NONCENTRAL_F, "dfn dfd nc f", "nc")
declare("ncfdtridfd", "dfn p nc f", {})
declare("ncfdtridfn", "p dfd nc f", {})

# --- t --------------------------------------------------------------------------------------------


def _t_density(y: Any, df: Any, nc: Any, t: Any) -> Any:
    """The density, equation 31.5; at t = 0 its limit."""
    zero = t == 0
    at = select(zero, 1.0, t)
    moved = nctdtr(df + 2.0, nc, at * np.sqrt(1.0 + 2.0 / df)) - nctdtr(df, nc, at)
    middle = np.exp(nc * nc * -0.5 - betaln(0.5, df * 0.5)) / np.sqrt(df)
    return select(zero, middle, moved * df / at)


nctdtr: Primitive
_T: dict[str, Callable[..., Any]] = {"t": _t_density}
nctdtr = special("nctdtr", "df", "nc", _T["t"])
declare_inverse("nctdtrit", "df nc p", _T, "df nc t", "t")
declare("nctdtridf", "p nc t", {})
declare("nctdtrinc", "df p t", {})
