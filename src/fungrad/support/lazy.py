"""Deferred imports, and Record, a faster NamedTuple.

The time of a process's first gradient includes imports. Code that only some programs need (loops,
matrices of diagonals, LAPACK) is referred to by its module's name, and imported with the first
Graph that has such primitives. NumPy's functions come with the first trace, the optimiser and the
backend with the first compiled Graph.

Record is typing's NamedTuple, made in a third of the time. typing compiles the annotations of every
field, 0.3 ms for a class, and two dozen are made before a first gradient. collections.namedtuple
ignores annotations.
"""

from __future__ import annotations

import importlib
import sys
from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from pathlib import Path
    from types import ModuleType
    from typing import NamedTuple as Record
else:

    class _Named(type):
        """Makes a subclass of Record a named tuple."""

        def __new__(cls, name: str, bases: Any, body: dict[str, Any]) -> type:
            fields = body["__annotations__"]
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            for key, member in body.items():
                if key not in ("__module__", "__qualname__"):
                    setattr(made, key, member)
            return made

    Record = type.__new__(_Named, "Record", (), {"__doc__": "A tuple whose fields have names."})


class ByPrimitive(dict[Any, Any]):
    """Rules by primitive, some of them in modules that are imported when needed.

    Args:
      modules: by the module of some primitives, the module whose `RULES` are theirs.
      rules: the rules that need no import.
    """

    def __init__(self, modules: Mapping[str, str], rules: Mapping[Any, Any] | None = None) -> None:
        super().__init__(rules or {})
        self._modules = modules

    def of(self, primitive: Any) -> Any:
        """The rule for a primitive, or None."""
        module = self._modules.get(primitive.module)
        if module is not None and primitive not in self:
            self.update(imported(module).RULES)
        return self.get(primitive)


class Module:
    """A module that is imported when one of its names is first used.

    Args:
      name: its full name.
    """

    __slots__ = ("_module",)

    def __init__(self, name: str) -> None:
        self._module = name

    def load(self) -> None:
        """Imports it now."""
        imported(self._module)

    def __getattr__(self, name: str) -> Any:
        return getattr(imported(self._module), name)


def imported(name: str) -> ModuleType:
    """The module of a full name, imported now if it was not. tests/test_layering.py reads the
    names: no other file imports by a string, or looks up modules. A profile function that says so
    by its attribute `sees_imports` does not see the import.
    """
    observer = sys.getprofile()
    if getattr(observer, "sees_imports", True):
        return importlib.import_module(name)
    sys.setprofile(None)
    try:
        return importlib.import_module(name)
    finally:
        sys.setprofile(observer)


modules = sys.modules
"""The modules that are imported, by name."""


def find_spec(name: str) -> ModuleSpec | None:
    """What can be imported by a name, or None."""
    return imported("importlib.util").find_spec(name)  # type: ignore[no-any-return]


def module_of_file(name: str, path: Path) -> tuple[ModuleType, Callable[[], None]]:
    """A new module of a name, among the imported ones, and a function that runs its file."""
    util = imported("importlib.util")
    spec = util.spec_from_file_location(name, path)
    module = modules[name] = util.module_from_spec(spec)
    return module, lambda: spec.loader.exec_module(module)


def loaded(name: str) -> Any:
    """A module, if its import has ended; else None."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return None if getattr(spec, "_initializing", False) else module


__all__ = [
    "ByPrimitive", "Module", "Record", "find_spec", "imported", "loaded", "module_of_file",
    "modules",
]  # fmt: skip
