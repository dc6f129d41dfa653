"""The memory layouts that traced arrays would have as NumPy's.

They decide whether a reshaped array is a view, and so which arrays a write changes. A computed
value has strides; those of a recorded value, which has no numbers, follow from the strides of its
equation's operands. Unknown strides are None: never a guess.
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
"""The stride of each axis, counted in elements; 0 along broadcast axes."""


class MemoryLayout(Record):
    """The memory layout of an array: its strides (None if unknown), which hold if the inputs
    `c_inputs` are in C order.
    """

    strides: Strides | None
    c_inputs: frozenset[Any] = frozenset()


LARGEST = 8
"""The most axes of arrays for which a small example is computed."""


def one_order(shape: Shape) -> bool:
    """Whether an array of this shape is in C and in Fortran order at once."""
    return sum([n != 1 for n in shape]) < 2 or 0 in shape


def dense(shape: Shape, axes: Sequence[int] | None = None) -> Strides:
    """The strides of an array without gaps whose axes have this order, the outermost first."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(range(len(shape)) if axes is None else axes):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def axes_of(shape: Shape, strides: Strides) -> list[int]:
    """The order of the axes in memory, the outermost first, of NumPy's copy (order "K")."""
    long = sorted([i for i, n in enumerate(shape) if n > 1], key=lambda i: -abs(strides[i]))
    rest = iter(long)
    return [next(rest) if n > 1 else i for i, n in enumerate(shape)]


def is_dense(shape: Shape, strides: Strides, axes: Sequence[int] | None = None) -> bool:
    """Whether an array has no gaps and its axes have this order, the outermost first."""
    pairs = zip(shape, strides, dense(shape, axes), strict=True)
    return 0 in shape or all(n == 1 or one == other for n, one, other in pairs)


def by_rows(shape: Shape, strides: Strides | None) -> bool:
    """Whether a copy that keeps the order of axes is surely in C order."""
    if strides is None:
        return one_order(shape)
    return one_order(shape) or axes_of(shape, strides) == list(range(len(shape)))


def memory_layout(value: Any) -> MemoryLayout:
    """The memory layout of an array, traced or not; of a batch, that of one example."""
    if type(value) is np.ndarray:
        return MemoryLayout(tuple([n // value.itemsize for n in value.strides]))
    if not hasattr(value, "owner"):
        return MemoryLayout(None)
    strides, c_inputs = value.owner.layout(value)
    if strides is not None and len(strides) > value.ndim:
        strides = strides[len(strides) - value.ndim :]
    return MemoryLayout(strides, c_inputs)


def follow(equation: Equation, given: Sequence[MemoryLayout]) -> list[MemoryLayout]:
    """The memory layouts of an equation's outputs, from those of its operands."""
    found = _follow(equation, [layout.strides for layout in given])
    c_inputs = frozenset().union(*[layout.c_inputs for layout in given])
    return [MemoryLayout(strides, c_inputs) for strides in found]


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
    """An array with these strides, whose elements must not be read."""
    return as_strided(np.empty(1, np.int8), shape, strides)


def of_reshape(equation: Equation, given: Sequence[Strides]) -> Strides:
    """The strides of the output of `reshape`."""
    old, new = equation.inputs[0].type.shape, equation.outputs[0].type.shape
    return reshaped(old, given[0], new) or dense(new)


def reshaped(old: Shape, strides: Strides, new: Shape) -> Strides | None:
    """The strides of an array reshaped in C order; None if it has to be copied.

    By NumPy's rule: between two boundaries that both shapes share, merged axes have to be adjacent
    in memory.
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
    """The strides of the output of `getitem`."""
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
    """The strides of the primitive's output for small arrays with the same order of axes."""
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
"""The rule for the strides of the output, by the `order` of the primitive."""
