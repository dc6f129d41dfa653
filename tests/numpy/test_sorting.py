"""Sorting, searching and sets against NumPy, under every transform; ties share the derivative."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from surface import agrees, same, values

import fungrad as fg
import fungrad.numpy as fnp

X = values((3, 5))
TIED = np.array([3.0, 1.0, 3.0, 1.0, 2.0])


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_sort_and_partition(axis):
    agrees(lambda x: np.sort(x, axis=axis), X)
    agrees(lambda x: np.sort(x, axis=axis, kind="stable"), X.astype(np.float32), order=1)
    agrees(lambda x: np.argsort(x, axis=axis), X)
    agrees(lambda x: np.argsort(x, axis=axis, stable=True), np.round(X))
    for kth in (1, -1, [0, 2]):
        agrees(lambda x, k=kth: np.partition(x, k, axis=axis), X)
        agrees(lambda x, k=kth: np.argpartition(x, k, axis=axis), X)
    agrees(lambda x: np.sort(x, axis=axis), values((3, 5), np.complex128))
    agrees(lambda x: np.sort_complex(x), X[0])
    agrees(lambda x: np.sort_complex(x), values((4,), np.float32), order=1)


def test_lists_ints_and_odd_shapes():
    agrees(lambda x: fnp.sort([x[0], x[2], x[1]]), X[0])
    for dtype in (np.int32, np.bool_, np.float16, np.longdouble):
        x = values((6,), dtype)
        graph = fg.make_jaxpr(np.sort)(x)
        same(fg.evaluate(graph, x)[0], np.sort(x), str(dtype))
    agrees(lambda x: np.sort(x), np.zeros((2, 0)), order=0)
    agrees(lambda x: np.sort(x, axis=None), np.array(1.5))
    with pytest.raises(np.exceptions.AxisError):
        fg.grad(lambda x: np.sum(np.sort(x)))(1.5)


def test_ties_share_the_derivative_of_a_sorted_place():
    picked = np.array([1.0, 0, 0, 0, 0])
    for f in (np.sort, lambda x: np.partition(x, 0)):
        g = fg.grad(lambda x, f=f: np.dot(f(x), picked))(TIED)
        np.testing.assert_allclose(g, [0, 0.5, 0, 0.5, 0])
        t = np.array([0.0, 2.0, 0, 4.0, 0])
        _, moved = fg.jvp(lambda x, f=f: np.dot(f(x), picked), (TIED,), (t,))
        assert moved == 3.0
    rows = np.stack([TIED, TIED[::-1]])
    g = fg.vmap(fg.grad(lambda x: np.sort(x)[-1]))(rows)
    np.testing.assert_allclose(g, [[0.5, 0, 0.5, 0, 0], [0, 0, 0.5, 0, 0.5]])


def test_methods():
    agrees(lambda x: x.argsort(axis=0), X)
    agrees(lambda x: x.argpartition(2), X)
    agrees(lambda x: np.sort(x).searchsorted([0.1, 0.2]), X[0])


def test_orders_of_numbers():
    for axis in (0, -1):
        agrees(lambda x, a=axis: np.argsort(x, axis=a), np.float64(3.5), order=0)
        agrees(lambda x, a=axis: np.argpartition(x, 0, axis=a), np.float64(3.5), order=0)
        agrees(lambda x, a=axis: np.lexsort(x, axis=a), np.array([3.0, 1.0, 2.0]), order=0)
        agrees(lambda x, a=axis: np.cumulative_sum(x, axis=a), np.float64(3.5))
    for run in (lambda f: f, fg.jit):
        with pytest.raises(TypeError, match="len > 0"):
            run(np.lexsort)(np.array(3.0))
        with pytest.raises(TypeError, match="cannot accumulate on a scalar"):
            run(np.add.accumulate)(np.array(3.0))


def test_partitions_and_quantiles_of_nothing():
    for shape in ((0,), (0, 2), (2, 0)):
        agrees(
            lambda x: np.partition(x, 1), np.zeros(shape) if shape[-1] != 2 else np.zeros((0, 2))
        )
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            same(
                fg.jit(lambda x: np.nanquantile(x, [0.1, 0.2], axis=0))(np.zeros(shape)),
                np.nanquantile(np.zeros(shape), [0.1, 0.2], axis=0),
                "of nothing",
            )


def test_lexsort():
    keys = np.array([[1.0, 0.0, 1.0, 0.0], [2.0, 2.0, 1.0, 1.0]])
    agrees(lambda a, b: np.lexsort((a, b)), keys[0], keys[1])
    agrees(lambda a: np.lexsort(a), keys)
    agrees(lambda a: np.lexsort((a, a[::-1]), axis=0), X)


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_and_digitize(side):
    edges = np.array([-1.0, 0.0, 0.0, 0.5])
    agrees(lambda v: np.searchsorted(edges, v, side), np.append(X[0], [0.0, -1.0, np.nan]), order=0)
    agrees(lambda a, v: np.searchsorted(np.sort(a), v, side=side), X[0], X)
    agrees(lambda v: np.searchsorted(edges, v[0], side), X[0])
    agrees(lambda v: np.searchsorted([2, 0, 1], v, side, sorter=[1, 2, 0]), X[0])
    for bins in (edges, edges[::-1], np.array([1, 2])):
        agrees(lambda v, b=bins: np.digitize(v, b, right=side == "left"), np.append(X[0], 0.0))
    with pytest.raises(ValueError, match="monotonically"):
        fg.grad(lambda v: np.sum(np.digitize(v, [0, 2, 1])))(X[0])


@pytest.mark.parametrize("run", [lambda f: f, fg.jit, lambda f: lambda *a: fg.vjp(f, *a)[0]])
def test_bins_of_traced_values_may_descend(run):
    x, bins = np.array([0.5, 2.0, 2.5]), np.array([3.0, 2.0, 1.0, 0.0])
    for right in (False, True):
        found = run(lambda x, b, r=right: np.digitize(x, b, r))(x, bins)
        same(found, np.digitize(x, bins, right), "descending")
    with pytest.raises(ValueError, match="monotonically"):
        run(np.digitize)(x, np.array([3.0, 1.0, 2.0]))
    both = np.stack([bins, bins[::-1]])
    found = fg.vmap(np.digitize, in_axes=(None, 0))(x, both)
    same(found, np.stack([np.digitize(x, b) for b in both]), "one ascends, one descends")


def test_one_search_in_each_example():
    a = np.sort(values((3, 6)), axis=1)
    v = values((3, 2, 2), seed=1)
    found = fg.vmap(np.searchsorted)(a, v)
    same(found, np.stack([np.searchsorted(x, y) for x, y in zip(a, v, strict=True)]), "both")
    found = fg.vmap(fg.vmap(np.searchsorted, in_axes=(None, 0)))(a, v)
    same(found, np.stack([np.searchsorted(x, y) for x, y in zip(a, v, strict=True)]), "nested")
    found = fg.vmap(np.searchsorted, in_axes=(0, None))(a, v[0])
    same(found, np.stack([np.searchsorted(x, v[0]) for x in a]), "first")


# --- sets -----------------------------------------------------------------------------------------


def only_eager(f, *args, order=1):
    agrees_eager = fg.vjp(f, *args)[0]
    same(agrees_eager, f(*args), "under vjp")
    if order:
        fg.testing.check_grads(f, args, order=order)


def test_unique():
    x = np.array([[3.0, 1.0, 2.0], [3.0, 1.0, 5.0]])
    for flags in ((), (True,), (True, True, True), (False, True), (False, False, True)):
        only_eager(lambda x, f=flags: np.unique(x, *f), x, order=0)
        only_eager(lambda x, f=flags: np.unique(x, *f, axis=1), x, order=0)
    only_eager(np.unique, X, order=2)
    only_eager(lambda x: np.unique(x, axis=0), X, order=2)
    only_eager(np.unique, np.array([1.0, np.nan, np.nan, 0.0]), order=0)
    only_eager(lambda x: np.unique(x, equal_nan=False), np.array([1.0, np.nan, np.nan]), order=0)
    np.testing.assert_allclose(fg.grad(lambda x: np.unique(x)[0])(TIED), [0, 0.5, 0, 0.5, 0])
    for f in (np.unique_all, np.unique_counts, np.unique_inverse):
        result = fg.vjp(lambda x, f=f: f(x).values, TIED)[0]
        same(result, f(TIED).values, f.__name__)


def test_unique_of_a_given_size_under_jit_and_vmap():
    x = np.array([3.0, 1.0, 3.0, 2.0])
    for size in (2, 3, 5):
        expected = np.append(np.unique(x), [-1.0] * 5)[:size]
        for wrap in (lambda f: f, fg.jit):
            found = wrap(lambda x, s=size: fnp.unique(x, size=s, fill_value=-1.0))(x)
            same(found, expected, f"size {size}")
    np.testing.assert_allclose(fg.grad(lambda x: fnp.unique(x, size=3)[2])(x), [0.5, 0, 0.5, 0])
    with pytest.raises(fg.errors.AbstractValueError, match=r"np\.unique"):
        fg.jit(np.unique, branches="error")(x)
    same(fnp.unique([2, 1, 2]), np.array([1, 2]), "NumPy's own outside of transforms")


def test_set_operations():
    x, y = np.array([5.0, 1.0, 3.0, 1.0]), np.array([3.0, 2.0, 5.0])
    for f in (np.intersect1d, np.union1d, np.setdiff1d, np.setxor1d):
        only_eager(f, x, y, order=0)
        only_eager(lambda x, f=f: f(x, [3.0, 2.0]), x, order=0)
    only_eager(lambda x, y: np.intersect1d(x, y, return_indices=True), x, y, order=0)
    only_eager(lambda x: np.setdiff1d(x, [3.0], assume_unique=True), x, order=0)
    g = fg.grad(lambda x, y: np.sum(np.union1d(x, y) ** 2), argnums=(0, 1))(x, y + 0.5)
    np.testing.assert_allclose(g[0], [10, 1, 6, 1])
    for invert in (False, True):
        agrees(lambda x, y, i=invert: np.isin(x, y, invert=i), x, y)
    agrees(lambda x: np.isin(x, []), x)
    for trim in ("fb", "f", "b"):
        only_eager(lambda x, t=trim: np.trim_zeros(x, t), np.array([0, 0, 1.5, 0, 2, 0]), order=0)
    only_eager(np.trim_zeros, np.zeros(3), order=0)


def test_partitions_of_empty_arrays_take_any_place():
    for shape in ((0,), (3, 0), (0, 3)):
        agrees(lambda x: np.partition(x, 5), np.zeros(shape))
        agrees(lambda x: np.argpartition(x, 5), np.zeros(shape), order=0)
