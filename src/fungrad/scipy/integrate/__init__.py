"""scipy.integrate for traced values (`fungrad.scipy.integrate`).

The differentiable functions are in this package; all other names are SciPy's, which is only
imported for those.
"""

from __future__ import annotations

from typing import Any

from fungrad.scipy.integrate.initial_value import solve_ivp
from fungrad.scipy.integrate.odeint_function import odeint
from fungrad.scipy.integrate.quadrature import (
    cumulative_simpson,
    cumulative_trapezoid,
    fixed_quad,
    quad,
    romb,
    simpson,
    trapezoid,
)
from fungrad.scipy.optional import scipy_module

__all__ = [
    "cumulative_simpson", "cumulative_trapezoid", "fixed_quad", "odeint", "quad", "romb", "simpson",
    "solve_ivp", "trapezoid",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(scipy_module("scipy.integrate"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(scipy_module("scipy.integrate"))})
