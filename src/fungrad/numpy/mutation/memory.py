"""Attributes and methods about the memory of an array, for traced values.

A traced value has no memory. Its `flags` are those of an array in C order, which can be made
read-only. Attributes that would give access to numbers raise an error.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from fungrad.errors import UnsupportedArgumentError
from fungrad.tracing.aliasing import alias_of, refusal, refuse_writes
from fungrad.tracing.code_origin import is_ours
from fungrad.tracing.refusals import refused_memory, refused_pickle
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Trace, Tracer


class Flags:
    """The ndarray.flags of a traced array: those of an array in C order that owns its memory."""

    __slots__ = ("_array", "_values")

    def __init__(self, array: Tracer) -> None:
        one = array.ndim < 2
        self._array = array
        self._values = {
            "C_CONTIGUOUS": True, "F_CONTIGUOUS": one, "OWNDATA": True,
            "WRITEABLE": not refusal(array),
            "ALIGNED": True, "WRITEBACKIFCOPY": False,
        }  # fmt: skip

    def __getitem__(self, key: str) -> bool:
        known = self._values
        c, f, w = known["C_CONTIGUOUS"], known["F_CONTIGUOUS"], known["WRITEABLE"]
        computed = {
            "FNC": f and not c, "FORC": f or c, "BEHAVED": w, "CARRAY": c and w,
            "FARRAY": f and not c and w, "C": c, "F": f, "CONTIGUOUS": c, "FORTRAN": f, "O": True,
            "W": w, "A": True, "X": False, "B": w, "CA": c and w, "FA": f and not c and w,
        }  # fmt: skip
        flag = known.get(key, computed.get(key))
        if flag is None:
            raise KeyError("Unknown flag")
        return flag

    def __getattr__(self, name: str) -> Any:
        if name == "num":
            known = self._values  # NumPy's bits of these flags
            return 0x105 + 2 * known["F_CONTIGUOUS"] + 0x400 * known["WRITEABLE"]
        try:
            return self[name.upper()]
        except KeyError:
            raise AttributeError(f"flags has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__slots__:
            object.__setattr__(self, name, value)
        elif name not in ("writeable", "aligned", "writebackifcopy"):
            raise AttributeError(f"flags has no attribute {name!r} that can be set")
        else:
            _set_flag(self._array, name, bool(value))
            self._values["WRITEABLE"] = not refusal(self._array)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, {"W": "writeable", "A": "aligned"}.get(key, key).lower(), value)

    def __eq__(self, other: object) -> bool:
        return type(other) is Flags and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(self._values.values()))

    def __repr__(self) -> str:
        return "".join(f"  {name} : {value}\n" for name, value in self._values.items())


LOCKED = "locked: its flag WRITEABLE is False"


def _set_flag(array: Tracer, name: str, value: bool) -> None:
    """Sets a flag: makes a traced array read-only or writeable. A flag may be set to its value."""
    if name == "writeable":
        if value and refusal(array) and not _may_unlock(array):
            raise ValueError("cannot set WRITEABLE flag to True of this array")
        if value is bool(refusal(array)):
            refuse_writes(array, "" if value else LOCKED)
    elif value is not (name == "aligned"):
        raise UnsupportedArgumentError(
            f"The flag {name} of a traced array was set to {value}{user_line()}. A traced array "
            "has no memory with such a flag: leave it out."
        )


def _may_unlock(array: Tracer) -> bool:
    """Whether an array was locked by its flag, and the array that it is a view of was not."""
    root = array
    while (alias := alias_of(root)) is not None and alias.base is not None:
        root = alias.base
    return refusal(array) == LOCKED and (root is array or not refusal(root))


def _flags(self: Tracer) -> Flags:
    return Flags(self)


def _setflags(self: Tracer, write: Any = None, align: Any = None, uic: Any = None) -> None:
    for name, value in (("aligned", align), ("writebackifcopy", uic), ("writeable", write)):
        if value is not None:
            _set_flag(self, name, bool(value))


def _strides(self: Tracer) -> tuple[int, ...]:
    step, found = self.dtype.itemsize, []
    for size in reversed(self.shape):
        found.append(step)
        step *= max(size, 1)
    return tuple(reversed(found))


def _refused(name: str) -> property:
    def read(self: Tracer) -> NoReturn:
        raise refused_memory(self.type, f"The attribute {name}")

    return property(read)


def _no_bytes(name: str) -> Callable[..., NoReturn]:
    def method(self: Tracer, *args: Any, **kwargs: Any) -> NoReturn:
        raise refused_memory(self.type, f"{name}()")

    return method


_named: weakref.WeakKeyDictionary[Trace, tuple[int, dict[Any, Any]]] = weakref.WeakKeyDictionary()
"""By trace: its number, and its values that were hashed, kept so that no other takes their place.
"""
_traces = itertools.count()


def _tobytes(self: Tracer, *args: Any, **kwargs: Any) -> bytes:
    """For a `__hash__` of a class, which hashes the bytes of an array: bytes that no other value
    has, also none of equal numbers. What a cache has kept for these has another derivative.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None or frame.f_code.co_name != "__hash__":
        raise refused_memory(self.type, "tobytes()")
    trace, held = _named.setdefault(self.owner, (next(_traces), {}))
    value = self.inner, self.extra
    return (
        f"traced {trace} {held.setdefault(tuple(map(id, value)), (len(held), value))[0]}".encode()
    )


def _pickled(self: Tracer, protocol: Any) -> NoReturn:
    raise refused_pickle(self.type)


METHODS: dict[str, Any] = {
    "__reduce_ex__": _pickled,
    "itemsize": property(lambda self: self.dtype.itemsize),
    "nbytes": property(lambda self: self.size * self.dtype.itemsize),
    "flags": property(_flags),
    "setflags": _setflags,
    "strides": property(_strides),
    "base": None,
    "data": _refused("data"),
    "ctypes": _refused("ctypes"),
    **{n: _no_bytes(n) for n in ("byteswap", "dump", "dumps", "getfield", "tofile")},
    "tobytes": _tobytes,
}
