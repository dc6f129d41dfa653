"""The number of threads of NumPy's BLAS, and `one_blas_thread()`, the scope in which it uses one.

Threads of a cluster and threads of the BLAS would wait for each other, so clusters run in
`one_blas_thread()`. OpenBLAS with its own threads has one number for the whole process
(`openblas_set_num_threads_local` is local with OpenMP only). Products in other threads of the user
use one thread meanwhile; running ones keep theirs. Other BLAS libraries are not changed.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from fungrad.errors import MissingExtraError
from fungrad.runtime.openblas import openblas
from fungrad.runtime.thread_pool import num_threads, positive, usable_cores
from fungrad.support import forks
from fungrad.support.lazy import Record, imported

OWN_THREADS = 1
"""The result of OpenBLAS's get_parallel if it has its own threads, not none or OpenMP's."""


class Library(Record):
    """The functions that get and set the number of threads."""

    get: Callable[[], int]
    set: Callable[[int], Any]


class OneThread:
    """A scope in which products use one thread each.

    Several threads may be in it at once, also nested: the first to enter sets the number, the last
    to leave restores it, unless other code has changed it meanwhile.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.lock = forks.lock()
        self.inside = 0
        self.before = 1

    def __enter__(self) -> None:
        with self.lock:
            self.inside += 1
            if self.inside == 1:
                self._take_one()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self.lock:
            self.inside = max(self.inside - 1, 0)  # a forked child may leave without entering
            if not self.inside:
                self._give_back()

    def _take_one(self) -> None:
        self.before = self.library.get()
        if self.before > 1:
            self.library.set(1)

    def _give_back(self) -> None:
        if self.before > 1 and self.library.get() == 1:
            self.library.set(self.before)

    def leave(self) -> None:
        """Restores the number, and blocks the scope until `resume`."""
        self.lock.acquire()
        if self.inside:
            self._give_back()

    def resume(self) -> None:
        """Ends what `leave` began."""
        if self.inside:
            self._take_one()
        self.lock.release()

    def after_fork(self) -> None:
        """Resets the scope in a forked child, after `leave`: no thread is in it."""
        self.inside = 0
        self.lock.release()


@functools.cache
def one_blas_thread() -> OneThread | None:
    """The scope in which NumPy's BLAS uses one thread; None if the BLAS cannot be controlled."""
    library = _openblas()
    if library is None:
        return None
    control = OneThread(library)
    forks.around(control.leave, control.resume, control.after_fork)
    return control


def _openblas() -> Library | None:
    """The OpenBLAS that NumPy calls, if it has its own threads."""
    library = openblas()
    if library is None:
        return None
    calls = ("get_num_threads", "set_num_threads", "get_parallel")
    get, change, parallel = map(library.own, calls)
    if None in (get, change, parallel) or parallel() != OWN_THREADS:
        return None
    return Library(get, change)


class _State:
    """Whether the BLAS is known to use one thread, without calling it."""

    single = usable_cores() == 1


def _wished_single() -> bool:
    """Whether the environment gives the BLAS one thread."""
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
    wished = [os.environ[name] for name in names if os.environ.get(name)]
    return bool(wished) and all(text == "1" for text in wished)


_State.single |= _wished_single()


def single_blas() -> bool:
    """Whether every product is known to use one thread, so that several may run in parallel."""
    return _State.single


def one_thread(dtype: Any) -> bool:
    """Whether the BLAS computes products of a dtype, in one thread each while others share them."""
    controlled = num_threads() > 1 and one_blas_thread() is not None
    return dtype.char in "fdFD" and (single_blas() or controlled)


@contextlib.contextmanager
def _outside() -> Iterator[Any]:
    """threadpoolctl, with the scope `one_blas_thread()` left."""
    try:
        controls = imported("threadpoolctl")
    except ImportError as error:
        raise MissingExtraError(
            f"fungrad.config.blas_threads needs threadpoolctl ({error}). Install it with "
            "pip install 'fungrad[blas]', or set OPENBLAS_NUM_THREADS or MKL_NUM_THREADS before "
            "NumPy is imported."
        ) from error
    scope = one_blas_thread()
    if scope is None:
        yield controls
        return
    scope.leave()
    try:
        yield controls
    finally:
        scope.resume()


def blas_threads() -> int | None:
    """The number of threads of NumPy's BLAS for one product; None if no BLAS reports it."""
    with _outside() as controls:
        libraries = controls.threadpool_info()
    counts = [library["num_threads"] for library in libraries if library["user_api"] == "blas"]
    return max(counts) if counts else None


def set_blas_threads(count: int) -> None:
    """Sets the number of threads of NumPy's BLAS for one product, in the whole process.

    Raises:
      ArgumentError: if the count is not a positive integer.
      MissingExtraError: if threadpoolctl is not installed.
    """
    count = positive(count)
    with _outside() as controls:
        controls.threadpool_limits(count, user_api="blas")
    _State.single = count == 1
