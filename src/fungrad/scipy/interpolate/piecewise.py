"""Piecewise polynomials, and the cubic ones through points, as in scipy.interpolate.

De Boor, A Practical Guide to Splines, 1978; Fritsch & Carlson 1980 (PCHIP); Akima 1970. All are
compositions, differentiable by the points, the values and the points of evaluation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.custom_rules.closures_and_arguments import valueless
from fungrad.errors import UnsupportedArgumentError
from fungrad.numpy.protocol.implements import known
from fungrad.numpy.protocol.operands import axis_index, double_of
from fungrad.primitives.movement.gather import picked
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.optional import scipy_module
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import EVAL, current, shape_of
from fungrad.tree_util import register_pytree_node


def _real(x: Any) -> Any:
    x = double_of(x)
    if x.dtype.kind == "c":
        raise ValueError("`x` must contain real values.")
    return x


def column(x: Any, ndim: int) -> Any:
    """A vector along the first of ndim axes."""
    return np.reshape(x, (-1, *(1,) * (ndim - 1)))


class PPoly:
    """A piecewise polynomial, as scipy.interpolate.PPoly.

    Args:
      c: coefficients, shape (k, m, ...), the highest power first, of x - x[i]. x: the m + 1 ends of
        the pieces, ascending. axis: the position of k and m in c, and of x in the result.
      extrapolate: whether the outer pieces extend outside (else NaN), or "periodic".

    A tree, so that it can be returned from and passed to transformed functions.

    >>> p = PPoly(np.array([[1.0, 1.0], [0.0, 1.0]]), [0.0, 1.0, 2.0])
    >>> p([0.5, 1.5]), p.derivative()(0.5).item(), float(p.integrate(0.0, 2.0))
    (array([0.5, 1.5]), 1.0, 2.0)
    """

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> None:
        self.c, self.x = double_of(c), _real(x)
        self.extrapolate = True if extrapolate is None else extrapolate
        self.axis = axis
        if len(shape_of(self.c)) < 2:
            raise ValueError("Coefficients array must be at least 2-dimensional.")
        if not 0 <= axis < len(shape_of(self.c)) - 1:
            raise ValueError(f"axis={axis} must be between 0 and {len(shape_of(self.c)) - 2}")
        if axis:  # from now on: power, piece, others
            self.c = np.moveaxis(self.c, (axis, axis + 1), (0, 1))
        if shape_of(self.c)[1] != shape_of(self.x)[0] - 1:
            raise ValueError("number of coefficients != len(x)-1")

    @classmethod
    def _made(cls, c: Any, x: Any, extrapolate: Any, axis: int) -> PPoly:
        made = object.__new__(PPoly)
        made.c, made.x, made.extrapolate, made.axis = c, x, extrapolate, axis
        return made

    def _inside(self, at: Any, extrapolate: Any) -> Any:
        if extrapolate != "periodic":
            return at
        start, end = self.x[0], self.x[-1]
        return start + np.mod(at - start, end - start)

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """The value at x, or the derivative of order nu."""
        if nu < 0:
            raise ValueError("Order of derivative cannot be negative")
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        at = self._inside(_real(x), extrapolate)
        pieces = shape_of(self.x)[0] - 1
        piece = np.searchsorted(stop_gradient(self.x), stop_gradient(at), side="right")
        piece = np.clip(piece - 1, 0, pieces - 1)
        rest, points = len(shape_of(self.c)) - 2, len(shape_of(at))
        offset = np.reshape(at - picked(self.x, piece), (*shape_of(at), *(1,) * rest))
        coefficients = picked(self.c, piece, lead=1)
        degree = shape_of(self.c)[0] - 1
        value: Any = coefficients[0] * 0.0
        for i in range(degree + 1 - nu):
            value = value * offset + math.perm(degree - i, nu) * coefficients[i]
        # NaN outside, and where x is NaN.
        beyond = at != at
        if extrapolate is False:
            beyond = np.logical_or(beyond, np.logical_or(at < self.x[0], at > self.x[-1]))
        value = np.where(np.reshape(beyond, (*shape_of(at), *(1,) * rest)), np.nan, value)
        order = list(range(points + rest))
        if self.axis:
            last = points + self.axis
            order = [*order[points:last], *order[:points], *order[last:]]
            value = np.transpose(value, order)
        return value

    def derivative(self, nu: int = 1) -> PPoly:
        """The piecewise polynomial of the derivative of order nu."""
        if nu < 0:
            return self.antiderivative(-nu)
        degree = shape_of(self.c)[0] - 1
        if nu > degree:
            c = self.c[:1] * 0.0
        else:
            factors = np.array([math.perm(degree - i, nu) for i in range(degree + 1 - nu)], float)
            c = self.c[: degree + 1 - nu] * column(factors, len(shape_of(self.c)))
        return self._made(c, self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> PPoly:
        """The piecewise polynomial of the integral of order nu, 0 at the first end."""
        if nu < 0:
            return self.derivative(-nu)
        c = self.c
        for _ in range(nu):
            powers = np.arange(shape_of(c)[0], 0, -1.0)
            c = c / column(powers, len(shape_of(c)))
            width = column(np.diff(self.x), len(shape_of(c)) - 1)
            total = c[0] * 0.0
            for i in range(shape_of(c)[0]):
                total = (total + c[i]) * width
            before = np.concatenate([total[:1] * 0.0, np.cumsum(total, axis=0)[:-1]])
            c = np.concatenate([c, before[None]])
        kept = False if self.extrapolate == "periodic" else self.extrapolate
        return self._made(c, self.x, kept, self.axis)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """The integral from a to b; differentiable by both."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        whole = self._made(self.antiderivative().c, self.x, True, 0)
        a, b = _real(a), _real(b)
        if extrapolate == "periodic":
            period = self.x[-1] - self.x[0]
            turns = [np.floor((t - self.x[0]) / period) for t in (a, b)]
            ends = [whole(self._inside(t, extrapolate)) for t in (a, b)]
            return ends[1] - ends[0] + (turns[1] - turns[0]) * whole(self.x[-1])
        integral = whole(b) - whole(a)
        if extrapolate:
            return integral
        low, high = np.minimum(a, b), np.maximum(a, b)
        return np.where(np.logical_or(low < self.x[0], high > self.x[-1]), np.nan, integral)

    def _scipys(self, name: str) -> Any:
        if current() is not EVAL:
            raise UnsupportedArgumentError(
                f"{type(self).__name__}.{name} was called{user_line()} under a transform, where "
                "the number of roots is not known. Find a root without derivatives, and use "
                "fg.custom_root for its derivative."
            )
        made = scipy_module("scipy.interpolate").PPoly(self.c, self.x, self.extrapolate, self.axis)
        return getattr(made, name)

    def solve(self, *args: Any, **options: Any) -> Any:
        """SciPy's PPoly.solve, on plain arrays."""
        return self._scipys("solve")(*args, **options)

    def roots(self, *args: Any, **options: Any) -> Any:
        """SciPy's PPoly.roots, on plain arrays."""
        return self._scipys("roots")(*args, **options)


def prepared(x: Any, y: Any, axis: int, dydx: Any = None) -> tuple[Any, Any, int, Any]:
    """x, y with its axis first, that axis, and dydx like y; makes SciPy's checks."""
    x, y = _real(x), double_of(y)
    if dydx is not None:
        dydx = double_of(dydx)
        if shape_of(dydx) != shape_of(y):
            raise ValueError("The shapes of `y` and `dydx` must be identical.")
    axis = axis_index(axis, len(shape_of(y)))
    if len(shape_of(x)) != 1:
        raise ValueError("`x` must be 1-dimensional.")
    if shape_of(x)[0] < 2:
        raise ValueError("`x` must contain at least 2 elements.")
    if shape_of(x)[0] != shape_of(y)[axis]:
        raise ValueError(f"The length of `y` along `axis`={axis} doesn't match the length of `x`")
    if not valueless():
        for name, value in (("x", x), ("y", y), ("dydx", dydx)):
            if value is not None and not np.all(np.isfinite(known(stop_gradient(value), name))):
                raise ValueError(f"`{name}` must contain only finite values.")
        if np.any(np.diff(known(stop_gradient(x), "x")) <= 0):
            raise ValueError("`x` must be strictly increasing sequence.")
    y = np.moveaxis(y, axis, 0)
    return x, y, axis, None if dydx is None else np.moveaxis(dydx, axis, 0)


class CubicHermiteSpline(PPoly):
    """Cubic pieces with given values and slopes, as scipy.interpolate.CubicHermiteSpline.

    >>> float(CubicHermiteSpline([0.0, 1.0], [0.0, 1.0], [0.0, 3.0])(0.5))
    0.125
    """

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, y, axis, dydx = prepared(x, y, axis, dydx)
        self._through(x, y, dydx, axis, extrapolate)

    def _through(self, x: Any, y: Any, slopes: Any, axis: int, extrapolate: Any) -> None:
        width = column(np.diff(x), len(shape_of(y)))
        mean = np.diff(y, axis=0) / width
        bend = (slopes[:-1] + slopes[1:] - 2 * mean) / width
        rows = [bend / width, (mean - slopes[:-1]) / width - bend, slopes[:-1], y[:-1]]
        dtype = np.result_type(*[row.dtype for row in rows])
        self.c, self.x = np.stack([cast(row, dtype) for row in rows]), x
        self.extrapolate = True if extrapolate is None else extrapolate
        self.axis = axis


def _real_values(name: str, y: Any) -> None:
    if y.dtype.kind == "c":
        raise ValueError(f"`{name}` only works with real values for `y`.")


class PchipInterpolator(CubicHermiteSpline):
    """Cubic pieces, monotonic where the values are, as scipy.interpolate.PchipInterpolator.

    Where neighbouring slopes have opposite signs the slope between is 0, and so is its derivative.

    >>> float(PchipInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 1.0])(1.5))
    1.0
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, y, axis, _ = prepared(x, y, axis)
        _real_values("PchipInterpolator", y)
        self._through(x, y, self._slopes(x, y), axis, extrapolate)

    @staticmethod
    def _slopes(x: Any, y: Any) -> Any:
        h = column(np.diff(x), len(shape_of(y)))
        m = np.diff(y, axis=0) / h
        if shape_of(y)[0] == 2:
            return np.concatenate([m, m])
        before, after = m[:-1], m[1:]
        turns = np.logical_or(np.sign(before) != np.sign(after), before * after == 0)
        w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
        first, second = np.where(turns, 1.0, before), np.where(turns, 1.0, after)
        inner = np.where(turns, 0.0, (w1 + w2) / (w1 / first + w2 / second))
        ends = [_pchip_end(*[part[i : i + 1 or None] for part, i in zip((h, h, m, m), at,
                                                                        strict=True)])
                for at in ((0, 1, 0, 1), (-1, -2, -1, -2))]  # fmt: skip
        return np.concatenate([ends[0], inner, ends[1]])


def _pchip_end(h0: Any, h1: Any, m0: Any, m1: Any) -> Any:
    """The slope at an end by three points, limited to keep the shape (Moler 2004, section 3.6)."""
    slope = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    steep = np.logical_and(np.sign(m0) != np.sign(m1), np.abs(slope) > 3.0 * np.abs(m0))
    return np.where(np.sign(slope) != np.sign(m0), 0.0, np.where(steep, 3.0 * m0, slope))


class Akima1DInterpolator(CubicHermiteSpline):
    """Akima's cubic pieces, as scipy.interpolate.Akima1DInterpolator; method "akima" or "makima".

    >>> float(Akima1DInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])(1.5))
    1.5
    """

    def __init__(
        self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None
    ) -> None:
        if method not in ("akima", "makima"):
            raise NotImplementedError(f"`method`={method} is unsupported.")
        x, y, axis, _ = prepared(x, y, axis)
        _real_values("Akima1DInterpolator", y)
        extrapolate = False if extrapolate is None else extrapolate
        self._through(x, y, self._slopes(x, y, method), axis, extrapolate)

    @staticmethod
    def _slopes(x: Any, y: Any, method: str) -> Any:
        m = np.diff(y, axis=0) / column(np.diff(x), len(shape_of(y)))
        if shape_of(y)[0] == 2:
            return np.concatenate([m, m])
        for _ in range(2):
            m = np.concatenate([2.0 * m[:1] - m[1:2], m, 2.0 * m[-1:] - m[-2:-1]])
        change = np.abs(np.diff(m, axis=0))
        if method == "makima":
            change = change + 0.5 * np.abs(m[1:] + m[:-1])
        after, before = change[2:], change[:-2]
        total = after + before
        largest = stop_gradient(np.max(total)) if total.size else 0.0
        told = total > 1e-9 * largest
        share = np.where(told, before / np.where(told, total, 1.0), 0.0)
        mean = 0.5 * (m[3:] + m[:-3])
        return np.where(told, m[1:-2] + share * (m[2:-1] - m[1:-2]), mean)


for _kind in (PPoly, CubicHermiteSpline, PchipInterpolator, Akima1DInterpolator):
    register_pytree_node(
        _kind,
        lambda p: ((p.c, p.x), (p.extrapolate, p.axis)),
        lambda aux, children: PPoly._made(*children, *aux),
    )
