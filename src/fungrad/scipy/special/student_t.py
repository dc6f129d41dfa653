"""The integral of Student's density in scipy.special, and its inverse.

The derivative in the degrees of freedom is that of the incomplete beta function (DLMF 8.17), and
at t = 0, where that has a corner, of the density. Needs SciPy when it is imported.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import Over, elementwise, select
from fungrad.scipy.optional import scipy_special
from fungrad.scipy.special.gamma_functions import betainc, digamma, poch

sp = scipy_special()


def _density(df: Any, t: Any) -> Any:
    power = (df + 1.0) * -0.5 * np.log1p(t * t / df)
    return poch(df * 0.5, 0.5) / np.sqrt(df * math.pi) * np.exp(power)


def _by_freedom(df: Any, t: Any) -> Any:
    """The derivative of stdtr in df: I_z(df / 2, 1 / 2) / 2 at z = df / (df + t^2) is either
    tail.
    """
    middle = t == 0
    half = df * 0.5
    away = select(middle, 1.0, t)
    push = betainc.jvp
    assert push is not None
    _, by_half = push((half, 0.5, df / (df + away * away)), (0.5, None, None))
    elsewhere = np.sign(away) * by_half * -0.5 - away * _density(df, away) / (df * 2.0)
    slope = (digamma(half + 0.5) - digamma(half) - 1.0 / df) * 0.5
    return select(middle, t * slope * _density(df, 0.0), elsewhere)


stdtr = elementwise(
    "stdtr",
    sp.stdtr,
    partials=[lambda p, df, t: _by_freedom(df, t), lambda p, df, t: _density(df, t)],
)
stdtrit = elementwise(
    "stdtrit",
    sp.stdtrit,
    partials=[
        lambda t, df, p: -_by_freedom(df, t) / _density(df, t),
        Over(lambda t, df, p: _density(df, t)),
    ],
)
