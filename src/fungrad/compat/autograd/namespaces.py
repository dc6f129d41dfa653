"""Floor 8: modules that have the names of others, found when they are first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.tracing import interception


def names_of(
    into: dict[str, Any], original: str, *ours: str, taken: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a module with the names of another.

    A name is looked for in modules of fungrad, then among the functions that take the place of the
    original module's under transforms, then there. What is found is put into the module.

    Args:
      into: the names of the module.
      original: the module whose names it has.
      *ours: modules whose functions take traced values.
      taken: submodules of its own, which are imported when asked for.
    """
    package: str = into["__name__"]

    def find(name: str) -> Any:
        if name in taken:
            return importlib.import_module(f"{package}.{name}")
        module = importlib.import_module(original)
        if name == "__all__":  # of `import *`
            return [public for public in dir(module) if not public.startswith("_")]
        if name.startswith("__"):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        for other in ours:
            found = vars(importlib.import_module(other))
            if name in found:
                return _kept(name, found[name])
        replaced = interception.replacements(module)
        return _kept(name, replaced[name] if name in replaced else getattr(module, name))

    def _kept(name: str, value: Any) -> Any:
        into[name] = value
        return value

    def names() -> list[str]:
        return sorted({*into, *taken, *dir(importlib.import_module(original))})

    return find, names


__all__ = ["names_of"]
