"""Primitives that sort, or search sorted arrays.

Sorting is a permutation, and its derivative the same permutation of the tangents. The order of
equal elements is arbitrary, so ties share the derivative equally (docs/kinks.md).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fungrad.ir.graph import Equation
from fungrad.ir.types import Type
from fungrad.primitives.facts import EXACT, TERMS
from fungrad.primitives.movement.reshape_broadcast_cast import each_with_batch
from fungrad.primitives.movement.scatter import cost_of_sorting
from fungrad.primitives.primitive import Primitive, general, linear


def _positions(x: Type, **params: Any) -> Type:
    return Type(x.shape, np.intp)


def _cost_of_search(equation: Equation) -> float:
    """log2(n + 1) comparisons for each value, by bisection."""
    return equation.outputs[0].type.size * math.log2(equation.inputs[0].type.shape[-1] + 1)


def _cost_of_selection(equation: Equation) -> float:
    """2 (1 + ln 2) n comparisons, those of Hoare's FIND of a median (Knuth, 5.2.2)."""
    return 2 * (1 + math.log(2)) * equation.inputs[0].type.size


def _ties(x: Any, *, axis: int, **params: Any) -> Any:
    """The mask of equal neighbours in sorted order."""
    return np.diff(np.sort(x, axis=axis), axis=axis) == 0


argsort: Primitive = general(
    "argsort",
    cost=cost_of_sorting,
    eval=lambda x, *, axis, kind: np.argsort(x, axis=axis, kind=kind),
    type=_positions,
    batch=lambda args, batched, size, *, axis, kind: argsort(args[0], axis=axis + 1, kind=kind),
    cuts=True,
)
"""`argsort(x, axis=, kind=)`: the positions of the elements in ascending order along an axis."""

argpartition: Primitive = general(
    "argpartition",
    cost=_cost_of_selection,
    eval=lambda x, *, kth, axis: np.argpartition(x, kth, axis=axis),
    type=_positions,
    batch=lambda args, batched, size, *, kth, axis: argpartition(args[0], kth=kth, axis=axis + 1),
    cuts=True,
)
"""`argpartition(x, kth=, axis=)`: positions; the kth are those of the sorted array."""

lexsort: Primitive = general(
    "lexsort",
    cost=cost_of_sorting,
    eval=lambda *keys, axis: np.lexsort(keys, axis=axis),
    type=lambda *keys, axis: Type(keys[0].shape, np.intp),
    batch=lambda args, batched, size, *, axis: lexsort(
        *each_with_batch(args, batched, size), axis=axis + 1
    ),
    cuts=True,
)
"""`lexsort(*keys, axis=)`: the positions of the elements sorted by the last key first."""

# --- permutations along an axis -------------------------------------------------------------------


def _eval_permuted(x: Any, order: Any, *, axis: int, inverse: bool = False) -> Any:
    if not inverse:
        return np.take_along_axis(x, order, axis)
    result = np.zeros_like(x)
    np.put_along_axis(result, order, x, axis)
    return result


permuted: Primitive = linear(
    "permuted",
    cost=0,
    eval=_eval_permuted,
    type=lambda x, order, *, axis, inverse=False: x.with_shape(x.shape),
    transpose=lambda ct, x, order, *, axis, inverse=False: permuted(
        ct, order, axis=axis, inverse=not inverse
    ),
    batch=lambda args, batched, size, *, axis, inverse=False: permuted(
        *each_with_batch(args, batched, size),
        axis=axis + 1,
        inverse=inverse,
    ),
    arguments=(0,),
)
"""`permuted(x, order, axis=, inverse=)`: x in another order along an axis; inverse: restored.

`order` has the shape of x, and holds each position of the axis once.
"""


def _eval_share(x: Any, keys: Any, *, axis: int) -> Any:
    last = np.moveaxis(keys, axis, -1)
    later, earlier = last[..., 1:], last[..., :-1]
    same = (later == earlier) | ((later != later) & (earlier != earlier))
    if not same.any():
        return x
    starts = np.ones(last.shape, np.bool_)
    np.logical_not(same, out=starts[..., 1:])
    values = np.moveaxis(x, axis, -1)
    first = np.flatnonzero(starts)
    counts = np.diff(first, append=starts.size)
    means = np.add.reduceat(values.reshape(-1), first) / counts.astype(values.real.dtype)
    return np.moveaxis(np.repeat(means, counts).reshape(values.shape), -1, axis)


share_ties: Primitive = linear(
    "share_ties",
    rounding=TERMS,
    eval=_eval_share,
    type=lambda x, keys, *, axis: x.with_shape(x.shape),
    transpose=lambda ct, x, keys, *, axis: share_ties(ct, keys, axis=axis),
    batch=lambda args, batched, size, *, axis: share_ties(
        *each_with_batch(args, batched, size), axis=axis + 1
    ),
    arguments=(0,),
)
"""`share_ties(x, keys, axis=)`: x with each run of equal sorted keys replaced by its mean.

It is its own transpose. NaN equals NaN.
"""

# --- sort -----------------------------------------------------------------------------------------


def _vjp_sort(ct: Any, y: Any, args: Any, wanted: Any, *, axis: int) -> list[Any]:
    order = argsort(args[0], axis=axis, kind=None)
    return [permuted(share_ties(ct, y, axis=axis), order, axis=axis, inverse=True)]


def _jvp_sort(primals: Any, tangents: Any, *, axis: int) -> tuple[Any, Any]:
    y = sort(primals[0], axis=axis)
    order = argsort(primals[0], axis=axis, kind=None)
    return y, share_ties(permuted(tangents[0], order, axis=axis), y, axis=axis)


sort: Primitive = general(
    "sort",
    rounding=EXACT,
    order="example",
    kink=_ties,
    cost=cost_of_sorting,
    eval=lambda x, *, axis: np.sort(x, axis=axis),
    type=lambda x, *, axis: x.with_shape(x.shape),
    vjp=_vjp_sort,
    jvp=_jvp_sort,
    batch=lambda args, batched, size, *, axis: sort(args[0], axis=axis + 1),
)
"""`sort(x, axis=)`: the elements in ascending order along an axis, NaN last."""

# --- partition: comparing sorted orders finds each element's place, for any algorithm of NumPy ----


def _orders(x: Any, y: Any, axis: int) -> tuple[Any, Any, Any]:
    """The order of x, that of y, and the sorted elements."""
    order = argsort(y, axis=axis, kind=None)
    return argsort(x, axis=axis, kind=None), order, permuted(y, order, axis=axis)


def _vjp_partition(
    ct: Any, y: Any, args: Any, wanted: Any, *, kth: tuple[int, ...], axis: int
) -> list[Any]:
    before, after, keys = _orders(args[0], y, axis)
    shared = share_ties(permuted(ct, after, axis=axis), keys, axis=axis)
    return [permuted(shared, before, axis=axis, inverse=True)]


partition: Primitive = general(
    "partition",
    rounding=EXACT,
    kink=_ties,
    cost=_cost_of_selection,
    eval=lambda x, *, kth, axis: np.partition(x, kth, axis=axis),
    type=lambda x, *, kth, axis: x.with_shape(x.shape),
    vjp=_vjp_partition,
    batch=lambda args, batched, size, *, kth, axis: partition(args[0], kth=kth, axis=axis + 1),
)
"""`partition(x, kth=, axis=)`: the kth elements at their sorted positions, smaller ones before."""

# --- searching ------------------------------------------------------------------------------------


def _eval_search(function: Any, a: Any, v: Any, options: Any, lead: int) -> Any:
    """`function(a, v, **options)` for each example of the first `lead` axes."""
    if not lead:
        return function(a, v, **options)
    shape = v.shape
    count = math.prod(shape[:lead])
    rows = a.reshape(count, a.shape[-1])
    positions = np.empty(shape, np.intp)
    targets = positions.reshape(count, math.prod(shape[lead:]))
    wanted = v.reshape(targets.shape)
    for i in range(count):
        targets[i] = function(rows[i], wanted[i], **options)
    return positions


def _batch_search(
    primitive: Any, args: Any, batched: Any, size: int, options: Any, lead: int
) -> Any:
    if not lead and not batched[0]:
        return primitive(*args, **options)
    a, v = each_with_batch(args, batched, size)
    return primitive(a, v, **options, lead=lead + 1)


searchsorted: Primitive = general(
    "searchsorted",
    cost=_cost_of_search,
    eval=lambda a, v, *, lead=0, **options: _eval_search(np.searchsorted, a, v, options, lead),
    type=lambda a, v, *, side, lead=0: Type(v.shape, np.intp),
    batch=lambda args, batched, size, *, lead=0, **options: _batch_search(
        searchsorted, args, batched, size, options, lead
    ),
    cuts=True,
)
"""`searchsorted(a, v, side=, lead=)`: the position in the ascending a of each element of v.

The first `lead` axes are common to a and v: each example searches in its own a.
"""


def _digitize(bins: Any, x: Any, *, right: bool) -> Any:
    return np.digitize(x, bins, right)


digitize: Primitive = general(
    "digitize",
    cost=_cost_of_search,
    eval=lambda bins, x, *, lead=0, **options: _eval_search(_digitize, bins, x, options, lead),
    type=lambda bins, x, *, right, lead=0: Type(x.shape, np.intp),
    batch=lambda args, batched, size, *, lead=0, **options: _batch_search(
        digitize, args, batched, size, options, lead
    ),
    cuts=True,
)
"""`digitize(bins, x, right=, lead=)`: the bin of each element of x; bins ascend or descend.

The first `lead` axes are common to both, as in `searchsorted`.
"""
