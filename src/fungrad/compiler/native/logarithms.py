"""Logarithms, and inverse hyperbolic functions, in double precision, as branch-free IR.

A positive number is 2^k m with m between the roots of 1/2 and 2, and log m = 2 atanh(f / (2 + f)),
f = m - 1 (method and coefficients: fdlibm, e_log.c; log2 and log10: FreeBSD, e_log2.c and
e_log10.c).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from fungrad.compiler.native.exponentials import (
    INFINITY,
    LOG2E,
    MAGIC,
    MAGIC_BITS,
    Pair,
    choose,
    exp,
    exp2,
    fast_sum,
    product,
    quotient_pair,
    root,
    two_sum,
)
from fungrad.compiler.native.llvm_ir import Function, Operand, Value

Rule = Callable[[Function, Value], Value]
LG = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
    1.479819860511658591e-01,
)  # fmt: skip
"""(log m / s - 2) / s^2, minimax in s^2."""
LN2 = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""ln 2 as a pair; n times the first is exact."""
ATANH = (
    0.3333333333333333, 0.2, 0.14285714285714252, 0.11111111111117979, 0.09090909090206498,
    0.07692307735280375, 0.06666664967874764, 0.05882398387811203, 0.0526231405648099,
    0.04772878305940017, 0.042485788673420385, 0.04607148846951102, 0.013464961452362279,
    0.08438467262197163,
)  # fmt: skip
"""(atanh s / s - 1) / s^2 for |s| < 0.36, minimax in s^2."""
_ROOT_HALF = 0x3FE6A09E667F3BCD
TINY, LARGE = 2.2250738585072014e-308, 2.0**54


def split(code: Function, u: Value) -> tuple[Value, Value]:
    """k and m of u = 2^k m, a positive normal number."""
    i = code.sub(code.as_integer(u), _ROOT_HALF - (1023 << 52))  # AVX2 shifts no signed i64
    mantissa = code.binary("and", i, 0x000FFFFFFFFFFFFF)
    k = code.sub(code.binary("lshr", i, 52), 1023)
    return k, code.as_float(code.add(mantissa, _ROOT_HALF))


def normal(code: Function, x: Value) -> tuple[Value, Value]:
    """A positive number scaled to a normal one, and the exponent of the scale."""
    small = code.compare("olt", x, TINY)
    return code.mul(x, choose(code, small, LARGE, 1.0, x)), choose(code, small, 54.0, 0.0, x)


def to_float(code: Function, k: Value) -> Value:
    """A small integer as a float."""
    return code.sub(code.as_float(code.add(k, MAGIC_BITS)), MAGIC)


def parts(
    code: Function, u: Value, less: Operand = 0.0, low: Value | None = None
) -> tuple[Value, Value, Value, Value]:
    """n, f, f^2 / 2 and the rest, of log(u + low) = n ln 2 + f - (f^2 / 2 - rest)."""
    k, m = split(code, u)
    n = code.sub(to_float(code, k), less)
    f = code.sub(m, 1.0)
    if low is not None:
        below = code.sub(1023, k)
        below = code.select(code.compare("sgt", below, 0), below, 0)  # 2^-1024 is none
        scale = code.as_float(code.binary("shl", below, 52))
        f, lost = fast_sum(code, f, code.mul(low, scale))
    s = code.div(f, code.add(f, 2.0))
    z = code.mul(s, s)
    half = code.mul(code.mul(f, 0.5), f)
    rest = code.mul(s, code.fma(z, code.polynomial(LG, z), half))
    if low is not None:
        rest = code.fma(lost, code.sub(1.0, f), rest)
    return n, f, half, rest


def log_of(code: Function, u: Value, less: Operand = 0.0, low: Value | None = None) -> Value:
    """log(u + low) - less ln 2, for a finite positive normal number u."""
    n, f, half, rest = parts(code, u, less, low)
    rest = code.fma(n, LN2[1], rest)
    return code.sub(code.mul(n, LN2[0]), code.sub(code.sub(half, rest), f))


def ends(code: Function, x: Value, pole: float, y: Value) -> Value:
    """y, but -inf for x at the pole, NaN below it, and inf and NaN of x themselves."""
    y = code.select(code.compare("olt", x, INFINITY), y, x)
    y = code.select(code.compare("oeq", x, pole), -INFINITY, y)
    return code.select(code.compare("olt", x, pole), float("nan"), y)


def log(code: Function, x: Value) -> Value:
    u, less = normal(code, x)
    return ends(code, x, 0.0, log_of(code, u, less))


def log_pair(code: Function, x: Value) -> Pair:
    """log x of a positive normal number as a pair."""
    n, f, half, rest = parts(code, x)
    h, low = fast_sum(code, f, code.neg(half))
    low = code.fma(n, LN2[1], code.add(low, rest))
    first, lost = two_sum(code, code.mul(n, LN2[0]), h)
    return fast_sum(code, first, code.add(lost, low))


def _in_base(by: tuple[float, float], two: tuple[float, float]) -> Callable[..., Value]:
    """The logarithm that is `by` times the natural one; `two` is its value at 2."""

    def rule(code: Function, x: Value) -> Value:
        u, less = normal(code, x)
        n, f, half, rest = parts(code, u, less)
        h, low = fast_sum(code, f, code.neg(half))
        first, lost = product(code, h, by[0])
        lost = code.fma(h, by[1], code.fma(code.add(low, rest), by[0], lost))
        y, more = two_sum(code, code.mul(n, two[0]), first)
        return ends(code, x, 0.0, code.add(y, code.add(more, code.fma(n, two[1], lost))))

    return rule


log2 = _in_base((LOG2E, 2.0355273740931033e-17), (1.0, 0.0))
log10 = _in_base((0.4342944819032518, 1.098319650216765e-17),
                 (3.01029995663611771306e-01, 3.69423907715893078616e-13))  # fmt: skip


def log1p(code: Function, x: Value) -> Value:
    u, low = two_sum(code, code.constant(1.0, "double", x.lanes), x)
    y = ends(code, x, -1.0, log_of(code, u, 0.0, low))
    return code.select(code.compare("olt", code.fabs(x), 2.0**-54), x, y)


def log_of_sum(code: Function, x: Value, y: Pair) -> Value:
    """log(1 + y), or log(2 x) for x of 2^28 or more; y is nonnegative."""
    u, low = two_sum(code, code.constant(1.0, "double", x.lanes), y[0])
    far = code.compare("oge", x, 2.0**28)
    u = code.select(far, x, u)
    low = code.select(far, 0.0, code.add(low, y[1]))
    return log_of(code, u, choose(code, far, -1.0, 0.0, x), low)


def arcsinh(code: Function, x: Value) -> Value:
    """log(1 + |x| + x^2 / (1 + sqrt(1 + x^2))) with the sign of x."""
    a = code.fabs(x)
    b = code.select(code.compare("olt", a, 2.0**28), a, 1.0)
    t = product(code, b, b)
    one = code.constant(1.0, "double", x.lanes)
    w, low = two_sum(code, one, t[0])
    s, s_low = root(code, (w, code.add(low, t[1])))
    d, d_low = fast_sum(code, s, one)
    q = quotient_pair(code, t, (d, code.add(d_low, s_low)))
    h, low = fast_sum(code, b, q[0])
    y = log_of_sum(code, a, (h, code.add(low, q[1])))
    y = code.select(code.compare("olt", a, 2.0**-28), a, y)
    return code.copysign(code.select(code.compare("olt", a, INFINITY), y, a), x)


def arccosh(code: Function, x: Value) -> Value:
    """log(1 + (x - 1) + sqrt(x^2 - 1))."""
    b = code.select(code.compare("olt", x, 2.0**28), x, 1.0)
    t, t_low = two_sum(code, b, code.constant(-1.0, "double", x.lanes))
    p, p_low = product(code, b, b)
    w, low = two_sum(code, p, code.constant(-1.0, "double", x.lanes))
    w, low = fast_sum(code, w, code.add(low, p_low))
    s, s_low = root(code, (w, low))
    h, low = two_sum(code, s, t)
    y = log_of_sum(code, x, (h, code.add(low, code.add(s_low, t_low))))
    y = code.select(code.compare("olt", x, INFINITY), y, x)
    return code.select(code.compare("olt", x, 1.0), float("nan"), y)


def arctanh(code: Function, x: Value) -> Value:
    """k ln(2) / 2 + atanh(s), of (1 + x) / (1 - x) = 2^k (1 + s) / (1 - s)."""
    a = code.fabs(x)
    up, down = code.add(a, 1.0), code.sub(1.0, a)
    down = code.select(code.compare("ogt", down, 0.0), down, 1.0)
    k = code.sub(code.as_integer(up), code.as_integer(down))
    k = code.binary("ashr", k, 52)
    scale = code.as_float(code.binary("shl", code.add(k, 1023), 52))
    over = code.fma(a, code.add(scale, 1.0), code.sub(1.0, scale))
    under = code.fma(a, code.sub(1.0, scale), code.add(scale, 1.0))
    far = code.compare("sgt", k, 30)
    over = code.select(far, code.fma(code.neg(scale), down, up), over)
    under = code.select(far, code.fma(scale, down, up), under)
    s = code.div(over, under)
    z = code.mul(s, s)
    tail = code.mul(code.mul(s, z), code.polynomial(ATANH, z))
    n = code.mul(to_float(code, k), 0.5)
    y = code.fma(n, LN2[1], tail)
    y = code.add(code.mul(n, LN2[0]), code.add(s, y))
    y = code.select(code.compare("oeq", a, 1.0), INFINITY, y)
    y = code.select(code.compare("ugt", a, 1.0), float("nan"), y)
    return code.copysign(code.select(code.compare("oeq", x, 0.0), a, y), x)


def logaddexp(
    code: Function, x: Value, y: Value, power: Rule = exp, log1p: Rule = log1p, by: float = 1.0
) -> Value:
    """The larger operand plus the logarithm of 1 + e^-|x - y|, or that in another base."""
    first = code.binary("or", code.compare("oge", x, y), code.compare("uno", x, x))
    top = code.select(first, x, y)
    d = code.select(code.compare("oeq", x, y), 0.0, code.neg(code.fabs(code.sub(x, y))))
    return code.add(top, code.mul(log1p(code, power(code, d)), by))


logaddexp2 = functools.partial(logaddexp, power=exp2, by=LOG2E)


def log_sigmoid(code: Function, x: Value, power: Rule = exp, log1p: Rule = log1p) -> Value:
    """-log(1 + e^-x)."""
    below = code.select(code.compare("ogt", x, 0.0), -0.0, x)
    return code.sub(below, log1p(code, power(code, code.neg(code.fabs(x)))))
