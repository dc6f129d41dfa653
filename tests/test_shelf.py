"""Stacks that a loop's program keeps for its next call: nobody's results ever change."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from concurrent_calls import same_in_threads

import fungrad as fg
from fungrad import lax
from fungrad.compiler.lowering.loops import scan_codegen
from fungrad.runtime import stack_reuse
from fungrad.runtime.stack_reuse import Shelf

SIZE, LENGTH = 9, 5
XS = np.random.default_rng(0).normal(size=(LENGTH, SIZE, SIZE))


def steps(c, x):
    new = np.tanh(c @ x + x.T)
    return new, (new, c * x, np.linalg.inv(new + 9.0 * np.eye(SIZE)).T, c)


def scanned(start):
    return lax.scan(steps, start, XS)


def expected(start):
    ys = []
    for x in XS:
        start, y = steps(start, x)
        ys.append(y)
    return [start, *(np.stack(column) for column in zip(*ys, strict=True))]


def flat(result):
    return [result[0], *result[1]]


def starts(count):
    return [np.random.default_rng(i).normal(size=(SIZE, SIZE)) for i in range(count)]


def equal(found, wanted):
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stage", [fg.jit, lambda f: f], ids=("staged", "eager"))
def test_results_that_somebody_holds_do_not_change(stage):
    f, given = stage(scanned), starts(8)
    found = [flat(f(start)) for start in given]
    views = [[x[..., :2] for x in flat(f(start))] for start in given]
    for start, whole, parts in zip(given, found, views, strict=True):
        equal(whole, expected(start))
        equal(parts, [x[..., :2] for x in expected(start)])


def test_a_gradient_reads_what_is_kept_and_keeps_its_own():
    def loss(start):
        return sum(np.sum(np.sin(y)) for y in flat(scanned(start)))

    def plain(start):
        return sum(np.sum(np.sin(y)) for y in expected(start))

    g = fg.jit(fg.value_and_grad(loss))
    found = [g(start) for start in starts(4)]
    for start, result in zip(starts(4), found, strict=True):
        equal(result, fg.value_and_grad(plain)(start))


@pytest.mark.skipif(
    not stack_reuse.COUNTED, reason="this Python does not count who holds an object"
)
def test_what_nobody_holds_is_used_again(monkeypatch):
    taken = []

    class Watched(Shelf):
        def take(self):
            taken.append(super().take())
            return taken[-1]

    monkeypatch.setattr(scan_codegen, "Shelf", Watched)
    f = fg.jit(scanned)
    results = [flat(f(start)) for start in starts(4)]
    assert len(taken) == 4
    assert all(held is taken[0] for held in taken)
    for start, found in zip(starts(4), results, strict=True):  # they are copies
        equal(found, expected(start))


def test_what_is_done_to_a_result_is_not_done_to_what_is_kept():
    f, (start, other) = fg.jit(scanned), starts(2)
    for _ in range(3):
        for x in flat(f(other)):
            x *= 0.0
            x.shape = (x.size,)
            x.flags.writeable = False
        del x
        equal(flat(f(start)), expected(start))


def test_threads_have_stacks_of_their_own():
    f = fg.jit(lambda start: np.concatenate([y.ravel() for y in flat(scanned(start))]))
    same_in_threads(f, starts(4), 50)


def test_rows_that_a_callback_holds_do_not_change():
    held = []

    def told(c, x):
        new = np.tanh(c @ x)
        fg.debug.callback(held.append, new)
        return new, new

    f = fg.jit(lambda start: lax.scan(told, start, XS)[1])
    found = np.concatenate([f(start) for start in starts(3)])
    np.testing.assert_array_equal(np.stack(held), found)


def test_an_error_in_a_step_leaves_the_next_call_alone():
    f = fg.jit(
        lambda start, xs: lax.scan(lambda c, x: (c, np.linalg.solve(c + x, c)), start, xs)[1]
    )
    start, xs = np.eye(SIZE), np.stack([np.eye(SIZE), -np.eye(SIZE), np.eye(SIZE)])
    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError):
            f(start, xs)
        np.testing.assert_allclose(f(start, abs(xs)), 0.5 * np.stack([start] * 3))


@pytest.mark.parametrize("bound", ["BYTES", "VIEWS", "COUNTED"])
def test_large_stacks_are_not_kept(monkeypatch, bound):
    monkeypatch.setattr(scan_codegen, bound, 0)
    monkeypatch.setattr(scan_codegen, "Shelf", None)
    f, given = fg.jit(scanned), starts(3)
    for start, found in zip(given, [flat(f(start)) for start in given], strict=True):
        equal(found, expected(start))


def make():
    array = np.zeros(3)
    return (array,), [array[:1], array[1:]]


@pytest.mark.skipif(
    not stack_reuse.COUNTED, reason="this Python does not count who holds an object"
)
def test_a_shelf_gives_what_nobody_holds():
    kept = Shelf(make)
    sets = [kept.take() for _ in range(stack_reuse.KEPT + 1)]
    places = [arrays[0].ctypes.data for arrays, _, _ in sets]
    assert len(set(places)) == len(places)
    part = sets[1][0][0][1:]
    for held in sets:
        kept.give(held)
    del sets, held
    found = [kept.take() for _ in places]
    taken = [arrays[0].ctypes.data for arrays, _, _ in found]
    assert taken[0] == places[0]
    assert not set(taken[1:]) & set(places[:2])  # the second is held, what is too many was dropped
    del part
    assert kept.take()[0][0].ctypes.data == places[1]


def test_clear_caches_frees_what_is_kept():
    kept = Shelf(make)
    held = kept.take()
    array = weakref.ref(held[0][0])
    kept.give(held)
    del held
    assert array() is not None
    fg.clear_caches()
    assert array() is None
