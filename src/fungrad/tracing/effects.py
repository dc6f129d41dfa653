"""Effects of a run: recorded when a program runs, and replayed when it is run again to be checked.

A second run must not print twice, draw other random numbers from a generator, or call a simulator
again. So it gets what these returned in the first run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

muted: ContextVar[bool] = ContextVar("fungrad_muted", default=False)
"""Whether the present steps of a loop have run before, so that they must not print twice."""

Replaying = Callable[[], AbstractContextManager[Any]]
"""Makes the context of a run in which effects return what they returned before."""
_run: ContextVar[EffectLog | None] = ContextVar("fungrad_effects", default=None)


class EffectLog:
    """The calls of effects and of opaque functions in a run, with their results."""

    def __init__(self) -> None:
        self._effects: list[Any] = []
        self._calls: dict[int, list[tuple[Sequence[Any], Any]]] = {}
        self._replayed = 0
        self._replays = False

    @contextmanager
    def recording(self) -> Iterator[None]:
        """A block whose effects are recorded."""
        token = _run.set(self)
        try:
            yield
        finally:
            _run.reset(token)

    @contextmanager
    def replaying(self) -> Iterator[None]:
        """A block whose effects return what they returned in the recorded run, in order. Further
        ones act.
        """
        self._replays, self._replayed = True, 0
        with self.recording():
            yield

    @property
    def complete(self) -> bool:
        """Whether the replaying block had as many effects as the recorded one."""
        return self._replayed == len(self._effects)

    def effect(self, act: Callable[[], Any]) -> Any:
        """The result of an effect."""
        if self._replays:
            self._replayed += 1
            if self._replayed <= len(self._effects):
                return self._effects[self._replayed - 1]
        result = act()
        if not self._replays:
            self._effects.append(result)
        return result

    def call(self, of: Any, args: Sequence[Any], act: Callable[[], Any]) -> Any:
        """The result of an opaque function: that of a recorded call with the same bits, if any."""
        known = self._calls.setdefault(id(of), [])
        for given, result in known:
            if all(map(_same, given, args)):
                return result
        result = act()
        if not self._replays:
            known.append(([np.array(arg) for arg in args], result))
        return result


def _same(x: Any, y: Any) -> bool:
    x, y = np.asarray(x), np.asarray(y)
    return bool(x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes())


def logged(eval: Callable[..., Any]) -> Callable[..., Any]:
    """The `eval` of a primitive with an effect, which the log of a run records or replays."""

    @functools.wraps(eval)
    def logging(*args: Any, **params: Any) -> Any:
        log = _run.get()
        if log is None or muted.get():
            return eval(*args, **params)
        return log.effect(lambda: eval(*args, **params))

    return logging


def called(of: Any, args: Sequence[Any], act: Callable[[], Any]) -> Any:
    """The result of `act`, a call of an opaque function `of` on arrays, or what it returned before
    in the run that is replayed.
    """
    log = _run.get()
    return act() if log is None else log.call(of, args, act)
