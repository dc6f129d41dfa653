"""The package under the name `autograd`, for clients that import that.

While installed, a finder before Python's own returns modules of this package for `autograd` and its
submodules.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType
from typing import Any

from fungrad.compat.autograd.namespaces import complete
from fungrad.errors import FungradError
from fungrad.support.lazy import find_spec, imported, loaded, modules

NAME = "autograd"
PACKAGE = "fungrad.compat.autograd"
ELSEWHERE = {
    "numpy.numpy_jvps": "numpy.numpy_vjps",
    "numpy.numpy_wrapper": "numpy",
}
"""Modules of autograd whose names are in another module here."""


class Finder:
    """The finder and loader of `autograd` and its submodules."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module under `autograd`; None for all else."""
        if name != NAME and not name.startswith(f"{NAME}."):
            return None
        if not _is_module(_ours(name)) and self._attribute(name) is None:
            return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """None for Python's default module, which exec_module replaces."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Puts the module of this package in the place of the empty one."""
        name = module.__name__
        ours = imported(_ours(name)) if _is_module(_ours(name)) else None
        modules[name] = self._attribute(name) if ours is None else ours
        for full in [n for n in list(modules) if n.startswith(f"{PACKAGE}.")]:
            known = NAME + full.removeprefix(PACKAGE)
            if known not in modules or known == name:
                modules[known] = modules[full]
                if full.startswith(f"{PACKAGE}.numpy"):
                    complete(modules[full])

    def _attribute(self, name: str) -> Any:
        """An object that is not a module here, such as a distribution of scipy.stats."""
        parent, _, last = _ours(name).rpartition(".")
        return getattr(imported(parent), last, None) if _is_module(parent) else None


def _ours(name: str) -> str:
    """The name in this package of a module under `autograd`."""
    below = name.removeprefix(NAME).removeprefix(".")
    below = ELSEWHERE.get(below, below)
    return f"{PACKAGE}.{below}" if below else PACKAGE


def _is_module(name: str) -> bool:
    if name in modules:
        return True
    try:
        # the import of its parent may have made it, without a file
        return find_spec(name) is not None or name in modules
    except ModuleNotFoundError:  # its parent is not a package
        return False


_finder = Finder()


class Installed:
    """The result of `install`: `undo()`, or the end of a with block, uninstalls."""

    def undo(self) -> None:
        """Takes the name `autograd` back; see `uninstall`."""
        uninstall()

    def __enter__(self) -> Installed:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        uninstall()


def install() -> Installed:
    """Makes `import autograd` import this package, for packages written for autograd.

    Call it before importing such a package. The real autograd is not loaded, and need not be
    installed.

    Returns:
      An object whose `undo()` uninstalls; as a context manager it does so at the end of the block.
      Modules imported meanwhile keep their imports.

    Raises:
      FungradError: if the real autograd was imported before.

    >>> with install():
    ...     import autograd
    >>> autograd.__name__
    'fungrad.compat.autograd'
    """
    there = loaded(NAME)
    if there is not None and there is not loaded(PACKAGE):
        raise FungradError(
            f"autograd was imported before, from {getattr(there, '__file__', 'elsewhere')}, and "
            "packages hold its functions. Call fungrad.compat.autograd.install() first in the "
            "program, before the packages that import autograd."
        )
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    return Installed()


def uninstall() -> None:
    """Ends `install`: `import autograd` finds the real one again, or nothing.

    Packages imported meanwhile keep their functions.

    >>> uninstall()
    """
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
        for name in [n for n in list(modules) if n == NAME or n.startswith(f"{NAME}.")]:
            del modules[name]


__all__ = ["Installed", "install", "uninstall"]
