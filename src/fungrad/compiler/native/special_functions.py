"""Error functions, log gamma and digamma in double precision, as IR.

erfc is e^(-x^2) times a polynomial (the form of Schonfelder, Math. Comp. 32, 1978). log gamma and
digamma are polynomials between 1 and 2.5, to which recurrences shift arguments below 8.5, and
asymptotic series above (DLMF 5.5, 5.11); negative arguments are reflected. Polynomials interpolate
at Chebyshev nodes (computed by mpmath).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fungrad.compiler.native.exponentials import (
    INFINITY,
    Pair,
    choose,
    exp,
    exp_parts,
    factors,
    fast_sum,
    product,
    quotient_pair,
    times,
    two_sum,
)
from fungrad.compiler.native.llvm_ir import Function, Value
from fungrad.compiler.native.logarithms import log, log1p, log_pair, normal
from fungrad.compiler.native.trigonometric_functions import sincos_kernel, tangent_kernel

ERF = (
    0.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792,
    0.0052239776248180145, -0.000854832698083379, 0.0001205533111164271, -1.4925595266831182e-05,
    1.6461000484121368e-06, -1.6350312701054695e-07, 1.4659775274047436e-08,
    -1.1372848856791674e-09, 5.957176147748911e-11,
)  # fmt: skip
"""erf(x) / x - 1 in x^2, for |x| < 1."""
ERFC = (
    1.2329951186255526, -0.13962111684056247, 0.015379652102619497, 0.06809705425468743,
    -0.10103906603628476, 0.0937328349985857, -0.06633036581281766, 0.0371675155326494,
    -0.016197734048436246, 0.005031970032272213, -0.0007577733736246906, -0.00019925706241622396,
    0.00015062215867964372, -2.439763412669765e-05, -1.1223800390568878e-05, 5.705340198132642e-06,
    2.980003086162046e-07, -8.175947800963372e-07, 6.846441314808079e-08, 1.0149441005385949e-07,
    -1.2789292712306512e-08, -8.961028143627883e-09,
)  # fmt: skip
"""(1 + 2 x) e^(x^2) erfc(x) in (x - 4) / (x + 4), for 0.68 < x < 28."""
GAMMA = (
    0.42278433509846713, -0.10031730167435392, 0.03296500062115582, -0.01238419219337136,
    0.004998641164697332, -0.002108130833948761, 0.0009153769222491419, -0.00040570739778406567,
    0.00018255263918778763, -8.30951203699316e-05, 3.8168886699994934e-05, -1.7661752896049856e-05,
    8.22222505467272e-06, -3.846708446362133e-06, 1.80781139391756e-06, -8.560654019128365e-07,
    4.052070089542216e-07, -1.8214493698525022e-07, 8.665091650509672e-08, -5.93406956433576e-08,
    2.8403078678473826e-08,
)  # fmt: skip
"""log gamma(2 + v) / (v (1 + v)), for |v| <= 1 / 2."""
STIRLING = (
    0.08333333333333333, -0.002777777777777731, 0.000793650793579539, -0.000595238053835666,
    0.0008417389665360086, -0.0019156614225011857, 0.006245184820554253, -0.021627672429418335,
)  # fmt: skip
"""Stirling's series in 1 / x^2, for x > 8.49."""
PSI = (
    0.9510558760318328, -0.4236274212814606, 0.24054248424078697, -0.14840492305388092,
    0.09498872445289039, -0.06192213327548831, 0.040760833940846085, -0.026975796659787055,
    0.017907248317313294, -0.011908220105959716, 0.007927021796868154, -0.005279937255532708,
    0.003518106563802472, -0.0023454947397380833, 0.0015633696313653504, -0.0010364584817312839,
    0.0006909255761282986, -0.00048595039220036254, 0.00032395945401345196,
    -0.00014480643368061614, 9.653646261410062e-05, -0.0001782188548855923, 0.00011881232908510335,
)  # fmt: skip
"""psi(3/2 + v) over the distance from its zero, for |v| <= 1 / 2."""
PSI_FAR = (
    0.08333333333333333, -0.008333333333333309, 0.003968253968206013, -0.004166666630896852,
    0.007575744144051431, -0.021089941782586257, 0.08297250441435026, -0.41600311312328575,
    1.8736560526709776,
)  # fmt: skip
"""The asymptotic series of psi in 1 / x^2, for x > 8.49."""
FAR = 8.5
LARGEST = 2.556348e305
"""The last argument of a finite log gamma in SciPy; the exact one overflows at 2.55998e305."""
ZERO = 1.4616321449683622, 9.549995429965697e-17
"""The positive zero of digamma, as a pair."""


def _tail(code: Function, a: Value) -> Value:
    """erfc(a), for a > 0.68."""
    a = code.select(code.compare("olt", a, 0.68), 0.68, a)
    a = code.select(code.compare("ogt", a, 28.0), 28.0, a)
    p = _polynomial(code, ERFC, code.div(code.sub(a, 4.0), code.add(a, 4.0)))
    under = fast_sum(code, code.add(a, a), code.constant(1.0, a.type, a.lanes))
    h, low = quotient_pair(code, p, under)
    square, lost = product(code, a, a)
    q, k = exp_parts(code, code.neg(square), code.neg(lost))
    value = code.add(h, code.fma(h, q, code.fma(low, q, low)))
    s1, s2 = factors(code, k)
    return code.mul(code.mul(value, s1), s2)


Rule = Callable[[Function, Value], Value]


def erf(code: Function, x: Value, table: Sequence[float] = ERF, tail: Rule = _tail) -> Value:
    """The error function, by a polynomial below 1 and erfc above."""
    a = code.fabs(x)
    near = code.fma(a, code.polynomial(table, code.mul(a, a)), a)
    y = code.select(code.compare("olt", a, 1.0), near, code.sub(1.0, tail(code, a)))
    return code.copysign(code.select(code.compare("uno", x, x), x, y), x)


def erfc(
    code: Function, x: Value, table: Sequence[float] = ERF, tail: Rule = _tail, least: float = 0.7
) -> Value:
    """1 - erf(x), by a polynomial below `least` and a rule for the tail above."""
    a = code.fabs(x)
    h, low = two_sum(code, code.constant(1.0, x.type, x.lanes), code.neg(x))
    near = code.sub(h, code.fma(x, code.polynomial(table, code.mul(x, x)), code.neg(low)))
    far = tail(code, a)
    far = code.select(code.compare("olt", x, 0.0), code.sub(2.0, far), far)
    y = code.select(code.compare("olt", a, least), near, far)
    return code.select(code.compare("uno", x, x), x, y)


def normal_cdf(code: Function, x: Value, erfc: Rule = erfc) -> Value:
    """The cumulative distribution function of the standard normal distribution."""
    return code.mul(erfc(code, code.mul(x, -math.sqrt(0.5))), 0.5)


def _shifted(code: Function, x: Value, low: float) -> tuple[Value, Pair, Pair]:
    """x shifted into [low, low + 1), the product of the recurrence, and its derivative."""
    zero, one = (code.constant(number, x.type, x.lanes) for number in (0.0, 1.0))
    y, whole, slope = x, (one, zero), (zero, zero)
    for _ in range(math.ceil(FAR - low) - 1):
        above = code.compare("oge", y, low + 1.0)
        less = code.sub(y, 1.0)
        y = code.select(above, less, y)
        p, lost = product(code, slope[0], less)
        h, rest = two_sum(code, p, whole[0])
        rest = code.add(rest, code.add(code.fma(slope[1], less, lost), whole[1]))
        slope = code.select(above, h, slope[0]), code.select(above, rest, slope[1])
        p, lost = product(code, whole[0], less)
        lost = code.fma(whole[1], less, lost)
        whole = code.select(above, p, whole[0]), code.select(above, lost, whole[1])
    return y, whole, slope


def _polynomial(code: Function, coefficients: Sequence[float], x: Value) -> Pair:
    """A polynomial, with its last step as a pair."""
    first, *rest = coefficients
    p, lost = product(code, x, code.polynomial(rest, x))
    h, low = fast_sum(code, first, p)
    return h, code.add(low, lost)


def _gammaln(code: Function, a: Value) -> Value:
    """log gamma(a), for a >= 0."""
    y, passed, _ = _shifted(code, a, 1.5)
    below, far = code.compare("olt", a, 1.5), code.compare("oge", a, FAR)
    tiny = code.compare("olt", a, 0.5)
    v = code.select(tiny, a, code.select(below, code.sub(a, 1.0), code.sub(y, 2.0)))
    v = code.select(far, 0.0, v)
    square, lost = product(code, v, v)
    h, low = two_sum(code, v, square)
    near = times(code, (h, code.add(low, lost)), _polynomial(code, GAMMA, v))
    under = code.select(tiny, code.fma(a, a, a), a)
    of = code.select(far, a, code.select(below, under, passed[0]))
    of = code.select(code.compare("ogt", of, 0.0), of, 1.0)
    of = code.select(code.compare("olt", of, INFINITY), of, 1.0)
    u, less = normal(code, of)
    h, low = log_pair(code, u)
    h = code.fma(less, -math.log(2.0), h)
    more = code.select(below, 0.0, code.div(passed[1], passed[0]))
    distant = _stirling(code, a, h, low)
    h, low = (code.select(below, code.neg(part), part) for part in (h, code.add(low, more)))
    h, rest = two_sum(code, near[0], h)
    y = code.add(h, code.add(rest, code.add(near[1], low)))
    y = code.select(far, distant, y)
    y = code.select(code.compare("ogt", a, LARGEST), INFINITY, y)
    y = code.select(code.compare("oeq", a, 0.0), INFINITY, y)
    return code.select(code.compare("uno", a, a), a, y)


def gammaln(code: Function, x: Value, positive: Rule = _gammaln) -> Value:
    """log |gamma(x)|, by a rule for positive numbers."""
    a = code.fabs(x)
    y = positive(code, a)
    left = code.compare("olt", x, 0.0)
    y = code.rarely(left, [y], lambda: [code.select(left, _reflected(code, a, y), y)])[0]
    return code.select(code.compare("oeq", x, -INFINITY), x, y)


def _stirling(code: Function, a: Value, h: Value, low: Value) -> Value:
    """(a - 1/2) (log a - 1) + log(2 pi) / 2 - 1/2 + the series."""
    inverse = code.div(1.0, code.select(code.compare("ogt", a, 1.0), a, 1.0))
    series = code.mul(inverse, code.polynomial(STIRLING, code.mul(inverse, inverse)))
    h, lost = two_sum(code, h, code.constant(-1.0, a.type, a.lanes))
    p, rest = product(code, code.sub(a, 0.5), h)
    rest = code.fma(code.sub(a, 0.5), code.add(low, lost), rest)
    return code.add(p, code.add(rest, code.add(series, 0.5 * math.log(2 * math.pi) - 0.5)))


def _turn(code: Function, a: Value) -> tuple[Value, Pair]:
    """The distance of a from the nearest integer, and pi times it as a pair."""
    r = code.sub(a, code.intrinsic("rint", [a]))
    p, low = product(code, r, math.pi)
    return r, (p, code.fma(r, 1.2246467991473532e-16, low))


def _reflected(code: Function, a: Value, y: Value) -> Value:
    """log |gamma(-a)| from y = log gamma(a): log(pi / (a |sin(pi a)|)) - y."""
    r, angle = _turn(code, a)
    sine = code.fabs(_kernel(code, angle))
    found = code.sub(log(code, code.div(math.pi, code.mul(a, sine))), y)
    tiny = code.compare("olt", a, 1e-17)
    found = code.select(tiny, code.neg(log(code, a)), found)
    return code.select(code.compare("oeq", r, 0.0), INFINITY, found)


def _kernel(code: Function, angle: Pair, cotangent: bool = False) -> Value:
    """sin or -cot of an angle between -pi / 2 and pi / 2."""
    steep = code.compare("ogt", code.fabs(angle[0]), math.pi / 4)
    quarter = code.copysign(choose(code, steep, math.pi / 2, 0.0, angle[0]), angle[0])
    h, low = two_sum(code, angle[0], code.neg(quarter))
    rest = code.copysign(choose(code, steep, 6.123233995736766e-17, 0.0, h), angle[0])
    low = code.add(low, code.sub(angle[1], rest))
    k = code.select(steep, 1, code.constant(0, "i64", h.lanes))
    k = code.select(code.compare("olt", angle[0], 0.0), code.neg(k), k)
    if cotangent:
        return tangent_kernel(code, h, low, code.add(k, 1))
    return sincos_kernel(code, h, low, k)


def _digamma(code: Function, x: Value) -> Value:
    """digamma for x > 0."""
    below, far = code.compare("olt", x, 1.0), code.compare("oge", x, FAR)
    y, whole, slope = _shifted(code, x, 1.0)
    y = code.select(below, x, code.sub(y, 1.0))  # from 1 on
    v = code.sub(code.select(far, 0.5, y), 0.5)
    h, low = two_sum(code, v, code.constant(1.5 - ZERO[0], x.type, x.lanes))
    near = times(code, (h, code.sub(low, ZERO[1])), _polynomial(code, PSI, v))
    # the recurrence: -1 / x below 1; above, the sum of 1 / (x - i) = slope / whole
    over = code.select(below, -1.0, slope[0]), code.select(below, 0.0, slope[1])
    under = code.select(below, x, whole[0]), code.select(below, 0.0, whole[1])
    shift = quotient_pair(code, over, under)
    h, low = two_sum(code, shift[0], near[0])
    y = code.add(h, code.add(low, code.add(shift[1], near[1])))
    y = code.select(code.compare("olt", x, 1e-300), code.div(-1.0, x), y)
    inverse = code.div(1.0, code.select(far, x, 1.0))
    square = code.mul(inverse, inverse)
    tail = code.fma(inverse, 0.5, code.mul(square, code.polynomial(PSI_FAR, square)))
    distant = code.sub(log(code, code.select(far, x, 1.0)), tail)
    return code.select(far, distant, code.select(code.compare("uno", x, x), x, y))


def digamma(code: Function, x: Value, positive: Rule = _digamma) -> Value:
    """The derivative of log gamma, by a rule for positive numbers."""
    left = code.compare("olt", x, 0.0)
    y = positive(code, code.select(left, code.sub(1.0, x), x))
    y = code.select(code.compare("oeq", x, 0.0), code.copysign(INFINITY, code.neg(x)), y)

    def reflected() -> list[Value]:
        r, angle = _turn(code, x)
        found = code.fma(_kernel(code, angle, cotangent=True), math.pi, y)
        found = code.select(code.compare("oeq", r, 0.0), float("nan"), found)
        tiny = code.compare("ogt", x, -1e-17)
        found = code.select(tiny, code.div(-1.0, x), found)
        return [code.select(left, found, y)]

    return code.rarely(left, [y], reflected)[0]


# --- compositions of special and elementary functions ---------------------------------------------


def exp_difference(code: Function, x: Value, y: Value, power: Rule = exp) -> Value:
    """e^(x - y), or 2^(x - y); 1 if both are the same infinity."""
    return power(code, code.select(code.compare("oeq", x, y), 0.0, code.sub(x, y)))


def xlogy(code: Function, x: Value, y: Value) -> Value:
    return _times(code, x, log(code, y), y)


def xlog1py(code: Function, x: Value, y: Value) -> Value:
    return _times(code, x, log1p(code, y), y)


def _times(code: Function, x: Value, value: Value, y: Value) -> Value:
    """x times a value; 0 for x = 0, unless y is NaN."""
    none = code.binary("and", code.compare("oeq", x, 0.0), code.compare("ord", y, y))
    return code.select(none, 0.0, code.mul(x, value))


def entr(code: Function, x: Value) -> Value:
    """-x log x; 0 at 0, and minus infinity below."""
    y = code.neg(code.mul(x, log(code, x)))
    y = code.select(code.compare("oeq", x, 0.0), 0.0, y)
    return code.select(code.compare("olt", x, 0.0), -INFINITY, y)
