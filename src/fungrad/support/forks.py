"""Locks and state of the process that a forked child finds in order.

A fork copies the memory of the process, and one of its threads: what another thread has locked
stays locked in the child, and what it has begun is never ended. So a fork waits for all locks that
`lock` has made, `around` names what is done before and after it while it holds them, and `in_child`
what the child does first.
"""

from __future__ import annotations

import _thread
import functools
import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")

_locks: list[Any] = []
_held: list[Any] = []
"""The locks that the last fork has taken."""
_before: list[Callable[[], Any]] = []
_after: list[Callable[[], Any]] = []
_first: list[Callable[[], Any]] = []


def lock() -> Any:
    """A new lock for the life of the process. Its thread may take it again: a destructor or a
    signal handler can run in between.
    """
    made = _thread.RLock()
    _locks.append(made)
    return made


def in_child(function: Callable[[], Any]) -> None:
    """Calls a function in each forked child before other code runs, while it holds all locks."""
    _first.append(function)


def around(
    before: Callable[[], Any], in_parent: Callable[[], Any], in_child: Callable[[], Any]
) -> None:
    """Calls functions before each fork and after it, while the fork holds all locks."""
    _before.append(before)
    _after.append(in_parent)
    _first.append(in_child)


class cached_property(Generic[T]):
    """An attribute that is computed when it is first read, without a lock: threads that meet may
    each do so, and all receive the first value. Before Python 3.12, `functools.cached_property`
    holds a lock for all objects of the class meanwhile, which a forked child never gets.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, of: None, owner: type) -> cached_property[T]: ...
    @overload
    def __get__(self, of: object, owner: type) -> T: ...
    def __get__(self, of: object | None, owner: type) -> cached_property[T] | T:
        if of is None:
            return self
        value: T = of.__dict__.setdefault(self.name, self.compute(of))
        return value


def _take() -> None:
    """Takes all locks. Waits for one of them only while it holds no other, whatever the order in
    which other threads take them.
    """
    global _held
    busy = _locks[0]
    while True:
        busy.acquire()
        held = [busy]
        for one in list(_locks):
            if one is busy:
                continue
            if not one.acquire(blocking=False):
                busy = one
                break
            held.append(one)
        else:
            _held = held
            return
        for one in held:
            one.release()


def _give() -> None:
    for one in _held:  # a lock that another thread has made since is not among them
        one.release()


def _prepare() -> None:
    _take()
    for function in _before:
        function()


def _go_on(functions: list[Callable[[], Any]]) -> None:
    try:
        for function in functions:
            function()
    finally:
        _give()


_start = lock()
"""Held by a fork, so that the list of locks is not empty."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_prepare,
        after_in_parent=functools.partial(_go_on, _after),
        after_in_child=functools.partial(_go_on, _first),
    )
