"""Functional updates `x.at[index].set(values)`, for `x[index] = values`; also add, multiply, min...

indexing.py reads the index, primitives/movement/scatter.py writes. The index may be a mask of which
only the type is known: it chooses between the changed and the old elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import GradientCutError, ShapeError
from fungrad.numpy.indexing import parsed
from fungrad.numpy.protocol.implements import as_array
from fungrad.primitives.elementwise.family import add, div, mul, neg, select
from fungrad.primitives.elementwise.ufuncs import maximum, minimum, power
from fungrad.primitives.movement import scatter as s
from fungrad.primitives.movement.gather import Index, getitem, layout, repeatable
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, cast, full, reshape
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, registry, shape_of, typeof


class At:
    """`x.at`: index it, and call a method of the result, which returns the changed array.

    >>> import numpy as np, fungrad as fg
    >>> def f(x):
    ...     return np.sum(x.at[0].set(0.0) ** 2)
    >>> fg.grad(f)(np.array([1.0, 2.0]))
    array([0., 4.])
    """

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> AtIndex:
        return AtIndex(self._array, index)

    def __repr__(self) -> str:
        return f"{self._array!r}.at"


class AtIndex:
    """Elements of an array, named by an index: `x.at[index]`.

    Every method but `get` returns a copy of x with x[index] changed, of the same dtype. If the
    index names an element more than once, `set` keeps the last value, and the others apply every
    value.
    """

    __slots__ = ("_array", "_index")

    def __init__(self, array: Any, index: Any) -> None:
        self._array = as_array(array)
        self._index = index

    def get(self) -> Any:
        """x[index]."""
        x, index, arrays = parsed(self._array, self._index)
        return getitem(x, *arrays, index=index)

    def set(self, values: Any) -> Any:
        """x after `x[index] = values`."""
        return self._write("set", s.index_set, lambda x, v: v, values)

    def add(self, values: Any) -> Any:
        """x after `np.add.at(x, index, values)`."""
        return self._write("add", s.index_add, add, values)

    def subtract(self, values: Any) -> Any:
        """x after `np.subtract.at(x, index, values)`."""
        values = _fitting("subtract", as_array(values), typeof(self._array).dtype)
        return self._write("subtract", s.index_add, add, neg(values))

    def multiply(self, values: Any) -> Any:
        """x after `np.multiply.at(x, index, values)`."""
        return self._write("multiply", s.index_multiply, mul, values)

    mul = multiply

    def divide(self, values: Any) -> Any:
        """x after `np.divide.at(x, index, values)`."""
        return self._write("divide", _by_product(div), div, values)

    def power(self, values: Any) -> Any:
        """x after `np.power.at(x, index, values)`."""
        return self._write("power", _by_product(power), power, values)

    def min(self, values: Any) -> Any:
        """x after `np.minimum.at(x, index, values)`; ties share the derivative equally."""
        return self._write("min", s.index_min, minimum, values)

    def max(self, values: Any) -> Any:
        """x after `np.maximum.at(x, index, values)`; ties share the derivative equally."""
        return self._write("max", s.index_max, maximum, values)

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """x with function(x[index]) in place of x[index]."""
        return self.set(function(self.get()))

    def __repr__(self) -> str:
        return f"{self._array!r}.at[{self._index!r}]"

    def _write(
        self, name: str, primitive: Callable[..., Any], combine: Callable[..., Any], values: Any
    ) -> Any:
        values = _fitting(name, as_array(values), typeof(self._array).dtype)
        index = self._index
        if type(index) is Tracer and index.dtype == np.bool_:
            return chosen(self._array, index, combine, values)
        x, static, arrays = parsed(self._array, index)
        wanted = layout(static, shape_of(x), [shape_of(a) for a in arrays]).shape
        written = primitive(x, spread(values, wanted, static), *arrays, index=static)
        return written if x is self._array else reshape(written, shape=shape_of(self._array))


def chosen(x: Any, mask: Tracer, combine: Callable[..., Any], values: Any) -> Any:
    """x after a write by a mask that may be unknown: the mask chooses between both values."""
    shape = shape_of(x)
    axes = len(shape) - mask.ndim
    if axes < 0 or mask.shape != shape[: mask.ndim] or len(shape_of(values)) > axes:
        raise ShapeError(
            f"A write of values of shape {shape_of(values)} by a mask of shape {mask.shape} into "
            f"an array of shape {shape}{user_line()}: only the type of the mask is known, so that "
            "it has to have the array's leading axes, and the values can have the others at most. "
            "Use np.where(mask, values, x)."
        )
    mask = reshape(mask, shape=(*mask.shape, *(1,) * axes)) if axes else mask
    return cast(select(mask, combine(x, values), x), typeof(x).dtype)


def _by_product(combine: Callable[..., Any]) -> Callable[..., Any]:
    """Division and powers of repeated elements: once, by the product of all values."""

    def write(x: Any, values: Any, *arrays: Any, index: Index) -> Any:
        if repeatable(arrays) and not index.unique:
            ones = full(shape=shape_of(x), value=1, dtype=typeof(values).dtype)
            values = s.index_multiply(ones, values, *arrays, index=index)
            values = getitem(values, *arrays, index=index)
        changed = combine(getitem(x, *arrays, index=index), values)
        return s.index_set(x, cast(changed, typeof(x).dtype), *arrays, index=index)

    return write


def _fitting(name: str, values: Any, dtype: np.dtype[Any]) -> Any:
    """The values of `x.at[...].name(values)` in the array's dtype: see `fitting`."""
    if name == "divide" and dtype.kind in "iub":
        raise ShapeError(
            f"x.at[...].divide on an array of {dtype}{user_line()}: make it a float first."
        )
    return fitting(values, dtype, f"x.at[...].{name}", name == "set")


def fitting(values: Any, dtype: np.dtype[Any], what: str, by_set: bool) -> Any:
    """The values in the array's dtype, if NumPy would write them and no gradient is cut.

    Args:
      values: an array or number, traced or not.
      dtype: the array's dtype.
      what: the write, for messages.
      by_set: whether to apply NumPy's rule for `a[index] = v`, or that for `a[index] += v`.

    Raises:
      GradientCutError: if traced values would be rounded.
      ShapeError: if NumPy does not write them.
    """
    type_ = typeof(values)
    target = type_.dtype
    if target == dtype and not type_.weak:
        return values
    if type(values) is Tracer:
        check_cut(target, dtype, what)
    if not _writable(by_set, target, dtype, type_.weak):
        raise ShapeError(
            f"{what} cannot write values of dtype {target} into an array of dtype "
            f"{dtype}{user_line()}. Make the array a {target} first: x.astype(...)."
        )
    return cast(values, dtype)


def check_cut(found: np.dtype[Any], dtype: np.dtype[Any], what: str) -> None:
    """Raises GradientCutError if a cast to the dtype of an array rounds traced values."""
    if found.kind in "fc" and dtype.kind in "iub":
        raise GradientCutError(
            f"{what} of values of dtype {found} into an array of dtype {dtype}{user_line()} would "
            "round them and cut their gradient silently. Make the array a float first: "
            "x.astype(float)."
        )


_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def _writable(by_set: bool, found: np.dtype[Any], dtype: np.dtype[Any], weak: bool) -> bool:
    """Whether NumPy writes a dtype into another by `a[index] = v`, or by `a[index] += v`."""
    if by_set:
        return found.kind != "c" or dtype.kind == "c"
    if weak:
        return _KINDS[found.kind] <= _KINDS[dtype.kind]
    return np.can_cast(found, dtype, "same_kind")


def spread(values: Any, shape: tuple[int, ...], index: Index) -> Any:
    """Values broadcast to the shape that an index names."""
    sizes = shape_of(values)
    if sizes == shape:
        return values
    extra = len(sizes) - len(shape)
    if extra > 0 and sizes[:extra] == (1,) * extra:  # NumPy drops them
        sizes = sizes[extra:]
        values = reshape(values, shape=sizes)
    offset = len(shape) - len(sizes)
    if offset < 0 or any(n not in (1, m) for n, m in zip(sizes, shape[offset:], strict=True)):
        raise ShapeError(
            f"Values of shape {sizes} cannot be written{user_line()} to the elements of shape "
            f"{shape} that the index {index} names."
        )
    return broadcast_to(values, shape=shape)


registry.at = At
