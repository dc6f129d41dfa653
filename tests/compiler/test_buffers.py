"""Buffers of blocks: which is free when, and which share memory."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import fungrad as fg
from fungrad.runtime import buffer_pool

RNG = np.random.default_rng(0)


def kinds(x, y):
    """Values of many Types: masks, counts, rows of several lengths, columns."""
    z = x * y
    top = np.max(z, axis=1, keepdims=True)
    shifted = np.exp(z - top)
    share = shifted / np.sum(shifted, axis=1, keepdims=True)
    count = np.sum(share > 0.1, axis=1)
    single = share.astype(np.float32) * np.float32(0.5)
    pair = share[:, :, None] * np.where(share > 0.2, y, x)[:, None, :4]
    cost = np.sum(pair * pair, axis=(1, 2)) + np.sum(single, axis=1) * count
    return cost, np.sum(np.log1p(cost)), np.sum(share, axis=0)


@pytest.mark.parametrize("shape", [(9_001, 5), (40_003, 7), (501, 90)])
@pytest.mark.parametrize(("dtype", "threads"), [(np.float32, 1), (np.float64, 2)])
def test_values_of_many_kinds(dtype, threads, shape):
    x, y = (RNG.normal(size=s).astype(dtype) for s in (shape, shape[1:]))
    slopes = fg.grad(lambda x, y: kinds(x, y)[1] + np.sum(kinds(x, y)[0]), (0, 1))
    before, fg.config.num_threads = fg.config.num_threads, threads
    try:
        for f in (kinds, slopes):
            for got, want in zip(fg.jit(f)(x, y), f(x, y), strict=True):
                assert got.dtype == want.dtype
                within = 100 * np.finfo(dtype).eps
                np.testing.assert_allclose(
                    got, want, rtol=within, atol=within * np.max(np.abs(want))
                )
    finally:
        fg.config.num_threads = before


def test_an_array_returns_to_the_pool_when_its_views_are_dead():
    buffer_pool.clear()
    x = buffer_pool.empty((300, 200), np.dtype(float))
    part = x[100:].T
    assert type(x) is np.ndarray and x.flags.c_contiguous and x.flags.writeable
    del x
    assert buffer_pool.held() == 0
    address = part.ctypes.data
    del part
    assert buffer_pool.held() == 300 * 200 * 8
    again = buffer_pool.empty((300, 200), np.dtype(float))
    assert again[100:].ctypes.data == address and buffer_pool.held() == 0
    small, huge = [buffer_pool.empty((n,), np.dtype(np.uint8)) for n in (9, buffer_pool.LIMIT + 1)]
    assert small.flags.owndata and huge.flags.owndata


def test_old_memory_leaves_a_full_pool():
    buffer_pool.clear()
    arenas = [buffer_pool.take(buffer_pool.LIMIT // 4) for _ in range(5)]
    for arena in arenas:
        buffer_pool.give(arena)
    assert buffer_pool.held() == buffer_pool.LIMIT
    assert all(buffer_pool.take(1) is not arenas[0] for _ in range(4))
    buffer_pool.give(buffer_pool.Arena(buffer_pool.LIMIT + 1))
    assert buffer_pool.held() == 0


def test_destructors_may_give_memory_back_while_a_thread_takes_some():
    before = gc.get_threshold()
    try:
        for threshold in range(1, 40):  # the collection comes at another step of `take` each time
            buffer_pool.clear()
            gc.collect()
            gc.disable()
            for arena in [buffer_pool.take(buffer_pool.LIMIT // n) for n in (8, 4, 4, 4)]:
                buffer_pool.give(arena)
            cycle = [buffer_pool.empty((buffer_pool.LIMIT // 2,), np.dtype(np.uint8))]
            cycle.append(cycle)
            del cycle
            gc.set_threshold(threshold)
            gc.enable()
            assert buffer_pool.take(1).size >= 1
            gc.set_threshold(*before)
            assert buffer_pool.held() <= buffer_pool.LIMIT
    finally:
        gc.enable()
        gc.set_threshold(*before)
        buffer_pool.clear()


def test_results_do_not_stay_in_the_pool():
    def f(x, w):
        y = np.exp(x - np.max(x))
        z = y / np.sum(y)
        return z, np.sort(z * 2.0)[::-1], z.T @ w, z[3:]

    x, w = np.linspace(0.0, 1.0, 200_000).reshape(1000, 200), np.ones(1000)
    run = fg.jit(f)
    found = run(x, w)
    kept = [y.copy() for y in found]
    run(x + 3.0 * x * x, w)
    for y, before, expected in zip(found, kept, f(x, w), strict=True):
        np.testing.assert_array_equal(y, before)
        np.testing.assert_allclose(y, expected, rtol=1e-12)
    assert found[0].base is None


def test_a_thread_takes_the_memory_that_it_used_last():
    buffer_pool.clear()
    own, taken = buffer_pool.take(1000), list[buffer_pool.Arena]()

    def other():
        taken.append(buffer_pool.take(500))
        buffer_pool.give(taken[-1])

    for _ in range(2):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        buffer_pool.give(own)
        assert buffer_pool.take(1000) is own and own not in taken
    assert buffer_pool.take(500) in taken  # none of its own is left
    assert buffer_pool.held() == 0
