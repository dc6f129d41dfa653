"""Floor 6: rules that replace an equation by a cheaper one that gives the same numbers.

Only what holds for every float, rounding, NaN and infinities included: x * 1 is x, -a * b is
-(a * b), x / 8 is x * 0.125; but x * 0 is not 0, and nothing is reassociated. The sign of a zero is
kept by all but the rules that say otherwise. Each rule is (primitive names, reason, function).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.optimise.boxes import BOXES
from fungrad.optimise.choices import chosen_before, chosen_between, chosen_twice
from fungrad.optimise.kernels import ROUNDED, setting
from fungrad.optimise.products import negated
from fungrad.optimise.rewrite import CONSTANT, Rule, Writer, exchanged, simplified_by
from fungrad.optimise.signs import SIGNS
from fungrad.optimise.slices import filled
from fungrad.primitives.contracting import dot_general
from fungrad.primitives.declare import full
from fungrad.primitives.elementwise import add, broadcast_shapes, div, mul, neg, select
from fungrad.primitives.indexing import Index, getitem, scatter
from fungrad.primitives.scattering import index_add
from fungrad.primitives.shaping import broadcast_to, convert, reshape, transpose
from fungrad.primitives.ufuncs import power


def _number(atom: Atom) -> Any:
    """The value of a literal, None for a variable."""
    return atom.value if isinstance(atom, Literal) else None


def _is(atom: Atom, number: float) -> bool:
    return isinstance(atom, Literal) and bool(atom.value == number)


def _same(x: Atom, equation: Equation) -> Atom | None:
    """x, where it is all that the equation gives, type included."""
    return x if x.type == equation.outputs[0].type else None


def _inexact(equation: Equation) -> bool:
    return equation.outputs[0].type.inexact


# --- what changes nothing -------------------------------------------------------------------------


def _times_one(writer: Writer, equation: Equation) -> Atom | None:
    x, y = equation.inputs
    return _same(x, equation) if _is(y, 1) else _same(y, equation) if _is(x, 1) else None


def _over_one(writer: Writer, equation: Equation) -> Atom | None:
    return _same(equation.inputs[0], equation) if _is(equation.inputs[1], 1) else None


def _nothing_done(writer: Writer, equation: Equation) -> Atom | None:
    return _same(equation.inputs[0], equation)


def _axes_in_order(writer: Writer, equation: Equation) -> Atom | None:
    axes = equation.params["axes"]
    return _same(equation.inputs[0], equation) if tuple(axes) == tuple(sorted(axes)) else None


# --- scaling --------------------------------------------------------------------------------------


def _power_of_two(number: Any) -> bool:
    if number.__class__ not in (int, float) or number == 0 or not math.isfinite(number):
        return False
    return abs(math.frexp(number)[0]) == 0.5 and 2.0**-64 <= abs(number) <= 2.0**64


def _double(writer: Writer, equation: Equation) -> Atom | None:
    x, y = equation.inputs
    return writer.add(equation, mul, x, Literal(2.0)) if x is y and _inexact(equation) else None


def _scaled_twice(writer: Writer, equation: Equation) -> Atom | None:
    """x * 2 * c is x * 2c for |c| not below one: what overflows on the way does so at the end."""
    x, y = equation.inputs
    x, number = (y, _number(x)) if isinstance(x, Literal) else (x, _number(y))
    made = writer.made_by(x, mul)
    if made is None or number.__class__ not in (int, float) or not x.type.inexact:
        return None
    first, second = made.inputs
    inner, other = (second, first) if isinstance(first, Literal) else (first, second)
    factor = _number(other)
    if not _power_of_two(factor) or abs(factor) < 1 or not 1 <= abs(number) <= 1e100:
        return None
    if not abs(factor * number) <= float(np.finfo(equation.outputs[0].type.dtype).max):
        return None
    return writer.add(equation, mul, inner, Literal(float(factor * number)))


def _over_power_of_two(writer: Writer, equation: Equation) -> Atom | None:
    x, y = equation.inputs
    if not isinstance(y, Literal) or not _power_of_two(y.value) or not x.type.inexact:
        return None
    return writer.add(equation, mul, x, Literal(1.0 / y.value))


# --- arrays of one value --------------------------------------------------------------------------


def _uniform(writer: Writer, atom: Atom) -> Literal | None:
    """The one value that all elements of an array have, where it is known."""
    if isinstance(atom, Literal):
        return atom
    made = writer.made_by(atom, broadcast_to, full)
    if made is None:
        return _of_constant(writer.constant(atom))
    value = made.params["value"] if not made.inputs else _number(made.inputs[0])
    return None if value is None else Literal(atom.type.dtype.type(value))


def _of_constant(value: Any) -> Literal | None:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fc" or value.size < 2:
        return None
    first = value.flat[0]
    if (
        value.flat[-1] != first
        or not np.isfinite(first)
        or np.signbit(value.real).any() != (np.signbit(first.real))
    ):
        return None
    return Literal(first) if bool(np.all(value == first)) else None


def _of_uniform(writer: Writer, equation: Equation) -> Atom | None:
    """An elementwise equation reads a number in place of an array of that number."""
    inputs = equation.inputs
    known = [_uniform(writer, atom) for atom in inputs]
    if not any(known):
        return None
    shape = equation.outputs[0].type.shape
    if all(found is not None for found in known):
        return _folded(writer, equation, [found for found in known if found is not None])
    new = [a if found is None else found for a, found in zip(inputs, known, strict=True)]
    if all(a is b for a, b in zip(inputs, new, strict=True)) or _shape(new) != shape:
        return None
    return writer.add(equation, equation.primitive, *new, **equation.params)


def _folded(writer: Writer, equation: Equation, values: list[Literal]) -> Atom | None:
    """What numbers alone give, computed now; an infinity or NaN is left to the run, to warn of."""
    type_ = equation.outputs[0].type
    primitive: Any = equation.primitive
    if type_.weak or type_.dtype.kind not in "fc":
        return None
    with np.errstate(all="ignore"):
        value = type_.dtype.type(primitive.eval(*[v.value for v in values], **equation.params))
    if not np.isfinite(value):
        return None
    if not type_.shape:
        return Literal(value)
    return writer.add(equation, broadcast_to, Literal(value), shape=type_.shape)


def _moved_uniform(writer: Writer, equation: Equation) -> Atom | None:
    found = _uniform(writer, equation.inputs[0])
    if found is None or isinstance(equation.inputs[0], Literal):
        return None
    shape = equation.outputs[0].type.shape
    return writer.add(equation, broadcast_to, found, shape=shape) if shape else found


def _without_broadcasts(writer: Writer, equation: Equation) -> Atom | None:
    """NumPy broadcasts by itself: the equation reads what was broadcast, where its shape stays."""
    inputs = equation.inputs
    for position, atom in enumerate(inputs):
        made = writer.made_by(atom, broadcast_to)
        if made is None:
            continue
        source = made.inputs[0]
        tried = exchanged(inputs, position, source)
        if source.type.weak or source.type.dtype != atom.type.dtype:
            continue
        if _shape(tried) == equation.outputs[0].type.shape:
            writer.pass_by(atom)
            inputs = tried
    if inputs is equation.inputs:
        return None
    return writer.add(equation, equation.primitive, *inputs, **equation.params)


def _shape(inputs: Any) -> tuple[int, ...]:
    return broadcast_shapes("an elementwise equation", [a.type for a in inputs])


# --- shapes and places ----------------------------------------------------------------------------


def _reshaped_twice(writer: Writer, equation: Equation) -> Atom | None:
    made = writer.made_by(equation.inputs[0], reshape)
    if made is None:
        return None
    writer.pass_by(equation.inputs[0])
    return writer.add(equation, reshape, made.inputs[0], **equation.params)


def _transposed_twice(writer: Writer, equation: Equation) -> Atom | None:
    made = writer.made_by(equation.inputs[0], transpose)
    if made is None:
        return None
    writer.pass_by(equation.inputs[0])
    axes = tuple(made.params["axes"][a] for a in equation.params["axes"])
    return writer.add(equation, transpose, made.inputs[0], axes=axes)


def _all_in_order(index: Index, size: int, read: int) -> bool:
    """Whether an index without arrays names all elements of an array, in their order."""
    steps = [e.step for e in index.entries if e.__class__ is slice]
    return size == read and all(step is None or step > 0 for step in steps)


def _reads_all(writer: Writer, equation: Equation) -> Atom | None:
    x, *arrays = equation.inputs
    shape = equation.outputs[0].type.shape
    if arrays or not _all_in_order(equation.params["index"], x.type.size, math.prod(shape)):
        return None
    return writer.add(equation, reshape, x, shape=shape)


def _writes_all(writer: Writer, equation: Equation) -> Atom | None:
    values, *arrays = equation.inputs
    shape = equation.params["shape"]
    if arrays or not _all_in_order(equation.params["index"], math.prod(shape), values.type.size):
        return None
    return writer.add(equation, reshape, values, shape=shape)


def _added_in_place(writer: Writer, equation: Equation) -> Atom | None:
    """A sum with an array that is zero but for a part: only that part is added."""
    x, y = equation.inputs
    parts = [writer.made_here(a, scatter) for a in (x, y)]
    first, second = [p if p is not None and len(p.inputs) == 1 else None for p in parts]
    if x.type != y.type or x is y:
        return None
    for part in (first, second):
        if part is not None:
            writer.drop(part)
    if first is not None and second is not None and first.params == second.params:
        values = writer.add(equation, add, first.inputs[0], second.inputs[0])
        return writer.add(equation, scatter, values, **first.params)
    if second is not None:
        return writer.add(equation, index_add, x, second.inputs[0], index=second.params["index"])
    if first is not None:
        return writer.add(equation, index_add, y, first.inputs[0], index=first.params["index"])
    return None


_UNIFORM = (CONSTANT, broadcast_to, full)
"""What may have made an array of one value."""

RULES = (
    Rule((mul,), "x * 1 is x", _times_one, (Literal,)),
    Rule((div, power), "x / 1 and x ** 1 are x", _over_one, (Literal,)),
    Rule((convert, reshape, broadcast_to), "to what it is already", _nothing_done),
    Rule((transpose,), "axes in their order", _axes_in_order),
    Rule((reshape,), "only the last shape counts", _reshaped_twice, (reshape,)),
    Rule((transpose,), "one permutation for two", _transposed_twice, (transpose,)),
    Rule((getitem,), "all elements in their order: a reshape", _reads_all),
    Rule((scatter,), "all elements in their order: a reshape", _writes_all),
    *BOXES,
    Rule((reshape, transpose, broadcast_to), "one value, moved about", _moved_uniform, _UNIFORM),
    *SIGNS,
    Rule((dot_general,), "-x @ y is -(x @ y), but for the sign of 0", negated, (neg,)),
    Rule((select,), "what is not chosen need not be made", chosen_twice, (select,)),
    Rule(
        (select,), "what is done to a choice is done to what is chosen", chosen_before, (neg, mul)
    ),
    Rule(
        (add,),
        "what is chosen here and there is chosen between, but for the sign of 0",
        chosen_between,
        (select,),
    ),
    Rule((add,), "x + x is x * 2", _double),
    Rule((mul,), "x * 2 * 3 is x * 6", _scaled_twice, (mul,)),
    Rule((div,), "x / 8 is x * 0.125", _over_power_of_two, (Literal,)),
    Rule(
        (add,),
        "the zeros of a scatter are not added, but for the sign of 0",
        _added_in_place,
        (scatter,),
    ),
    Rule(
        (index_add,),
        "zeros that slices cover: the slices, but for the sign of 0",
        filled,
        (index_add, scatter),
    ),
)
ELEMENTWISE = (
    Rule((), "a number for an array of that number", _of_uniform, (Literal, *_UNIFORM)),
    Rule((), "NumPy broadcasts by itself", _without_broadcasts, (broadcast_to,)),
)


_BY_PRIMITIVE: dict[Any, tuple[Rule, ...]] = {}
for _rule in RULES:
    for _primitive in _rule.primitives:
        _BY_PRIMITIVE[_primitive] = (*_BY_PRIMITIVE.get(_primitive, ()), _rule)


@functools.cache
def rules_of(primitive: Any) -> tuple[Rule, ...]:
    """The rules that may hold for equations of a primitive."""
    special = _BY_PRIMITIVE.get(primitive, ())
    return special if primitive.partials is None else ELEMENTWISE + special


def simplified(graph: Graph) -> Graph:
    """Applies the rules once along the Graph."""
    if setting() == "numpy":
        return simplified_by(graph, rules_of)
    return simplified_by(graph, _with_rounded)


@functools.cache
def _with_rounded(primitive: Any) -> tuple[Rule, ...]:
    return (*rules_of(primitive), *ROUNDED.get(primitive, ()))
