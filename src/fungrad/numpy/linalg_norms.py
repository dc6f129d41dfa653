"""numpy.linalg's norms, condition numbers and ranks.

A norm has the derivative 0 where it is 0, never NaN. Ties among the elements, sums or singular
values that a norm is the largest or smallest of share the derivative equally, as all ties do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.numpy import reductions
from fungrad.numpy.linalg_products import Error, matrices, squares
from fungrad.numpy.protocol.axes import axes_of, axis_index, flattened, with_axes_kept
from fungrad.numpy.protocol.implements import implements
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.elementwise.family import eq, logical_and, logical_not, mul, ne, select
from fungrad.primitives.linalg.eigh_svd import eigvalsh, svdvals
from fungrad.primitives.linalg.matrix_parts import bar, real_part
from fungrad.primitives.linalg.solve import inv
from fungrad.primitives.movement.reshape_broadcast_cast import cast, reduce_sum, reshape, transpose
from fungrad.primitives.reduction.reduce import reduce_all, reduce_any, root


def singular_values(x: Any, hermitian: bool = False) -> Any:
    """The singular values in descending order; those that are zero without a derivative, as abs."""
    if hermitian:
        (x,) = squares("svd", x)
        return np.sort(np.abs(eigvalsh(x, lower=True)))[..., ::-1]
    s = svdvals(*matrices("svd", x))
    return select(s > 0, s, 0.0)


def _of_vectors(x: Any, ord: Any, axis: int) -> Any:
    if ord == np.inf:
        return reductions.max(np.abs(x), axis=axis, initial=0)
    if ord == -np.inf:
        return reductions.min(np.abs(x), axis=axis)
    if ord == 0:
        return reduce_sum(cast(ne(x, 0), real_part(x).dtype), axes=(axis,))
    if ord == 1:
        return reduce_sum(np.abs(x), axes=(axis,))
    if ord is None or ord == 2:
        return _root_of_squares(x, (axis,))
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    size = np.abs(x)
    if x.shape[axis] == 0:
        return reduce_sum(size**ord, axes=(axis,)) ** (1 / ord)
    nothing = reduce_all(eq(x, 0), axes=(axis,))
    kept = with_axes_kept(nothing, x.shape, (axis,))
    total = reduce_sum(select(kept, 1.0, size) ** ord, axes=(axis,))
    return select(nothing, 0.0, total ** (1 / ord))


def _root_of_squares(x: Any, axes: tuple[int, ...]) -> Any:
    return root(reduce_sum(real_part(mul(bar(x), x)), axes=axes))


def _of_matrices(x: Any, ord: Any, row: int, column: int) -> Any:
    if ord is None or ord in ("fro", "f"):
        return _root_of_squares(x, (row, column))
    if ord in (2, -2) or ord == "nuc":
        others = [i for i in range(len(x.shape)) if i not in (row, column)]
        s = singular_values(transpose(x, axes=(*others, row, column)))
        last = len(s.shape) - 1
        if ord == "nuc":
            return reduce_sum(s, axes=(last,))
        return reductions.max(s, axis=last, initial=0) if ord == 2 else reductions.min(s, axis=last)
    if ord in (1, -1):
        sums = reduce_sum(np.abs(x), axes=(row,))
        axis = column - (column > row)
    elif ord in (np.inf, -np.inf):
        sums = reduce_sum(np.abs(x), axes=(column,))
        axis = row - (row > column)
    else:
        raise ValueError("Invalid norm order for matrices.")
    return (
        reductions.max(sums, axis=axis, initial=0) if ord > 0 else reductions.min(sums, axis=axis)
    )


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    """The norm of vectors or matrices, as numpy.linalg.norm; its derivative is 0 where it is 0."""
    x = array_of(x)
    if x.dtype.kind not in "fc":
        x = cast(x, np.float64)
    shape = x.shape
    ndim = len(shape)
    if axis is None:
        axes = tuple(range(ndim))
        if ord is None:
            y = _root_of_squares(x, axes)
            return with_axes_kept(y, shape, axes) if keepdims else y
    elif isinstance(axis, tuple):
        axes = tuple([axis_index(i, ndim) for i in axis])
    else:
        try:
            axes = (axis_index(int(axis), ndim),)
        except TypeError as error:
            raise TypeError("'axis' must be None, an integer or a tuple of integers") from error
    if len(axes) == 1:
        y = _of_vectors(x, ord, axes[0])
    elif len(axes) == 2:
        if axes[0] == axes[1]:
            raise ValueError("Duplicate axes given.")
        y = _of_matrices(x, ord, *axes)
    else:
        raise ValueError("Improper number of dimensions to norm.")
    return with_axes_kept(y, shape, axes) if keepdims else y


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: Any = False, ord: Any = "fro") -> Any:
    """The norm of the matrices of the last two axes, as numpy.linalg.matrix_norm."""
    return norm(x, ord, (-2, -1), keepdims)


@implements(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: Any = False, ord: Any = 2) -> Any:
    """The norm of all elements along one axis or several, as numpy.linalg.vector_norm."""
    x = array_of(x)
    shape = x.shape
    axes = axes_of(axis, len(shape))
    if len(axes) == len(shape):
        x = flattened(x)
        y = norm(x, ord, 0)
    elif len(axes) == 1:
        y = norm(x, ord, axes[0])
    else:
        rest = [i for i in range(len(shape)) if i not in axes]
        count = math.prod([shape[i] for i in axes])
        moved = transpose(x, axes=(*axes, *rest))
        y = norm(reshape(moved, shape=(count, *[shape[i] for i in rest])), ord, 0)
    return with_axes_kept(y, shape, axes) if keepdims else y


# --- condition and rank ---------------------------------------------------------------------------


@implements(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """The condition number of matrices in the norm p, as numpy.linalg.cond.

    The derivative in a norm other than 2 needs an inverse: a singular matrix raises there.
    """
    (x,) = matrices("cond", x)
    if 0 in x.shape[-2:]:
        raise Error("cond is not defined on empty arrays")
    with np.errstate(all="ignore"):
        if p is None or p in (2, -2):
            s = singular_values(x)
            largest, smallest = s[..., 0], s[..., -1]
            r = smallest / largest if p == -2 else largest / smallest
        else:
            (x,) = squares("cond", x)
            r = norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))
    ndim = len(x.shape)
    undefined = logical_and(ne(r, r), logical_not(reduce_any(ne(x, x), axes=(ndim - 2, ndim - 1))))
    return select(undefined, np.inf, r)


@implements(np.linalg.matrix_rank)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """The number of singular values that count as not zero, as numpy.linalg.matrix_rank."""
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    x = array_of(A)
    if len(x.shape) < 2:
        return cast(reductions.any(ne(x, 0)), np.int64)
    s = singular_values(x, hermitian)
    if tol is None:
        if rtol is None:
            rtol = max(x.shape[-2:]) * np.finfo(s.dtype).eps
        else:
            rtol = array_of(rtol)[..., None]
        tol = reductions.max(s, axis=-1, keepdims=True, initial=0) * rtol
    else:
        tol = array_of(tol)[..., None]
    return reductions.count_nonzero(s > tol, axis=-1)


__all__ = ["cond", "matrix_norm", "matrix_rank", "norm", "vector_norm"]
