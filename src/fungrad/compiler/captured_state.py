"""What a compiled function reads outside of its arguments, and whether it is still the same.

A trace keeps globals, closures, default values, attributes and items as constants. If they change
later, the program computes with the old numbers. `CapturedState` lists the places that the code of
a function names, and of the functions of the user that it can call, with what they hold: numbers by
value, arrays by a checksum, other objects by identity. The code of installed packages is not read:
of their objects all attributes are places.
"""

from __future__ import annotations

import functools
import sys
import warnings
import zlib
from array import array
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator
from contextvars import ContextVar
from threading import local
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from fungrad.errors import CapturedStateWarning
from fungrad.ir.graph import Verification
from fungrad.support.lazy import modules
from fungrad.support.snapshots import snapshot
from fungrad.tracing.code_origin import origin
from fungrad.tracing.created_arrays import Written
from fungrad.tracing.interception import original
from fungrad.tracing.opaque_mode import replaced_code
from fungrad.tracing.source_location import describe, user_line
from fungrad.tracing.subclass_arrays import OverTraced, holds_value, value_of
from fungrad.tracing.trace import Tracer

MOST = 2000
"""The most objects that are read for the places of a function, from the function on."""
ITEMS = 256
"""The most items of a dict or a list that are places; of a longer one the length is compared."""
NUMBERS = 65_536
"""The most numbers of an array that its checksum covers, evenly spread."""

_VALUES = (bool, int, float, complex, str, bytes, type(None), np.generic)
_LISTS = (list, deque)
_BUFFERS = (bytearray, array)


class Place:
    """A place outside of the arguments, and what it holds.

    Attributes:
      name: the place as the user writes it: `k`, `self.k`, `table['k']`.
      owner: the dict, list, cell, class or object that has the place.
      key: its key, index or attribute there.
      value: what it held when the function was compiled.
    """

    __slots__ = ("_mark", "key", "name", "owner", "value")

    def __init__(self, name: str, owner: Any, key: Any, value: Any) -> None:
        self.name = name
        self.owner = owner
        self.key = key
        self.value = value
        self._mark = _mark(value)

    def __eq__(self, other: object) -> bool:
        return type(other) is Place and self.owner is other.owner and bool(self.key == other.key)

    def __hash__(self) -> int:
        return hash((id(self.owner), self.key))

    def now(self) -> Any:
        """What it holds now; `Missing` if the place is not there."""
        return _read(self.owner, self.key)

    def has_changed(self) -> bool:
        """Whether it holds something else now."""
        value = self.now()
        if value is not self.value:
            if type(value) is not type(self.value) or value is Missing:
                return True
            if _is(value, _VALUES):
                return not (value == self.value or (value != value and self.value != self.value))
            if type(value) is not np.ndarray:
                return True
        return bool(_mark(value) != self._mark)

    def change(self) -> str:
        """The change in words."""
        value = self.now()
        if _is(value, _VALUES) and _is(self.value, _VALUES):
            return f"`{self.name}` was {_shown(self.value)} and is {_shown(value)} now"
        return f"`{self.name}` has changed"


def warn_of_changes(f: Any, places: list[Place]) -> None:
    """Warns that f was compiled anew: names the changes of places, of three at most."""
    changes = ", ".join([place.change() for place in places[:3]]) + ", ..." * (len(places) > 3)
    warnings.warn(
        f"{describe(f)} was compiled anew{user_line()}: {changes}. A "
        "compiled function keeps what it reads outside of its arguments; calls since the "
        "change may have used the old value. Pass it as an argument, or call cache_clear() "
        "after a change."
        "\n(more: fungrad explain CapturedStateWarning)",
        CapturedStateWarning,
        stacklevel=4,
    )


class Missing:
    """Stands for what a place holds that is not there."""


class CapturedState:
    """The places that a compiled function reads outside of its arguments, as its last trace saw
    them, and when they are compared: at its first ten calls, and then after each tenth part more.

    A place that was seen to change twice with no effect on a program is no longer compared for
    that program: a counter, a cache.

    Args:
      f: the function.
      verify: which runs are compared; None means `fg.config.verify`.
    """

    def __init__(self, f: Any, verify: str | None) -> None:
        self._f = f
        self._verify = verify
        self._places: list[Place] = []
        self._changes: dict[Hashable, Counter[Place]] = {}
        """By program: how often a place has changed with no effect on it."""
        self.due = sys.maxsize
        """The number of calls from which on the places are compared again."""

    def keep(self, calls: int, static: Iterable[Any] = ()) -> None:
        """Reads the places, as a trace has just seen them: those of f and of static arguments."""
        runs = self._verify or Verification.runs
        self._places = _Reader().read(self._f, static) if runs != "never" else []
        if self._places:
            self.due = calls

    def changed(self, calls: int) -> list[Place]:
        """The places that hold something else at a call, from which the next comparison is due."""
        always = (self._verify or Verification.runs) == "always"
        self.due = calls if always else calls + calls // 10
        return [place for place in self._places if place.has_changed()]

    def affecting(self, program: Hashable, changed: Iterable[Place]) -> list[Place]:
        """The places, of those that have changed, that may have an effect on a program."""
        counts = self._changes.get(program) or Counter()
        return [place for place in changed if counts.get(place, 0) < 2]

    def tolerate(self, program: Hashable, changed: Iterable[Place]) -> None:
        """Notes that places have changed with no effect on a program."""
        self._changes.setdefault(program, Counter()).update(changed)


def _is(value: Any, kinds: Any) -> bool:
    """As isinstance, without a question to the object: a proxy may fail to answer."""
    return issubclass(type(value), kinds)


def _shown(value: Any) -> str:
    text = repr(value.item() if _is(value, np.generic) else value)
    return text if len(text) <= 40 else text[:37] + "..."


def _mark(value: Any) -> Any:
    """What tells later whether an object has been changed in place."""
    if type(value) is Written:
        return _mark(value.tracer)
    if _is(value, OverTraced) and holds_value(value):
        return _mark(value_of(value))
    if type(value) is Tracer and value.owner.ended:
        return _mark(value.inner)
    if _is(value, np.ndarray):
        own = getattr(value, "__dict__", {})  # of a subclass: a mask
        held = [x for x in (value, *own.values()) if _is(x, np.ndarray) and not x.dtype.hasobject]
        return [(x.shape, x.dtype, _checksum(x.view(np.ndarray))) for x in held]
    if _is(value, dict):  # the keys in their order
        return len(value) if len(value) > ITEMS else [*map(id, dict.keys(value))]
    if _is(value, _LISTS):
        return len(value)
    if _is(value, _BUFFERS):
        return zlib.crc32(memoryview(value).cast("B")[: 8 * NUMBERS])
    if type(value) is set:
        return hash(frozenset(value))
    return None


def _checksum(array: np.ndarray[Any, Any]) -> int:
    flat = array.reshape(-1) if array.flags.c_contiguous else array.ravel()
    return zlib.crc32(np.ascontiguousarray(flat[:: 1 + flat.size // NUMBERS]).view(np.uint8).data)


def _read(owner: Any, key: Any) -> Any:
    """What a place holds: of a function that is replaced while a thread traces, the original."""
    try:
        if _is(owner, dict):
            value = dict.get(owner, key, Missing)
        elif _is(owner, _LISTS):
            value = owner[key]
        elif _is(owner, ContextVar):
            value = owner.get()
        else:
            value = vars(owner)[key] if _is(owner, type) else getattr(owner, key)
    except (LookupError, ValueError, AttributeError):  # a cell that is not filled, for one
        return Missing
    if replaced_code and _is(value, CodeType):
        return replaced_code.get(value, value)
    return original(value)


def _is_read(code: CodeType) -> bool:
    """Whether code is the user's."""
    return origin(code.co_filename) == "user"


class _Reader:
    """Reads the code of a function and of what it can call, and finds the places."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        """All names in the code that was read."""
        self._spaces: list[tuple[str, Any, Any]] = []
        """Attributes of objects, modules and classes: their name, the owner, and the dict."""
        self._seen: dict[int, Any] = {}
        self._waiting: list[tuple[str, Any]] = []
        self._places: dict[tuple[int, Any], Place] = {}

    def read(self, f: Any, static: Iterable[Any] = ()) -> list[Place]:
        self._waiting += [(type(value).__name__, value) for value in static]
        self._waiting.append((getattr(f, "__name__", "f"), f))
        while self._waiting and len(self._seen) < MOST:
            self._visit(*self._waiting.pop())
        return list(self._places.values())

    def _space(self, name: str, owner: Any, space: Any) -> None:
        """Reads the places of an owner that code names, now and later."""
        self._spaces.append((name, owner, space))
        for attribute in sorted(self._names & space.keys()):
            self._place(f"{name}.{attribute}", owner, attribute)

    def _name(self, names: Iterable[str]) -> None:
        """Reads the places that have one of the names."""
        new = set(names) - self._names
        self._names |= new
        for name, owner, space in self._spaces if new else ():
            for attribute in sorted(new & space.keys()):
                self._place(f"{name}.{attribute}", owner, attribute)

    def _place(self, name: str, owner: Any, key: Any) -> None:
        if (id(owner), key) in self._places:
            return
        value = _read(owner, key)
        if _is_compared(value):
            self._places[id(owner), key] = Place(name, owner, key, value)
        if value is not Missing and not _is(value, (*_VALUES, np.ndarray, Tracer)):
            self._waiting.append((name, value))

    def _visit(self, name: str, value: Any) -> None:
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        kind = type(value)
        if kind is FunctionType:
            self._function(value)
        elif kind is MethodType:
            self._waiting += [(name, value.__func__), ("self", value.__self__)]
        elif kind in (staticmethod, classmethod):
            self._waiting.append((name, value.__func__))
        elif kind is property:
            self._waiting += [(name, f) for f in (value.fget,) if f is not None]
        elif _is(value, functools.partial):
            held = (value.func, *value.args, *value.keywords.values())
            self._items(name, dict(enumerate(held)), value)
        elif _is(value, (tuple, frozenset)):
            self._items(name, dict(enumerate(value)), value)
        elif _is(value, ContextVar):
            self._place(f"{value.name}.get()", value, "get")
        elif _is(value, local):  # each thread has its own attributes
            self._space(name, value, value.__dict__)
        elif _is(value, ModuleType):
            if not _is_of_package(value.__name__):
                self._space(name, vars(value), vars(value))
        elif _is(value, type):
            self._class(name, value)
        else:
            if _is(value, dict):
                self._items(name, value, value)
            elif _is(value, _LISTS):
                self._items(name, dict(enumerate(list(value))), value)
            self._instance(name, value)

    def _items(self, name: str, items: dict[Any, Any], owner: Any) -> None:
        if len(items) > ITEMS:
            return
        for key, item in snapshot(items).items():
            if _is(owner, (dict, *_LISTS)):
                self._place(f"{name}[{key!r}]", owner, key)
            elif _is(item, np.ndarray):  # of a tuple: the array may change in place
                self._place(f"{name}[{key!r}]", [item], 0)
            elif not _is(item, _VALUES):
                self._waiting.append((f"{name}[{key!r}]", item))

    def _function(self, f: FunctionType) -> None:
        if not _is_read(f.__code__):
            self._waiting += [(f.__name__, v) for v in (getattr(f, "__wrapped__", None),) if v]
            return
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            if name != "__class__":
                self._place(name, cell, "cell_contents")
        defaults = f.__defaults__ or ()
        names = f.__code__.co_varnames[f.__code__.co_argcount - len(defaults) :]
        for name, value in zip(names, defaults, strict=False):
            self._place(name, [value], 0)
        for name in f.__kwdefaults__ or ():
            self._place(name, f.__kwdefaults__, name)
        for part in ("__code__", "__defaults__", "__kwdefaults__"):  # others are set by autoreload
            held = _read(f, part)
            self._places[id(f), part] = Place(f"{f.__name__}.{part}", f, part, held)
        for code in _codes(_read(f, "__code__")):
            self._name(code.co_names)
            for name in code.co_names:
                if name in f.__globals__:
                    self._place(name, f.__globals__, name)

    def _class(self, name: str, value: type) -> None:
        metaclass: type = type(value)
        for base in (*value.__mro__, *metaclass.__mro__):
            if _is_of_package(_home(base)):
                continue
            self._space(name, base, vars(base))
            # Special methods are called without being named.
            for key, item in snapshot(vars(base)).items():
                if key[:2] == "__" and type(item) is FunctionType:
                    self._waiting.append((f"{name}.{key}", item))

    def _instance(self, name: str, value: Any) -> None:
        try:
            own = object.__getattribute__(value, "__dict__")
        except AttributeError:
            own = None
        inner = own.get("__wrapped__") if type(own) is dict else None
        if inner is not None:  # of a transform, or of a decorator
            self._waiting.append((name, inner))
        if _home(type(value)).partition(".")[0] in ("fungrad", "builtins", "numpy"):
            return
        if type(own) is dict and _is_of_package(_home(type(value))):
            for attribute, held in snapshot(own).items():  # no code tells which are read
                if _is(held, (*_VALUES, np.ndarray, dict, *_LISTS, tuple)):
                    self._place(f"{name}.{attribute}", own, attribute)
            self._space(name, own, own)
            return
        self._waiting.append((type(value).__name__, type(value)))
        if type(own) is dict:
            # An attribute of the class may be hidden by a later one of the instance.
            of_class = [n for n, v in snapshot(vars(type(value))).items() if _is(v, _VALUES)]
            self._space(name, own, {**dict.fromkeys(of_class), **own})
        for base in type(value).__mro__:
            slots = vars(base).get("__slots__", ())
            names = [slots] if isinstance(slots, str) else list(slots)
            if names:
                self._space(name, value, dict.fromkeys(names))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those inside of it."""
    yield code
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _codes(constant)


def _is_compared(value: Any) -> bool:
    """Whether another object in the same place may mean another program."""
    if type(value) is Tracer:  # one kept from a transform that has ended is its value
        return value.owner.ended
    return not _is(value, ModuleType)


def _home(kind: type) -> str:
    """The name of a class's module. Cython's classes of functions have a descriptor in its place,
    for the modules of the functions.
    """
    name: Any = kind.__module__
    return name if type(name) is str else "builtins"


def _is_of_package(name: str) -> bool:
    """Whether a module is none of the user's."""
    file = getattr(modules.get(name), "__file__", None)
    if file is None:  # built in, or made by the program: `__main__`, types.ModuleType
        return name.partition(".")[0] in sys.stdlib_module_names and name != "__main__"
    return origin(file) != "user"
