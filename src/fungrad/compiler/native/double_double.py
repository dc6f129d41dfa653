"""Sums of two floats, a value and what it was rounded by, for the last bits of functions.

Algorithms: Dekker's fast sum, Knuth's sum, products by a fused multiply-add (Muller et al.,
Handbook of Floating-Point Arithmetic, chapters 4 and 14).
"""

from __future__ import annotations

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
    """The square root of a pair that is not negative; 0 of 0."""
    s = code.sqrt(x[0])
    left = code.add(code.fma(code.neg(s), s, x[0]), x[1])
    twice = code.add(s, s)
    low = code.div(left, code.select(code.compare("oeq", s, 0.0), 1.0, twice))
    return s, low


__all__ = ["Pair", "fast_sum", "product", "quotient", "quotient_pair", "root", "times", "two_sum"]
