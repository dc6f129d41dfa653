"""A process of its own that runs programs, and threads that run one program at the same time."""

from __future__ import annotations

import functools
import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.util import Finalize
from typing import Any

import numpy as np

import fungrad as fg

THREADS = 4


@functools.cache
def _process() -> ProcessPoolExecutor:
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    # A process of multiprocessing waits for its children before it calls what atexit knows. Queues
    # of the pool close at priority 10.
    Finalize(None, pool.shutdown, kwargs={"cancel_futures": True}, exitpriority=100)
    return pool


def _compiled(program: Any, args: list[Any]) -> Any:
    with np.errstate(all="ignore"):
        return [np.asarray(value) for value in fg.jit(program.traced)(*args)]


def in_another_process(program: Any, *args: Any) -> list[Any]:
    """The outputs of a program compiled and run in another process, which gets pickled arguments.

    Raises:
      Exception: what the program raises there.
    """
    found: list[Any] = _process().submit(_compiled, program, list(args)).result(timeout=120)
    return found


def in_threads(f: Callable[..., Any], *args: Any) -> list[Any]:
    """The outputs of a function that several threads call at once, in one list.

    Raises:
      Exception: the first one that a thread raised.
    """
    together = threading.Barrier(THREADS)
    found: list[Any] = [None] * THREADS

    def run(number: int) -> None:
        together.wait()
        try:
            with np.errstate(all="ignore"):
                found[number] = list(f(*args))
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outputs in found:
        if isinstance(outputs, Exception):
            raise outputs
    return [value for outputs in found for value in outputs]
