"""scipy.integrate for traced values (`fungrad.scipy.integrate`).

The functions that SciPy computes in compiled code, or step by step, are in this package. All other
names are SciPy's, which is only imported for those: the Python code of its rules for samples
(`simpson`, `trapezoid`, `romb`) is traced.
"""

from __future__ import annotations

from fungrad.scipy.integrate.initial_value import solve_ivp
from fungrad.scipy.integrate.odeint_function import odeint
from fungrad.scipy.integrate.quadrature import quad
from fungrad.scipy.optional import rest_of_scipy

__all__ = ["odeint", "quad", "solve_ivp"]

__getattr__, __dir__ = rest_of_scipy(globals())
