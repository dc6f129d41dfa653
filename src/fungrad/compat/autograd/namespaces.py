"""Modules with the names of other modules, looked up at first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from fungrad.support.lazy import imported, modules
from fungrad.tracing import interception


def names_of(
    into: dict[str, Any], original: str, taken: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a module with the names of another.

    A function that transforms replace is found as its replacement, which takes traced values and
    passes others on. Names found are stored in the module.

    Args:
      into: the names of the module.
      original: the module whose names it has.
      taken: its own submodules, imported at first use.
    """
    package: str = into["__name__"]

    def find(name: str) -> Any:
        if name in taken:
            return imported(f"{package}.{name}")
        module = imported(original)
        if name == "__all__":  # of `import *`
            return [public for public in dir(module) if not public.startswith("_")]
        if name.startswith("__") and name != "__version__":
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        replaced = interception.replacements(module)
        into[name] = replaced[name] if name in replaced else getattr(module, name)
        return into[name]

    def names() -> list[str]:
        return sorted({*into, *taken, *dir(imported(original))})

    return find, names


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
        find, names = names_of(vars(module), original)
        vars(module).update(__getattr__=find, __dir__=names, __path__=[])
        vars(modules[package])[name] = module


__all__ = ["add_modules", "names_of"]
