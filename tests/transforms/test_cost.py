"""The cost of transforms in time and memory; threads, tasks, and the ownership of results."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest

import fungrad as fg
from fungrad.tracing.trace import EVAL
from fungrad.transforms.engine import collected
from fungrad.transforms.engine.reverse import VjpTrace


def d(g):
    """The derivative by forward mode."""
    return lambda x: fg.jvp(g, (x,), (1.0,))[1]


def close(found, expected, rtol=1e-12):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


# --- cost: time and memory ------------------------------------------------------------


X = np.array([0.3, -1.2, 2.0])


def f(x):
    return np.sum(np.tanh(x) * np.cos(x)) + np.prod(x) * np.exp(-x[0] * x[2])


def loop(count):
    def g(x):
        for _ in range(count):
            x = x * 1.0000001 + 1e-9
        return x

    return g


@pytest.mark.slow
def test_a_straight_loop_of_100_000_operations_differentiates():
    assert sys.getrecursionlimit() < 50_000
    count = 50_000  # of two operations each
    np.testing.assert_allclose(fg.grad(loop(count))(1.0), 1.0000001**count, rtol=1e-9)
    count = 5_000
    value, tangent = fg.jvp(loop(count), (1.0,), (1.0,))
    np.testing.assert_allclose(tangent, 1.0000001**count, rtol=1e-9)
    graph = fg.make_jaxpr(loop(count))(1.0)
    assert len(graph.equations) == 2 * count
    np.testing.assert_allclose(fg.evaluate(graph, 1.0)[0], value, rtol=0)
    assert str(graph).count("\n") == 2 * count + 1


def test_the_tape_holds_one_record_for_each_equation():
    for count in (10, 100, 1000):
        trace = VjpTrace(EVAL, lambda: "the test")
        trace.run(loop(count), trace.tracer(1.0))
        assert len(list(trace.tape.records())) == 2 * count


@pytest.mark.slow
def test_the_garbage_collector_has_nothing_to_do_with_the_tape():
    def objects(count):
        trace = VjpTrace(EVAL, lambda: "the test")
        trace.run(loop(count), trace.tracer(np.ones(3)))
        gc.collect()
        return len(gc.get_objects())

    objects(10)
    few = objects(10)
    assert objects(5000) < few + 100


@pytest.mark.parametrize("rows", [1, 3])
def test_cotangents_of_reads_are_added_up_in_one_buffer(rows, monkeypatch):
    buffers = []

    class Counted(collected.Collected):
        def __init__(self, *args, **kwargs):
            buffers.append(args[0])
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(collected, "Collected", Counted)

    def read(x):
        parts = [np.sum(x[i : i + rows] if rows > 1 else x[i]) ** 2 for i in range(len(x))]
        return sum(parts)

    x = np.linspace(-1.0, 1.0, 200)
    found = fg.grad(read)(x)
    assert len(buffers) == 1
    monkeypatch.undo()
    np.testing.assert_allclose(found, fg.jit(fg.grad(read))(x), rtol=1e-12, atol=1e-14)


def test_the_backward_pass_is_linear_in_the_equations():
    def equations(count):
        return len(fg.make_jaxpr(fg.grad(loop(count)))(1.0).equations)

    assert equations(200) - equations(100) == equations(300) - equations(200)


def calls(run):
    """How many functions, of Python and of C, are called meanwhile."""
    count = 0

    def counted(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("transform", [fg.grad, fg.make_jaxpr, d])
def test_work_grows_linearly(transform):
    small, middle, large = (calls(lambda n=n: transform(loop(n))(1.0)) for n in (500, 1000, 2000))
    assert large - middle <= 2.1 * (middle - small)
    assert large < 4.2 * small


ENTERED = """
import os, sys
import numpy as np
import fungrad as fg

def f(x):
    return np.sum(np.sin(x) * x)

def note(frame, event, arg):
    if event == "call" and f"{os.sep}fungrad{os.sep}" in frame.f_code.co_filename:
        entered.append(frame.f_code.co_filename)

entered, x = [], np.arange(3.0)
fg.grad(f)(x)
new_name = None  # as of the next cell in a notebook
sys.setprofile(note)
fg.grad(f)(x)
sys.setprofile(None)
print(len(entered), len(set(entered)))
"""


def test_an_eager_gradient_enters_little_that_its_function_does_not_use():
    done = subprocess.run([sys.executable, "-c", ENTERED], capture_output=True, check=True)
    calls, files = map(int, done.stdout.split())
    assert 0 < calls <= 90
    assert files <= 15


def test_a_value_used_in_many_places_costs_one_visit():
    def g(x):
        y = x
        for _ in range(60):
            y = y + y  # 2^60 paths
        return y

    assert fg.grad(g)(1.0) == 2.0**60
    assert len(fg.make_jaxpr(fg.grad(g))(1.0).equations) < 60 * 5


@pytest.mark.slow
def test_memory_of_repeated_gradients_does_not_grow():
    big = np.linspace(0.0, 1.0, 10_000)

    def g(x):
        return np.sum(np.sin(x * big) * np.exp(-x))

    def run(count):
        for _ in range(count):
            fg.grad(g)(1.0)
            fg.vmap(fg.grad(g))(np.ones(2))
            fg.make_jaxpr(fg.grad(g))(1.0)
            fg.jvp(g, (1.0,), (1.0,))

    run(3)
    gc.collect()
    gc.disable()  # nothing may wait for the collector of cycles either
    tracemalloc.start()
    try:
        run(2)
        before = tracemalloc.get_traced_memory()[0]
        run(40)
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert after - before < big.nbytes / 2


def test_a_discarded_pullback_frees_what_it_held():
    big = np.ones(200_000)
    tracemalloc.start()
    try:
        out, pullback = fg.vjp(lambda x: np.sum(np.sin(x) * np.cos(x)), big)
        holding = tracemalloc.get_traced_memory()[0]
        del out, pullback
        freed = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert holding > big.nbytes
    assert freed < big.nbytes / 10


# --- threads and tasks ----------------------------------------------------------------


def test_threads_differentiate_independently():
    barrier = threading.Barrier(4)
    found = {}

    def work(index):
        barrier.wait()
        found[index] = [fg.grad(lambda x: f(x) * (index + 1.0))(X) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    base = fg.grad(f)(X)
    for index in range(4):
        for gradient in found[index]:
            close(gradient, base * (index + 1.0))


def test_asyncio_tasks_differentiate_independently():
    async def slope(scale):
        pushed = []

        def g(x):
            pushed.append(scale)
            return np.sin(x) * scale

        for _ in range(5):
            result = fg.grad(g)(0.5)
            await asyncio.sleep(0)
        return result

    async def main():
        return await asyncio.gather(*[slope(float(i)) for i in range(8)])

    close(asyncio.run(main()), np.cos(0.5) * np.arange(8.0))


# --- results are the user's own -------------------------------------------------------


def test_results_are_plain_writeable_arrays_that_alias_nothing():
    x, y = np.arange(3.0), np.arange(3.0)
    gx, gy = fg.grad(lambda x, y: np.sum(x + y), argnums=(0, 1))(x, y)
    for gradient in (gx, gy):
        assert type(gradient) is np.ndarray and gradient.flags.writeable
    gx += 100.0
    np.testing.assert_array_equal(gy, np.ones(3))
    seed = np.ones(3)
    out, pullback = fg.vjp(lambda x: x + 0.0, x)
    pulled = pullback(seed)[0]
    pulled += 1.0
    np.testing.assert_array_equal(seed, np.ones(3))
    out += 1.0
    np.testing.assert_array_equal(x, np.arange(3.0))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_gradients_have_the_dtype_of_the_argument(dtype):
    x = np.ones(3, dtype)
    gradient = fg.grad(lambda v: np.sum(np.real(v * v * 2.0)))(x)
    assert gradient.dtype == dtype
    np.testing.assert_array_equal(gradient, 4 * np.ones(3))


def test_eager_and_staged_dtypes_are_one():
    for x in (np.float32(2.0), np.ones(2, np.float32), 2.0, np.ones(2), np.ones(2, np.int32)):
        for g in (
            lambda x: np.sin(x) * 2.0, lambda x: x + 1, lambda x: x * np.float64(2.0),
            lambda x: x / 2,
            lambda x: (x * 2.0) * 1j, lambda x: 2.0 ** (x * 1.0), lambda x: np.where(x > 0, x, 0),
        ):  # fmt: skip
            eager = np.asarray(g(x)).dtype
            assert fg.eval_shape(g, x).dtype == eager
            assert np.asarray(fg.evaluate(fg.make_jaxpr(g)(x), x)[0]).dtype == eager
