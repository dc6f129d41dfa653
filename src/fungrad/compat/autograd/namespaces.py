"""Modules with the names of other modules, looked up at first use."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from fungrad.support.lazy import imported, modules
from fungrad.tracing import interception


def names_of(module: ModuleType, original: str, taken: Sequence[str] = ()) -> None:
    """Gives a module the names of another, looked up at first use and then stored in it.

    A function that transforms replace is found as its replacement, which takes traced values and
    passes others on. The lookup is of the module's class, so that its `__dict__` has names alone.

    Args:
      module: the module, which may be one that is being imported.
      original: the name of the other.
      taken: its own submodules, imported at first use.
    """
    into = vars(module)
    package: str = module.__name__

    def find(_: Any, name: str) -> Any:
        if name in taken:
            return imported(f"{package}.{name}")
        namespace = imported(original)
        if name == "__all__":  # of `import *`
            return [public for public in dir(namespace) if not public.startswith("_")]
        if name.startswith("__") and name != "__version__":
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        replaced = interception.replacements(namespace)
        into[name] = replaced[name] if name in replaced else getattr(namespace, name)
        return into[name]

    def names(_: Any) -> list[str]:
        return sorted({*into, *taken, *dir(imported(original))})

    members = {"__getattr__": find, "__dir__": names}
    module.__class__ = type("Namespace", (Namespace,), members)


class Namespace(ModuleType):
    """A module with the names of another: see `names_of`."""

    def __getattr__(self, name: str) -> Any:  # of each module its own
        raise AttributeError(name)


def complete(module: ModuleType) -> None:
    """Stores all public names of a module with the names of another, for clients that read its
    `__dict__`.
    """
    if isinstance(module, Namespace):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # names that NumPy has deprecated
            for name in module.__all__:
                getattr(module, name)


def add_modules(package: str, originals: Mapping[str, str]) -> None:
    """Adds modules without a file to a package: each has the names of another module.

    An import of `package.name` finds it, once the package is imported. It is a package itself:
    under `install()` a name in it can be imported as a module.

    Args:
      package: the full name of the package, which is being imported.
      originals: the names of the new modules, with the module whose names each has.
    """
    for name, original in originals.items():
        full = f"{package}.{name}"
        module = modules[full] = ModuleType(full, f"The names of {original}.")
        module.__path__ = []
        names_of(module, original)
        vars(modules[package])[name] = module


__all__ = ["Namespace", "add_modules", "complete", "names_of"]
