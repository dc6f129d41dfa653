"""Functions of other modules that are replaced while a transform traces, and only then.

NumPy calls no protocol for `np.asarray(tracer)`, and `math.sin` has none. So the outermost trace
changes the class of such modules to one whose properties return replacements, and restores it at
the end: one assignment for each module, whose `__dict__` stays. bound_names.py finds other places
of such functions; `interception/` has the tables.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.tracing.bound_names import (
    KEPT,
    Binding,
    Names,
    bindings_in,
    bindings_of,
    exchange,
    key_of,
    named_by,
    still,
    traced_function,
)

_lock = threading.Lock()
_holders: set[Any] = set()
"""The outermost traces that run now, in all threads."""


class _Replacing:
    """The base of the classes that modules have while a transform traces."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        """Found by its name, as a module is by those picklers that take modules."""
        return importlib.import_module, (self.__name__,)  # type: ignore[attr-defined]


_modules: list[tuple[ModuleType, Any, Any]] = []
"""The modules, and for each its class while a transform traces, and its own."""
_originals: dict[Callable[..., Any], Callable[..., Any]] = {}
"""By the function that takes its place: the function that a module has."""
_replacements: dict[ModuleType, dict[str, Callable[..., Any]]] = {}
"""For each module what takes the place of its functions, by their names."""
_ours: dict[int, Callable[..., Any]] = {}
"""By the identity of the function that a module has: ours."""
_waiting: dict[str, Callable[[ModuleType], Mapping[str, Any]]] = {}
"""By the name of a module that was not imported so far: what makes its replacements."""
_packages: dict[str, list[Binding]] = {}
"""By the names given to `intercept`: what was found there."""
_found: dict[Any, tuple[list[Binding], Names]] = {}
"""By the code of functions that were traced: the places bound before that they can call by, and
the globals that the code names, which stand for something else after they are bound again.
"""
_simple: dict[int, tuple[CodeType, int, list[Binding], Names]] = {}
"""The same of functions that close over nothing, by the identity of their code, with the number of
their globals when they were read.
"""
_written: dict[tuple[int, Any], Binding] = {}
"""The places that hold functions of ours now, by the identity of what has them and their key."""


class State:
    """Whether functions are replaced at all."""

    on = True
    modules = 0
    """How many modules there were when they were last looked at."""
    paused = 0
    """How many compilers work now that want the originals."""


def _replaced(module: ModuleType, name: str, replacement: Callable[..., Any]) -> property:
    """A property that reads as our function, as long as the module has its own function there.

    A module that is imported while a transform traces finds the original, which it may bind.
    """
    names = vars(module)
    own = _originals[replacement] = names[name]
    _ours[id(own)] = replacement

    def read(module: ModuleType) -> Any:
        found = names[name]
        if found is own and sys._getframe(1).f_code.co_name != "<module>":
            return replacement
        return found

    def write(module: ModuleType, value: Any) -> None:
        names[name] = original(value)

    return property(read, write)


def register(module: ModuleType, replacements: Mapping[str, Callable[..., Any]]) -> None:
    """Names functions of a module that others shall replace while a transform traces."""
    if module not in _replacements:
        own = type(module)
        made = type(f"Replacing{own.__name__}", (_Replacing, own), {"__slots__": ()})
        _modules.append((module, made, own))
    _replacements.setdefault(module, {}).update(replacements)
    replacing = next(made for found, made, _ in _modules if found is module)
    for name, replacement in replacements.items():
        setattr(replacing, name, _replaced(module, name, replacement))


def register_methods(type_: type, replacements: Mapping[str, Callable[..., Any]]) -> None:
    """Names methods of a class that others shall replace in functions that can reach the class, or
    an instance of it.
    """
    for name, replacement in replacements.items():
        own = _originals[replacement] = vars(type_)[name]
        _ours[id(own)] = replacement


def register_later(name: str, make: Callable[[ModuleType], Mapping[str, Any]]) -> None:
    """Names a module whose functions are replaced from the first trace after its import on.

    `make(module)` gives the functions that take the place of its own, by their names.
    """
    _waiting[name] = make


def original(function: Any) -> Any:
    """The function that another of the table takes the place of; any other value as it is."""
    if not callable(function):  # data of the user's are not hashed
        return function
    try:
        return _originals.get(function, function)
    except TypeError:  # not hashable, and so none of ours
        return function


def replacements(module: ModuleType) -> Mapping[str, Callable[..., Any]]:
    """The replacements of a module's functions. Called with plain arrays, or outside of
    transforms, each of them is the original.
    """
    return _replacements.get(module, {})


def replaced(value: Any) -> tuple[Any, Any] | None:
    """A replaced function, given itself or ours, and ours; None for all else."""
    own = original(value)
    ours = _ours.get(id(own))
    return None if ours is None else (own, ours)


def intercept(package: str) -> None:
    """Lets a package's own names of replaced functions stand for fungrad's while a transform runs.

    A module that says `from math import sqrt` has a name of its own for that function. Such names,
    and closures, default values and attributes that hold one, are found by reading the function
    that is transformed, and what it calls, by the names in the code. Where they are not found
    (functions that are looked up by a string, or written in a package of Python's library) an error
    names the package to be given here, once.

    Args:
      package: the name of a package or module, as in `import`. It may be imported later.

    Raises:
      ArgumentError: where it is no such name.

    >>> import statistics
    >>> import fungrad as fg
    >>> fg.intercept("statistics")
    >>> float(fg.grad(lambda x: statistics.NormalDist(0.0, 1.0).pdf(x))(1.0))
    -0.24197072451914337
    """
    if not isinstance(package, str) or not all(map(str.isidentifier, package.split("."))):
        raise ArgumentError(
            f'fg.intercept takes the name of a package, as "scipy.stats", not {package!r}.'
        )
    with _lock:
        _packages.setdefault(package, [])
        State.modules = 0


def _look_at_modules() -> None:
    """Looks for modules that were imported since the last look."""
    State.modules = len(sys.modules)
    for name in [name for name in _waiting if sys.modules.get(name) is not None]:
        module = sys.modules[name]
        if not getattr(getattr(module, "__spec__", None), "_initializing", False):
            found = _waiting.pop(name)(module)
            if found:
                register(module, found)
    for package in _packages:
        _packages[package] = bindings_in(package, replaced)


def _known(place: Any, key: Any) -> Binding | None:
    return _written.get((id(place), key))


def _bindings_for(label: Callable[[], str], made: Any) -> list[Binding]:
    """The places bound before that the function which a label describes can call by. `made` is what
    is run, which calls it.
    """
    if type(label) is FunctionType and label.__closure__:  # mostly the user's function itself
        f = label.__closure__[0].cell_contents
        if type(f) is np.ufunc:  # asks traced arrays itself, and calls nothing else
            return []
        if type(f) is FunctionType and f.__closure__ is None:
            simple = _simple.get(id(f.__code__))
            if simple is not None and simple[1] == len(f.__globals__):
                names = simple[3]
                if not names or still(names):
                    return simple[2]
    f = traced_function(label) or traced_function(made)  # a label may be words alone
    if f is None:
        return []
    key = key_of(f)
    known = _found.get(key)
    if known is not None and (not known[1] or still(known[1])):
        found, names = known
    else:
        if len(_found) >= KEPT:
            _found.clear()
            _simple.clear()
        names = named_by(f)
        found, shared = bindings_of(f, made, replaced, _known)
        if not shared:
            return found
        _found[key] = found, names
    if len(key) == 2:
        _simple[id(key[0].code)] = key[0].code, key[1], found, names
    return found


def begin(holder: Any, run: Any) -> None:
    """Replaces the functions, if `holder` is the first outermost trace that runs, and the names of
    them that its function can call by, which `run` calls.
    """
    with _lock:
        if State.on:
            if not _holders:
                if State.modules != len(sys.modules):
                    _look_at_modules()
                for found in _packages.values():
                    _use(found)
                for module, replacing, _ in _modules:
                    module.__class__ = replacing
            found = _bindings_for(holder.label, run)
            if found:
                _use(found)
        _holders.add(holder)


def _use(bindings: list[Binding]) -> None:
    for binding in bindings:
        place, key, own, ours = binding
        _written.setdefault((id(place), key), binding)
        exchange(place, key, own, ours)


def _restore() -> None:
    for module, _, own in _modules:
        module.__class__ = own
    for place, key, own, ours in _written.values():
        exchange(place, key, ours, own)


def pause() -> None:
    """Puts the originals back for a while, for a compiler that knows functions by identity."""
    with _lock:
        State.paused += 1
        _restore()


def resume() -> None:
    """Ends a pause."""
    with _lock:
        State.paused -= 1
        if _holders and State.on and not State.paused:
            for module, replacing, _ in _modules:
                module.__class__ = replacing
            _use(list(_written.values()))


def end(holder: Any) -> None:
    """Puts the originals back, if no other outermost trace runs. May be called twice."""
    with _lock:
        _holders.discard(holder)
        if not _holders:
            _restore()
            if _written:
                _written.clear()
