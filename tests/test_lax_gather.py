"""fungrad.lax: gather and scatter against XLA's definition, one element at a time."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from surface import agrees, values

import fungrad as fg
from fungrad import lax
from fungrad.errors import ArgumentError, ShapeError
from fungrad.testing import check_grads

# Shape of the operand, indices, sizes of a window, the five lists of dimension numbers.
CASES = {
    "rows": ((4, 3), [[2], [0], [2], [5]], (1, 3), ((1,), (0,), (0,))),
    "elements": ((4, 3), [[[1, 2], [3, 0]], [[-1, 0], [1, 2]]], (1, 1), ((), (0, 1), (1, 0))),
    "blocks": ((4, 3), [[1, 1], [3, 0], [0, 0]], (2, 2), ((0, 2), (), (0, 1))),
    "blocks before": ((4, 3), [[1, 1], [3, 0], [0, 0]], (2, 2), ((0, 1), (), (0, 1))),
    "one block": ((4, 3), [2], (2, 2), ((0, 1), (), (0,))),
    "columns": ((2, 4, 3), [[2, 0], [1, 4]], (2, 1, 1), ((0,), (1, 2), (2, 1))),
    "pairs": ((3, 4), [[1], [3], [4]], (1, 1), ((), (1,), (1,), (0,), (0,))),
    "pairs of rows": ((4, 3, 5), [[[1]] * 3, [[4]] * 3], (1, 1, 2), ((2,), (0,), (2,), (1,), (1,))),
    "nothing indexed": ((3,), [[], []], (2,), ((1,), (), ())),
    "a number": ((), [[], []], (), ((), (), ())),
    "no windows": ((4, 3), np.zeros((0, 1), int), (1, 3), ((1,), (0,), (0,))),
}
MODES = ("clip", "fill")


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def element_places(shape, indices, sizes, numbers, mode):
    """For each element of the result: where it stands in the operand, None out of bounds."""
    windows, dropped, index_map, batching, along = (*numbers, (), ())[:5]
    batch = indices.shape[:-1]
    kept = [axis for axis in range(len(shape)) if axis not in (*dropped, *batching)]
    ndim = len(batch) + len(windows)
    order = [axis for axis in range(ndim) if axis not in windows]
    result = np.empty(_result_shape(batch, [sizes[a] for a in kept], windows), dtype=object)
    for place in np.ndindex(*result.shape):
        b = tuple(place[axis] for axis in order)
        start = [0] * len(shape)
        for k, axis in enumerate(index_map):
            start[axis] = int(indices[(*b, k)])
        inside = all(0 <= i <= n - k for i, n, k in zip(start, shape, sizes, strict=True))
        if mode == "clip":
            bounds = zip(start, shape, sizes, strict=True)
            start = [min(max(i, 0), n - k) for i, n, k in bounds]
            inside = True
        for axis, which in zip(batching, along, strict=True):
            start[axis] = b[which]
        for axis, where in zip(kept, windows, strict=True):
            start[axis] += place[where]
        result[place] = tuple(start) if inside else None
    return result


def _result_shape(batch, window, windows):
    ndim = len(batch) + len(windows)
    batch, window = iter(batch), iter(window)
    return tuple(next(window if axis in windows else batch) for axis in range(ndim))


def prepared(name):
    shape, indices, sizes, numbers = CASES[name]
    return values(shape), np.array(indices, dtype=int), sizes, numbers


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_gather(name, mode):
    x, indices, sizes, numbers = prepared(name)
    places = element_places(x.shape, indices, sizes, numbers, mode)
    expected = np.zeros(places.shape)
    for at in np.ndindex(*places.shape):
        expected[at] = 7.0 if places[at] is None else x[places[at]]
    dimension_numbers = lax.GatherDimensionNumbers(*numbers)

    def f(x, i):
        return lax.gather(x, i, dimension_numbers, sizes, mode=mode, fill_value=7.0)

    np.testing.assert_array_equal(f(x, indices), expected)
    np.testing.assert_array_equal(fg.jit(f)(x, indices), expected)
    agrees(f, x, indices)


WRITERS = {
    "scatter": lambda old, new: new,
    "scatter_add": lambda old, new: old + new,
    "scatter_sub": lambda old, new: old - new,
    "scatter_mul": lambda old, new: old * new,
    "scatter_min": min,
    "scatter_max": max,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "writer"), [*itertools.product(CASES, WRITERS)])
def test_scatter(name, writer, mode):
    x, indices, sizes, numbers = prepared(name)
    places = element_places(x.shape, indices, sizes, numbers, mode)
    updates = values(places.shape, seed=3)
    expected = x.copy()
    # The windows one after the other, so that the last index wins where they overlap.
    order = [axis for axis in range(places.ndim) if axis not in numbers[0]]
    for at in sorted(np.ndindex(*places.shape), key=lambda at: [at[axis] for axis in order]):
        if places[at] is not None:
            expected[places[at]] = WRITERS[writer](expected[places[at]], updates[at])
    dimension_numbers = lax.ScatterDimensionNumbers(*numbers)

    def f(x, i, u):
        return getattr(lax, writer)(x, i, u, dimension_numbers, mode=mode)

    np.testing.assert_allclose(f(x, indices, updates), expected, rtol=1e-13)
    np.testing.assert_allclose(fg.jit(f)(x, indices, updates), expected, rtol=1e-13)
    full = name in ("blocks", "pairs of rows")
    agrees(f, x, indices, updates, order=2 if full else 1, batch=full)


def test_scatter_apply():
    x, indices, _sizes, numbers = prepared("rows")
    dimension_numbers = lax.ScatterDimensionNumbers(*numbers)

    def f(x):
        return lax.scatter_apply(x, indices, np.exp, dimension_numbers, update_shape=(4, 3))

    expected = x.copy()
    expected[[0, 2]] = np.exp(x[[0, 2]])
    np.testing.assert_allclose(f(x), expected)
    agrees(f, x)


def test_modes_and_promises():
    x, indices, sizes, numbers = prepared("rows")
    gather = lax.GatherDimensionNumbers(*numbers)
    clipped = lax.gather(x, indices, gather, sizes)
    np.testing.assert_array_equal(clipped[-1], x[-1])
    np.testing.assert_array_equal(
        lax.gather(x, indices, gather, sizes, mode=lax.GatherScatterMode.CLIP), clipped
    )
    once = indices[:2]
    f = lambda x: lax.gather(  # noqa: E731
        x, once, gather, sizes, mode="promise_in_bounds", unique_indices=True,
        indices_are_sorted=True,
    )  # fmt: skip
    np.testing.assert_array_equal(f(x), x[[2, 0]])
    check_grads(f, [x], order=2)
    with pytest.raises(IndexError):
        lax.gather(x, indices, gather, sizes, mode="promise_in_bounds")
    scatter = lax.ScatterDimensionNumbers(*numbers)
    rows = values((2, 3), seed=1)
    g = lambda x, u: lax.scatter_mul(  # noqa: E731
        x, once, u, scatter, unique_indices=True, mode="promise_in_bounds"
    )
    check_grads(g, [x, rows], order=2)
    for mode in ("clip", "fill"):  # the promise may not hold of indices that were moved
        h = lambda x, mode=mode: lax.gather(  # noqa: E731
            x, np.array([[3], [7]]), gather, sizes, mode=mode, unique_indices=True, fill_value=0.0
        )
        check_grads(h, [x], order=1)
        moved = lax.scatter_add(
            x, np.array([[3], [7]]), rows, scatter, mode=mode, unique_indices=True
        )
        expected = x.copy()
        expected[3] += rows.sum(0) if mode == "clip" else rows[0]
        np.testing.assert_allclose(moved, expected)
    with pytest.raises(ArgumentError, match="none of 'clip'"):
        lax.gather(x, indices, gather, sizes, mode="wrap")


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(np.float32, np.nan), (np.int16, -(2**15)), (np.uint8, 255), (np.bool_, True)],
)
def test_what_stands_for_elements_that_are_not_there(dtype, expected):
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    found = lax.gather(np.zeros(2, dtype), np.array([[2], [1]]), numbers, (1,), mode="fill")
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.array([expected, 0], dtype))


def test_dtypes():
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    x = np.zeros(3, np.float32)
    for kind in (np.int8, np.uint64, np.int64):
        found = lax.scatter_add(x, np.array([[1], [9]], kind), np.ones(2), numbers)
        assert found.dtype == np.float32 and found.tolist() == [0.0, 1.0, 0.0]
    counted = lax.scatter_add(np.zeros(3, int), np.array([[1], [1]]), np.array([2, 3]), numbers)
    assert counted.tolist() == [0, 5, 0] and counted.dtype == np.int64


def test_nothing_flows_to_what_is_filled_or_dropped():
    x = np.array([0.0, 4.0])
    gather = lax.GatherDimensionNumbers((), (0,), (0,))
    scatter = lax.ScatterDimensionNumbers((), (0,), (0,))
    out = np.array([[1], [2]])
    f = lambda x: np.sum(np.sqrt(lax.gather(x, out, gather, (1,), mode="fill", fill_value=0.0)))  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(fg.grad(f)(x), [0.0, 0.25])
        g = lambda u: np.sum(lax.scatter(x, out, np.sqrt(u), scatter))  # noqa: E731
        assert fg.grad(g)(np.array([4.0, 9.0])).tolist() == [0.25, 0.0]


def test_what_does_not_fit():
    x, indices, sizes, numbers = prepared("rows")
    gather = lax.GatherDimensionNumbers(*numbers)
    with pytest.raises(ArgumentError, match="integers"):
        lax.gather(x, indices * 1.0, gather, sizes)
    with pytest.raises(ArgumentError, match="1 components"):
        lax.gather(x, indices, gather._replace(start_index_map=(0, 1)), sizes)
    with pytest.raises(ArgumentError, match="do not fit"):
        lax.gather(x, indices, gather._replace(offset_dims=()), sizes)
    with pytest.raises(ArgumentError, match="do not fit"):
        lax.gather(x, indices, gather._replace(start_index_map=(7,)), sizes)
    with pytest.raises(ShapeError, match=r"Windows of shape \(1, 4\)"):
        lax.gather(x, indices, gather, (1, 4))
    with pytest.raises(ShapeError, match="has to be 1"):
        lax.gather(x, indices, gather, (2, 3))
    scatter = lax.ScatterDimensionNumbers(*numbers)
    with pytest.raises(ShapeError, match=r"updates of shape \(3, 3\)"):
        lax.scatter(x, indices, np.ones((3, 3)), scatter)
