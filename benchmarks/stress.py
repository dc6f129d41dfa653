"""Stress from a cold start: threads, processes, forks, interrupts. Every value and gradient is
compared.

    python -m benchmarks.stress                   all scenarios, each in a process of its own
    python -m benchmarks.stress threads 32        one of them, in this process, of size 32
    python -m benchmarks.stress interrupts 10000

Each prints how many results were right and wrong; the exit status is 1 if any was wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent import futures
from math import sqrt
from typing import Any

import numpy as np

import fungrad as fg

X = np.linspace(-1.0, 1.0, 3_000)
LARGE = np.linspace(0.0, 1.0, 5_000)
"""An array that a trace makes read-only while it needs it."""


def _scaled(k: float) -> Callable[[Any], Any]:
    """A function of an array, another one for each number, with a known gradient."""
    return lambda x: np.sum(np.sin(np.exp(x) * k) + x)


def _right(k: float, value: Any, gradient: Any) -> bool:
    inner = np.exp(X) * k
    right = np.isclose(value, np.sum(np.sin(inner) + X), rtol=1e-12, atol=1e-9)
    return bool(right) and np.allclose(
        gradient, np.cos(inner) * inner + 1.0, rtol=1e-12, atol=1e-12
    )


def one_call(k: float) -> bool:
    """Whether a new function, compiled and not, has the right value and gradients."""
    f = _scaled(k)
    eager = fg.grad(f)(X)
    value, gradient = fg.jit(fg.value_and_grad(f))(X)
    return _right(k, value, gradient) and _right(k, fg.jit(f)(X), eager)


def _in_threads(count: int, work: Callable[[int], bool]) -> Counter[bool]:
    """The results of threads that start at once; an error is wrong."""
    found: Counter[bool] = Counter()
    gate = threading.Barrier(count)

    def run(i: int) -> None:
        gate.wait()
        try:
            found[work(i)] += 1
        except Exception as error:
            print(f"{type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
            found[False] += 1

    users = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    return found


def threads(count: int) -> Counter[bool]:
    """Threads whose first builds meet, each with functions of its own."""
    return _in_threads(count, lambda i: one_call(1.0 + i / 8))


def same(count: int) -> Counter[bool]:
    """Threads whose first call is of the same functions."""
    f = _scaled(0.5)
    compiled, slope = fg.jit(f), fg.jit(fg.grad(f))
    return _in_threads(count, lambda i: _right(0.5, compiled(X), slope(X)))


def rate(count: int) -> Counter[bool]:
    """Calls of 8 threads in `count` seconds from a cold start, and in as many after it."""
    f = _scaled(0.5)
    both = fg.jit(fg.value_and_grad(f))

    def calls(i: int) -> int:
        end, done = time.perf_counter() + count, 0
        while time.perf_counter() < end:
            if not _right(0.5, *both(X)):
                raise ArithmeticError("a wrong number")
            done += 1
        made.append(done)
        return done

    counts = []
    for _ in range(2):
        made: list[int] = []
        found = _in_threads(8, lambda i: calls(i) > 0)
        counts.append(sum(made))
    print(f"calls from a cold start {counts[0]}, afterwards {counts[1]}")
    return found


def executor(count: int) -> Counter[bool]:
    """Threads and processes of concurrent.futures."""
    numbers = [1.0 + i / 8 for i in range(count)]
    found: Counter[bool] = Counter()
    with futures.ThreadPoolExecutor(8) as pool:
        found.update(pool.map(one_call, numbers))
    with futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
        found.update(processes.map(one_call, numbers))
    return found


def processes(count: int) -> Counter[bool]:
    """Processes of each start method, with a parent that has compiled before it forks."""
    found = Counter([one_call(0.5)])
    for method in multiprocessing.get_all_start_methods():
        with multiprocessing.get_context(method).Pool(2) as pool:
            found.update(pool.map(one_call, [1.0 + i / 8 for i in range(count)]))
    return found


def by_joblib(count: int) -> Counter[bool]:
    """joblib's processes and threads."""
    import joblib

    found: Counter[bool] = Counter()
    for backend in ("threading", "loky"):
        work = [joblib.delayed(one_call)(1.0 + i / 8) for i in range(count)]
        found.update(joblib.Parallel(n_jobs=2, backend=backend)(work))
    return found


def by_dask(count: int) -> Counter[bool]:
    """Dask's threads and processes, and workers of `distributed`, one of which is killed."""
    import dask
    import distributed

    work = [dask.delayed(one_call)(1.0 + i / 8) for i in range(count)]
    found: Counter[bool] = Counter()
    for scheduler in ("threads", "processes"):
        found.update(dask.compute(*work, scheduler=scheduler))
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as made,
        distributed.Client(made) as client,
    ):
        tasks = client.map(one_call, [2.0 + i / 8 for i in range(4 * count)], pure=False)
        killed = next(iter(client.scheduler_info()["workers"].values()))["id"]
        os.kill(made.workers[killed].pid, signal.SIGKILL)
        found.update(client.gather(tasks))
    return found


def _in_child(work: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Whether a forked child finds that some work is right; a child that hangs is killed."""
    pid = os.fork()
    if not pid:
        try:
            os._exit(0 if work() else 1)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {str(error)[:200]}\n".encode())
        os._exit(2)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    print("a child hangs", file=sys.stderr)
    return False


@contextlib.contextmanager
def _busy(work: Callable[[int], Any], count: int = 4) -> Iterator[None]:
    """Threads that do some work again and again."""
    stop = threading.Event()

    def run(i: int) -> None:
        while not stop.is_set():
            work(i)

    users = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for user in users:
        user.start()
    try:
        yield
    finally:
        stop.set()
        for user in users:
            user.join()


def forks(count: int) -> Counter[bool]:
    """Forks beside traces and builds of other threads, and one inside of its own trace."""
    one_call(0.5)
    kinds = {
        "trace": lambda i: fg.grad(_traced)(np.array([1.0 + i, 2.0])),
        "build": lambda i: one_call(1.0 + random.random()),
    }
    found: Counter[bool] = Counter()
    for work in kinds.values():
        with _busy(work):
            for i in range(count):
                found[_in_child(lambda i=i: not changes() and one_call(3.0 + i))] += 1

    def inside(x: Any) -> Any:
        found[_in_child(lambda: one_call(0.25))] += 1
        return np.sum(x * x)

    found[fg.grad(inside)(X).tolist() == (2 * X).tolist()] += 1
    return found


_KEPT = {(m, n): v for m in (np, np.linalg, math) for n, v in vars(m).items() if callable(v)}
_ERRORS = np.geterr()


def changes() -> list[str]:
    """What differs outside of all transforms from what it was before the first."""
    found = [n for (m, n), v in _KEPT.items() if getattr(m, n) is not v]
    if sqrt is not _KEPT[math, "sqrt"]:
        found.append("a global name")
    if not LARGE.flags.writeable:
        found.append("a read-only array")
    if np.geterr() != _ERRORS:
        found.append("np.geterr()")
    return found


def _traced(x: Any) -> Any:
    """A function that needs what is replaced while a transform traces."""
    y = np.asarray([x[0], x[1] * sqrt(2.0) + 0 * sqrt(x[0])])
    z = np.zeros(3)
    z[0] = math.sin(x[0])
    return np.sum(y * y) + np.sum(z) + np.sum(np.exp(LARGE * x[0]) * LARGE)


def interrupts(count: int) -> Counter[bool]:
    """KeyboardInterrupts at random moments of a gradient: each time all names are NumPy's own, and
    the next gradient is right.
    """
    x, chance = np.array([1.0, 2.0]), random.Random(0)
    slope = fg.grad(_traced)
    expected = slope(x)
    begun = time.perf_counter()
    for _ in range(20):
        slope(x)
    longest = (time.perf_counter() - begun) / 20 * 1.05
    found: Counter[bool] = Counter()

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    while sum(found.values()) < count:
        try:
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, chance.random() * longest))
            try:
                slope(x)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            continue
        except KeyboardInterrupt:
            pass
        wrong = changes()
        if wrong:
            print(f"changed: {wrong[:5]}", file=sys.stderr)
        found[not wrong and np.array_equal(slope(x), expected)] += 1
    signal.signal(signal.SIGALRM, before)
    return found


def left(count: int) -> Counter[bool]:
    """Generators and tasks that were begun while a transform traced, and go on after its end."""
    found: Counter[bool] = Counter()

    def squares(x: Any) -> Iterator[Any]:
        yield np.sum(x * x)
        yield fg.grad(lambda y: np.sum(y * y))(np.ones(2))

    async def later(i: int) -> bool:
        await asyncio.sleep(0)
        return one_call(1.0 + i / 8) and not changes()

    async def main() -> None:
        tasks: list[asyncio.Task[bool]] = []
        generators: list[Iterator[Any]] = []

        def f(x: Any, i: int) -> Any:
            tasks.append(asyncio.get_running_loop().create_task(later(i)))
            generators.append(squares(x))
            return next(generators[-1])

        for i in range(count):
            found[fg.grad(lambda x, i=i: f(x, i))(np.ones(2)).tolist() == [2.0, 2.0]] += 1
        for generator in generators:
            found[next(generator).tolist() == [2.0, 2.0]] += 1
        found.update(await asyncio.gather(*tasks))

    asyncio.run(main())
    return found


def memory(count: int) -> Counter[bool]:
    """Many compiled functions, with the memory of their machine code given back in between."""
    found: Counter[bool] = Counter()
    kept = fg.jit(_scaled(0.5))
    for _ in range(3):
        made = [fg.jit(_scaled(i / count)) for i in range(count)]
        values = [f(X) for f in [kept, *made]]
        before = _mappings()
        fg.clear_caches()
        print(f"{before} mappings of memory, {_mappings()} after fg.clear_caches()")
        found.update(a == f(X) for a, f in zip(values, [kept, *made], strict=True))
    return found


def _mappings() -> int:
    with open("/proc/self/maps") as file:
        return len(file.readlines())


def steady(count: int) -> Counter[bool]:
    """Threads that call blocked functions, loops and functions that raise, for 10 seconds."""

    def blocked(x: Any) -> Any:
        y = np.tanh(x) * 1.5 + x**2
        return np.sum(np.where(y > 0.5, np.sqrt(np.abs(y)), np.exp(-y)) * np.sin(x) * np.cos(x))

    def looping(x: Any) -> Any:
        step = lambda c, _: (np.stack([c[1], np.sin(c[0]) - 0.1 * c[1]]) * 0.01 + c, None)  # noqa: E731
        return np.sum(fg.lax.scan(step, x[:2], None, length=200)[0] ** 2)

    functions = [fg.jit(fg.value_and_grad(f)) for f in (blocked, looping)]
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=100_000 + 1_000 * (i % 8)) for i in range(count)]
    fg.config.num_threads = max(2, fg.config.num_threads)
    expected = [[f(x) for f in functions] for x in inputs]
    end = time.perf_counter() + 10.0

    def raises(x: Any) -> bool:
        try:
            with np.errstate(invalid="raise"):
                functions[0](np.full_like(x, np.inf))
        except FloatingPointError:
            return True
        return False

    def work(i: int) -> bool:
        right = True
        while right and time.perf_counter() < end:
            for f, (value, slope) in zip(functions, expected[i], strict=True):
                got, gradient = f(inputs[i])
                right &= bool(got == value) and np.array_equal(gradient, slope)
            right &= raises(inputs[i])
        return right

    return _in_threads(count, work)


SCENARIOS: dict[str, tuple[Callable[[int], Counter[bool]], int]] = {
    "threads": (threads, 32),
    "same": (same, 32),
    "rate": (rate, 6),
    "executor": (executor, 16),
    "processes": (processes, 8),
    "joblib": (by_joblib, 8),
    "dask": (by_dask, 8),
    "forks": (forks, 20),
    "interrupts": (interrupts, 10_000),
    "left": (left, 50),
    "memory": (memory, 300),
    "steady": (steady, 8),
}
"""The scenarios, each with its usual size."""


def main(name: str = "", size: str = "") -> int:
    """Runs one scenario, or all; 0 if all results were right."""
    if not name:
        commands = [[sys.executable, "-m", "benchmarks.stress", one] for one in SCENARIOS]
        return max(subprocess.run(command).returncode for command in commands)
    run, usual = SCENARIOS[name]
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:  # no machine code of former processes
        os.environ.setdefault("FUNGRAD_CACHE_DIR", folder)
        os.environ.setdefault("FUNGRAD_STRICT", "1")  # what the self-check mends is wrong, too
        found = run(int(size or usual))
    seconds = time.perf_counter() - begun
    print(f"{name}: {found[True]} right, {found[False]} wrong, {seconds:.1f} s", flush=True)
    return int(found[False] > 0 or not found[True])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
