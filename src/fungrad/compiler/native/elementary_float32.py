"""Functions in single precision by arithmetic on floats, which fill twice as many lanes as doubles.

The rounding errors that matter are carried along as in exponentials.py. Polynomials interpolate at
Chebyshev nodes (computed by mpmath).
"""

from __future__ import annotations

import math

from fungrad.compiler.native.exponentials import LOG2E, at_most, clamped, fast_sum
from fungrad.compiler.native.llvm_ir import Function, Value

MAGIC = 1.5 * 2.0**23
"""MAGIC added to a float leaves the rounded integer in the low 9 bits, where MAGIC has zeros."""
LN2 = 0.693359375, math.log(2.0) - 0.693359375
"""The first has 9 bits, so that its products with exponents are exact."""
EXP = (
    0.1666666716337204, 0.04166655242443085, 0.00833331048488617, 0.0013926378451287746,
    0.00019891250121872872,
)  # fmt: skip
"""(e^r - 1 - r - r^2 / 2) / r^3, for |r| <= ln(2) / 2."""
EXP_TWICE = (
    2.0, 1.3333261013031006, 0.666663408279419, 0.26762619614601135, 0.08917668461799622,
)  # fmt: skip
"""(e^(2 r) - 1 - 2 r) / r^2, for |r| <= ln(2) / 4."""
TANH = (
    -0.3333333134651184, 0.1333325207233429, -0.05394856631755829, 0.02169165015220642,
    -0.008118710480630398, 0.002064850414171815,
)  # fmt: skip
"""(tanh(x) - x) / x^3 in x^2, for |x| < 0.7."""


def _nearest(code: Function, x: Value, by: float) -> tuple[Value, Value]:
    """x * by rounded to an integer: as a float, and in the low bits of an integer."""
    t = code.fma(x, by, MAGIC)
    return code.sub(t, MAGIC), code.as_integer(t)


def _power_of_two(code: Function, bits: Value) -> Value:
    """2^k, for -127 < k < 128 in the low bits of an integer."""
    return code.as_float(code.add(code.binary("shl", bits, 23), 0x3F800000))


def exp(code: Function, x: Value) -> Value:
    x = clamped(code, x, -104.0, 89.0)
    n, bits = _nearest(code, x, LOG2E)
    first = code.fma(n, -LN2[0], x)  # exact
    r = code.fma(n, -LN2[1], first)
    low = code.fma(n, -LN2[1], code.sub(first, r))
    h, rest = fast_sum(code, code.constant(1.0, x.type, x.lanes), r)
    z = code.mul(r, r)
    tail = code.fma(z, 0.5, code.fma(low, h, rest))
    tail = code.fma(code.mul(z, r), code.polynomial(EXP, r), tail)
    half = code.binary("ashr", code.binary("shl", bits, 23), 24)  # 2^k as a product of two
    scaled = code.mul(code.add(h, tail), _power_of_two(code, half))
    return code.mul(scaled, _power_of_two(code, code.sub(bits, half)))


def tanh(code: Function, x: Value) -> Value:
    """1 - 2 / (e^(2 |x|) + 1), or an odd polynomial near zero."""
    size = code.fabs(x)
    a = at_most(code, size, 10.0)
    n, bits = _nearest(code, a, 2.0 * LOG2E)
    r = code.fma(n, -0.5 * LN2[1], code.fma(n, -0.5 * LN2[0], a))
    q = code.fma(code.mul(r, r), code.polynomial(EXP_TWICE, r), code.add(r, r))
    s = _power_of_two(code, bits)
    far = code.sub(1.0, code.div(2.0, code.fma(s, q, code.add(s, 1.0))))
    z = code.mul(x, x)
    near = code.fma(code.mul(z, size), code.polynomial(TANH, z), size)
    return code.copysign(code.select(code.compare("olt", size, 0.7), near, far), x)
