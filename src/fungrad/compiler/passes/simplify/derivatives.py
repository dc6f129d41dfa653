"""Rules for equations of derivatives, whose last digits may differ from those of the program as it
is written. The values of the function itself keep NumPy's digits.

Without `sum_of_quotients` the gradient of layer norm divides each number by the deviation of its
row; without `one_product` that of logistic regression multiplies by the matrix three times; without
`scaled_result` that of a convolution by its kernel takes 1.15 times the time.
"""

from __future__ import annotations

from fungrad.compiler.passes.patterns import AnyValue, made, once, rule
from fungrad.compiler.passes.rewriter import Writer, exchanged
from fungrad.ir.graph import Atom, Equation, Literal, Variable
from fungrad.primitives.contraction.convolution import convolve_nd
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import add, div, mul
from fungrad.primitives.movement.reshape_broadcast_cast import flip, reduce_sum


def derived(equation: Equation) -> bool:
    """Whether a backward walk led to an equation."""
    return equation.backward > 0


@rule(
    made(reduce_sum, once(div, AnyValue("x"), AnyValue("r"))),
    "in a derivative, sum(x / r) is sum(x * (1 / r)) where r is constant in each sum",
    guard=derived,
)
def sum_of_quotients(writer: Writer, equation: Equation, x: Atom, r: Atom) -> Atom | None:
    """`sum(x) / r` would overflow where the quotients do not."""
    whole, axes = equation.inputs[0].type, equation.params["axes"]
    alike = x.type == whole and r.type.dtype == whole.dtype and whole.dtype.itemsize >= 4
    if not alike or whole.dtype.kind != "f" or not isinstance(r, Variable):
        return None
    shape = (1,) * (whole.ndim - r.type.ndim) + r.type.shape
    if any(shape[axis] != 1 for axis in axes):
        return None
    inverse = writer.add(equation, div, Literal(1.0), r)
    product = writer.add(equation, mul, x, inverse)
    return writer.add(equation, reduce_sum, product, **equation.params)


@rule(
    made(add, once(dot_general, name="first"), once(dot_general, name="second")),
    "in a derivative, a @ x + b @ x is (a + b) @ x",
    guard=derived,
)
def one_product(
    writer: Writer, equation: Equation, first: Equation, second: Equation
) -> Atom | None:
    if first.params != second.params:
        return None
    for n in (0, 1):
        a, b = first.inputs[n], second.inputs[n]
        if first.inputs[1 - n] is second.inputs[1 - n] and a.type == b.type:
            given = list(first.inputs)
            given[n] = writer.add(equation, add, a, b)
            return writer.add(equation, dot_general, *given, **first.params)
    return None


@rule(
    made((convolve_nd, dot_general)),
    "in a derivative, a @ (2 * x) is 2 * (a @ x) where the product has fewer elements",
    of=(mul, flip),
    guard=derived,
)
def scaled_result(writer: Writer, equation: Equation) -> Atom | None:
    """Without a number below 1 the sum would overflow, without a large one its terms underflow."""
    for n, atom in enumerate(equation.inputs):
        if atom.type.size <= equation.outputs[0].type.size:
            continue
        scaled = writer.sole_use_definition(atom, mul, flip)
        flipped = scaled if scaled and scaled.primitive is flip else None
        if flipped is not None:
            scaled = writer.sole_use_definition(flipped.inputs[0], mul)
        for x, c in (scaled.inputs, scaled.inputs[::-1]) if scaled else ():
            if isinstance(c, Literal) and x.type == atom.type and 1 <= abs(c.value) <= 2:
                if flipped is not None:
                    x = writer.add(flipped, flip, x, **flipped.params)
                given = exchanged(equation.inputs, n, x)
                product = writer.add(equation, equation.primitive, *given, **equation.params)
                return writer.add(equation, mul, c, product)
    return None


RULES = (sum_of_quotients, one_product, scaled_result)
