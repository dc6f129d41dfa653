"""Floor 6: which forms of a function are computed where NumPy's own is slow.

`setting` is "auto", "numpy" (never another than NumPy's) or "fast". Knows the IR's rules; measures
nothing itself: docs/performance.md and benchmarks/kernels.py have the figures behind the choices.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from fungrad.errors import ArgumentError
from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.ir.regrouping import regrouping
from fungrad.optimise.factoring import FACTORED, TWICE
from fungrad.optimise.products import ONE, TURNED
from fungrad.optimise.quotients import (
    KNOWN_QUOTIENT,
    ONE_DIVISOR,
    OUT_OF_SUM,
    RESHAPED_QUOTIENT,
)
from fungrad.optimise.rewrite import DEEP, Rule, Writer
from fungrad.optimise.scaling import (
    BY_SMALLER,
    DOUBLED_BELOW,
    ONE_FACTOR,
    SCALED_BEFORE,
    SCALED_BEHIND,
)
from fungrad.primitives.contracting import dot_general
from fungrad.primitives.elementwise import add, div, mul, neg, sub
from fungrad.primitives.shaping import reduce_sum, reshape, transpose
from fungrad.primitives.ufuncs import power, reciprocal, square

SETTINGS = ("auto", "numpy", "fast")
IN_CACHE = 8_192
"""Elements of a vector of single precision that BLAS adds up; NumPy adds longer ones by pairs."""
_PRODUCTS = {3: (2, 1), 4: (2, 2)}


class _State:
    setting = "auto"


def setting() -> str:
    """Which kernels compiled functions use."""
    return _State.setting


def choices(graph: Graph) -> Hashable:
    """What decides, beside a Graph, which equations are written for it; a key of what is kept."""
    return (setting(), regrouping(graph))


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
        if -number not in (2, 3, 4):
            return None
        return writer.add(equation, reciprocal, _power(writer, equation, x, -number))
    return _power(writer, equation, x, number) if number in _PRODUCTS else None


def _power(writer: Writer, equation: Equation, x: Atom, number: float) -> Atom:
    if number == 1:
        return x
    if number == 2:
        return writer.add(equation, power, x, Literal(2))
    first, second = _PRODUCTS[int(number)]
    left = _power(writer, equation, x, first)
    right = _power(writer, equation, x, second)
    return writer.add(equation, mul, left, right)


def _as_dots(writer: Writer, equation: Equation) -> Atom | None:
    """The sum of a vector, the products that it is made of added up by BLAS."""
    x = equation.inputs[0]
    if x.type.ndim != 1 or not x.type.inexact:
        return None
    if x.type.size > IN_CACHE and x.type.dtype.char not in "dD":
        return None
    sums: dict[bool, list[Atom]] = {True: [], False: []}
    rest: dict[bool, list[Atom]] = {True: [], False: []}
    for plus, term, reader in _terms(writer, x, None):
        dot = _dot(writer, equation, term, reader)
        (rest if dot is None else sums)[plus].append(term if dot is None else dot)
    if not any(sums.values()):
        return None
    if any(rest.values()):
        plus = bool(rest[True])
        left = _combined(writer, equation, rest[plus], rest[False] if plus else [])
        sums[plus].append(writer.add(equation, reduce_sum, left, axes=(0,)))
    if sums[True]:
        return _combined(writer, equation, sums[True], sums[False])
    return writer.add(equation, neg, _combined(writer, equation, sums[False], []))


def _terms(
    writer: Writer, x: Atom, reader: Equation | None
) -> Iterator[tuple[bool, Atom, Equation | None]]:
    """The terms of a sum that `reader` alone reads, each with its sign and what reads it."""
    waiting = [(True, x, reader)]
    while waiting:
        plus, atom, by = waiting.pop()
        made = writer.made_here(atom, add, sub, neg, reader=by)
        if made is None or any(a.type != x.type for a in made.inputs):
            yield plus, atom, by
            continue
        signs = (not plus,) if made.primitive is neg else (plus, (made.primitive is add) is plus)
        inner = zip(signs, made.inputs, strict=True)
        waiting += [(sign, a, made) for sign, a in inner][::-1]


def _dot(
    writer: Writer, equation: Equation, x: Atom, reader: Equation | None, deep: int = DEEP
) -> Atom | None:
    """The sum of what `reader` alone reads, if it is a product of vectors, or a multiple of one."""
    made = writer.made_here(x, mul, power, square, reader=reader)
    both = None if made is None else factors(made)
    if made is None or both is None or not deep:
        return None
    y, z = both
    if y.type == z.type == x.type:
        pairs = {"contract": ((0,), (0,)), "batch": ((), ())}
        return writer.add(equation, dot_general, y, z, **pairs)
    y, number = (z, y) if isinstance(y, Literal) else (y, z)
    if not isinstance(number, Literal) or not abs(number.value) >= 1 or y.type != x.type:
        return None  # what is scaled down may be too large to be added up before
    dot = _dot(writer, equation, y, made, deep - 1)
    return None if dot is None else writer.add(equation, mul, dot, number)


def factors(equation: Equation) -> tuple[Atom, Atom] | None:
    """x and y of x * y, x twice of its square, None of other equations."""
    x, *others = equation.inputs
    if equation.primitive is mul:
        return x, others[0]
    twice = [isinstance(a, Literal) and a.type.weak and a.value == 2 for a in others]
    squares = equation.primitive is square or (equation.primitive is power and all(twice))
    return (x, x) if squares else None


def _combined(
    writer: Writer, equation: Equation, added: Sequence[Atom], subtracted: Sequence[Atom]
) -> Atom:
    total, *others = added
    for primitive, terms in ((add, others), (sub, subtracted)):
        for term in terms:
            total = writer.add(equation, primitive, total, term)
    return total


ROUNDED = {
    mul: (ONE_FACTOR, BY_SMALLER, SCALED_BEFORE, KNOWN_QUOTIENT),
    div: (DOUBLED_BELOW, SCALED_BEFORE),
    dot_general: (SCALED_BEHIND,),
    power: (Rule((power,), "x ** 3 is x * x * x, to rounding", _as_product),),
    reduce_sum: (
        OUT_OF_SUM,
        Rule((reduce_sum,), "sum(x * y + z) is x . y + sum(z), to rounding", _as_dots),
    ),
    transpose: (TURNED,),
    add: (ONE, TWICE, FACTORED, ONE_DIVISOR),
    sub: (ONE, FACTORED, ONE_DIVISOR),
    reshape: (RESHAPED_QUOTIENT,),
}
"""Rules whose numbers are equal to rounding only, by their primitive."""
