"""np.emath: functions that return complex numbers where a real argument is out of their domain.

The class of the result depends on the numbers, which have to be known; compiled functions make a
program for each class.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.numpy.protocol.implements import implements
from fungrad.numpy.protocol.operands import array_of
from fungrad.tracing.trace import typeof

__all__: list[str] = []


def _widened(x: Any, outside: Any) -> Any:
    """An argument as an array, complex if the condition `outside(x)` holds for an element."""
    x = array_of(x)
    if typeof(x).dtype.kind != "c" and bool(np.any(outside(x))):
        return x + 0j
    return x


def _negative(x: Any) -> Any:
    return x < 0


def _beyond_one(x: Any) -> Any:
    return np.abs(x) > 1


def _declare(name: str, outside: Any) -> None:
    """Declares np.emath's function of a name as NumPy's, with widened arguments."""
    function = getattr(np, name)

    @implements(getattr(np.emath, name))
    def widened(x: Any) -> Any:
        return function(_widened(x, outside))


for _name in ("sqrt", "log", "log10", "log2"):
    _declare(_name, _negative)
for _name in ("arccos", "arcsin", "arctanh"):
    _declare(_name, _beyond_one)


@implements(np.emath.logn)
def logn(n: Any, x: Any) -> Any:
    """As np.emath.logn."""
    return np.log(_widened(x, _negative)) / np.log(_widened(n, _negative))


@implements(np.emath.power)
def power(x: Any, p: Any) -> Any:
    """As np.emath.power."""
    x, p = _widened(x, _negative), array_of(p)
    if typeof(p).dtype.kind in "iu" and bool(np.any(p < 0)):
        p = p * 1.0
    return np.power(x, p)
