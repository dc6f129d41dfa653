"""What a compiled function reads outside of its arguments, and whether it is still the same.

A trace keeps globals, closures, default values, attributes and items as constants. If they change
later, the program computes with the old numbers. `CapturedState` lists the places that the code of
a function names, and of the functions of the user that it can call, with what they hold: numbers by
value, arrays by a checksum, other objects by identity. The code of installed packages is not read:
of their objects all attributes are places.
"""

from __future__ import annotations

import os
import sys
import warnings
import zlib
from array import array
from collections import Counter, deque
from collections.abc import Hashable, Iterable
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
from fungrad.tracing.reachable_values import CodeWalk, codes, own_attributes, slots
from fungrad.tracing.source_location import describe, user_line
from fungrad.tracing.subclass_arrays import OverTraced, holds_value, value_of
from fungrad.tracing.trace import Tracer
from fungrad.transforms.arguments import same_static

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
                return not same_static(value, self.value)
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


class _Reader(CodeWalk[str]):
    """Reads the code of a function and of what it can call, and finds the places. The route to a
    value is its name in the program.
    """

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[tuple[int, Any], Place] = {}

    def read(self, f: Any, static: Iterable[Any] = ()) -> list[Place]:
        for value in static:
            self.enqueue(type(value).__name__, value)
        self.enqueue(getattr(f, "__name__", "f"), f)
        self.walk(MOST)
        return list(self._places.values())

    def _place(self, name: str, owner: Any, key: Any) -> None:
        if (id(owner), key) in self._places:
            return
        value = _read(owner, key)
        if _is_compared(value):
            self._places[id(owner), key] = Place(name, owner, key, value)
        if value is not Missing and not _is(value, (*_VALUES, np.ndarray, Tracer)):
            self.enqueue(name, value)

    def visit_attribute(self, space: Any, owner: Any, name: str, route: str) -> None:
        self._place(f"{route}.{name}", owner, name)

    def visit_method(self, method: MethodType, name: str) -> None:
        self.enqueue(name, method.__func__)
        self.enqueue("self", method.__self__)

    def visit_fixed(self, value: Any, items: tuple[Any, ...], name: str) -> None:
        for index, item in enumerate(items if len(items) <= ITEMS else ()):
            if _is(item, np.ndarray):  # the array may change in place
                self._place(f"{name}[{index!r}]", [item], 0)
            elif not _is(item, _VALUES):
                self.enqueue(f"{name}[{index!r}]", item)

    def visit_container(self, value: Any, name: str) -> None:
        if len(value) <= ITEMS:
            for key in snapshot(value) if _is(value, dict) else range(len(value)):
                self._place(f"{name}[{key!r}]", value, key)
        self.visit_instance(value, name)

    def visit_function(self, f: FunctionType, name: str) -> None:
        if not _is_read(f.__code__):
            self.enqueue(f.__name__, getattr(f, "__wrapped__", None))
            if f is os.getenv:
                self.enqueue("os.environ", os.environ)
            return
        for variable, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            if variable != "__class__":
                self._place(variable, cell, "cell_contents")
        defaults = f.__defaults__ or ()
        names = f.__code__.co_varnames[f.__code__.co_argcount - len(defaults) :]
        for argument, value in zip(names, defaults, strict=False):
            self._place(argument, [value], 0)
        for argument in f.__kwdefaults__ or ():
            self._place(argument, f.__kwdefaults__, argument)
        for part in ("__code__", "__defaults__", "__kwdefaults__"):  # others are set by autoreload
            held = _read(f, part)
            self._places[id(f), part] = Place(f"{f.__name__}.{part}", f, part, held)
        for code in codes(_read(f, "__code__")):
            self.read_names(code.co_names)
            for variable in code.co_names:
                if variable in f.__globals__:
                    self._place(variable, f.__globals__, variable)

    def visit_module(self, value: ModuleType, name: str) -> None:
        if value is os:
            self.namespace(dict.fromkeys(("environ", "getenv")), vars(os), name)
        elif not _is_of_package(value.__name__):
            self.namespace(vars(value), vars(value), name)

    def visit_class(self, value: type, name: str) -> None:
        metaclass: type = type(value)
        for base in (*value.__mro__, *metaclass.__mro__):
            if _is_of_package(_home(base)):
                continue
            self.namespace(vars(base), base, name)
            # Special methods are called without being named.
            for key, item in snapshot(vars(base)).items():
                if key[:2] == "__" and type(item) is FunctionType:
                    self.enqueue(f"{name}.{key}", item)

    def visit_instance(self, value: Any, name: str) -> None:
        if _is(value, ContextVar):
            self._place(f"{value.name}.get()", value, "get")
            return
        if _is(value, local):  # each thread has its own attributes
            self.namespace(value.__dict__, value, name)
            return
        kind = type(value)
        own = own_attributes(value)
        if own is not None and own.get("__wrapped__") is not None:  # of a transform or a decorator
            self.enqueue(name, own["__wrapped__"])
        if _home(kind).partition(".")[0] in ("fungrad", "builtins", "numpy"):
            return
        if own is not None and _is_of_package(_home(kind)):
            for attribute, held in snapshot(own).items():  # no code tells which are read
                if _is(held, (*_VALUES, np.ndarray, dict, *_LISTS, tuple)):
                    self._place(f"{name}.{attribute}", own, attribute)
            self.namespace(own, own, name)
            return
        self.enqueue(kind.__name__, kind)
        if own is not None:
            # An attribute of the class may be hidden by a later one of the instance.
            of_class = [n for n, v in snapshot(vars(kind)).items() if _is(v, _VALUES)]
            self.namespace({**dict.fromkeys(of_class), **own}, own, name)
        in_slots = slots(kind)
        if in_slots:
            self.namespace(dict.fromkeys(in_slots), value, name)


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
