"""The thread pool: runs parts of a loop in parallel.

NumPy releases the GIL inside its loops. The pool is made when first needed, not at import; a forked
child starts without one. The number of threads is that of the usable cores, unless
`FUNGRAD_NUM_THREADS` or `set_num_threads` sets it.
"""

from __future__ import annotations

import contextvars
import math
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

from fungrad.errors import ArgumentError
from fungrad.support import forks

PAGE = 512
"""Doubles in a page: parts begin at multiples of it if steps do."""


def usable_cores() -> int:
    """The number of cores that this process may use; 1 where there are no threads."""
    if sys.platform in ("emscripten", "wasi"):
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Pool:
    """Threads that wait for work; daemons, which do not keep the process alive."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        for i in range(size):
            threading.Thread(target=self._serve, name=f"fungrad-{i}", daemon=True).start()

    def _serve(self) -> None:
        _local.shares = True
        while True:
            self._tasks.get()()

    def submit(self, task: Callable[[], None]) -> None:
        """Runs a task in one of the threads; it must not raise."""
        self._tasks.put(task)


class _State:
    """The pool of this process, and the number of threads."""

    def __init__(self) -> None:
        self.lock = forks.lock()
        self.pool: Pool | None = None
        self.count = _wished()

    def forget(self) -> None:
        """Forgets the threads: a forked child has none of them."""
        self.pool = None


def _wished() -> int:
    text = os.environ.get("FUNGRAD_NUM_THREADS", "")
    return int(text) if text.isdigit() and int(text) > 0 else usable_cores()


_state = _State()
_local = threading.local()
"""Has the attribute `shares` in threads of a pool, which do not share work: they would deadlock."""
forks.in_child(_state.forget)


listeners: list[Callable[[int], None]] = []
"""Functions that are called with each new number of threads."""


def num_threads() -> int:
    """The number of threads that share large elementwise work."""
    return _state.count


def set_num_threads(count: int) -> None:
    """Sets the number of threads that share large elementwise work; 1 is the caller's alone.

    Raises:
      ArgumentError: if the count is not a positive integer.
    """
    with _state.lock:
        _state.count = positive(count)
        _state.pool = None
    for listener in listeners:
        listener(count)


def positive(count: Any) -> int:
    """The count, checked.

    Raises:
      ArgumentError: if it is not a positive integer.
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ArgumentError(f"The number of threads has to be a positive integer, not {count!r}.")
    return count


def _pool(size: int) -> Pool:
    with _state.lock:
        if _state.pool is None or _state.pool.size < size:
            _state.pool = Pool(size)
        return _state.pool


def share(work: Callable[[int, int], Any], total: int, step: int, threads: int) -> list[Any]:
    """The results of `work(start, stop)` on consecutive parts of range(total), in order.

    There is one part per thread, but no more than steps, of about equal length; the caller's thread
    runs the last. An error in any of them is raised here, after all have ended.
    """
    threads = min(threads, -(-total // step))
    if threads <= 1 or hasattr(_local, "shares"):
        return [work(0, total)]
    unit = math.gcd(step, PAGE)
    units = -(-total // unit)
    bounds = [unit * (units * i // threads) for i in range(threads)] + [total]
    results: list[Any] = [None] * threads
    errors: list[BaseException] = []
    done: queue.SimpleQueue[None] = queue.SimpleQueue()  # ten times as fast to make as a semaphore

    def task(i: int, context: contextvars.Context) -> Callable[[], None]:
        def run() -> None:
            try:
                results[i] = context.run(work, bounds[i], bounds[i + 1])
            except BaseException as error:  # handed to the caller's thread below
                errors.append(error)
            finally:
                done.put(None)

        return run

    pool = _pool(threads - 1)
    for i in range(threads - 1):
        pool.submit(task(i, contextvars.copy_context()))
    try:
        results[-1] = work(bounds[-2], bounds[-1])
    finally:
        for _ in range(threads - 1):
            done.get()
    if errors:
        raise errors[0]
    return results
