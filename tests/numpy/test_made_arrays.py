"""Arrays that NumPy makes while a transform traces: traced values are written into them, and they
and their views see each other's writes. To code that knows nothing of that they are ndarrays.
"""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import weakref

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import GradientCutError, ItemAssignmentError, LeakedTracerError
from fungrad.tracing.created_arrays import Writable, Written, plain
from fungrad.tracing.trace import Tracer

X = np.array([0.5, 1.5, 2.0])


def same_as_numpy(f, *args, order=2):
    """The value of f is NumPy's under every transform; its derivatives agree with differences."""
    expected = f(*[np.array(a) for a in args])
    np.testing.assert_array_equal(fg.vjp(f, *args)[0], expected)
    np.testing.assert_array_equal(fg.jvp(f, args, args)[0], expected)
    np.testing.assert_allclose(fg.jit(f)(*args), expected, rtol=1e-14)  # jit may regroup
    stacked = [np.stack([a, a]) for a in args]
    np.testing.assert_array_equal(fg.vmap(f)(*stacked)[1], expected)
    fg.testing.check_grads(f, args, order=order)


def traced(f, x=X):
    """Runs f where arrays are made while tracing; returns its result."""
    found = []
    fg.grad(lambda x: found.append(f(x)) or np.sum(x))(x)
    return found[0]


# --- writeable arrays -----------------------------------------------------------------------------

MAKERS = {
    "zeros": lambda: np.zeros((2, 3)),
    "zeros of an order": lambda: np.zeros((2, 3), order="F"),
    "empty": lambda: np.empty((2, 3)),
    "ones": lambda: np.ones((2, 3)),
    "full": lambda: np.full((2, 3), 7.0),
    "zeros_like": lambda: np.zeros_like(np.ones((2, 3))),
    "full_like": lambda: np.full_like(np.ones((2, 3)), 2.0),
    "empty_like": lambda: np.empty_like(np.ones((2, 3))),
    "eye": lambda: np.eye(2, 3),
    "identity": lambda: np.identity(3)[:2],
    "array": lambda: np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    "array of an array": lambda: np.array(np.ones((2, 3))),
    "array of another dtype": lambda: np.asarray(np.ones((2, 3), int), float),
    "arange": lambda: np.arange(6.0).reshape(2, 3),
    "linspace": lambda: np.linspace(0.0, 1.0, 6).reshape(3, 2).T,
    "copy": lambda: np.copy(np.ones((2, 3))),
    "tile": lambda: np.tile([1.0, 2.0, 3.0], (2, 1)),
    "repeat": lambda: np.repeat(np.ones((1, 3)), 2, axis=0),
    "where": lambda: np.where(np.eye(2, 3) > 0, 1.0, 2.0),
    "concatenate": lambda: np.concatenate([np.ones((1, 3)), np.ones((1, 3))]),
    "stack": lambda: np.stack([np.arange(3.0), np.arange(3.0)]),
    "vstack": lambda: np.vstack([np.arange(3.0), np.arange(3.0)]),
    "outer": lambda: np.outer([1.0, 2.0], [1.0, 2.0, 3.0]),
    "tril": lambda: np.tril(np.ones((2, 3))),
    "pad": lambda: np.pad(np.ones((2, 2)), ((0, 0), (0, 1))),
    "meshgrid": lambda: np.meshgrid(np.arange(3.0), np.arange(2.0))[1],
    "broadcast and copied": lambda: np.broadcast_to(np.zeros(3), (2, 3)).copy(),
    "computed": lambda: np.exp(np.zeros((2, 3))) + 1.0,
    "picked": lambda: np.zeros((4, 3))[[0, 2]],
    "cast": lambda: np.zeros((2, 3), int).astype(float),
    "reduced": lambda: np.sum(np.ones((2, 2, 3)), axis=1),
    "flipped": lambda: np.flip(np.ones((2, 3)), 1),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_traced_values_are_written_into_what_numpy_makes(make):
    def f(x):
        a = make()
        a[...] = 0.25 if np.ndim(x) else 0.0
        a[0] = x * x[0]
        a[1, 1:] = x[1:]
        a[-1, 0] = 3.0
        return np.sum(a**2) + a[0, 1]

    same_as_numpy(f, X)


def test_results_that_are_no_new_arrays_stay_what_they_are():
    outside, square = np.ones(3), np.ones((3, 3))

    def f(x):
        out = np.empty(3)
        for found in (
            np.atleast_1d(outside), np.atleast_2d(outside), np.diag(square), np.asarray(outside),
            np.meshgrid(outside, outside, copy=False)[0],
            np.concatenate([outside], out=np.ndarray(3)),
            np.outer(outside, outside, np.ndarray((3, 3))),
            np.take(outside, [0], 0, np.ndarray(1)),
        ):  # fmt: skip
            assert type(found) is np.ndarray or not np.shares_memory(found, outside)
            if 0 not in found.strides:
                with pytest.raises((ItemAssignmentError, ValueError)):
                    found[0] = x[0]
        assert np.concatenate([outside], out=out) is out and np.stack([1.0, 2, 3], out=out) is out
        for found in (np.atleast_2d(1.0), np.diag([1.0, 2.0]), np.meshgrid(outside, outside)[0]):
            assert type(found) is Writable
        return x

    traced(f)
    assert np.all(outside == 1.0) and np.all(square == 1.0)


def test_from_a_traced_array():
    def f(x):
        a, b, c = np.zeros_like(x), np.ones_like(x), np.empty_like(x)
        a[1:] = x[:-1]
        b[0] = x[1]
        c[:] = a * b
        return np.sum(c * x)

    same_as_numpy(f, X)


INDICES = {
    "integer": 1,
    "negative": -1,
    "slice": slice(1, None),
    "backwards": slice(None, None, -2),
    "pair": (0, slice(None, 2)),
    "ellipsis": (Ellipsis, 1),
    "new axis": (None, 1),
    "integers": ([0, 1, 1], [1, 0, 2]),
    "array and slice": (np.array([1, 0]), slice(1, 2)),
    "mask": np.array([[True, False, True], [False, True, False]]),
    "row mask": np.array([False, True]),
    "nothing": slice(0, 0),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_every_index(index):
    def f(x):
        a = np.arange(6.0).reshape(2, 3)
        whole = a.copy()
        a[index] = x[1] * np.ones(np.shape(whole[index]))
        a[index] = a[index] * x[0]
        return np.sum(a * whole)

    same_as_numpy(f, X)


def test_numbers_in_lists_and_masks_of_traced_values():
    def f(x):
        a = np.zeros((2, 3))
        a[0] = [x[0], 2.0, x[1] * x[2]]
        a[1] = (1.0, x[0], 3.0)
        return np.sum(a**2)

    same_as_numpy(f, X)

    def masked(x):
        a = np.ones(3)
        a[x > 1.0] = 5.0
        return np.sum(a * x)

    same_as_numpy(masked, X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, complex])
def test_the_dtype_stays(dtype):
    def f(x):
        a = np.zeros(3, dtype)
        a[:2] = x[1:]
        assert a.dtype == dtype
        return np.sum(np.abs(a) ** 2)

    np.testing.assert_allclose(fg.grad(f)(X), [0.0, 3.0, 4.0], rtol=1e-6)
    assert fg.jit(f)(X).dtype == f(X).dtype


@pytest.mark.parametrize("dtype", [int, np.uint8, bool])
@pytest.mark.parametrize("transform", [fg.grad, fg.jit, lambda f: lambda x: fg.jvp(f, (x,), (x,))])
def test_what_would_be_rounded_is_refused(dtype, transform):
    def f(x):
        a = np.zeros(3, dtype)
        a[:] = x
        return np.sum(x)

    with pytest.raises(GradientCutError, match=r"test_made_arrays.py:\d+ \(f\).*astype\(float\)"):
        transform(f)(X)


def test_integers_are_written_into_integers():
    def f(n):
        a = np.zeros(3, int)
        a[1] = n
        a[2] = a[1] * 2
        return a

    np.testing.assert_array_equal(fg.jit(f)(4), [0, 4, 8])
    np.testing.assert_array_equal(fg.vmap(f)(np.array([1, 2])), [[0, 1, 2], [0, 2, 4]])


def test_a_stopped_value_is_a_plain_one():
    def f(x):
        a = np.zeros(3)
        a[:] = fg.stop_gradient(x)
        assert type(a) is Writable
        with fg.no_gradient():
            b = np.zeros(3)
            b[0] = x[0]
        return np.sum(a * x) + b[0] * x[0]

    np.testing.assert_array_equal(fg.grad(f)(X), X + np.array([X[0], 0.0, 0.0]))


# --- functions and methods that write ---------------------------------------------------------


def _in_turn(a, x):
    a *= 2.0
    a += a
    a -= x
    a **= 2
    a /= x


def _flat(a, x):
    a.flat[1:] = [x[0], 2.0]
    a.flat[0] = x[1]
    assert len(a.flat) == 3 and [n for n in a.flat if n is None] == []


def _sorted(a, x):
    a[1] = x[2] * 3.0
    a.sort()


WRITERS = {
    "in place": _in_turn,
    "+=": lambda a, x: a.__iadd__(x),
    "out of a ufunc": lambda a, x: np.multiply(x, x[0], out=a),
    "out by position": lambda a, x: np.add(a, x, a),
    "out and where": lambda a, x: np.add(a, x, out=a, where=np.array([True, False, True])),
    "out of plain numbers": lambda a, x: np.add(np.ones(3), 1.0, out=a),
    "out of a sum": lambda a, x: np.sum(np.outer(x, x), axis=0, out=a),
    "out of reduce": lambda a, x: np.add.reduce(np.outer(x, x), axis=0, out=a),
    "out of dot": lambda a, x: np.dot(np.outer(x, x), x, out=a),
    "out of einsum": lambda a, x: np.einsum("ij,j->i", np.outer(x, x), x, out=a),
    "out of clip": lambda a, x: np.clip(x, 0.0, 1.0, out=a),
    "out of concatenate": lambda a, x: np.concatenate([x[:1], x[1:]], out=a),
    "add.at": lambda a, x: np.add.at(a, [0, 0, 1], x),
    "copyto": lambda a, x: np.copyto(a, x),
    "copyto where": lambda a, x: np.copyto(a, x[0], where=[True, False, True]),
    "put": lambda a, x: np.put(a, [0, 1], x),
    "the method put": lambda a, x: a.put([0, 1], x[1:]),
    "place": lambda a, x: np.place(a, a > 1, x),
    "putmask": lambda a, x: np.putmask(a, np.array([True, False, True]), x),
    "put_along_axis": lambda a, x: np.put_along_axis(a, np.array([2]), x[0], 0),
    "fill_diagonal": lambda a, x: np.fill_diagonal(a.reshape(3, 1), x[1]),
    "fill": lambda a, x: a.fill(x[0]),
    "flat": _flat,
    "flat = ": lambda a, x: setattr(a, "flat", x[1:]),
    "sort": _sorted,
}


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_functions_that_write(write, written):
    def f(x):
        a = np.arange(3.0) + 0.25
        tail, other = a[1:], a
        if written:
            a[2] = x[1] * 2.0
        write(a, x)
        return np.sum(a**2) + np.sum(tail**3) + other[0] * x[2]

    same_as_numpy(f, X)


# --- views ----------------------------------------------------------------------------------------

VIEWS = {
    "slice": lambda a: a[1:, ::2],
    "row": lambda a: a[1],
    "column": lambda a: a[:, 1],
    "backwards": lambda a: a[::-1, 1:],
    "new axis": lambda a: a[:, None],
    "transposed": lambda a: a.T,
    "reshaped": lambda a: a.reshape(4, 3),
    "raveled": lambda a: a.ravel(),
    "swapped": lambda a: np.swapaxes(a, 0, 1)[1:],
    "moved": lambda a: np.moveaxis(a.reshape(2, 3, 2), 0, -1),
    "expanded": lambda a: np.expand_dims(a, 0),
    "squeezed": lambda a: np.squeeze(a[:, :1]),
    "flipped": lambda a: np.flip(a, 1),
    "rotated": lambda a: np.rot90(a),
    "split": lambda a: np.split(a, 2, axis=1)[1],
    "row of an iteration": lambda a: list(a)[2],
    "at least 3-d": lambda a: np.atleast_3d(a),
    "of a view": lambda a: a[1:].T[::2],
    "of a reshaped view": lambda a: a.reshape(2, 6)[:, 1::2],
    "diagonal of a reshaped one": lambda a: a.ravel()[::5],
    "one element": lambda a: a[1:2, 1:2],
    "empty": lambda a: a[:0],
    "real": lambda a: a.real,
    "the array": lambda a: a[...],
}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_and_bases_see_each_other(view, order):
    def f(x):
        a = np.zeros((3, 4), order=order)
        a[...] = np.arange(12.0).reshape(3, 4)
        v = view(a)
        other = a[1]
        a[1] = x[0] * x[1]  # the base first
        v[...] = v * x[2]
        other[2] = x[1]
        return np.sum(a**2) + 2.0 * np.sum(v**2) + np.sum(other**3)

    same_as_numpy(f, X)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_is_written_into_first(view):
    def f(x):
        a = np.arange(12.0).reshape(3, 4) + 0.0
        v = view(a)
        v[...] = x[0] + 0.5 * np.arange(v.size).reshape(v.shape)
        a[2, 3] = x[1]
        return np.sum(a**2) + np.sum(v**3)

    same_as_numpy(f, X)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_what_is_reshaped_later_is_a_view_where_it_is_one_in_numpy(view, order):
    def f(x):
        a = np.ones((3, 4), order=order)
        v = view(a)
        a[0] = x[1]
        for array in (a, v, a.T):
            row = array.reshape(-1)
            row[1:2] = x[0]
            row.reshape(-1, 1)[:1] *= x[2]
        return np.sum(a**2 * np.arange(12.0).reshape(3, 4)) + np.sum(v**3)

    same_as_numpy(f, X, order=1)


def test_parts_of_complex_arrays():
    def f(x):
        z = np.zeros((2, 3), complex)
        re, im = z.real, z.imag[:, 1:]
        re[0] = x
        im[1, 0] = x[1]
        z[1, 0] = 2j * x[2]
        return np.sum(np.abs(z) ** 2) + np.sum(re**3) + np.sum(im * x[:2])

    same_as_numpy(f, X)


def test_a_view_of_another_dtype_is_refused():
    def f(x):
        z = np.zeros(3, complex)
        pairs = z.view(float)
        z[0] = x[0]
        return np.sum(pairs)

    with pytest.raises(ItemAssignmentError, match=r"view of dtype float64.*copy"):
        fg.grad(f)(X)


def test_what_is_no_view_sees_nothing():
    def f(x):
        a = np.arange(3.0)
        copies = [a.copy(), np.array(a), a[[0, 1, 2]], a.astype(float), a + 0.0, a.flatten()]
        number = a[1]
        a[:] = x
        assert number == 1.0
        copies[0][0] = x[1]
        return np.sum(a**2) + sum(np.sum(c) for c in copies)

    same_as_numpy(f, X)


@pytest.mark.slow
def test_views_that_are_gone_are_not_kept():
    def f(x):
        a = np.zeros(3)
        views = [a[i:] for i in range(3)]
        refs = [weakref.ref(v) for v in views]
        del views
        gc.collect()
        assert not any(ref() is not None for ref in refs)
        a[0] = x[0]
        return np.sum(a)

    np.testing.assert_array_equal(fg.grad(f)(X), [1.0, 0.0, 0.0])


def test_a_read_only_view_refuses_as_numpy_does():
    def f(x):
        a = np.zeros(3)
        v = a[:2]
        v.flags.writeable = False
        v[0] = x[0]

    with pytest.raises(ValueError, match="read-only"):
        fg.grad(f)(X)


# --- before and after -----------------------------------------------------------------------------


def test_numbers_that_a_trace_has_read_are_those_of_then():
    def f(x, n):
        w = np.ones(n)
        y = np.sum(x * w)
        w *= 2.0
        y = y + np.sum(x * w)
        w[0] = x[0]
        return y + np.sum(x * w)

    for n in (3, 3000):  # copied always; large ones once for each state
        x = np.linspace(1.0, 2.0, n)
        expected = np.full(n, 5.0)
        expected[0] = 3.0 + 2.0 * x[0]
        g = functools.partial(f, n=n)
        np.testing.assert_allclose(fg.grad(g)(x), expected, rtol=1e-14)
        np.testing.assert_allclose(fg.jit(fg.grad(g))(x), expected, rtol=1e-14)
        np.testing.assert_allclose(fg.vjp(g, x)[1](1.0)[0], expected, rtol=1e-14)


def test_an_array_that_is_not_written_stays_one_constant():
    def f(x):
        w = np.arange(3.0)
        return np.sum(x * w) + np.sum(w * x) + np.sum(np.cos(w) * x) + np.sum(w[1:] * x[1:])

    graph = fg.make_jaxpr(f)(X)
    names = [e.primitive.name for e in graph.equations]
    assert len(graph.constants) == 3 and "cos" not in names
    assert all(type(value) is np.ndarray for _, value in graph.constants)


def test_results_are_ndarrays():
    def f(x):
        a, b = np.zeros(3), np.ones(2)
        a[0] = x[0]
        return a, a[1:], b, b[:1], {"c": np.eye(2)}

    for found in (fg.jit(f)(X), fg.vjp(f, X)[0], fg.jvp(f, (X,), (X,))[0], fg.vmap(f)(X[:, None])):
        assert {type(leaf) for leaf in fg.tree_util.tree_leaves(found)} == {np.ndarray}
    found, aux = fg.grad(lambda x: (np.sum(x), f(x)), has_aux=True)(X)
    assert {type(leaf) for leaf in fg.tree_util.tree_leaves(aux)} == {np.ndarray}
    np.testing.assert_array_equal(aux[0], [0.5, 0.0, 0.0])


def test_arguments_of_inner_transforms():
    def f(x):
        a, w = np.zeros(3), np.arange(3.0)
        a[1] = x[1]

        def inner(a, w):
            a[0] = 5.0
            b = np.array(w)
            b[0] = a[1]
            return np.sum(a * a) + np.sum(b)

        found = (
            fg.jit(inner)(a, w) + np.sum(fg.grad(inner)(a, w)) + fg.jvp(inner, (a, w), (a, w))[1]
        )
        return found + np.sum(a) + w[0] + np.sum(fg.vmap(lambda r, s: r * s)(a, w))

    fg.testing.check_grads(f, [X], order=2)


def test_in_the_bodies_of_loops():
    def f(x):
        def step(carry, v):
            a = np.zeros(2)
            a[0] = carry
            a[1] = v * carry
            return np.sum(a), a

        last, rows = fg.lax.scan(step, 1.0, x)
        return last + np.sum(rows[:, 1] ** 2)

    fg.testing.check_grads(f, [X], order=2)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(X), fg.grad(f)(X), rtol=1e-13)

    def carried(x):
        def step(i, a):
            a[i] = a[i - 1] * x[i]
            return a

        start = np.ones(3)
        found = fg.lax.fori_loop(1, 3, step, start)
        return np.sum(found) + np.sum(start)

    np.testing.assert_allclose(fg.grad(carried)(X), [0.0, 3.0, 1.5])


def test_a_loop_does_not_write_into_an_array_of_the_outside():
    def f(x):
        a = np.zeros(3)

        def step(carry, v):
            a[0] = v
            return carry, v

        fg.lax.scan(step, 0.0, x)
        return np.sum(a)

    message = r"test_made_arrays.py:\d+ \(step\).*made outside of.*carry"
    with pytest.raises(ItemAssignmentError, match=message):
        fg.grad(f)(X)


def test_an_array_that_is_kept_is_of_the_outside_for_the_next_transform():
    kept = []
    fg.grad(lambda x: kept.append(np.zeros(3)) or np.sum(x))(X)
    kept[0][:] = 2.0
    assert repr(kept[0] + 1.0) == "array([3., 3., 3.])" and type(kept[0] + 1.0) is np.ndarray

    def f(x):
        kept[0][0] = x[0]

    with pytest.raises(ItemAssignmentError, match=r"outside of the transform.*np.array\(a\)"):
        fg.grad(f)(X)
    np.testing.assert_array_equal(kept[0], [2.0, 2.0, 2.0])


@pytest.mark.slow
def test_it_keeps_no_trace_alive():
    kept, traces = [], []

    def f(x):
        traces.append(weakref.ref(x.owner))
        kept.append(np.zeros(3) + 1.0)
        return np.sum(x * x)

    fg.grad(f)(X)
    gc.collect()
    assert traces[0]() is None


def test_a_written_array_that_outlives_its_transform():
    kept = []

    def f(x):
        a = np.zeros(3)
        a[0] = x[0]
        kept.append(a)
        return np.sum(a)

    uses = (np.sum, lambda a: a + 1.0, lambda a: a[0], lambda a: a.sum())
    fg.grad(f)(X)
    for use in uses:
        np.testing.assert_array_equal(use(kept[0]), use(np.array([X[0], 0.0, 0.0])))
    with pytest.raises((LeakedTracerError, ValueError, TypeError)):  # its memory is no longer used
        float(np.asarray(kept[0]).astype(float)[0])
    fg.jit(f)(X)
    for use in uses:
        with pytest.raises(LeakedTracerError):
            use(kept[1])


def test_without_interception_it_is_refused_by_the_name_of_the_setting():
    def f(x):
        a = np.zeros_like(x)
        assert type(a) is np.ndarray and type(np.zeros(3)) is np.ndarray
        a[0] = x[0]

    fg.config.intercept = False
    try:
        with pytest.raises(ItemAssignmentError, match=r"fg.config.intercept is False.*np.stack"):
            fg.grad(f)(X)
    finally:
        fg.config.intercept = True


# --- ndarrays to everybody ------------------------------------------------------------------------


def test_before_a_traced_write_it_is_an_ndarray():
    def f(x):
        a = np.arange(4.0)
        assert type(a) is Writable and isinstance(a, np.ndarray)
        assert repr(a) == "array([0., 1., 2., 3.])" and str(a) == "[0. 1. 2. 3.]"
        assert type(pickle.loads(pickle.dumps(a))) is np.ndarray
        assert np.array_equal(copy.copy(a), a) and np.array_equal(copy.deepcopy(a), a)
        assert memoryview(a).format == "d" and bytes(a[:1]) == bytes(8)
        for number in (a.sum(), np.sum(a), np.mean(a), a @ a, np.dot(a, a), a.max(), np.median(a)):
            assert type(number) is np.float64
        assert type(a[1]) is np.float64 and a.tolist() == [0.0, 1.0, 2.0, 3.0]
        assert type(np.linalg.norm(a)) is np.float64 and a.argmax() == 3
        out = np.empty(4)
        assert np.dot(np.eye(4), a, out=out) is out and np.add(a, 1.0, out=out) is out
        assert np.einsum("i,i", a, a) == 14.0 and np.asarray(a) is a and np.asanyarray(a) is a
        np.empty(5000).resize(6000, refcheck=False)
        a.resize(5, refcheck=False)
        a += 1.0
        a[a > 2.0] *= 2.0
        np.add.at(a, [0, 0], 1.0)
        a.sort()
        a.fill(3.0)
        return a

    np.testing.assert_array_equal(traced(f), np.full(5, 3.0))


def test_compiled_code_takes_it():
    linalg = pytest.importorskip("scipy.linalg")
    sparse = pytest.importorskip("scipy.sparse")

    def f(x):
        a = np.eye(3) * 2.0
        assert linalg.blas.ddot(a[0], a[0]) == 4.0
        np.testing.assert_allclose(linalg.cho_factor(a)[0], np.sqrt(a))
        assert sparse.csr_matrix(a).sum() == 6.0
        return np.linalg.solve(a, np.ones(3))

    np.testing.assert_allclose(traced(f), np.full(3, 0.5))


def written(x):
    a = np.ones(3)
    view = np.ndarray.view(a, np.ndarray)
    a[0] = x[0]
    assert type(a) is Written
    return a, view


def test_after_it_no_code_reads_stale_numbers():
    blas = pytest.importorskip("scipy.linalg.blas")

    def f(x):
        a, view = written(x)
        assert np.all(np.isnan(view))  # a view made before the first traced value
        readers = [
            lambda: blas.ddot(a, a),
            lambda: np.frombuffer(memoryview(a), float) + 1.0,
            lambda: memoryview(a).cast("d"),
            lambda: np.ndarray.sum(a),
            lambda: np.ndarray.__getitem__(a, slice(0, 1)),
            lambda: np.ndarray.astype(a, float),
            lambda: np.ndarray.tobytes(a) and float(np.float64(a)),
            lambda: np.ndarray.__setitem__(a, 0, 1.0),
            lambda: np.random.default_rng(0).random(out=a),
        ]
        for number, read in enumerate(readers):
            try:
                found = read()
            except (TypeError, ValueError, BufferError, ItemAssignmentError, GradientCutError):
                continue
            assert type(found) is Tracer or np.all(np.isnan(found)), number
        return np.sum(a)

    np.testing.assert_array_equal(fg.grad(f)(X), [1.0, 0.0, 0.0])


def test_integers_that_were_overwritten_are_no_numbers_of_the_program():
    def f(n):
        a = np.arange(3)
        view = np.ndarray.view(a, np.ndarray)
        a[0] = n
        assert np.all(view == np.iinfo(a.dtype.char if type(a) is Writable else int).min)
        return a

    np.testing.assert_array_equal(fg.jit(f)(7), [7, 1, 2])


def test_a_written_array_answers_as_its_traced_value():
    def f(x):
        a, _ = written(x)
        assert isinstance(a, np.ndarray) and a.shape == (3,) and a.dtype == np.float64
        assert a.ndim == 1 and a.size == 3 and len(a) == 3 and np.shape(a) == (3,)
        assert "Tracer" in f"{a!r}." and type(a + 1.0) is Tracer and type(a[1:]) is Tracer
        b = np.ones(3)
        terms = [
            a * 2.0, 2.0 * a, b + a, a - b, b / a, a**2, 2.0**a, -a, abs(a), a @ b, b @ a, a @ a,
            np.exp(a), np.sum(a), a.sum(), a.mean(), np.dot(a, b), np.where(a > 0.7, a, 0.0),
            np.concatenate([a, x]), np.stack([a, b]), np.asarray(a), np.array(a), np.array([a, a]),
            a.reshape(3, 1), a.T, a.copy(), sum(a), np.einsum("i,i", a, b), a[[0, 1]], 1,
            np.add(a, x), np.add.reduce(a), np.multiply.outer(a, x), np.linalg.norm(a), x * a,
            np.interp(0.5, b.cumsum(), a), np.clip(a, 0.0, 0.7), np.outer(a, a), a.astype(complex),
        ]  # fmt: skip
        return sum(np.sum(np.abs(t)) for t in terms)

    same_as_numpy(lambda x: f(x) if type(x) is Tracer else plain_f(x), X, order=1)


def plain_f(x):
    """The function above for plain numbers."""
    a, b = np.array([x[0], 1.0, 1.0]), np.ones(3)
    terms = [
        a * 2.0, 2.0 * a, b + a, a - b, b / a, a**2, 2.0**a, -a, abs(a), a @ b, b @ a, a @ a,
        np.exp(a), np.sum(a), a.sum(), a.mean(), np.dot(a, b), np.where(a > 0.7, a, 0.0),
        np.concatenate([a, x]), np.stack([a, b]), a, a, np.array([a, a]),
        a.reshape(3, 1), a.T, a.copy(), sum(a), np.einsum("i,i", a, b), a[[0, 1]], 1,
        np.add(a, x), np.add.reduce(a), np.multiply.outer(a, x), np.linalg.norm(a), x * a,
        np.interp(0.5, b.cumsum(), a), np.clip(a, 0.0, 0.7), np.outer(a, a), a.astype(complex),
    ]  # fmt: skip
    return sum(np.sum(np.abs(t)) for t in terms)


def test_a_plain_view_tells_of_what_array_it_is():
    def f(x):
        for a in (np.zeros(3), np.zeros(5000), np.zeros(5000) + 1.0, np.zeros((3, 5000))[[0, 2]]):
            for made in (a, a[1:], a.T):
                view = plain(made)
                assert type(view) is np.ndarray and type(view.base) is Writable
                assert np.shares_memory(view, made)
            assert plain(a).base is plain(a).base  # one constant of a Graph
        return x

    traced(f)


def _over(memory):
    return np.frombuffer(memory(bytes(np.array([1.0, 2.0]))))


@pytest.mark.parametrize("memory", [bytes, bytearray, memoryview])
def test_arrays_over_foreign_memory_pass_functions_that_return_views(memory):
    held = _over(memory)
    unpickled = pickle.loads(pickle.dumps(_over(bytearray), 5))

    def f(x):
        return np.sum(np.atleast_2d(held) * x) + np.sum(np.outer(held, unpickled)) * x[0]

    assert fg.grad(f)(np.ones(2)).tolist() == fg.jit(fg.grad(f))(np.ones(2)).tolist() == [10.0, 2.0]


class Holder:
    """An object over an array, as a column or the cell of a crystal."""

    def __init__(self, values):
        self.values = np.asarray(values, dtype=float)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype, copy=copy)


def parts(x):
    z = np.empty(2, complex)
    z.real = x
    z.imag = [x, 2 * x]
    return np.sum(np.abs(z) ** 2)


def real_part_of_floats(x):
    z = np.ones((2, 2))
    z[0].real = x
    return np.sum(z**2)


def from_holder(x):
    out = np.zeros((2, 2))
    out[:] = Holder([[x, 0.0], [0.0, x]])
    return np.sum(out**2)


def into_holder(x):
    held = Holder(np.zeros((2, 2)))
    np.asarray(held)[:1] = Holder([[x, 2 * x]])
    return np.sum(held.values**2)


@pytest.mark.parametrize("f", [parts, real_part_of_floats, from_holder, into_holder])
def test_real_imag_and_arrays_of_objects(f):
    x = 1.5
    value, slope = fg.value_and_grad(f)(x)
    assert np.isclose(value, f(x)) and np.isclose(slope, (f(x + 1e-6) - f(x - 1e-6)) / 2e-6)
    assert np.isclose(fg.grad(fg.grad(f))(x), slope / x)
    assert np.isclose(fg.jvp(f, (x,), (1.0,))[1], slope)
    assert np.allclose(fg.vmap(f)(np.array([x, 2.0])), [f(x), f(2.0)])
    assert np.isclose(fg.jit(fg.grad(f))(x), slope)


def test_a_real_array_has_no_imaginary_part_to_set():
    def f(x):
        z = np.zeros(2)
        with pytest.raises(TypeError):
            z.imag = 1.0
        with pytest.raises(TypeError):
            z.imag = x
        return x

    assert fg.grad(f)(1.0) == 1.0
