"""NumPy's products of arrays, composed of `dot_general`, and `mul` if nothing is summed.

einsum is in einsum_lowering.py.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.numpy.protocol.implements import if_known, implements
from fungrad.numpy.protocol.operands import array_of, axis_index, axis_indices
from fungrad.numpy.protocol.result_order import results_in_order
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import mul, neg, select, sub
from fungrad.primitives.movement.diagonal_roll import diagonal
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    cast,
    conj,
    moveaxis,
    reduce_sum,
    reshape,
    transpose,
)
from fungrad.primitives.movement.stack_iota import stack, unstack
from fungrad.tracing.trace import PLAIN, Tracer, registry

NONE: Any = ((), ())
VECTORS: Any = ((0,), (0,))


def _last_by_first(x: Any, y: Any, nx: int) -> Any:
    """The product summed over the last axis of x and the first of y."""
    return dot_general(x, y, contract=((nx - 1,), (0,)), batch=NONE)


def _matmul(x1: Any, x2: Any) -> Any:
    """np.matmul of array-like values."""
    x1, x2 = array_of(x1), array_of(x2)
    shape1, shape2 = x1.shape, x2.shape
    n1, n2 = len(shape1), len(shape2)
    if n1 == 0 or n2 == 0:
        raise ShapeError(
            f"matmul needs arrays with at least one axis, but got shapes {shape1} and {shape2}. "
            "Use x * y to scale by a number."
        )
    rows, columns = shape1[-1], shape2[-2 if n2 > 1 else 0]
    if rows != columns:
        raise ShapeError(
            f"matmul got arrays of shapes {shape1} and {shape2}: the last axis of the first "
            f"({rows}) has to be as long as the {'second last' if n2 > 1 else 'last'} of the "
            f"second ({columns})."
        )
    if n2 <= 2:
        return _last_by_first(x1, x2, n1)
    if n1 == 1:
        return dot_general(x2, x1, contract=((n2 - 2,), (0,)), batch=NONE)
    if n1 == 2:
        return moveaxis(dot_general(x1, x2, contract=((1,), (n2 - 2,)), batch=NONE), 0, n2 - 2)
    leading = _broadcast("matmul", shape1[:-2], shape2[:-2])
    if shape1[:-2] != leading:
        x1 = broadcast_to(x1, shape=(*leading, *shape1[-2:]))
    if shape2[:-2] != leading:
        x2 = broadcast_to(x2, shape=(*leading, *shape2[-2:]))
    count = len(leading)
    axes = tuple(range(count))
    return dot_general(x1, x2, contract=((count + 1,), (count,)), batch=(axes, axes))


def _broadcast(function: str, first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(first, second)
    except ValueError:
        raise ShapeError(
            f"{function} got stacks of shapes {first} and {second}, which cannot be broadcast "
            "together."
        ) from None


@implements(np.matmul)
def matmul(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None) -> Any:
    """The matrix product, as np.matmul: stacks of matrices broadcast, vectors lose their axis."""
    result = _matmul(x1, x2)
    return result if dtype is None else cast(result, dtype)


def _matmul_method(self: Tracer, other: Any) -> Any:
    if type(other) not in PLAIN:
        other = registry.operand(other)
        if other is NotImplemented:
            return NotImplemented
    return _matmul(self, other)


def _reflected_matmul_method(self: Tracer, other: Any) -> Any:
    other = registry.operand(other)
    if other is NotImplemented:
        return NotImplemented
    return _matmul(other, self)


def _dot(a: Any, b: Any) -> Any:
    a, b = array_of(a), array_of(b)
    na, nb = len(a.shape), len(b.shape)
    if na == 0 or nb == 0:
        return mul(a, b)
    axis = nb - 2 if nb > 1 else 0
    if a.shape[-1] != b.shape[axis]:
        raise ShapeError(
            f"dot got arrays of shapes {a.shape} and {b.shape}: the last axis of the first "
            f"({a.shape[-1]}) has to be as long as axis {axis} of the second ({b.shape[axis]})."
        )
    return dot_general(a, b, contract=((na - 1,), (axis,)), batch=NONE)


@implements(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """The sum of products over the last axis of a and the second last of b, as np.dot."""
    return _dot(a, b)


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    """The sum of products over the last axes, as np.inner."""
    a, b = array_of(a), array_of(b)
    na, nb = len(a.shape), len(b.shape)
    if na == 0 or nb == 0:
        return mul(a, b)
    return _contract("inner", a, b, ((na - 1,), (nb - 1,)))


def _contract(function: str, a: Any, b: Any, axes: tuple[tuple[int, ...], tuple[int, ...]]) -> Any:
    """dot_general without batch axes, with lengths checked; mul if there is nothing to sum."""
    lengths = tuple(a.shape[i] for i in axes[0]), tuple(b.shape[i] for i in axes[1])
    if lengths[0] != lengths[1]:
        raise ShapeError(
            f"{function} got arrays of shapes {a.shape} and {b.shape}: the axes {axes[0]} of the "
            f"first and {axes[1]} of the second, which are summed together, have lengths "
            f"{lengths[0]} and {lengths[1]}."
        )
    if len(a.shape) == 0 or len(b.shape) == 0:
        return mul(a, b)
    return dot_general(a, b, contract=axes, batch=NONE)


@implements(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """All products of an element of a with one of b, as a matrix, as np.outer."""
    a, b = array_of(a), array_of(b)
    return mul(reshape(a, shape=(a.size, 1)), _raveled(b))


def _raveled(x: Any) -> Any:
    return x if len(x.shape) == 1 else reshape(x, shape=(x.size,))


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """The sum of the products of conj(a) and b, as np.vdot."""
    a, b = _raveled(array_of(a)), _raveled(array_of(b))
    return _contract("vdot", _conjugated(a), b, VECTORS)


def _conjugated(x: Any) -> Any:
    return conj(x) if x.dtype.kind == "c" else x


@implements(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """The sum of products over the given axes, as np.tensordot."""
    a, b = array_of(a), array_of(b)
    na, nb = len(a.shape), len(b.shape)
    if issubclass(type(axes), (tuple, list, np.ndarray)):
        axes_a, axes_b = axes
        pair = axis_indices(_listed(axes_a), na), axis_indices(_listed(axes_b), nb)
        if len(pair[0]) != len(pair[1]):
            raise ValueError("shape-mismatch for sum")
    else:
        count = int(axes)
        if not 0 <= count <= min(na, nb):
            raise ValueError(
                f"tensordot over {count} axes of arrays of shapes {a.shape} and {b.shape}"
            )
        pair = tuple(range(na - count, na)), tuple(range(count))
    return _contract("tensordot", a, b, pair)


def _listed(axes: Any) -> Any:
    return axes.tolist() if issubclass(type(axes), np.ndarray) else axes


@implements(np.kron)
def kron(a: Any, b: Any) -> Any:
    """The Kronecker product, as np.kron."""
    a, b = array_of(a), array_of(b)
    ndim = max(len(a.shape), len(b.shape))
    shape_a = (1,) * (ndim - len(a.shape)) + a.shape
    shape_b = (1,) * (ndim - len(b.shape)) + b.shape
    between_a = tuple(n for length in shape_a for n in (length, 1))
    between_b = tuple(n for length in shape_b for n in (1, length))
    product = mul(reshape(a, shape=between_a), reshape(b, shape=between_b))
    return reshape(product, shape=tuple(n * m for n, m in zip(shape_a, shape_b, strict=True)))


@implements(np.trace)
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    """The sums along diagonals, as np.trace."""
    a = array_of(a)
    return sum_diagonal(a if dtype is None else cast(a, dtype), offset, axis1, axis2)


def sum_diagonal(a: Any, offset: Any, axis1: int, axis2: int) -> Any:
    """The sums along the diagonals of two axes; the offset may be traced."""
    a = last_two(a, axis1, axis2)
    number = if_known(offset)
    if number is None:
        rows, columns = a.shape[-2:]
        on = np.arange(columns) - np.arange(rows)[:, None] == array_of(offset)
        return reduce_sum(select(on, a, a.dtype.type(0)), axes=(len(a.shape) - 2, len(a.shape) - 1))
    line = diagonal(a, offset=operator.index(number))
    return reduce_sum(line, axes=(len(line.shape) - 1,))


def last_two(a: Any, axis1: int, axis2: int) -> Any:
    """The array with two of its axes moved to the end."""
    ndim = len(a.shape)
    if ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    first, second = axis_index(axis1, ndim), axis_index(axis2, ndim)
    if first == second:
        raise ValueError("axis1 and axis2 cannot be the same")
    axes = (*(i for i in range(ndim) if i not in (first, second)), first, second)
    return a if axes == tuple(range(ndim)) else transpose(a, axes=axes)


TWO_COMPONENTS = np.lib.NumpyVersion(np.__version__) < "2.5.0"
"""Whether np.cross still takes vectors of two components."""


@implements(np.cross)
@results_in_order("C")
def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """The products of vectors of three components, as np.cross; of two, too, before NumPy 2.5."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = array_of(a), array_of(b)
    if not a.shape or not b.shape:
        raise ValueError("At least one array has zero dimension")
    x, y = _components(a, axisa), _components(b, axisb)
    if {len(x), len(y)} - {2, 3}:
        raise ValueError("incompatible dimensions for cross product\n(dimension must be 2 or 3)")
    if 2 in (len(x), len(y)):
        if not TWO_COMPONENTS:
            raise ValueError(
                "Both input arrays must be (arrays of) 3-dimensional vectors, but they are "
                f"{len(x)} and {len(y)} dimensional instead."
            )
        warnings.warn(
            "Arrays of 2-dimensional vectors are deprecated. Use arrays of 3-dimensional vectors "
            "instead. (deprecated in NumPy 2.0)",
            DeprecationWarning,
            stacklevel=3,
        )
    last = sub(mul(x[0], y[1]), mul(x[1], y[0]))
    if len(x) == len(y) == 2:
        return last
    if len(x) == 3 and len(y) == 3:
        parts = [
            sub(mul(x[1], y[2]), mul(x[2], y[1])),
            sub(mul(x[2], y[0]), mul(x[0], y[2])),
            last,
        ]
    elif len(x) == 3:
        parts = [neg(mul(x[2], y[1])), mul(x[2], y[0]), last]
    else:
        parts = [mul(x[1], y[2]), neg(mul(x[0], y[2])), last]
    product = stack(*parts)
    return moveaxis(product, 0, axis_index(axisc, len(product.shape)))


def _components(x: Any, axis: int) -> Any:
    return unstack(moveaxis(x, axis_index(axis, len(x.shape)), 0))


def _vecdot(x1: Any, x2: Any, axis: int = -1) -> Any:
    x1, x2 = array_of(x1), array_of(x2)
    x1 = moveaxis(x1, axis_index(axis, len(x1.shape)), len(x1.shape) - 1)
    x2 = moveaxis(x2, axis_index(axis, len(x2.shape)), len(x2.shape) - 1)
    x1 = _conjugated(x1)
    if x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(
            f"vecdot got vectors of lengths {x1.shape[-1]} and {x2.shape[-1]}, which have to be "
            "equal."
        )
    leading = _broadcast("vecdot", x1.shape[:-1], x2.shape[:-1])
    shape = (*leading, x1.shape[-1])
    x1 = x1 if x1.shape == shape else broadcast_to(x1, shape=shape)
    x2 = x2 if x2.shape == shape else broadcast_to(x2, shape=shape)
    count = len(leading)
    axes = tuple(range(count))
    return dot_general(x1, x2, contract=((count,), (count,)), batch=(axes, axes))


@implements(np.vecdot)
def vecdot(x1: Any, x2: Any, /, out: Any = None, *, axis: int = -1, dtype: Any = None) -> Any:
    """The dot products of the vectors along an axis, the first conjugated, as np.vecdot."""
    result = _vecdot(x1, x2, axis)
    return result if dtype is None else cast(result, dtype)


def _matvec(x1: Any, x2: Any) -> Any:
    x1, x2 = array_of(x1), array_of(x2)
    if len(x2.shape) == 1:
        return _matmul(x1, x2)
    product = _matmul(x1, reshape(x2, shape=(*x2.shape, 1)))
    return reshape(product, shape=product.shape[:-1])


def _vecmat(x1: Any, x2: Any) -> Any:
    x1, x2 = _conjugated(array_of(x1)), array_of(x2)
    if len(x1.shape) == 1 or len(x2.shape) == 2:
        return _matmul(x1, x2)
    product = _matmul(reshape(x1, shape=(*x1.shape[:-1], 1, x1.shape[-1])), x2)
    return reshape(product, shape=(*product.shape[:-2], product.shape[-1]))


registry.ufuncs[np.matmul] = _matmul
registry.ufuncs[np.vecdot] = _vecdot
for _name, _function in (("matvec", _matvec), ("vecmat", _vecmat)):
    if hasattr(np, _name):  # of NumPy 2.2
        registry.ufuncs[getattr(np, _name)] = _function

CALLS: dict[np.ufunc, Any] = {u: registry.functions.pop(u) for u in (np.matmul, np.vecdot)}
"""The ufuncs that take other keywords than dtype, with their functions."""

METHODS: dict[str, Any] = {
    "__matmul__": _matmul_method,
    "__rmatmul__": _reflected_matmul_method,
    "dot": registry.functions[np.dot],
    "trace": registry.functions[np.trace],
}

__all__ = [
    "cross", "dot", "inner", "kron", "matmul", "outer", "tensordot", "trace", "vdot", "vecdot",
]  # fmt: skip
