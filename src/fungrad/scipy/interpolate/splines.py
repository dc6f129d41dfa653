"""B-splines, interpolating splines and CubicSpline, as in scipy.interpolate.

B-splines are evaluated by de Boor's recursion (A Practical Guide to Splines, 1978, chapters IX to
XIII). The slopes of a CubicSpline solve a tridiagonal system (chapter IV), which is differentiated
by the points, too.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from fungrad.custom_rules.closures_and_arguments import valueless
from fungrad.errors import UnsupportedArgumentError
from fungrad.numpy.protocol.implements import known
from fungrad.numpy.protocol.operands import array_of, axis_index, double_of, float64_of
from fungrad.primitives.movement.gather import picked
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.interpolate.piecewise import CubicHermiteSpline, PPoly, column, prepared
from fungrad.scipy.linalg.equations import solve_banded
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of
from fungrad.tree_util import register_pytree_node


class BSpline:
    """A spline by its knots and coefficients, as scipy.interpolate.BSpline.

    Differentiable by the knots, the coefficients and the points of evaluation. A tree.

    Args:
      t: knots, ascending, shape (n + k + 1,). c: coefficients, shape (n, ...). k: the degree.
      extrapolate: whether the outer pieces extend outside (else NaN), or "periodic".

    >>> spline = BSpline([0.0, 1.0, 2.0, 3.0], [1.0, 1.0], 1)
    >>> float(spline(1.5))
    1.0
    """

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> None:
        c = array_of(c)
        self.t = float64_of(t)
        self.k = operator.index(k)
        self.extrapolate = extrapolate
        self.axis = axis_index(axis, len(shape_of(c)))
        self.c = np.moveaxis(double_of(c), self.axis, 0)
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
        at = float64_of(x)
        if extrapolate == "periodic":
            at = t[k] + np.mod(at - t[k], t[count] - t[k])
        span = np.searchsorted(stop_gradient(t), stop_gradient(at), side="right") - 1
        span = np.clip(span, k, count - 1)
        rest = len(shape_of(self.c)) - 1
        wide = (*shape_of(at), *(1,) * rest)
        d = [picked(self.c, span - k + j) for j in range(k + 1)]
        for r in range(1, k + 1):
            for j in range(k, r - 1, -1):
                left, right = picked(t, span + j - k), picked(t, span + j + 1 - r)
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
    """`count` axes from `start` on."""
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
      x: the points, ascending. y: the values, along `axis`. k: the degree.
      t: knots; by default those of the not-a-knot spline.
      bc_type: None; CubicSpline has others for k = 3.

    >>> x = np.arange(6.0)
    >>> round(float(make_interp_spline(x, x**3)(2.5)), 9)
    15.625
    """
    if bc_type not in (None, "not-a-knot"):
        raise UnsupportedArgumentError(
            f"make_interp_spline(bc_type={bc_type!r}){user_line()}: only the not-a-knot spline is "
            "supported; CubicSpline takes other conditions."
        )
    x, y = float64_of(x), array_of(y)
    axis = axis_index(axis, len(shape_of(y)))
    y = np.moveaxis(y, axis, 0)
    if len(shape_of(x)) != 1 or shape_of(x)[0] != shape_of(y)[0]:
        raise ValueError(f"Shapes of x {shape_of(x)} and y {shape_of(y)} are incompatible")
    if not valueless() and np.any(np.diff(known(stop_gradient(x), "x")) <= 0):
        raise ValueError("Expect x to not have duplicates and to be sorted.")
    if t is None:
        if shape_of(x)[0] <= k:
            raise ValueError(f"The number of points {shape_of(x)[0]} is too few for degree {k}.")
        if k == 0:
            t = np.concatenate([x, x[-1:]])
        else:
            half, among = (k + 1) // 2, x if k % 2 else (x[1:] + x[:-1]) / 2.0
            inner = among[half : shape_of(among)[0] - half]
            t = np.concatenate([x[:1]] * (k + 1) + [inner] + [x[-1:]] * (k + 1))
    basis = BSpline(t, np.eye(shape_of(x)[0]), k)(x)
    flat = np.reshape(y, (shape_of(y)[0], -1))
    c = np.reshape(np.linalg.solve(basis, flat), shape_of(y))
    return BSpline(t, np.moveaxis(c, 0, axis), k, axis=axis)


def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """The value of a spline at x, or its derivative of order der, as scipy.interpolate.splev.

    Args:
      x: places, an array of any shape. tck: knots, a vector of coefficients, and the degree; or a
        BSpline of those. der: 0 to the degree. ext: outside of the knots, 0 extrapolates, 1 is 0,
        2 raises a ValueError, 3 gives the value at the nearer end (derivatives extrapolate).

    >>> t, c = np.array([0.0, 0.0, 1.0, 2.0, 2.0]), np.array([1.0, 3.0, 2.0])
    >>> splev([0.5, 1.5], (t, c, 1))
    array([2. , 2.5])
    """
    t, c, k = (tck.t, tck.c, tck.k) if isinstance(tck, BSpline) else tck
    t, c, x = array_of(t), array_of(c), float64_of(x)
    if len(shape_of(c)) != 1:
        raise UnsupportedArgumentError(
            f"splev of {shape_of(c)} coefficients{user_line()}: only a vector is supported. "
            "BSpline(t, c, k)(x, der) takes more, along its first axis."
        )
    if not 0 <= der <= k:
        raise ValueError(f"0<=der={der}<=k={k} must hold")
    if ext not in (0, 1, 2, 3):
        raise ValueError(f"ext = {ext} not in (0, 1, 2, 3) ")
    low, high = t[k], t[shape_of(t)[0] - k - 1]
    outside = np.logical_or(x < low, x > high)
    if ext == 2 and not valueless() and np.any(known(stop_gradient(outside), "x")):
        raise ValueError("Some of the places are outside of the knots.")
    value = BSpline(t, c, k)(np.clip(x, low, high) if ext == 3 and not der else x, der)
    return np.where(outside, 0.0, value) if ext == 1 else value


_OUTSIDE = {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}


class UnivariateSpline:
    """The spline through points, as scipy.interpolate.UnivariateSpline with s=0.

    Differentiable by x, y and the points of evaluation. (SciPy's search for the knots of a
    smoothing spline has no derivative.)

    Args:
      x: the points, ascending. y: the values, a vector. k: the degree, 1 to 5.
      s: 0, the default of InterpolatedUnivariateSpline. w, bbox: None.
      ext: outside of the points: see `splev`; or "extrapolate", "zeros", "raise", "const".

    Raises:
      UnsupportedArgumentError: for another s, w or bbox.

    >>> x = np.arange(6.0)
    >>> spline = UnivariateSpline(x, x**3, s=0)
    >>> round(float(spline(2.5)), 9), round(float(spline.integral(0.0, 2.0)), 9)
    (15.625, 4.0)
    """

    def __init__(
        self, x: Any, y: Any, w: Any = None, bbox: Any = (None, None), k: int = 3, s: Any = None,
        ext: Any = 0, check_finite: bool = False,
    ) -> None:  # fmt: skip
        if s != 0 or w is not None or any(end is not None for end in bbox):
            raise UnsupportedArgumentError(
                f"{type(self).__name__}(s={s}){user_line()} of traced values: only the spline "
                "through all points is supported, s=0 without w and bbox."
            )
        self._spline = make_interp_spline(x, y, k)
        self.ext = _OUTSIDE.get(ext, ext)

    def __call__(self, x: Any, nu: int = 0, ext: Any = None) -> Any:
        """The value at x, or the derivative of order nu."""
        return splev(x, self._spline, nu, self.ext if ext is None else _OUTSIDE.get(ext, ext))

    def get_knots(self) -> Any:
        """The inner knots, and those at both ends once."""
        t, k = self._spline.t, self._spline.k
        return t[k : shape_of(t)[0] - k]

    def get_coeffs(self) -> Any:
        """The coefficients."""
        return self._spline.c

    def derivatives(self, x: Any) -> Any:
        """The value and all derivatives at one point."""
        return np.stack([self(x, nu) for nu in range(self._spline.k + 1)])

    def derivative(self, n: int = 1) -> UnivariateSpline:
        """The spline of the derivative of order n."""
        return self._of(self._spline.derivative(n))

    def antiderivative(self, n: int = 1) -> UnivariateSpline:
        """The spline of the integral from the first point, n times."""
        t, c, k = self._spline.t, self._spline.c, self._spline.k
        for _ in range(n):
            parts = c * (t[k + 1 :] - t[: shape_of(c)[0]]) / (k + 1)
            c = np.concatenate([np.zeros(1), np.cumsum(parts)])
            t, k = np.concatenate([t[:1], t, t[-1:]]), k + 1
        return self._of(BSpline(t, c, k))

    def integral(self, a: Any, b: Any) -> Any:
        """The integral from a to b; the spline is zero outside of its points."""
        sums = self.antiderivative()
        return sums(b, ext=3) - sums(a, ext=3)

    def _of(self, spline: BSpline) -> UnivariateSpline:
        made = object.__new__(UnivariateSpline)
        made._spline, made.ext = spline, 0 if self.ext == 3 else self.ext
        return made


class InterpolatedUnivariateSpline(UnivariateSpline):
    """The spline through points, as scipy.interpolate.InterpolatedUnivariateSpline: see
    `UnivariateSpline`.

    >>> round(float(InterpolatedUnivariateSpline([0.0, 1.0, 2.0], [0.0, 1.0, 4.0], k=2)(1.5)), 9)
    2.25
    """

    def __init__(
        self, x: Any, y: Any, w: Any = None, bbox: Any = (None, None), k: int = 3, ext: Any = 0,
        check_finite: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(x, y, w, bbox, k, 0, ext)


def splrep(
    x: Any, y: Any, w: Any = None, xb: Any = None, xe: Any = None, k: int = 3, task: int = 0,
    s: Any = None, t: Any = None,
) -> tuple[Any, Any, int]:  # fmt: skip
    """The knots, coefficients and degree of the spline through points, as scipy.interpolate.splrep
    with s=0, its default without weights.

    Raises:
      UnsupportedArgumentError: for another s or task, for weights, ends or knots.

    >>> x = np.arange(6.0)
    >>> round(float(splev(2.5, splrep(x, x**3))), 9)
    15.625
    """
    if s or task or any(v is not None for v in (w, xb, xe, t)):
        raise UnsupportedArgumentError(
            f"splrep(s={s}, task={task}){user_line()} of traced values: only the spline through "
            "all points is supported, s=0 without w, xb, xe and t."
        )
    spline = make_interp_spline(x, y, k)
    return spline.t, np.concatenate([spline.c, np.zeros(k + 1)]), k


class CubicSpline(CubicHermiteSpline):
    """The cubic spline through points, as scipy.interpolate.CubicSpline.

    Differentiable by x, y, the values of boundary conditions, and the points of evaluation.

    Args:
      x: the points, ascending. y: real or complex values; axis: their axis along x.
      bc_type: "not-a-knot", "natural", "clamped", "periodic"; or a pair for both ends, whose
        entries may be (1, slope) or (2, second derivative).
      extrapolate: as in PPoly; "periodic" by default for a periodic spline.

    >>> import fungrad as fg
    >>> x = np.arange(5.0)
    >>> round(float(CubicSpline(x, x**3)(2.5)), 9)
    15.625
    >>> round(float(fg.grad(lambda at: CubicSpline(x, x**3)(at))(2.0)), 9)
    12.0
    """

    def __init__(
        self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
    ) -> None:
        x, y, axis, _ = prepared(x, y, axis)
        ends = _conditions(bc_type, y, axis)
        if extrapolate is None and ends[0] == "periodic":
            extrapolate = "periodic"
        dtype = np.result_type(y.dtype, *[e[1].dtype for e in ends if not isinstance(e, str)])
        y = cast(y, dtype)
        slopes = y * 0.0 if 0 in shape_of(y) else _slopes(x, y, ends)
        self._through(x, y, slopes, axis, extrapolate)


Condition = Any
"""A name, or the pair (order of the derivative, its value)."""


def _conditions(bc_type: Any, y: Any, axis: int) -> list[Condition]:
    shape = shape_of(y)[1:]
    if isinstance(bc_type, str):
        if bc_type == "periodic" and not valueless():
            first, last = (known(stop_gradient(y[i]), "y") for i in (0, -1))
            if not np.allclose(first, last, rtol=1e-15, atol=1e-15):
                raise ValueError(
                    f"The first and last `y` point along axis {axis} must be identical (within "
                    "machine precision) when bc_type='periodic'."
                )
        bc_type = (bc_type, bc_type)
    elif len(bc_type) != 2:
        raise ValueError("`bc_type` must contain 2 elements to specify start and end conditions.")
    elif any(isinstance(bc, str) and bc == "periodic" for bc in bc_type):
        raise ValueError(
            "'periodic' `bc_type` is defined for both curve ends and cannot be used with other "
            "boundary conditions."
        )
    return [_condition(bc, shape) for bc in bc_type]


def _condition(bc: Any, shape: tuple[int, ...]) -> Condition:
    if isinstance(bc, str):
        if bc in ("not-a-knot", "periodic"):
            return bc
        if bc not in ("clamped", "natural"):
            raise ValueError(f"bc_type={bc} is not allowed.")
        return (1 if bc == "clamped" else 2, np.zeros(shape))
    if not isinstance(bc, (tuple, list)) or len(bc) != 2:
        raise ValueError("A specified derivative value must be given in the form (order, value).")
    order, value = bc
    if order not in (1, 2):
        raise ValueError("The specified derivative order must be 1 or 2.")
    value = array_of(value)
    if shape_of(value) != shape:
        raise ValueError(f"`deriv_value` shape {shape_of(value)} is not the expected one {shape}.")
    return (order, value)


def _slopes(x: Any, y: Any, ends: list[Condition]) -> Any:
    """The slopes at the points."""
    n = shape_of(x)[0]
    h = np.diff(x)
    wide = column(h, len(shape_of(y)))
    m = np.diff(y, axis=0) / wide
    if n == 2:
        ends = [(1, m[0]) if isinstance(end, str) else end for end in ends]
    if n == 3 and ends == ["not-a-knot", "not-a-knot"]:
        # A parabola; both conditions are one.
        middle = (wide[:1] * m[1:] + wide[1:] * m[:1]) / (wide[:1] + wide[1:])
        return np.concatenate([2 * m[:1] - middle, middle, 2 * m[1:] - middle])
    inner = 3 * (wide[1:] * m[:-1] + wide[:-1] * m[1:])
    if ends[0] == "periodic":
        return _periodic(h, wide, m, inner)
    start, end = _end(ends[0], x, y, h, m, 0), _end(ends[1], x, y, h, m, -1)
    diagonal = np.concatenate([start[0], 2 * (h[:-1] + h[1:]), end[0]])
    zero = np.zeros(1)
    above = np.concatenate([zero, start[1], h[:-1]])
    below = np.concatenate([h[1:], end[1], zero])
    right = np.concatenate([start[2], inner, end[2]])
    return _solved(above, diagonal, below, right)


def _solved(above: Any, diagonal: Any, below: Any, right: Any) -> Any:
    """The solution of a tridiagonal system; the columns of `right` are its later axes."""
    flat = np.reshape(right, (shape_of(right)[0], -1))
    solution = solve_banded((1, 1), np.stack([above, diagonal, below]), flat)
    return np.reshape(solution, shape_of(right))


def _end(bc: Condition, x: Any, y: Any, h: Any, m: Any, at: int) -> tuple[Any, Any, Any]:
    """The row of an end: (diagonal, its neighbour, right side); at is 0 or -1."""
    near, far = (h[0], h[1] if shape_of(h)[0] > 1 else h[0]) if at == 0 else (
        h[-1], h[-2] if shape_of(h)[0] > 1 else h[-1]
    )  # fmt: skip
    beside = -2 if at else 1
    one = np.ones(1)
    if isinstance(bc, str):
        span = near + far
        right = ((near + 2 * span) * far * m[at] + near**2 * m[beside]) / span
        return far * one, span * one, right[None]
    order, value = bc
    if order == 1:
        return one, 0.0 * one, cast(value, y.dtype)[None]
    sign = -1.0 if at == 0 else 1.0
    rise = 3 * (y[1] - y[0]) if at == 0 else 3 * (y[-1] - y[-2])
    return 2 * near * one, near * one, (sign * 0.5 * value * near**2 + rise)[None]


def _periodic(h: Any, wide: Any, m: Any, inner: Any) -> Any:
    """The slopes of a periodic spline, by the tridiagonal system without its last unknown."""
    count = shape_of(h)[0]
    if count == 2:
        mean = np.sum(m / wide, axis=0) / np.sum(1.0 / wide, axis=0)
        return np.broadcast_to(mean, (3, *shape_of(m)[1:]))
    first = 3 * (wide[:1] * m[-1:] + wide[-1:] * m[:1])
    right = np.concatenate([first, inner])
    diagonal = 2 * (np.concatenate([h[-1:], h[:-1]]) + h)
    above = np.concatenate([np.zeros(1), h[-1:], h[: count - 3]])
    below = np.concatenate([h[1 : count - 1], np.zeros(1)])
    unit = np.zeros(count - 1)
    corner = np.concatenate([-h[:1], unit[2:] * 0.0, -h[count - 3 : count - 2]])
    if count == 3:
        corner = np.stack([-h[0], -h[0]])
    columns = np.reshape(right[:-1], (count - 1, -1))
    both = np.concatenate([columns, cast(corner, columns.dtype)[:, None]], axis=1)
    solution = solve_banded((1, 1), np.stack([above, diagonal[:-1], below]), both)
    own, other = solution[:, :-1], solution[:, -1:]
    last_right = np.reshape(right[-1:], (1, -1))
    left, beside = h[count - 2], h[count - 1]
    last = (last_right - left * own[:1] - beside * own[-1:]) / (
        diagonal[-1] + left * other[:1] + beside * other[-1:]
    )
    slopes = np.concatenate([own + last * other, last])
    slopes = np.concatenate([slopes, slopes[:1]])
    return np.reshape(slopes, (count + 1, *shape_of(m)[1:]))


register_pytree_node(
    CubicSpline,
    lambda p: ((p.c, p.x), (p.extrapolate, p.axis)),
    lambda aux, children: PPoly._made(*children, *aux),
)
