"""Where the windows of a gather or a scatter lie: JAX's dimension numbers, turned into an
index of the array's axes.

Knows XLA's conventions; reads and writes nothing.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fungrad.errors import ArgumentError, ShapeError
from fungrad.primitives.movement import reshape_broadcast_cast as s
from fungrad.primitives.movement.gather import ARRAY, Index
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Tracer, shape_of, typeof

Shape = tuple[int, ...]


class GatherDimensionNumbers(NamedTuple):
    """Which axes of a gather are which, as XLA counts them.

    Attributes:
      offset_dims: the axes of the result that run within a window.
      collapsed_slice_dims: the operand's axes of windows of length 1 that the result lacks.
      start_index_map: the operand's axis that each component of an index stands for.
      operand_batching_dims, start_indices_batching_dims: axes of the operand and of the indices
        that go together.
    """

    offset_dims: Shape
    collapsed_slice_dims: Shape
    start_index_map: Shape
    operand_batching_dims: Shape = ()
    start_indices_batching_dims: Shape = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axes of a scatter are which, as XLA counts them.

    Attributes:
      update_window_dims: the axes of the updates that run within a window.
      inserted_window_dims: the operand's axes of windows of length 1 that the updates lack.
      scatter_dims_to_operand_dims: the operand's axis that each component of an index stands for.
      operand_batching_dims, scatter_indices_batching_dims: axes of the operand and of the indices
        that go together.
    """

    update_window_dims: Shape
    inserted_window_dims: Shape
    scatter_dims_to_operand_dims: Shape
    operand_batching_dims: Shape = ()
    scatter_indices_batching_dims: Shape = ()


class GatherScatterMode(enum.Enum):
    """What becomes of windows that reach out of the array.

    CLIP moves them inside. FILL_OR_DROP fills what a gather reads, and drops what a scatter writes.
    PROMISE_IN_BOUNDS says that there are none; NumPy then reads negative indices from the end, and
    raises IndexError beyond.
    """

    CLIP = 0
    FILL_OR_DROP = 1
    PROMISE_IN_BOUNDS = 2

    @classmethod
    def from_any(cls, given: Any) -> GatherScatterMode:
        """The mode of this name; FILL_OR_DROP for None.

        Raises:
          ArgumentError: where there is none.

        >>> GatherScatterMode.from_any("clip")
        <GatherScatterMode.CLIP: 0>
        """
        if isinstance(given, cls):
            return given
        if given not in _MODES:
            raise ArgumentError(
                f"mode={given!r}{user_line()} is none of 'clip', 'fill', 'drop' and "
                "'promise_in_bounds'."
            )
        return _MODES[given]


_MODES = {
    None: GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
}


class Numbers(NamedTuple):
    """What the dimension numbers of gathers and scatters have in common."""

    windows: Shape
    dropped: Shape
    index_map: Shape
    batching: Shape
    index_batching: Shape


class Places(NamedTuple):
    """Where windows lie in an array: what `getitem` and the writers of primitives/ take.

    `x` is the array whose axes are in the order that `read` wants (the inverse of `order`);
    `inside` says which windows lie within it, None where all do; `axes` puts the axes of x[read]
    into the order of the result.
    """

    x: Any
    order: Shape
    read: Index
    arrays: list[Any]
    inside: Any
    axes: Shape


def _checked(numbers: Numbers, ndim: int, indices: Any, result_ndim: int) -> None:
    """Raises ArgumentError where dimension numbers do not fit the arrays."""
    type_ = typeof(indices)
    if type_.dtype.kind not in "iub" or not type_.shape:
        raise ArgumentError(
            f"The indices{user_line()} have to be integers with their components along the last "
            f"axis, not {type_}."
        )
    if type_.shape[-1] != len(numbers.index_map):
        raise ArgumentError(
            f"Indices of {type_.shape[-1]} components{user_line()} for the axes "
            f"{numbers.index_map}: one is needed for each."
        )
    gone = (*numbers.dropped, *numbers.batching)
    named = (*gone, *numbers.index_map)
    fits = (
        all(0 <= axis < ndim for axis in named)
        and len(set(gone)) == len(gone)
        and len(set(numbers.index_map)) == len(numbers.index_map)
        and len(numbers.batching) == len(numbers.index_batching)
        and not set(numbers.batching) & set(numbers.index_map)
        and len(numbers.windows) == ndim - len(gone)
        and list(numbers.windows) == sorted(set(numbers.windows))
        and all(0 <= axis < result_ndim for axis in numbers.windows)
    )
    if not fits:
        raise ArgumentError(
            f"The dimension numbers {tuple(numbers)}{user_line()} do not fit an array of {ndim} "
            f"axes, of which {result_ndim} are left with those of the indices."
        )


def _bounded(
    starts: Mapping[int, Any], limits: Mapping[int, int], mode: GatherScatterMode
) -> tuple[dict[int, Any], Any]:
    """The starts within bounds, and which windows were there from the beginning."""
    if mode is GatherScatterMode.PROMISE_IN_BOUNDS:
        return dict(starts), None
    found: dict[int, Any] = {}
    inside: Any = None
    for axis, start in starts.items():
        found[axis] = np.clip(start, 0, limits[axis])
        if mode is GatherScatterMode.FILL_OR_DROP:
            here = np.equal(found[axis], start)
            inside = here if inside is None else np.logical_and(inside, here)
    if inside is not None and type(inside) is not Tracer and np.all(inside):
        inside = None
    return found, inside


def _starts(indices: Any, numbers: Numbers, batch: Shape) -> tuple[dict[int, Any], dict[int, Any]]:
    """For each axis that an index moves along, its component; for the others, where they are."""
    indices = s.cast(indices, np.dtype(np.intp))
    moving = {axis: indices[..., k] for k, axis in enumerate(numbers.index_map)}
    still: dict[int, Any] = {}
    for axis, along in zip(numbers.batching, numbers.index_batching, strict=True):
        column = np.arange(batch[along]).reshape((-1, *(1,) * (len(batch) - along - 1)))
        still[axis] = np.broadcast_to(column, batch)
    for axis in numbers.dropped:
        if axis not in moving:
            still[axis] = np.zeros(batch, np.intp)
    return moving, still


def places(
    x: Any,
    indices: Any,
    sizes: Sequence[int],
    numbers: Numbers,
    mode: GatherScatterMode,
    unique: bool,
) -> Places:
    """Where the windows of these sizes lie that begin at the indices.

    Raises:
      ArgumentError: where the dimension numbers do not fit. ShapeError: where windows are larger
        than the array.
    """
    sizes = tuple([operator.index(n) for n in sizes])
    shape, batch = shape_of(x), shape_of(indices)[:-1]
    _checked(numbers, len(shape), indices, len(batch) + len(numbers.windows))
    if len(sizes) != len(shape) or any(not 0 <= k <= n for k, n in zip(sizes, shape, strict=True)):
        raise ShapeError(f"Windows of shape {sizes} in an array of shape {shape}{user_line()}.")
    if any(sizes[axis] != 1 for axis in (*numbers.dropped, *numbers.batching)):
        raise ShapeError(
            f"Windows of shape {sizes}{user_line()} lose the axes "
            f"{(*numbers.dropped, *numbers.batching)}, where their length has to be 1."
        )
    if not (numbers.dropped or numbers.batching or numbers.index_map):
        # Nothing is indexed: an axis of length 1 takes the axes of the indices.
        x, shape, sizes = s.reshape(x, shape=(1, *shape)), (1, *shape), (1, *sizes)
        numbers = numbers._replace(dropped=(0,))
    moving, still = _starts(indices, numbers, batch)
    limits = {axis: shape[axis] - sizes[axis] for axis in moving}
    moving, inside = _bounded(moving, limits, mode)
    starts = {**moving, **still}
    read = sorted(starts)
    rest = [axis for axis in range(len(shape)) if axis not in starts]
    gone = {*numbers.dropped, *numbers.batching}
    running = [axis for axis in read if axis not in gone]
    arrays = []
    for axis in read:
        start = s.reshape(starts[axis], shape=(*batch, *(1,) * len(running)))
        if axis in gone:
            arrays.append(start)
        else:
            behind = len(running) - running.index(axis) - 1
            arrays.append(start + np.arange(sizes[axis]).reshape((-1, *(1,) * behind)))
    index = Index(
        (*[ARRAY] * len(read), *[slice(0, sizes[axis]) for axis in rest]),
        unique=unique and mode is GatherScatterMode.PROMISE_IN_BOUNDS,
    )
    order = (*read, *rest)
    window = [len(batch) + [*running, *rest].index(a) for a in range(len(shape)) if a not in gone]
    return Places(arranged(x, order), order, index, arrays, inside, _axes(window, numbers, batch))


def _axes(window: Sequence[int], numbers: Numbers, batch: Shape) -> Shape:
    """For each axis of the result, which one of x[index] it is."""
    in_window = dict(zip(numbers.windows, window, strict=True))
    in_batch = iter(range(len(batch)))
    return tuple(
        [
            in_window[axis] if axis in in_window else next(in_batch)
            for axis in range(len(batch) + len(window))
        ]
    )


def arranged(x: Any, axes: Shape) -> Any:
    """x with its axes in this order."""
    return x if axes == tuple(range(len(axes))) else s.transpose(x, axes=axes)


__all__ = [
    "GatherDimensionNumbers", "GatherScatterMode", "Numbers", "Places", "ScatterDimensionNumbers",
    "arranged", "places",
]  # fmt: skip
