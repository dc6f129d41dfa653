"""The rules that hold in exact arithmetic only, for Graphs that allow them.

Without numbers as one the gradient of a mean pool costs 1.29 times as much, without negations
behind sums that of a layer norm 1.26 times, without factors out of sums that of distances 1.27,
without doubled terms that of cosines 1.15, and without dot products a question of one element
1.49 (calls and elements of `ablation`).

A number can overflow or vanish on the way where it does not in the order that was written, a NaN
come or go with it, and a zero change its sign: docs/performance.md says so of each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.patterns import Number, Value, made, rule
from fungrad.compiler.passes.rewriter import Writer, doubles, exchanged
from fungrad.compiler.passes.simplify.arithmetic import SIGNS_OF_ZERO
from fungrad.compiler.passes.simplify.blas_and_power_forms import factors
from fungrad.ir.graph import Atom, Equation, Literal
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import add, div, mul, neg, sub
from fungrad.primitives.elementwise.ufuncs import power, square
from fungrad.primitives.movement.reshape_broadcast_cast import reduce_sum, reshape

X = Value("x")
Taken = list[tuple[Any, Atom]]
"""The factor (mul) or divisor (div) of a sum."""

# --- numbers --------------------------------------------------------------------------------------


@rule(
    made(mul, X, Number("number")), "x * 3 * 5 is x * 15", of=(mul, div),
    loses="a number that overflows or vanishes on the way, or no longer does so",
)  # fmt: skip
def _one_factor(writer: Writer, equation: Equation, x: Atom, number: Literal) -> Atom | None:
    """x * c * d becomes x * cd for numbers c and d; an overflow of x * c alone is avoided."""
    inner = scaled(x, number)
    made = writer.definition(x, mul)
    first = None if made is None else scaled(*made.inputs)
    dtype = equation.outputs[0].type.dtype
    if inner is not None and first is None and doubles(x, number, *equation.outputs):
        first = _unscaled(writer, equation, x)
    if inner is None or first is None or first[0].type.dtype != dtype or dtype.char in "gG":
        return None  # of long doubles Python's product has too few digits
    factor, limits = first[1] * inner[1], np.finfo(dtype)
    if not float(limits.tiny) ** 0.5 <= abs(factor) <= float(limits.max) ** 0.5:
        return None  # in half precision 1000 * 1000 is infinite
    return writer.add(equation, mul, first[0], Literal(factor))


def _unscaled(
    writer: Writer, equation: Equation, atom: Atom, deep: int = costs.searched_operands
) -> tuple[Atom, float] | None:
    """The unscaled value and the scalar factor of products and quotients with no other user."""
    made = writer.sole_use_definition(atom, mul, div)
    if made is None or not deep:
        return None
    found = scaled(*made.inputs) if made.primitive is mul else None
    if found is not None:
        return found if found[0].type == atom.type else None
    for position in range(2 if made.primitive is mul else 1):
        found = _unscaled(writer, equation, made.inputs[position], deep - 1)
        if found is not None:
            inputs = exchanged(made.inputs, position, found[0])
            return writer.add(equation, made.primitive, *inputs), found[1]
    return None


def scaled(x: Atom, y: Atom) -> tuple[Atom, float] | None:
    """A product without its scalar factor, and that factor, of no extreme size."""
    if isinstance(x, Literal):
        x, y = y, x
    if not isinstance(y, Literal) or not isinstance(y.value, float | int) or not x.type.inexact:
        return None
    return (x, float(y.value)) if 2.0**-64 <= abs(y.value) <= 2.0**64 else None


@rule(made(add), "(x + y) + y is x + 2 * y", loses="2 * y overflows", of=(add,))
def _twice(writer: Writer, equation: Equation) -> Atom | None:
    """The number may meet others."""
    if not doubles(*equation.inputs):
        return None
    for total, y in (equation.inputs, equation.inputs[::-1]):
        inner = writer.sole_use_definition(total, add)
        if inner is not None and not isinstance(y, Literal) and any(y is a for a in inner.inputs):
            x = inner.inputs[inner.inputs[0] is y]
            return writer.add(equation, add, x, writer.add(equation, mul, y, Literal(2.0)))
    return None


# --- sums of products -----------------------------------------------------------------------------


@rule(
    made(reduce_sum, X), "sum(x * r) is sum(x) * r for what is the same along a row", of=(mul, div),
    loses="the sum overflows or vanishes; what a division by the largest element protects",
)  # fmt: skip
def _out_of_sum(writer: Writer, equation: Equation, x: Atom) -> Atom | None:
    """sum(x * r) as sum(x) * r, and sum(x / r) as sum(x) / r, for an r that is one number for each
    sum, where nothing else reads x * r; of a factor of x, too.
    """
    if not doubles(x) or equation.outputs[0].type.size >= x.type.size:
        return None
    taken: Taken = []
    whole = _peeled(writer, equation, x, taken)
    product = writer.sole_use_definition(whole, mul, div)
    if product is not None:
        for position, given in enumerate(product.inputs[: 1 + (product.primitive is mul)]):
            inner = _peeled(writer, equation, given, taken) if given.type == x.type else given
            if inner is not given:
                inputs = exchanged(product.inputs, position, inner)
                whole = writer.add(equation, product.primitive, *inputs)
                break
    if not taken:
        return None
    total = writer.add(equation, reduce_sum, whole, **equation.params)
    for primitive, factor in reversed(taken):
        total = writer.add(equation, primitive, total, _one_each(writer, equation, factor))
    return total


def _peeled(writer: Writer, equation: Equation, atom: Atom, taken: Taken) -> Atom:
    """A value with no other user, divided by a factor that is constant along each sum."""
    while len(taken) < costs.factors_out_of_a_sum:
        made = writer.sole_use_definition(atom, mul, div)
        found = None if made is None else _steady(made, equation)
        if made is None or found is None:
            break
        atom, factor = found
        taken.append((made.primitive, factor))
    return atom


def _steady(made: Equation, equation: Equation) -> tuple[Atom, Atom] | None:
    """x and r of x * r or x / r, where r is constant along each sum of an equation."""
    pairs = [made.inputs] if made.primitive is div else [made.inputs, made.inputs[::-1]]
    for x, factor in pairs:
        if x.type != made.outputs[0].type:
            continue
        if isinstance(factor, Literal):  # what is made smaller may be too large to be added up
            number = scaled(x, factor)
            if number is not None and (abs(number[1]) < 1) is (made.primitive is div):
                return x, factor
        elif doubles(factor):
            shape = _padded(factor, x.type.ndim)
            if all(shape[axis] == 1 for axis in equation.params["axes"]):
                return x, factor
    return None


def _padded(atom: Atom, ndim: int) -> tuple[int, ...]:
    shape = atom.type.shape
    return (1,) * (ndim - len(shape)) + shape


def _one_each(writer: Writer, equation: Equation, factor: Atom) -> Atom:
    """One number for each sum, from one for each row."""
    if not factor.type.shape:
        return factor
    shape = _padded(factor, equation.inputs[0].type.ndim)
    rest = tuple([n for i, n in enumerate(shape) if i not in equation.params["axes"]])
    return writer.add(equation, reshape, factor, shape=rest)


@rule(
    made(reduce_sum, X), "sum(x * y + z) is x . y + sum(z)",
    loses="products are not rounded before they are added; inf - inf in two sums",
)  # fmt: skip
def _as_dots(writer: Writer, equation: Equation, x: Atom) -> Atom | None:
    """The sum of a vector; the products among its terms are added by BLAS."""
    if x.type.ndim != 1 or not x.type.inexact:
        return None
    if x.type.size > costs.single_precision_dot and x.type.dtype.char not in "dD":
        return None
    sums: dict[bool, list[Atom]] = {True: [], False: []}
    rest: dict[bool, list[Atom]] = {True: [], False: []}
    for plus, term in _terms(writer, x):
        dot = _dot(writer, equation, term)
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


def _terms(writer: Writer, x: Atom) -> Iterator[tuple[bool, Atom]]:
    """The terms of a sum with no other user, each with its sign."""
    waiting = [(True, x)]
    while waiting:
        plus, atom = waiting.pop()
        made = writer.sole_use_definition(atom, add, sub, neg)
        if made is None or any(a.type != x.type for a in made.inputs):
            yield plus, atom
            continue
        signs = (not plus,) if made.primitive is neg else (plus, (made.primitive is add) is plus)
        inner = zip(signs, made.inputs, strict=True)
        waiting += [*inner][::-1]


def _dot(
    writer: Writer, equation: Equation, x: Atom, deep: int = costs.searched_operands
) -> Atom | None:
    """The dot product that a sum computes, if it is one, or a multiple of one."""
    made = writer.sole_use_definition(x, mul, power, square)
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
    dot = _dot(writer, equation, y, deep - 1)
    return None if dot is None else writer.add(equation, mul, dot, number)


def _combined(
    writer: Writer, equation: Equation, added: Sequence[Atom], subtracted: Sequence[Atom]
) -> Atom:
    total, *others = added
    for primitive, terms in ((add, others), (sub, subtracted)):
        for term in terms:
            total = writer.add(equation, primitive, total, term)
    return total


REGROUPED = (*SIGNS_OF_ZERO, _one_factor, _out_of_sum, _as_dots, _twice)

__all__ = ["REGROUPED"]
