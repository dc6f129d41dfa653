"""The functions of scipy.special made of x log y, and the losses.

At x = 0 and y = 0 the derivative of x log y in y is 0, as at every other y. Needs SciPy when it
is imported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.primitives.elementwise.family import elementwise, select
from fungrad.scipy.optional import scipy_special

sp = scipy_special()


def _ratio(x: Any, y: Any) -> Any:
    """x / y, and 0 where both are 0."""
    return x / select(np.logical_and(x == 0, y == 0), 1.0, y)


xlogy = elementwise(
    "xlogy", sp.xlogy, partials=[lambda z, x, y: np.log(y), lambda z, x, y: _ratio(x, y)]
)
xlog1py = elementwise(
    "xlog1py",
    sp.xlog1py,
    partials=[lambda z, x, y: np.log1p(y), lambda z, x, y: _ratio(x, y + 1.0)],
)
entr = elementwise("entr", sp.entr, partials=[lambda y, x: -1.0 - np.log(x)])
rel_entr = elementwise(
    "rel_entr",
    sp.rel_entr,
    partials=[lambda z, x, y: np.log(x / y) + 1.0, lambda z, x, y: -_ratio(x, y)],
)
kl_div = elementwise(
    "kl_div",
    sp.kl_div,
    partials=[lambda z, x, y: np.log(x / y), lambda z, x, y: 1.0 - _ratio(x, y)],
)


def _excess(delta: Any, r: Any) -> Any:
    """How far |r| lies beyond delta."""
    size = np.abs(r)
    return select(size > delta, size - delta, 0.0)


huber = elementwise(
    "huber",
    sp.huber,
    partials=[
        lambda z, delta, r: _excess(delta, r),
        lambda z, delta, r: select(np.abs(r) > delta, np.sign(r) * delta, r),
    ],
)
pseudo_huber = elementwise(
    "pseudo_huber",
    sp.pseudo_huber,
    partials=[
        lambda z, delta, r: z / delta * 2.0 - r * r / np.hypot(delta, r),
        lambda z, delta, r: r * delta / np.hypot(delta, r),
    ],
)
