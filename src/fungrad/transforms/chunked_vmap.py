"""A batch taken in chunks, one after the other, so that one chunk at a time is in memory.

Arrays that are no ndarrays but can be sliced (np.memmap, Zarr, HDF5) are read chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, BatchAxisError
from fungrad.support import pytree
from fungrad.support.pytree import broadcast_prefix
from fungrad.tracing.source_location import check_function, describe, user_line
from fungrad.tracing.trace import Tracer
from fungrad.tracing.transformed_function import Transformed

Progress = Callable[[int, int], Any]
"""Called after each chunk with the number of examples that are done, and of all."""


def is_array_like(value: Any) -> bool:
    """Whether a value has a shape and slices: a Zarr array is a dataclass as well."""
    return hasattr(value, "shape") and hasattr(value, "__getitem__")


def check_chunk(chunk: Any, what: str) -> None:
    """Refuses what is no positive number of examples."""
    if isinstance(chunk, bool) or not isinstance(chunk, (int, np.integer)) or chunk < 1:
        raise ArgumentError(f"{what}={chunk!r} is not a positive number of examples{user_line()}.")


def chunks_of(
    leaves: Sequence[Any], axes: Sequence[int | None], size: int, chunk: int
) -> Iterator[tuple[int, list[Any]]]:
    """(end, leaves cut to the examples before it) for each chunk; one empty chunk for no examples.

    Leaves whose axis is None are handed on whole.
    """
    for start in range(0, max(size, 1), chunk):
        stop = min(start + chunk, size)
        yield (
            stop,
            [
                x if axis is None else _cut(x, axis, start, stop)
                for x, axis in zip(leaves, axes, strict=True)
            ],
        )


def _cut(x: Any, axis: int, start: int, stop: int) -> Any:
    """Examples start to stop of an array-like, read into memory."""
    axis = axis + len(x.shape) if axis < 0 else axis
    part = x[(*[slice(None)] * axis, slice(start, stop))]
    return part if type(part) is Tracer else np.asarray(part)


def joined(parts: Sequence[Any], axes: Sequence[int | None]) -> Any:
    """The results of all chunks, leaf by leaf one behind the other; axis None: the first one's."""
    leaves = [pytree.leaves(part) for part in parts]
    whole = [
        column[0] if axis is None else np.concatenate(column, axis=axis)
        for column, axis in zip(zip(*leaves, strict=True), axes, strict=True)
    ]
    return pytree.unflatten(pytree.structure(parts[0]), whole)


def batched(
    f: Callable[..., Any],
    size: int,
    in_axes: Any = 0,
    *,
    reduce: str = "concatenate",
    progress: Progress | None = None,
) -> Callable[..., Any]:
    """A function of many examples that calls f, a function of many examples, on `size` at a time.

    f sees one chunk at a time, so data may be larger than memory: np.memmap, Zarr and HDF5 arrays,
    anything with a shape and slices, are read chunk by chunk.

    Args:
      f: a function of trees of arrays with the examples along an axis.
      size: the most examples of a chunk.
      in_axes: the axis of the examples, or None for what all chunks get whole: for all positional
        arguments, or a sequence with one entry for each, which may be a prefix tree of it. Keyword
        arguments are cut along axis 0.
      reduce: "concatenate": results one behind the other, along axis 0; "sum": their sum, in the
        order of the chunks; "mean": their mean, weighted by the examples of each chunk.
      progress: called as `progress(done, total)` after each chunk.

    Raises:
      BatchAxisError: where arguments have different numbers of examples.
      ArgumentError: where `size` or `reduce` is no such thing.

    >>> import numpy as np
    >>> import fungrad as fg
    >>> loss = lambda w, x: np.sum((x * w - 1.0) ** 2)
    >>> gradient = batched(fg.grad(loss), 1000, (None, 0), reduce="sum")
    >>> float(gradient(2.0, np.ones(2500)))
    5000.0
    """
    check_function(f, "batched")
    check_chunk(size, "size")
    if reduce not in ("concatenate", "sum", "mean"):
        raise ArgumentError(f'reduce={reduce!r} is not "concatenate", "sum" or "mean".')

    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = pytree.flatten((args, kwargs), is_array_like)
        axes = _axes(f, in_axes, treedef)
        total = _examples(f, leaves, axes)
        parts, whole, before = [], None, 0
        for stop, values in chunks_of(leaves, axes, total, size):
            positional, named = pytree.unflatten(treedef, values)
            part = f(*positional, **named)
            if reduce == "concatenate":
                parts.append(part)
            else:
                weight = (stop - before) / total if reduce == "mean" and total else 1.0
                if weight != 1.0:
                    part = pytree.map(lambda x, w=weight: w * x, part)
                whole = part if whole is None else pytree.map(lambda x, y: x + y, whole, part)
            before = stop
            if progress is not None:
                progress(stop, total)
        if reduce != "concatenate":
            return whole
        return parts[0] if len(parts) == 1 else joined(parts, [0] * len(pytree.leaves(parts[0])))

    return Transformed(run, batched, f, size, in_axes, reduce=reduce, progress=progress)


def _axes(f: Callable[..., Any], in_axes: Any, treedef: pytree.TreeDef) -> list[int | None]:
    positional, named = treedef.children
    parts = positional.children
    several = isinstance(in_axes, (tuple, list))
    if several and len(in_axes) != len(parts):
        raise BatchAxisError(
            f"in_axes={in_axes!r} has {len(in_axes)} entries, but {describe(f)} was called with "
            f"{len(parts)} positional arguments{user_line()}."
        )
    axes: list[int | None] = []
    for i, part in enumerate(parts):
        axes += broadcast_prefix(in_axes[i] if several else in_axes, part, f"in_axes[{i}]")
    return axes + [0] * named.leaf_count


def _examples(f: Callable[..., Any], leaves: Sequence[Any], axes: Sequence[int | None]) -> int:
    """The number of examples, on which all arguments have to agree."""
    sizes = set()
    for leaf, axis in zip(leaves, axes, strict=True):
        if axis is not None:
            shape = getattr(leaf, "shape", None)
            if shape is None or not -len(shape) <= axis < len(shape):
                found = f"of shape {shape}" if shape is not None else f"a {type(leaf).__name__}"
                raise BatchAxisError(
                    f"batched of {describe(f)} was told to cut axis {axis} of an argument that is "
                    f"{found}{user_line()}. Use None in in_axes for what all chunks get whole."
                )
            sizes.add(shape[axis])
    if len(sizes) != 1:
        found = ", ".join(map(str, sorted(sizes))) or "none"
        raise BatchAxisError(
            f"batched of {describe(f)} got arguments with different numbers of examples: "
            f"{found}{user_line()}."
        )
    return int(sizes.pop())


__all__ = ["Progress", "batched", "check_chunk", "chunks_of", "is_array_like", "joined"]
