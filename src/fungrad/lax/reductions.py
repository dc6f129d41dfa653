"""JAX's reductions, over given axes, by NumPy's functions or by any associative one; and
products of arrays by JAX's names.

Compositions of primitives; knows JAX's signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.lax.select_sort import dot_general
from fungrad.numpy.protocol.operands import array_of, axis_indices
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement.gather import Index, getitem
from fungrad.support import pytree
from fungrad.tracing.source_location import boundary, user_line
from fungrad.tracing.trace import shape_of, typeof


def _named(name: str, what: str, function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def reduction(operand: Any, axes: Sequence[int]) -> Any:
        return function(array_of(operand), axis=tuple(axes))

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"The {what} over axes, in the array's dtype."
    return reduction


reduce_max = _named("reduce_max", "largest elements", np.max)
reduce_min = _named("reduce_min", "least elements", np.min)
reduce_sum = _named("reduce_sum", "sum", lambda x, axis: np.sum(x, axis=axis, dtype=x.dtype))
reduce_prod = _named("reduce_prod", "product", lambda x, axis: np.prod(x, axis=axis, dtype=x.dtype))


def _bitwise(name: str, ufunc: np.ufunc, identity: int) -> Callable[[Any, Any], Any]:
    def reduction(operand: Any, axes: Sequence[int]) -> Any:
        x = array_of(operand)
        if x.dtype.kind not in "iub":
            raise ArgumentError(f"lax.{name} of {typeof(x)}{user_line()}: integers are needed.")
        start = np.array(identity).astype(x.dtype)[()]
        return reduce(x, start, ufunc, tuple(axes))

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"The elements over axes, combined by np.{ufunc.__name__}."
    return reduction


reduce_and = _bitwise("reduce_and", np.bitwise_and, -1)
reduce_or = _bitwise("reduce_or", np.bitwise_or, 0)
reduce_xor = _bitwise("reduce_xor", np.bitwise_xor, 0)

_FAST: dict[Any, Callable[..., Any]] = {
    np.add: reduce_sum,
    np.multiply: reduce_prod,
    np.maximum: reduce_max,
    np.minimum: reduce_min,
}


def _halves(x: Any) -> tuple[Any, Any, Any]:
    """Neighbours along the first axis, apart; and the last item, where their number is odd."""
    n = shape_of(x)[0]
    first = getitem(x, index=Index((slice(0, n - n % 2, 2),)))
    second = getitem(x, index=Index((slice(1, n, 2),)))
    return first, second, s.slice_axis(x, axis=0, start=n - n % 2, stop=n)


@boundary
def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: None = None,
) -> Any:
    """The elements over axes, combined by an associative function.

    Args:
      operands: an array, or a tree of arrays of one shape that are reduced together.
      init_values: a number for each array, of its dtype; an identity of the function.
      computation: (a, b) -> their combination, element by element, on trees like operands. It is
        called O(log n) times on whole arrays; lax.add, lax.mul, lax.max and lax.min are fast.
      dimensions: the axes. out_sharding: None.

    Raises:
      ShapeError: where the arrays have several shapes. ArgumentError: for initial values that are
        no numbers.

    >>> values, places = np.array([3.0, 5.0, 4.0]), np.arange(3)
    >>> def larger(a, b):
    ...     keep = a[0] >= b[0]
    ...     return np.where(keep, a[0], b[0]), np.where(keep, a[1], b[1])
    >>> best, place = reduce((values, places), (-np.inf, 0), larger, (0,))
    >>> float(best), int(place)
    (5.0, 1)
    """
    leaves, treedef = pytree.flatten(operands)
    xs = [array_of(x) for x in leaves]
    inits = pytree.match(treedef, init_values, "init_values of lax.reduce")
    shapes = {shape_of(x) for x in xs}
    if len(shapes) != 1:
        raise ShapeError(f"lax.reduce of arrays of shapes {sorted(shapes)}{user_line()}.")
    if any(shape_of(init) for init in inits):
        raise ArgumentError(f"init_values of lax.reduce have to be numbers{user_line()}.")
    (shape,) = shapes
    axes = axis_indices(tuple(dimensions), len(shape))
    inits = [s.cast(array_of(init), x.dtype) for init, x in zip(inits, xs, strict=True)]
    left = tuple([axis for axis in range(len(shape)) if axis not in axes])
    count = int(np.prod([shape[axis] for axis in axes], dtype=int))
    kept = tuple([shape[axis] for axis in left])
    if len(xs) == 1 and count and type(computation) is np.ufunc and computation in _FAST:
        return pytree.unflatten(treedef, [computation(inits[0], _FAST[computation](xs[0], axes))])
    xs = [s.reshape(s.transpose(x, axes=(*axes, *left)), shape=(count, *kept)) for x in xs]

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        found = computation(pytree.unflatten(treedef, a), pytree.unflatten(treedef, b))
        return list(pytree.match(treedef, found, "result of the computation of lax.reduce"))

    results = [s.broadcast_to(init, shape=kept) for init in inits]
    while count:
        halves = [_halves(x) for x in xs]
        if count % 2:
            last = [s.reshape(odd, shape=kept) for _, _, odd in halves]
            results = combine(last, results)
        count //= 2
        if count:
            xs = combine([a for a, _, _ in halves], [b for _, b, _ in halves])
    return pytree.unflatten(treedef, results)


def _place(name: str, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def place(operand: Any, axis: int, index_dtype: Any = np.intp) -> Any:
        return s.cast(function(array_of(operand), axis=axis), np.dtype(index_dtype))

    place.__name__ = place.__qualname__ = name
    place.__doc__ = f"Where the {what} element along an axis stands, the first of equal ones."
    return place


argmax = _place("argmax", "largest", np.argmax)
argmin = _place("argmin", "least", np.argmin)


def dot(
    lhs: Any, rhs: Any, *, dimension_numbers: Any = None, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: None = None,
) -> Any:  # fmt: skip
    """The product of vectors and matrices; with `dimension_numbers`, `dot_general`.

    >>> float(dot(np.array([1.0, 2.0]), np.array([3.0, 4.0])))
    11.0
    """
    x, y = array_of(lhs), array_of(rhs)
    if dimension_numbers is None:
        nx, ny = len(shape_of(x)), len(shape_of(y))
        if not (1 <= nx <= 2 and 1 <= ny <= 2):
            raise ShapeError(
                f"lax.dot of arrays of shapes {shape_of(x)} and {shape_of(y)}{user_line()}: it "
                "takes vectors and matrices; lax.dot_general takes any."
            )
        dimension_numbers = (([nx - 1], [0]), ([], []))
    return dot_general(x, y, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """The products of stacks of matrices, whose leading axes are the same.

    >>> batch_matmul(np.ones((2, 3, 4)), np.ones((2, 4, 5))).shape
    (2, 3, 5)
    """
    x, y = array_of(lhs), array_of(rhs)
    if shape_of(x)[:-2] != shape_of(y)[:-2] or min(len(shape_of(x)), len(shape_of(y))) < 2:
        raise ShapeError(
            f"lax.batch_matmul of stacks of shapes {shape_of(x)} and {shape_of(y)}{user_line()}: "
            "the leading axes have to be the same. np.matmul broadcasts."
        )
    return np.matmul(x, y)


__all__ = [
    "argmax", "argmin", "batch_matmul", "dot", "reduce", "reduce_and", "reduce_max", "reduce_min",
    "reduce_or", "reduce_prod", "reduce_sum", "reduce_xor",
]  # fmt: skip
