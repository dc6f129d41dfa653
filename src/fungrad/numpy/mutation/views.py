"""The steps from a traced array to its views, and the links that functions of NumPy make.

Basic indices, reshaping and the order of axes have their own steps. The step of any other function
that returns a view is the function itself: `forward` calls it again, and `back` puts the elements
at the positions that it returns for an array of positions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from fungrad.primitives.elementwise import ufuncs as u
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement.gather import ARRAY, Index, getitem
from fungrad.primitives.movement.scatter import index_set
from fungrad.tracing.aliasing import (
    Apart,
    Step,
    alias_of,
    array_over,
    fresh,
    link,
    root_layout,
)
from fungrad.tracing.memory_order import MemoryLayout, dense, is_dense, reshaped
from fungrad.tracing.trace import EVAL, Tracer, enter, is_number, leave, shape_of

F = TypeVar("F", bound=Callable[..., Any])

# --- steps ----------------------------------------------------------------------------------------


class Indexed(Step):
    """A view by a basic index (no arrays in it)."""

    __slots__ = ("index",)

    def __init__(self, index: Index) -> None:
        self.index = index

    def forward(self, base: Any) -> Any:
        """base[index]."""
        return getitem(base, index=self.index)

    def back(self, base: Any, view: Any) -> Any:
        """The base after base[index] = view."""
        return index_set(base, view, index=self.index)

    def apart(self, region: Any) -> bool:
        """Whether the first entries name disjoint parts of the first axis."""
        if type(region) is not Indexed:
            return False
        one, other = self.index.entries[0], region.index.entries[0]
        if type(one) is int and type(other) is int:
            return one != other and (one < 0) == (other < 0)
        if type(one) is slice and type(other) is slice:
            return _before(one, other) or _before(other, one)
        return False


def _before(one: slice, other: slice) -> bool:
    """Whether a slice surely ends before another begins."""
    steps = one.step in (None, 1) and other.step in (None, 1)
    return (
        steps and one.stop is not None and other.start is not None and 0 <= one.stop <= other.start
    )


class Reshaped(Step):
    """A view of the same elements in another shape, in C order."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def forward(self, base: Any) -> Any:
        """The base in the view's shape."""
        return s.reshape(base, shape=self.shape)

    def back(self, base: Any, view: Any) -> Any:
        """The view in the base's shape."""
        return s.reshape(view, shape=shape_of(base))


class Transposed(Step):
    """A view with its axes in another order."""

    __slots__ = ("axes",)

    def __init__(self, axes: tuple[int, ...]) -> None:
        self.axes = axes

    def forward(self, base: Any) -> Any:
        """The base with its axes in the view's order."""
        return s.transpose(base, axes=self.axes)

    def back(self, base: Any, view: Any) -> Any:
        """The view with its axes in the base's order."""
        return s.transpose(view, axes=s.inverse_permutation(self.axes))


class Positions(Step):
    """A view of the elements at positions of the base, which is flattened in C order.

    The array of positions (intp) has the shape of the view.
    """

    __slots__ = ("index", "positions")

    def __init__(self, positions: Any) -> None:
        self.positions = positions
        once = np.unique(positions).size == positions.size
        self.index = Index((ARRAY,), unique=once)

    def forward(self, base: Any) -> Any:
        """The elements at the positions."""
        return getitem(_flat(base), self.positions, index=self.index)

    def back(self, base: Any, view: Any) -> Any:
        """The base with the view's elements at the positions."""
        shape = shape_of(base)
        return s.reshape(
            index_set(_flat(base), view, self.positions, index=self.index), shape=shape
        )


def _flat(x: Any) -> Any:
    shape = shape_of(x)
    return x if len(shape) == 1 else s.reshape(x, shape=(math.prod(shape),))


class ComplexPart(Step):
    """The real or the imaginary part of a complex array, as a view."""

    __slots__ = ("imaginary",)

    def __init__(self, imaginary: bool) -> None:
        self.imaginary = imaginary

    def forward(self, base: Any) -> Any:
        """The part of the base."""
        return u.imag(base) if self.imaginary else u.real(base)

    def back(self, base: Any, view: Any) -> Any:
        """The base with the view as this part."""
        if self.imaginary:
            return u.complex_of(u.real(base), view)
        return u.complex_of(view, u.imag(base))


class Again(Step):
    """A view that a function returns; for a new base the function is called again.

    `item` is the view's index among several results.
    """

    __slots__ = ("args", "function", "item", "kwargs")

    def __init__(self, function: Any, args: Any, kwargs: Any, item: int | None = None) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.item = item

    def forward(self, base: Any) -> Any:
        """The function's result for the base."""
        view = self.function(base, *self.args, **self.kwargs)
        return view if self.item is None else view[self.item]

    def back(self, base: Any, view: Any) -> Any:
        """The base with the view's elements where the function finds them."""
        return between(shape_of(base), self.forward).back(base, view)


def between(shape: tuple[int, ...], function: Callable[[Any], Any]) -> Step:
    """The step from a base of a shape to the view that a function of plain arrays returns."""
    token = enter(EVAL)
    try:
        positions = function(np.arange(math.prod(shape)).reshape(shape))
    finally:
        leave(token)
    return step_to(positions, shape)


def step_to(positions: Any, shape: tuple[int, ...]) -> Step:
    """The simplest step from a base of a shape to its elements at the given positions."""
    if positions.size == math.prod(shape):
        if _ascending(positions):
            return Reshaped(positions.shape)
        order = tuple(np.argsort([-abs(n) for n in positions.strides], kind="stable").tolist())
        turned = positions.transpose(order)
        if turned.shape == shape and _ascending(turned):
            return Transposed(s.inverse_permutation(order))
    return Positions(np.ascontiguousarray(positions, np.intp))


def _ascending(positions: Any) -> bool:
    return bool(np.all(positions.ravel() == np.arange(positions.size)))


# --- links ----------------------------------------------------------------------------------------


def views(function: F, refusal: str = "") -> F:
    """Links a function's results to its first argument, if that is a traced array.

    `refusal` describes the views if they are read-only.
    """

    @functools.wraps(function)
    def viewing(a: Any, *args: Any, **kwargs: Any) -> Any:
        view = function(a, *args, **kwargs)
        if type(a) is not Tracer:
            return view
        if type(view) is Tracer:
            step = Again(function, args, kwargs)
            return view if view is a else link(view, a, step, refusal)
        if type(view) in (tuple, list):
            for item, part in enumerate(view):
                if type(part) is Tracer and part is not a:
                    link(part, a, Again(function, args, kwargs, item), refusal)
        return view

    return cast(F, viewing)


def read_only_views(refusal: str) -> Callable[[F], F]:
    """`views` that cannot be written into; `refusal` describes them."""
    return functools.partial(views, refusal=refusal)


def each_view(function: F) -> F:
    """Links each result of a function of several arrays to the array that it comes from.

    A result with repeated elements is read-only.
    """

    @functools.wraps(function)
    def viewing(*arrays: Any, **kwargs: Any) -> Any:
        results = function(*arrays, **kwargs)
        parts = (results,) if type(results) is Tracer else results
        shapes = tuple([np.broadcast_to(0, a.shape) if type(a) is Tracer else a for a in arrays])
        for number, (array, part) in enumerate(zip(arrays, parts, strict=True)):
            if type(array) is Tracer and type(part) is Tracer and part is not array:
                alone = functools.partial(_one_of, function, number, shapes)
                refusal = "broadcast to another shape" if part.size > array.size else ""
                link(part, array, Again(alone, (), kwargs), refusal)
        return results

    return cast(F, viewing)


def _one_of(
    function: Callable[..., Any], number: int, arrays: tuple[Any, ...], base: Any, **kwargs: Any
) -> Any:
    results = function(*arrays[:number], base, *arrays[number + 1 :], **kwargs)
    return results[number] if type(results) in (tuple, list) else results


def linked(found: Any, base: Any, step: Step) -> Any:
    """Links a primitive's result to its operand, if both are handles."""
    if type(found) is Tracer and type(base) is Tracer:
        return link(found, base, step)
    return found


def reshaped_view(base: Any, found: Any, order: str, compact: bool) -> Any:
    """Links a reshaped array to its base, if NumPy would not copy the elements.

    `compact`: as np.ravel, elements with gaps between them are copied.
    """
    if type(base) is not Tracer or type(found) is not Tracer:
        return found
    strides, c_inputs = root_layout(base) if not _is_view(base) else layout_of(base)
    view = fresh(found) if found is base else found
    shape, new, by_columns = base.shape, found.shape, order == "F"
    if not shape and is_number(base):
        return array_over(view)
    if not compact and _long_axes(shape) == _long_axes(new):
        return link(view, base, Reshaped(new))
    if strides is None:
        return link(view, base, Apart(None))
    if by_columns:
        shape, strides, new = shape[::-1], strides[::-1], new[::-1]
    strides_of_view = dense(new) if 0 in shape else reshaped(shape, strides, new)
    if strides_of_view is None or (compact and not is_dense(shape, strides)):
        return link(view, base, Apart(c_inputs)) if c_inputs else view
    step: Step = Reshaped(found.shape)
    if by_columns:
        step = between(base.shape, lambda a: a.reshape(found.shape, order="F"))
    return link(view, base, step, c_inputs=c_inputs)


def _long_axes(shape: tuple[int, ...]) -> list[int]:
    """The lengths that are not 1: arrays that differ in the others share their memory layout."""
    return [n for n in shape if n != 1]


def _is_view(x: Tracer) -> bool:
    alias = alias_of(x)
    return alias is not None and alias.base is not None


def layout_of(x: Tracer) -> MemoryLayout:
    """The memory layout that an array would have in NumPy; that of a view follows from its base."""
    alias = alias_of(x)
    if alias is None or alias.base is None or type(alias.step) is Apart:
        return root_layout(x)
    (strides, c_inputs), step = layout_of(alias.base), alias.step
    if strides is None:
        return MemoryLayout(None)
    c_inputs, shape = c_inputs | alias.c_inputs, alias.base.shape
    if type(step) is Transposed:
        return MemoryLayout(tuple([strides[axis] for axis in step.axes]), c_inputs)
    if type(step) is ComplexPart:
        return MemoryLayout(tuple([2 * n for n in strides]), c_inputs)
    if hasattr(step, "in_memory"):  # of bits in another dtype
        return MemoryLayout(step.in_memory(strides, alias.base.dtype.itemsize), c_inputs)
    if type(step) is Indexed:
        dummy = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), shape, strides)
        return MemoryLayout(dummy[step.index.entries].strides, c_inputs)
    token = enter(EVAL)
    try:
        positions = step.forward(np.arange(math.prod(shape)).reshape(shape))
    finally:
        leave(token)
    return MemoryLayout(_laid(shape, strides, positions), c_inputs)


def _laid(shape: tuple[int, ...], strides: tuple[int, ...], positions: Any) -> tuple[int, ...]:
    """The strides of a view whose elements are at the given positions of an array, counted in C
    order.
    """
    if not positions.size:
        return dense(positions.shape)

    def offset(index: tuple[int, ...]) -> int:
        coordinates = np.unravel_index(positions[index], shape)
        return int(np.dot(coordinates, strides)) if coordinates else 0

    origin = (0,) * positions.ndim
    start = offset(origin)
    return tuple([
        offset((*origin[:axis], 1, *origin[axis + 1 :])) - start if length > 1 else 0
        for axis, length in enumerate(positions.shape)
    ])  # fmt: skip


def transposed_view(base: Any, axes: tuple[int, ...]) -> Any:
    """The array with its axes in another order, as a view."""
    view = s.transpose(base, axes=axes)
    return linked(view, base, Transposed(axes))
