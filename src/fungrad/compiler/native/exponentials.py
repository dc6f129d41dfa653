"""Exponentials and hyperbolic functions in double precision, as branch-free IR.

An argument is n ln 2 + r with |r| <= ln(2) / 2 (Cody and Waite), and e^r - 1 a polynomial. If both
e^x and e^-x are needed, their even and odd parts come from the Taylor series.

For the last bits there are pairs: a rounded value and its rounding error, with Dekker's fast sum,
Knuth's sum, and products by a fused multiply-add (Muller et al., Handbook of Floating-Point
Arithmetic, chapters 4 and 14).
"""

from __future__ import annotations

import math

from fungrad.compiler.native.llvm_ir import Function, Operand, Value

Pair = tuple[Value, Value]


def fast_sum(code: Function, x: Operand, y: Operand) -> Pair:
    """x + y, for |x| >= |y| or x = 0."""
    s = code.add(x, y)
    return s, code.sub(y, code.sub(s, x))


def two_sum(code: Function, x: Operand, y: Operand) -> Pair:
    """x + y."""
    s = code.add(x, y)
    part = code.sub(s, x)
    return s, code.add(code.sub(x, code.sub(s, part)), code.sub(y, part))


def product(code: Function, x: Operand, y: Operand) -> Pair:
    """x y."""
    p = code.mul(x, y)
    return p, code.fma(x, y, code.neg(p))


def times(code: Function, x: Pair, y: Pair) -> Pair:
    """The product of two pairs."""
    p, low = product(code, x[0], y[0])
    return p, code.fma(x[0], y[1], code.fma(x[1], y[0], low))


def quotient(code: Function, x: Pair, y: Pair) -> Value:
    """x / y of two pairs, rounded."""
    inverse = code.div(1.0, y[0])
    q = code.mul(x[0], inverse)
    return code.fma(_left(code, x, y, q), inverse, q)


def quotient_pair(code: Function, x: Pair, y: Pair) -> Pair:
    """x / y of two pairs."""
    inverse = code.div(1.0, y[0])
    q = code.mul(x[0], inverse)
    return fast_sum(code, q, code.mul(_left(code, x, y, q), inverse))


def _left(code: Function, x: Pair, y: Pair, q: Value) -> Value:
    low = code.fma(code.neg(q), y[1], x[1])
    return code.add(code.fma(code.neg(q), y[0], x[0]), low)


def root(code: Function, x: Pair) -> Pair:
    """The square root of a nonnegative pair; 0 of 0."""
    s = code.sqrt(x[0])
    left = code.add(code.fma(code.neg(s), s, x[0]), x[1])
    twice = code.add(s, s)
    low = code.div(left, code.select(code.compare("oeq", s, 0.0), 1.0, twice))
    return s, low


MAGIC = 1.5 * 2.0**52
MAGIC_BITS = 0x4338000000000000
"""MAGIC added to a float leaves the rounded integer in the low bits; NaN yields no poison."""
LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453, 2.3190468138462996e-17
EXP = (
    0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326136, 0.0013888888888883748,
    0.00019841269874820627, 2.4801587325547743e-05, 2.7557255400206422e-06, 2.75572736431103e-07,
    2.5105217004720745e-08, 2.0914686968086876e-09,
)  # fmt: skip
"""(e^r - 1 - r) / r^2, minimax."""
ODD = [1 / math.factorial(n) for n in range(3, 15, 2)]
EVEN = [1 / math.factorial(n) for n in range(4, 16, 2)]
INFINITY = float("inf")


def nearest(code: Function, x: Value, by: float) -> tuple[Value, Value]:
    """x * by rounded to an integer: as a float, and in the low bits of an integer."""
    t = code.fma(x, by, MAGIC)
    return code.sub(t, MAGIC), code.sub(code.as_integer(t), MAGIC_BITS)


def power_of_two(code: Function, k: Value) -> Value:
    """2^k, for -1023 < k < 1024."""
    return code.as_float(code.binary("shl", code.add(k, 1023), 52))


def at_most(code: Function, x: Value, high: float) -> Value:
    """The lesser of x and a number; NaN stays."""
    return code.select(code.compare("ogt", x, high), high, x)


def clamped(code: Function, x: Value, low: float, high: float) -> Value:
    """x limited to [low, high]; NaN stays."""
    return at_most(code, code.select(code.compare("olt", x, low), low, x), high)


def reduced(code: Function, x: Value) -> tuple[Value, Value, Value]:
    """n, r and r's rounding error, of x = n ln 2 + r + low."""
    n, k = nearest(code, x, LOG2E)
    first = code.fma(n, -LN2[0], x)  # exact
    r = code.fma(n, -LN2[1], first)
    return k, r, code.fma(n, -LN2[1], code.sub(first, r))


def exponential_of(code: Function, r: Value, low: Value) -> Value:
    """e^(r + low) - 1."""
    return code.add(r, code.fma(code.mul(r, r), code.polynomial(EXP, r), low))


def factors(code: Function, k: Value) -> tuple[Value, Value]:
    """2^k as a product of two: results may be subnormal, or infinite."""
    b = code.add(k, 2046)
    half = code.binary("lshr", b, 1)
    s1 = code.as_float(code.binary("shl", half, 52))
    return s1, code.as_float(code.binary("shl", code.sub(b, half), 52))


def scaled(code: Function, q: Value, k: Value) -> Value:
    """(1 + q) 2^k."""
    s1, s2 = factors(code, k)
    return code.mul(code.fma(q, s1, s1), s2)


def exp(code: Function, x: Value) -> Value:
    k, r, low = reduced(code, clamped(code, x, -746.0, 710.0))
    return scaled(code, exponential_of(code, r, low), k)


def exp_parts(code: Function, x: Value, low: Value) -> tuple[Value, Value]:
    """q and k of e^(x + low) = (1 + q) 2^k; low is x's rounding error."""
    inside = clamped(code, x, -746.0, 710.0)
    low = code.select(code.compare("oeq", inside, x), low, 0.0)
    k, r, more = reduced(code, inside)
    tail = code.fma(code.mul(r, r), code.polynomial(EXP, r), more)
    tail = code.add(tail, code.fma(low, code.add(r, tail), low))  # low e^r
    return code.add(r, tail), k


def exp2(code: Function, x: Value) -> Value:
    n, k = nearest(code, clamped(code, x, -1076.0, 1025.0), 1.0)
    f = code.sub(clamped(code, x, -1076.0, 1025.0), n)
    r = code.mul(f, LN2[0])
    low = code.fma(f, LN2[1], code.fma(f, LN2[0], code.neg(r)))
    return scaled(code, exponential_of(code, r, low), k)


def choose(code: Function, mask: Value, x: float, y: float, like: Value) -> Value:
    """One of two numbers."""
    return code.select(mask, x, code.constant(y, like.type, like.lanes))


def expm1(code: Function, x: Value) -> Value:
    k, r, low = reduced(code, clamped(code, x, -60.0, 710.0))
    big = code.compare("sgt", k, 1000)
    s = power_of_two(code, code.select(big, code.sub(k, 1), k))
    one = choose(code, big, 0.5, 1.0, x)
    tail = code.fma(code.mul(r, r), code.polynomial(EXP, r), low)
    y, rest = two_sum(code, code.sub(s, one), code.mul(s, r))  # exact, and s times the tail
    y = code.mul(code.add(y, code.fma(s, tail, rest)), choose(code, big, 2.0, 1.0, x))
    return code.select(code.compare("oeq", x, 0.0), x, y)


def hyperbolic(code: Function, x: Value) -> tuple[Pair, Pair, Value]:
    """sinh x and cosh x as pairs, divided by the third, which is 1 or 2; for 0 <= x < 710.7."""
    k, r, low = reduced(code, x)
    z = code.mul(r, r)
    odd = code.fma(code.mul(r, z), code.polynomial(ODD, z), low)
    even = code.fma(code.mul(z, z), code.polynomial(EVEN, z), code.mul(z, 0.5))
    even = code.fma(r, low, even)
    big = code.compare("sgt", k, 1000)
    k = code.select(big, code.sub(k, 1), k)
    up = power_of_two(code, code.sub(k, 1))
    down = power_of_two(code, code.sub(-1, code.select(code.compare("sgt", k, 1000), 1000, k)))
    c, s = fast_sum(code, up, down), fast_sum(code, up, code.neg(down))  # of n ln 2

    def sum_of(first: Pair, second: Pair) -> Pair:
        """first cosh r + second sinh r."""
        p, lost = product(code, second[0], r)
        y, rest = two_sum(code, first[0], p)
        lost = code.add(code.fma(second[1], r, code.add(lost, first[1])), rest)
        return fast_sum(code, y, code.fma(first[0], even, code.fma(second[0], odd, lost)))

    return sum_of(s, c), sum_of(c, s), choose(code, big, 2.0, 1.0, x)


def sinh(code: Function, x: Value) -> Value:
    (y, _), _, factor = hyperbolic(code, at_most(code, code.fabs(x), 710.6))
    return code.copysign(code.mul(y, factor), x)


def cosh(code: Function, x: Value) -> Value:
    _, (y, _), factor = hyperbolic(code, at_most(code, code.fabs(x), 710.6))
    return code.mul(y, factor)


def tanh(code: Function, x: Value) -> Value:
    """(v + r) / (2 w + v + r), of e^(2 |x|) = 2^k e^r, w = 2^-k and v = 1 - w + (e^r - 1 - r)."""
    a = at_most(code, code.fabs(x), 22.0)
    twice = code.add(a, a)
    n, k = nearest(code, twice, LOG2E)
    r, low = code.fma(n, -LN2[0], twice), code.mul(n, -LN2[1])  # r is exact
    w = power_of_two(code, code.sub(0, k))
    tail = code.fma(code.mul(r, r), code.polynomial(EXP, r), low)
    more = code.add(1.0, w)
    d = fast_sum(code, more, code.add(r, tail))
    m, rest = fast_sum(code, code.fma(w, -2.0, more), r)
    return code.copysign(quotient(code, (m, code.add(rest, tail)), d), x)


def sigmoid(code: Function, x: Value) -> Value:
    """1 / (1 + e^-x), the logistic function."""
    k, r, low = reduced(code, clamped(code, code.neg(code.fabs(x)), -746.0, 0.0))
    tail = code.fma(code.mul(r, r), code.polynomial(EXP, r), low)
    one = code.constant(1.0, "double", x.lanes)
    h, low = fast_sum(code, one, r)
    h, low = fast_sum(code, h, code.add(tail, low))
    s = power_of_two(code, code.select(code.compare("slt", k, -1000), -1000, k))
    e, e_low = code.mul(h, s), code.mul(low, s)
    d, rest = fast_sum(code, one, e)
    left = code.compare("olt", x, 0.0)
    y = quotient(
        code, (code.select(left, e, one), code.select(left, e_low, 0.0)),
        (d, code.add(rest, e_low)),
    )  # fmt: skip
    tiny = code.compare("olt", x, -690.0)  # e^x itself, which may be subnormal
    (y,) = code.rarely(tiny, [y], lambda: [code.select(tiny, exp(code, x), y)])
    return y
