"""Trigonometric functions and their inverses in double precision, as IR.

Angles are reduced by pi / 2 in three parts (Cody and Waite); large ones lane by lane by the
relevant bits of 2 / pi, in integers of 256 bits (Payne and Hanek, 1983). Kernels and coefficients:
fdlibm (k_sin.c, k_cos.c, e_asin.c, e_acos.c, s_atan.c).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fungrad.compiler.native.exponentials import (
    INFINITY,
    Pair,
    choose,
    fast_sum,
    nearest,
    quotient,
    quotient_pair,
    root,
    two_sum,
)
from fungrad.compiler.native.llvm_ir import Function, Module, Value

SIN = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
    2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
COS = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
    -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip
ATAN = (
    3.33333333333329318027e-01, -1.99999999998764832476e-01, 1.42857142725034663711e-01,
    -1.11111104054623557880e-01, 9.09088713343650656196e-02, -7.69187620504482999495e-02,
    6.66107313738753120669e-02, -5.83357013379057348645e-02, 4.97687799461593236017e-02,
    -3.65315727442169155270e-02, 1.62858201153657823623e-02,
)  # fmt: skip
ASIN_OVER = (
    1.66666666666666657415e-01, -3.25565818622400915405e-01, 2.01212532134862925881e-01,
    -4.00555345006794114027e-02, 7.91534994289814532176e-04, 3.47933107596021167570e-05,
)  # fmt: skip
ASIN_UNDER = (
    1.0, -2.40339491173441421878, 2.02094576023350569471, -6.88283971605453293030e-01,
    7.70381505559019352791e-02,
)  # fmt: skip
HALF_PI = 1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33
TWO_OVER_PI = 0.63661977236758134
FAR = 2.0**27
_BITS = 1280
"""The stored bits of 2 / pi. Those that add multiples of 4 to x 2 / pi are skipped."""


def sincos_kernel(code: Function, r: Value, low: Value, k: Value) -> Value:
    """sin(r + low + k pi / 2), for |r| <= pi / 4."""
    z = code.mul(r, r)
    half = code.mul(z, 0.5)
    sine = code.fma(code.mul(z, r), code.polynomial(SIN, z), code.fma(code.neg(half), low, low))
    sine = code.add(r, sine)
    one = code.sub(1.0, half)
    rest = code.sub(code.sub(1.0, one), half)
    tail = code.fma(code.mul(z, z), code.polynomial(COS, z), code.fma(code.neg(r), low, rest))
    cosine = code.add(one, tail)
    odd = code.compare("ne", code.binary("and", k, 1), 0)
    sign = code.binary("shl", code.binary("and", k, 2), 62)
    return code.as_float(code.binary("xor", code.as_integer(code.select(odd, cosine, sine)), sign))


def tangent_kernel(code: Function, r: Value, low: Value, k: Value) -> Value:
    """tan(r + low + k pi / 2)."""
    z = code.mul(r, r)
    half = code.mul(z, 0.5)
    tail = code.fma(code.mul(z, r), code.polynomial(SIN, z), code.fma(code.neg(half), low, low))
    sine = fast_sum(code, r, tail)
    one = code.sub(1.0, half)
    rest = code.sub(code.sub(1.0, one), half)
    rest = code.add(rest, code.fma(code.neg(z), code.mul(r, r), code.mul(z, z)))
    rest = code.fma(code.fma(r, r, code.neg(z)), -0.5, rest)
    tail = code.fma(code.mul(z, z), code.polynomial(COS, z), code.fma(code.neg(r), low, rest))
    cosine = fast_sum(code, one, tail)
    odd = code.compare("ne", code.binary("and", k, 1), 0)
    over = [code.select(odd, c, s) for c, s in zip(cosine, sine, strict=True)]
    under = [code.select(odd, code.neg(s), c) for c, s in zip(cosine, sine, strict=True)]
    return quotient(code, (over[0], over[1]), (under[0], under[1]))


def angle(
    code: Function, x: Value, name: str, kernel: Callable[[Function, Value, Value, Value], Value]
) -> Value:
    """A kernel of an angle reduced by multiples of pi / 2."""
    n, k = nearest(code, x, TWO_OVER_PI)
    first = code.fma(n, -HALF_PI[0], x)  # exact
    p = code.mul(n, -HALF_PI[1])
    lost = code.fma(n, -HALF_PI[1], code.neg(p))
    r, low = two_sum(code, first, p)
    low = code.add(low, code.fma(n, -HALF_PI[2], lost))
    y = kernel(code, r, low, k)
    far = code.compare("uge", code.fabs(x), FAR)
    finite = code.compare("olt", code.fabs(x), INFINITY)

    def slow() -> list[Value]:
        _write_far(code, name, kernel)
        given = code.select(code.binary("and", far, finite), x, FAR)
        found = code.select(finite, code.call_lanes(name, [given]), float("nan"))
        return [code.select(far, found, y)]

    return code.rarely(far, [y], slow)[0]


def _write_far(
    outer: Function, name: str, kernel: Callable[[Function, Value, Value, Value], Value]
) -> None:
    """Adds the function `name` of a scalar beyond 2^27."""
    if name in outer.module.functions:
        return
    _write_reduction(outer.module)
    code = Function(outer.module, name, "double", [("double", "x")], attributes="internal")
    code.rare()
    parts = code.variable("double", 2)
    k = code.call("fg_reduced", "i64", [*code.parameters, parts])
    r, low = (code.load(code.at(parts, n, "double"), "double") for n in range(2))
    code.ret(kernel(code, r, low, k))


def _write_reduction(module: Module) -> None:
    """Adds `fg_reduced`, which stores r and low of a scalar beyond 2^27, and returns k."""
    if "fg_reduced" in module.functions:
        return
    words = _two_over_pi().to_bytes(_BITS // 8 + 32, "little")
    text = "".join([f"\\{byte:02x}" for byte in words])
    module.declare(f'@two_over_pi = internal constant [{len(words)} x i8] c"{text}"')
    given = [("double", "x"), ("ptr", "parts")]
    code = Function(module, "fg_reduced", "i64", given, attributes="internal")
    code.rare()
    x, parts = code.parameters
    bits = code.as_integer(code.fabs(x))
    exponent = code.sub(code.binary("lshr", bits, 52), 1075)
    mantissa = code.binary("or", code.binary("and", bits, (1 << 52) - 1), 1 << 52)
    # x 2 / pi = mantissa * (2 / pi) 2^exponent, shifted so that bits 246 and 247 are its quadrant
    place = code.sub(_BITS - 246, exponent)
    table = code.at(Value("@two_over_pi", "ptr"), code.binary("lshr", place, 3))
    window = code.load(table, "i256", 1, align=1)
    window = code.binary("lshr", window, code.convert("zext", code.binary("and", place, 7), "i256"))
    turns = code.binary("shl", code.mul(window, code.convert("zext", mantissa, "i256")), 8)
    k = code.binary("lshr", code.add(turns, 1 << 253), 254)
    part = code.binary("shl", turns, 2)  # signed, of 2^256
    below = code.compare("slt", part, 0)
    size = code.select(below, code.neg(part), part)
    zeros = code.new(f"call i256 @llvm.ctlz.i256({size}, i1 false)", "i256", 1)
    code.module.declare("declare i256 @llvm.ctlz.i256(i256, i1)")
    digits = code.binary("shl", size, code.binary("and", zeros, 255))
    h, low = (_digits(code, digits, shift) for shift in (203, 150))
    scale = code.sub(1023 - 53, code.convert("trunc", zeros, "i64"))
    scale = code.as_float(code.binary("shl", scale, 52))
    h, low = code.mul(h, scale), code.mul(low, code.mul(scale, 2.0**-53))
    r = code.mul(h, HALF_PI[0])
    low = code.fma(h, HALF_PI[1], code.fma(low, HALF_PI[0], code.fma(h, HALF_PI[0], code.neg(r))))
    left = code.compare("olt", x, 0.0)
    back = code.binary("xor", below, left)
    for n, part in enumerate((r, low)):
        code.store(code.select(back, code.neg(part), part), code.at(parts, n, "double"))
    k = code.convert("trunc", k, "i64")
    code.ret(code.select(left, code.neg(k), k))


def _digits(code: Function, digits: Value, shift: int) -> Value:
    """A float from 53 binary digits."""
    part = code.convert("trunc", code.binary("lshr", digits, shift), "i64")
    return code.convert("sitofp", code.binary("and", part, (1 << 53) - 1), "double")


def _two_over_pi() -> int:
    """2 / pi times 2^1280, by Machin's formula."""
    bits = 2 * _BITS
    one = 1 << bits

    def arctan_of_inverse(n: int) -> int:
        total, term, k = 0, one // n, 1
        while term:
            total += term // k if k % 4 == 1 else -(term // k)
            term //= n * n
            k += 2
        return total

    pi = 16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)
    return (2 << (bits + _BITS)) // pi


def _cosine(code: Function, r: Value, low: Value, k: Value) -> Value:
    return sincos_kernel(code, r, low, code.add(k, 1))


def sin(code: Function, x: Value) -> Value:
    y = angle(code, x, "fg_sin", sincos_kernel)
    return code.select(code.compare("oeq", x, 0.0), x, y)


def cos(code: Function, x: Value) -> Value:
    return angle(code, x, "fg_cos", _cosine)


def tan(code: Function, x: Value) -> Value:
    y = angle(code, x, "fg_tan", tangent_kernel)
    return code.select(code.compare("oeq", x, 0.0), x, y)


# --- inverses -------------------------------------------------------------------------------------


def _arcsine_parts(code: Function, x: Value) -> tuple[Value, Value, Pair, Value]:
    """Whether |x| < 1/2; asin(s) / s - 1 for s = |x| then, else for s = sqrt((1 - |x|) / 2); that
    root as a pair; and |x|.
    """
    a = code.fabs(x)
    near = code.compare("olt", a, 0.5)
    z = code.select(near, code.mul(a, a), code.mul(code.sub(1.0, a), 0.5))
    tail = code.mul(z, code.polynomial(ASIN_OVER, z))
    tail = code.div(tail, code.polynomial(ASIN_UNDER, z))
    return near, tail, root(code, (z, code.constant(0.0, x.type, x.lanes))), a


def arcsin(code: Function, x: Value) -> Value:
    near, tail, (s, low), a = _arcsine_parts(code, x)
    low = code.fma(s, tail, low)  # asin = pi / 2 - 2 (s + low)
    first, rest = fast_sum(code, HALF_PI[0], code.mul(s, -2.0))
    far = code.add(first, code.add(rest, code.fma(low, -2.0, HALF_PI[1])))
    return code.copysign(code.select(near, code.fma(a, tail, a), far), x)


def arccos(code: Function, x: Value) -> Value:
    near, tail, (s, low), _ = _arcsine_parts(code, x)
    low = code.fma(s, tail, low)
    twice = code.mul(code.add(s, low), 2.0)
    first, rest = fast_sum(code, 2 * HALF_PI[0], code.mul(s, -2.0))
    left = code.add(first, code.add(rest, code.fma(low, -2.0, 2 * HALF_PI[1])))
    first, rest = fast_sum(code, HALF_PI[0], code.neg(x))
    middle = code.add(first, code.add(rest, code.fma(code.neg(x), tail, HALF_PI[1])))
    y = code.select(code.compare("olt", x, 0.0), left, twice)
    return code.select(near, middle, y)


def _arctangent(code: Function, over: Pair, under: Pair, base: Sequence[Value]) -> Value:
    """base + atan(over / under), for quotients below tan(pi / 8)."""
    t, low = quotient_pair(code, over, under)
    z = code.mul(t, t)
    tail = code.fma(code.mul(t, z), code.neg(code.polynomial(ATAN, z)), code.add(base[1], low))
    first, rest = fast_sum(code, base[0], t)
    return code.add(first, code.add(rest, tail))


def arctan(code: Function, x: Value) -> Value:
    a = code.fabs(x)
    far, mid = code.compare("ogt", a, 2.414213562373095), code.compare("ogt", a, 0.4142135623730951)
    less, more = (two_sum(code, a, _like(code, one, x)) for one in (-1.0, 1.0))
    over = code.select(far, -1.0, code.select(mid, less[0], a)), code.select(mid, less[1], 0.0)
    under = code.select(far, a, code.select(mid, more[0], 1.0)), code.select(mid, more[1], 0.0)
    over, under = ((v[0], code.select(far, 0.0, v[1])) for v in (over, under))
    base = [code.select(far, part, choose(code, mid, part / 2, 0.0, x)) for part in HALF_PI[:2]]
    y = _arctangent(code, over, under, base)
    y = code.select(code.compare("oeq", a, INFINITY), HALF_PI[0], y)
    return code.copysign(code.select(code.compare("olt", a, 2.0**-30), a, y), x)


def _like(code: Function, number: float, x: Value) -> Value:
    return code.constant(number, x.type, x.lanes)


def arctan2(code: Function, y: Value, x: Value) -> Value:
    """The angle of (x, y): atan of the smaller over the larger size, and a multiple of pi / 2."""
    b, a = code.fabs(y), code.fabs(x)
    steep = code.compare("ogt", b, a)
    large, small = code.select(steep, b, a), code.select(steep, a, b)
    scale = choose(code, code.compare("ogt", large, 2.0**900), 2.0**-200, 1.0, x)
    scale = code.select(code.compare("olt", large, 2.0**-900), 2.0**200, scale)
    both = code.compare("oeq", small, INFINITY)
    plain = code.compare("oeq", large, 0.0)
    large = code.select(code.binary("or", both, plain), 1.0, code.mul(large, scale))
    small = code.select(both, 1.0, code.mul(small, scale))
    mid = code.compare("ogt", small, code.mul(large, 0.4142135623730951))
    less, more = fast_sum(code, large, code.neg(small)), fast_sum(code, large, small)
    over = [code.select(mid, code.neg(v), w) for v, w in zip(less, (small, 0.0), strict=True)]
    under = [code.select(mid, v, w) for v, w in zip(more, (large, 0.0), strict=True)]
    # reflected from the first octant: base + atan with a sign
    left = code.compare("slt", code.as_integer(x), 0)
    back = code.binary("xor", steep, left)
    base = []
    for part in HALF_PI[:2]:
        h = choose(code, mid, part / 2, 0.0, x)
        h = code.select(steep, code.sub(part, h), h)
        base.append(code.select(left, code.sub(2 * part, h), h))
    over = [code.select(back, code.neg(v), v) for v in over]
    angle = _arctangent(code, (over[0], over[1]), (under[0], under[1]), base)
    # a quotient that may be subnormal is the angle itself, or negligible beside the base
    tiny = code.compare("olt", small, code.mul(large, 2.0**-60))
    quotient = code.select(back, base[0], code.add(base[0], code.div(small, large)))
    angle = code.select(tiny, quotient, angle)
    angle = code.select(code.compare("uno", x, y), code.add(x, y), angle)
    return code.copysign(angle, y)
