"""Functions in single precision, computed in doubles by shorter kernels, and rounded once.

Doubles contain the squares, products and exponentials of floats without overflow, and have 29 more
bits, so that no pairs are needed. Polynomials interpolate at Chebyshev nodes (computed by mpmath);
those of sin and cos are FreeBSD's (k_sinf.c, k_cosf.c).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from fungrad.compiler.native import logarithms, special_functions
from fungrad.compiler.native.exponentials import (
    INFINITY,
    LOG2E,
    at_most,
    choose,
    clamped,
    nearest,
    power_of_two,
)
from fungrad.compiler.native.llvm_ir import Function, Value
from fungrad.compiler.native.logarithms import ends, split, to_float
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
ERF = (
    0.12837916584834982, -0.37612626666717186, 0.11283594715135199, -0.026854212009771974,
    0.005189087422014301, -0.0008016864275837106, 7.875875027900834e-05,
)  # fmt: skip
"""erf(x) / x - 1 in x^2, for |x| < 1."""
ERFC = (
    1.2769783808447774, -0.09276383153702736, -0.16603023904485031, 0.1640515397592796,
    -0.054225880220036805, -0.00803346430324151, 0.008795562104495143, 0.0011852475412014662,
    -0.0017295799095210565, 0.0001347425428244818,
)  # fmt: skip
"""(1 + 2 x) e^(x^2) erfc(x) in (x - 2) / (x + 2), for 1 < x < 10.3."""
GAMMA = (
    0.4227843351820164, -0.10031730171307388, 0.03296498392935337, -0.012384184457835117,
    0.00499917227403879, -0.0021083769524790938, 0.0009095028334054144, -0.00040298569045359823,
    0.00020866155283959687, -9.518873289404994e-05,
)  # fmt: skip
"""log gamma(2 + v) / (v (1 + v)), for |v| <= 1 / 2."""
PSI = (
    0.9510558754378758, -0.42362742088558825, 0.240542655036541, -0.14840503688922396,
    0.09498081754904339, -0.06191686333003683, 0.0408935606644924, -0.027064258800657295,
    0.016915223738038547, -0.011247037333869003, 0.01122315637643749, -0.007476843099039942,
)  # fmt: skip
"""psi(3/2 + v) over the distance from its zero, for |v| <= 1 / 2."""
STIRLING = (
    0.08333333130231893, -0.0027770347586755437, 0.0007526791196031359,
)  # fmt: skip
"""Stirling's series in 1 / x^2, for x > 4.5."""
PSI_FAR = (
    0.08333330610636651, -0.008325446083161664, 0.0036203570666937714,
)  # fmt: skip
"""The asymptotic series of psi in 1 / x^2, for x > 4."""


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
    a = at_most(code, code.fabs(x), 20.0)
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


log_sigmoid = partial(logarithms.log_sigmoid, power=exp, log1p=log1p)
logaddexp = partial(logarithms.logaddexp, power=exp, log1p=log1p)
logaddexp2 = partial(logaddexp, power=exp2, by=LOG2E)


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
    a = at_most(code, code.fabs(x), 1e300)
    steep = code.compare("ogt", a, 1.0)
    one = code.constant(1.0, x.type, x.lanes)
    y = _arctangent(code, code.select(steep, one, a), code.select(steep, a, one))
    return code.copysign(code.select(steep, code.sub(math.pi / 2, y), y), x)


def arctan2(code: Function, y: Value, x: Value) -> Value:
    b, a = (at_most(code, code.fabs(v), 1e300) for v in (y, x))
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


_LOG = _log(1.0, math.log(2.0))


def _tail(code: Function, a: Value) -> Value:
    """erfc(a), for a > 1."""
    a = clamped(code, a, 1.0, 10.3)
    under = code.fma(a, 2.0, 1.0)
    inverse = code.div(1.0, code.mul(under, code.add(a, 2.0)))
    p = code.polynomial(ERFC, code.mul(code.mul(code.sub(a, 2.0), under), inverse))
    p = code.mul(p, code.mul(code.add(a, 2.0), inverse))
    return code.mul(p, exp(code, code.neg(code.mul(a, a))))


_ERFC = partial(special_functions.erfc, table=ERF, tail=_tail, least=1.0)


def _gammaln(code: Function, a: Value) -> Value:
    """log gamma(a), for a >= 0."""
    y, passed = a, code.constant(1.0, a.type, a.lanes)
    for _ in range(2):
        above, less = code.compare("oge", y, 2.5), code.sub(y, 1.0)
        passed = code.select(above, code.mul(passed, less), passed)
        y = code.select(above, less, y)
    tiny, below = code.compare("olt", a, 0.5), code.compare("olt", a, 1.5)
    v = code.select(below, code.select(tiny, a, code.sub(a, 1.0)), code.sub(y, 2.0))
    near = code.mul(code.fma(v, v, v), code.polynomial(GAMMA, v))
    far = code.compare("oge", a, 4.5)
    of = code.select(below, code.select(tiny, code.fma(a, a, a), a), code.select(far, a, passed))
    log = _LOG(code, of)
    found = code.add(near, code.select(below, code.neg(log), log))
    inverse = code.div(1.0, code.select(far, a, 1.0))
    series = code.mul(inverse, code.polynomial(STIRLING, code.mul(inverse, inverse)))
    series = code.add(series, 0.5 * math.log(2 * math.pi) - 0.5)
    distant = code.fma(code.sub(a, 0.5), code.sub(log, 1.0), series)
    return code.select(far, distant, found)


def _digamma(code: Function, x: Value) -> Value:
    """digamma for x > 0."""
    below, far = code.compare("olt", x, 1.0), code.compare("oge", x, 4.0)
    y = x
    whole, slope = (code.constant(number, x.type, x.lanes) for number in (1.0, 0.0))
    for _ in range(2):
        above, less = code.compare("oge", y, 2.0), code.sub(y, 1.0)
        slope = code.select(above, code.fma(slope, less, whole), slope)
        whole = code.select(above, code.mul(whole, less), whole)
        y = code.select(above, less, y)
    v = code.sub(code.select(below, x, code.sub(y, 1.0)), 0.5)
    near = code.mul(code.add(v, 1.5 - special_functions.ZERO[0]), code.polynomial(PSI, v))
    shift = code.div(code.select(below, -1.0, slope), code.select(below, x, whole))
    inverse = code.div(1.0, code.select(far, x, 1.0))
    square = code.mul(inverse, inverse)
    tail = code.fma(inverse, 0.5, code.mul(square, code.polynomial(PSI_FAR, square)))
    distant = code.sub(_LOG(code, x), tail)
    y = code.select(far, distant, code.add(near, shift))
    return code.select(code.compare("uno", x, x), x, y)


log, log2 = _LOG, _log(LOG2E, 1.0)
log10 = _log(math.log10(math.e), math.log10(2.0))
exp_difference = partial(special_functions.exp_difference, power=exp)
exp2_difference = partial(special_functions.exp_difference, power=exp2)
erf = partial(special_functions.erf, table=ERF, tail=_tail)
erfc = _ERFC
normal_cdf = partial(special_functions.normal_cdf, erfc=_ERFC)
gammaln = partial(special_functions.gammaln, positive=_gammaln)
digamma = partial(special_functions.digamma, positive=_digamma)
