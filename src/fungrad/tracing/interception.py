"""Floor 2: functions of other modules that are replaced while a transform traces, and only then.

NumPy calls no protocol for `np.asarray(tracer)`, and `math.sin` none at all. So the outermost trace
gives such modules another class when it begins to run the user's function, whose properties take
the place of the names, and gives them their own back when it ends. One assignment each way, however
many names there are; a module's `__dict__` is left alone. Knows modules and functions;
`numpy/intercepted.py` has the table.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

_lock = threading.Lock()
_holders: set[Any] = set()
"""The outermost traces that run now, in all threads."""


class _Replacing:
    """What the class of a module has while a transform traces."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        """Found by its name, as a module is by those picklers that take modules."""
        return importlib.import_module, (self.__name__,)  # type: ignore[attr-defined]


_classes: dict[ModuleType, tuple[type, type]] = {}
"""For each module its class while a transform traces, and its own."""
_originals: dict[Callable[..., Any], Callable[..., Any]] = {}
"""By the function that takes its place: the function that a module has."""
_replacements: dict[ModuleType, dict[str, Callable[..., Any]]] = {}


class State:
    """Whether functions are replaced at all."""

    on = True


def _replaced(module: ModuleType, name: str, replacement: Callable[..., Any]) -> property:
    """What reads as a function of ours, as long as the module has its own function there."""
    names = vars(module)
    own = _originals[replacement] = names[name]

    def read(module: ModuleType) -> Any:
        found = names[name]
        return replacement if found is own else found

    def write(module: ModuleType, value: Any) -> None:
        names[name] = original(value)

    return property(read, write)


def register(module: ModuleType, replacements: Mapping[str, Callable[..., Any]]) -> None:
    """Names functions of a module that others shall replace while a transform traces."""
    if module not in _classes:
        own = type(module)
        name = f"Replacing{own.__name__}"
        _classes[module] = type(name, (_Replacing, own), {"__slots__": ()}), own
    _replacements.setdefault(module, {}).update(replacements)
    for name, replacement in replacements.items():
        setattr(_classes[module][0], name, _replaced(module, name, replacement))


def original(function: Any) -> Any:
    """The function that another of the table takes the place of; any other as it is."""
    try:
        return _originals.get(function, function)
    except TypeError:  # not hashable, and so none of ours
        return function


def replacements(module: ModuleType) -> Mapping[str, Callable[..., Any]]:
    """What takes the place of a module's functions. Called with plain arrays, or outside of
    transforms, each of them is the original.
    """
    return _replacements.get(module, {})


def begin(holder: Any) -> None:
    """Replaces the functions, if `holder` is the first outermost trace that runs."""
    with _lock:
        if not _holders and State.on:
            for module, (replacing, _) in _classes.items():
                module.__class__ = replacing
        _holders.add(holder)


def end(holder: Any) -> None:
    """Puts the originals back, if no other outermost trace runs. May be called twice."""
    with _lock:
        _holders.discard(holder)
        if not _holders:
            for module, (_, own) in _classes.items():
                module.__class__ = own
