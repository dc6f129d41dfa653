"""The one-dimensional convolution, along the last axis. Knows `multilinear` and shaping.

    full:  z[i] = sum over k of x[i - k] y[k], where both exist: n + m - 1 elements
    valid: z[i] = sum over k of x[i + m - 1 - k] y[k]: n - m + 1 elements, for n >= m

The axes before the last broadcast. Each adjoint is a convolution of the other kind with a flipped
argument.
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
from fungrad.primitives.facts import factor_of_complex
from fungrad.primitives.movement.reshape_broadcast_cast import flip, prepend_axes
from fungrad.primitives.primitive import Primitive
from fungrad.tracing.trace import shape_of


def _eval_convolve(x: Any, y: Any, *, mode: Any) -> Any:
    if x.ndim == y.ndim == 1:
        return np.convolve(x, y, mode)
    lead = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    count = math.prod(lead)
    rows_x = np.broadcast_to(x, (*lead, x.shape[-1])).reshape(count, x.shape[-1])
    rows_y = np.broadcast_to(y, (*lead, y.shape[-1])).reshape(count, y.shape[-1])
    length = _length(x.shape[-1], y.shape[-1], mode)
    result = np.empty((count, length), _dtype(x.dtype, y.dtype))
    for i in range(count):
        result[i] = np.convolve(rows_x[i], rows_y[i], mode)
    return result.reshape(*lead, length)


def _length(n: int, m: int, mode: str) -> int:
    return n + m - 1 if mode == "full" else n - m + 1


def _dtype(x: Any, y: Any) -> Any:
    return np.convolve(np.ones(1, x), np.ones(1, y)).dtype


def _type_convolve(x: Type, y: Type, *, mode: str) -> Type:
    n, m = x.shape[-1], y.shape[-1]
    if not m or n < (m if mode == "valid" else 1):
        raise ShapeError(f"Arrays of shapes {x.shape} and {y.shape} have no {mode} convolution.")
    lead = [Type(t.shape[:-1], t.dtype) for t in (x, y)]
    return Type(
        (*broadcast_shapes("convolve", lead), _length(n, m, mode)), _dtype(x.dtype, y.dtype)
    )


def _flipped(x: Any) -> Any:
    return flip(x, axes=(len(shape_of(x)) - 1,))


def _adjoint_x(ct: Any, x: Any, y: Any, *, mode: str) -> Any:
    return convolve(ct, _flipped(y), mode="valid" if mode == "full" else "full")


def _adjoint_y(ct: Any, x: Any, y: Any, *, mode: str) -> Any:
    if mode == "full":
        return convolve(ct, _flipped(x), mode="valid")
    return _flipped(convolve(x, _flipped(ct), mode="valid"))


def _batch_convolve(args: Any, batched: Any, size: int, *, mode: str) -> Any:
    ndim = max(len(shape_of(a)) - b for a, b in zip(args, batched, strict=True))
    aligned = [prepend_axes(a, ndim + 1) if b else a for a, b in zip(args, batched, strict=True)]
    return convolve(*aligned, mode=mode)


def cost_of_convolution(equation: Equation) -> int:
    """A product and a sum for each pair that meets, the direct sum."""
    axes = equation.params.get("axes", 1)
    n, m = (atom.type.shape[atom.type.ndim - axes :] for atom in equation.inputs)
    result = equation.outputs[0].type
    lengths = result.shape[result.ndim - axes :]
    pairs = math.prod(n) if equation.params["mode"] == "full" else math.prod(lengths)
    lead = result.size // max(math.prod(lengths), 1)
    return 2 * lead * pairs * math.prod(m) * factor_of_complex(equation)


convolve: Primitive = multilinear(
    "convolve",
    cost=cost_of_convolution,
    eval=_eval_convolve,
    type=_type_convolve,
    adjoints=[_adjoint_x, _adjoint_y],
    batch=_batch_convolve,
)
"""`convolve(x, y, mode=)`: the convolution along the last axis, mode "full" or "valid"."""

__all__ = ["convolve", "cost_of_convolution"]
