"""Reading and writing by index: NumPy's results, shapes and errors under every transform, right
derivatives, also where indices repeat.
"""

from __future__ import annotations

import functools
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fungrad as fg
from fungrad.errors import (
    AbstractValueError,
    GradientCutError,
    ItemAssignmentError,
    ShapeError,
)
from fungrad.primitives.movement.gather import ARRAY, Index, getitem, layout, scatter
from fungrad.testing import check_grads


def draw(shape, dtype="float64", seed=0):
    random = np.random.default_rng(seed)
    x = random.permutation(np.arange(int(np.prod(shape, dtype=int))) + 1.25).reshape(shape) / 8
    return (x + 1j * random.normal(size=shape) if dtype == "complex128" else x).astype(dtype)


def close(found, expected):
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def agrees(f, *xs):
    """f has the same results under each transform as on ndarrays."""
    expected = f(*xs)
    graph = fg.make_jaxpr(f)(*xs)
    fg.check_graph(graph)
    close(fg.evaluate(graph, *xs)[0], expected)
    close(fg.evaluate(pickle.loads(pickle.dumps(graph)), *xs)[0], expected)
    close(fg.vjp(f, *xs)[0], expected)
    close(fg.jvp(f, xs, xs)[0], expected)
    if all(np.ndim(x) for x in xs):
        rows = [np.stack([x, np.flip(x), 2 * x]) for x in xs]
        close(fg.vmap(f)(*rows), np.stack([f(*row) for row in zip(*rows, strict=True)]))


# --- reading --------------------------------------------------------------------------------------

X = draw((3, 4, 2))
MASK = np.array([True, False, True])
FULL_MASK = X > 1.5
INDICES = [
    0, -1, np.int32(1), slice(None), slice(1, None), slice(None, None, -1), slice(5, 1),
    slice(np.int64(1), None), None, Ellipsis, (), (0, 1, 0), (..., 0), (0, ...), (0, ..., 1),
    (None, ..., None), (slice(None), None, 0), (slice(None, None, 2), slice(1, 3), -1),
    [0, 2, 0], [], [[0], [1]], np.array([2, 0]), np.array(1), np.array([], int), (0, [1, 2]),
    ([0, 1], [1, 2]), ([[0], [2]], [1, 2, 0]), (slice(None), [0, 1]), ([0, 1], slice(None), [1, 0]),
    ([0, 1], ..., [1, 0]), ([0, 1], ..., [1, 0], [1, 1]), (0, slice(None), [1, 0]),
    (None, [0, 1], 0), ([0, 1], None, 0), (..., [0, 1]), (..., None, [0, 1], None),
    (slice(None), 1, ..., [0]), (np.array(1), slice(None), [0, 1]), (0, ..., np.array(1)),
    MASK, (MASK, 0), (MASK, slice(None), [1, 1]), (..., np.array([True, False])), FULL_MASK,
    (slice(None), np.ones((4, 2), bool)), [True, False, False], np.zeros(3, bool), True, False,
    (True, 0), (0, True), ([0, 1], True), (..., False), np.True_, (MASK, [0, 1]),
    (slice(1), MASK[[0, 0, 0, 1]]), np.ix_([0, 2], [1, 3]),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_reading_is_numpys(index):
    agrees(lambda x: x[index], X)


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_reading_differentiates(index):
    check_grads(lambda x: x[index] ** 2, [X], order=2)


def test_the_gradient_of_reading_is_the_count_of_reads():
    index = ([[0, 0], [2, 0]], slice(1, 3))
    expected = np.zeros_like(X)
    np.add.at(expected, index, 1.0)
    assert np.array_equal(fg.grad(lambda x: np.sum(x[index]))(X), expected)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_dtypes_are_kept(dtype):
    x = draw((3, 4), dtype)
    for index in (0, slice(1, 3), [0, 0, 1], (slice(None), [1, 1]), MASK):
        agrees(lambda x, i=index: x[i], x)
        gradient = fg.grad(lambda x, i=index: np.real(np.sum(x[i] ** 2)))(x)
        assert gradient.dtype == x.dtype


@pytest.mark.parametrize(
    "index",
    [3, -4, (0, 4), (0, 0, 2), [0, 3], (0, [0, 4]), (0, 0, 0, 0), (..., 0, ...), (0.5,), "a",
     np.ones(2, bool), np.ones((3, 3), bool), ([0, 1], [0, 1, 2]), np.ones((4, 4, 4, 4), bool),
     [0.5]],
    ids=repr,
)  # fmt: skip
def test_wrong_indices_are_numpys_errors(index):
    with pytest.raises((IndexError, TypeError)) as numpys:
        X[index]
    with pytest.raises((IndexError, TypeError)) as ours:
        fg.grad(lambda x: np.sum(x[index]))(X)
    if isinstance(numpys.value, IndexError):
        assert isinstance(ours.value, (IndexError, TypeError))


def test_integers_out_of_bounds_are_found_while_tracing():
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 3"):
        fg.make_jaxpr(lambda x: x[3])(X)
    graph = fg.make_jaxpr(lambda x, i: x[i])(X, 0)
    with pytest.raises(IndexError, match="out of bounds"):
        fg.evaluate(graph, X, 3)
    with pytest.raises(IndexError):
        fg.vmap(lambda i: fg.numpy.take(X, i, axis=0))(np.array([0, 3]))


def test_traced_indices():
    i, j = np.array([0, 2]), np.array([[1], [1]])

    def f(x, i, j):
        return x[i, :, 0][:, :2] + x[i, j][..., 0]

    graph = fg.make_jaxpr(f)(X, i, j)
    fg.check_graph(graph)
    close(fg.evaluate(graph, X, i, j)[0], f(X, i, j))
    found = fg.vmap(lambda k: fg.numpy.take(X, k, axis=1))(i[:1])
    close(found, X[None, :, 0])

    # a traced index is a number under eager differentiation, and has no derivative
    def f(x):
        return x[np.argmax(x)] + x[int(np.floor(x[0]))]

    assert fg.grad(f)(np.array([0.5, 2.0])).tolist() == [1.0, 1.0]


def test_an_unknown_mask_has_no_shape():
    for transform in (fg.make_jaxpr, fg.vmap):
        with pytest.raises(AbstractValueError, match=r"np\.where"):
            transform(lambda x: x[x > 1.5])(X)
    with pytest.raises(AbstractValueError, match=r"np\.where"):
        fg.make_jaxpr(lambda x: np.nonzero(x))(X)
    with pytest.raises(IndexError, match="valid indices"):
        fg.make_jaxpr(lambda x: X[0] * x[x])(X[0, 0])


def test_a_known_mask_may_be_used_under_every_transform():
    agrees(lambda x: x[MASK] * 2, X)
    known = fg.make_jaxpr(lambda x: x[FULL_MASK])(X)
    assert "unique" in str(known)
    close(fg.evaluate(known, X)[0], X[FULL_MASK])


def test_masked_reading_has_no_derivative_elsewhere():
    x = np.array([0.0, 4.0, -1.0])
    with np.errstate(all="ignore"):
        assert fg.grad(lambda x: np.sum(np.sqrt(x)[x > 0]))(x).tolist() == [0.0, 0.25, 0.0]
        assert fg.grad(lambda x: np.sum(np.log(x)[[1, 1]]))(x).tolist() == [0.0, 0.5, 0.0]


def test_printing():
    graph = fg.make_jaxpr(lambda x, i: x[:, 0, None, ..., i])(X, np.array([0]))
    assert "getitem[index=[:, 0, newaxis, ..., i]] a b" in str(graph)
    assert repr(Index((slice(1, None, 2), -1, ARRAY, ARRAY))) == "[1::2, -1, i, j]"
    assert repr(Index((ARRAY,) * 7)) == "[i, j, k, l, m, n, i6]"


def test_an_index_is_hashable_and_comparable():
    one, two = Index((slice(0, 2), 1)), Index((slice(0, 2), 1))
    assert one == two and hash(one) == hash(two) and one != Index((slice(0, 3), 1))
    assert one != Index((slice(0, 2), 1), unique=True)
    assert pickle.loads(pickle.dumps(one)) == one


def test_layout_is_numpys_shape():
    for index in (Index((ARRAY, slice(None), ARRAY)), Index((slice(None), ARRAY, 0))):
        arrays = [np.zeros((2, 3), int)] * index.entries.count(ARRAY)
        shape = np.zeros((4, 5, 6))[index.fill(arrays)].shape
        assert layout(index, (4, 5, 6), [a.shape for a in arrays]).shape == shape


def test_iteration():
    def loop(x):
        total = 0.0
        for k, row in enumerate(x):
            total = total + k * np.sum(row**2)
        return total

    close(fg.grad(loop)(X[0]), 2 * X[0] * np.arange(4.0)[:, None])
    assert str(fg.make_jaxpr(loop)(X)).count("unstack") == 1
    a, *rest = fg.grad(lambda x: (lambda p, *q: p * q[0] * q[1])(*x))(np.array([2.0, 3.0, 5.0]))
    assert (a, *rest) == (15.0, 10.0, 6.0)
    assert fg.grad(lambda x: sum(dict(zip("ab", x, strict=True)).values()))(np.ones(2)).sum() == 2
    with pytest.raises(TypeError, match="0-d"):
        fg.grad(lambda x: sum(x))(1.0)
    check_grads(loop, [X], order=2)
    close(fg.vmap(loop)(X), np.stack([loop(x) for x in X]))
    assert len(fg.grad(lambda x: np.sum(np.stack(list(x)[:1])))(np.ones((2, 3)))) == 2


def test_a_loop_over_items_takes_linear_time():
    x = np.ones(3000)
    graph = fg.make_jaxpr(fg.grad(lambda x: sum(v * v for v in x)))(x)
    assert len(graph.equations) < 6 * len(x)


# --- cotangents of many reads of one array, which are collected in place -------------------------

READS = [*INDICES, MASK, FULL_MASK, np.array([[0, 2], [2, 2]]), (slice(1, None), [0, 0, 3])]


def read_often(x, reads, masked):
    """The sum of squares of parts of x, with an operation on all of x before, between and after."""
    total = np.sum(x * x)
    for i, index in enumerate(reads):
        part = x[index]
        if masked and i % 2:
            part = np.where(part > 2.0, np.sqrt(part - 2.0), 0.0)  # infinite slopes, thrown away
        total = total + np.sum((i + 1.0) * part * part)
        if i == len(reads) // 2:
            total = total + np.sum(x[::-1] * x.T.T)
    return total.real


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "masked", "seed"),
    [
        ("float16", True, 0), ("float16", False, 1), ("float32", True, 2), ("float32", False, 0),
        ("float64", True, 0), ("float64", True, 1), ("float64", False, 1), ("float64", False, 2),
        ("complex128", False, 0), ("complex128", False, 2),
    ],
)  # fmt: skip
def test_many_reads_of_one_array(dtype, masked, seed):
    order = np.random.default_rng(seed).permutation(len(READS))
    reads = [READS[i] for i in order]
    x = np.full(X.shape, 2.0, dtype) if masked else X.astype(dtype)
    with np.errstate(all="ignore"):
        found = fg.grad(lambda x: read_often(x, reads, masked))(x)
        compiled = fg.jit(fg.grad(lambda x: read_often(x, reads, masked)))(x)
        batched = fg.vmap(fg.grad(lambda x: read_often(x, reads, masked)))(np.stack([x, x]))[1]
    tolerance = {"float16": 2e-2, "float32": 1e-5}.get(dtype, 1e-12)
    assert found.dtype == x.dtype and np.all(np.isfinite(found))
    np.testing.assert_allclose(compiled, found, rtol=tolerance)
    np.testing.assert_allclose(batched, found, rtol=tolerance)
    if dtype == "float64" and not masked and seed == 1:
        check_grads(lambda x: read_often(x, reads, masked), [x], order=2)


def test_what_no_read_names_stays_exactly_zero():
    def f(x):
        y = np.sqrt(x)  # an infinite slope at 0
        return np.sum(y[MASK]) + np.sum(y[[0, 2, 2]]) + np.sum(np.where(MASK, y, 0.0)[[0, 2]])

    with np.errstate(all="ignore"):
        np.testing.assert_allclose(fg.grad(f)(np.array([1.0, 0.0, 4.0])), [1.5, 0.0, 1.0])
        np.testing.assert_allclose(fg.jit(fg.grad(f))(np.array([1.0, 0.0, 4.0])), [1.5, 0.0, 1.0])
        plain = fg.grad(lambda x: np.sum(np.sqrt(x)[MASK]) + np.sqrt(x)[0] + np.sqrt(x)[2])
        assert np.isnan(plain(np.array([1.0, 0.0, 4.0]))[1])  # x[0] says nothing of the others


@pytest.mark.parametrize("order", ["C", "F"])
def test_collecting_writes_into_no_array_of_the_users(order):
    x = np.asarray(X[:, :, 0], order=order)
    _, pullback = fg.vjp(lambda x: (x, x.T, x[0], x[1:, 1], x[[0, 0]], np.sum(x)), x)
    cotangent = np.ones(x.shape, order=order)
    parts = (cotangent, cotangent.T, np.ones(4), np.ones(2), np.ones((2, 4)), 1.0)
    first = pullback(parts)[0].copy()
    second = pullback(parts)[0]
    np.testing.assert_array_equal(cotangent, np.ones(x.shape))
    np.testing.assert_array_equal(first, second)
    expected = np.full(x.shape, 3.0)
    expected[0] += 3.0
    expected[1:, 1] += 1.0
    np.testing.assert_array_equal(first, expected)
    shared = np.ones(3)

    def f(x, y):
        z = x + y  # one cotangent for both, which neither may write into
        return np.sum(z * shared) + x[0] + x[1] + y[2] + y[2]

    for found, wanted in zip(
        fg.grad(f, (0, 1))(shared, shared), ([2, 2, 1], [1, 1, 3]), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def test_a_number_and_an_empty_array_may_be_read_often():
    assert fg.grad(lambda x: x[()] * x[None][0] + x[...] ** 2)(np.float64(3.0)) == 12.0
    empty = fg.grad(lambda x: np.sum(x[1:]) + np.sum(x[:0]) + np.sum(x[[]]))(np.zeros(0))
    assert empty.shape == (0,)


@pytest.mark.slow
@pytest.mark.parametrize("read", [lambda x, i: x[i], lambda x, i: np.sum(x[i : i + 2])])
@pytest.mark.parametrize("relu", [True, False])
def test_a_loop_of_reads_makes_no_array_for_each(read, relu, monkeypatch):
    n = 150
    made = []
    for name in ("zeros", "zeros_like"):
        plain = getattr(np, name)

        def counted(*args, plain=plain, **kwargs):
            made.append(plain(*args, **kwargs))
            return made[-1]

        monkeypatch.setattr(np, name, counted)

    def f(x):
        total = 0.0
        for i in range(n):
            part = read(x, i)
            total = total + (np.maximum(part, 0.25) if relu else part) ** 2
        return total

    x = np.linspace(0.0, 1.0, n)
    found = fg.grad(f)(x)
    assert sum(array.size for array in made) < 10 * n
    monkeypatch.undo()
    np.testing.assert_allclose(found, fg.jit(fg.grad(f))(x), rtol=1e-12)


# --- functions that pick --------------------------------------------------------------------------


def test_where():
    a, b = draw((3, 2), seed=1), draw((2,), seed=2)
    agrees(lambda a, b: np.where(a > 1, a, b), a, np.broadcast_to(b, (3, 2)).copy())
    agrees(lambda a: np.where(a > 0.7, a, 0.0), a.astype(np.float32))
    agrees(lambda a: np.where([True, False], a, 1), a)
    agrees(lambda a: np.where(a, a, 1), a)
    check_grads(lambda a, b: np.where(a > 0.7, a * b, b), [a, b], order=2)
    assert fg.grad(lambda a: np.sum(a[np.where(a > 0.7)]))(a).sum() == (a > 0.7).sum()
    assert fg.grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0)))(np.array([0.0, 4.0]))[0] == 0
    with pytest.raises(AbstractValueError):
        fg.make_jaxpr(lambda a: a[np.where(a > 1)])(a)
    with pytest.raises(ValueError, match="both or neither"):
        fg.grad(lambda a: np.sum(np.where(a > 1, a)))(a)


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_take(mode, axis):
    indices = [0, 1, 1] if mode == "raise" else [-1, 5, 1, 30]
    for i in (indices, np.array(indices).reshape(1, -1), 1, [], np.array([[0]], np.int8)):
        agrees(lambda x, i=i: np.take(x, i, axis=axis, mode=mode), X)
        agrees(lambda x, i=i: x.take(i, axis=axis, mode=mode), X)
    check_grads(lambda x: np.take(x, indices, axis=axis, mode=mode) ** 2, [X], order=2)


def test_take_is_numpys_in_corners():
    agrees(lambda x: np.take(x, [True, False]), X)
    for bad, error in (([0.5], TypeError), ([40], IndexError)):
        with pytest.raises(error):
            fg.grad(lambda x, bad=bad: np.sum(np.take(x, bad)))(X)
    with pytest.raises(ItemAssignmentError, match=r"np\.take"):
        fg.grad(lambda x: np.sum(np.take(x, [0], out=np.loadtxt(["0"], ndmin=1))))(X)
    with pytest.raises(ValueError, match="clipmode"):
        fg.grad(lambda x: np.sum(np.take(x, [0], mode="odd")))(X)


@pytest.mark.parametrize("mode", ["wrap", "clip"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "bool"])
def test_take_by_small_integers_from_what_they_cannot_count(mode, dtype):
    x, indices = np.arange(70_000.0), np.array([0, 1, 1]).astype(dtype)
    minus = np.array([-1, -128 if dtype == "int8" else 5]).astype(dtype)
    for i in (indices, minus):
        expected = np.take(x, i, mode=mode)
        np.testing.assert_array_equal(fg.jit(lambda x, i: np.take(x, i, mode=mode))(x, i), expected)


def test_take_along_axis():
    for axis in (0, 1, -1):
        i = np.argsort(X, axis=axis)
        agrees(lambda x, i=i, a=axis: np.take_along_axis(x, i, a), X)
        agrees(lambda x, i=i, a=axis: np.take_along_axis(x, i[:1, :1, :1], a), X)
    agrees(lambda x: np.take_along_axis(x, np.array([3, 0]), None), X)
    agrees(lambda x: np.take_along_axis(x, np.argmax(x, axis=1, keepdims=True), 1), X)
    check_grads(lambda x: np.take_along_axis(x, np.argsort(X, 1), 1) ** 2, [X], order=2)
    # One row that is read twice: its slopes are added.
    row, places = X[:1], np.full((3, 1, *X.shape[2:]), 1)
    read = lambda x: np.sum(np.take_along_axis(x, places, 1) ** 2)  # noqa: E731
    agrees(read, row)
    check_grads(read, [row], order=2)
    rows, i = draw((3, 4)), np.array([[0, 0], [1, 3], [2, 0]])
    found = fg.vmap(lambda x, i: np.take_along_axis(x, i, 0))(rows, i)
    close(found, np.take_along_axis(rows, i, 1))
    for bad, error in (((X > 0, 0), IndexError), ((np.zeros((1, 1), int), 0), ValueError)):
        with pytest.raises(error):
            fg.grad(lambda x, bad=bad: np.sum(np.take_along_axis(x, *bad)))(X)


def test_compress_extract_select_choose():
    x, b = draw((3, 4), seed=1), draw((3, 4), seed=2)
    agrees(lambda x: np.compress([True, False, True], x, axis=0), x)
    agrees(lambda x: x.compress([False, True], axis=1), x)
    agrees(lambda x: np.compress([0, 1, 1, 0, 1], x), x)
    agrees(lambda x: np.extract(b > 1, x), x)
    agrees(lambda x, b: np.select([x > 1, b > 1], [x, b * x], 3.0), x, b)
    agrees(lambda x: np.select([x > 1], [x]), x.astype(np.float32))
    agrees(lambda x: np.choose(np.array([0, 1, 1, 0]), [x, 2 * x]), x)
    agrees(lambda x: np.choose(np.array([[5], [1], [-3]]), (x, 2 * x, x**2), mode="wrap"), x)
    agrees(lambda x: np.choose(np.array([[5], [1], [-3]]), (x, 2 * x, x**2), mode="clip"), x)
    check_grads(lambda x, b: np.select([x > 1, b > 1], [x**2, b * x], 3.0), [x, b], order=2)
    check_grads(lambda x, b: np.choose(np.array([0, 1, 1, 0]), [x * b, b**2]), [x, b], order=2)
    with pytest.raises(ValueError, match="invalid entry"):
        fg.grad(lambda x: np.sum(np.choose(np.array([2, 0, 0, 0]), [x, x])))(x)
    with pytest.raises(ValueError, match="same length"):
        fg.grad(lambda x: np.sum(np.select([x > 1], [x, x])))(x)
    with pytest.raises(TypeError, match="boolean"):
        fg.grad(lambda x: np.sum(np.select([x], [x])))(x)


def test_positions_of_known_values():
    x = np.array([[0.0, 1.0], [2.0, 0.0]])

    def f(x):
        assert np.flatnonzero(x).tolist() == [1, 2]
        assert np.argwhere(x).tolist() == [[0, 1], [1, 0]]
        assert [i.tolist() for i in x.nonzero()] == [[0, 1], [1, 0]]
        return np.sum(x[np.nonzero(x)] ** 2)

    assert fg.grad(f)(x).tolist() == [[0.0, 2.0], [4.0, 0.0]]
    assert fg.grad(fg.grad(lambda s: f(s * x)))(1.0) == 10.0


# --- writing --------------------------------------------------------------------------------------

METHODS = {
    "set": None, "add": np.add, "subtract": np.subtract, "multiply": np.multiply,
    "divide": np.divide, "power": np.power, "min": np.minimum, "max": np.maximum,
}  # fmt: skip
PLACES = [
    0, (1, ..., 0), slice(1, None), (slice(None), [0, 2]), [0, 0, 1], ([0, 0, 0], [1, 1, 2]), MASK,
    FULL_MASK, (..., None, 1), [], ([[0], [0]], [1, 2]), ([0, 0], slice(None), [1, 1]), (True, 0),
]  # fmt: skip


def written(method, x, index, values):
    """NumPy's result."""
    x = np.array(x)
    if method == "set":
        x[index] = values
    else:
        METHODS[method].at(x, index, values)
    return x


@pytest.mark.parametrize("index", PLACES, ids=repr)
@pytest.mark.parametrize("method", METHODS)
def test_writing_is_numpys(method, index):
    values = draw(X[index].shape, seed=5) + 0.5

    def write(x, values):
        return getattr(fg.numpy.at(x)[index], method)(values)

    expected = written(method, X, index, values)
    close(write(X, values), expected)
    agrees(write, X, values)
    for spread in (1.5, values[..., :1] if values.ndim else values):
        expected = written(method, X, index, spread)
        close(fg.vjp(lambda x, s=spread: write(x, s), X)[0], expected)
        if method == "power":
            continue
        close(fg.jvp(lambda x, s=spread: write(x, s), [X], [X])[0], expected)


@pytest.mark.parametrize("index", PLACES, ids=repr)
@pytest.mark.parametrize("method", METHODS)
def test_writing_differentiates(method, index):
    values = draw(X[index].shape, seed=5) + 0.53

    def write(x, values):
        return getattr(fg.numpy.at(x)[index], method)(values)

    if values.size:
        check_grads(write, [X, values], order=2, rtol=1e-4, atol=1e-4)
    else:
        check_grads(lambda x: write(x, values), [X], order=2)


def test_repeated_writes():
    x, v, i = np.array([2.0, 3.0, 5.0]), np.array([7.0, 0.0, 1.5]), [0, 0, 2]

    def gradients(method, cotangent=(1.0, 1.0, 1.0)):
        _, pullback = fg.vjp(lambda x, v: getattr(fg.numpy.at(x)[i], method)(v), x, v)
        return [g.tolist() for g in pullback(np.array(cotangent))]

    assert gradients("set") == [[0, 1, 0], [0, 1, 1]]
    assert gradients("add") == [[1, 1, 1], [1, 1, 1]]
    assert gradients("multiply") == [[0, 1, 1.5], [0, 14, 5]]
    assert gradients("min") == [[0, 1, 0], [0, 1, 1]]
    assert gradients("max") == [[0, 1, 1], [1, 0, 0]]
    v = np.array([2.0, 2.0, 5.0])
    assert gradients("min") == [[1 / 3, 1, 0.5], [1 / 3, 1 / 3, 0.5]]


def test_products_of_repeated_zeros_at_second_order():
    x, v, i = np.array([2.0, 3.0]), np.array([0.0, 0.0, 4.0]), [0, 0, 0]

    def f(v):
        return np.sum(fg.numpy.at(x)[i].multiply(v))

    hessian = [fg.grad(lambda v, k=k: fg.grad(f)(v)[k])(v).tolist() for k in range(3)]
    assert hessian == [[0, 8, 0], [8, 0, 0], [0, 0, 0]]


def test_get_and_apply():
    agrees(lambda x: fg.numpy.at(x)[1:, 0].get(), X)
    found = fg.grad(lambda x: np.sum(x.at[[0, 1]].apply(np.sin)))(X)
    expected = np.ones_like(X)
    expected[:2] = np.cos(X[:2])
    close(found, expected)


def test_writing_keeps_the_dtype_and_casts_as_numpy_does():
    x = draw((3,), "float32")
    found = fg.vjp(lambda v: fg.numpy.at(x)[0].set(v), np.float64(1.5))[0]
    assert found.dtype == np.float32
    assert fg.grad(lambda v: np.sum(fg.numpy.at(x)[0].add(v)))(1.5).dtype == np.float64
    counts = fg.numpy.at(np.zeros(3, int))[[0, 0]].add(2)
    assert counts.dtype == int and counts.tolist() == [4, 0, 0]
    assert fg.numpy.at(np.zeros(3, int))[0].set(2.7).tolist() == [2, 0, 0]
    with pytest.raises(GradientCutError, match="astype"):
        fg.grad(lambda v: np.sum(fg.numpy.at(np.zeros(3, int))[0].set(v)))(1.5)
    with pytest.raises(ShapeError, match="dtype"):
        fg.numpy.at(np.zeros(3, int))[0].add(2.5)
    with pytest.raises(ShapeError, match="complex"):
        fg.numpy.at(np.zeros(3))[0].set(1j)
    with pytest.raises(ShapeError, match="float first"):
        fg.numpy.at(np.zeros(3, int))[0].divide(2)


def test_values_that_do_not_fit_are_refused():
    for bad in (np.ones(3), np.ones((2, 2))):
        with pytest.raises(ShapeError, match="elements of shape"):
            fg.grad(lambda x, bad=bad: np.sum(x.at[:2, 0, 0].set(bad)))(X)
    assert fg.grad(lambda x: np.sum(x.at[0, 0].set(np.ones((1, 2)))))(X).sum() == X.size - 2
    with pytest.raises(IndexError):
        fg.grad(lambda x: np.sum(x.at[3].set(0.0)))(X)


def test_the_array_itself_is_not_written_to():
    x = X.copy()
    fg.numpy.at(x)[0].set(9.0)
    fg.grad(lambda x: np.sum(x.at[0].multiply(2.0)))(x)
    assert np.array_equal(x, X)


@pytest.mark.parametrize("method", METHODS)
def test_an_unknown_mask_can_be_written_by(method):
    def write(x, v):
        return getattr(x.at[x > 1.0], method)(v)

    def whole(x, v):
        return np.where(x > 1.0, written(method, x, ..., v), x)

    for v in (1.5, np.float64(0.5)):
        graph = fg.make_jaxpr(write)(X, v)
        close(fg.evaluate(graph, X, v)[0], whole(X, v))
        close(fg.vmap(write, in_axes=(0, None))(X, v), whole(X, v))
    rows = fg.make_jaxpr(lambda x, m, v: getattr(x.at[m], method)(v))(X, MASK, np.ones(2))
    close(fg.evaluate(rows, X, MASK, np.ones(2))[0], written(method, X, MASK, np.ones(2)))
    with pytest.raises(ShapeError, match=r"np\.where"):
        fg.make_jaxpr(lambda x: getattr(x.at[x > 1], method)(np.ones(3)))(X)


def test_overwritten_elements_have_exactly_no_derivative():
    x = np.array([0.0, 4.0])
    assert fg.grad(lambda x: np.sum(np.sqrt(x).at[0].set(1.0)))(x).tolist() == [0.0, 0.25]


def test_what_at_is_called():
    def f(x):
        assert repr(x.at).endswith(".at")
        assert repr(x.at[0]).endswith(".at[0]")
        return x.at[0].mul(3.0)[0]

    assert fg.grad(f)(np.ones(2)).tolist() == [3.0, 0.0]


# --- batching -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapped", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize(
    "entries",
    [(ARRAY,), (slice(None), ARRAY), (ARRAY, slice(None), ARRAY), (0, slice(None), ARRAY),
     (None, ARRAY, 0), (slice(None), ARRAY, ARRAY), (Ellipsis, ARRAY), (ARRAY, Ellipsis, 1)],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("shape", [(), (2,), (2, 1)])
def test_batched_indices_need_no_loop(mapped, entries, shape):
    random = np.random.default_rng(0)
    index, count = Index(entries), entries.count(ARRAY)
    x = random.normal(size=(5, 3, 2, 3)[0 if mapped[0] == 0 else 1 :])
    i = random.integers(-2, 2, (5, count, *shape)[0 if mapped[1] == 0 else 1 :])

    def read(x, i):
        return getitem(x, *[i[k] for k in range(count)], index=index)

    def rows(k):
        return (x[k] if mapped[0] == 0 else x), (i[k] if mapped[1] == 0 else i)

    expected = np.stack([read(*rows(k)) for k in range(5)])
    close(fg.vmap(read, in_axes=mapped)(x, i), expected)
    graph = fg.make_jaxpr(fg.vmap(read, in_axes=mapped))(x, i)
    assert len(graph.equations) < 12
    target = rows(0)[0].shape
    values = expected if mapped == (0, 0) else expected[0]

    def write(v, i):
        return scatter(v, *[i[k] for k in range(count)], index=index, shape=target)

    axes = (0, 0) if mapped == (0, 0) else (None, 0) if mapped[1] == 0 else (0, None)
    v = values if axes[0] is None else expected
    found = fg.vmap(write, in_axes=axes)(v, i)
    close(
        found,
        np.stack([write(v if axes[0] is None else v[k], rows(k)[1]) for k in range(5)]),
    )


# --- any index at all -----------------------------------------------------------------------------


@st.composite
def indices(draw_from):
    """A shape, and an index that fits it."""
    shape = tuple(draw_from(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    common = draw_from(st.sampled_from([(), (2,), (1, 3), (2, 1)]))
    entries = []
    ellipsis_at = draw_from(st.integers(-1, len(shape)))
    for axis, length in enumerate(shape):
        if axis == ellipsis_at:
            entries.append(Ellipsis)
            if draw_from(st.booleans()):
                continue
        kind = draw_from(st.sampled_from(["int", "slice", "array", "new", "skip", "mask"]))
        if kind == "new":
            entries.append(None)
        if kind in ("new", "slice", "skip"):
            entries.append(draw_from(st.slices(length)) if kind == "slice" else slice(None))
        elif kind == "int":
            entries.append(draw_from(st.integers(-length, length - 1)))
        elif kind == "array":
            size = int(np.prod(common, dtype=int))
            flat = draw_from(
                st.lists(st.integers(-length, length - 1), min_size=size, max_size=size)
            )
            entries.append(np.array(flat, int).reshape(common))
        elif any(isinstance(e, np.ndarray) for e in entries):
            entries.append(slice(None))
        else:
            entries.append(np.array(draw_from(st.lists(st.booleans(), min_size=length,
                                                        max_size=length))))  # fmt: skip
            common = ()
    if ellipsis_at >= 0 and len(entries) > len(shape):
        entries = [e for e in entries if e is not None]
    return shape, tuple(entries)


@pytest.mark.slow
@settings(max_examples=70)
@given(indices())
def test_any_index(case):
    shape, index = case
    x = draw(shape)
    try:
        expected = x[index]
    except IndexError:
        with pytest.raises(IndexError):
            fg.vjp(lambda x: x[index], x)
        return
    agrees(lambda x: x[index], x)
    g = draw(expected.shape, seed=3)
    counted = np.zeros(shape)
    np.add.at(counted, index, g)
    out, pullback = fg.vjp(lambda x: x[index], x)
    close(pullback(g if np.ndim(out) else np.float64(g))[0], counted)
    values = draw(expected.shape, seed=4)
    agrees(lambda x: fg.numpy.at(x)[index].add(values), x)
    close(
        fg.vjp(lambda x: fg.numpy.at(x)[index].set(values), x)[0],
        written("set", x, index, values),
    )


TABLE = np.arange(10.0).reshape(2, 5)


def read():
    """TABLE, as an array that no name holds while the function is traced."""
    return np.frombuffer(TABLE.tobytes()).reshape(2, 5)


@pytest.mark.parametrize("f", [
    lambda i: read()[i], lambda i: read()[0, i], lambda i: read()[i, :2], lambda i: read()[i > 0],
    lambda i: fg.lax.fori_loop(0, 2, lambda k, c: c + read()[k, 0], 0.0) * i,
])  # fmt: skip
def test_an_ndarray_indexed_by_a_traced_value_names_line_and_remedy(f):
    strict = functools.partial(fg.jit, branches="error")
    for run, i in ((strict, 1), (strict, np.array([0, 1])), (fg.vmap, np.array([0, 1]))):
        with pytest.raises(fg.errors.AbstractValueError) as caught:
            run(f)(i)
        text = str(caught.value)
        assert "An ndarray was indexed by a traced value at" in text
        assert "test_indexing.py:" in text
        assert "np.take(a, i, axis=0)" in text


def test_other_bad_indices_stay_numpys():
    for bad, match in (("a", "only integers"), (100, "out of bounds"), (1.0, "only integers")):
        with pytest.raises(IndexError, match=match):
            fg.jit(lambda i, bad=bad: TABLE[bad] * i)(1)


def test_what_the_message_names_takes_traced_integers():
    for f in (
        lambda i: np.take(TABLE, i, axis=1),
        lambda i: fg.numpy.at(TABLE)[0, i].get(),
        lambda i: fg.numpy.at(TABLE)[i[0], 1:].get(),
        lambda i: np.take(TABLE, i),
    ):
        i = np.array([1, 0])
        expected = f(i)
        close(fg.jit(f)(i), expected)
        close(fg.vmap(f)(np.stack([i, i])), np.stack([expected, expected]))


def test_a_mask_that_broadcasts_is_collected_whole():
    def f(x):
        y = np.exp(x)
        return np.sum(np.where(np.array([False]), y, y[2:]) * np.arange(1.0, 4.0)) + np.sum(y[:1])

    np.testing.assert_array_equal(fg.grad(f)(np.zeros(3)), [1.0, 0.0, 6.0])
    _, pullback = fg.vjp(lambda x: np.where(np.array([True]), x[:][2:], x), np.zeros(0))
    assert pullback(np.zeros(0))[0].shape == (0,)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "masked"), [(0, True), (1, False), (2, True)])
def test_many_reads_under_other_traces(seed, masked):
    """The scatter gathered under another trace, against the recorded sum of scatters."""
    order = np.random.default_rng(seed).permutation(len(READS))[:8]
    x = np.full(X.shape, 2.0) if masked else X

    def f(x):
        return read_often(np.sin(x) + 2.0, [READS[i] for i in order], masked)

    def again(f):
        return lambda x: np.sum(fg.grad(f)(x) ** 2)

    for g in (f, again(f), again(again(f))):
        wanted = fg.jit(fg.grad(g))(x)
        scale = np.max(np.abs(wanted))
        transforms = {
            "grad": fg.grad(g)(x),
            "vmap": fg.vmap(fg.grad(g))(np.stack([x + 1, x]))[1],
            "jvp": fg.jvp(fg.grad(g), (x,), (x,))[0],
        }
        for found in transforms.values():
            np.testing.assert_allclose(found / scale, wanted / scale, rtol=1e-10, atol=1e-12)
        pushed = fg.jvp(fg.grad(g), (x,), (x,))[1]
        expected = fg.jit(lambda x, g=g: fg.jvp(fg.grad(g), (x,), (x,))[1])(x)
        scale = np.max(np.abs(expected))
        np.testing.assert_allclose(pushed / scale, expected / scale, rtol=1e-10, atol=1e-12)


def test_what_no_read_names_stays_exactly_zero_in_batches():
    def f(x):
        y = np.sqrt(x)
        return np.sum(y[MASK]) + np.sum(y[[0, 2, 2]]) + np.sum(np.where(MASK, y, 0.0)[[0, 2]])

    x = np.array([1.0, 0.0, 4.0])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(fg.vmap(fg.grad(f))(x[None])[0], [1.5, 0.0, 1.0])


@pytest.mark.slow
def test_a_loop_of_reads_takes_linear_memory_at_order_2():
    def f(x):
        total = 0.0
        for i in range(len(x)):
            total = total + np.sin(x[i]) * x[i - 1]
        return total

    n = 1_000
    hvp = fg.grad(lambda x: np.sum(fg.grad(f)(x) ** 2))
    hvp(np.ones(n))
    tracemalloc.start()
    hvp(np.ones(n))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * n * 8  # an array for each read on the way back, held by the outer tape


def test_the_order_in_memory_of_what_numbers_and_arrays_read_at_once():
    """It is found by a small example, which has no element 5."""

    def written(part):
        flat = part.ravel()
        flat[0] = 7.0
        return part, flat

    x = np.arange(72.0).reshape(6, 4, 3)
    for f in (lambda x: x[5, 1:, [-1, 0, 1]], lambda x: x[[1, 5], 2:, 2], lambda x: x[4, :, [2]]):
        for found, expected in zip(
            fg.jit(lambda x, f=f: written(f(x)))(x), written(f(x)), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


# --- JAX's static sizes ---------------------------------------------------------------------------

SIZED = [
    (lambda x: fg.numpy.nonzero(x, size=3), [0, 2, 4], [0, 0, 0]),
    (lambda x: fg.numpy.flatnonzero(x, size=4, fill_value=-1), [0, 2, 4, -1], [0, -1, -1, -1]),
    (lambda x: fg.numpy.where(x, size=2, fill_value=9), [0, 2], [0, 9]),
    (lambda x: fg.numpy.argwhere(x, size=4, fill_value=7), [0, 2, 4, 7], [0, 7, 7, 7]),
]  # fmt: skip


@pytest.mark.parametrize(("f", "several", "one"), SIZED)
def test_the_places_of_a_number_of_elements_that_is_given(f, several, one):
    x = np.array([[2.0, 0.0, -1.0, 0.0, np.nan], [3.0, 0.0, 0.0, 0.0, 0.0]])
    rows = [f(row) for row in x]
    for row, places in zip(rows, (several, one), strict=True):
        assert np.ravel(row).tolist() == places
    for found in (fg.vmap(f)(x), fg.jit(fg.vmap(f))(x), fg.vmap(fg.jit(f))(x)):
        np.testing.assert_array_equal(np.squeeze(found), np.squeeze(rows))


def test_a_fill_value_for_each_axis():
    places = fg.jit(lambda x: fg.numpy.nonzero(x, size=3, fill_value=(8, 9)))(np.eye(2))
    assert [i.tolist() for i in places] == [[0, 1, 8], [0, 1, 9]]
    with pytest.raises(ValueError, match="3 entries for 2 axes"):
        fg.numpy.nonzero(np.eye(2), size=3, fill_value=(1, 2, 3))
    assert fg.numpy.nonzero(np.zeros((2, 0)), size=1, fill_value=4)[1].tolist() == [4]


def test_the_gradient_of_what_a_given_number_of_places_picks():
    def f(x):
        places = fg.numpy.flatnonzero(x > 0, size=2, fill_value=0)
        return np.sum(x[places] ** 2)

    for g in (fg.grad(f), fg.jit(fg.grad(f))):
        assert g(np.array([-1.0, 2.0, 3.0, 4.0])).tolist() == [0.0, 4.0, 6.0, 0.0]


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique_of_a_given_size(axis):
    x = np.array([[2.0, 1.0, 2.0], [0.0, 1.0, 0.0], [2.0, 1.0, 2.0]])
    exact = np.unique(x, True, True, True, axis)
    number = exact[0].shape[0 if axis is None else axis]

    def f(x):
        return fg.numpy.unique(x, True, True, True, axis, size=number + 1, fill_value=-5)

    for found in (f(x), fg.jit(f)(x), [part[0] for part in fg.vmap(f)(np.stack([x, 2 * x]))]):
        kept = np.take(found[0], range(number), 0 if axis is None else axis)
        np.testing.assert_array_equal(kept, exact[0])
        assert (np.take(found[0], number, 0 if axis is None else axis) == -5).all()
        np.testing.assert_array_equal(found[1][:number], exact[1])
        np.testing.assert_array_equal(np.ravel(found[2]), np.ravel(exact[2]))
        assert found[3].tolist() == [*exact[3], 0]


def test_unique_of_a_given_size_takes_nans_as_equal():
    x = np.array([1.0, np.nan, 1.0, np.nan])
    assert fg.numpy.unique(x, size=3, fill_value=5.0).tolist()[::2] == [1.0, 5.0]
    assert np.isnan(fg.numpy.unique(x, size=3, equal_nan=False)[1:]).all()
    with pytest.raises(ValueError, match="at least one element"):
        fg.numpy.unique(x[:0], size=2)
