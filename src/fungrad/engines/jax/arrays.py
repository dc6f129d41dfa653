"""JAX rules of primitives that make, move, reduce, index, sort and transform arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.scipy.signal as jsignal
import numpy as np
from jax import lax

from fungrad.engines.jax.elementwise import cast, jax, jnp, rule
from fungrad.primitives import fft as fourier
from fungrad.primitives.contraction.convolution import convolve_nd
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.ufuncs import bitcast
from fungrad.primitives.movement.diagonal_roll import diagonal, from_diagonal, roll
from fungrad.primitives.movement.gather import getitem, indexed, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    concatenate,
    conj,
    convert,
    flip,
    number,
    pad,
    reduce_sum,
    reshape,
    slice_axis,
    to_discrete,
    transpose,
)
from fungrad.primitives.movement.scatter import (
    index_add,
    index_max,
    index_min,
    index_multiply,
    index_set,
    stable_order,
)
from fungrad.primitives.movement.sliding_window import overlap_add, window_counts, windows
from fungrad.primitives.movement.stack_iota import basis, iota, stack, unstack
from fungrad.primitives.primitive import full
from fungrad.primitives.reduction.cumulative import (
    cummax,
    cummin,
    cumprod,
    cumsum,
    linear_recurrence,
)
from fungrad.primitives.reduction.reduce import (
    argmax,
    argmin,
    exact_sum,
    product_of_others,
    reduce_all,
    reduce_any,
    reduce_logaddexp,
    reduce_logaddexp2,
    reduce_max,
    reduce_min,
    reduce_prod,
)
from fungrad.primitives.runtime_check import checked
from fungrad.primitives.sort import (
    argsort,
    lexsort,
    partition,
    permuted,
    searchsorted,
    share_ties,
    sort,
)
from fungrad.primitives.stop_gradient import stop, stop_order
from fungrad.rematerialisation.policies import named

# --- made and moved -------------------------------------------------------------------------------

rule(full)(lambda *, shape, value, dtype: jnp.full(shape, value, dtype))
rule(iota)(lambda *, shape: jnp.arange(math.prod(shape), dtype=jnp.int64).reshape(shape))
rule(basis)(lambda **params: jnp.asarray(basis.eval(**params)))
rule(reshape)(lambda x, *, shape: jnp.reshape(x, shape))
rule(transpose)(lambda x, *, axes: jnp.transpose(x, axes))
rule(broadcast_to)(lambda x, *, shape: jnp.broadcast_to(x, shape))
rule(convert, to_discrete)(cast)
rule(number)(lambda x: x)
rule(conj)(jnp.conj)
rule(concatenate)(lambda *xs, axis: jnp.concatenate(xs, axis))
rule(pad)(lambda x, *, widths: jnp.pad(x, widths) if widths else x)
rule(flip)(lambda x, *, axes: jnp.flip(x, axes))
rule(stack)(lambda *xs: jnp.stack(xs))
rule(unstack)(lambda x: tuple(x[i] for i in range(x.shape[0])))
rule(diagonal)(lambda x, *, offset: jnp.diagonal(x, offset, -2, -1))
rule(roll)(lambda x, *, shifts, axes: jnp.roll(x, shifts, axes))
rule(bitcast)(lambda x, *, dtype: x.view(dtype))
rule(stop)(lambda x, *, name: lax.stop_gradient(x))
rule(stop_order)(lambda x, *, name, order: x)
rule(named)(lambda x, *, name: x)
rule(checked)(lambda x, holds, *, message, error="": x)


@rule(slice_axis)
def _slice_axis(x: Any, *, axis: int, start: int, stop: int) -> Any:
    return lax.slice_in_dim(x, start, stop, axis=axis)


@rule(from_diagonal)
def _from_diagonal(x: Any, *, offset: int, shape: tuple[int, int]) -> Any:
    rows = np.arange(x.shape[-1]) + max(0, -offset)
    return jnp.zeros((*x.shape[:-1], *shape), x.dtype).at[..., rows, rows + offset].set(x)


# --- reduced --------------------------------------------------------------------------------------

rule(reduce_sum)(lambda x, *, axes: jnp.sum(x, axes))
rule(reduce_prod)(lambda x, *, axes: jnp.prod(x, axes))
rule(reduce_max)(lambda x, *, axes: jnp.max(x, axes))
rule(reduce_min)(lambda x, *, axes: jnp.min(x, axes))
rule(reduce_any)(lambda x, *, axes: jnp.any(x, axes))
rule(reduce_all)(lambda x, *, axes: jnp.all(x, axes))
rule(argmax)(lambda x, *, axis: jnp.argmax(x, axis))
rule(argmin)(lambda x, *, axis: jnp.argmin(x, axis))
rule(exact_sum)(lambda x: jnp.sum(x, -1))


def _log_sum(exp: Any, log: Any) -> Callable[..., Any]:
    def reduce(x: Any, *, axes: Sequence[int]) -> Any:
        if any(x.shape[a] == 0 for a in axes):
            shape = [n for i, n in enumerate(x.shape) if i not in axes]
            return jnp.full(shape, -jnp.inf, x.dtype)
        top = jnp.max(x, axes, keepdims=True)
        top = jnp.where(jnp.isfinite(top), top, 0)
        return log(jnp.sum(exp(x - top), axes)) + jnp.squeeze(top, axes)

    return reduce


rule(reduce_logaddexp)(_log_sum(jnp.exp, jnp.log))
rule(reduce_logaddexp2)(_log_sum(jnp.exp2, jnp.log2))


@rule(product_of_others)
def _product_of_others(x: Any, *, axes: Sequence[int]) -> Any:
    rest = [i for i in range(x.ndim) if i not in axes]
    order = (*rest, *axes)
    moved = jnp.transpose(x, order)
    count = math.prod(x.shape[i] for i in axes)
    flat = moved.reshape(*[x.shape[i] for i in rest], count)
    if not flat.size:
        return x
    one = jnp.ones_like(flat[..., :1])
    before = jnp.concatenate([one, jnp.cumprod(flat[..., :-1], -1)], -1)
    after = jnp.concatenate([jnp.cumprod(flat[..., :0:-1], -1)[..., ::-1], one], -1)
    return jnp.transpose((before * after).reshape(moved.shape), np.argsort(order))


def _running(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, *, axis: int, reverse: bool = False) -> Any:
        if reverse:
            return jnp.flip(function(jnp.flip(x, axis), axis), axis)
        return function(x, axis)

    return run


rule(cumsum)(_running(jnp.cumsum))
rule(cumprod)(_running(jnp.cumprod))
rule(cummax)(_running(lambda x, axis: lax.associative_scan(jnp.maximum, x, axis=axis)))
rule(cummin)(_running(lambda x, axis: lax.associative_scan(jnp.minimum, x, axis=axis)))


@rule(linear_recurrence)
def _recurrence(a: Any, u: Any, *, axis: int, reverse: bool = False) -> Any:
    dtype = jnp.result_type(a, u)
    a, u = jnp.moveaxis(a.astype(dtype), axis, 0), jnp.moveaxis(u.astype(dtype), axis, 0)
    if not u.shape[0]:
        return jnp.moveaxis(u, 0, axis)

    def step(h: Any, terms: Any) -> Any:
        h = terms[0] * h + terms[1]
        return h, h

    states = lax.scan(step, jnp.zeros_like(u[0]), (a, u), reverse=reverse)[1]
    return jnp.moveaxis(states, 0, axis)


# --- products and transforms ----------------------------------------------------------------------


@rule(dot_general)
def _dot_general(x: Any, y: Any, *, contract: Any, batch: Any) -> Any:
    dtype = jnp.result_type(x, y)
    dimensions = (contract, batch)
    return lax.dot_general(x.astype(dtype), y.astype(dtype), dimensions, precision="highest")


def _mapped(function: Callable[..., Any], x: Any, y: Any, axes: int) -> Any:
    """Applies a function of the last axes of two arrays over their broadcast leading axes."""
    lead = np.broadcast_shapes(x.shape[: x.ndim - axes], y.shape[: y.ndim - axes])
    dtype = jnp.result_type(x, y)
    flat = [
        jnp.broadcast_to(z, (*lead, *z.shape[z.ndim - axes :]))
        .reshape(-1, *z.shape[z.ndim - axes :])
        .astype(dtype)
        for z in (x, y)
    ]
    results = jax.vmap(function)(*flat)
    return results.reshape(*lead, *results.shape[1:])


@rule(convolve_nd)
def _convolve_nd(x: Any, y: Any, *, axes: int, mode: str) -> Any:
    def one(p: Any, q: Any) -> Any:
        return jsignal.convolve(p, q, mode, method="direct", precision="highest")

    return _mapped(one, x, y, axes)


@rule(fourier.fft)
def _fft(x: Any, *, axes: Sequence[int], inverse: bool, norm: str) -> Any:
    one = jnp.fft.ifft if inverse else jnp.fft.fft
    return functools.reduce(lambda value, axis: one(value, axis=axis, norm=norm), axes, x)


@rule(fourier.rfft)
def _rfft(x: Any, *, axis: int, norm: str) -> Any:
    return jnp.fft.rfft(x, axis=axis, norm=norm)


@rule(fourier.irfft)
def _irfft(x: Any, *, axis: int, length: int, norm: str) -> Any:
    return jnp.fft.irfft(x, length, axis=axis, norm=norm)


# --- read and written -----------------------------------------------------------------------------


@rule(getitem)
def _getitem(x: Any, *arrays: Any, index: Any) -> Any:
    """Elements out of bounds are NaN (0 for integers), since JAX cannot raise."""
    if not arrays:
        return x[index.fill(arrays)]
    return x.at[index.fill(arrays)].get(mode="fill", fill_value=None if x.dtype.kind in "fc" else 0)


@rule(indexed)
def _indexed(*arrays: Any, index: Any, shape: Any) -> Any:
    return jnp.zeros(shape, bool).at[index.fill(arrays)].set(True)


@rule(scatter)
def _scatter(values: Any, *arrays: Any, index: Any, shape: Any) -> Any:
    slices = [e for e in index.entries if isinstance(e, slice) and e.step in (None, 1)]
    if values.dtype == bool:
        return jnp.zeros(shape, bool).at[index.fill(arrays)].max(values)
    if arrays or len(slices) < len(index.entries) or values.ndim != len(shape):
        return jnp.zeros(shape, values.dtype).at[index.fill(arrays)].add(values)
    slices += [slice(None)] * (len(shape) - len(slices))
    widths = []
    for entry, n in zip(slices, shape, strict=True):
        start, stop, _ = entry.indices(n)
        widths.append((start, n - max(start, stop), 0))
    return lax.pad(values, jnp.zeros((), values.dtype), widths)


def _writer(method: str) -> Callable[..., Any]:
    def write(x: Any, values: Any, *arrays: Any, index: Any) -> Any:
        return getattr(x.at[index.fill(arrays)], method)(values)

    return write


for _primitive, _method in (
    (index_add, "add"), (index_multiply, "multiply"), (index_max, "max"), (index_min, "min"),
):  # fmt: skip
    rule(_primitive)(_writer(_method))


@rule(index_set)
def _index_set(x: Any, values: Any, *arrays: Any, index: Any) -> Any:
    """Where an element is written more than once the last value stays, as in NumPy. XLA writes in
    order on the CPU alone.
    """
    in_order = functools.partial(_writer("set"), index=index)
    if index.unique or not arrays:
        return in_order(x, values, *arrays)
    last = functools.partial(_write_last, index=index)
    return lax.platform_dependent(x, values, *arrays, cpu=in_order, default=last)


def _write_last(x: Any, values: Any, *arrays: Any, index: Any) -> Any:
    written = index.fill(arrays)
    shape = jax.eval_shape(lambda x: x[written], x).shape
    if 0 in shape:
        return x
    order = jnp.arange(math.prod(shape)).reshape(shape)
    last = jnp.full(x.shape, -1).at[written].max(order)
    values = jnp.broadcast_to(values, shape).ravel()
    return jnp.where(last < 0, x, values[last].astype(x.dtype))


def _window_index(counts: Any, sizes: Any, strides: Any, dilations: Any) -> tuple[Any, ...]:
    axes = len(sizes)
    grids = []
    for i in range(axes):
        grid = np.arange(counts[i])[:, None] * strides[i] + np.arange(sizes[i]) * dilations[i]
        shape = [1] * (2 * axes)
        shape[i], shape[axes + i] = grid.shape
        grids.append(grid.reshape(shape))
    return (Ellipsis, *grids)


@rule(windows)
def _windows(x: Any, *, sizes: Any, strides: Any, dilations: Any) -> Any:
    counts = window_counts(x.shape[x.ndim - len(sizes) :], sizes, strides, dilations)
    return x[_window_index(counts, sizes, strides, dilations)]


@rule(overlap_add)
def _overlap_add(x: Any, *, lengths: Any, strides: Any, dilations: Any) -> Any:
    axes = len(lengths)
    lead = x.ndim - 2 * axes
    counts, sizes = x.shape[lead : lead + axes], x.shape[lead + axes :]
    index = _window_index(counts, sizes, strides, dilations)
    return jnp.zeros((*x.shape[:lead], *lengths), x.dtype).at[index].add(x)


# --- sorted ---------------------------------------------------------------------------------------

rule(sort)(lambda x, *, axis: jnp.sort(x, axis))
rule(argsort)(lambda x, *, axis, kind: jnp.argsort(x, axis, stable=True))
rule(stable_order)(lambda x: jnp.argsort(x, axis=-1, stable=True))
rule(lexsort)(lambda *keys, axis: jnp.lexsort(keys, axis))
rule(partition)(lambda x, *, kth, axis: jnp.sort(x, axis))


@rule(permuted)
def _permuted(x: Any, order: Any, *, axis: int, inverse: bool = False) -> Any:
    return jnp.take_along_axis(x, jnp.argsort(order, axis=axis) if inverse else order, axis)


@rule(searchsorted)
def _searchsorted(a: Any, v: Any, *, side: str, lead: int = 0) -> Any:
    if not lead:
        return jnp.searchsorted(a, v, side)
    count = math.prod(v.shape[:lead])
    rows = v.reshape(count, math.prod(v.shape[lead:]))
    one = jax.vmap(lambda p, q: jnp.searchsorted(p, q, side))
    return one(a.reshape(count, -1), rows).reshape(v.shape)


@rule(share_ties)
def _share_ties(x: Any, keys: Any, *, axis: int) -> Any:
    last, values = jnp.moveaxis(keys, axis, -1), jnp.moveaxis(x, axis, -1)
    n = last.shape[-1]
    if not last.size:
        return x
    ordered = last.reshape(-1, n)
    later, earlier = ordered[:, 1:], ordered[:, :-1]
    same = (later == earlier) | ((later != later) & (earlier != earlier))
    starts = jnp.concatenate([jnp.ones_like(ordered[:, :1], bool), ~same], 1)
    segments = jnp.cumsum(starts, 1) - 1

    def one(row: Any, segment: Any) -> Any:
        total = jax.ops.segment_sum(row, segment, n)
        count = jax.ops.segment_sum(jnp.ones(n, row.real.dtype), segment, n)
        return (total / jnp.where(count == 0, 1, count))[segment]

    shared = jax.vmap(one)(values.reshape(-1, n), segments)
    return jnp.moveaxis(shared.reshape(values.shape), -1, axis)
