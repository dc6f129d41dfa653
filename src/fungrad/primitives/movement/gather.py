"""Reading by index.

`getitem(x, *arrays, index=)` is NumPy's x[...]: integers, slices, newaxis and ellipsis are in the
static `Index`; integer arrays are passive arguments. The caller turns masks into integer arrays,
which then have no repeated entries (`Index.unique`). `scatter` is the transpose of getitem.

Cotangents of many reads of one array are added in place where NumPy computes
(`cotangents.Collected`). Under another trace the parts are kept, and `total` is one scatter.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.ir.types import PYTHON_SCALARS, Type
from fungrad.primitives.elementwise.family import (
    Collected,
    Masked,
    logical_or,
    plain,
)
from fungrad.primitives.facts import TERMS, each_element
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    concatenate,
    inverse_permutation,
    reshape,
    transpose,
    with_batch,
)
from fungrad.primitives.movement.stack_iota import iota
from fungrad.primitives.movement.static_index import (
    ARRAY,
    Index,
    Layout,
    Shape,
    expanded,
    layout,
    of_int,
    of_slice,
    sections_read,
    sections_written,
)
from fungrad.primitives.primitive import Primitive, general, types_of
from fungrad.tracing.memory_order import of_index
from fungrad.tracing.trace import shape_of, typeof

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
      batched: for each of them, whether it has the batch axis.
      size: the number of examples.
      example: the shape of one example of x, None if x is the same for all.
      shape: the shape of x itself.

    Returns:
      An Index, its arrays, and the permutation of the result's axes to (batch axis, axes of one
      example); None if they are in this order.
    """
    if not any(batched):
        assert example is not None
        wide = Index((slice(None), *index.entries), index.unique)
        placed = layout(wide, shape, [shape_of(a) for a in arrays])
        ndim = len(placed.fancy)
        if placed.position or not ndim:
            return wide, list(arrays), None
        return wide, list(arrays), (ndim, *range(ndim), *range(ndim + 1, len(placed.shape)))
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


# --- getitem --------------------------------------------------------------------------------------


def _eval_getitem(x: Any, *arrays: Any, index: Index) -> Any:
    if type(x) is not np.ndarray and type(x) in PYTHON_SCALARS:
        x = np.asarray(x)
    return x[index.fill(arrays) if arrays else index.entries]


def _keep_getitem(args: Any) -> Any:
    return types_of(args) if len(args) == 1 else [typeof(args[0]), *args[1:]]


def _type_getitem(x: Type, *arrays: Type, index: Index) -> Type:
    return Type(layout(index, x.shape, [a.shape for a in arrays]).shape, x.dtype)


def _vjp_getitem(ct: Any, output: Any, args: Any, wanted: Any, *, index: Index) -> list[Any]:
    x, *arrays = args
    result = scatter(ct, *arrays, index=index, shape=x.shape)
    if repeatable(arrays):
        # x[mask] is a `where`: unread elements get exactly zero, even times an infinite slope.
        result = Masked(result, indexed(*arrays, index=index, shape=x.shape))
    return [result, *[None] * len(arrays)]


def _collect_getitem(total: Any, ct: Any, args: Any, *, index: Index) -> None:
    if len(args) == 1 and type(ct) is not Masked:
        part = total.value[index.entries]
        if type(part) is np.ndarray:  # a view
            np.add(part, ct, out=part)
        else:
            total.value[index.entries] = part + ct
        total.unmask()
        return
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
    sections=sections_read,
    order=of_index,
    view=True,
    cost=0,
    eval=_eval_getitem,
    type=_type_getitem,
    jvp=lambda primals, tangents, *, index: (
        getitem(*primals, index=index),
        getitem(tangents[0], *primals[1:], index=index),
    ),
    vjp=_vjp_getitem,
    batch=_batch_getitem,
    keep=_keep_getitem,
    collect=_collect_getitem,
    moves=True,
    masks=lambda equation: len(equation.inputs) > 1,
)
"""`getitem(x, *arrays, index=)`: NumPy's x[index], with the arrays as its entries ARRAY."""


def picked(x: Any, *indices: Any, lead: int = 0) -> Any:
    """x[indices] after `lead` leading axes, also for an ndarray x and traced indices."""
    return getitem(x, *indices, index=Index((slice(None),) * lead + (ARRAY,) * len(indices)))


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
    "indexed",
    sections=functools.partial(sections_written, operand=-1),
    order="rows",
    eval=_eval_indexed,
    type=_type_indexed,
    batch=_batch_indexed,
    cuts=True,
    cost=0,
)
"""`indexed(*arrays, index=, shape=)`: a mask of that shape, true for the elements of x[index]."""


# --- scatter --------------------------------------------------------------------------------------


def apply_at(ufunc: np.ufunc, out: Any, values: Any, arrays: Sequence[Any], index: Index) -> Any:
    """Writes ufunc(out[index], values) into `out`, applying it for each repeated element."""
    native = index.fill(arrays)
    if index.unique or not repeatable(arrays):
        out[native] = ufunc(out[native], values)
    elif out.flags.c_contiguous and out.ndim > 1 and 4 * np.size(values) > out.size:
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
    if out.dtype == np.bool_:  # a sum of truth values: whether any is true
        positions = np.arange(out.size).reshape(shape)[index.fill(arrays)]
        out.reshape(-1)[positions[np.broadcast_to(ct, positions.shape)]] = True
        return out
    return apply_at(np.add, out, ct, arrays, index)


def checked_values(
    name: str, values: Type, shape: Shape, arrays: Sequence[Type], index: Index
) -> None:
    """Raises ShapeError if values do not have the shape that the index reads."""
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
    """Values with a batch axis, and their axes in the order of the index for all examples."""
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
    rounding=TERMS,
    sections=sections_written,
    fresh=True,
    order="rows",
    cost=each_element(1),
    eval=_eval_scatter,
    type=_type_scatter,
    jvp=_jvp_scatter,
    vjp=lambda ct, output, args, wanted, *, index, shape: [
        getitem(ct, *args[1:], index=index),
        *[None] * (len(args) - 1),
    ],
    batch=_batch_scatter,
    keep=lambda args: [typeof(args[0]), *args[1:]],
    moves=True,
)
"""`scatter(values, *arrays, index=, shape=)`: zeros, with the values added at x[index]."""


class Gathered(Collected):
    """The sum of a cotangent of an array of some shape and of cotangents of parts of it."""

    __slots__ = ("_begun", "_indices", "_masks", "_parts", "_positions")

    def __init__(self, begun: Any, shape: tuple[int, ...]) -> None:
        self._begun = begun
        self._positions = np.arange(math.prod(shape)).reshape(shape)
        self._indices: list[np.ndarray] = []
        self._parts: list[Any] = []
        self._masks: list[Any] | None = [] if type(begun) is Masked else None

    def __add__(self, cotangent: Any) -> Collected:
        self._begun = self._begun + cotangent
        return self

    def read(self, primitive: Any, cotangent: Any, args: Any, params: dict[str, Any]) -> None:
        """Adds the cotangent of a read by a primitive, which only moves elements.

        As in the rules of one read, elements that index arrays do not name are exactly zero.
        """
        indices = np.ravel(primitive.eval(self._positions, *args[1:], **params))
        if self._masks is not None:
            if type(cotangent) is Masked:
                mask = broadcast_to(cotangent.mask, shape=shape_of(cotangent.value))
                self._masks.append(reshape(mask, shape=indices.shape))
            elif repeatable(args[1:]):
                self._masks.append(np.ones(indices.shape, np.bool_))
            else:
                self._masks = None
        self._parts.append(reshape(plain(cotangent), shape=indices.shape))
        self._indices.append(indices)

    def _placed(self, parts: Sequence[Any]) -> Any:
        size = self._positions.size
        scattered = scatter(
            concatenate(*parts, axis=0), np.concatenate(self._indices), index=_FLAT, shape=(size,)
        )
        return reshape(scattered, shape=self._positions.shape)

    def total(self) -> Any:
        """The final sum."""
        if not self._parts:
            return self._begun
        value = plain(self._begun) + self._placed(self._parts)
        if self._masks is not None and type(self._begun) is Masked:
            return Masked(value, logical_or(self._begun.mask, self._placed(self._masks)))
        return value

    @property
    def value(self) -> Any:  # type: ignore[override]
        """The sum without its mask."""
        return plain(self.total())


_FLAT = Index((ARRAY,))


__all__ = [
    "ARRAY",
    "Gathered",
    "Index",
    "Layout",
    "apply_at",
    "batched_index",
    "batched_values",
    "checked_values",
    "expanded",
    "getitem",
    "indexed",
    "layout",
    "of_int",
    "of_slice",
    "repeatable",
    "scatter",
]
