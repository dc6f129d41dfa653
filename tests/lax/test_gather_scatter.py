"""lax.gather and lax.scatter: blocks by dimension numbers, beside loops over the blocks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fungrad as fg
from fungrad import lax
from fungrad.errors import ArgumentError, ShapeError
from fungrad.testing import check_grads

X = np.random.default_rng(0).normal(size=(4, 3, 5))
WRITES = {
    "scatter": (lax.scatter, lambda old, new: new),
    "scatter_add": (lax.scatter_add, lambda old, new: old + new),
    "scatter_sub": (lax.scatter_sub, lambda old, new: old - new),
    "scatter_mul": (lax.scatter_mul, lambda old, new: old * new),
    "scatter_min": (lax.scatter_min, min),
    "scatter_max": (lax.scatter_max, max),
}

# the offsets in the result, the collapsed axes, the axes of a start, the batching axes of the
# operand and of the indices; the shape of a block; the shape of the starts; whether each is known
# to lie inside
CASES = {
    "rows": (((1, 2), (0,), (0,), (), ()), (1, 3, 5), (2, 1)),
    "elements": (((), (0, 1, 2), (2, 0, 1), (), ()), (1, 1, 1), (6, 3)),
    "blocks": (((0, 2, 3), (), (0, 2), (), ()), (2, 3, 2), (3, 2)),
    "one block": (((0, 1), (1,), (1, 0), (), ()), (3, 1, 5), (2,)),
    "batching": (((2,), (1,), (1,), (0,), (1,)), (1, 1, 5), (3, 4, 1)),
}


def starts_of(name, seed=1):
    shape = CASES[name][2]
    return np.random.default_rng(seed).integers(-1, 4, shape)


def elements(name, starts, mode):
    """For each block and each of its elements: the index in the operand, or None outside, and that
    in the result.
    """
    (offsets, collapsed, index_map, batching, along), sizes, shape = CASES[name]
    kept = [a for a in range(3) if a not in collapsed and a not in batching]
    rest = [a for a in range(len(shape) - 1 + len(kept)) if a not in offsets]
    for block in itertools.product(*map(range, shape[:-1])):
        start = [0, 0, 0]
        for i, axis in enumerate(index_map):
            start[axis] = int(starts[(*block, i)])
        for axis, of in zip(batching, along, strict=True):
            start[axis] = block[of]
        last = [n - m for n, m in zip(X.shape, sizes, strict=True)]
        if mode == "clip":
            start = [min(max(s, 0), e) for s, e in zip(start, last, strict=True)]
        inside = all(0 <= s <= e for s, e in zip(start, last, strict=True))
        for offset in itertools.product(*map(range, sizes)):
            there = [0] * (len(rest) + len(offsets))
            for axis, i in zip(rest, block, strict=True):
                there[axis] = i
            for axis, of in zip(offsets, kept, strict=True):
                there[axis] = offset[of]
            place = tuple(s + o for s, o in zip(start, offset, strict=True))
            yield (place if inside else None), tuple(there)


def shape_of_blocks(name):
    found = [there for _, there in elements(name, starts_of(name), "clip")]
    return tuple(max(places) + 1 for places in zip(*found, strict=True))


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("name", CASES)
def test_gather(name, mode):
    numbers, sizes, _ = CASES[name]
    d = lax.GatherDimensionNumbers(*numbers)

    def f(x, starts):
        return lax.gather(x, starts, d, sizes, mode=mode, fill_value=-7.0)

    starts = starts_of(name)
    expected = np.zeros(shape_of_blocks(name))
    for place, there in elements(name, starts, mode):
        expected[there] = -7.0 if place is None else X[place]
    for found in (f(X, starts), fg.jit(f)(X, starts)):
        np.testing.assert_array_equal(found, expected)
    both, others = np.stack([X, X + 1.0]), np.stack([starts, starts_of(name, 2)])
    rows = [f(x, i) for x, i in zip(both, others, strict=True)]
    np.testing.assert_array_equal(fg.vmap(f)(both, others), rows)
    np.testing.assert_array_equal(fg.vmap(f, (None, 0))(X, others)[0], rows[0])
    check_grads(lambda x: f(x, starts), [X], order=2)


@pytest.mark.parametrize("mode", ["clip", "drop"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("write", WRITES)
def test_scatter(write, name, mode):
    numbers, _, _ = CASES[name]
    d = lax.ScatterDimensionNumbers(*numbers)
    function, combine = WRITES[write]

    def f(x, updates, starts):
        return function(x, starts, updates, d, mode=mode)

    starts = starts_of(name)
    updates = np.random.default_rng(3).normal(size=shape_of_blocks(name))
    expected = X.copy()
    for place, there in elements(name, starts, mode):
        if place is not None:
            expected[place] = combine(expected[place], updates[there])
    for found in (f(X, updates, starts), fg.jit(f)(X, updates, starts)):
        np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)
    others = np.stack([starts, starts_of(name, 2)])
    given = np.stack([updates, updates * 2.0])
    rows = [f(X, u, i) for u, i in zip(given, others, strict=True)]
    found = fg.vmap(f, (None, 0, 0))(X, given, others)
    np.testing.assert_allclose(found, rows, rtol=1e-14, atol=1e-15)
    check_grads(lambda x, u: f(x, u, starts), [X, updates], order=2)
    slope = fg.grad(lambda x: np.sum(f(x, updates, starts) ** 2))
    np.testing.assert_allclose(fg.jit(slope)(X), slope(X), rtol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_scatter_apply_applies_once_for_each_time_that_an_element_is_named(name):
    numbers, _, _ = CASES[name]
    d = lax.ScatterDimensionNumbers(*numbers)
    starts = starts_of(name)

    def f(x, starts):
        return lax.scatter_apply(x, starts, np.sin, d, update_shape=shape_of_blocks(name))

    expected = X.copy()
    for place, _ in elements(name, starts, "drop"):
        if place is not None:
            expected[place] = np.sin(expected[place])
    np.testing.assert_array_equal(f(X, starts), expected)
    np.testing.assert_allclose(fg.jit(f)(X, starts), expected, rtol=1e-15)
    check_grads(lambda x: f(x, starts), [X], order=2)
    slope = fg.grad(lambda x, i: np.sum(f(x, i)))
    np.testing.assert_allclose(fg.jit(slope)(X, starts), slope(X, starts), rtol=1e-14)


def test_fill_values_by_dtype_and_modes():
    d = lax.GatherDimensionNumbers((), (0,), (0,))
    for dtype, fill in ((np.int8, -128), (np.uint8, 255), (bool, True), (np.float32, np.nan)):
        x = np.zeros(2, dtype)
        found = lax.gather(x, np.array([5]), d, (1,), mode="fill")
        np.testing.assert_array_equal(found, np.array(fill, dtype), strict=True)
        assert lax.gather(x, np.array([5]), d, (1,)) == 0
    assert lax.GatherScatterMode.from_any("clip") is lax.GatherScatterMode.CLIP
    assert lax.GatherScatterMode.from_any(None) is lax.GatherScatterMode.FILL_OR_DROP
    with pytest.raises(ArgumentError, match=r"'wrap'.* is not"):
        lax.gather(np.zeros(2), np.array([0]), d, (1,), mode="wrap")


@pytest.mark.parametrize(
    ("numbers", "sizes", "indices", "match"),
    [
        (((0,), (), (0,)), (9, 3, 5), [[0]], "Blocks of shape"),
        (((0,), (), (0,)), (2, 3, 5), [[0]], "offset_dims"),
        (((1,), (0, 1), (0,)), (1, 2, 5), [[0]], "has to be 1 along"),
        (((1, 2, 3), (), (0, 7)), (1, 3, 5), [[0, 0]], "start_index_map=.* axes of 0 ... 2"),
        (((1, 2, 3), (), (0, 1)), (1, 3, 5), [[0]], "1 entries for each start, but 2 axes"),
        (((1, 2), (0,), (0,)), (1, 3, 5), [[0.5]], "have to be integers"),
    ],
)
def test_arguments_that_do_not_fit(numbers, sizes, indices, match):
    with pytest.raises((ArgumentError, ShapeError), match=match):
        lax.gather(X, np.array(indices), lax.GatherDimensionNumbers(*numbers), sizes)


def test_updates_that_do_not_fit():
    d = lax.ScatterDimensionNumbers((1, 2), (0,), (0,))
    with pytest.raises(ShapeError, match=r"Updates of shape \(3, 3, 5\)"):
        lax.scatter_add(X, np.array([[0], [1]]), np.ones((3, 3, 5)), d)
    with pytest.raises(ArgumentError, match="names 2 axes, but blocks have 3"):
        lax.scatter_add(X, np.array([[0]]), np.ones((1, 3, 5)), lax.ScatterDimensionNumbers(
            (1, 2), (), (0,)))  # fmt: skip
