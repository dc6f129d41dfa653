"""CubicSpline: cubic pieces with two continuous derivatives, as in scipy.interpolate.

Its slopes solve a tridiagonal system (de Boor, A Practical Guide to Splines, 1978, chapter IV),
which depends on the points, and is differentiated with them. Knows boundary conditions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.custom_rules.closures_and_arguments import valueless
from fungrad.numpy.protocol.implements import known
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.scipy.interpolate.piecewise import CubicHermiteSpline, PPoly, column, prepared
from fungrad.scipy.linalg.equations import solve_banded
from fungrad.tracing.trace import shape_of
from fungrad.tree_util import register_pytree_node


class CubicSpline(CubicHermiteSpline):
    """The cubic spline through points, as scipy.interpolate.CubicSpline.

    Differentiable by x, y, the values of boundary conditions, and where it is evaluated.

    Args:
      x: the points, ascending. y: real or complex values; axis: which axis of them goes along x.
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
    """The solution of a tridiagonal system with the columns of `right` behind the first axis."""
    flat = np.reshape(right, (shape_of(right)[0], -1))
    found = solve_banded((1, 1), np.stack([above, diagonal, below]), flat)
    return np.reshape(found, shape_of(right))


def _end(bc: Condition, x: Any, y: Any, h: Any, m: Any, at: int) -> tuple[Any, Any, Any]:
    """The row of an end: (its diagonal, the element beside it, the right side); at is 0 or -1."""
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
    found = solve_banded((1, 1), np.stack([above, diagonal[:-1], below]), both)
    own, other = found[:, :-1], found[:, -1:]
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

__all__ = ["CubicSpline"]
