"""The number of threads of the BLAS: one in regions, else the user's."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
import threading

import numpy as np
import pytest
from fake_blas import FakeBlas

import fungrad as fg
from fungrad.errors import ArgumentError, MissingExtraError
from fungrad.runtime import blas_threads, openblas
from fungrad.support import forks

RNG = np.random.default_rng(0)


def loss(w, x):
    return np.sum(np.tanh(x @ w) @ w.T)


@pytest.fixture
def fake(monkeypatch):
    library = FakeBlas()
    scope = blas_threads.OneThread(library)
    monkeypatch.setattr(blas_threads, "one_blas_thread", lambda: scope)
    monkeypatch.setattr(blas_threads._State, "single", False)
    return library


@pytest.fixture
def real():
    if blas_threads.one_blas_thread() is None:
        pytest.skip("NumPy's BLAS is no OpenBLAS with threads of its own")
    library = blas_threads.one_blas_thread().library
    before = library.get()
    library.set(3)
    yield library
    library.set(before)


def test_one_inside_and_what_it_was_outside():
    library = FakeBlas(4)
    scope = blas_threads.OneThread(library)
    with scope:
        assert library.count == 1
        with scope:
            assert library.count == 1
        assert library.count == 1  # whoever came first is still inside
    assert library.count == 4 and library.told == [1, 4]


def test_set_back_after_an_error():
    library = FakeBlas(4)
    with pytest.raises(ZeroDivisionError), blas_threads.OneThread(library):
        _ = 1 / 0
    assert library.count == 4


def test_one_thread_is_left_as_it_is():
    library = FakeBlas(1)
    with blas_threads.OneThread(library):
        pass
    assert library.told == []


def test_what_others_set_meanwhile_stays():
    library = FakeBlas(4)
    scope = blas_threads.OneThread(library)
    with scope:
        library.set(2)
    assert library.count == 2
    with scope:
        assert library.count == 1
    assert library.count == 2


def test_the_last_of_several_threads_sets_it_back():
    library = FakeBlas(4)
    scope = blas_threads.OneThread(library)
    inside, first_left = threading.Barrier(2), threading.Event()

    def stay():
        with scope:
            inside.wait()
            first_left.wait()
            counts.append(library.count)

    counts = []
    other = threading.Thread(target=stay)
    other.start()
    with scope:
        inside.wait()
    counts.append(library.count)
    first_left.set()
    other.join()
    assert counts == [1, 1] and library.count == 4 and library.told == [1, 4]


def test_many_threads_in_and_out():
    library = FakeBlas(4)
    scope = blas_threads.OneThread(library)
    wrong = []

    def work():
        for _ in range(300):
            with scope:
                wrong.extend([library.count] * (library.count != 1))

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong and library.count == 4 and scope.inside == 0


def test_left_for_a_while_it_is_as_users_set_it():
    library = FakeBlas(4)
    scope = blas_threads.OneThread(library)
    with scope:
        scope.leave()
        assert library.count == 4
        library.set(3)
        scope.resume()
        assert library.count == 1
    assert library.count == 3
    scope.leave()
    scope.after_fork()  # in a child process
    with scope:
        assert library.count == 1
    assert library.count == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_takes_the_lock_of_the_scope_with_the_others(real):
    """It took that lock first, and then waited for one whose thread waited for the scope."""
    scope, lock = blas_threads.one_blas_thread(), forks.lock()
    held, entered = threading.Event(), []

    def work():
        with lock:
            held.set()
            threading.Event().wait(0.2)  # the fork has begun
            entered.append(scope.lock.acquire(timeout=20.0))
            scope.lock.release()

    user = threading.Thread(target=work)
    user.start()
    held.wait(60.0)
    try:
        with scope:
            pid = os.fork()
            if not pid:
                os._exit(0 if real.get() == 3 and not scope.inside else 1)
            assert real.get() == 1
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        user.join()
        forks._locks.remove(lock)
    assert entered == [True] and real.get() == 3


def test_numbers_are_those_of_a_blas_that_has_one_thread(fake, monkeypatch):
    w, x = RNG.normal(size=(8, 8)), RNG.normal(size=(4000, 8))
    told = fg.jit(fg.value_and_grad(loss))(w, x)
    monkeypatch.setattr(blas_threads, "one_blas_thread", lambda: None)
    monkeypatch.setattr(blas_threads._State, "single", True)
    single = fg.jit(fg.value_and_grad(lambda w, x: loss(w, x)))(w, x)
    for a, b in zip(told, single, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_library_that_numpy_calls(real):
    controls = pytest.importorskip("threadpoolctl")
    (numpys,) = [
        found for found in controls.threadpool_info()
        if found["internal_api"] == "openblas" and "scipy.libs" not in found["filepath"]
    ]  # fmt: skip
    assert numpys["num_threads"] == real.get() == 3
    with blas_threads.one_blas_thread():
        assert real.get() == 1
        other = []
        thread = threading.Thread(target=lambda: other.append(real.get()))
        thread.start()
        thread.join()
        assert other == [1]  # the number is one of the process
    assert real.get() == 3


def test_real_products_from_two_threads_at_once(real, monkeypatch):
    args = [(RNG.normal(size=(8, 8)), RNG.normal(size=(4000, 8))) for _ in range(2)]
    functions = [fg.jit(fg.value_and_grad(loss)), fg.jit(fg.grad(loss))]
    expected = [[fg.tree_leaves(f(*a)) for f in functions] for a in args]
    wrong = []

    def work(i):
        for _ in range(40):
            for f, want in zip(functions, expected[i], strict=True):
                got = fg.tree_leaves(f(*args[i]))
                same = all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))
                wrong.extend([i] * (not same))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong and real.get() == 3


def test_settings_see_what_users_set(real):
    pytest.importorskip("threadpoolctl")
    with blas_threads.one_blas_thread():  # as another thread would be, in a region
        assert fg.config.blas_threads == 3
        fg.config.blas_threads = 2
        assert real.get() == 1
    assert real.get() == 2


def _in_a_child(to):
    scope = blas_threads.one_blas_thread()
    counts = [scope.library.get()]
    with scope:
        counts.append(scope.library.get())
    to.put([*counts, scope.library.get()])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_that_is_forked_meanwhile_has_the_users_number(real):
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    with blas_threads.one_blas_thread():
        child = context.Process(target=_in_a_child, args=(results,))
        child.start()
        assert results.get() == [3, 1, 3]
        child.join()
        assert real.get() == 1
    assert real.get() == 3


def test_without_a_library_that_can_be_told(monkeypatch):
    """Products are not in clusters."""
    monkeypatch.setattr(blas_threads, "openblas", openblas.openblas.__wrapped__)
    monkeypatch.setattr(openblas, "_paths", lambda: ["no such file", sys.executable])
    assert blas_threads._openblas() is None
    monkeypatch.setitem(sys.modules, "ctypes", None)
    assert blas_threads._openblas() is None
    monkeypatch.setattr(blas_threads, "one_blas_thread", lambda: None)
    monkeypatch.setattr(blas_threads._State, "single", False)
    assert not blas_threads.one_thread(np.dtype(np.float64))


def test_the_library_beside_numpy_is_looked_at_on_windows(monkeypatch, tmp_path):
    monkeypatch.setattr(np, "__file__", str(tmp_path / "numpy" / "__init__.py"))
    module = sys.modules["numpy._core._multiarray_umath"].__file__
    assert openblas._paths() == [module]
    (tmp_path / "numpy.libs").mkdir()
    for name in ("msvcp140.dll", "libscipy_openblas64_-b.dll", "libopenblas-a.dll"):
        (tmp_path / "numpy.libs" / name).touch()
    libs = [
        str(tmp_path / "numpy.libs" / n)
        for n in ("libopenblas-a.dll", "libscipy_openblas64_-b.dll")
    ]
    assert openblas._paths() == [module, *libs]


@pytest.mark.parametrize(("parallel", "told"), [(0, False), (1, True), (2, False)])
def test_only_threads_of_its_own_can_be_told(parallel, told, monkeypatch):
    """Neither a BLAS without threads nor one on those of OpenMP is."""

    class Dll:
        openblas_get_num_threads64_ = openblas_set_num_threads64_ = openblas_get_config64_ = len

        def __init__(self, path):
            self.openblas_get_parallel64_ = lambda: parallel

    monkeypatch.setattr(blas_threads, "openblas", openblas.openblas.__wrapped__)
    monkeypatch.setattr(importlib.import_module("ctypes"), "PyDLL", Dll)
    assert (blas_threads._openblas() is not None) is told


def test_setting(monkeypatch):
    before = fg.config.blas_threads
    fg.config.blas_threads = 1
    assert fg.config.blas_threads == 1
    if before is not None:
        fg.config.blas_threads = before
    with pytest.raises(ArgumentError, match="positive integer"):
        fg.config.blas_threads = 0
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    with pytest.raises(MissingExtraError, match=r"fungrad\[blas\]"):
        fg.config.blas_threads = 1


def test_whether_the_environment_gives_one_thread(monkeypatch):
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert not blas_threads._wished_single()
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "1")
    assert blas_threads._wished_single()
    monkeypatch.setitem(os.environ, "OPENBLAS_NUM_THREADS", "4")
    assert not blas_threads._wished_single()
