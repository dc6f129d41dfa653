"""NumPy's functions and ndarray's methods that write into an array, such as put, copyto, ufunc.at,
sort and fill.

Each computes the new array and passes it to `store` (assignment.py), which checks that the target
is writeable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.numpy.indexing import indices_along, parsed, positions_in
from fungrad.numpy.mutation.assignment import store, write
from fungrad.numpy.mutation.flat import cycled
from fungrad.numpy.protocol.at_updates import At, fitting, spread
from fungrad.numpy.protocol.implements import as_array, implements, known
from fungrad.numpy.protocol.operands import array_of, flattened
from fungrad.numpy.reductions import as_truth
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.gather import ARRAY, Index, getitem, layout, repeatable
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, reshape
from fungrad.primitives.movement.scatter import index_set
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, registry, shape_of, typeof

# --- ufunc.at -------------------------------------------------------------------------------------

_AT = {
    np.add: "add", np.subtract: "subtract", np.multiply: "multiply", np.divide: "divide",
    np.power: "power", np.minimum: "min", np.maximum: "max",
}  # fmt: skip
"""By ufunc: the method of `x.at[index]` that applies it each time an element is named."""


def ufunc_at(ufunc: np.ufunc, target: Any, index: Any, *values: Any) -> None:
    """`ufunc.at(target, index, values)`: the ufunc in place, also for repeated elements.

    Raises:
      UnsupportedArgumentError: if elements are repeated and the ufunc has no rule for that.
    """
    name = f"np.{ufunc.__name__}.at"
    x = as_array(target)
    part = At(x)[index]
    if ufunc in _AT and len(values) == 1:
        store(target, getattr(part, _AT[ufunc])(values[0]), "same_kind", name)
        return
    if _repeats(x, index):
        raise UnsupportedArgumentError(
            f"{name} was called on a traced value{user_line()} with an index that names an element "
            f"more than once, which is supported for {', '.join(sorted(u.__name__ for u in _AT))}."
        )
    write(target, index, ufunc(part.get(), *values))


def _repeats(x: Any, index: Any) -> bool:
    """Whether an index, which has to be known, names an element more than once."""
    x, static, arrays = parsed(x, index)
    if static.unique or not repeatable(arrays):
        return False
    whole = static.fill([known(a, "the index of np.ufunc.at") for a in arrays])
    positions = np.arange(typeof(x).size).reshape(shape_of(x))[whole]
    return bool(np.unique(positions).size < positions.size)


# --- functions ------------------------------------------------------------------------------------


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Writes values, where a condition holds, as np.copyto."""
    store(dst, as_array(src), casting, "np.copyto", where)


@implements(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Writes values, repeated as needed, at positions of the flattened array, as np.put."""
    x = array_of(a)
    positions = flattened(array_of(positions_in(ind, x.size, mode)))
    values = fitting(cycled(v, positions.shape[0]), x.dtype, "np.put", True)
    new = index_set(flattened(x), values, positions, index=Index((ARRAY,)))
    store(a, reshape(new, shape=x.shape), "unsafe", "np.put")


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """Writes the values in order where a mask holds, as np.place."""
    x, mask = array_of(arr), flattened(as_truth(mask))
    values = flattened(array_of(vals))
    count = shape_of(values)[0]
    if not count:
        if np.any(known(mask, "np.place(mask)")):
            raise ValueError("Cannot insert from an empty array!")
        return
    turns = (np.cumsum(mask) - 1) % count
    values = getitem(values, turns, index=Index((ARRAY,)))
    _choose(arr, x, mask, values, "np.place")


@implements(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    """Writes the repeated values at the same positions where a mask holds, as np.putmask."""
    x = array_of(a)
    _choose(a, x, flattened(as_truth(mask)), cycled(values, x.size), "np.putmask")


def _choose(target: Any, x: Any, mask: Any, values: Any, name: str) -> None:
    """Writes values where a mask holds, both flattened."""
    values = fitting(values, x.dtype, name, True)
    shape = shape_of(x)
    new = select(reshape(mask, shape=shape), reshape(values, shape=shape), x)
    store(target, new, "unsafe", name)


@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any = -1) -> None:
    """Writes into the elements at positions of the axis, `indices`, as np.put_along_axis."""
    x = array_of(arr)
    flat, arrays = indices_along(x, as_array(indices), axis)
    index = Index((ARRAY,) * len(arrays))
    wanted = layout(index, shape_of(flat), [shape_of(a) for a in arrays]).shape
    values = spread(fitting(as_array(values), x.dtype, "np.put_along_axis", True), wanted, index)
    new = reshape(index_set(flat, values, *arrays, index=index), shape=x.shape)
    store(arr, new, "unsafe", "np.put_along_axis")


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Writes values into the main diagonal, as np.fill_diagonal."""
    x = array_of(a)
    marks = np.zeros(x.shape, np.bool_)
    np.fill_diagonal(marks, True, wrap)
    positions = np.flatnonzero(marks)
    values = fitting(cycled(val, positions.size), x.dtype, "np.fill_diagonal", True)
    if shape_of(values) != positions.shape:
        values = broadcast_to(values, shape=positions.shape)
    new = index_set(flattened(x), values, positions, index=Index((ARRAY,), unique=True))
    store(a, reshape(new, shape=x.shape), "unsafe", "np.fill_diagonal")


# --- methods --------------------------------------------------------------------------------------


def _fill(self: Tracer, value: Any) -> None:
    store(self, fitting(as_array(value), self.dtype, "ndarray.fill", True), "unsafe", "fill")


def _sort(self: Tracer, axis: Any = -1, kind: Any = None, order: Any = None, *,
          stable: Any = None) -> None:  # fmt: skip
    ordered = registry.functions[np.sort](self, axis, kind, order, stable=stable)
    store(self, ordered, "unsafe", "sort")


def _partition(
    self: Tracer, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None
) -> None:
    ordered = registry.functions[np.partition](self, kth, axis, kind, order)
    store(self, ordered, "unsafe", "partition")


def _put(self: Tracer, indices: Any, values: Any, mode: str = "raise") -> None:
    registry.functions[np.put](self, indices, values, mode)


METHODS: dict[str, Any] = {"fill": _fill, "partition": _partition, "put": _put, "sort": _sort}
"""ndarray's methods, by name."""
