"""Derivatives of the regularised incomplete gamma function P(a, x) by its parameter, and the
quantile of a log-gamma variable, which moves with it.

The n-th derivative is an integral over s = log t of the density times a polynomial in s (Bell). It
is taken on the side of x on which the integrand of the first derivative has one sign, so that no
digits cancel, by Gauss's rules up to where the density has fallen by e^-40.

Derivatives of the regularised incomplete beta function I_x(a, b) by its parameters: the same over
s = log(t / (1 - t)), in two panels that meet at s = 0, near which the integrand is not smooth. The
side above the mean is the side below it with a and b exchanged.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.ir.types import PYTHON_SCALARS, Type
from fungrad.primitives.elementwise.family import broadcast_shapes, elementwise, fit_to
from fungrad.primitives.facts import TRANSCENDENTAL
from fungrad.primitives.movement.reshape_broadcast_cast import prepend_axes
from fungrad.primitives.primitive import Primitive
from fungrad.primitives.special.polygamma import digamma_difference, polygamma, polygamma_of
from fungrad.tracing.trace import shape_of

Array = np.ndarray[Any, Any]

FALL = 40.0
"""The density is negligible where its logarithm has fallen by this."""
NOTHING = 38.0
"""e^-38 is negligible beside 1."""
_POINTS = 64
_BLOCK = 1024


# --- functions for both the gamma and the beta distribution ---------------------------------------


@functools.cache
def legendre(count: int) -> tuple[Array, Array]:
    """Points and weights of Gauss and Legendre on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(count)
    return (points + 1.0) / 2.0, weights / 2.0


@functools.cache
def laguerre() -> tuple[Array, Array]:
    """Points and weights of Gauss and Laguerre: e^-t times polynomials of degree 15 exactly."""
    points, weights = np.polynomial.laguerre.laggauss(8)
    return points, weights


def bell(slopes: Callable[[int, int], Any], m: int, n: int) -> Any:
    """The derivative of order (m, n) of a positive function of two variables, over itself.

    Args:
      slopes: `slopes(i, j)`, the derivative of order (i, j) of its logarithm, i + j > 0.
    """
    known: dict[tuple[int, int], Any] = {(0, 0): 1.0}
    for i in range(m + 1):
        for j in range(n + 1):
            if i + j == 0:
                continue
            one = (1, 0) if i else (0, 1)
            total: Any = 0.0
            for p in range(i - one[0] + 1):
                for q in range(j - one[1] + 1):
                    times = math.comb(i - one[0], p) * math.comb(j - one[1], q)
                    rest = known[i - one[0] - p, j - one[1] - q]
                    total = total + slopes(p + one[0], q + one[1]) * rest * float(times)
            known[i, j] = total
    return known[m, n]


def cut_off(fall: Callable[[Array], Array], slope: Callable[[Array], Array], start: Array) -> Array:
    """The cut-off of the integral by Newton: the smallest y with fall(y) >= FALL, or a bit more.

    `fall` is convex and grows from 0.
    """
    y = start
    for _ in range(12):
        y = np.maximum(y - (fall(y) - FALL) / slope(y), 0.5 * y)
    return y


def slope_primitive(
    name: str, compute: Callable[..., Array], slopes: Callable[..., Any]
) -> Primitive:
    """Declares a primitive of real arrays that broadcast, with static orders.

    Args:
      compute: `compute(*columns, **orders)` for one-dimensional doubles.
      slopes: `slopes(output, *args, **orders)`: for each argument a function without arguments that
        returns the derivative with respect to it.
    """

    def eval(*args: Any, **orders: Any) -> Any:
        dtype = _floating([a if type(a) in PYTHON_SCALARS else a.dtype for a in args])
        arrays = np.broadcast_arrays(*[np.asarray(a, np.float64) for a in args])
        columns = [a.ravel() for a in arrays]
        out = np.empty(columns[0].size)
        for start in range(0, out.size, _BLOCK):
            block = [c[start : start + _BLOCK] for c in columns]
            with np.errstate(all="ignore"):
                out[start : start + _BLOCK] = compute(*block, **orders)
        return out.reshape(arrays[0].shape).astype(dtype)[()]

    def result_type(*types: Type, **orders: Any) -> Type:
        kinds = [t.dtype.type(0).item() if t.weak else t.dtype for t in types]
        return Type(broadcast_shapes(name, types), _floating(kinds))

    def vjp(ct: Any, y: Any, args: Any, wanted: Any, **orders: Any) -> list[Any]:
        slopes_at = slopes(y, *args, **orders)
        return [ct * part() if want else None for part, want in zip(slopes_at, wanted, strict=True)]

    def jvp(primals: Any, tangents: Any, **orders: Any) -> tuple[Any, Any]:
        y = primitive(*primals, **orders)
        total: Any = 0.0
        for part, tangent in zip(slopes(y, *primals, **orders), tangents, strict=True):
            if tangent is not None:
                total = total + tangent * part()
        return y, fit_to(total, y)

    def batch(args: Any, batched: Any, size: int, **orders: Any) -> Any:
        ndim = max(len(shape_of(a)) - b for a, b in zip(args, batched, strict=True))
        return primitive(
            *[prepend_axes(a, ndim + 1) if b else a for a, b in zip(args, batched, strict=True)],
            **orders,
        )

    primitive = Primitive(
        name, eval=eval, type=result_type, vjp=vjp, jvp=jvp, batch=batch, cost=TRANSCENDENTAL
    )
    return primitive


def _floating(kinds: Sequence[Any]) -> np.dtype[Any]:
    """The floating dtype that dtypes and Python numbers promote to."""
    strong = any(isinstance(kind, np.dtype) for kind in kinds)
    dtype = np.result_type(*kinds)
    return dtype if strong and dtype.kind == "f" else np.dtype(np.float64)


# --- the gamma distribution -----------------------------------------------------------------------


def _gamma_slopes(a: Array, z: Array, order: int) -> Array:
    """gamma_slope for one-dimensional doubles."""
    x = np.exp(z)
    mean = polygamma_of(a, 0)
    later = [-polygamma_of(a, k)[:, None] for k in range(1, order)]
    below = z <= mean + 1.0 / a
    side = np.where(below, -1.0, 1.0)

    def fall(y: Array) -> Array:
        return np.asarray(x * np.expm1(side * y) - a * side * y)

    def slope(y: Array) -> Array:
        return np.asarray(side * (x * np.exp(side * y) - a))

    bound = np.sqrt(2.0 * FALL / x) + np.where(below, FALL / a, 0.0)
    start = np.minimum(FALL / np.abs(x - a), bound)
    end = cut_off(fall, slope, start)
    end = np.where(below, np.minimum(end, np.maximum(z + NOTHING, 0.0)), end)

    def weight(s: Array) -> Any:
        """The polynomial at log t = z + s."""
        return bell(lambda i, j: (z - mean)[:, None] + s if i == 1 else later[i - 2], order, 0)

    points, weights = legendre(_POINTS)
    s = (side * end)[:, None] * points
    height = np.exp(a[:, None] * s - x[:, None] * np.expm1(s))
    near = end * ((height * weight(s)) @ weights)
    points, weights = laguerre()  # left of there e^s is negligible, and the density is e^(a s)
    s = -end[:, None] - points / a[:, None]
    far = np.exp(-fall(end)) / a * (weight(s) @ weights)
    total: Array = np.where(below, near + far, -near)
    return total


def _gamma_partials(y: Any, a: Any, z: Any, order: int) -> list[Callable[[], Any]]:
    def of_log_density(i: int, j: int) -> Any:
        return z - polygamma(a, order=0) if i == 1 else -polygamma(a, order=i - 1)

    return [
        lambda: gamma_slope(a, z, order=order + 1) - y * of_log_density(1, 0),
        lambda: bell(of_log_density, order, 0) - y * (a - np.exp(z)),
    ]


gamma_slope: Primitive = slope_primitive("gamma_slope", _gamma_slopes, _gamma_partials)
"""`gamma_slope(a, z, order=)`: the derivative of P(a, e^z) of that order (1 or more) by a, over
that by z, which is e^(a z - e^z) / Gamma(a). For floats a > 0."""

# --- quantiles that move with the parameter -------------------------------------------------------

_STEPS = 8


def _eval_quantile(a: Any, known_a: Any, known_z: Any) -> Any:
    dtype = np.result_type(a, known_a, known_z)
    if a is not known_a:
        a, start, z = np.broadcast_arrays(a, known_a, np.asarray(known_z, np.float64))
        moved = a != start
        if moved.any():
            z = z.copy()
            z[moved] = _moved(
                a[moved].astype(np.float64), start[moved].astype(np.float64), z[moved]
            )
            known_z = z
    shape = np.broadcast_shapes(np.shape(a), np.shape(known_a), np.shape(known_z))
    return np.broadcast_to(np.asarray(known_z, dtype), shape)[()]


def _moved(a: Array, start: Array, z: Array) -> Array:
    """Runge and Kutta's method for dz/da = -gamma_slope."""

    def slope(at: Array, z: Array) -> Array:
        slope_at: Array = gamma_slope.eval(at, z, order=1)
        return -slope_at

    step = (a - start) / _STEPS
    for k in range(_STEPS):
        at = start + k * step
        one = slope(at, z)
        two = slope(at + step / 2, z + step / 2 * one)
        three = slope(at + step / 2, z + step / 2 * two)
        four = slope(at + step, z + step * three)
        z = z + step / 6 * (one + 2 * two + 2 * three + four)
    return z


log_gamma_quantile: Primitive = elementwise(
    "log_gamma_quantile",
    _eval_quantile,
    partials=[lambda z, a, known_a, known_z: -gamma_slope(a, z, order=1), None, None],
)
"""`log_gamma_quantile(a, known_a, known_z)`: the logarithm z of the quantile of a gamma variable of
shape a for which P(a, e^z) = P(known_a, e^known_z); if a is known_a, it is known_z itself. The
derivative with respect to a is that of implicit reparameterisation (Figurnov, Mohamed and Mnih
2018, equation 6); known_a and known_z are constants."""


_BETA_POINTS = 32


class _Lower:
    """The integral from -infinity to z; the log density falls from its value at z by `fall`."""

    def __init__(self, a: Array, b: Array, x: Array, log_x: Array, log_rest: Array) -> None:
        self.a, self.sum, self.x = a, a + b, x
        self.log_x, self.log_rest = log_x[:, None], log_rest[:, None]
        self.z = log_x - log_rest

    def correction(self, y: Array) -> Array:
        """log (1 - x) - log (1 - t) at the distance y."""
        moved: Array = np.log1p((self.x * np.expm1(-y.T)).T)
        return moved

    def fall(self, y: Array) -> Array:
        fallen: Array = (self.a * y.T).T + (self.sum * self.correction(y).T).T
        return fallen

    def slope(self, y: Array) -> Array:
        share = self.x * np.exp(-y) / (1.0 + self.x * np.expm1(-y))
        return self.a - self.sum * share

    def end(self) -> Array:
        """The distance from z at which the density is negligible; beyond t = e^-38 it is t^a."""
        bound = FALL / self.a + np.maximum(self.z, 0.0) + np.sqrt(2.0 * FALL / self.a)
        start = np.minimum(FALL / self.slope(np.zeros_like(self.x)), bound)
        end = cut_off(self.fall, self.slope, start)
        return np.minimum(end, np.maximum(self.z + NOTHING, 0.0))

    def logarithms(self, y: Array) -> tuple[Array, Array]:
        """log t and log (1 - t)."""
        correction = self.correction(y)
        return self.log_x - y - correction, self.log_rest - correction

    def integral(self, weight: Callable[[Array, Array], Any]) -> Array:
        """The integral of the density, 1 at z, times `weight(log t, log (1 - t))`."""
        end = self.end()
        middle = np.where(self.z > 0, np.minimum(self.z, end), end / 2.0)
        points, weights = legendre(_BETA_POINTS)
        total = np.zeros_like(end)
        for low, high in ((np.zeros_like(end), middle), (middle, end)):
            y = low[:, None] + (high - low)[:, None] * points
            height = np.exp(-self.fall(y))
            total += (high - low) * ((height * weight(*self.logarithms(y))) @ weights)
        points, weights = laguerre()
        y = end[:, None] + points / self.a[:, None]
        total += np.exp(-self.fall(end)) / self.a * (weight(*self.logarithms(y)) @ weights)
        return total


def _beta_slopes(a: Array, b: Array, x: Array, m: int, n: int) -> Array:
    """beta_slope for one-dimensional doubles."""
    below = x <= a / (a + b)
    log_x, log_rest = np.log(x), np.log1p(-x)
    lower = _Lower(
        np.where(below, a, b), np.where(below, b, a), np.where(below, x, 1.0 - x),
        np.where(below, log_x, log_rest), np.where(below, log_rest, log_x),
    )  # fmt: skip
    orders = [(i, j) for i in range(m + 1) for j in range(n + 1) if i + j]
    constant = {(i, j): _of_normaliser(polygamma_of, a, b, i, j)[:, None] for i, j in orders}
    constant[1, 0] = digamma_difference(a, b)[:, None]
    constant[0, 1] = digamma_difference(b, a)[:, None]
    flip = ~below[:, None]

    def weight(log_t: Array, log_u: Array) -> Any:
        log_t, log_u = np.where(flip, log_u, log_t), np.where(flip, log_t, log_u)
        by = {(1, 0): log_t, (0, 1): log_u}
        return bell(lambda i, j: constant[i, j] + by.get((i, j), 0.0), m, n)

    return np.where(below, 1.0, -1.0) * lower.integral(weight)


def _of_normaliser(psi: Callable[[Any, int], Any], a: Any, b: Any, i: int, j: int) -> Any:
    """The derivative of order (i, j) of -log B(a, b)."""
    whole = psi(a + b, i + j - 1)
    if i and j:
        return whole
    return whole - psi(a, i - 1) if i else whole - psi(b, j - 1)


def _beta_partials(y: Any, a: Any, b: Any, x: Any, m: int, n: int) -> list[Callable[[], Any]]:
    def of_log_density(i: int, j: int) -> Any:
        density = _of_normaliser(lambda v, k: polygamma(v, order=k), a, b, i, j)
        if i + j > 1:
            return density
        return density + (np.log(x) if i else np.log1p(-x))

    return [
        lambda: beta_slope(a, b, x, m=m + 1, n=n) - y * of_log_density(1, 0),
        lambda: beta_slope(a, b, x, m=m, n=n + 1) - y * of_log_density(0, 1),
        lambda: (bell(of_log_density, m, n) - y * (a - (a + b) * x)) / (x * (1.0 - x)),
    ]


beta_slope: Primitive = slope_primitive("beta_slope", _beta_slopes, _beta_partials)
"""`beta_slope(a, b, x, m=, n=)`: the derivative of I_x(a, b), m times by a and n times by b, over
x^a (1 - x)^b / B(a, b). For floats a, b > 0 and x between 0 and 1, m + n > 0."""
