"""Functions of upper folders that lower ones call.

A lower folder declares a table of them, and upper folders fill it when they are imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fungrad.support.lazy import Module


class Hooks:
    """A table of functions; the annotations of a subclass are their names.

    Attributes:
      installer: the module that installs all of them, imported when one is first missing; None if
        an upper folder installs them in any case.
      complete: whether it has installed them.
    """

    installer: Module | None = None
    complete = False

    def __getattr__(self, name: str) -> Any:
        known = name in type(self).__annotations__
        if not known or self.installer is None or self.complete:
            raise AttributeError(name)
        self.installer.load()
        return object.__getattribute__(self, name)
