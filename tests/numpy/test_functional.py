"""Counts, functions of functions, insertions and questions about arrays against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from surface import agrees, same, values

import fungrad as fg
import fungrad.numpy as fnp

V, M = values((6,)), values((3, 4))
INT = np.array([2, 0, 1, 2, 0, 4])


def eager(f, *args):
    same(fg.vjp(f, *args)[0], f(*args), str(args))


# --- counts ---------------------------------------------------------------------------------------


def test_bincount():
    agrees(lambda w: np.bincount(INT, w), V)
    agrees(lambda w: np.bincount(INT, weights=w, minlength=8), V)
    agrees(lambda w: np.bincount([0, 1, 1], w[:3]), V.astype(np.float32), order=1)
    with pytest.raises(fg.errors.AbstractValueError, match="bincount"):
        fg.jit(np.bincount, branches="error")(INT)
    np.testing.assert_array_equal(fg.jit(np.bincount)(INT), np.bincount(INT))
    with pytest.raises(ValueError, match="length"):
        fg.grad(lambda w: np.sum(np.bincount(INT, w)))(V[:2])


@pytest.mark.parametrize("density", [False, True])
def test_histogram(density):
    d = density
    edges = np.array([-1.5, -0.3, 0.2, 1.7])
    at = np.append(V, [-1.5, 1.7, 0.2, 9.0])
    for bins, ends in ((4, None), (3, (-1.0, 1.0)), (edges, None), ("auto", None)):
        eager(lambda x, b=bins, e=ends: np.histogram(x, b, e, density=d), at)
    agrees(lambda w: np.histogram(V, edges, density=d, weights=w), np.abs(V) + 1)
    agrees(lambda x: np.histogram(x, edges, density=d), at, order=0)
    agrees(lambda x: np.histogram(x, 4, density=d), at, order=0)
    agrees(lambda x: np.histogram_bin_edges(x, 4), at)
    eager(lambda x: np.histogram(x, 3, density=d), np.full(3, 2.0))
    x, y = values((9,)), values((9,), seed=2)
    for bins in (3, [2, 4], [edges, 3], edges):
        eager(lambda x, y, b=bins: np.histogram2d(x, y, b, density=d), x, y)
    eager(lambda x: np.histogramdd(x, 3, density=d), values((8, 3)))
    eager(lambda x: np.histogramdd(x, (2, 3), [(-1, 1), None], density=d), values((8, 2)))
    agrees(lambda w: np.histogram2d(x, y, 3, weights=w, density=d)[0], np.abs(x) + 0.1)


RULES = ["auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges"]


@pytest.mark.parametrize("rule", RULES)
def test_the_edges_of_bins_counted_by_a_rule_have_derivatives(rule):
    x = values((30,), seed=3)
    eager(lambda x: np.histogram_bin_edges(x, rule), x)
    fg.testing.check_grads(lambda x: np.histogram_bin_edges(x, rule), (x,), order=2)
    fg.testing.check_grads(lambda x: np.histogram(x, rule, density=True)[0], (x,), order=2)
    found = fg.jacrev(lambda x: np.histogram_bin_edges(x, rule))(x)
    assert found[0, np.argmin(x)] == found[-1, np.argmax(x)] == 1.0
    eager(lambda x: np.histogram_bin_edges(x, rule, (-1.0, 1.0)), x)
    with pytest.raises(TypeError, match="weighted"):
        fg.vjp(lambda w: np.histogram(x, rule, weights=w), np.ones(30))
    with pytest.raises(fg.errors.AbstractValueError, match="bins="):
        fg.jit(lambda x: np.histogram_bin_edges(x, rule), branches="error")(x)


def test_traced_edges_have_to_ascend():
    for run in (lambda f: f, fg.jit, lambda f: lambda *a: fg.vjp(f, *a)):
        with pytest.raises(ValueError, match="increase monotonically"):
            run(np.histogram)(V, np.array([0.0, 2.0, 1.0]))


def test_edges_have_the_dtype_of_data_and_ends():
    for dtype in (np.float16, np.float32):
        for x in (np.zeros(0, dtype), np.ones(3, dtype)):
            agrees(lambda x: np.histogram_bin_edges(x, 3), x, order=0)
            agrees(lambda x: np.histogram_bin_edges(x, 3, (0, 1.5)), x, order=0)
            agrees(lambda x: np.histogram_bin_edges(x, 3, (0, np.float64(1.5))), x, order=0)


# --- functions of functions -----------------------------------------------------------------------


def test_apply():
    agrees(lambda x: np.apply_along_axis(lambda v: np.outer(v, v)[:2], 1, x), M)
    agrees(lambda x: np.apply_along_axis(np.sum, 0, x), M)
    agrees(lambda x: np.apply_along_axis(lambda v, k: v * k, -1, x, 3.0), values((2, 3, 2)))
    branching = fg.grad(
        lambda x: np.sum(np.apply_along_axis(lambda v: v * (2 if v[0] > 0 else 3), 1, x))
    )
    np.testing.assert_array_equal(branching(M), np.where(M[:, :1] > 0, 2.0, 3.0) + 0 * M)
    agrees(lambda x: np.apply_over_axes(np.sum, x, [0, -1]), values((2, 3, 2)))


def test_piecewise():
    functions = [lambda x: x**2, np.sin, 1.5]
    agrees(lambda x: np.piecewise(x, [x < -0.5, x > 0.5], functions), V)
    agrees(lambda x: np.piecewise(x, [x < 0], [np.exp]), M)
    agrees(lambda x: np.piecewise(x, x < 0, [lambda x: -x, lambda x: x]), V)
    agrees(lambda x: np.piecewise(x, [x < 0], [lambda x, k: k * x, 2], 3.0), V)
    agrees(lambda x: np.piecewise(x, [x < 9], [lambda x: x * x]), np.float64(0.5), batch=False)
    g = fg.grad(lambda x: np.sum(np.piecewise(x, [x > 0], [np.sqrt, 0])))(np.array([0.0, 4.0]))
    np.testing.assert_array_equal(g, [0.0, 0.25])
    with pytest.raises(ValueError, match="functions are expected"):
        fg.grad(lambda x: np.sum(np.piecewise(x, [x > 0], [1, 2, 3])))(V)


def test_vectorize():
    def absolute(x, k=1.0):
        return x * k if x > 0 else -x * k

    for vectorize in (np.vectorize, fnp.vectorize):
        f = vectorize(absolute)
        np.testing.assert_array_equal(fg.grad(lambda x, f=f: np.sum(f(x)))(M), np.sign(M))
        same(f(M), np.vectorize(absolute)(M), "outside of transforms")
    f = fnp.vectorize(absolute)
    same(fg.vjp(lambda x: f(x, 2.0), M)[0], f(M, 2.0), "two arguments")
    g = fnp.vectorize(lambda x, y: (x * y, x + y))
    agrees(lambda x, y: g(x, y), M, V[:4])
    inner = fnp.vectorize(np.dot, signature="(n),(n)->()")
    agrees(lambda x, y: inner(x, y), M, V[:4])
    power = fnp.vectorize(lambda x, n: x**n, excluded={1})
    agrees(lambda x: power(x, 3), M)

    @fnp.vectorize(otypes=[np.float64])
    def twice(x):
        return 2 * x

    agrees(twice, M)


# --- insertions and indices -----------------------------------------------------------------------


def test_delete_and_insert():
    for obj in (1, -1, [0, 2], slice(0, 2), np.array([True, False, True])):
        agrees(lambda x, o=obj: np.delete(x, o, axis=0), M)
    agrees(lambda x: np.delete(x, [1, 5]), M)
    for obj in (1, -1, [1], [0, 2], [2, 0, 0], slice(0, 2)):
        eager(lambda x, o=obj: np.insert(x, o, 7.0, axis=0), M)
        eager(lambda x, o=obj: np.insert(x, o, 7.0), M)
    agrees(lambda x, y: np.insert(x, 1, y, axis=0), M, V[:4])
    agrees(lambda x, y: np.insert(x, 1, y, axis=1), M, V[:3])
    agrees(lambda x, y: np.insert(x, [1], y, axis=1), M, values((3, 2)))
    agrees(lambda x, y: np.insert(x, [1, 2], y, axis=1), M, values((3, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 2, 5, -1, -5])
def test_places_to_insert_at_and_delete_may_be_traced(place):
    x, m, i = np.arange(5.0), values((3, 5)), np.int64(place)
    for f in (
        lambda x, m, i: np.insert(x, i, [7.0, 8.0]),
        lambda x, m, i: np.insert(m, i, [7.0, 8.0, 9.0], axis=1),
        lambda x, m, i: np.insert(m, i[None], [[7.0], [8.0], [9.0]], axis=1),
        lambda x, m, i: np.insert(m, np.stack([i, i * 0, i]), [1.0, 2.0, 3.0], axis=1),
        lambda x, m, i: np.insert(x * 1.0, np.stack([i, i * 0 + 3, i]), x[:3]),
        lambda x, m, i: np.delete(m, i, axis=1) if place < 5 else x,
        lambda x, m, i: np.delete(np.arange(5.0), i[None]) if place < 5 else x,
    ):
        same(fg.jit(f)(x, m, i), f(x, m, i), "compiled")
        rows = fg.vmap(f, in_axes=(None, None, 0))(x, m, np.stack([i, i * 0]))
        same(rows, np.stack([f(x, m, i), f(x, m, i * 0)]), "mapped")
        fg.testing.check_grads(lambda x, m, f=f: fg.jit(f)(x, m, i), (x, m), order=1)  # linear


def test_places_outside_of_an_axis_raise():
    for run in (lambda f: f, fg.jit, lambda f: lambda *args: fg.vjp(f, *args)):
        for f, bad in ((lambda x, i: np.insert(x, i, [7.0, 8.0]), (6, -6)), (np.delete, (5, -6))):
            for i in bad:
                with pytest.raises(IndexError, match="out of bounds for axis 0 with size 5"):
                    run(f)(np.arange(5.0), i)
    with pytest.raises(fg.errors.AbstractValueError, match=r"np\.delete"):
        fg.jit(np.delete, branches="error")(np.arange(5.0), np.array([1, 2]))


def test_indices():
    rows, columns = np.array([0, 2]), np.array([1, 3, 0])
    agrees(lambda x: x[np.ix_(rows, columns)], M)
    agrees(lambda r, c: np.ix_(r, c), rows, columns)
    agrees(lambda x: x[np.tril_indices_from(x)], values((3, 3)))
    agrees(lambda x: x[np.triu_indices_from(x, 1)], M)
    agrees(lambda x: x[np.diag_indices_from(x)], values((3, 3)))
    for order in "CF":
        flat = np.array([3, 7, 11])
        agrees(lambda i, o=order: np.unravel_index(i, (3, 4), order=o), flat, batch=False)
        agrees(
            lambda i, o=order: np.unravel_index(i, (3, 4), order=o),
            flat.astype(np.int8),
            batch=False,
        )
        pair = np.unravel_index(flat, (3, 4))
        agrees(
            lambda i, j, o=order: np.ravel_multi_index((i, j), (3, 4), order=o), *pair, batch=False
        )
    agrees(lambda i: np.ravel_multi_index((i, i), (3, 4), mode=("clip", "wrap")), INT)


# --- questions ------------------------------------------------------------------------------------


def test_dtypes_pass_through():
    answers = []

    def f(x):
        answers.append(np.result_type(x, np.float32))
        answers.append(np.result_type(x, 1.0))
        answers.append(np.can_cast(np.float16, x.dtype))
        answers.append(np.common_type(x))
        answers.append(np.einsum_path("ij,jk", x, np.ones((2, 2)))[0])
        answers.append(np.may_share_memory(x, np.ones(2)))
        answers.append(np.finfo(x.dtype).eps)
        answers.append(np.isdtype(x.dtype, "real floating"))
        answers.append(np.array_equiv(x, x[:1]))
        return np.sum(x)

    x = np.ones((2, 2), np.float32)
    fg.grad(f)(x)
    assert answers[:4] == [np.float32, np.float32, True, np.float32]
    assert answers[4] == ["einsum_path", (0, 1)] and answers[5] is False
    assert answers[6] == np.finfo(np.float32).eps and answers[7] is True and answers[8]


def test_real_if_close():
    small = np.array([1.0 + 1e-15j, 2.0])
    eager(np.real_if_close, small)
    eager(np.real_if_close, small + 1j)
    agrees(np.real_if_close, V)


@pytest.mark.parametrize("run", [lambda f: f, fg.jit, lambda f: lambda i: fg.vmap(f)(i[None])])
def test_indices_out_of_range_raise_in_compiled_programs_too(run):
    i = np.array([0, 3])
    with pytest.raises(ValueError, match="index 3 is out of bounds for array with size 3"):
        run(lambda i: np.unravel_index(i, (1, 3)))(i)
    with pytest.raises(ValueError, match="invalid entry in coordinates array"):
        run(lambda i: np.ravel_multi_index((i, 1), (2, 3)))(i)
    with pytest.raises(ValueError, match="invalid entry in choice array"):
        run(lambda i: np.choose(i, [1.0, 2.0]))(i)
    with pytest.raises(TypeError, match="only int indices"):
        run(lambda i: np.unravel_index(i, (1, 3)))(i * 1.0)
    with pytest.raises(ValueError, match="sequence of length 2"):
        run(lambda i: np.ravel_multi_index((i,), (2, 3)))(i)
