"""Floor 8: what is asked about the memory of an array, answered for traced values as far as that
has a meaning.

A traced value has no memory. `flags` and `strides` are those of an array of its own in C order;
what would read numbers past the transform is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from fungrad.errors import UnsupportedArgumentError
from fungrad.tracing.refusals import refused_memory, refused_pickle
from fungrad.tracing.source import user_line
from fungrad.tracing.trace import Tracer


class Flags:
    """What ndarray.flags says, of a traced array: one of its own, in C order, writeable."""

    __slots__ = ("_values",)

    def __init__(self, ndim: int) -> None:
        one = ndim < 2
        self._values = {
            "C_CONTIGUOUS": True, "F_CONTIGUOUS": one, "OWNDATA": True, "WRITEABLE": True,
            "ALIGNED": True, "WRITEBACKIFCOPY": False,
        }  # fmt: skip

    def __getitem__(self, key: str) -> bool:
        known = self._values
        c, f = known["C_CONTIGUOUS"], known["F_CONTIGUOUS"]
        computed = {
            "FNC": f and not c, "FORC": f or c, "BEHAVED": True, "CARRAY": c, "FARRAY": f and not c,
            "C": c, "F": f, "CONTIGUOUS": c, "FORTRAN": f, "O": True, "W": True, "A": True,
            "X": False, "B": True, "CA": c, "FA": f and not c,
        }  # fmt: skip
        found = known.get(key, computed.get(key))
        if found is None:
            raise KeyError("Unknown flag")
        return found

    def __getattr__(self, name: str) -> Any:
        if name == "num":
            return 0x505 + 2 * self._values["F_CONTIGUOUS"]  # NumPy's bits of these flags
        try:
            return self[name.upper()]
        except KeyError:
            raise AttributeError(f"flags has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_values":
            object.__setattr__(self, name, value)
        elif name not in ("writeable", "aligned", "writebackifcopy"):
            raise AttributeError(f"flags has no attribute {name!r} that can be set")
        else:
            _set_flag(name, value, self[name.upper()])

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, {"W": "writeable", "A": "aligned"}.get(key, key).lower(), value)

    def __eq__(self, other: object) -> bool:
        return type(other) is Flags and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(self._values.values()))

    def __repr__(self) -> str:
        return "".join(f"  {name} : {value}\n" for name, value in self._values.items())


def _set_flag(name: str, value: Any, now: bool) -> None:
    if bool(value) != now:
        raise UnsupportedArgumentError(
            f"The flag {name} of a traced array was set to {bool(value)}{user_line()}. A traced "
            "array has no memory that could be locked: leave it out; what a transform is given is "
            "never changed."
        )


def _flags(self: Tracer) -> Flags:
    return Flags(len(self.shape))


def _setflags(self: Tracer, write: Any = None, align: Any = None, uic: Any = None) -> None:
    for name, value in (("writeable", write), ("aligned", align)):
        if value is not None:
            _set_flag(name, value, True)


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
    **{n: _no_bytes(n) for n in ("byteswap", "dump", "dumps", "getfield", "tobytes", "tofile")},
}

__all__: list[str] = []
