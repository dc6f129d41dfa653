"""Powers, the cube root and hypot in double precision, and NumPy's quotients and remainders.

x^y is e^(y log x) with log x and the product as pairs of floats: the logarithm is 2 atanh of
(m - 1) / (m + 1), as in logarithms.py, to 2^-65. Powers by known integers and their halves are
products of pairs: exact if the power is a float, and else almost always correctly rounded.
"""

from __future__ import annotations

from fungrad.compiler.native.exponentials import (
    INFINITY,
    LN2,
    Pair,
    choose,
    exp,
    exp_parts,
    fast_sum,
    product,
    quotient_pair,
    root,
    scaled,
    times,
    two_sum,
)
from fungrad.compiler.native.llvm_ir import Function, Value
from fungrad.compiler.native.logarithms import TINY, log_of, normal, split, to_float

LOG = (
    0.4, 0.2857142857142857, 0.22222222222222157, 0.18181818181846549, 0.15384615378367542,
    0.13333334122905927, 0.11764645233976624, 0.10529191230770499, 0.09441859426041639,
    0.09971798821577725,
)  # fmt: skip
"""(log m / s - 2 - 2 s^2 / 3) / s^4, minimax in s^2."""
THIRD = 0.6666666666666666, 3.700743415417188e-17
"""2 / 3."""
CBRT = (
    1.6662787377309156, -1.1623973573078166, 0.6846527077322325, -0.21636185469244387,
    0.02778280101858424,
)  # fmt: skip
"""m^(-1/3) for 1 <= m <= 2, minimax."""


def log_pair(code: Function, x: Value) -> Pair:
    """log x of a positive number as a pair."""
    u, less = normal(code, x)
    k, m = split(code, u)
    n = code.sub(to_float(code, k), less)
    f = code.sub(m, 1.0)
    under = fast_sum(code, code.constant(2.0, "double", x.lanes), f)
    s = quotient_pair(code, (f, code.constant(0.0, "double", x.lanes)), under)
    z = product(code, s[0], s[0])
    z = z[0], code.fma(code.add(s[0], s[0]), s[1], z[1])
    b, low = fast_sum(code, THIRD[0], code.mul(z[0], code.polynomial(LOG, z[0])))
    tail = times(code, s, times(code, z, (b, code.add(low, THIRD[1]))))
    h, low = fast_sum(code, code.add(s[0], s[0]), tail[0])
    low = code.fma(s[1], 2.0, code.add(low, tail[1]))
    whole, rest = product(code, n, LN2[0])
    first, lost = two_sum(code, whole, h)
    low = code.add(code.add(lost, low), code.fma(n, LN2[1], rest))
    return fast_sum(code, first, low)


def power(code: Function, x: Value, y: Value, single: bool = False) -> Value:
    """C's pow; with `single`, accurate enough for single precision only."""
    a = code.fabs(x)
    inside = code.binary("and", code.compare("ogt", a, 0.0), code.compare("olt", a, INFINITY))
    u, edge = code.select(inside, a, 1.0), code.select(code.compare("oeq", a, 0.0), -INFINITY, a)
    if single:
        value = exp(code, code.mul(y, code.select(inside, log_of(code, u), edge)))
    else:
        h, low = log_pair(code, u)
        h, low = code.select(inside, h, edge), code.select(inside, low, 0.0)
        p = code.mul(y, h)
        value = scaled(code, *exp_parts(code, p, code.fma(y, low, code.fma(y, h, code.neg(p)))))
    one = code.constant(1.0, "double", x.lanes)
    half = code.mul(y, 0.5)
    whole = code.compare("oeq", code.intrinsic("trunc", [y]), y)
    odd = code.binary("and", whole, code.compare("une", code.intrinsic("trunc", [half]), half))
    undefined = code.binary("and", code.compare("olt", x, 0.0), code.binary("xor", whole, True))
    undefined = code.binary("and", undefined, code.compare("ogt", x, -INFINITY))
    value = code.select(undefined, float("nan"), value)
    value = code.select(odd, code.copysign(value, x), value)
    endless = code.compare("oeq", code.fabs(y), INFINITY)
    same = code.binary("and", code.compare("oeq", a, 1.0), endless)
    same = code.binary("or", same, code.compare("oeq", x, 1.0))
    return code.select(code.binary("or", same, code.compare("oeq", y, 0.0)), one, value)


def known_power(code: Function, x: Value, n: float) -> Value:
    """x to a known integer, or to half of an odd one, which is a power of the root, by repeated
    squaring of pairs; of doubles for single precision.
    """
    halves = n != int(n)
    count = int(2 * n) if halves else int(n)
    if halves:
        undefined = code.binary(
            "and", code.compare("olt", x, 0.0), code.compare("ogt", x, -INFINITY)
        )
        x = code.select(undefined, float("nan"), code.fabs(x))
    if x.type == "float":
        wide = code.convert("fpext", x, "double")
        wide = product_of(code, code.sqrt(wide) if halves else wide, abs(count))
        return code.convert("fptrunc", wide if n > 0 else code.div(1.0, wide), "float")
    base: Pair = x, code.constant(0.0, x.type, x.lanes)
    if halves:
        base = root(code, base)
    if n < 0:
        inverse = code.div(1.0, base[0])
        left = code.fma(code.neg(inverse), base[0], 1.0)
        if halves:
            left = code.fma(code.neg(inverse), base[1], left)
        base = inverse, code.mul(left, inverse)
    result, low = base
    for digit in bin(abs(count))[3:]:
        result, low = times(code, (result, low), (result, low))
        if digit == "1":
            result, low = times(code, (result, low), base)
    size = code.fabs(result)
    inside = code.binary("and", code.compare("ogt", size, 0.0), code.compare("olt", size, INFINITY))
    return code.select(inside, code.add(result, low), result)


def product_of(code: Function, x: Value, n: int) -> Value:
    """x to a natural number, by repeated squaring."""
    result = x
    for digit in bin(n)[3:]:
        result = code.mul(result, result)
        result = code.mul(result, x) if digit == "1" else result
    return result


def cbrt(code: Function, x: Value, single: bool = False) -> Value:
    """By x^(-1/3) of the mantissa, which needs no division, and a Newton step in pairs, except for
    single precision.
    """
    a = code.fabs(x)
    small = code.compare("olt", a, TINY)
    bits = code.as_integer(code.mul(a, choose(code, small, 2.0**54, 1.0, x)))
    less = code.select(small, 1023 - 1200 + 54, code.constant(1023 - 1200, "i64", x.lanes))
    k = code.sub(code.binary("lshr", bits, 52), less)  # above zero: 1200 more than the exponent
    third = code.binary("lshr", code.mul(k, 43691), 17)
    left = code.sub(k, code.mul(third, 3))
    mantissa = code.binary("and", bits, (1 << 52) - 1)
    u = code.as_float(code.binary("or", mantissa, 1023 << 52))
    m = code.as_float(code.binary("or", mantissa, code.binary("shl", code.add(left, 1023), 52)))
    one, two = code.compare("eq", left, 1), code.compare("eq", left, 2)
    scale = choose(code, one, 2 ** (-1 / 3), 1.0, x)
    y = code.mul(code.polynomial(CBRT, u), code.select(two, 4 ** (-1 / 3), scale))
    e = code.fma(code.mul(code.mul(y, y), code.neg(m)), y, 1.0)
    y = code.fma(code.mul(y, e), code.polynomial((1 / 3, 2 / 9, 14 / 81), e), y)
    square = code.mul(y, y)
    t = code.mul(m, square)
    if not single:
        p, low = product(code, t, t)
        wrong = code.fma(code.neg(p), t, m)
        wrong = code.fma(code.neg(low), t, wrong)
        t = code.fma(code.mul(wrong, square), 1 / 3, t)
    y = code.mul(t, code.as_float(code.binary("shl", code.add(third, 1023 - 400), 52)))
    odd = code.binary("or", code.compare("oeq", a, 0.0), code.compare("uge", a, INFINITY))
    return code.copysign(code.select(odd, a, y), x)


_INVERSE = 0x7FCE623822FC16E6
"""Less the bits of s it is those of 1 / (2 s), to 6 %."""


def hypot(code: Function, x: Value, y: Value) -> Value:
    """sqrt(x^2 + y^2), scaled by a power of two, with the rounding errors of squares and sum."""
    a, b = code.fabs(x), code.fabs(y)
    less = code.compare("olt", a, b)
    large, small = code.select(less, b, a), code.select(less, a, b)
    scale = choose(code, code.compare("ogt", large, 2.0**500), 2.0**-600, 1.0, x)
    scale = code.select(code.compare("olt", large, 2.0**-450), 2.0**600, scale)
    back = choose(code, code.compare("ogt", large, 2.0**500), 2.0**600, 1.0, x)
    back = code.select(code.compare("olt", large, 2.0**-450), 2.0**-600, back)
    large, small = code.mul(large, scale), code.mul(small, scale)
    (p, p_low), (q, q_low) = product(code, large, large), product(code, small, small)
    h, low = fast_sum(code, p, q)
    s = code.sqrt(h)
    left = code.add(code.fma(code.neg(s), s, h), code.add(low, code.add(p_low, q_low)))
    inverse = code.as_float(code.sub(_INVERSE, code.as_integer(s)))
    r = code.mul(code.fma(left, inverse, s), back)
    endless = code.binary("or", code.compare("oeq", a, INFINITY), code.compare("oeq", b, INFINITY))
    return code.select(endless, INFINITY, r)


# --- quotients and remainders: those of floats are exact, by steps of a long division -------------

_EXACT = 2.0**52
"""Below this a quotient's integer part may be one too large; above, quotients are integers."""


def fmod(code: Function, x: Value, y: Value) -> Value:
    """x - n y with n = x / y rounded towards zero; it has the sign of x."""
    if x.type == "float":  # the remainder is exact, so that doubles compute the same
        wide = [code.convert("fpext", part, "double") for part in (x, y)]
        return code.convert("fptrunc", fmod(code, *wide), "float")
    a, b = code.fabs(x), code.fabs(y)
    q = code.div(a, b)
    near = _short_division(code, a, b, q)  # NaN if x is infinite or y is zero
    far = code.binary("and", code.compare("oge", q, _EXACT), code.compare("ogt", b, 0.0))
    far = code.binary("and", far, code.compare("olt", a, float("inf")))
    (r,) = code.rarely(far, [near], lambda: [_long_division(code, a, b, near, far)])
    finite = code.compare("olt", a, float("inf"))
    whole = code.select(finite, a, float("nan"))
    return code.copysign(code.select(code.compare("oeq", b, float("inf")), whole, r), x)


def _short_division(code: Function, a: Value, b: Value, q: Value) -> Value:
    r = code.fma(code.neg(code.intrinsic("trunc", [q])), b, a)
    return code.select(code.compare("olt", r, 0.0), code.add(r, b), r)


def _long_division(code: Function, a: Value, b: Value, near: Value, far: Value) -> Value:
    """The remainder after quotients of 53 bits, of either sign, until one is short."""
    rest = code.initialised(code.select(far, a, 0.0))

    def unfinished() -> Value:
        q = code.div(code.fabs(code.get(rest)), b)
        return code.any(code.compare("oge", q, _EXACT))

    def once() -> None:
        r, by = code.get(rest), b
        size = code.fabs(r)
        q = first = code.div(size, b)
        for power in (1000, 90):  # if the quotient overflows, divide by a multiple of the divisor
            overflow = code.compare("oeq", q, float("inf"))
            by = code.mul(
                by, code.select(overflow, code.constant(2.0**power, r.type, r.lanes), 1.0)
            )
            q = code.div(size, by)
        left = code.fma(code.neg(q), by, size)
        left = code.select(code.compare("olt", r, 0.0), code.neg(left), left)
        code.set(rest, code.select(code.compare("oge", first, _EXACT), left, r))

    code.while_loop(unfinished, once)
    r = code.get(rest)
    size = code.fabs(r)
    size = _short_division(code, size, b, code.div(size, b))
    below = code.binary("and", code.compare("olt", r, 0.0), code.compare("une", size, 0.0))
    return code.select(far, code.select(below, code.sub(b, size), size), near)


def remainder(code: Function, x: Value, y: Value) -> Value:
    """x - floor(x / y) y; it has the sign of y (npy_remainder of NumPy's npymath)."""
    r = fmod(code, x, y)
    differ = code.compare("slt", code.binary("xor", code.as_integer(r), code.as_integer(y)), 0)
    moved = code.select(differ, code.add(r, y), r)
    return code.select(code.compare("oeq", r, 0.0), code.copysign(r, y), moved)


def floor_divide(code: Function, x: Value, y: Value) -> Value:
    """floor(x / y) by the exact remainder (npy_floor_divide of NumPy's npymath)."""
    r = fmod(code, x, y)
    q = code.div(code.sub(x, r), y)
    differ = code.compare("slt", code.binary("xor", code.as_integer(r), code.as_integer(y)), 0)
    lower = code.binary("and", code.compare("une", r, 0.0), differ)
    q = code.select(lower, code.sub(q, 1.0), q)
    whole = code.intrinsic("floor", [q])
    whole = code.select(code.compare("ogt", code.sub(q, whole), 0.5), code.add(whole, 1.0), whole)
    plain = code.div(x, y)
    whole = code.select(code.compare("oeq", q, 0.0), code.copysign(0.0, plain), whole)
    return code.select(code.compare("oeq", y, 0.0), plain, whole)


def integer_fmod(code: Function, x: Value, y: Value) -> Value:
    """C's %, but 0 for y = 0, as in NumPy."""
    return code.select(_harmless(code, y), code.binary("srem", x, _divisor(code, y)), 0)


def integer_remainder(code: Function, x: Value, y: Value) -> Value:
    """x - floor(x / y) y; 0 for y = 0."""
    r = integer_fmod(code, x, y)
    return code.select(_lower(code, r, y), code.add(r, y), r)


def integer_floor_divide(code: Function, x: Value, y: Value) -> Value:
    """floor(x / y), which wraps for the lowest integer by -1; 0 for y = 0."""
    q = code.binary("sdiv", x, _divisor(code, y))
    q = code.select(_lower(code, integer_fmod(code, x, y), y), code.sub(q, 1), q)
    q = code.select(code.compare("eq", y, -1), code.neg(x), q)
    return code.select(code.compare("eq", y, 0), 0, q)


def _harmless(code: Function, y: Value) -> Value:
    """Whether y is neither 0 nor -1, by which division may trap; the remainder is 0 there."""
    return code.compare("ugt", code.add(y, 1), 1)


def _divisor(code: Function, y: Value) -> Value:
    return code.select(_harmless(code, y), y, 1)


def _lower(code: Function, r: Value, y: Value) -> Value:
    """Whether the floor of the quotient is below the truncated quotient."""
    differ = code.compare("slt", code.binary("xor", r, y), 0)
    return code.binary("and", code.compare("ne", r, 0), differ)
