"""batched and vmap(chunk=): equal to the whole, under transforms, from files, with progress."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import ArgumentError, BatchAxisError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((23, 3))
W = RNG.standard_normal(3)


def example(w: Any, x: Any) -> Any:
    return {"value": np.sum(np.sin(w * x)), "row": w * x}


def loss(w: Any, x: Any) -> Any:
    return np.sum((x @ w - 1.0) ** 2)


def assert_same(found: Any, want: Any) -> None:
    assert fg.trees.structure(found) == fg.trees.structure(want)
    for a, b in zip(fg.trees.leaves(found), fg.trees.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("chunk", [1, 5, 23, 100])
def test_vmap_in_chunks(chunk: int) -> None:
    want = fg.vmap(example, (None, 0))(W, X)
    assert_same(fg.vmap(example, (None, 0), chunk=chunk)(W, X), want)
    swapped = fg.vmap(example, (None, 1), {"value": 0, "row": 1}, chunk=chunk)(W, X.T)
    assert_same(swapped, {"value": want["value"], "row": want["row"].T})
    jitted = fg.jit(fg.vmap(example, (None, 0), chunk=chunk))
    assert_same(jitted(W, X), want)


@pytest.mark.parametrize("axis", [None, -1, 1])
def test_axes_of_outputs_and_inputs(axis: int | None) -> None:
    def f(x: Any) -> Any:
        return np.ones(2) if axis is None else np.stack([x, x * x])

    want = fg.vmap(f, 1, axis)(X.T.copy()[:1])
    np.testing.assert_array_equal(fg.vmap(f, 1, axis, chunk=4)(X.T.copy()[:1]), want)


def test_chunks_without_a_mapped_argument_and_without_examples() -> None:
    assert fg.vmap(lambda: 1.0, axis_size=7, chunk=3)().tolist() == [1.0] * 7
    assert fg.vmap(np.sin, chunk=3)(np.zeros((0, 2))).shape == (0, 2)
    assert fg.batched(np.sin, 3)(np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("size", [1, 4, 23, 50])
def test_sums_and_means_of_gradients(size: int) -> None:
    want = fg.grad(loss)(W, X)
    total = fg.batched(fg.grad(loss), size, (None, 0), reduce="sum")
    np.testing.assert_allclose(total(W, X), want, rtol=1e-12)
    mean = fg.batched(fg.grad(lambda w, x: loss(w, x) / len(x)), size, (None, 0), reduce="mean")
    np.testing.assert_allclose(mean(W, X), want / 23, rtol=1e-12)
    pairs = fg.batched(fg.value_and_grad(loss), size, (None, 0), reduce="sum")(W, X)
    assert_same(pairs, fg.value_and_grad(loss)(W, X))


def test_under_transforms() -> None:
    whole = fg.batched(loss, 5, (None, 0), reduce="sum")
    np.testing.assert_allclose(fg.grad(whole)(W, X), fg.grad(loss)(W, X), rtol=1e-12)
    np.testing.assert_allclose(fg.hessian(whole)(W, X), fg.hessian(loss)(W, X), rtol=1e-12)
    np.testing.assert_allclose(fg.jit(fg.grad(whole))(W, X), fg.grad(loss)(W, X), rtol=1e-12)
    rows = fg.batched(lambda x: x * 2.0, 5)
    np.testing.assert_array_equal(fg.vmap(rows)(X.reshape(1, 23, 3))[0], X * 2.0)


def test_keywords_and_trees() -> None:
    f = fg.batched(lambda p, *, y: p["a"] * p["b"] + y, 4, ({"a": 0, "b": None},))
    found = f({"a": X, "b": W}, y=X)
    np.testing.assert_array_equal(found, X * W + X)


def test_progress_is_told_after_each_chunk() -> None:
    seen: list[tuple[int, int]] = []
    fg.vmap(np.sin, chunk=10, progress=lambda *now: seen.append(now))(X)
    assert seen == [(10, 23), (20, 23), (23, 23)]
    fg.batched(np.sin, 23, progress=lambda *now: seen.append(now))(X)
    assert seen[-1] == (23, 23)


def test_a_file_larger_than_a_chunk_is_read_chunk_by_chunk(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    gradient = fg.batched(fg.jit(fg.grad(loss)), 6, (None, 0), reduce="sum")
    np.testing.assert_allclose(gradient(W, mapped), fg.grad(loss)(W, X), rtol=1e-12)


class Stored:
    """An array on a disk: a shape, and slices."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.shape = array.shape
        self.reads: list[int] = []

    def __getitem__(self, index: Any) -> np.ndarray:
        part = self.array[index]
        self.reads.append(len(part))
        return part


def test_whatever_has_a_shape_and_slices() -> None:
    stored = Stored(X)
    found = fg.vmap(fg.grad(loss), (None, 0), chunk=6)(W, stored)
    np.testing.assert_allclose(found, fg.vmap(fg.grad(loss), (None, 0))(W, X), rtol=1e-12)
    assert stored.reads == [6, 6, 6, 5]
    stored.reads.clear()
    fg.batched(np.sin, 10)(stored)
    assert stored.reads == [10, 10, 3]


def test_they_pickle() -> None:
    again = pickle.loads(pickle.dumps(fg.batched(np.sin, 5)))
    np.testing.assert_array_equal(again(X), np.sin(X))
    again = pickle.loads(pickle.dumps(fg.vmap(np.sin, chunk=5)))
    np.testing.assert_array_equal(again(X), np.sin(X))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: fg.vmap(np.sin, chunk=0), ArgumentError, "chunk=0"),
        (lambda: fg.batched(np.sin, 1.5), ArgumentError, r"size=1\.5"),
        (lambda: fg.batched(np.sin, 2, reduce="max"), ArgumentError, "reduce='max'"),
        (lambda: fg.batched(np.add, 2)(X, W), BatchAxisError, "of different sizes"),
        (lambda: fg.batched(np.add, 2, (0,))(X, X), BatchAxisError, "1 entries"),
        (lambda: fg.batched(np.sin, 2, None)(X), BatchAxisError, "no mapped argument"),
        (lambda: fg.batched(np.sin, 2)(1.0), BatchAxisError, r"has shape \(\)"),
        (lambda: fg.batched(np.sin, 2, 5)(X), BatchAxisError, r"has shape \(23, 3\)"),
    ],
)
def test_refusals(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
