"""The modified Bessel functions I0 and I1, for np.i0 and its derivatives; roots of polynomials.

    I0' = I1,    I1' = I0 - I1 / x                                         (A&S 9.6.26, 9.6.27)

I1 is summed as NumPy sums I0: Chebyshev series of exp(-x) I1(x) / x on [0, 8], and of exp(-x)
sqrt(x) I1(x) beyond (Clenshaw, Chebyshev Series for Mathematical Functions, 1962).

The roots of polynomials, differentiated as implicit functions of the coefficients.

    p(r) = 0   =>   dr = - sum over k of dp[k] r^(n - k) / p'(r)

At a repeated root there is no derivative: it is infinite, or NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.ir.types import PYTHON_SCALARS, Type
from fungrad.primitives.elementwise.family import elementwise, fit_to, select
from fungrad.primitives.linalg import flop_counts
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, reduce_sum, reshape
from fungrad.primitives.primitive import Primitive, general
from fungrad.tracing.trace import shape_of

_NEAR = (
    0.25258718644363365, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499,
    0.024726449030626516, -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532,
    0.0005122859561685758, -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05,
    3.4702513081376785e-06, -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08,
    9.381537386495773e-09, -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11,
    1.1736186298890901e-11, -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14,
    7.600684294735408e-15, -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17,
    2.7779141127610464e-18,
)  # fmt: skip
_FAR = (
    0.7785762350182801, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09,
    -5.589743462196584e-10, -1.8974958123505413e-11, 3.2526035830154884e-11,
    1.4125807436613782e-11, 2.0356285441470896e-12, -7.198551776245908e-13,
    -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14, 1.0420276984128802e-14,
    -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16, 2.96262899764595e-16,
    -3.209525921993424e-17, -4.6503053684893586e-17, 4.414348323071708e-18, 7.517296310842105e-18,
)  # fmt: skip


def _clenshaw(t: Any, coefficients: tuple[float, ...]) -> Any:
    """The Chebyshev series with these coefficients, the first of them halved, at t in [-1, 1]."""
    latest = previous = np.zeros_like(t)
    for coefficient in reversed(coefficients[1:]):
        latest, previous = 2.0 * t * latest - previous + coefficient, latest
    return t * latest - previous + 0.5 * coefficients[0]


def _real(x: Any) -> Any:
    """x as floats, as np.i0 takes it."""
    x = np.asarray(x)
    if x.dtype.kind == "c":
        raise TypeError("i0 not supported for complex values")
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def _eval_i0(x: Any) -> Any:
    result = np.i0(_real(x))
    return result.item() if type(x) in PYTHON_SCALARS else result[()]


def _eval_i1(x: Any) -> Any:
    given = _real(x)
    size = np.abs(given).astype(np.float64)
    near = np.minimum(size, 8.0)
    far = np.maximum(size, 8.0)
    with np.errstate(over="ignore"):
        small = _clenshaw(near / 4.0 - 1.0, _NEAR) * near * np.exp(near)
        large = _clenshaw(16.0 / far - 1.0, _FAR) * np.exp(far) / np.sqrt(far)
        result = np.copysign(np.where(size <= 8.0, small, large), given).astype(given.dtype)
    result = np.where(np.isnan(given), given, result)
    return result.item() if type(x) in PYTHON_SCALARS else result[()]


_RATIO = [1 / (math.factorial(k) * math.factorial(k + 1) * 2 * 4**k) for k in range(10)]


def _ratio(y: Any, x: Any) -> Any:
    """I1(x) / x; near 0 by its power series, which has derivatives there (A&S 9.6.10)."""
    near = np.abs(x) < 1.0
    t = np.square(select(near, x, 0.0))
    series = _RATIO[-1]
    for coefficient in reversed(_RATIO[:-1]):
        series = series * t + coefficient
    return select(near, series, y / select(near, 1.0, x))


i0: Primitive = elementwise("i0", _eval_i0, partials=[lambda y, x: i1(x)])
"""The modified Bessel function of order 0."""
i1: Primitive = elementwise("i1", _eval_i1, partials=[lambda y, x: i0(x) - _ratio(y, x)])
"""The modified Bessel function of order 1."""


def _eval_roots(p: Any, *, start: int = 0) -> Any:
    used = p[..., start:]
    if not np.all(used[..., :1]):
        raise ValueError(
            "np.roots met a polynomial whose first coefficient is 0. The number of roots depends "
            "on that, so that it must not be 0 under jit and vmap: leave the coefficient out, or "
            "call np.roots without tracing it."
        )
    count = used.shape[-1]
    rows = used.reshape(math.prod(p.shape[:-1]), count)
    roots = np.zeros((len(rows), count - 1), np.result_type(p.dtype, np.complex64))
    degrees = count - 1 - np.argmax(rows[:, ::-1] != 0, axis=1)  # without the roots that are 0
    for degree in np.unique(degrees).tolist():
        chosen = rows[degrees == degree, : degree + 1]
        companion = np.zeros((len(chosen), degree, degree), p.dtype)
        if degree:
            companion[:, np.arange(1, degree), np.arange(degree - 1)] = 1
            companion[:, 0] = -chosen[:, 1:] / chosen[:, :1]
            roots[degrees == degree, :degree] = np.linalg.eigvals(companion)
    return roots.reshape(*p.shape[:-1], count - 1)


def _type_roots(p: Type, *, start: int = 0) -> Type:
    return Type((*p.shape[:-1], p.shape[-1] - 1 - start), np.result_type(p.dtype, np.complex64))


def _slopes(p: Any, roots: Any) -> Any:
    """-r^(n - k) / p'(r) for each root (the axis before the last) and coefficient (the last)."""
    *lead, count = shape_of(p)
    column = reshape(roots, shape=(*shape_of(roots), 1))
    powers = np.power(column, np.arange(count - 1, -1, -1))
    row = reshape(p, shape=(*lead, 1, count))
    derivative = np.multiply(row, np.arange(count - 1, -1, -1))[..., :-1]
    slope = reduce_sum(derivative * powers[..., 1:], axes=(len(lead) + 1,))
    return -powers / reshape(slope, shape=(*shape_of(roots), 1))


def _vjp_roots(ct: Any, roots: Any, args: Any, wanted: Any, **params: Any) -> list[Any]:
    terms = reshape(ct, shape=(*shape_of(ct), 1)) * _slopes(args[0], roots)
    return [reduce_sum(terms, axes=(len(shape_of(ct)) - 1,))]


def _jvp_roots(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
    roots = polynomial_roots(primals[0], **params)
    slopes = _slopes(primals[0], roots)
    lead, count = shape_of(slopes)[:-2], shape_of(slopes)[-1]
    row = broadcast_to(reshape(tangents[0], shape=(*lead, 1, count)), shape=shape_of(slopes))
    tangent = reduce_sum(row * slopes, axes=(len(lead) + 1,))
    return roots, fit_to(tangent, roots)


polynomial_roots: Primitive = general(
    "polynomial_roots",
    cost=flop_counts.roots,
    eval=_eval_roots,
    type=_type_roots,
    vjp=_vjp_roots,
    jvp=_jvp_roots,
    batch=lambda args, batched, size, **params: polynomial_roots(args[0], **params),
)
"""`polynomial_roots(p, start=)`: the complex roots of p[0] x^n + ... + p[n].

The first `start` coefficients are 0, the next one is not: they add no root, but the roots change
with them. Roots that are exactly 0 come last, one for each zero at the end.
"""
