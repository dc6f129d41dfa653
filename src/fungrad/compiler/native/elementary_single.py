"""Elementary functions in single precision, computed in doubles by shorter kernels, rounded once.

Doubles contain the squares, products and exponentials of floats without overflow, and have 29 more
bits, so that no pairs are needed. Polynomials interpolate at Chebyshev nodes (computed by mpmath);
those of sin and cos are FreeBSD's (k_sinf.c, k_cosf.c).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from fungrad.compiler.native.exponentials import (
    INFINITY,
    LOG2E,
    choose,
    clamped,
    nearest,
    power_of_two,
)
from fungrad.compiler.native.llvm_ir import Function, Value
from fungrad.compiler.native.logarithms import ends, split, to_float
from fungrad.compiler.native.special_functions import difference
from fungrad.compiler.native.trigonometric_functions import angle

EXP = (
    0.5, 0.16666666719028936, 0.04166666671901226, 0.00833329846980059, 0.001388885403566671,
    0.00019899285575896282, 2.4859589834589056e-05,
)  # fmt: skip
LOG = (
    0.6666666666737665, 0.39999998795219155, 0.2857175496835041, 0.22191373380941898,
    0.19363186932203053,
)  # fmt: skip
SIN = (
    -0.166666666416265235595, 0.0083333293858894631756, -0.000198393348360966317347,
    0.0000027183114939898219064,
)  # fmt: skip
COS = (
    -0.499999997251031003120, 0.0416666233237390631894, -0.00138867637746099294692,
    0.0000243904487962774090654,
)  # fmt: skip
ATAN = (
    -0.3333333333144022, 0.1999999891704028, -0.14285612492240532, 0.11107494603271033,
    -0.09028976882101468, 0.07135287552138535, -0.04043145455873265,
)  # fmt: skip
ASIN = (
    0.16666666666738633, 0.07499999953429712, 0.04464290647458497, 0.03037994521002481,
    0.02241241772669709, 0.01690268388638098, 0.01686409027401464, 0.0010675063149111763,
    0.028346745231951537,
)  # fmt: skip


def _power(code: Function, r: Value, k: Value) -> tuple[Value, Value]:
    """2^k, and e^r - 1."""
    return power_of_two(code, k), code.fma(code.mul(r, r), code.polynomial(EXP, r), r)


def exp(code: Function, x: Value) -> Value:
    x = clamped(code, x, -200.0, 200.0)
    n, k = nearest(code, x, LOG2E)
    s, q = _power(code, code.fma(n, -math.log(2.0), x), k)
    return code.fma(s, q, s)


def exp2(code: Function, x: Value) -> Value:
    x = clamped(code, x, -200.0, 200.0)
    n, k = nearest(code, x, 1.0)
    s, q = _power(code, code.mul(code.sub(x, n), math.log(2.0)), k)
    return code.fma(s, q, s)


def expm1(code: Function, x: Value) -> Value:
    given = clamped(code, x, -200.0, 200.0)
    n, k = nearest(code, given, LOG2E)
    s, q = _power(code, code.fma(n, -math.log(2.0), given), k)
    y = code.fma(s, q, code.sub(s, 1.0))
    return code.select(code.compare("oeq", x, 0.0), x, y)


def sinh(code: Function, x: Value) -> Value:
    t = expm1(code, code.fabs(x))
    return code.copysign(code.mul(code.add(t, code.div(t, code.add(t, 1.0))), 0.5), x)


def cosh(code: Function, x: Value) -> Value:
    e = exp(code, code.fabs(x))
    return code.mul(code.add(e, code.div(1.0, e)), 0.5)


def tanh(code: Function, x: Value) -> Value:
    a = clamped(code, code.fabs(x), 0.0, 20.0)
    t = expm1(code, code.add(a, a))
    return code.copysign(code.div(t, code.add(t, 2.0)), x)


def sigmoid(code: Function, x: Value) -> Value:
    return code.div(1.0, code.add(exp(code, code.neg(x)), 1.0))


def _log_of(code: Function, u: Value) -> tuple[Value, Value]:
    """n and log m, of a positive number."""
    k, m = split(code, u)
    f = code.sub(m, 1.0)
    s = code.div(f, code.add(f, 2.0))
    z = code.mul(s, s)
    return to_float(code, k), code.mul(s, code.fma(z, code.polynomial(LOG, z), 2.0))


def _log(by: float, two: float) -> Callable[..., Value]:
    """The logarithm that is `by` times the natural one; `two` is its value at 2."""

    def rule(code: Function, x: Value) -> Value:
        n, y = _log_of(code, x)
        return ends(code, x, 0.0, code.fma(n, two, code.mul(y, by)))

    return rule


def log1p(code: Function, x: Value) -> Value:
    n, y = _log_of(code, code.add(x, 1.0))
    y = ends(code, x, -1.0, code.fma(n, math.log(2.0), y))
    near = code.mul(x, code.fma(x, -0.5, 1.0))
    return code.select(code.compare("olt", code.fabs(x), 2.0**-20), near, y)


def arcsinh(code: Function, x: Value) -> Value:
    a = code.fabs(x)
    square = code.mul(a, a)
    root = code.sqrt(code.add(square, 1.0))
    y = log1p(code, code.add(a, code.div(square, code.add(root, 1.0))))
    return code.copysign(code.select(code.compare("olt", a, INFINITY), y, a), x)


def arccosh(code: Function, x: Value) -> Value:
    t = code.sub(x, 1.0)
    y = log1p(code, code.add(t, code.sqrt(code.mul(t, code.add(t, 2.0)))))
    return code.select(code.compare("olt", t, 0.0), float("nan"), y)


def arctanh(code: Function, x: Value) -> Value:
    a = code.fabs(x)
    y = log1p(code, code.div(code.add(a, a), code.sub(1.0, a)))
    y = code.select(code.compare("ugt", a, 1.0), float("nan"), code.mul(y, 0.5))
    return code.copysign(y, x)


def logaddexp(code: Function, x: Value, y: Value) -> Value:
    return _log_of_sum(code, x, y, exp, 1.0)


def logaddexp2(code: Function, x: Value, y: Value) -> Value:
    return _log_of_sum(code, x, y, exp2, LOG2E)


def _log_of_sum(
    code: Function, x: Value, y: Value, exponential: Callable[..., Value], by: float
) -> Value:
    first = code.binary("or", code.compare("oge", x, y), code.compare("uno", x, x))
    d = code.select(code.compare("oeq", x, y), 0.0, code.neg(code.fabs(code.sub(x, y))))
    return code.add(code.select(first, x, y), code.mul(log1p(code, exponential(code, d)), by))


def log_sigmoid(code: Function, x: Value) -> Value:
    below = code.select(code.compare("ogt", x, 0.0), -0.0, x)
    return code.sub(below, log1p(code, exp(code, code.neg(code.fabs(x)))))


def _sine_and_cosine(code: Function, r: Value) -> tuple[Value, Value]:
    z = code.mul(r, r)
    sine = code.fma(code.mul(z, r), code.polynomial(SIN, z), r)
    return sine, code.fma(z, code.polynomial(COS, z), 1.0)


def _circular(quarters: int) -> Callable[..., Value]:
    """sin(r + (k + quarters) pi / 2)."""

    def kernel(code: Function, r: Value, low: Value, k: Value) -> Value:
        k = code.add(k, quarters)
        sine, cosine = _sine_and_cosine(code, r)
        odd = code.compare("ne", code.binary("and", k, 1), 0)
        sign = code.binary("shl", code.binary("and", k, 2), 62)
        bits = code.as_integer(code.select(odd, cosine, sine))
        return code.as_float(code.binary("xor", bits, sign))

    return kernel


def _tangent(code: Function, r: Value, low: Value, k: Value) -> Value:
    sine, cosine = _sine_and_cosine(code, r)
    odd = code.compare("ne", code.binary("and", k, 1), 0)
    over, under = code.select(odd, cosine, sine), code.select(odd, code.neg(sine), cosine)
    return code.div(over, under)


def sin(code: Function, x: Value) -> Value:
    y = angle(code, x, "fg_sin_single", _circular(0))
    return code.select(code.compare("oeq", x, 0.0), x, y)


def cos(code: Function, x: Value) -> Value:
    return angle(code, x, "fg_cos_single", _circular(1))


def tan(code: Function, x: Value) -> Value:
    y = angle(code, x, "fg_tan_single", _tangent)
    return code.select(code.compare("oeq", x, 0.0), x, y)


def _arcsine(code: Function, a: Value) -> tuple[Value, Value]:
    """Whether |a| < 1/2; asin(a) then, else asin of the root of (1 - |a|) / 2."""
    near = code.compare("olt", code.fabs(a), 0.5)
    z = code.select(near, code.mul(a, a), code.mul(code.sub(1.0, code.fabs(a)), 0.5))
    s = code.select(near, a, code.sqrt(z))
    return near, code.fma(code.mul(s, z), code.polynomial(ASIN, z), s)


def arcsin(code: Function, x: Value) -> Value:
    near, y = _arcsine(code, code.fabs(x))
    return code.copysign(code.select(near, y, code.fma(y, -2.0, math.pi / 2)), x)


def arccos(code: Function, x: Value) -> Value:
    near, y = _arcsine(code, x)
    twice = code.add(y, y)
    far = code.select(code.compare("olt", x, 0.0), code.sub(math.pi, twice), twice)
    return code.select(near, code.sub(math.pi / 2, y), far)


def _arctangent(code: Function, over: Value, under: Value) -> Value:
    """atan(over / under), for 0 <= over <= under."""
    mid = code.compare("ogt", over, code.mul(under, 0.4142135623730951))
    less = code.select(mid, code.sub(over, under), over)
    t = code.div(less, code.select(mid, code.add(over, under), under))
    z = code.mul(t, t)
    y = code.fma(code.mul(t, z), code.polynomial(ATAN, z), t)
    return code.add(choose(code, mid, math.pi / 4, 0.0, t), y)


def arctan(code: Function, x: Value) -> Value:
    a = clamped(code, code.fabs(x), 0.0, 1e300)
    steep = code.compare("ogt", a, 1.0)
    one = code.constant(1.0, x.type, x.lanes)
    y = _arctangent(code, code.select(steep, one, a), code.select(steep, a, one))
    return code.copysign(code.select(steep, code.sub(math.pi / 2, y), y), x)


def arctan2(code: Function, y: Value, x: Value) -> Value:
    b, a = (clamped(code, code.fabs(v), 0.0, 1e300) for v in (y, x))
    steep = code.compare("ogt", b, a)
    under = code.select(steep, b, a)
    under = code.select(code.compare("oeq", under, 0.0), 1.0, under)
    found = _arctangent(code, code.select(steep, a, b), under)
    found = code.select(steep, code.sub(math.pi / 2, found), found)
    left = code.compare("slt", code.as_integer(x), 0)
    found = code.select(left, code.sub(math.pi, found), found)
    found = code.select(code.compare("uno", x, y), code.add(x, y), found)
    return code.copysign(found, y)


def hypot(code: Function, x: Value, y: Value) -> Value:
    r = code.sqrt(code.fma(x, x, code.mul(y, y)))
    a, b = code.fabs(x), code.fabs(y)
    endless = code.binary("or", code.compare("oeq", a, INFINITY), code.compare("oeq", b, INFINITY))
    return code.select(endless, INFINITY, r)


def exp_difference(code: Function, x: Value, y: Value) -> Value:
    return exp(code, difference(code, x, y))


def exp2_difference(code: Function, x: Value, y: Value) -> Value:
    return exp2(code, difference(code, x, y))


SINGLE: Mapping[str, Callable[..., Value]] = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "sinh": sinh, "cosh": cosh, "tanh": tanh,
    "expit": sigmoid, "log": _log(1.0, math.log(2.0)), "log2": _log(LOG2E, 1.0),
    "log10": _log(math.log10(math.e), math.log10(2.0)), "log1p": log1p, "arcsinh": arcsinh,
    "arccosh": arccosh, "arctanh": arctanh, "logaddexp": logaddexp, "logaddexp2": logaddexp2,
    "log_expit": log_sigmoid, "sin": sin, "cos": cos, "tan": tan, "arcsin": arcsin,
    "arccos": arccos, "arctan": arctan, "arctan2": arctan2, "hypot": hypot,
    "exp_difference": exp_difference, "exp2_difference": exp2_difference,
}  # fmt: skip
"""Rules by the names of primitives, for floats converted to doubles."""
