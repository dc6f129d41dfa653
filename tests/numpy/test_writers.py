"""NumPy's functions and methods that write into an array, on traced arrays: `out=`, ufunc.at, put,
place, copyto, sort, fill, flat.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from test_writes import same_as_numpy

import fungrad as fg
from fungrad.errors import GradientCutError, ItemAssignmentError, UnsupportedArgumentError

X = np.array([0.5, 1.5, 2.0])
M = np.array([[0.5, 1.5, 2.0], [1.25, 0.75, 0.25]])


def writer(write):
    """A function that writes into a copy of its argument, and into a view of it, by `write`."""

    def f(x):
        y, z = x * 1.0, x * 2.0
        v = z[1:] if z.shape[0] > 2 else z[:, 1:]
        write(y, x)
        write(v, x)
        return np.sum(y**2 * x) + np.sum(z**3)

    return f


# --- out= -----------------------------------------------------------------------------------------

OUT = {
    "ufunc": lambda y, x: np.multiply(y, x.ravel()[1], out=y),
    "plain inputs": lambda y, x: np.add(1.0, 2.0, out=y),
    "broadcast": lambda y, x: np.exp(x.ravel()[0], out=y),
    "where": lambda y, x: np.log(y, out=y, where=y > 1.0),
    "where is traced": lambda y, x: np.divide(x.ravel()[1], y, out=y, where=y != 1.5),
    "positional": lambda y, x: np.sin(y, y),
    "clip": lambda y, x: np.clip(y, 0.6, 1.9, out=y),
    "clip positional": lambda y, x: np.clip(y, 0.6, 1.9, y),
    "method": lambda y, x: y.clip(0.6, 1.9, out=y),
    "round": lambda y, x: np.round(y * 1.04, 1, out=y),
    "sum": lambda y, x: np.sum(y * x.ravel()[0], axis=0, out=y[..., 0] if y.ndim == 1 else y[0]),
    "cumsum": lambda y, x: np.cumsum(y, axis=0, out=y),
    "accumulate": lambda y, x: np.add.accumulate(y, 0, None, y),
    "reduce": lambda y, x: np.add.reduce(y, 0, None, y[0]) if y.ndim > 1 else None,
    "concatenate": lambda y, x: np.concatenate([y[:1] * 2.0, y[1:] * y[:1]], out=y),
    "take": lambda y, x: np.take(y * 1.0, np.arange(y.shape[0])[::-1], axis=0, out=y),
    "matmul": lambda y, x: np.matmul(y, y.T @ y if y.ndim > 1 else np.eye(y.size), out=y),
    "einsum": lambda y, x: np.einsum("...,...->...", y, y, out=y),
    "modf": lambda y, x: np.modf(y * 1.3, out=(y, None)),
    "mean": lambda y, x: np.mean(y * 1.0, axis=0, keepdims=True, out=y[:1]),
    "nan_to_num": lambda y, x: np.nan_to_num(y, copy=False),
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in OUT if n != "sum"])
def test_out(name):
    same_as_numpy(writer(OUT[name]), M)
    if name != "matmul":
        same_as_numpy(writer(OUT[name]), X)


def test_out_is_given_back():
    def f(x):
        y = x * 2.0
        assert np.add(x, 1.0, out=y) is y
        assert np.cumsum(x, out=y) is y
        first, second = np.modf(x, out=(y, None))
        assert first is y and second is not y
        assert np.sum(x, axis=0, keepdims=True, out=y[:1]).shape == (1,)
        return np.sum(y)

    fg.jit(f)(X)


def test_out_fits():
    def fails(error, match, f):
        with pytest.raises(error, match=match):
            fg.jit(f)(X)

    fails(ValueError, "non-broadcastable output", lambda x: np.add(x, np.ones((2, 3)), out=x))
    fails(ValueError, "has the shape", lambda x: np.sum(x, axis=0, out=x))
    fails(TypeError, "same_kind", lambda x: np.multiply(x, 1j, out=x))
    assert fg.jit(lambda x: np.add(x, 1.0, out=KEPT) @ x)(X).tolist() == [X @ X + X.sum()] * 2
    assert fg.jit(lambda x: np.cumsum(x, out=KEPT[0])[2])(X) == np.sum(X) and not KEPT.any()
    with pytest.raises(GradientCutError, match="cut their gradient"):
        fg.jit(lambda x, k: np.add(x, k, out=k, casting="unsafe"))(X, np.arange(3))


KEPT = np.zeros((2, 3))


# --- ufunc.at -------------------------------------------------------------------------------------

AT = {
    "add": lambda y, x: np.add.at(y, [0, 1, 0], x.ravel()[0] * 2.0),
    "subtract": lambda y, x: np.subtract.at(y, ([0, 0],), x.ravel()[1]),
    "multiply": lambda y, x: np.multiply.at(y, np.array([1, 1, 0]), x.ravel()[0] + 1.0),
    "divide": lambda y, x: np.divide.at(y, [1, 1], x.ravel()[1]),
    "maximum": lambda y, x: np.maximum.at(y, [0, 1], 1.1),
    "slice": lambda y, x: np.add.at(y, slice(None, 1), x.ravel()[2]),
    "negative": lambda y, x: np.negative.at(y, [1]),
    "arctan2": lambda y, x: np.arctan2.at(y, [1, 0], x.ravel()[2]),
}  # fmt: skip


@pytest.mark.parametrize("name", AT)
def test_ufunc_at(name):
    same_as_numpy(writer(AT[name]), X)
    same_as_numpy(writer(AT[name]), M)


def test_ufunc_at_of_repeated_elements_needs_a_rule():
    with pytest.raises(UnsupportedArgumentError, match=r"np.hypot.at .*test_writers.py"):
        fg.grad(lambda x: np.hypot.at(x, [0, 0], 1.0))(X)


# --- functions and methods ------------------------------------------------------------------------

WRITERS = {
    "copyto": lambda y, x: np.copyto(y, x.ravel()[1] * 2.0),
    "copyto where": lambda y, x: np.copyto(y, x.ravel()[1] * 2.0, where=y > 1.0),
    "put": lambda y, x: np.put(y, [0, -1], [x.ravel()[1], 7.0]),
    "put cycles": lambda y, x: y.put([0, 1], x.ravel()[1] * 3.0),
    "put wraps": lambda y, x: np.put(y, [9, 10], x.ravel()[:2], mode="wrap"),
    "place": lambda y, x: np.place(y, y > 1.0, [x.ravel()[1], 7.0]),
    "putmask": lambda y, x: np.putmask(y, y > 1.0, x.ravel()[:2] * 5.0),
    "put_along_axis": lambda y, x: np.put_along_axis(
        y, np.zeros((1,) * y.ndim, int), x.ravel()[0], 0
    ),
    "fill": lambda y, x: y.fill(x.ravel()[2]),
    "sort": lambda y, x: y.sort(),
    "sort along": lambda y, x: y.sort(axis=0),
    "partition": lambda y, x: y.partition(1),
    "flat": lambda y, x: y.flat.__setitem__(1, x.ravel()[0]),
    "flat slice": lambda y, x: y.flat.__setitem__(slice(0, 2), x.ravel()[:1]),
    "flat array": lambda y, x: y.flat.__setitem__([0, 1], x.ravel()[1:3] ** 2),
    "flat whole": lambda y, x: setattr(y, "flat", x.ravel()[:2]),
    "flat of a transpose": lambda y, x: y.T.flat.__setitem__(1, x.ravel()[0]),
    "real": lambda y, x: setattr(y, "real", x.ravel()[0]),
    "choose": lambda y, x: np.choose(np.zeros(y.shape, int), [y * 3.0], out=y),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_writers(name):
    for x in (X, M):
        if name.startswith("put_") and x is M:
            continue
        same_as_numpy(writer(WRITERS[name]), x)


def test_put_along_axis_and_fill_diagonal():
    def f(m):
        y = m * 1.0
        np.put_along_axis(y, np.argmax(m, axis=1, keepdims=True), m[:, :1] * 3.0, axis=1)
        np.fill_diagonal(y, m[0])
        np.fill_diagonal(y[:, 1:], m[1, 1])
        tall = np.concatenate([m, m, m])
        np.fill_diagonal(tall, 5.0, wrap=True)
        return np.sum(y**2) + np.sum(tall**2)

    same_as_numpy(f, M)


def test_parts_of_complex_arrays():
    def f(x):
        z = x * (1.0 + 2.0j)
        z.real[1] = x[0]
        z.imag *= x
        z.real = z.imag
        z.imag[::2] = 3.0
        part = z.real
        z *= 1j
        return np.sum(np.abs(z) ** 2) + np.sum(part * x)

    same_as_numpy(f, X)
    with pytest.raises(TypeError, match="does not have imaginary part"):
        fg.jit(lambda x: setattr(x, "imag", 1.0))(X)


def test_flat_reads_copies():
    def f(m):
        flat = m.flat
        first = flat[:2]
        first[0] = 50.0
        total = flat[1] * first[0]
        for number in m.flat:
            total = total + number**2
        m.flat[3] = total
        assert len(m.flat) == 6 and m.flat.base is m and next(m.flat) is not None
        assert [index for index, _ in np.ndenumerate(m)] == [*np.ndindex(m.shape)]
        return np.sum(m) + np.sum(np.sin(m.flat)) + np.sum(flat == m.flat.copy())

    same_as_numpy(f, M)


READ_ONLY = {
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3)),
    "diagonal": lambda x: np.outer(x, x).diagonal(),
    "diag": lambda x: np.diag(np.outer(x, x)),
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 2),
    "a view of one": lambda x: np.broadcast_to(x, (2, 3))[0],
}


@pytest.mark.parametrize("name", READ_ONLY)
def test_read_only_views_are_refused_and_see_their_bases(name):
    for write in (lambda v: v.__setitem__(0, 1.0), lambda v: v.__iadd__(1.0), np.ndarray.sort):
        if write is np.ndarray.sort:
            write = lambda v: v.sort()  # noqa: E731
        with pytest.raises(ItemAssignmentError, match="is read-only: it is "):
            fg.jit(lambda x, w=write: w(READ_ONLY[name](x)))(X)

    def f(x):
        y = x * 1.0
        v = np.broadcast_to(y, (2, 3))
        m = np.outer(x, x)
        d = m.diagonal()
        w = np.lib.stride_tricks.sliding_window_view(y, 2)
        m[1] *= 3.0
        y[1] = x[0] * x[2]
        return np.sum(v**2) + np.sum(d**2) + np.sum(w[:, 0] * x[:2])

    same_as_numpy(f, X)


def test_what_resizes_memory_is_refused():
    for write in (lambda x: x.resize(2, 2), lambda x: x.setfield(1.0, np.float64)):
        with pytest.raises(ItemAssignmentError, match=r"test_writers.py"):
            fg.grad(write)(X)


def test_where_hides_what_is_not_written():
    def f(x):
        out = x * 1.0
        np.divide(1.0, x - 0.5, out=out, where=x != 0.5)
        return np.sum(out)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(fg.grad(f)(X), [1.0, -1.0, -1 / 1.5**2])
