"""Array-likes beside traced values: columns of pandas, xarray's arrays, memory, arrays of Python.

Each use has to give the same values and derivatives as an ndarray of the same numbers.
"""

from __future__ import annotations

import array
import collections

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import ArgumentError, FungradError

X = np.array([1.5, 0.5, 2.5])
W = np.array([3.0, 1.0, 2.0])
KNOTS = np.array([0.0, 2.0, 4.0])
PICK = np.array([2, 0, 2])
MASK = np.array([True, False, True])

USES = {
    "where, a condition": (MASK, lambda a, x: np.where(a, x**2, 0.0)),
    "where, a choice": (W, lambda a, x: np.where(x > 1.0, a, x**2)),
    "dot": (W, lambda a, x: np.dot(x**2, a)),
    "dot, first": (W, lambda a, x: np.dot(a, x**2)),
    "vdot": (W, lambda a, x: np.vdot(a, x**2)),
    "inner": (W, lambda a, x: np.inner(x**2, a)),
    "outer": (W, lambda a, x: np.outer(a, x**2)),
    "method dot": (W, lambda a, x: (x**2).dot(a)),
    "tensordot": (W, lambda a, x: np.tensordot(a, x**2, 1)),
    "einsum": (W, lambda a, x: np.einsum("i,i->", a, x**2)),
    "kron": (W, lambda a, x: np.kron(a, x**2)),
    "convolve": (W, lambda a, x: np.convolve(a, x**2)),
    "stack": (W, lambda a, x: np.stack([a, x**2])),
    "column_stack": (W, lambda a, x: np.column_stack([x**2, a])),
    "concatenate": (W, lambda a, x: np.concatenate([x**2, a])),
    "append": (W, lambda a, x: np.append(x**2, a)),
    "insert": (W, lambda a, x: np.insert(x**2, 1, a)),
    "sum, where=": (MASK, lambda a, x: np.sum(x**2, where=a)),
    "mean, where=": (MASK, lambda a, x: np.mean(x**2, where=a)),
    "average, weights=": (W, lambda a, x: np.average(x**2, weights=a)),
    "average, values": (W, lambda a, x: np.average(a, weights=x**2)),
    "bincount, weights=": (PICK, lambda a, x: np.bincount(a, weights=x**2)),
    "interp, x": (W, lambda a, x: np.interp(a, KNOTS, x**2)),
    "interp, xp": (KNOTS, lambda a, x: np.interp(x, a, W) ** 2),
    "interp, fp": (W, lambda a, x: np.interp(x, KNOTS, a) ** 2),
    "trapezoid": (KNOTS, lambda a, x: np.trapezoid(x**2, a)),
    "gradient": (np.array([0.0, 1.0, 3.0]), lambda a, x: np.gradient(x**2, a)),
    "clip": (W, lambda a, x: np.clip(x**2, 0.0, a)),
    "polyval": (W, lambda a, x: np.polyval(a, x)),
    "solve": (W, lambda a, x: np.linalg.solve(np.diag(x), a)),
    "isclose": (W, lambda a, x: np.isclose(a, x) * x),
    "index": (PICK, lambda a, x: x[a] ** 2),
    "index, of two axes": (PICK, lambda a, x: np.outer(x, x)[a, a]),
    "index, beside a slice": (PICK, lambda a, x: np.outer(x, x)[:, a]),
    "mask": (MASK, lambda a, x: x[a] ** 2),
    "take": (PICK, lambda a, x: np.take(x**2, a)),
    "repeat": (PICK, lambda a, x: np.repeat(x**2, a)),
    "at": (PICK, lambda a, x: fg.numpy.at(x**2)[a].set(x[0])),
    "select": (MASK, lambda a, x: np.select([a], [x**2], 0.0)),
    "choose": (np.array([0, 1, 0]), lambda a, x: np.choose(a, [x, x**2])),
}


def of_pandas(name):
    def make(values):
        pandas = pytest.importorskip("pandas")
        if name == "Series":
            return pandas.Series(values, index=[7, 5, 6])
        return pandas.Index(values) if name == "Index" else pandas.array(values.tolist())

    return make


def of_xarray(values):
    return pytest.importorskip("xarray").DataArray(values, dims="t", coords={"t": [7, 5, 6]})


def of_array(values):
    if values.dtype.kind == "b":
        return values.tolist()
    return array.array("d" if values.dtype.kind == "f" else "q", values.tolist())


class Handed:
    """The least that NumPy takes for an array."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values


KINDS = {
    "Series": of_pandas("Series"),
    "Index": of_pandas("Index"),
    "extension array": of_pandas("array"),
    "DataArray": of_xarray,
    "memoryview": memoryview,
    "array.array": of_array,
    "__array__": Handed,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use", USES)
def test_an_array_like_counts_as_its_values(use, kind):
    values, f = USES[use]
    other = KINDS[kind](values)
    expected = lambda x: f(values, x)  # noqa: E731
    found = lambda x: f(other, x)  # noqa: E731
    tangent = np.array([0.3, -1.0, 0.7])
    for value, reference in zip(
        fg.jvp(found, (X,), (tangent,)), fg.jvp(expected, (X,), (tangent,)), strict=True
    ):
        np.testing.assert_array_equal(value, reference)
    np.testing.assert_array_equal(fg.jvp(found, (X,), (tangent,))[0], expected(X))
    np.testing.assert_array_equal(fg.jacrev(found)(X), fg.jacrev(expected)(X))
    total = lambda g: fg.hessian(lambda x: np.sum(g(x) * 1.0))(X)  # noqa: E731
    np.testing.assert_array_equal(total(found), total(expected))
    np.testing.assert_allclose(fg.jit(found)(X), expected(X), rtol=1e-14)
    batch = np.stack([X, 1.1 * X])
    np.testing.assert_allclose(fg.vmap(found)(batch), [expected(x) for x in batch], rtol=1e-13)


def test_a_range_and_a_deque_pick_and_weigh():
    values = np.arange(3)
    for other in (range(3), collections.deque([0, 1, 2])):
        for f in (
            lambda a, x: x[a] ** 2,
            lambda a, x: np.dot(a, x),
            lambda a, x: np.average(x**2, weights=a),
            lambda a, x: np.stack([a, x]),
        ):
            for transform in (fg.jacrev, fg.jit):
                np.testing.assert_array_equal(
                    transform(lambda x, f=f, o=other: f(o, x))(X),
                    transform(lambda x, f=f: f(values, x))(X),
                )


def test_an_index_of_labels_or_reals_is_refused():
    pandas = pytest.importorskip("pandas")
    for index in (pandas.Series(["a", "b"]), pandas.Series([0.0, 1.0])):
        with pytest.raises((IndexError, FungradError)):
            fg.grad(lambda x, i=index: np.sum(x[i]))(X)


def test_what_says_by_itself_how_numpy_takes_it_is_no_array_like():
    class Quantity(Handed):
        def __array_ufunc__(self, *args, **kwargs):
            return NotImplemented

        def __array_function__(self, *args, **kwargs):
            return NotImplemented

    with pytest.raises((TypeError, ArgumentError)):
        fg.grad(lambda x: np.dot(x, Quantity(W)))(X)
    with pytest.raises(ArgumentError, match="Quantity"):
        fg.grad(lambda x: fg.numpy.dot(x, Quantity(W)))(X)
