"""JAX's reductions: by name, and of any associative function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.numpy.protocol.operands import array_of, axis_indices
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement.gather import Index, getitem
from fungrad.support import pytree
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of, typeof
from fungrad.tracing.transformed_function import boundary


def _named(
    name: str, what: str, function: Callable[..., Any], shown: str
) -> Callable[[Any, Any], Any]:
    def reduction(operand: Any, axes: Sequence[int]) -> Any:
        return function(array_of(operand), axis=tuple(axes))

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"""The {what} of `operand` over `axes`, in its dtype.

    Args:
      operand: an array of any shape.
      axes: the axes that are reduced; the others stay.

    >>> print({name}(np.array([[1.0, 2.0], [3.0, 5.0]]), (0,)))
    {shown}
    """
    return reduction


reduce_max = _named("reduce_max", "largest elements", np.max, "[3. 5.]")


reduce_min = _named("reduce_min", "least elements", np.min, "[1. 2.]")


reduce_sum = _named(
    "reduce_sum", "sum", lambda x, axis: np.sum(x, axis=axis, dtype=x.dtype), "[4. 7.]"
)


reduce_prod = _named(
    "reduce_prod", "product", lambda x, axis: np.prod(x, axis=axis, dtype=x.dtype), "[ 3. 10.]"
)


def _bitwise(name: str, ufunc: np.ufunc, identity: int, shown: str) -> Callable[[Any, Any], Any]:
    def reduction(operand: Any, axes: Sequence[int]) -> Any:
        x = array_of(operand)
        if x.dtype.kind not in "iub":
            raise ArgumentError(f"lax.{name} of {typeof(x)}{user_line()}: integers are needed.")
        start = np.array(identity).astype(x.dtype)[()]
        return reduce(x, start, ufunc, tuple(axes))

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"""The elements of `operand` over `axes`, combined by np.{ufunc.__name__}.

    Args:
      operand: an array of integers or booleans.
      axes: the axes that are reduced; the others stay.

    >>> print({name}(np.array([6, 3]), (0,)))
    {shown}
    """
    return reduction


reduce_and = _bitwise("reduce_and", np.bitwise_and, -1, "2")


reduce_or = _bitwise("reduce_or", np.bitwise_or, 0, "7")


reduce_xor = _bitwise("reduce_xor", np.bitwise_xor, 0, "5")


_FAST: dict[Any, Callable[..., Any]] = {
    np.add: reduce_sum,
    np.multiply: reduce_prod,
    np.maximum: reduce_max,
    np.minimum: reduce_min,
}


def _halves(x: Any) -> tuple[Any, Any, Any]:
    """The items of even and of odd index along the first axis; an unpaired last item separately."""
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
    """The elements over the axes `dimensions`, combined by an associative function.

    Args:
      operands: an array, or a tree of arrays of one shape that are reduced together.
      init_values: a number for each array, of its dtype; an identity of the function.
      computation: (a, b) -> their elementwise combination, on trees like operands. It is called
        O(log n) times on whole arrays; lax.add, lax.mul, lax.max and lax.min are fast.
      dimensions: the axes. out_sharding: None.

    Raises:
      ShapeError: if the arrays' shapes differ. ArgumentError: if an initial value is not a number.

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
        combined = computation(pytree.unflatten(treedef, a), pytree.unflatten(treedef, b))
        return list(pytree.match(treedef, combined, "result of the computation of lax.reduce"))

    results = [s.broadcast_to(init, shape=kept) for init in inits]
    return pytree.unflatten(treedef, _by_halves(xs, results, combine))


def _by_halves(
    xs: list[Any], results: list[Any], combine: Callable[[list[Any], list[Any]], list[Any]]
) -> list[Any]:
    """The items along the first axis combined in pairs until one is left, and with `results`."""
    count, *kept = shape_of(xs[0])
    while count:
        halves = [_halves(x) for x in xs]
        if count % 2:
            last = [s.reshape(odd, shape=tuple(kept)) for _, _, odd in halves]
            results = combine(last, results)
        count //= 2
        if count:
            xs = combine([a for a, _, _ in halves], [b for _, b, _ in halves])
    return results


def _index_of(name: str, what: str, function: Callable[..., Any], shown: int) -> Callable[..., Any]:
    def index(operand: Any, axis: int, index_dtype: Any = np.intp) -> Any:
        return s.cast(function(array_of(operand), axis=axis), np.dtype(index_dtype))

    index.__name__ = index.__qualname__ = name
    index.__doc__ = f"""The index of the first {what} element along `axis`, of dtype `index_dtype`.

    Args:
      operand: a real array with at least one axis.
      axis: the axis that is reduced.
      index_dtype: an integer dtype.

    >>> print({name}(np.array([3.0, 7.0, 1.0]), 0))
    {shown}
    """
    return index


argmax = _index_of("argmax", "largest", np.argmax, 1)


argmin = _index_of("argmin", "least", np.argmin, 2)


__all__ = [
    "argmax", "argmin", "reduce", "reduce_and", "reduce_max", "reduce_min", "reduce_or",
    "reduce_prod", "reduce_sum", "reduce_xor",
]  # fmt: skip
