"""scipy.integrate for traced values (`fungrad.scipy.integrate`).

The differentiable functions are in this package; all other names are SciPy's, which is only
imported for those.
"""

from __future__ import annotations

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
from fungrad.scipy.optional import rest_of_scipy

__all__ = [
    "cumulative_simpson", "cumulative_trapezoid", "fixed_quad", "odeint", "quad", "romb", "simpson",
    "solve_ivp", "trapezoid",
]  # fmt: skip


__getattr__, __dir__ = rest_of_scipy(globals())
