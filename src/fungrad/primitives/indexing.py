"""Floor 3: reading by index. Knows `declare`, shaping, stacking; not scattering.

`getitem(x, *arrays, index=)` is NumPy's x[...]: what the index says without arrays (integers,
slices, newaxis, ellipsis) is the static `Index`; its integer arrays are passive arguments. Masks do
not reach this floor: they are turned into integer arrays, which then cannot repeat
(`Index.unique`). `scatter` is the transpose of getitem.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.ir.types import PYTHON_SCALARS, Type
from fungrad.primitives.declare import Primitive, general
from fungrad.primitives.elementwise import Masked
from fungrad.primitives.shaping import broadcast_to, inverse_permutation, reshape, transpose
from fungrad.primitives.stacking import iota
from fungrad.records import Record
from fungrad.tracing.trace import shape_of, typeof

Shape = tuple[int, ...]

ARRAY = "array"
"""Stands in an Index for an integer array, which is an argument."""

_NAMES = "ijklmn"


class Index:
    """The static part of an index: integers, slices, None, Ellipsis, and places for integer arrays.

    `unique` promises that the arrays name no element twice. Immutable, hashable, picklable.

    >>> Index((slice(None), 0, ARRAY, Ellipsis))
    [:, 0, i, ...]
    """

    __slots__ = ("entries", "unique")

    entries: tuple[Any, ...]
    unique: bool

    def __init__(self, entries: tuple[Any, ...], unique: bool = False) -> None:
        self.entries = entries
        self.unique = unique

    def fill(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """NumPy's index, with the arrays in their places."""
        if not arrays:
            return self.entries
        given = iter(arrays)
        return tuple([next(given) if type(e) is str else e for e in self.entries])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Index)
            and self.entries == other.entries
            and self.unique == other.unique
        )

    def __hash__(self) -> int:
        return hash(tuple([_hashable(e) for e in self.entries]))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Index, (self.entries, self.unique))

    def __repr__(self) -> str:
        arrays = 0
        words = []
        for entry in self.entries:
            if type(entry) is str:
                words.append(_NAMES[arrays] if arrays < len(_NAMES) else f"i{arrays}")
                arrays += 1
            else:
                words.append(_show(entry))
        return f"[{', '.join(words)}]{' unique' if arrays and self.unique else ''}"


def _hashable(entry: Any) -> Any:
    return (entry.start, entry.stop, entry.step) if type(entry) is slice else entry


def _show(entry: Any) -> str:
    if type(entry) is slice:
        parts = [entry.start, entry.stop, *([] if entry.step is None else [entry.step])]
        return ":".join("" if p is None else str(p) for p in parts)
    return "..." if entry is Ellipsis else "newaxis" if entry is None else str(entry)


@functools.lru_cache(maxsize=4096)
def of_int(position: int) -> Index:
    """The Index of one integer."""
    return Index((position,))


class Layout(Record):
    """Where the axes of a result of getitem come from.

    `rest` are the lengths of the axes that slices, newaxis and ellipsis leave; the axes of the
    index arrays, broadcast to the shape `fancy`, stand together before rest[position].
    """

    rest: Shape
    position: int
    fancy: Shape

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        return (*self.rest[: self.position], *self.fancy, *self.rest[self.position :])


def expanded(index: Index, ndim: int) -> list[Any]:
    """The entries, with full slices in place of the ellipsis and at the end.

    Raises:
      IndexError: where there are more entries than axes, as in NumPy.
    """
    taken = sum(1 for e in index.entries if e is not None and e is not Ellipsis)
    if taken > ndim:
        raise IndexError(
            f"too many indices for array: array is {ndim}-dimensional, but {taken} were indexed"
        )
    filler = [slice(None)] * (ndim - taken)
    entries = list(index.entries)
    if Ellipsis in entries:
        place = entries.index(Ellipsis)
        return entries[:place] + filler + entries[place + 1 :]
    return entries + filler


def layout(index: Index, shape: Shape, arrays: Sequence[Shape]) -> Layout:
    """The Layout of `getitem` for the shapes of x and of the index arrays.

    Raises:
      IndexError: where an integer is out of bounds, or index arrays do not broadcast, as in NumPy.
    """
    fancy: Shape = ()
    if any(arrays):
        try:
            fancy = np.broadcast_shapes(*arrays)
        except ValueError:
            shapes = " ".join(map(str, arrays))
            raise IndexError(
                "shape mismatch: indexing arrays could not be broadcast together with shapes "
                f"{shapes}"
            ) from None
    rest: list[int] = []
    starts: list[int] = []
    axis = 0
    for entry in expanded(index, len(shape)):
        if entry is None:
            rest.append(1)
            continue
        if type(entry) is slice:
            rest.append(len(range(*entry.indices(shape[axis]))))
        else:
            starts.append(len(rest))
            if type(entry) is int and not -shape[axis] <= entry < shape[axis]:
                raise IndexError(
                    f"index {entry} is out of bounds for axis {axis} with size {shape[axis]}"
                )
        axis += 1
    together = bool(fancy) and _together(index.entries)
    return Layout(tuple(rest), starts[0] if together else 0, fancy)


def _together(entries: Iterable[Any]) -> bool:
    """Whether the integers and arrays of an index stand side by side, and so stay there."""
    kinds = "".join("a" if type(e) in (int, str) else "-" for e in entries)
    return "-" not in kinds.strip("-")


# --- batching: the same index for all examples, or one for each -----------------------------------


def batched_index(
    index: Index,
    arrays: Sequence[Any],
    batched: Sequence[bool],
    size: int,
    example: Shape | None,
    shape: Shape,
) -> tuple[Index, list[Any], tuple[int, ...] | None]:
    """The index that applies `index` to every example at once.

    Args:
      index: the index for one example.
      arrays: its index arrays.
      batched: which of them have the batch axis.
      size: the number of examples.
      example: the shape of one example of x, None where x is the same for all.
      shape: the shape of x itself, as it is indexed.

    Returns:
      An Index, its arrays, and the permutation that puts the axes of the result into the order
      (batch axis, axes of one example); None where they are in it.
    """
    if not any(batched):
        assert example is not None
        wide = Index((slice(None), *index.entries), index.unique)
        found = layout(wide, shape, [shape_of(a) for a in arrays])
        ndim = len(found.fancy)
        if found.position or not ndim:
            return wide, list(arrays), None
        return wide, list(arrays), (ndim, *range(ndim), *range(ndim + 1, len(found.shape)))
    shapes = [shape_of(a)[b:] for a, b in zip(arrays, batched, strict=True)]
    ndim = max(map(len, shapes))
    aligned = [
        reshape(a, shape=(size, *(1,) * (ndim - len(s)), *s)) if b and len(s) < ndim else a
        for a, b, s in zip(arrays, batched, shapes, strict=True)
    ]
    before = layout(index, shape if example is None else example, shapes)
    if example is None:
        wide = Index(index.entries)
    else:
        wide = Index((ARRAY, *index.entries), index.unique or not ndim)
        aligned.insert(0, iota(shape=(size, *(1,) * ndim)))
    after = layout(wide, shape, [shape_of(a) for a in aligned])
    start = after.position
    rest = [r if r < start else r + 1 + ndim for r in range(len(after.rest))]
    order = (
        start,
        *rest[: before.position],
        *range(start + 1, start + 1 + ndim),
        *rest[before.position :],
    )
    return wide, aligned, None if order == tuple(range(len(order))) else order


def with_batch(x: Any, batched: bool, size: int) -> Any:
    """x with the batch axis."""
    return x if batched else broadcast_to(x, shape=(size, *shape_of(x)))


# --- getitem --------------------------------------------------------------------------------------


def _eval_getitem(x: Any, *arrays: Any, index: Index) -> Any:
    if type(x) in PYTHON_SCALARS:
        x = np.asarray(x)
    return x[index.fill(arrays) if arrays else index.entries]


def _type_getitem(x: Type, *arrays: Type, index: Index) -> Type:
    return Type(layout(index, x.shape, [a.shape for a in arrays]).shape, x.dtype)


def _vjp_getitem(ct: Any, output: Any, args: Any, wanted: Any, *, index: Index) -> list[Any]:
    x, *arrays = args
    result = scatter(ct, *arrays, index=index, shape=x.shape)
    if repeatable(arrays):
        # x[mask] is a `where`: what is not read gets exactly zero, behind an infinite slope too.
        result = Masked(result, indexed(*arrays, index=index, shape=x.shape))
    return [result, *[None] * len(arrays)]


def _collect_getitem(total: Any, ct: Any, args: Any, *, index: Index) -> None:
    if type(ct) is not Masked and repeatable(args[1:]):  # as above
        ct = Masked(ct, np.True_)
    total.add(ct, lambda ufunc, out, values: apply_at(ufunc, out, values, args[1:], index))


def _batch_getitem(args: Any, batched: Any, size: int, *, index: Index) -> Any:
    x, *arrays = args
    example = shape_of(x)[1:] if batched[0] else None
    wide, aligned, order = batched_index(index, arrays, batched[1:], size, example, shape_of(x))
    result = getitem(x, *aligned, index=wide)
    return result if order is None else transpose(result, axes=order)


getitem: Primitive = Primitive(
    "getitem",
    eval=_eval_getitem,
    type=_type_getitem,
    jvp=lambda primals, tangents, *, index: (
        getitem(*primals, index=index),
        getitem(tangents[0], *primals[1:], index=index),
    ),
    vjp=_vjp_getitem,
    batch=_batch_getitem,
    keep=lambda args: [typeof(args[0]), *args[1:]],
    collect=_collect_getitem,
    moves=True,
)
"""`getitem(x, *arrays, index=)`: NumPy's x[index]; the arrays go into their places."""


def repeatable(arrays: Sequence[Any]) -> bool:
    """Whether index arrays have axes, so that they may name an element more than once."""
    return any(map(shape_of, arrays))


def _eval_indexed(*arrays: Any, index: Index, shape: Shape) -> Any:
    out = np.zeros(shape, np.bool_)
    out[index.fill(arrays)] = True
    return out


def _type_indexed(*arrays: Type, index: Index, shape: Shape) -> Type:
    layout(index, shape, [a.shape for a in arrays])
    return Type(shape, np.bool_)


def _batch_indexed(args: Any, batched: Any, size: int, *, index: Index, shape: Shape) -> Any:
    wide, aligned, _ = batched_index(index, args, batched, size, shape, (size, *shape))
    return indexed(*aligned, index=wide, shape=(size, *shape))


indexed: Primitive = general(
    "indexed", eval=_eval_indexed, type=_type_indexed, batch=_batch_indexed, cuts=True
)
"""`indexed(*arrays, index=, shape=)`: a mask of that shape, true for the elements of x[index]."""


# --- scatter --------------------------------------------------------------------------------------


def apply_at(ufunc: np.ufunc, out: Any, values: Any, arrays: Sequence[Any], index: Index) -> Any:
    """Writes ufunc(out[index], values) into a fresh C-ordered array, repeats included."""
    native = index.fill(arrays)
    if index.unique or not repeatable(arrays):
        out[native] = ufunc(out[native], values)
    elif out.ndim > 1 and 4 * np.size(values) > out.size:
        # NumPy has a fast loop for one axis only.
        positions = np.arange(out.size).reshape(out.shape)[native]
        ufunc.at(out.reshape(-1), positions.reshape(-1), np.reshape(values, -1))
    else:
        ufunc.at(out, native, values)
    return out


def _eval_scatter(ct: Any, *arrays: Any, index: Index, shape: Shape) -> Any:
    out = np.zeros(shape, ct.dtype if hasattr(ct, "dtype") else np.asarray(ct).dtype)
    if index.unique or not repeatable(arrays):
        out[index.fill(arrays)] = ct
        return out
    return apply_at(np.add, out, ct, arrays, index)


def checked_values(
    name: str, values: Type, shape: Shape, arrays: Sequence[Type], index: Index
) -> None:
    """Raises ShapeError where values do not have the shape that the index reads."""
    wanted = layout(index, shape, [a.shape for a in arrays]).shape
    if values.shape != wanted:
        raise ShapeError(
            f"`{name}` got values of shape {values.shape}, but the index {index} of an array of "
            f"shape {shape} names elements of shape {wanted}."
        )


def _type_scatter(ct: Type, *arrays: Type, index: Index, shape: Shape) -> Type:
    checked_values("scatter", ct, shape, arrays, index)
    return Type(shape, ct.dtype)


def batched_values(values: Any, batched: bool, size: int, order: tuple[int, ...] | None) -> Any:
    """Values of one example each, with their axes as the index of all examples wants them."""
    values = with_batch(values, batched, size)
    return values if order is None else transpose(values, axes=inverse_permutation(order))


def _batch_scatter(args: Any, batched: Any, size: int, *, index: Index, shape: Shape) -> Any:
    ct, *arrays = args
    all_shape = (size, *shape)
    wide, aligned, order = batched_index(index, arrays, batched[1:], size, shape, all_shape)
    ct = batched_values(ct, batched[0], size, order)
    return scatter(ct, *aligned, index=wide, shape=all_shape)


def _jvp_scatter(primals: Any, tangents: Any, **params: Any) -> Any:
    return scatter(*primals, **params), scatter(tangents[0], *primals[1:], **params)


scatter: Primitive = Primitive(
    "scatter",
    eval=_eval_scatter,
    type=_type_scatter,
    jvp=_jvp_scatter,
    vjp=lambda ct, output, args, wanted, *, index, shape: [
        getitem(ct, *args[1:], index=index),
        *[None] * (len(args) - 1),
    ],
    batch=_batch_scatter,
    keep=lambda args: [typeof(args[0]), *args[1:]],
)
"""`scatter(values, *arrays, index=, shape=)`: zeros, with the values added at x[index]."""

__all__ = [
    "ARRAY", "Index", "Layout", "apply_at", "batched_index", "batched_values", "checked_values",
    "expanded", "getitem", "indexed", "layout", "of_int", "repeatable", "scatter", "with_batch",
]  # fmt: skip
