"""In which order the axes of traced arrays lie in memory, as NumPy would have it.

Whether a reshaped array is a view depends on it, and so does who sees a write. A value that was
computed lies as it does; of a recorded one, which has no numbers, the strides follow from those of
what its equation reads. Where that is not known it is None: never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fungrad.ir.graph import Equation
from fungrad.support.lazy import Record

Shape = tuple[int, ...]
Strides = tuple[int, ...]
"""Of each axis, counted in elements; 0 along axes that were broadcast."""


class Lying(Record):
    """How an array lies: its strides, None where these are not known, and the inputs of which it
    counts that they lie in C order.
    """

    strides: Strides | None
    rows: frozenset[Any] = frozenset()


LARGEST = 8
"""The most axes of arrays of which a small example is computed."""


def one_order(shape: Shape) -> bool:
    """Whether an array of a shape lies in C and in Fortran order at once."""
    return sum([n != 1 for n in shape]) < 2 or 0 in shape


def dense(shape: Shape, axes: Sequence[int] | None = None) -> Strides:
    """The strides of an array without gaps whose axes lie in an order, the outermost first."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(range(len(shape)) if axes is None else axes):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def axes_of(shape: Shape, strides: Strides) -> list[int]:
    """The axes in the order in which an array like another one lies, the outermost first."""
    long = sorted([i for i, n in enumerate(shape) if n > 1], key=lambda i: -abs(strides[i]))
    rest = iter(long)
    return [next(rest) if n > 1 else i for i, n in enumerate(shape)]


def is_dense(shape: Shape, strides: Strides, axes: Sequence[int] | None = None) -> bool:
    """Whether an array lies without gaps, its axes in an order, the outermost first."""
    pairs = zip(shape, strides, dense(shape, axes), strict=True)
    return 0 in shape or all(n == 1 or one == other for n, one, other in pairs)


def by_rows(shape: Shape, strides: Strides | None) -> bool:
    """Whether a copy that keeps the order of axes surely lies in C order."""
    if strides is None:
        return one_order(shape)
    return one_order(shape) or axes_of(shape, strides) == list(range(len(shape)))


def lying(value: Any) -> Lying:
    """How an array lies in memory, traced or not; in a batch, how one example does."""
    if type(value) is np.ndarray:
        return Lying(tuple([n // value.itemsize for n in value.strides]))
    if not hasattr(value, "owner"):
        return Lying(None)
    strides, rows = value.owner.lies(value)
    if strides is not None and len(strides) > value.ndim:
        strides = strides[len(strides) - value.ndim :]
    return Lying(strides, rows)


def follow(equation: Equation, given: Sequence[Lying]) -> list[Lying]:
    """How what an equation gives lies, from how what it reads does."""
    found = _follow(equation, [lying.strides for lying in given])
    rows = frozenset().union(*[lying.rows for lying in given])
    return [Lying(strides, rows) for strides in found]


def _follow(equation: Equation, given: Sequence[Strides | None]) -> list[Strides | None]:
    shapes = [v.type.shape for v in equation.outputs]
    if all(map(one_order, shapes)):
        return [dense(shape) for shape in shapes]
    primitive: Any = equation.primitive
    order = primitive.order
    if order == "rows":
        return [dense(shape) for shape in shapes]
    if order is None or any(strides is None for strides in given):
        return [None] * len(shapes)
    rule = _RULES.get(order, order)
    return [rule(equation, given)] * len(shapes)


# --- rules ----------------------------------------------------------------------------------------


def _dummy(shape: Shape, strides: Strides) -> Any:
    """An array with strides, of which no element may be read."""
    return as_strided(np.empty(1, np.int8), shape, strides)


def of_reshape(equation: Equation, given: Sequence[Strides]) -> Strides:
    """How what `reshape` gives lies."""
    old, new = equation.inputs[0].type.shape, equation.outputs[0].type.shape
    return reshaped(old, given[0], new) or dense(new)


def reshaped(old: Shape, strides: Strides, new: Shape) -> Strides | None:
    """The strides of an array in another shape, in C order; None where it has to be copied.

    As NumPy finds them: between two boundaries that both shapes have, the axes that are merged have
    to lie side by side.
    """
    axes = [(n, s) for n, s in zip(old, strides, strict=True) if n != 1]
    found = [1] * len(new)
    first, start = 0, 0
    while first < len(axes) and start < len(new):
        end, stop = first + 1, start + 1
        count, size = axes[first][0], new[start]
        while count != size:
            if size < count:
                size *= new[stop]
                stop += 1
            else:
                count *= axes[end][0]
                end += 1
        for (_, outer), (length, inner) in pairwise(axes[first:end]):
            if outer != length * inner:
                return None
        step = axes[end - 1][1]
        for axis in reversed(range(start, stop)):
            found[axis] = step
            step *= new[axis]
        first, start = end, stop
    return tuple(found)


def of_index(equation: Equation, given: Sequence[Strides]) -> Strides | None:
    """How what `getitem` gives lies."""
    index, x = equation.params["index"], equation.inputs[0].type
    if len(equation.inputs) == 1:
        return _dummy(x.shape, given[0])[index.entries].strides  # type: ignore[no-any-return]
    entries = [
        0 if type(e) is int else slice(None) if type(e) is slice else e for e in index.entries
    ]
    return _by_example(equation, given, {"index": type(index)(tuple(entries))})  # in small arrays


def _view(equation: Equation, given: Sequence[Strides]) -> Strides:
    dummy = _dummy(equation.inputs[0].type.shape, given[0])
    found: Strides = equation.primitive.eval(dummy, **equation.params).strides
    return found


def _like_first(equation: Equation, given: Sequence[Strides]) -> Strides:
    shape = equation.outputs[0].type.shape
    return dense(shape, axes_of(shape, given[0]))


def _by_example(
    equation: Equation, given: Sequence[Strides], params: dict[str, Any] | None = None
) -> Strides | None:
    """The strides of what the primitive gives of small arrays that lie in the same order."""
    shape = equation.outputs[0].type.shape
    inputs = [a.type for a in equation.inputs]
    if getattr(equation.primitive, "partials", None) and all(
        one_order(t.shape) or (t.shape == shape and s == dense(shape))
        for t, s in zip(inputs, given, strict=True)
    ):
        return dense(shape)  # the usual case
    if max(map(len, [shape, *given])) > LARGEST:
        return None
    small = [example(t.shape, s, t.dtype) for t, s in zip(inputs, given, strict=True)]
    with np.errstate(all="ignore"):
        found = np.asarray(equation.primitive.eval(*small, **(params or equation.params)))
    if found.ndim != len(shape):
        return None
    return dense(shape, axes_of(tuple([min(n, 2) for n in shape]), found.strides))


def example(shape: Shape, strides: Strides, dtype: Any) -> Any:
    """An array of at most two elements along each axis, with the axes in the same order."""
    small = [min(n, 2) for n in shape]
    one = [1 if s == 0 else n for n, s in zip(small, strides, strict=True)]
    order = sorted(range(len(shape)), key=lambda i: -abs(strides[i]))
    array = np.zeros([one[i] for i in order], dtype)
    return np.broadcast_to(array.transpose(np.argsort(order)), small)


_RULES: dict[Any, Callable[[Equation, Sequence[Any]], Strides | None]] = {
    "view": _view,
    "first": _like_first,
    "example": _by_example,
}
"""How the strides of a result follow, by the `order` of the primitive."""
