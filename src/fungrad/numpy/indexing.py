"""Floor 8: x[index] and NumPy's functions that pick elements, for traced values.

Reads an index as NumPy does, and hands the primitives its static part and its integer arrays. A mask has
to be known, since the shape of what it picks depends on it. Functional updates stand in updates.py.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from fungrad.numpy.wrap import as_array, implements, known
from fungrad.primitives.elementwise import select
from fungrad.primitives.indexing import ARRAY, Index, getitem, of_int
from fungrad.primitives.stacking import unstack
from fungrad.tracing.trace import EVAL, Tracer, current, leaked, shape_of, typeof

_BOOL = np.dtype(np.bool_)


def _fixed(entry: Any) -> bool:
    """Whether an entry of an index can stand in an Index as it is."""
    kind = entry.__class__
    if kind is int or entry is None or entry is Ellipsis:
        return True
    if kind is not slice:
        return False
    for part in (entry.start, entry.stop, entry.step):
        if part is not None and part.__class__ is not int:
            return False
    return True


def _getitem(self: Tracer, index: Any) -> Any:
    """NumPy's x[index]."""
    trace = current()
    if trace is EVAL:
        raise leaked(self)
    if index.__class__ is int:
        return trace.process(getitem, (self,), {"index": of_int(index)})
    if index.__class__ is tuple:
        for entry in index:
            if not _fixed(entry):
                break
        else:
            if index.count(Ellipsis) < 2:
                return trace.process(getitem, (self,), {"index": Index(index)})
    elif _fixed(index):
        return trace.process(getitem, (self,), {"index": Index((index,))})
    x, static, arrays = parsed(self, index)
    return getitem(x, *arrays, index=static)


def _iter(self: Tracer) -> Iterator[Any]:
    # A 0-d value has to refuse before the first item: NumPy asks whether it is a sequence.
    if not self.shape:
        raise TypeError("iteration over a 0-d array")
    return iter(unstack(self))


# --- reading an index --------------------------------------------------------------------------------------


def _integer(part: Any) -> int | None:
    return None if part is None else operator.index(part)


def _entry(item: Any) -> Any:
    """An item of an index: an int, a slice, None, Ellipsis, or an integer or boolean array."""
    if item is None or item is Ellipsis or item.__class__ is int:
        return item
    if item.__class__ is slice:
        return slice(_integer(item.start), _integer(item.stop), _integer(item.step))
    if isinstance(item, (list, tuple)) and not len(item):
        return np.zeros(0, np.intp)
    if isinstance(item, (np.integer, int)) and not isinstance(item, bool):
        return operator.index(item)
    array = np.asarray(item) if isinstance(item, (bool, np.bool_)) else as_array(item)
    kind = typeof(array).dtype.kind
    if kind not in "iub":
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean "
            f"arrays are valid indices, not {typeof(array)}"
        )
    return known(array, "a boolean index (x[mask])") if kind == "b" else array


def parsed(x: Any, index: Any) -> tuple[Any, Index, list[Any]]:
    """What to index, the static part of the index, and its integer arrays.

    Masks become the integer arrays of their true elements. What to index is x, but for 0-d masks, which
    index a new axis of it.
    """
    items = [_entry(item) for item in (index if index.__class__ is tuple else (index,))]
    if sum(1 for item in items if item is Ellipsis) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    masks = [item for item in items if item.__class__ is np.ndarray and item.dtype == _BOOL]
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
        elif item.__class__ is np.ndarray and item.dtype == _BOOL:
            for offset, length in enumerate(item.shape):
                if axis + offset < len(shape) and length != shape[axis + offset]:
                    raise IndexError(
                        f"boolean index did not match indexed array along axis {axis + offset}; size of axis "
                        f"is {shape[axis + offset]} but size of corresponding boolean axis is {length}"
                    )
            result.extend(item.nonzero())
            axis += item.ndim
            continue
        else:
            axis += _taken(item)
        result.append(item)
    return _split(x, result, len(arrays) == 1)


def _is_array(item: Any) -> bool:
    return item.__class__ is np.ndarray or item.__class__ is Tracer


def _taken(item: Any) -> int:
    """How many axes an item of an index stands for."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if item.__class__ is np.ndarray and item.dtype == _BOOL else 1


def _split(x: Any, items: list[Any], unique: bool) -> tuple[Any, Index, list[Any]]:
    entries = tuple([ARRAY if _is_array(item) else item for item in items])
    return x, Index(entries, unique), [item for item in items if _is_array(item)]


def _with_new_axes(x: Any, items: list[Any]) -> tuple[Any, list[Any]]:
    """0-d masks as integer arrays that index new axes of length 1: [0] for True, [] for False."""
    before: list[Any] = []
    after: list[Any] = []
    for item in items:
        if item.__class__ is np.ndarray and item.dtype == _BOOL and not item.ndim:
            before.append(None)
            after.append(np.zeros(int(item), np.intp))
        else:
            before.extend([item] if item is Ellipsis else [slice(None)] * _taken(item))
            after.append(item)
    return getitem(x, index=Index(tuple(before))), after


# --- functions -----------------------------------------------------------------------------------------------


@implements(np.where)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """x where the condition holds, else y, as numpy.where; the branch not taken has exactly no derivative.

    With the condition alone it is nonzero, for which the condition has to be known.
    """
    if x is None and y is None:
        return known(condition, "np.where(condition)").nonzero()
    condition = as_array(condition)
    if typeof(condition).dtype != _BOOL:
        condition = condition != 0
    return select(condition, as_array(x), as_array(y))


METHODS: dict[str, Any] = {"__getitem__": _getitem, "__iter__": _iter}
"""ndarray's methods, by name."""

__all__ = ["where"]
