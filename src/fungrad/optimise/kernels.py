"""Floor 6: which forms of a function are computed where NumPy's own is slow.

`setting` is "auto", "numpy" (never another than NumPy's) or "fast". Knows the IR's rules; measures
nothing itself: docs/performance.md and benchmarks/kernels.py have the figures behind the choices.
"""

from __future__ import annotations

from fungrad.errors import ArgumentError
from fungrad.ir.graph import Atom, Equation, Literal
from fungrad.optimise.rewrite import Rule, Writer
from fungrad.primitives.contracting import dot_general
from fungrad.primitives.elementwise import add, mul, sub
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


def _as_dots(writer: Writer, equation: Equation) -> Atom | None:
    """The sum of a vector that fits into cache, as BLAS adds up the products that it is made of."""
    x = equation.inputs[0]
    if x.type.ndim != 1 or x.type.size > IN_CACHE or not x.type.inexact:
        return None
    return _summed(writer, equation, x, None)


def _summed(writer: Writer, equation: Equation, x: Atom, reader: Equation | None) -> Atom | None:
    """The sum of what `reader` alone reads, None where there is no product in it."""
    made = writer.made_by(x, mul, power, add, sub)
    if made is None or not writer.only_here(x, reader):
        return None
    y, z = made.inputs
    if made.primitive is power:
        square = isinstance(z, Literal) and z.type.weak and z.value == 2 and y.type == x.type
        return _dot(writer, equation, y, y) if square else None
    if made.primitive is mul:
        if y.type == z.type == x.type:
            return _dot(writer, equation, y, z)
        y, number = (z, y) if isinstance(y, Literal) else (y, z)
        if not isinstance(number, Literal) or not abs(number.value) >= 1 or y.type != x.type:
            return None  # what is scaled down may be too large to be added up before
        total = _summed(writer, equation, y, made) or _plain_sum(writer, equation, y)
        return None if total is None else writer.add(equation, mul, total, number)
    if y.type != x.type or z.type != x.type:
        return None
    parts = [_summed(writer, equation, part, made) for part in (y, z)]
    if parts[0] is parts[1] is None:
        return None
    first, second = [
        part or _plain_sum(writer, equation, term) for part, term in zip(parts, (y, z), strict=True)
    ]
    assert first is not None and second is not None
    return writer.add(equation, made.primitive, first, second)


def _dot(writer: Writer, equation: Equation, x: Atom, y: Atom) -> Atom | None:
    return writer.add(equation, dot_general, x, y, contract=((0,), (0,)), batch=((), ()))


def _plain_sum(writer: Writer, equation: Equation, x: Atom) -> Atom | None:
    return writer.add(equation, reduce_sum, x, axes=(0,))


def _one_factor(writer: Writer, equation: Equation) -> Atom | None:
    """x * c * d as x * cd for two numbers; what overflows on the way alone no longer does."""
    inner = _scaled(*equation.inputs)
    made = None if inner is None else writer.made_by(inner[0], mul)
    first = None if made is None else _scaled(*made.inputs)
    if inner is None or first is None or first[0].type.dtype != equation.outputs[0].type.dtype:
        return None
    return writer.add(equation, mul, first[0], Literal(first[1] * inner[1]))


def _scaled(x: Atom, y: Atom) -> tuple[Atom, float] | None:
    """What a product is a multiple of, and the number, of no extreme size."""
    if isinstance(x, Literal):
        x, y = y, x
    if not isinstance(y, Literal) or not isinstance(y.value, float | int) or not x.type.inexact:
        return None
    return (x, float(y.value)) if 2.0**-64 <= abs(y.value) <= 2.0**64 else None


ROUNDED = {
    mul: Rule((mul,), "x * 3 * 5 is x * 15, to rounding", _one_factor),
    power: Rule((power,), "x ** 3 is x * x * x, to rounding", _as_product),
    reduce_sum: Rule((reduce_sum,), "sum(x * y + z) is x . y + sum(z), to rounding", _as_dots),
}
"""Rules whose numbers are equal to rounding only, by their primitive."""
