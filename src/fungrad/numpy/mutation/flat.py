"""`x.flat`: reads and writes the elements of a traced array in C order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fungrad.numpy.mutation.assignment import write
from fungrad.numpy.mutation.views import Reshaped
from fungrad.numpy.protocol.implements import as_array
from fungrad.numpy.protocol.operands import array_of, flattened
from fungrad.primitives.movement.gather import ARRAY, Index, getitem
from fungrad.primitives.movement.reshape_broadcast_cast import reshape
from fungrad.support import pytree
from fungrad.tracing.aliasing import fresh, link
from fungrad.tracing.created_arrays import Writable, Written, holds_traced
from fungrad.tracing.trace import Tracer, registry, shape_of


class Flat:
    """The elements of a traced array in C order, as numpy.flatiter."""

    __slots__ = ("_next", "base")

    def __init__(self, base: Tracer) -> None:
        self.base = base
        self._next = 0

    def _elements(self) -> Tracer:
        """A view with one axis, for any memory layout of the array."""
        size = self.base.size
        return link(reshape(self.base, shape=(size,)), self.base, Reshaped((size,)))

    def copy(self) -> Any:
        """The elements as an array of their own."""
        return fresh(reshape(self.base, shape=(self.base.size,)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.copy()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*map(_plain, inputs), **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func(*pytree.map(_plain, args), **pytree.map(_plain, kwargs))

    def __len__(self) -> int:
        return int(self.base.size)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._next == len(self):
            raise StopIteration
        self._next += 1
        return self[self._next - 1]

    @property
    def index(self) -> int:
        """The position of the next element."""
        return self._next

    @property
    def coords(self) -> tuple[int, ...]:
        """The indices of the next element."""
        found, rest = [], self._next
        for size in reversed(self.base.shape[1:]):
            rest, index = divmod(rest, max(size, 1))
            found.append(index)
        return (rest, *reversed(found)) if self.base.shape else ()

    def __getitem__(self, index: Any) -> Any:
        element = self._elements()[index]
        return fresh(element) if type(element) is Tracer else element

    def __setitem__(self, index: Any, value: Any) -> None:
        elements = self._elements()
        count = shape_of(as_array(elements[index]))
        write(elements, index, cycled(value, count[0]) if count else _first(value))


class MadeFlat:
    """`flat` of an array that was made while tracing: NumPy's flatiter until a traced value is
    written into the array.
    """

    __slots__ = ("_elements", "base")

    def __init__(self, base: Writable, elements: np.flatiter[Any]) -> None:
        self.base = base
        self._elements = elements

    def _now(self) -> Any:
        return Flat(self.base.tracer) if type(self.base) is Written else self._elements

    def __getattr__(self, name: str) -> Any:
        return getattr(self._now(), name)

    def copy(self) -> Any:
        """The elements as an array of their own."""
        return self._now().copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.copy()

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._now())

    def __next__(self) -> Any:
        return next(self._elements)

    def __getitem__(self, index: Any) -> Any:
        return self._now()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if type(self.base) is Written or not (holds_traced(value) or holds_traced(index)):
            self._now()[index] = value
            return
        positions = np.arange(self.base.size)[index]
        values = cycled(value, positions.size) if np.ndim(positions) else _first(value)
        write(self.base, np.unravel_index(positions, self.base.shape), values)


registry.flat = MadeFlat


def _plain(value: Any) -> Any:
    return value.copy() if type(value) is Flat else value


pytree.mark_leaf(Flat)


def _first(value: Any) -> Any:
    x = array_of(value)
    return x if not x.shape else flattened(x)[0]


def cycled(values: Any, count: int) -> Any:
    """The values, flattened, and repeated to `count` elements."""
    flat = (
        flattened(array_of(values)) if shape_of(array_of(values)) else reshape(values, shape=(1,))
    )
    length = shape_of(flat)[0]
    if length == count or not length:
        return flat
    return getitem(flat, np.arange(count) % length, index=Index((ARRAY,)))


def _comparison(name: str) -> Callable[..., Any]:
    def method(self: Flat | MadeFlat, other: Any) -> Any:
        return getattr(self.copy(), name)(_plain(other))

    return method


for _name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
    setattr(Flat, _name, _comparison(_name))
    setattr(MadeFlat, _name, _comparison(_name))


def _write_all(self: Tracer, value: Any) -> None:
    Flat(self)[...] = value


METHODS: dict[str, Any] = {"flat": property(Flat, _write_all)}
