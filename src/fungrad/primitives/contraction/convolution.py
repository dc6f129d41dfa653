"""The convolution along one or several last axes.

    full:  z[i] = sum over k of x[i - k] y[k], where both exist: n + m - 1 elements
    valid: z[i] = sum over k of x[i + m - 1 - k] y[k]: n - m + 1 elements, for n >= m

The axes before them broadcast. Each adjoint is a convolution of the other kind with a flipped
argument. It is evaluated by np.convolve of each row, or as a sum of a whole array for each element
of the smaller operand.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.ir.graph import Equation
from fungrad.ir.types import Type
from fungrad.primitives.contraction.dot_general import multilinear
from fungrad.primitives.elementwise.family import broadcast_shapes
from fungrad.primitives.facts import TERMS, factor_of_complex
from fungrad.primitives.movement.reshape_broadcast_cast import aligned, flip
from fungrad.primitives.primitive import Primitive
from fungrad.tracing.trace import shape_of


def cost_of_convolution(equation: Equation) -> int:
    """A product and a sum for each pair of elements of the direct sum."""
    axes = equation.params["axes"]
    n, m = (atom.type.shape[atom.type.ndim - axes :] for atom in equation.inputs)
    result = equation.outputs[0].type
    lengths = result.shape[result.ndim - axes :]
    pairs = math.prod(n) if equation.params["mode"] == "full" else math.prod(lengths)
    lead = result.size // max(math.prod(lengths), 1)
    return 2 * lead * pairs * math.prod(m) * factor_of_complex(equation)


Sizes = tuple[int, ...]


def _lengths(n: Sizes, m: Sizes, mode: str) -> Sizes:
    if mode == "full":
        return tuple(a + b - 1 for a, b in zip(n, m, strict=True))
    return tuple(a - b + 1 for a, b in zip(n, m, strict=True))


def _slices(start: Sizes, lengths: Sizes) -> tuple[Any, ...]:
    return (..., *[slice(i, i + n) for i, n in zip(start, lengths, strict=True)])


def _spread(x: Any, index: Sizes) -> Any:
    """The elements of x at an index of its last axes, with axes of length 1 to scale an array."""
    return x[(..., *index)][(..., *([None] * len(index)))]


def _eval_convolve_nd(x: Any, y: Any, *, axes: int, mode: str) -> Any:
    if axes == x.ndim == y.ndim == 1:
        return np.convolve(x, y, mode)  # type: ignore[call-overload]
    n, m = x.shape[x.ndim - axes :], y.shape[y.ndim - axes :]
    lengths = _lengths(n, m, mode)
    lead = np.broadcast_shapes(x.shape[: x.ndim - axes], y.shape[: y.ndim - axes])
    out = np.zeros((*lead, *lengths), np.result_type(x, y))
    if axes == 1 and math.prod(lead) <= min(*n, *m):  # fewer rows than elements
        rows_x, rows_y = np.broadcast_to(x, (*lead, *n)), np.broadcast_to(y, (*lead, *m))
        for row in np.ndindex(*lead):
            out[row] = np.convolve(rows_x[row], rows_y[row], mode)  # type: ignore[call-overload]
    elif mode == "full":
        small, large = (x, y) if math.prod(n) < math.prod(m) else (y, x)
        inner = large.shape[large.ndim - axes :]
        for k in np.ndindex(*small.shape[small.ndim - axes :]):
            out[_slices(k, inner)] += _spread(small, k) * large
    elif math.prod(m) <= math.prod(lengths):
        last = tuple(k - 1 for k in m)
        for k in np.ndindex(*m):
            start = tuple(a - b for a, b in zip(last, k, strict=True))
            out += _spread(y, k) * x[_slices(start, lengths)]
    else:
        trailing = tuple(range(-axes, 0))
        flipped = np.flip(y, trailing)
        for i in np.ndindex(*lengths):
            out[(..., *i)] = np.sum(x[_slices(i, m)] * flipped, axis=trailing)
    return out


def _type_convolve_nd(x: Type, y: Type, *, axes: int, mode: str) -> Type:
    n, m = x.shape[x.ndim - axes :], y.shape[y.ndim - axes :]
    least = m if mode == "valid" else (1,) * axes
    if 0 in m or len(n) != axes or any(a < b for a, b in zip(n, least, strict=True)):
        raise ShapeError(f"Arrays of shapes {x.shape} and {y.shape} have no {mode} convolution.")
    lead = [Type(t.shape[: t.ndim - axes], t.dtype) for t in (x, y)]
    shape = (*broadcast_shapes("convolve", lead), *_lengths(n, m, mode))
    return Type(shape, np.result_type(x.dtype, y.dtype))


def _flipped_nd(x: Any, axes: int) -> Any:
    ndim = len(shape_of(x))
    return flip(x, axes=tuple(range(ndim - axes, ndim)))


def _adjoint_x_nd(ct: Any, x: Any, y: Any, *, axes: int, mode: str) -> Any:
    other = "valid" if mode == "full" else "full"
    return convolve_nd(ct, _flipped_nd(y, axes), axes=axes, mode=other)


def _adjoint_y_nd(ct: Any, x: Any, y: Any, *, axes: int, mode: str) -> Any:
    if mode == "full":
        return convolve_nd(ct, _flipped_nd(x, axes), axes=axes, mode="valid")
    return _flipped_nd(convolve_nd(x, _flipped_nd(ct, axes), axes=axes, mode="valid"), axes)


def _batch_convolve_nd(args: Any, batched: Any, size: int, *, axes: int, mode: str) -> Any:
    return convolve_nd(*aligned(args, batched), axes=axes, mode=mode)


convolve_nd: Primitive = multilinear(
    "convolve_nd",
    rounding=TERMS,
    cost=cost_of_convolution,
    eval=_eval_convolve_nd,
    type=_type_convolve_nd,
    adjoints=[_adjoint_x_nd, _adjoint_y_nd],
    batch=_batch_convolve_nd,
)
"""`convolve_nd(x, y, axes=, mode=)`: the convolution along that number of last axes, "full" or
"valid"; the axes before them broadcast."""
