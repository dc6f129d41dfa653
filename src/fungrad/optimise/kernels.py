"""Floor 6: which forms of a function are computed where NumPy's own is slow.

`setting` is "auto", "numpy" (never another than NumPy's) or "fast". Knows the IR's rules; measures
nothing itself: docs/performance.md and benchmarks/kernels.py have the figures behind the choices.
"""

from __future__ import annotations

from fungrad.errors import ArgumentError
from fungrad.ir.graph import Atom, Equation, Literal
from fungrad.optimise.rewrite import Rule, Writer
from fungrad.primitives.contracting import dot_general
from fungrad.primitives.elementwise import mul
from fungrad.primitives.shaping import reduce_sum
from fungrad.primitives.ufuncs import power, reciprocal

SETTINGS = ("auto", "numpy", "fast")
IN_CACHE = 8_192
"""Elements of a product that BLAS adds up; those of longer ones are never all there at once."""
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


def _as_dot(writer: Writer, equation: Equation) -> Atom | None:
    """The sum of a product of vectors that fit into cache, as BLAS adds it up."""
    x = equation.inputs[0]
    made = writer.made_by(x, mul)
    if made is None or not writer.only_here(x) or x.type.ndim != 1 or not x.type.inexact:
        return None
    if any(a.type != x.type for a in made.inputs) or x.type.size > IN_CACHE:
        return None
    return writer.add(equation, dot_general, *made.inputs, contract=((0,), (0,)), batch=((), ()))


ROUNDED = {
    power: Rule((power,), "x ** 3 is x * x * x, to rounding", _as_product),
    reduce_sum: Rule((reduce_sum,), "sum(x * y) is x . y, to rounding", _as_dot),
}
"""Rules whose numbers are equal to rounding only, by their primitive."""
