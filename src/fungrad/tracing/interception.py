"""Floor 2: functions of other modules that are replaced while a transform traces, and only then.

NumPy calls no protocol for `np.asarray(tracer)`. So the outermost trace puts functions of ours in
the place of such names when it begins to run the user's function, and puts the originals back when
it ends. Knows modules and functions; `numpy/intercepted.py` has the table.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

_lock = threading.Lock()
_holders: set[Any] = set()
"""The outermost traces that run now, in all threads."""


class _Table:
    """The names of one module: the functions that it has, and those that take their place."""

    __slots__ = ("names", "originals", "replacements")

    def __init__(self, module: ModuleType) -> None:
        self.names = vars(module)
        self.originals: dict[str, Callable[..., Any]] = {}
        self.replacements: dict[str, Callable[..., Any]] = {}


_tables: dict[ModuleType, _Table] = {}


class State:
    """Whether functions are replaced at all."""

    on = True


def register(module: ModuleType, replacements: Mapping[str, Callable[..., Any]]) -> None:
    """Names functions of a module that others shall replace while a transform traces."""
    table = _tables.get(module) or _tables.setdefault(module, _Table(module))
    table.originals.update({name: table.names[name] for name in replacements})
    table.replacements.update(replacements)


def original(function: Any) -> Any:
    """The function that another of the table takes the place of; any other as it is."""
    for table in _tables.values():
        for name, replacement in table.replacements.items():
            if replacement is function:
                return table.originals[name]
    return function


def begin(holder: Any) -> None:
    """Replaces the functions, if `holder` is the first outermost trace that runs."""
    with _lock:
        if not _holders and State.on:
            for table in _tables.values():
                table.names.update(table.replacements)
        _holders.add(holder)


def end(holder: Any) -> None:
    """Puts the originals back, if no other outermost trace runs. May be called twice."""
    with _lock:
        _holders.discard(holder)
        if not _holders:
            for table in _tables.values():
                table.names.update(table.originals)
