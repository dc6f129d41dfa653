"""Shadows: copies of arrays from outside that traced values are written into.

`buffer[0] = x` of a plain ndarray asks x for its number, which no protocol can refuse to give but
by an error. Then the function is traced once more, and in each later trace of it the names through
which it finds arrays (globals, closures, defaults, attributes, items: bound_names.py) are bound to
copies that traced values can be written into (created_arrays.py). So can what NumPy computes from
them. At the end of the outermost trace the arrays are bound again, which nothing has changed.
"""

from __future__ import annotations

import sys
import weakref
from _thread import get_ident
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any

import numpy as np
from numpy import ndarray

from fungrad.errors import ItemAssignmentError
from fungrad.support.snapshots import snapshot
from fungrad.tracing import interception
from fungrad.tracing.captured_arrays import same_bits
from fungrad.tracing.code_origin import is_ours
from fungrad.tracing.created_arrays import KINDS, Writable, view_over
from fungrad.tracing.refusals import Met
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import EVAL, Trace, current, typeof


class Shadows:
    """The shadows of one outermost trace, `home`, by the identity of the arrays."""

    def __init__(self, home: Any) -> None:
        self._home = weakref.ref(home)
        self._made: dict[int, tuple[ndarray, Writable | None]] = {}
        if get_ident() in _replays:
            _replays[get_ident()] = self

    def pair_of(self, value: Any) -> tuple[Any, Any] | None:
        """An array of numbers and its shadow; None for any other value."""
        if type(value) is not ndarray or value.dtype.kind not in KINDS:
            return None
        pair = self._made.get(id(value))
        if pair is None:
            pair = self._made[id(value)] = value, self._shadow(value)
        return None if pair[1] is None else pair

    def _shadow(self, array: ndarray) -> Writable | None:
        """A copy of an array that owns its memory; a view of the owner's shadow for a view. None
        where other memory might be shared.
        """
        owner = array
        while type(owner.base) is ndarray:
            owner = owner.base
        if not owner.flags.owndata and owner.flags.writeable:
            return None
        if owner is array:
            copy = array.view(Writable).copy("K")
            copy.home = self._home
            copy.flags.writeable = array.flags.writeable
            return copy
        pair = self.pair_of(owner)
        return None if pair is None else view_over(pair[1], array, owner)

    def check_unchanged(self) -> None:
        """Raises if plain numbers were written into arrays before the first traced value."""
        for array, shadow in self._made.values():
            if type(shadow) is Writable and not same_bits(array, np.asarray(shadow)):
                raise ItemAssignmentError(
                    f"A traced value is written{user_line()} into an array from outside, and "
                    f"before it the function has changed such an array of type {typeof(array)} by "
                    "plain numbers. It was traced twice, for fungrad learns by an error that it "
                    "needs copies of such arrays, so that this change was made twice. Change a "
                    "copy, a = np.array(a). (Another call takes the arrays as they are now.)"
                )


_replays: dict[int, Shadows | None] = {}
"""By thread: the shadows of a trace that repeats one which a refused write has ended."""


def check_replay() -> None:
    """Called before the first traced value is written into an array: see `check_unchanged`."""
    if _replays:
        found = _replays.pop(get_ident(), None)
        if found is not None:
            found.check_unchanged()


def meets_stores(label: Callable[[], str], f: Callable[..., Any], failed: bool) -> bool:
    """Whether f has to be traced once more, with shadows, since its outermost trace has failed at
    a write into a plain array. `label` describes the trace.
    """
    if current() is not EVAL or Met.had("store") is None:
        return False
    if not failed or not interception.take_shadows(label, f, _pairs):
        return False
    _replays[get_ident()] = None
    return True


def _pairs(home: Any) -> interception.PairOf:
    return Shadows(home).pair_of


def shadowed(values: Any) -> Any:
    """The arguments that the user gave to a transform, with shadows of arrays, or stand-ins
    (stand_ins.py), while its trace has them: lists, tuples and dicts are looked into. Those of a
    transform inside of it, as they are.
    """
    pair_of = interception.copies.get(get_ident()) if interception.copies else None
    if pair_of is None or not _is_outermost():
        return values
    return _copied(values, pair_of)


def _is_outermost() -> bool:
    """Whether no code of the user's runs between the outermost trace and this call."""
    if current() is EVAL:  # a plain call to compare with
        return True
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame.f_code.co_filename):
        if frame.f_code is Trace.run.__code__ and frame.f_locals["self"].parent is EVAL:
            return True
        frame = frame.f_back
    return False


def _copied(value: Any, pair_of: interception.PairOf) -> Any:
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([_copied(item, pair_of) for item in value])
    if kind is dict:
        return {key: _copied(item, pair_of) for key, item in snapshot(value).items()}
    pair = pair_of(value)
    return value if pair is None else pair[1]


def shadowing(f: Callable[..., Any]) -> AbstractContextManager[None]:
    """A context in which a plain call of f leaves arrays from outside as they are, if the traces of
    f do.
    """
    if not interception.has_shadows(f):
        return nullcontext()
    return interception.replacing(lambda: "", f, None)
