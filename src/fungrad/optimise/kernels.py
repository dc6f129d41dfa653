"""Floor 6: which forms of a function are computed where NumPy's own is slow.

`setting` is "auto", "numpy" (never another than NumPy's) or "fast". Knows the IR's rules; measures
nothing itself: docs/performance.md and benchmarks/kernels.py have the figures behind the choices.
"""

from __future__ import annotations

from fungrad.errors import ArgumentError
from fungrad.ir.graph import Atom, Equation, Literal
from fungrad.optimise.rewrite import Rule, Writer
from fungrad.primitives.elementwise import mul
from fungrad.primitives.ufuncs import power, reciprocal

SETTINGS = ("auto", "numpy", "fast")
_PRODUCTS = {3: (2, 1), 4: (2, 2)}


class _State:
    setting = "auto"


def setting() -> str:
    """Which kernels compiled functions use."""
    return _State.setting


def choose(value: str) -> None:
    """Sets which kernels functions that are compiled from now on use.

    Raises:
      ArgumentError: where there is no such setting.
    """
    if value not in SETTINGS:
        raise ArgumentError(f"The kernels have to be one of {', '.join(SETTINGS)}, not {value!r}.")
    _State.setting = value


def _as_product(writer: Writer, equation: Equation) -> Atom | None:
    """x ** 3 and x ** 4 as products: within 2 ulp, where NumPy's loop is 20 to 100 times slower."""
    x, exponent = equation.inputs
    if not isinstance(exponent, Literal) or not exponent.type.weak or not x.type.inexact:
        return None
    number = exponent.value
    if number < 0:
        positive = _power(writer, equation, x, -number) if -number in (2, 3, 4) else None
        return None if positive is None else writer.add(equation, reciprocal, positive)
    return _power(writer, equation, x, number) if number in _PRODUCTS else None


def _power(writer: Writer, equation: Equation, x: Atom, number: float) -> Atom | None:
    if number == 1:
        return x
    if number == 2:
        return writer.add(equation, power, x, Literal(2))
    first, second = _PRODUCTS[int(number)]
    left = _power(writer, equation, x, first)
    right = _power(writer, equation, x, second)
    return None if left is None or right is None else writer.add(equation, mul, left, right)


POWERS = Rule((power,), "x ** 3 is x * x * x, to rounding", _as_product)
