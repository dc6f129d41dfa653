"""Names that modules bound to replaced functions before (`from math import sqrt`).

A function that is to be traced is read, and what it can call, by the names in the code: functions,
modules, classes and instances that these names have in globals, closures and attributes. A global
name, or key of a dict, found on the way that stands for a replaced function is written to while the
transform traces.
That is done once for a function. Code of NumPy, of fungrad and of Python's library is not read.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

Binding = tuple[dict[Any, Any], Any, Any, Any]
"""The globals of a module, or a table, a name in it, the function that it stands for, and ours."""
Replaced = Callable[[Any], tuple[Any, Any] | None]
"""Gives a replaced function and ours for either of them, None for all else."""

UNREAD = frozenset(
    [*sys.stdlib_module_names, "fungrad", "numpy", "numba", "jax", "torch", "tensorflow",
     "matplotlib", "pandas", "xarray", "pytest", "_pytest", "hypothesis", "IPython"]
    ) - {"__main__"}  # fmt: skip
"""The packages whose code is not read: it calls nothing that takes a traced value to be replaced,
or has ways of its own."""
MOST = 4_000
"""The most functions that are read."""
KEPT = 512
"""The most functions whose names are remembered."""


def _read_by(module: Any) -> bool:
    return str(module).partition(".")[0] not in UNREAD


class _Reader:
    """Reads what a function can call."""

    def __init__(self, replaced: Replaced) -> None:
        self._replaced = replaced
        self._names: set[str] = set()
        """All names in the code read so far."""
        self._spaces: list[Any] = []
        """What has attributes: the dicts of modules, classes and instances."""
        self._seen: dict[int, Any] = {}
        self._waiting: list[Any] = []
        self.bindings: dict[tuple[int, Any], Binding] = {}

    def read(self, f: Any) -> None:
        """Reads a function and all that is reached from it."""
        self._waiting.append(f)
        while self._waiting and len(self._seen) < MOST:
            self._visit(self._waiting.pop())

    def _visit(self, value: Any) -> None:
        if id(value) in self._seen or value is None:
            return
        self._seen[id(value)] = value
        kind = type(value)
        if kind is FunctionType:
            if _read_by(value.__module__):
                self._code(value.__code__, value.__globals__)
            self._waiting += _contents(value.__closure__ or ())
            self._waiting += _defaults(value)
            self._waiting.append(getattr(value, "__wrapped__", None))
        elif kind is MethodType:
            self._waiting += value.__func__, value.__self__
        elif kind in (staticmethod, classmethod):
            self._waiting.append(value.__func__)
        elif kind is property:
            self._waiting += value.fget, value.fset
        elif isinstance(value, ModuleType):
            if _read_by(value.__name__):
                self._space(vars(value))
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, functools.partial):
            self._waiting += value.func, *value.args
        elif kind in (list, tuple, set, frozenset):
            self._waiting += filter(callable, value)
        elif kind is dict:
            for key, item in list(value.items()):
                if callable(item):
                    self._bound(value, key)
        else:
            self._instance(value)

    def _instance(self, value: Any) -> None:
        own = _attribute(value, "__dict__")
        if not _read_by(type(value).__module__):  # what a verb of fungrad made of a function
            wrapped = own.get("__wrapped__") if type(own) is dict else None
            self._waiting += wrapped, _attribute(value, "func")
            return
        self._waiting.append(type(value))
        if type(own) is dict:
            self._space(own)

    def _class(self, value: type) -> None:
        for base in value.__mro__:
            if (base is not value and id(base) in self._seen) or not _read_by(base.__module__):
                continue
            self._seen[id(base)] = base
            own = vars(base)
            self._space(own)  # and what is called without being named:
            self._waiting += [own[n] for n in own if n[:2] == "__" and type(own[n]) is FunctionType]

    def _space(self, space: Any) -> None:
        self._spaces.append(space)
        self._waiting += [space[name] for name in self._names & space.keys()]

    def _code(self, code: CodeType, names: dict[str, Any]) -> None:
        new = set(code.co_names) - self._names
        self._names |= new
        for space in self._spaces if new else ():
            self._waiting += [space[name] for name in new & space.keys()]
        for name in code.co_names:
            self._global(names, name)
        for constant in code.co_consts:
            if type(constant) is CodeType:
                self._code(constant, names)

    def _global(self, names: dict[str, Any], name: str) -> None:
        if name in names:
            self._bound(names, name)

    def _bound(self, names: dict[Any, Any], name: Any) -> None:
        found = self._replaced(names[name])
        if found is None:
            self._waiting.append(names[name])
        else:
            self.bindings[id(names), name] = names, name, *found


def bindings_of(f: Any, replaced: Replaced) -> list[Binding]:
    """The global names of replaced functions that a function can call by."""
    reader = _Reader(replaced)
    reader.read(f)
    return list(reader.bindings.values())


def bindings_in(package: str, replaced: Replaced) -> list[Binding]:
    """The global names of replaced functions in all modules of a package that are imported."""
    found: list[Binding] = []
    inside = f"{package}."
    for name, module in list(sys.modules.items()):
        if (name == package or name.startswith(inside)) and isinstance(module, ModuleType):
            names = vars(module)
            for key, value in list(names.items()):
                pair = replaced(value)
                if pair is not None:
                    found.append((names, key, *pair))
    return found


def key_of(f: Any) -> tuple[Any, ...]:
    """What two functions share that call the same: the code, and that of what they close over."""
    if type(f) is not FunctionType:
        return (_kind_of(f),)
    cells = f.__closure__
    held = _defaults(f) if cells is None else (*_defaults(f), *_contents(cells))
    return One(f.__code__), len(f.__globals__), *map(_kind_of, held)


class One:
    """A code object by its identity: two are equal as soon as they do the same."""

    __slots__ = ("code",)

    def __init__(self, code: CodeType) -> None:
        self.code = code

    def __eq__(self, other: object) -> bool:
        return type(other) is One and self.code is other.code

    def __hash__(self) -> int:
        return id(self.code)


_PLAIN = frozenset([float, int, bool, str, tuple, list, dict, type(None), np.ndarray, np.float64])
"""Classes of values that call nothing."""


def _kind_of(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return kind
    if kind is FunctionType:
        return One(value.__code__)
    if kind is MethodType:
        return _kind_of(value.__func__), _kind_of(value.__self__)
    if kind is ModuleType or issubclass(kind, type):
        return value
    if issubclass(kind, functools.partial):
        return _kind_of(value.func)
    own = _attribute(value, "__dict__")
    if type(own) is dict and callable(value):
        return kind, *[_kind_of(v) for v in own.values() if type(v) in (FunctionType, kind)]
    return kind


def _attribute(value: Any, name: str) -> Any:
    """An attribute, or None: without the `__getattr__` of a class, which may import a module."""
    if type(value) is MethodType:
        value = value.__func__
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return None


def _defaults(f: FunctionType) -> tuple[Any, ...]:
    """The default values of a function's arguments."""
    named = f.__kwdefaults__
    return (f.__defaults__ or ()) + (tuple(named.values()) if named else ())


def _contents(cells: Any) -> list[Any]:
    try:
        return [cell.cell_contents for cell in cells]
    except ValueError:  # one is not filled yet
        return []


def traced_function(label: Any) -> Any:
    """The user's function that a trace runs: what its label, which describes it, closes over."""
    if type(label) is FunctionType and label.__closure__:
        first = label.__closure__[0].cell_contents
        if type(first) is FunctionType and "__wrapped__" not in first.__dict__:
            home = first.__module__
            if home is None or home[:8] != "fungrad.":
                return first
    return _users(label)


def _users(f: Any) -> Any:
    """The function of the user that one of fungrad's is made of; None where there is none."""
    while (wrapped := _attribute(f, "__wrapped__")) is not None:
        f = wrapped
    if type(f) not in (FunctionType, MethodType) or not str(f.__module__).startswith("fungrad."):
        return f
    if type(f) is MethodType:
        return _users(_attribute(f.__self__, "f"))
    for value in _contents(f.__closure__ or ()):
        if callable(value):
            found = _users(value)
            if found is not None:
                return found
    return None


__all__ = ["KEPT", "Binding", "bindings_in", "bindings_of", "key_of", "traced_function"]
