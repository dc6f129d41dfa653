"""B-splines: values by de Boor's recursion, and the interpolating spline, as in
scipy.interpolate.

De Boor, A Practical Guide to Splines, 1978, chapters IX to XIII. Compositions; knows nothing of
piecewise polynomials in powers.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from fungrad.custom_rules.closures_and_arguments import valueless
from fungrad.errors import UnsupportedArgumentError
from fungrad.numpy.protocol.implements import known
from fungrad.numpy.protocol.operands import array_of, axis_index
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.optional import picked
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of
from fungrad.tree_util import register_pytree_node

_FLOAT = np.dtype(np.float64)


class BSpline:
    """A spline by its knots and coefficients, as scipy.interpolate.BSpline.

    Differentiable by the knots, the coefficients and where it is evaluated. A tree.

    Args:
      t: knots, ascending, shape (n + k + 1,). c: coefficients, shape (n, ...). k: the degree.
      extrapolate: whether the outer pieces go on outside (else NaN), or "periodic".

    >>> spline = BSpline([0.0, 1.0, 2.0, 3.0], [1.0, 1.0], 1)
    >>> float(spline(1.5))
    1.0
    """

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> None:
        c = array_of(c)
        self.t = cast(array_of(t), _FLOAT)
        self.k = operator.index(k)
        self.extrapolate = extrapolate
        self.axis = axis_index(axis, len(shape_of(c)))
        c = np.moveaxis(c, self.axis, 0)
        self.c = cast(c, np.dtype(np.complex128) if c.dtype.kind == "c" else _FLOAT)
        count = len(self.t) - self.k - 1
        if self.k < 0:
            raise ValueError("Spline order cannot be negative.")
        if count < self.k + 1:
            raise ValueError(f"Need at least {2 * self.k + 2} knots for degree {self.k}")
        if shape_of(self.c)[0] < count:
            raise ValueError("Knots, coefficients and degree are inconsistent.")
        if not valueless() and np.any(np.diff(known(stop_gradient(self.t), "t")) < 0):
            raise ValueError("Knots must be in a non-decreasing order.")

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """The value at x, or the derivative of order nu."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if nu:
            return self.derivative(nu)(x, 0, extrapolate)
        t, k = self.t, self.k
        count = shape_of(t)[0] - k - 1
        at = cast(array_of(x), _FLOAT)
        if extrapolate == "periodic":
            at = t[k] + np.mod(at - t[k], t[count] - t[k])
        place = np.searchsorted(stop_gradient(t), stop_gradient(at), side="right") - 1
        place = np.clip(place, k, count - 1)
        rest = len(shape_of(self.c)) - 1
        wide = (*shape_of(at), *(1,) * rest)
        d = [picked(self.c, place - k + j) for j in range(k + 1)]
        for r in range(1, k + 1):
            for j in range(k, r - 1, -1):
                left, right = picked(t, place + j - k), picked(t, place + j + 1 - r)
                flat = right == left
                share = np.where(flat, 0.0, (at - left) / np.where(flat, 1.0, right - left))
                share = np.reshape(share, wide)
                d[j] = (1.0 - share) * d[j - 1] + share * d[j]
        value = d[k]
        beyond = at != at
        if extrapolate is False:
            beyond = np.logical_or(beyond, np.logical_or(at < t[k], at > t[count]))
        value = np.where(np.reshape(beyond, wide), np.nan, value)
        points = len(shape_of(at))
        return np.moveaxis(value, range_of(points), range_of(points, self.axis))

    def derivative(self, nu: int = 1) -> BSpline:
        """The spline of the derivative of order nu."""
        t, c, k = self.t, self.c, self.k
        for _ in range(nu):
            if not k:
                c = c * 0.0
                continue
            count = shape_of(t)[0] - k - 1
            width = t[k + 1 : k + count] - t[1:count]
            flat = width == 0
            factor = np.where(flat, 0.0, k / np.where(flat, 1.0, width))
            change = c[1:count] - c[: count - 1]
            c = np.reshape(factor, (-1, *(1,) * (len(shape_of(c)) - 1))) * change
            t, k = t[1:-1], k - 1
        return self._made((t, c), (k, self.extrapolate, self.axis))

    @classmethod
    def _made(cls, children: Any, aux: Any) -> BSpline:
        made = object.__new__(BSpline)
        made.t, made.c = children
        made.k, made.extrapolate, made.axis = aux
        return made


def range_of(count: int, start: int = 0) -> tuple[int, ...]:
    """`count` axes from one on."""
    return tuple(range(start, start + count))


register_pytree_node(
    BSpline, lambda s: ((s.t, s.c), (s.k, s.extrapolate, s.axis)),
    lambda aux, children: BSpline._made(children, aux),
)  # fmt: skip


def make_interp_spline(
    x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0
) -> BSpline:
    """The spline of degree k through points, as scipy.interpolate.make_interp_spline.

    Its linear system is solved densely: for up to some thousand points.

    Args:
      x: the points, ascending. y: the values. k: odd, or any with t. t: knots; by default those of
        the not-a-knot spline. bc_type: None; CubicSpline knows others for k = 3.

    >>> x = np.arange(6.0)
    >>> round(float(make_interp_spline(x, x**3)(2.5)), 9)
    15.625
    """
    if bc_type not in (None, "not-a-knot"):
        raise UnsupportedArgumentError(
            f"make_interp_spline(bc_type={bc_type!r}){user_line()}: only the not-a-knot spline is "
            "known; CubicSpline takes other conditions."
        )
    x, y = cast(array_of(x), _FLOAT), array_of(y)
    axis = axis_index(axis, len(shape_of(y)))
    y = np.moveaxis(y, axis, 0)
    if len(shape_of(x)) != 1 or shape_of(x)[0] != shape_of(y)[0]:
        raise ValueError(f"Shapes of x {shape_of(x)} and y {shape_of(y)} are incompatible")
    if not valueless() and np.any(np.diff(known(stop_gradient(x), "x")) <= 0):
        raise ValueError("Expect x to not have duplicates and to be sorted.")
    if t is None:
        if k % 2 == 0 and k:
            raise UnsupportedArgumentError(
                f"make_interp_spline(k={k}){user_line()} of an even degree needs knots: give t."
            )
        if shape_of(x)[0] <= k:
            raise ValueError(f"The number of points {shape_of(x)[0]} is too few for degree {k}.")
        half = (k + 1) // 2
        inner = x[half : shape_of(x)[0] - half] if k > 1 else x[1:-1]
        if k == 0:
            t = np.concatenate([x, x[-1:]])
        else:
            t = np.concatenate([x[:1]] * (k + 1) + [inner] + [x[-1:]] * (k + 1))
    basis = BSpline(t, np.eye(shape_of(x)[0]), k)(x)
    flat = np.reshape(y, (shape_of(y)[0], -1))
    c = np.reshape(np.linalg.solve(basis, flat), shape_of(y))
    return BSpline(t, np.moveaxis(c, 0, axis), k, axis=axis)


__all__ = ["BSpline", "make_interp_spline"]
