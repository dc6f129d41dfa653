"""NumPy's quotients and remainders of floats and integers.

The remainder of a float division is exact: the remainder of one step of a long division is a float,
which a fused multiply-add computes without error (Brisebarre, Muller et al., Handbook of
Floating-Point Arithmetic, theorem on exact remainders). Quotients of more digits than a float has,
which are rare, take more steps.
"""

from __future__ import annotations

from fungrad.compiler.native.llvm_ir import Function, Value

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
    rest = code.variable(a.type, a.lanes)
    code.set(rest, code.select(far, a, 0.0))

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
