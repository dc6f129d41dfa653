"""Threads, processes, forks and interrupts from a cold start: the scenarios of
benchmarks/stress.py, each in a process of its own, and what they rest on.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fungrad as fg
from fungrad.support import forks
from fungrad.support.lazy import loaded, modules

ROOT = Path(__file__).parents[2]
NEEDS = {"joblib": "joblib", "dask": "distributed"}
POSIX = {"forks": "fork", "interrupts": "fork", "memory": "fork"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "size", "right"),
    [
        ("threads", 32, 32), ("same", 32, 32), ("rate", 1, 8),
        ("executor", 4, 8), ("processes", 2, 3), ("joblib", 2, 4),
        ("dask", 2, 12), ("forks", 4, 10), ("interrupts", 500, 500), ("left", 10, 30),
        ("memory", 30, 93),
    ],
)  # fmt: skip
def test_a_scenario_from_a_cold_start(scenario: str, size: int, right: int) -> None:
    if scenario in NEEDS:
        pytest.importorskip(NEEDS[scenario])
    if scenario in POSIX and not hasattr(os, POSIX[scenario]):
        pytest.skip("not on this system")
    environment = {k: v for k, v in os.environ.items() if k != "FUNGRAD_CACHE_DIR"}
    command = [sys.executable, "-m", "benchmarks.stress", scenario, str(size)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = int(done.stdout.splitlines()[-1].split()[1])
    assert found >= right, done.stdout


@contextmanager
def beside_a_trace() -> Iterator[None]:
    """A block during which another thread traces."""
    begun, stop = threading.Event(), threading.Event()

    def f(x: Any) -> Any:
        begun.set()
        stop.wait(60.0)
        return np.sum(np.asarray([x[0], x[1]]))

    other = threading.Thread(target=lambda: fg.grad(f)(np.ones(2)))
    other.start()
    begun.wait(60.0)
    try:
        yield
    finally:
        stop.set()
        other.join()


def test_other_threads_read_the_originals() -> None:
    before = {name: getattr(np, name) for name in ("asarray", "zeros", "vectorize", "array")}
    with beside_a_trace():
        assert {name: getattr(np, name) for name in before} == before
        assert type(before["vectorize"]) is type
        assert isinstance(np.vectorize(abs), np.vectorize)


def test_the_class_in_place_of_vectorize_looks_like_it() -> None:
    made = []

    def f(x: Any) -> Any:
        original = vars(np)["vectorize"]
        assert inspect.isclass(np.vectorize) and np.vectorize is not original
        assert inspect.signature(np.vectorize) == inspect.signature(original)
        assert issubclass(original, np.vectorize) and issubclass(np.vectorize, original)
        assert isinstance(original(abs), np.vectorize) and not isinstance(abs, np.vectorize)

        class Twice(np.vectorize):  # type: ignore[misc]
            def __call__(self, *args: Any) -> Any:
                return 2 * super().__call__(*args)

        twice = Twice(abs)
        assert isinstance(twice, (Twice, original)) and twice(np.array([-1.0])).tolist() == [2.0]
        made.append(np.vectorize(lambda t: t if t > 0 else 0.0 * t))
        assert isinstance(made[0], np.vectorize) and not isinstance(made[0], Twice)
        return np.sum(made[0](x) * x)

    assert fg.grad(f)(np.array([1.0, -2.0, 3.0])).tolist() == [2.0, 0.0, 6.0]
    assert isinstance(made[0], np.vectorize)


NUMBA = {
    "inside": """
def f(x):
    import numba
    return np.sum(x) * numba.njit(lambda y: math.sqrt(y) + sqrt(y) + np.ones(2).sum())(4.0)
assert fg.grad(f)(np.ones(2)).tolist() == [6.0, 6.0]
""",
    "beside": """
import threading
begun, stop = threading.Event(), threading.Event()
def f(x):
    begun.set()
    stop.wait(60.0)
    return np.sum(x) * sqrt(4.0)
other = threading.Thread(target=lambda: fg.grad(f)(np.ones(2)))
other.start()
begun.wait(60.0)
try:
    import numba
    assert numba.njit(lambda y: math.sqrt(y) + np.ones(2).sum())(4.0) == 4.0
finally:
    stop.set()
    other.join()
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("where", NUMBA)
def test_numba_is_first_imported_while_a_transform_traces(where: str) -> None:
    pytest.importorskip("numba")
    head = "import math\nfrom math import sqrt\nimport numpy as np\nimport fungrad as fg\n"
    done = subprocess.run(
        [sys.executable, "-c", head + NUMBA[where]], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def _child(work: Callable[[], bool]) -> bool:
    pid = os.fork()
    if not pid:
        os._exit(0 if work() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_waits_for_locks_and_the_child_finds_them_free() -> None:
    one, other = forks.lock(), forks.lock()
    held, state = threading.Event(), ["whole"]

    def work() -> None:
        with one:
            state[0] = "half"
            held.set()
            with other:
                threading.Event().wait(0.05)
            state[0] = "whole"

    user = threading.Thread(target=work)
    user.start()
    held.wait(60.0)
    try:
        assert _child(lambda: one.acquire(timeout=1) and other.acquire(timeout=1)
                      and state == ["whole"])  # fmt: skip
    finally:
        user.join()
        forks._locks.remove(one)
        forks._locks.remove(other)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_forked_beside_a_trace_has_the_originals_and_writeable_arrays() -> None:
    large, original = np.ones(5_000), np.asarray
    begun, stop = threading.Event(), threading.Event()

    def f(x: Any) -> Any:
        y = np.sum(x * large)
        begun.set()
        stop.wait(60.0)
        return y

    user = threading.Thread(target=lambda: fg.grad(f)(2.0))
    user.start()
    begun.wait(60.0)
    try:
        assert not large.flags.writeable
        assert _child(lambda: large.flags.writeable and type(np).__name__ == "module"
                      and np.asarray is original and fg.grad(np.sin)(0.0) == 1.0)  # fmt: skip
    finally:
        stop.set()
        user.join()
    assert large.flags.writeable


def test_an_interrupt_in_the_end_of_a_trace_is_made_good(monkeypatch: pytest.MonkeyPatch) -> None:
    from fungrad.tracing import interception

    own, calls = interception.end, []

    def cut_short(holder: Any) -> None:
        calls.append(holder)
        if len(calls) == 1:
            raise KeyboardInterrupt
        own(holder)

    def interrupted(holder: Any) -> None:
        raise KeyboardInterrupt

    original = np.asarray
    monkeypatch.setattr(interception, "end", cut_short)
    with pytest.raises(KeyboardInterrupt):
        fg.grad(np.sin)(0.0)
    assert np.asarray is original and not interception.holders
    calls[:] = []
    monkeypatch.setattr(interception, "end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fg.grad(np.sin)(0.0)
    monkeypatch.setattr(interception, "end", own)
    assert len(interception.holders) == 1 and np.asarray is original
    assert fg.grad(lambda x: np.sum(np.asarray([x, x])))(1.0) == 2.0
    assert not interception.holders and type(np).__name__ == "module"


def test_a_module_that_another_thread_imports_is_not_loaded_yet() -> None:
    class Spec:
        _initializing = True

    made = type(np)("fungrad_tests_half_imported")
    made.__spec__ = Spec()  # type: ignore[assignment]
    modules[made.__name__] = made
    try:
        assert loaded(made.__name__) is None
        Spec._initializing = False
        assert loaded(made.__name__) is made
    finally:
        del modules[made.__name__]


NAMESPACES_CHANGE = """
import collections, math, sys, threading, types
import numpy as np
import numpy.ma
import fungrad as fg

class Model:
    scale = 2.0
    def __init__(self):
        self.weights, self.f, self.counts = np.arange(3.0), np.tanh, collections.deque([1.0])
    def __call__(self, x):
        return np.sum(self.f(x * self.weights) * self.scale)

table, listed, model = {"sin": np.sin}, [np.exp], Model()

def make(k):
    def f(x):
        return np.sum(table["sin"](x) * k + listed[0](x) * math.pi) + model(x)
    return f

names = [vars(m) for m in (sys.modules["__main__"], np, np.ma, np.ma.core, np.linalg, math)]
names += [table, vars(model), sys.modules]
for space in names:
    space.update({f"_wide_{n}": None for n in range(5000)})
for n in range(5000):
    setattr(Model, f"_wide_{n}", None)
done, errors = threading.Event(), []

def change():
    n = 0
    while not done.is_set():
        n += 1
        added = f"_added_{n}"
        for space in names:
            space[added] = types.ModuleType(added)
        setattr(Model, added, n)
        listed.append(n), model.counts.append(n)
        for space in names:
            del space[added]
        delattr(Model, added)
        listed.pop(), model.counts.pop()

def trace(k):
    try:
        x = np.linspace(0.1, 1.0, 3)
        for n in range(4):
            f = make(k + n)
            want = (k + n) * np.cos(x) + math.pi * np.exp(x)
            want += 2.0 * model.weights / np.cosh(x * model.weights) ** 2
            for derivative in (fg.grad(f), fg.jit(fg.grad(f)), fg.jit(fg.jacfwd(f))):
                assert np.allclose(derivative(x), want), (k, n)
    except BaseException as error:
        errors.append(error)

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=trace, args=(10.0 * k,)) for k in range(3)]
changing = threading.Thread(target=change)
for thread in (changing, *threads):
    thread.start()
for thread in threads:
    thread.join()
done.set()
changing.join()
if errors:
    raise errors[0]
"""


@pytest.mark.slow
def test_namespaces_change_while_others_trace() -> None:
    environment = {**os.environ, "FUNGRAD_NATIVE": "0", "FUNGRAD_TRACEBACK": "full"}
    command = [sys.executable, "-c", NAMESPACES_CHANGE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
