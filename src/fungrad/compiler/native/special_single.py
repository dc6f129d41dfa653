"""Error functions, log gamma and digamma in single precision, by shorter kernels in doubles.

The forms are those of special_functions, without sums of two, and with fewer steps of recurrences:
asymptotic series begin at 4.5 and 4.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

from fungrad.compiler.native import elementary_single as single
from fungrad.compiler.native import special_functions
from fungrad.compiler.native.exponentials import clamped
from fungrad.compiler.native.llvm_ir import Function, Value

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
"""the asymptotic series of psi in 1 / x^2, for x > 4."""


def _tail(code: Function, a: Value) -> Value:
    """erfc(a), for a > 1."""
    a = clamped(code, a, 1.0, 10.3)
    under = code.fma(a, 2.0, 1.0)
    inverse = code.div(1.0, code.mul(under, code.add(a, 2.0)))
    p = code.polynomial(ERFC, code.mul(code.mul(code.sub(a, 2.0), under), inverse))
    p = code.mul(p, code.mul(code.add(a, 2.0), inverse))
    return code.mul(p, single.exp(code, code.neg(code.mul(a, a))))


def erf(code: Function, x: Value) -> Value:
    a = code.fabs(x)
    near = code.fma(a, code.polynomial(ERF, code.mul(a, a)), a)
    y = code.select(code.compare("olt", a, 1.0), near, code.sub(1.0, _tail(code, a)))
    return code.copysign(code.select(code.compare("uno", x, x), x, y), x)


def erfc(code: Function, x: Value) -> Value:
    a = code.fabs(x)
    near = code.sub(1.0, code.fma(x, code.polynomial(ERF, code.mul(x, x)), x))
    far = _tail(code, a)
    far = code.select(code.compare("olt", x, 0.0), code.sub(2.0, far), far)
    y = code.select(code.compare("olt", a, 1.0), near, far)
    return code.select(code.compare("uno", x, x), x, y)


def normal_cdf(code: Function, x: Value) -> Value:
    return code.mul(erfc(code, code.mul(x, -math.sqrt(0.5))), 0.5)


def _gammaln(code: Function, a: Value) -> Value:
    """For a >= 0."""
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
    log = single.SINGLE["log"](code, of)
    found = code.add(near, code.select(below, code.neg(log), log))
    inverse = code.div(1.0, code.select(far, a, 1.0))
    series = code.mul(inverse, code.polynomial(STIRLING, code.mul(inverse, inverse)))
    series = code.add(series, 0.5 * math.log(2 * math.pi) - 0.5)
    distant = code.fma(code.sub(a, 0.5), code.sub(log, 1.0), series)
    return code.select(far, distant, found)


def _digamma(code: Function, x: Value) -> Value:
    """For x > 0."""
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
    distant = code.sub(single.SINGLE["log"](code, x), tail)
    y = code.select(far, distant, code.add(near, shift))
    return code.select(code.compare("uno", x, x), x, y)


SINGLE: Mapping[str, Callable[..., Value]] = {
    "erf": erf, "erfc": erfc, "normal_cdf": normal_cdf,
    "gammaln": functools.partial(special_functions.gammaln, positive=_gammaln),
    "digamma": functools.partial(special_functions.digamma, positive=_digamma),
}  # fmt: skip
"""By names of primitives, of Values of doubles that were floats."""
