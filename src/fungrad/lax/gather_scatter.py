"""JAX's gather and scatter, with XLA's dimension numbers, as reading and writing by index.

Compositions of primitives; where windows lie is worked out in dimension_numbers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.lax.dimension_numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    Numbers,
    Places,
    ScatterDimensionNumbers,
    arranged,
    places,
)
from fungrad.numpy.protocol.operands import array_of
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement import scatter as scattering
from fungrad.primitives.movement.gather import getitem
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of


def _fill_value(dtype: np.dtype[Any], given: Any) -> Any:
    """What stands for elements that are not there: NaN, the least integer, the largest without a
    sign, True.
    """
    if given is not None:
        return s.cast(given, dtype)
    if dtype.kind in "fc":
        return dtype.type(np.nan)
    if dtype.kind == "b":
        return np.True_
    bounds = np.iinfo(dtype)
    return dtype.type(bounds.min if dtype.kind == "i" else bounds.max)


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Any:
    """Windows of an array, one for each index.

    Args:
      operand: an array. start_indices: integers; the components of an index along the last axis.
      dimension_numbers: which axes are which. slice_sizes: the shape of a window.
      unique_indices: whether no element is read twice; used with "promise_in_bounds" alone.
      indices_are_sorted: taken and ignored.
      mode: "clip" (None) moves windows into the array, "fill" fills those that reach out of it,
        "promise_in_bounds" says that there are none.
      fill_value: NaN, or the least integer (the largest without a sign), where it is None.

    Returns:
      An array with the axes of the indices, and those of a window at `offset_dims`.

    Raises:
      ArgumentError, ShapeError: where the dimension numbers or windows do not fit.

    XLA, operation semantics, Gather.

    >>> rows = GatherDimensionNumbers((1,), (0,), (0,))
    >>> gather(np.arange(6.0).reshape(3, 2), np.array([[2], [9]]), rows, (1, 2), mode="fill")
    array([[ 4.,  5.], [nan, nan]])
    """
    x = array_of(operand)
    numbers = Numbers(*map(tuple, dimension_numbers))
    found = places(
        x,
        array_of(start_indices),
        slice_sizes,
        numbers,
        GatherScatterMode.CLIP if mode is None else GatherScatterMode.from_any(mode),
        unique_indices,
    )
    result = arranged(getitem(found.x, *found.arrays, index=found.read), found.axes)
    if found.inside is None:
        return result
    batch = iter(shape_of(found.inside))
    shape = [1 if axis in numbers.windows else next(batch) for axis in range(len(shape_of(result)))]
    inside = s.reshape(found.inside, shape=tuple(shape))
    return np.where(inside, result, _fill_value(x.dtype, fill_value))


# --- scatter --------------------------------------------------------------------------------------


def _window_shape(
    shape: tuple[int, ...], updates: tuple[int, ...], numbers: Numbers
) -> tuple[int, ...]:
    """The shape of one window, as the axes of the updates give it."""
    gone = {*numbers.dropped, *numbers.batching}
    lengths = iter([updates[axis] for axis in numbers.windows if axis < len(updates)])
    return tuple([1 if axis in gone else next(lengths, 1) for axis in range(len(shape))])


def _with_spare(found: Places) -> Places:
    """Where windows lie out of the array: places in an array with one more item along its first
    axis, which takes them.
    """
    if found.inside is None:
        return found
    shape = shape_of(found.x)
    ndim = len(shape_of(found.arrays[0]))
    batch = shape_of(found.inside)
    inside = s.reshape(found.inside, shape=(*batch, *(1,) * (ndim - len(batch))))
    first = np.where(inside, found.arrays[0], shape[0])
    widths = ((0, 1), *[(0, 0)] * (len(shape) - 1))
    return found._replace(x=s.pad(found.x, widths=widths), arrays=[first, *found.arrays[1:]])


def _written(
    operand: Any,
    indices: Any,
    shape: tuple[int, ...],
    dimension_numbers: ScatterDimensionNumbers,
    mode: Any,
    unique: bool,
    write: Callable[[Places], Any],
) -> Any:
    """The array after `write` has changed it, put in its own order; `shape` is the updates'."""
    x, indices = array_of(operand), array_of(indices)
    numbers = Numbers(*map(tuple, dimension_numbers))
    sizes = _window_shape(shape_of(x), shape, numbers)
    found = places(x, indices, sizes, numbers, GatherScatterMode.from_any(mode), unique)
    gone = {*numbers.dropped, *numbers.batching}
    window = iter([n for axis, n in enumerate(sizes) if axis not in gone])
    batch = iter(shape_of(indices)[:-1])
    wanted = tuple(
        [next(window if axis in numbers.windows else batch) for axis in range(len(found.axes))]
    )
    if shape != wanted:
        raise ShapeError(
            f"A scatter of updates of shape {shape}{user_line()}, where the indices and windows "
            f"have the shape {wanted}."
        )
    whole = shape_of(found.x)
    result = write(_with_spare(found))
    if found.inside is not None:
        result = s.slice_axis(result, axis=0, start=0, stop=whole[0])
    back = arranged(result, s.inverse_permutation(found.order))
    return back if shape_of(back) == shape_of(x) else s.reshape(back, shape=shape_of(x))


def _scatter(
    name: str, what: str, primitive: Callable[..., Any], before: Callable[[Any], Any] | None = None
) -> Callable[..., Any]:
    def scatter(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Any:
        x, values = array_of(operand), array_of(updates)
        values = s.cast(values if before is None else before(values), x.dtype)

        def write(found: Places) -> Any:
            moved = arranged(values, s.inverse_permutation(found.axes))
            return primitive(found.x, moved, *found.arrays, index=found.read)

        return _written(
            x, scatter_indices, shape_of(values), dimension_numbers, mode, unique_indices, write
        )

    scatter.__name__ = scatter.__qualname__ = name
    scatter.__doc__ = f"""An array with windows of it {what}.

    Args:
      operand: an array. scatter_indices: integers, where the windows begin; the components of an
        index along the last axis. updates: the windows, cast to operand's dtype.
      dimension_numbers: which axes are which.
      indices_are_sorted: taken and ignored.
      unique_indices: whether no element is written twice; used with "promise_in_bounds" alone.
      mode: "clip" moves windows into the array, "drop" (None) leaves out those that reach out of
        it, "promise_in_bounds" says that there are none.

    Raises:
      ArgumentError, ShapeError: where the dimension numbers or windows do not fit.

    XLA, operation semantics, Scatter.
    """
    return scatter


scatter = _scatter(
    "scatter",
    "replaced; of an element that is written twice, the last index wins",
    scattering.index_set,
)
scatter_add = _scatter("scatter_add", "added to", scattering.index_add)
scatter_sub = _scatter("scatter_sub", "subtracted from", scattering.index_add, np.negative)
scatter_mul = _scatter("scatter_mul", "multiplied", scattering.index_multiply)
scatter_min = _scatter(
    "scatter_min", "bounded from above; ties share the derivative", scattering.index_min
)
scatter_max = _scatter(
    "scatter_max", "bounded from below; ties share the derivative", scattering.index_max
)


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """An array with a function of its elements in place of windows of it.

    Args:
      func: a function of an array, element by element; applied once, however often an element is
        named. update_shape: the shape that updates would have. The others are those of `scatter`.

    >>> one = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_apply(np.arange(4.0), np.array([[3]]), np.square, one, update_shape=(1,))
    array([0., 1., 2., 9.])
    """
    x = array_of(operand)

    def write(found: Places) -> Any:
        seen = getitem(found.x, *found.arrays, index=found.read)
        changed = s.cast(array_of(func(seen)), x.dtype)
        return scattering.index_set(found.x, changed, *found.arrays, index=found.read)

    return _written(
        x, scatter_indices, tuple(update_shape), dimension_numbers, mode, unique_indices, write
    )


__all__ = [
    "gather", "scatter", "scatter_add", "scatter_apply", "scatter_max", "scatter_min",
    "scatter_mul", "scatter_sub",
]  # fmt: skip
