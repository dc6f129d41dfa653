"""Writing by index: index_set, index_add, index_multiply, index_min, index_max.

Each takes `(x, values, *arrays, index=)`, where the values have the exact shape of x[index], and
returns a changed x. If index arrays name an element more than once, set keeps the last value, as
NumPy does; add, multiply, min and max apply all values. The derivatives do the same.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import Equation
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import Masked, eq, logical_not, select
from fungrad.primitives.facts import EXACT, FACTORS, TERMS, Cost, Rounding, Sections, each_element
from fungrad.primitives.movement.gather import (
    ARRAY,
    Index,
    apply_at,
    batched_index,
    batched_values,
    checked_values,
    getitem,
    indexed,
    repeatable,
    scatter,
)
from fungrad.primitives.movement.reshape_broadcast_cast import cast, reshape, with_batch
from fungrad.primitives.movement.stack_iota import iota
from fungrad.primitives.movement.static_index import sections_written
from fungrad.primitives.primitive import Primitive, full, general, or_zero
from fungrad.primitives.reduction.cumulative import attains, linear_recurrence, shifted
from fungrad.tracing.in_place import to_change
from fungrad.tracing.trace import shape_of, typeof

Rule = Callable[..., Any]


_EACH_VALUE = each_element(1, of=1)


def _declare(
    name: str,
    eval: Rule,
    *,
    vjp: Rule,
    jvp: Rule | None = None,
    keep: Rule | None = None,
    undo: Rule | None = None,
    cost: Cost = _EACH_VALUE,
    sections: Sections = lambda equation: None,
    rounding: Rounding = EXACT,
    masks: bool = False,
) -> Primitive:
    """Declares a primitive (x, values, *arrays, index=); `eval` writes into a copy of x, or into x
    itself if nothing else holds it.
    """

    def evaluated(x: Any, values: Any, *arrays: Any, index: Index) -> Any:
        out = to_change(x)
        if out is None:
            out = np.array(x, order="K")
        return eval(out, values, arrays, index)

    def result_type(x: Type, values: Type, *arrays: Type, index: Index) -> Type:
        checked_values(name, values, x.shape, arrays, index)
        return Type(x.shape, x.dtype)

    def batch(args: Any, batched: Any, size: int, *, index: Index) -> Any:
        x = with_batch(args[0], batched[0], size)
        shape = shape_of(x)
        wide, arrays, order = batched_index(index, args[2:], batched[2:], size, shape[1:], shape)
        values = batched_values(args[1], batched[1], size, order)
        return primitive(x, values, *arrays, index=wide)

    def vjp_padded(ct: Any, y: Any, args: Any, wanted: Any, *, index: Index) -> list[Any]:
        x, values, *arrays = args
        return [*vjp(ct, y, x, values, arrays, index, wanted), *[None] * len(arrays)]

    def jvp_unpacked(primals: Any, tangents: Any, *, index: Index) -> tuple[Any, Any]:
        x, values, *arrays = primals
        return jvp(x, values, arrays, index, *tangents[:2])  # type: ignore[no-any-return, misc]

    primitive = Primitive(
        name,
        cost=cost,
        rounding=rounding,
        masks=masks,
        eval=evaluated,
        type=result_type,
        jvp=None if jvp is None else jvp_unpacked,
        vjp=vjp_padded,
        batch=batch,
        keep=keep,
        undo=undo,
        order="first",
        fresh=True,
        sections=sections,
    )
    return primitive


def _types_kept(args: Sequence[Any]) -> Sequence[Any]:
    if len(args) == 2:
        return typeof(args[0]), typeof(args[1])
    return (typeof(args[0]), typeof(args[1]), *args[2:])


# --- set ------------------------------------------------------------------------------------------


def _eval_set(out: Any, values: Any, arrays: Any, index: Index) -> Any:
    if not arrays:
        out[index.entries] = values
        return out
    # Contiguous, so that NumPy writes in C order: of repeated elements the last one stays.
    out[index.fill(arrays)] = np.ascontiguousarray(values) if repeatable(arrays) else values
    return out


def _vjp_set(
    ct: Any, y: Any, x: Any, values: Any, arrays: Any, index: Index, wanted: Any
) -> list[Any]:
    for_x = for_values = None
    if wanted[0]:
        left = logical_not(indexed(*arrays, index=index, shape=x.shape))
        for_x = Masked(select(left, ct, 0), left, None if arrays else index.entries)
    if wanted[1]:
        for_values = getitem(ct, *arrays, index=index)
        if repeatable(arrays) and not index.unique:
            lasting = _lasting(x.shape, values.shape, arrays, index)
            for_values = Masked(select(lasting, for_values, 0), lasting)
    return [for_x, for_values]


def _lasting(shape: tuple[int, ...], values: tuple[int, ...], arrays: Any, index: Index) -> Any:
    """The mask of the values that no later one overwrites."""
    order = iota(shape=values)
    nothing = full(shape=shape, value=-1, dtype=np.dtype(np.int64))
    last = index_set(nothing, order, *arrays, index=index)
    return eq(getitem(last, *arrays, index=index), order)


def _jvp_set(x: Any, values: Any, arrays: Any, index: Index, dx: Any, dvalues: Any) -> Any:
    y = index_set(x, values, *arrays, index=index)
    dx, dvalues = or_zero(dx, x), or_zero(dvalues, values)
    return y, index_set(dx, cast(dvalues, typeof(dx).dtype), *arrays, index=index)


def _undo_set(total: Any, args: Any, wanted: Any, *, index: Index) -> Any:
    arrays = args[2:]
    key = index.fill(arrays) if arrays else index.entries
    for_values = None
    if wanted[1] and arrays:
        for_values = _vjp_set(total.value, None, args[0], args[1], arrays, index, (0, 1))[1]
    elif wanted[1]:
        for_values = total.value[key]
        if type(for_values) is np.ndarray:  # a view of elements that are cleared next
            for_values = for_values.copy()
    total.clear(key)
    return for_values


index_set: Primitive = _declare(
    "index_set", _eval_set, jvp=_jvp_set, vjp=_vjp_set, keep=_types_kept, undo=_undo_set, cost=0,
    sections=functools.partial(sections_written, operand=1), masks=True,
)  # fmt: skip
"""`index_set(x, values, *arrays, index=)`: x with x[index] = values."""

# --- add ------------------------------------------------------------------------------------------


def _vjp_add(
    ct: Any, y: Any, x: Any, values: Any, arrays: Any, index: Index, wanted: Any
) -> list[Any]:
    return [ct, getitem(ct, *arrays, index=index) if wanted[1] else None]


def _jvp_add(x: Any, values: Any, arrays: Any, index: Index, dx: Any, dvalues: Any) -> Any:
    y = index_add(x, values, *arrays, index=index)
    if dvalues is None:
        return y, dx
    dx = or_zero(dx, x)
    return y, index_add(dx, cast(dvalues, typeof(dx).dtype), *arrays, index=index)


def _undo_add(total: Any, args: Any, wanted: Any, *, index: Index) -> Any:
    total.unmask()
    return total.value[index.fill(args[2:])].copy() if wanted[1] else None


index_add: Primitive = _declare(
    "index_add",
    lambda out, values, arrays, index: apply_at(np.add, out, values, arrays, index),
    jvp=_jvp_add,
    vjp=_vjp_add,
    keep=_types_kept,
    undo=_undo_add,
    rounding=TERMS,
    sections=functools.partial(sections_written, operand=1, adds=True),
)
"""`index_add(x, values, *arrays, index=)`: x with x[index] += values, repeats included."""

# --- multiply -------------------------------------------------------------------------------------


def cost_of_sorting(equation: Equation) -> float:
    """n log2 n comparisons of each key (Knuth, The Art of Computer Programming, 5.3.1)."""
    x = equation.inputs[0].type
    length = x.shape[equation.params.get("axis", -1)] if x.ndim else 1
    each = math.log2(length) if length > 1 else 0
    return sum([round(atom.type.size * each) for atom in equation.inputs])


stable_order: Primitive = general(
    "stable_order",
    cost=cost_of_sorting,
    eval=lambda x: np.argsort(x, axis=-1, kind="stable"),
    type=lambda x: Type(x.shape, np.intp),
    batch=lambda args, batched, size: stable_order(args[0]),
    cuts=True,
)
"""`stable_order(x)`: the positions of the elements along the last axis, in ascending order."""


def _other_values(x: Any, values: Any, arrays: Any, index: Index) -> Any:
    """For each value, the product of all others that are written to the same element.

    The values are sorted by element; the products before and after each are recurrences that
    restart at every element, without a division.
    """
    shape = shape_of(values)
    count = Type(shape, np.bool_).size
    spots = reshape(getitem(iota(shape=shape_of(x)), *arrays, index=index), shape=(count,))
    order = stable_order(spots)
    by_order = Index((ARRAY,), unique=True)
    spots = getitem(spots, order, index=by_order)
    factors = getitem(reshape(values, shape=(count,)), order, index=by_order)
    one = typeof(values).dtype.type(1)
    product = one
    for reverse in (False, True):
        same = eq(spots, shifted(spots, 0, -1, reverse))
        carried = select(same, shifted(factors, 0, 1, reverse), one * 0)
        started = select(same, one * 0, one)
        product = product * linear_recurrence(carried, started, axis=0, reverse=reverse)
    return reshape(scatter(product, order, index=by_order, shape=(count,)), shape=shape)


def _slope(x: Any, values: Any, arrays: Any, index: Index) -> Any:
    """The derivative of the product with respect to each of the values."""
    slope = getitem(x, *arrays, index=index)
    if repeatable(arrays) and not index.unique:
        slope = slope * _other_values(x, values, arrays, index)
    return slope


def _vjp_multiply(
    ct: Any, y: Any, x: Any, values: Any, arrays: Any, index: Index, wanted: Any
) -> list[Any]:
    for_x = for_values = None
    if wanted[0]:
        for_x = index_multiply(ct, cast(values, typeof(ct).dtype), *arrays, index=index)
    if wanted[1]:
        for_values = getitem(ct, *arrays, index=index) * _slope(x, values, arrays, index)
    return [for_x, for_values]


index_multiply: Primitive = _declare(
    "index_multiply",
    lambda out, values, arrays, index: apply_at(np.multiply, out, values, arrays, index),
    vjp=_vjp_multiply,
    rounding=FACTORS,
)
"""`index_multiply(x, values, *arrays, index=)`: x with x[index] *= values, repeats included."""

# --- extrema: values that attain the result share its derivative equally --------------------------


def _extremum(name: str, ufunc: np.ufunc) -> Primitive:
    def shares(x: Any, y: Any, values: Any, arrays: Any, index: Index) -> tuple[Any, Any, Any]:
        """Whether x, and each of the values, attain the result; and the number that do."""
        one = typeof(y).dtype.type(1)
        hit_x = attains(x, y)
        hit_values = attains(values, getitem(y, *arrays, index=index))
        count = index_add(
            select(hit_x, one, one * 0), select(hit_values, one, one * 0), *arrays, index=index
        )
        return hit_x, hit_values, count

    def vjp(
        ct: Any, y: Any, x: Any, values: Any, arrays: Any, index: Index, wanted: Any
    ) -> list[Any]:
        hit_x, hit_values, count = shares(x, y, values, arrays, index)
        share = ct / count
        for_values = None
        if wanted[1]:
            for_values = select(hit_values, getitem(share, *arrays, index=index), 0)
            for_values = Masked(for_values, hit_values)
        return [Masked(select(hit_x, share, 0), hit_x), for_values]

    primitive = _declare(
        name,
        lambda out, values, arrays, index: apply_at(ufunc, out, values, arrays, index),
        vjp=vjp,
        masks=True,
    )
    return primitive


index_min = _extremum("index_min", np.minimum)
"""`index_min(x, values, *arrays, index=)`: x with x[index] = min(x[index], values)."""
index_max = _extremum("index_max", np.maximum)
"""`index_max(x, values, *arrays, index=)`: x with x[index] = max(x[index], values)."""
