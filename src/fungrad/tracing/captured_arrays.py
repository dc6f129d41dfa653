"""ndarrays that a trace keeps while the program may write into them.

A small array is copied. A large one, and the array that owns its memory, is read-only while the
trace needs it, so that a write raises an error at its line. It is copied if the pullback outlives
the trace, or if it cannot be made read-only. Views made before stay writeable (docs/sharp-bits.md).
"""

from __future__ import annotations

import _thread
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy import ndarray

from fungrad.errors import FungradError, ItemAssignmentError
from fungrad.ir.types import of_value
from fungrad.support import forks
from fungrad.support.lazy import loaded
from fungrad.tracing.created_arrays import Writable
from fungrad.tracing.source_location import raised_at

T = TypeVar("T")

_guard = forks.lock()
locked_memory: dict[int, _Locked] = {}
"""By the identity of the array that owns it, the memory that keepers of all threads need."""
SMALL = 8_192
"""The most bytes of an array that is copied (in less than 1 us) rather than made read-only."""


class WriteGuards:
    """The arrays that the outermost reverse mode of a thread, and all inside of it, keep."""

    copies = False
    """Whether large arrays are copied, too, because the pullback is called after `release`."""
    locked: dict[int, tuple[Any, Any]] = {}  # noqa: RUF012 - none yet: `keep` makes its own
    """By identity, the large arrays that are read-only now, each with the array kept for it."""
    copied: dict[int, tuple[Writable, ndarray]] = {}  # noqa: RUF012 - as `locked`
    """By identity, the large arrays made while tracing, each with its last copy."""

    def keep(self, value: ndarray) -> ndarray:
        """An array with the present contents of `value`, which stay until `release`."""
        if value.nbytes <= SMALL:
            return value.copy("K")
        if type(value.base) is Writable:
            return self._copied(value, value.base)
        found = self.locked.get(id(value))
        if found is None:
            if not _can_lock(value):
                return compact_copy(value)
            found = (value, compact_copy(value) if self.copies else value)
            if not self.locked:
                self.locked = {}
            self.locked[id(value)] = found
            _lock(value, self)
        kept: ndarray = found[1]
        return kept

    def _copied(self, value: ndarray, made: Writable) -> ndarray:
        """A copy of a `Writable` array: a new one only if its contents have changed."""
        found = self.copied.get(id(made))
        if found is None or not same_bits(value, found[1]):
            if not self.copied:
                self.copied = {}
            found = self.copied[id(made)] = (made, compact_copy(value))
        return found[1]

    def release(self) -> None:
        """Makes writeable again the arrays that were so before. May be called again where an
        interrupt cut it short.
        """
        if self.copied:
            self.copied = {}
        if self.locked:
            for value, _ in self.locked.values():
                _unlock(value, self)
            self.locked = {}

    def refused(self, error: ValueError) -> ItemAssignmentError | None:
        """The error for a write into one of the large arrays, if that raised NumPy's error."""
        if not self.locked or isinstance(error, FungradError) or "read-only" not in str(error):
            return None
        found = sorted({str(of_value(value)) for value, _ in self.locked.values()})
        line = raised_at(error)
        return ItemAssignmentError(
            f"An array is written into in place{f' at {line}' if line else ''} that a traced "
            f"operation has read ({' or '.join(found)}): its derivative needs the former values. "
            "Make a new array: `c = c * 2` for `c *= 2`, `c = c.copy()` before `c[i] = value`."
        )


def guarded(f: Callable[..., T], *args: Any) -> T:
    """`f(keeper, *args)` with new guards, which are released after it."""
    keeper = WriteGuards()
    try:
        return f(keeper, *args)
    finally:
        try:
            keeper.release()
        except BaseException:  # an interrupt has cut it short
            keeper.release()
            raise


class CopyingGuards(WriteGuards):
    """Copies large arrays, too."""

    copies = True


class NoGuards(WriteGuards):
    """Keeps arrays without a copy, for a pullback that runs before any code of the user's."""

    def keep(self, value: ndarray) -> ndarray:
        """The array itself."""
        return value


NO_GUARDS = NoGuards()


def compact_copy(value: ndarray) -> ndarray:
    """A copy that keeps strides of 0: a broadcast element is stored once."""
    if 0 not in value.strides or not value.size:
        return value.copy("K")
    once = value[tuple([slice(0, 1) if s == 0 else slice(None) for s in value.strides])]
    return np.broadcast_to(once.copy("K"), value.shape)


def own(value: Any) -> Any:
    """A kept array, for user code to read: a copy, or a read-only view if large."""
    if type(value) is not ndarray:
        return value
    if value.nbytes <= SMALL:
        return value.copy("K")
    view = value.view()
    view.flags.writeable = False
    return view


def same_bits(x: ndarray, y: ndarray) -> bool:
    """Whether two arrays hold the same numbers: NaN equals NaN, and -0.0 differs from 0.0."""
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind == "c":
        return same_bits(x.real, y.real) and same_bits(x.imag, y.imag)
    if x.dtype.kind in "biufmM" and x.itemsize <= 8:
        return np.array_equal(x.view(f"u{x.itemsize}"), y.view(f"u{y.itemsize}"))
    if x.dtype.kind == "f":  # a long double, which has padding bits
        alike = (x == y) & (np.signbit(x) == np.signbit(y))
        return bool(np.all(alike | (np.isnan(x) & np.isnan(y))))
    return bool(np.all(x == y))


# --- arrays made read-only, by all threads together -----------------------------------------------


class _Locked:
    """The memory of one owner: the keepers that need it, each with its thread, and the arrays over
    it, by identity, each with whether it was writeable before.
    """

    __slots__ = ("arrays", "keepers", "owner")

    def __init__(self, owner: ndarray) -> None:
        self.owner = owner
        self.keepers: weakref.WeakKeyDictionary[WriteGuards, int] = weakref.WeakKeyDictionary()
        self.arrays: dict[int, tuple[ndarray, bool]] = {id(owner): (owner, owner.flags.writeable)}


def _is_buffer(owner: Any) -> bool:
    """Whether an owner of memory, no ndarray, is one whose views NumPy can make writeable again."""
    mapped: Any = loaded("mmap")  # who has a map has loaded its module
    if mapped is not None and isinstance(owner, mapped.mmap):
        return True
    return isinstance(owner, (memoryview, bytearray))


def _owner(value: ndarray) -> ndarray:
    while isinstance(value.base, ndarray):
        value = value.base
    return value


def _can_lock(value: ndarray) -> bool:
    """Whether an array and its bases can be made read-only, and writeable again."""
    owner = _owner(value)
    if type(value.base) is ndarray and type(value.base.base) is Writable:
        return False  # a part of an array that was made to be written into
    return owner.flags.owndata or _is_buffer(owner.base)


def _lock(value: ndarray, keeper: WriteGuards) -> None:
    """Makes an array and its bases read-only, as long as a keeper needs it."""
    owner = _owner(value)
    with _guard:
        group = locked_memory.setdefault(id(owner), _Locked(owner))
        group.keepers[keeper] = _thread.get_ident()
        array: Any = value
        while isinstance(array, ndarray):
            if id(array) not in group.arrays:
                group.arrays[id(array)] = (array, array.flags.writeable)
            array.flags.writeable = False
            array = array.base


def _unlock(value: ndarray, keeper: WriteGuards) -> None:
    """Ends the need of a keeper for an array. May be called again."""
    with _guard:
        group = locked_memory.get(id(_owner(value)))
        if group is not None:
            group.keepers.pop(keeper, None)
            if not group.keepers:
                _restore(group)


def _restore(group: _Locked) -> None:
    """Makes the arrays over some memory what they were before. May be called again."""
    owner = group.owner
    if any(before for _, before in group.arrays.values()):
        owner.flags.writeable = True  # NumPy lets a view be writeable only where its owner is
        for array, before in list(group.arrays.values()):
            if array is not owner:
                array.flags.writeable = before
        owner.flags.writeable = group.arrays[id(owner)][1]
    del locked_memory[id(owner)]


def forget_ended() -> None:
    """Restores what dead keepers needed: two interrupts have cut their release short."""
    with _guard:
        for group in [group for group in list(locked_memory.values()) if not group.keepers]:
            _restore(group)


def _forget_threads() -> None:
    """In a forked child: ends the needs of other threads, which are not there."""
    me = _thread.get_ident()
    for group in locked_memory.values():
        for keeper in [keeper for keeper, thread in group.keepers.items() if thread != me]:
            del group.keepers[keeper]
    forget_ended()


forks.in_child(_forget_threads)
