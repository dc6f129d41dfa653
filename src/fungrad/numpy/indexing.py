"""x[index] and NumPy's functions that pick elements, for traced values.

Reads an index as NumPy does, and passes its static part and its integer arrays to the primitives.
A mask has to be known, since the shape of the result depends on it, unless the result is written
back by the same mask (mutation/masked_selection.py). Functional updates are in at_updates.py.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy import float64

from fungrad.errors import AbstractValueError
from fungrad.numpy.mutation.masked_selection import row_and_mask, selected
from fungrad.numpy.mutation.views import Indexed, linked
from fungrad.numpy.protocol.implements import as_array, implements, known, of_arrays
from fungrad.numpy.protocol.operands import axis_index, common_dtype, flattened
from fungrad.numpy.protocol.result_order import results_in_order
from fungrad.primitives.elementwise.family import select as pick
from fungrad.primitives.elementwise.ufuncs import maximum, minimum, remainder
from fungrad.primitives.movement.gather import ARRAY, Index, getitem, of_int, of_slice
from fungrad.primitives.movement.reshape_broadcast_cast import cast
from fungrad.primitives.movement.scatter import stable_order
from fungrad.primitives.movement.stack_iota import iota, unstack
from fungrad.primitives.runtime_check import in_range
from fungrad.tracing.aliasing import array_over, link
from fungrad.tracing.created_arrays import Writable, plain, writable
from fungrad.tracing.trace import (
    EVAL,
    Iterating,
    Tracer,
    current,
    is_integer,
    outlived,
    registry,
    shape_of,
    typeof,
)

_BOOL = np.dtype(np.bool_)
_STATIC = {int, type(None)}
"""The classes of the parts of a basic index, also of slices, but for Ellipsis."""


def _fixed(entry: Any) -> bool:
    """Whether an entry of an index can be an entry of an Index."""
    kind = type(entry)
    if kind is slice:
        return _STATIC.issuperset(map(type, (entry.start, entry.stop, entry.step)))
    return kind in _STATIC or entry is Ellipsis


def static_index(index: Any) -> Index | None:
    """An index as an Index, if it is basic (ints, slices, None and one Ellipsis); else None."""
    kind = type(index)
    if kind is int:
        return of_int(index)
    if kind is slice:
        start, stop, step = index.start, index.stop, index.step
        if type(start) in _STATIC and type(stop) in _STATIC and type(step) in _STATIC:
            return of_slice(start, stop, step)
        return None
    if kind is tuple:
        for entry in index:
            if not _fixed(entry):
                return None
        return Index(index) if index.count(Ellipsis) < 2 else None
    return Index((index,)) if index is None or index is Ellipsis else None


def _getitem(self: Tracer, index: Any) -> Any:
    """NumPy's x[index]: a view if the index is basic, else a copy."""
    trace = current()
    if trace is EVAL:
        return outlived(self)[index]
    static = of_int(index) if type(index) is int else static_index(index)
    if static is None:
        try:
            x, static, arrays = parsed(self, index)
        except AbstractValueError as error:
            row, mask = row_and_mask(self, index)
            return selected(row, mask, error)
        if arrays or x is not self:
            item = getitem(x, *arrays, index=static)
            return array_over(item) if static.view else item
    item = trace.item(getitem, self, static)
    if type(item) is not Tracer or (type(item.inner) is float64 and not static.view):
        return item
    if static.view or item.owner.shape(item):  # a number is no view
        step = static.step
        if step is None:
            step = static.step = Indexed(static)
        link(item, self, step)
        return array_over(item) if static.view else item
    return item


def _read(array: np.ndarray, index: Any) -> Any:
    """x[index] of plain numbers by a traced index."""
    held = plain(array) if type(array) is Writable else array
    try:
        x, static, arrays = parsed(held, index)
    except AbstractValueError as error:
        row, mask = row_and_mask(held, index)
        return selected(row, mask, error)
    return writable(getitem(x, *arrays, index=static))


registry.read = _read


def _iter(self: Tracer) -> Iterator[Any]:
    # A 0-d value has to refuse before the first item: NumPy asks whether it is a sequence.
    if not self.shape:
        raise TypeError("iteration over a 0-d array")
    return _items(self)


def _items(x: Tracer) -> Iterator[Any]:
    """The items along axis 0, all read at once; after a write into x the rest is read anew."""
    items = unstack(x)
    value, extra, numbers = x.inner, x.extra, x.ndim == 1
    for i, item in enumerate(items):
        if x.inner is not value or x.extra is not extra:
            yield x[i]
        else:
            yield item if numbers else linked(item, x, Indexed(of_int(i)))


# --- reading an index -----------------------------------------------------------------------------


def _integer(part: Any) -> int | None:
    return None if part is None else operator.index(part)


def _entry(item: Any) -> Any:
    """An item of an index: an int, a slice, None, Ellipsis, or an integer or boolean array."""
    if item is None or item is Ellipsis or type(item) is int:
        return item
    if type(item) is slice:
        return slice(_integer(item.start), _integer(item.stop), _integer(item.step))
    if isinstance(item, (list, tuple)) and not len(item):
        return np.zeros(0, np.intp)
    if is_integer(item) and not isinstance(item, bool):
        return operator.index(item)
    array = np.asarray(item) if issubclass(type(item), (bool, np.bool_)) else as_array(item)
    kind = typeof(array).dtype.kind
    if kind not in "iub":
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or "
            f"boolean arrays are valid indices, not {typeof(array)}"
        )
    return np.asarray(known(array, "a boolean index (x[mask])")) if kind == "b" else array


def parsed(x: Any, index: Any) -> tuple[Any, Index, list[Any]]:
    """The array to index, the static part of the index, and its integer arrays.

    Masks become the integer arrays of their true elements. The array to index is x, with new axes
    for 0-d masks.
    """
    items = [_entry(item) for item in (index if type(index) is tuple else (index,))]
    if sum(1 for item in items if item is Ellipsis) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    masks = [item for item in items if _is_mask(item)]
    if not masks:
        return _split(x, items, False)
    if any(not mask.ndim for mask in masks):
        x, items = _with_new_axes(x, items)
    given = sum(_taken(item) for item in items)
    arrays = [item for item in items if _is_array(item) and shape_of(item)]
    shape = shape_of(x)
    axis = 0
    result: list[Any] = []
    for item in items:
        if item is Ellipsis:
            axis += len(shape) - given
        elif _is_mask(item):
            _check_mask(item, shape, axis)
            result.extend(item.nonzero())
            axis += item.ndim
            continue
        else:
            axis += _taken(item)
        result.append(item)
    return _split(x, result, len(arrays) == 1)


def _is_mask(item: Any) -> bool:
    return type(item) is np.ndarray and item.dtype == _BOOL


def _check_mask(mask: Any, shape: tuple[int, ...], axis: int) -> None:
    """Raises NumPy's error if a mask does not have the shape of the axes from `axis` on."""
    for i, (length, size) in enumerate(zip(mask.shape, shape[axis:])):  # noqa: B905 - NumPy counts axes
        if length != size:
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis + i}; size of axis is "
                f"{size} but size of corresponding boolean axis is {length}"
            )


def _is_array(item: Any) -> bool:
    return type(item) is np.ndarray or type(item) is Tracer


def _taken(item: Any) -> int:
    """The number of axes that an item of an index reads."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if _is_mask(item) else 1


def _split(x: Any, items: list[Any], unique: bool) -> tuple[Any, Index, list[Any]]:
    entries = tuple([ARRAY if _is_array(item) else item for item in items])
    return x, Index(entries, unique), [item for item in items if _is_array(item)]


def _with_new_axes(x: Any, items: list[Any]) -> tuple[Any, list[Any]]:
    """0-d masks as integer arrays that index new axes of length 1: [0] for True, [] for False."""
    before: list[Any] = []
    after: list[Any] = []
    for item in items:
        if _is_mask(item) and not item.ndim:
            before.append(None)
            after.append(np.zeros(int(item), np.intp))
        else:
            before.extend([item] if item is Ellipsis else [slice(None)] * _taken(item))
            after.append(item)
    return getitem(x, index=Index(tuple(before))), after


# --- functions ------------------------------------------------------------------------------------


def _nonzero(a: Any) -> Any:
    return a.nonzero()


def _mask(condition: Any) -> Any:
    condition = as_array(condition)
    return condition if typeof(condition).dtype == _BOOL else condition != 0


def _truths(a: Any) -> Any:
    return np.asarray(a, bool)


SIZED = frozenset({"size", "fill_value"})
"""JAX's keywords of functions whose result has as many elements as a condition holds for."""


def _first_indices(a: Any, size: Any, fill_value: Any) -> tuple[Any, ...]:
    """The indices of the first `size` nonzero elements; for missing ones a fill value, or one for
    each axis, 0 by default. The values may be unknown.
    """
    a, size = as_array(a), operator.index(size)
    shape = shape_of(a)
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * len(shape)
    if len(fills) != len(shape):
        raise ValueError(f"fill_value has {len(fills)} entries for {len(shape)} axes.")
    if 0 in shape:
        return tuple([np.full(size, 0 if f is None else f, np.intp) for f in fills])
    mask = flattened(a) != 0
    first = stable_order(np.logical_not(mask))
    length = shape_of(mask)[0]
    first = getitem(first, np.minimum(np.arange(size), length - 1), index=Index((ARRAY,)))
    there = np.arange(size) < np.sum(mask)
    indices = np.unravel_index(first, shape)
    return tuple(
        [pick(there, i, 0 if f is None else f) for i, f in zip(indices, fills, strict=True)]
    )


@implements(np.where, own=SIZED)
@of_arrays
def where(
    condition: Any, x: Any = None, y: Any = None, /, *, size: Any = None, fill_value: Any = None
) -> Any:
    """x where the condition holds, else y, as numpy.where; no derivative of the branch not taken.

    With the condition alone it is nonzero, which needs a known condition, or `size`.
    """
    if x is None and y is None:
        return _nonzero_indices(condition, "np.where(condition)", size, fill_value)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    if size is not None or fill_value is not None:
        raise ValueError("size and fill_value are for where(condition) alone.")
    condition = as_array(condition)
    if typeof(condition).dtype != _BOOL:
        condition = condition != 0
    return pick(condition, as_array(x), as_array(y))


def _nonzero_indices(a: Any, asked: str, size: Any, fill_value: Any) -> Any:
    return known(a, asked, _nonzero) if size is None else _first_indices(a, size, fill_value)


@implements(np.nonzero, own=SIZED)
def nonzero(a: Any, *, size: Any = None, fill_value: Any = None) -> Any:
    """The indices of the nonzero elements, as numpy.nonzero; of unknown values with `size`.

    Args:
      a: the array.
      size: the number of results, so that the shape does not depend on the values (under jit and
        vmap): of more the first are returned.
      fill_value: the index for missing ones, or a tuple of one for each axis; 0 by default.

    >>> import numpy as np, fungrad as fg
    >>> fg.jit(lambda x: nonzero(x > 1, size=3, fill_value=-1))(np.arange(4.0))
    (array([ 2,  3, -1]),)
    """
    return _nonzero_indices(a, "np.nonzero", size, fill_value)


@implements(np.flatnonzero, own=SIZED)
def flatnonzero(a: Any, *, size: Any = None, fill_value: Any = None) -> Any:
    """The positions of the nonzero elements when flattened, as numpy.flatnonzero; `size` and
    `fill_value` as of nonzero.

    >>> flatnonzero(np.array([0.0, 2.0, 3.0]), size=1)
    array([1])
    """
    if size is None:
        return known(a, "np.flatnonzero", np.flatnonzero)
    return _first_indices(flattened(as_array(a)), size, fill_value)[0]


@implements(np.argwhere, own=SIZED)
def argwhere(a: Any, *, size: Any = None, fill_value: Any = None) -> Any:
    """The indices of the nonzero elements, one in each row, as numpy.argwhere; `size` and
    `fill_value` as of nonzero.

    >>> argwhere(np.eye(2), size=3, fill_value=7)
    array([[0, 0],
           [1, 1],
           [7, 7]])
    """
    if size is None:
        return known(a, "np.argwhere", np.argwhere)
    indices = _first_indices(a, size, fill_value)
    return np.stack(indices, axis=-1) if indices else np.zeros((size, 0), np.intp)


def positions_in(indices: Any, length: int, mode: str) -> Any:
    """Indices as numpy.take reads them, as integers or integer arrays."""
    indices = as_array(indices)
    dtype = typeof(indices).dtype
    if dtype.kind == "b" or (dtype.kind == "f" and not typeof(indices).size):
        indices = cast(indices, np.intp)
    elif dtype.kind not in "iu":
        raise TypeError(
            f"Cannot cast indices from {dtype} to integers according to the rule 'safe'"
        )
    if mode == "raise":
        return indices
    if dtype.itemsize < np.dtype(np.intp).itemsize:  # which may not hold the length
        indices = cast(indices, np.intp)
    if mode == "wrap":
        return remainder(indices, length)
    if mode == "clip":
        return minimum(maximum(indices, 0), length - 1)
    raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")


@implements(np.take)
@results_in_order("C")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    """The elements along an axis at the given indices, as numpy.take."""
    a = as_array(a)
    if axis is None or not shape_of(a):
        a = flattened(a)
    shape = shape_of(a)
    axis = axis_index(0 if axis is None else axis, len(shape))
    indices = positions_in(indices, shape[axis], mode)
    if type(indices) is int:
        return getitem(a, index=Index((*(slice(None),) * axis, indices)))
    return getitem(a, indices, index=Index((*(slice(None),) * axis, ARRAY)))


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """The elements of arr at positions of the axis, `indices`, as numpy.take_along_axis."""
    arr, arrays = indices_along(as_array(arr), as_array(indices), axis)
    lengths = zip(shape_of(indices), shape_of(arr), strict=axis is not None)
    single = axis is not None and shape_of(arrays[axis])[axis] == 1
    unique = single and all(given <= length for given, length in lengths)
    return getitem(arr, *arrays, index=Index((ARRAY,) * len(arrays), unique=unique))


def indices_along(arr: Any, indices: Any, axis: Any) -> tuple[Any, list[Any]]:
    """An array, flattened if the axis is None, and index arrays of elements along an axis."""
    if typeof(indices).dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        if len(shape_of(indices)) != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        arr, axis = flattened(arr), 0
    shape = shape_of(arr)
    ndim = len(shape)
    if len(shape_of(indices)) != ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    axis = axis_index(axis, ndim)
    arrays = [
        indices if i == axis else iota(shape=tuple([length if j == i else 1 for j in range(ndim)]))
        for i, length in enumerate(shape)
    ]
    return arr, arrays


@implements(np.compress)
@results_in_order("C")
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """The slices along an axis where a known condition holds, as numpy.compress."""
    a = as_array(a)
    if axis is None or not shape_of(a):
        a = flattened(a)
    axis = axis_index(0 if axis is None else axis, len(shape_of(a)))
    try:
        condition = known(condition, "np.compress(condition)", _truths)
    except AbstractValueError as error:
        if axis:
            raise
        return selected(a, _mask(condition), error)
    if np.ndim(condition) != 1:
        raise ValueError("condition must be a 1-d array")
    index = Index((*(slice(None),) * axis, ARRAY), unique=True)
    return getitem(a, np.flatnonzero(condition), index=index)


def _compress_method(self: Tracer, condition: Any, axis: Any = None, out: Any = None) -> Any:
    return registry.functions[np.compress](condition, self, axis, out)


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    """The elements where a known condition holds, as numpy.extract."""
    try:
        positions = known(condition, "np.extract(condition)", np.flatnonzero)
    except AbstractValueError as error:
        return selected(flattened(as_array(arr)), flattened(_mask(condition)), error)
    return getitem(flattened(as_array(arr)), positions, index=Index((ARRAY,), unique=True))


@implements(np.select)
@of_arrays
@results_in_order("C")
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """For each element, the first choice whose condition holds, as numpy.select."""
    conditions = [as_array(c) for c in condlist]
    choices = [as_array(c) for c in choicelist]
    if len(conditions) != len(choices):
        raise ValueError("list of cases must be same length as list of conditions")
    if not conditions:
        raise ValueError("select with an empty condition list is not possible")
    for i, condition in enumerate(conditions):
        if typeof(condition).dtype != _BOOL:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    dtype = common_dtype(*choices, default)
    result = cast(as_array(default), dtype)
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = pick(condition, cast(choice, dtype), result)
    return result


@implements(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """For each element of a, the element of the choice that it numbers, as numpy.choose.

    Raises:
      ValueError: if a number is out of range; in a compiled program when it runs.
    """
    items = [as_array(c) for c in choices]
    if not items:
        raise ValueError("0-length sequence.")
    a = positions_in(a, len(items), mode)
    if mode == "raise":
        a = in_range(a, len(items), "invalid entry in choice array")
    result = pick(a == 0, items[0], items[-1])
    for number, item in enumerate(items[1:-1], start=1):
        result = pick(a == number, item, result)
    return result


METHODS: dict[str, Any] = {
    "__getitem__": _getitem,
    "__iter__": Iterating(_iter),
    "compress": _compress_method,
    "choose": registry.functions[np.choose],
    "nonzero": registry.functions[np.nonzero],
    "take": registry.functions[np.take],
}
"""ndarray's methods, by name."""

__all__ = [
    "argwhere", "choose", "compress", "extract", "flatnonzero", "nonzero", "select", "take",
    "take_along_axis", "where",
]  # fmt: skip
