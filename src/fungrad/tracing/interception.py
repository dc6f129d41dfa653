"""Functions of other modules that are replaced while a transform traces, and only then.

NumPy calls no protocol for `np.asarray(tracer)`, and `math.sin` has none. So the outermost trace
changes the class of such modules to one whose properties return replacements, and restores it at
the end: one assignment for each module, whose `__dict__` stays. bound_names.py finds other bindings
that hold such functions; `interception/` has the tables.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import opcode
import sys
import time
from _thread import get_ident
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FrameType, FunctionType, MappingProxyType, ModuleType
from typing import Any

import numpy as np
from numpy import ndarray

from fungrad.errors import ArgumentError
from fungrad.support import forks
from fungrad.support.hooks import Hooks
from fungrad.support.lazy import imported, loaded, modules
from fungrad.tracing.bound_names import (
    CONTAINERS,
    KEPT,
    PLAIN,
    Binding,
    Watched,
    bindings_in,
    bindings_of,
    codes_of,
    compare_and_set,
    key_of,
    leads_on,
    traced_function,
)
from fungrad.tracing.ways_out import call_at

_lock = forks.lock()
holders: dict[Any, int] = {}
"""The outermost traces that run now, each with its thread."""


class _Replacing:
    """The base of the classes that modules have while a transform traces."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        """Pickles the module by its name, as picklers that take modules do."""
        return imported, (self.__name__,)  # type: ignore[attr-defined]


_modules: list[tuple[ModuleType, Any, Any]] = []
"""Each module with replaced functions, its class while a transform traces, and its own class."""
_originals: dict[Callable[..., Any], Callable[..., Any]] = {}
"""The original function, by its replacement."""
_replacements: dict[ModuleType, dict[str, Callable[..., Any]]] = {}
"""For each module the replacements of its functions, by name."""
_ours: dict[int, Callable[..., Any]] = {}
"""The replacement, by the identity of the original function."""
_special: list[tuple[type, str, Callable[..., Any], Any]] = []
"""Classes with replaced special methods: the name, the replacement, the class's own or None."""
_waiting: dict[str, Callable[[ModuleType], Mapping[str, Any]]] = {}
"""By the name of a module that is not imported yet: the function that makes its replacements."""
_packages: dict[str, list[Binding]] = {}
"""By the names given to `intercept`: the bindings found there."""
_found: dict[Any, tuple[list[Binding], Watched]] = {}
"""By the code of functions that were traced: the bindings through which they can call replaced
functions, and the names that the code reads. When one of these is bound to other code, all is read
again.
"""
_simple: dict[int, tuple[CodeType, dict[str, Any], list[Binding], Watched]] = {}
"""The same for functions without a closure, by the identity of their code, with their globals."""
_written: dict[tuple[int, Any], Binding] = {}
"""The bindings of replacements now, by the identity of their owner and their key."""


class State:
    """Whether functions are replaced at all."""

    on = True
    modules = 0
    """The number of imported modules when they were last examined."""
    paused = 0
    """How many compilers that need the originals everywhere run now."""


class Present(Hooks):
    """The current trace, and the one outside of all transforms."""

    current: Callable[[], Any]
    lowest: Any


present = Present()


LOADS = frozenset(
    [opcode.opmap[n] for n in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM") if n in opcode.opmap]
)
"""The instructions of Python code that load an attribute."""


def _is_of_compiled_code(frame: FrameType) -> bool:
    """Whether an attribute that is read now is read by compiled code that a frame calls. Compiled
    code has no frame: the current instruction of this one is its call, no load, nor a call of
    getattr.
    """
    return frame.f_code.co_code[frame.f_lasti] not in LOADS and not asks_by_name(frame)


_ASKING = {"getattr", "hasattr"}


def asks_by_name(frame: FrameType) -> bool:
    """Whether the current instruction of a frame is a call of getattr or hasattr."""
    code = frame.f_code
    return not _ASKING.isdisjoint(code.co_names) and _is_getattr(code, frame.f_lasti)


@functools.lru_cache(KEPT)
def _is_getattr(code: CodeType, at: int) -> bool:
    """The same, by the source: False if that is not known."""
    call = call_at(code, at)
    return call is not None and getattr(call.func, "id", None) in _ASKING


COMPILERS = frozenset(["numba", "llvmlite"])
"""Packages that identify functions by identity: their code reads the originals."""
_of_compilers: dict[str, bool] = {}
"""By file name, whether its code is a compiler's."""


def _is_of_compiler(frame: FrameType) -> bool:
    """Whether the code of a frame is a compiler's. At its first import compilers are looked at, so
    that a pause can begin within the running trace.
    """
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    found = _of_compilers[frame.f_code.co_filename] = package in COMPILERS
    if found:
        with _lock:
            _look_at_modules()
    return found


class _Replaced:
    """An attribute of a module that is a replacement, as long as the module has its own function
    there; for compiled code another one, if there is one.

    It is so for code that a transform traces alone: other threads read the originals, and so does a
    module that is imported meanwhile, which may bind them.
    """

    __slots__ = ("compiled", "name", "names", "own", "replacement")

    def __init__(
        self, module: ModuleType, name: str, replacement: Any, compiled: Callable[..., Any] | None
    ) -> None:
        self.names = vars(module)
        self.name = name
        self.own = own = _originals[replacement] = self.names[name]
        self.replacement = replacement
        self.compiled = compiled
        _ours[id(own)] = replacement

    def __get__(self, module: Any, owner: Any) -> Any:
        if module is None:
            return self
        found = self.names[self.name]
        if found is not self.own or present.current() is present.lowest:
            return found
        frame = sys._getframe(1)
        code = frame.f_code
        if code.co_name == "<module>":
            return found
        known = _of_compilers.get(code.co_filename)
        if _is_of_compiler(frame) if known is None else known:
            return found
        if self.compiled is not None and _is_of_compiled_code(frame):
            return self.compiled
        return self.replacement

    def __set__(self, module: Any, value: Any) -> None:
        self.names[self.name] = original(value)


class _ReplacedUfunc(_Replaced):
    """A ufunc of a module that stands behind a replacement while some functions are traced
    (stand_ins.py), for other packages' code and the user's alone.
    """

    __slots__ = ()

    def __init__(self, module: ModuleType, name: str, replacement: Any) -> None:
        self.names = vars(module)
        self.name = name
        self.own = self.names[name]
        self.replacement = replacement
        self.compiled = None

    def __get__(self, module: Any, owner: Any) -> Any:
        if module is None:
            return self
        found = self.names[self.name]
        if found is not self.own or present.current() is present.lowest:
            return found
        frame = sys._getframe(1)
        home = str(frame.f_globals.get("__name__")).partition(".")[0]
        if home in _WITH_UFUNCS or frame.f_code.co_name == "<module>":
            return found
        return self.replacement


_WITH_UFUNCS = frozenset(["fungrad", "numpy", *COMPILERS])
"""Packages whose code gets the ufuncs themselves."""


PairOf = Callable[[Any], tuple[Any, Any] | None]
"""Returns the pair of an array and its copy; None for other values."""
_shadowed: dict[Any, Callable[[Any], PairOf]] = {}
"""By the code of a function (`codes_of`) that writes traced values into arrays from outside: makes,
for a trace, the copies.
"""
_shadows: dict[Any, list[Binding]] = {}
"""By outermost trace: the bindings to copies of arrays until its end."""
copies: dict[int, PairOf] = {}
"""By thread, for arguments: makes the copies of arrays, or their stand-ins (stand_ins.py)."""


def take_shadows(label: Callable[[], str], made: Any, make: Callable[[Any], PairOf]) -> bool:
    """Lets a function's traces write into copies of the arrays that it finds, from the next one on.
    Returns False if the last one did so, or if they cannot.

    Args:
      label: describes the function. made: the function that fungrad derived from it, and calls.
      make: makes, for an outermost trace, the function that returns an array's copy.
    """
    f = traced_function(label) or traced_function(made)
    with _lock:
        if f is None or not State.on:
            return False
        if codes_of(f) in _shadowed:  # maybe since another thread has met the same write
            return get_ident() not in _had
        if len(_shadowed) >= KEPT:
            _shadowed.clear()
        _shadowed[codes_of(f)] = make
    return True


def has_shadows(f: Any) -> bool:
    """Whether the traces of a user's function write into copies of arrays."""
    return bool(_shadowed) and codes_of(traced_function(f)) in _shadowed


def _maker(holder: Any, run: Any) -> Callable[[Any], PairOf] | None:
    """What makes the copies for the function of a trace; None if it needs none."""
    f = traced_function(holder.label) or traced_function(run)
    return None if f is None else _shadowed.get(codes_of(f))


def _use_shadows(holder: Any, run: Any, make: Callable[[Any], PairOf]) -> None:
    """Binds copies of arrays where the function of a trace finds them."""
    f = traced_function(holder.label) or traced_function(run)
    copies[get_ident()] = pair_of = make(holder)
    _shadows[holder] = bindings_of(f, run, pair_of, _unknown, _HOLD_ARRAYS, None, len(_written))[0]
    for binding in _shadows[holder]:
        compare_and_set(*binding)


_had: set[int] = set()
"""The threads whose last outermost trace had shadows."""
_alone: set[Any] = set()
"""Outermost traces of functions that need shadows: no trace of another thread runs beside them,
since it would find the shadows, too.
"""
_asking: set[int] = set()
"""The threads that wait until they are alone; no other begins a trace before."""
_overdue: set[Any] = set()
"""Outermost traces that others have waited for too long."""
PATIENCE = 10.0
"""Seconds in which no trace ends, after which a trace waits no longer: the others may wait for what
its thread will do.
"""


def _in_the_way(alone: bool) -> list[Any]:
    """What a new outermost trace has to wait for: traces of other threads, and threads."""
    me = get_ident()
    if me in holders.values():  # its thread has waited
        return []
    found = [h for h in (holders if alone else _alone) if h.running and h not in _overdue]
    return found if alone else [*found, *(_asking - {me} - _overdue)]


def _wait(alone: bool) -> None:
    """Waits until nothing is in the way."""
    last: list[Any] = []
    deadline = pause = 0.0
    try:
        if alone:
            _asking.add(get_ident())
        while True:
            with _lock:
                found = _in_the_way(alone)
                if found == last and time.monotonic() > deadline:
                    _overdue.update(found)
                    found = []
                if not found:
                    return
            if found != last:
                last, deadline, pause = found, time.monotonic() + PATIENCE, 1e-4
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
    finally:
        _asking.discard(get_ident())
        _overdue.discard(get_ident())


def _end_shadows(holder: Any) -> None:
    """Binds the arrays again."""
    for owner, key, own, ours in _shadows.get(holder, ()):
        compare_and_set(owner, key, ours, own)
    if holder in _shadows:
        copies.pop(holders.get(holder, get_ident()), None)
        del _shadows[holder]


def _unknown(owner: Any, key: Any) -> None:
    return None


_HOLD_ARRAYS = frozenset([ndarray, *CONTAINERS])
"""The classes of values that are arrays, or hold some."""


def register(
    module: ModuleType,
    replacements: Mapping[str, Callable[..., Any]],
    compiled: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
) -> None:
    """Registers replacements of a module's functions while a transform traces.

    Args:
      module: the module.
      replacements: by the names of the functions.
      compiled: those that compiled code gets, where they differ.
    """
    attributes = {
        name: _Replaced(module, name, replacement, compiled.get(name))
        for name, replacement in replacements.items()
    }
    if module not in _replacements:
        own = type(module)
        names = {"__slots__": (), **attributes}
        _modules.append((module, type(f"Replacing{own.__name__}", (_Replacing, own), names), own))
    else:
        replacing = next(made for found, made, _ in _modules if found is module)
        for name, found in attributes.items():
            setattr(replacing, name, found)
    _replacements.setdefault(module, {}).update(replacements)


class _Called:
    """A class of a module that is another callable where code calls it by the module's name,
    `np.float64(x)`; everywhere else, `isinstance(x, np.float64)`, it is itself.
    """

    __slots__ = ("call", "name", "names")

    def __init__(self, module: ModuleType, name: str, call: Callable[..., Any]) -> None:
        self.names = vars(module)
        self.name = name
        self.call = call

    def __get__(self, module: Any, owner: Any) -> Any:
        if module is None:
            return self
        found = self.names[self.name]
        if present.current() is present.lowest or not _is_called(sys._getframe(1)):
            return found
        return self.call

    def __set__(self, module: Any, value: Any) -> None:
        self.names[self.name] = value


def _is_called(frame: FrameType) -> bool:
    """Whether the attribute that a frame loads now will be called, `np.float64(x)`. A call pushes
    NULL: with the load of the attribute, as that of a method, before the load of the module, or,
    since Python 3.13, after the attribute.
    """
    code, at = frame.f_code.co_code, frame.f_lasti
    if code[at] == _LOAD_METHOD:
        return True
    if code[at] != _LOAD_ATTR:
        return False
    if sys.version_info >= (3, 12) and code[at + 1] & 1:
        return True
    before = neighbour(code, at, -2)
    if code[before] == _LOAD_GLOBAL and code[before + 1] & 1:
        return True
    beside = neighbour(code, at, 2) if sys.version_info >= (3, 13) else neighbour(code, before, -2)
    return code[beside] == _PUSH_NULL


def neighbour(code: bytes, at: int, step: int) -> int:
    """The index of the instruction before or after another; caches are none."""
    at += step
    while code[at] == 0 and at > 0:
        at += step
    return at


_LOAD_METHOD = opcode.opmap.get("LOAD_METHOD", -1)
_LOAD_ATTR, _LOAD_GLOBAL = opcode.opmap["LOAD_ATTR"], opcode.opmap["LOAD_GLOBAL"]
_PUSH_NULL = opcode.opmap["PUSH_NULL"]


def register_calls(module: ModuleType, calls: Mapping[str, Callable[..., Any]]) -> None:
    """Registers callables in place of a module's classes where code calls these by the module's
    name. The module has replaced functions already.
    """
    replacing = next(made for found, made, _ in _modules if found is module)
    for name, call in calls.items():
        setattr(replacing, name, _Called(module, name, call))


def register_methods(type_: type, replacements: Mapping[str, Callable[..., Any]]) -> None:
    """Registers replacements of a class's methods, for functions that can reach the class or an
    instance of it.
    """
    for name, replacement in replacements.items():
        own = _originals[replacement] = vars(type_)[name]
        _ours[id(own)] = replacement


def register_special_method(type_: type, name: str, replacement: Callable[..., Any]) -> None:
    """Registers a replacement of a special method, which Python looks up in the class: it is set
    while a transform traces, and calls the original for plain values.
    """
    _special.append((type_, name, replacement, vars(type_).get(name)))


def register_later(name: str, make: Callable[[ModuleType], Mapping[str, Any]]) -> None:
    """Registers a module whose functions are replaced from the first trace after its import on.

    `make(module)` returns the replacements, by name.
    """
    _waiting[name] = make


def original(function: Any) -> Any:
    """The original of a replacement; any other value itself."""
    if not callable(function):  # does not hash the user's data
        return function
    try:
        return _originals.get(function, function)
    except TypeError:  # not hashable, and so no replacement
        return function


def replacements(module: ModuleType) -> Mapping[str, Callable[..., Any]]:
    """The replacements of a module's functions. Called with plain arrays, or outside of transforms,
    each behaves as its original.
    """
    return _replacements.get(module, {})


def replaced(value: Any) -> tuple[Any, Any] | None:
    """The original and the replacement, given either of them; else None."""
    own = original(value)
    ours = _ours.get(id(own))
    return None if ours is None else (own, ours)


def intercept(package: str) -> None:
    """Replaces functions of NumPy, math and SciPy that a package has bound to names of its own.

    >>> import statistics
    >>> import fungrad as fg
    >>> fg.intercept("statistics")
    >>> float(fg.grad(lambda x: statistics.NormalDist(0.0, 1.0).pdf(x))(1.0))
    -0.24197072451914337

    A module with `from math import sqrt` has its own name for that function. fungrad finds most
    such names, and closures, default values and attributes that hold such a function, by reading
    the code of the transformed function and of the functions that it calls. Where it cannot
    (functions that are looked up by a string, or code of Python's own library), an error names the
    package to be given here, once.

    Args:
      package: the name of a package or module, as in `import`. It may be imported later.

    Raises:
      ArgumentError: if it is no such name.
    """
    if not isinstance(package, str) or not all(map(str.isidentifier, package.split("."))):
        raise ArgumentError(
            f'fg.intercept takes the name of a package, as "scipy.stats", not {package!r}.'
        )
    with _lock:
        _packages.setdefault(package, [])
        State.modules = 0


_gates: dict[str, frozenset[Callable[..., Any]]] = {}
"""By package: the replacements that names of its modules are bound to in each trace."""
_gated: list[Binding] = []
"""These bindings."""


def gate(package: str, functions: Iterable[Callable[..., Any]]) -> None:
    """Replaces a few functions in the modules of a package in each trace: those that find out
    whether it meets traced values, and then call `use_in`.
    """
    _gates[package] = frozenset(functions)


def _find_gates() -> None:
    def of(functions: frozenset[Callable[..., Any]]) -> Callable[[Any], tuple[Any, Any] | None]:
        def pair(value: Any) -> tuple[Any, Any] | None:
            found = replaced(value)
            return found if found is not None and found[1] in functions else None

        return pair

    _gated[:] = [b for name, functions in _gates.items() for b in bindings_in(name, of(functions))]


_used: dict[str, tuple[int, list[Binding]]] = {}
"""By package: the bindings in it, and the number of modules when they were found."""


def use_in(package: str) -> None:
    """Replaces functions that a package has bound to names of its own, for the rest of the
    outermost trace.
    """
    with _lock:
        if not holders or not State.on:
            return
        known = _used.get(package)
        if known is None or known[0] != len(modules):
            if State.modules != len(modules):
                _look_at_modules()
            known = _used[package] = len(modules), bindings_in(package, replaced)
        _use(known[1])


def use(bindings: list[Binding]) -> None:
    """Gives bindings their replacements until the outermost trace ends."""
    owner, key = bindings[0][:2]
    if (id(owner), key) not in _written:
        with _lock:
            if holders and State.on:
                _use(bindings)


def _look_at_modules() -> None:
    """Registers modules that were imported since the last call."""
    waiting = [name for name in _waiting if name in modules]
    ready = [name for name in waiting if loaded(name) is not None]
    State.modules = len(modules) if len(ready) == len(waiting) else 0
    for name in ready:
        found = _waiting.pop(name)(modules[name])
        if found:
            register(modules[name], found)
    for package in _packages:
        _packages[package] = bindings_in(package, replaced)
    _find_gates()


def _known(owner: Any, key: Any) -> Binding | None:
    return _written.get((id(owner), key))


def _unchanged(watched: Watched) -> bool:
    """Whether names still have the values that the reading depends on, or others that lead to no
    code.
    """
    for space, name, value in watched:
        now = space.get(name)
        if now is value or (value is None and type(now) in PLAIN):
            continue
        if leads_on(now) or leads_on(value):
            binding = _written.get((id(space), name))  # of a trace in another thread
            if binding is None or binding[2] is not value:
                return False
    return True


def _bindings_for(label: Callable[[], str], made: Any) -> list[Binding]:
    """The bindings through which the function that a label describes can call replaced functions.
    `made` is the function that is run, which calls it.
    """
    if type(label) is FunctionType and label.__closure__:  # mostly holds the user's function
        f = label.__closure__[0].cell_contents
        if type(f) is np.ufunc:  # calls the protocol of traced values, and nothing else
            return []
        if type(f) is FunctionType and f.__closure__ is None:
            simple = _simple.get(id(f.__code__))
            if simple is not None and simple[1] is f.__globals__ and _unchanged(simple[3]):
                return simple[2]
    f = traced_function(label) or traced_function(made)  # a label may hold text alone
    if f is None:
        return []
    key = key_of(f)
    known = _found.get(key)
    if known is not None and _unchanged(known[1]):
        found, watched = known
    else:
        if len(_found) >= KEPT:
            _found.clear()
            _simple.clear()
        found, shared, watched = bindings_of(f, made, replaced, _known)
        if not shared:
            return found
        _found[key] = found, watched
    if len(key) == 2:
        _simple[id(f.__code__)] = f.__code__, f.__globals__, found, watched
    return found


def begin(holder: Any, run: Any, shadows: bool = True) -> None:
    """Starts an outermost trace, `holder`: replaces the modules' functions if it is the first that
    runs, and the bindings through which the function that `run` calls can call them.
    """
    while True:
        with _lock:
            if not _shadowed:
                _start(holder, run, None)
                return
            make = _maker(holder, run)
            alone = make is not None
            if not _in_the_way(alone):
                for other in [other for other in _shadows if not other.running]:
                    _end_shadows(other)  # it waits for the lock, or an interrupt has cut its end
                _start(holder, run, make if shadows else None)
                if alone:
                    _alone.add(holder)
                return
        _wait(alone)


def _start(holder: Any, run: Any, make: Callable[[Any], PairOf] | None) -> None:
    if holders:
        for other in [other for other in holders if not other.running]:
            _forget(other)  # two interrupts have cut its end short
    first = not holders
    holders[holder] = get_ident()
    if not State.on:
        return
    if first:
        if State.modules != len(modules):
            _look_at_modules()
        for found in _packages.values():
            _use(found)
        if _gated:
            _use(_gated)
        for module, replacing, _ in _modules:
            module.__class__ = replacing
        if _special:
            _replace_special()
    found = _bindings_for(holder.label, run)
    if found and not _use(found):  # a name has got another value since they were found
        _found.clear()
        _simple.clear()
        _use(_bindings_for(holder.label, run))
    if _shadowed:
        (_had.discard if make is None else _had.add)(get_ident())
    if make is not None:
        _use_shadows(holder, run, make)


def _forget(holder: Any) -> None:
    holders.pop(holder, None)
    _alone.discard(holder)
    _overdue.discard(holder)


def _use(bindings: list[Binding]) -> bool:
    """Binds the replacements. Returns whether all names are bound to theirs then."""
    same = True
    for binding in bindings:
        owner, key, own, ours = binding
        at = id(owner), key
        known = _written.setdefault(at, binding)  # first: an interrupt may come after the write
        if not (State.paused or compare_and_set(owner, key, own, ours)):
            same = False
            if known is binding:
                del _written[at]
    return same


def _restore_bindings() -> None:
    for owner, key, own, ours in (*itertools.chain(*_shadows.values()), *_written.values()):
        compare_and_set(owner, key, ours, own)


def _replace_special() -> None:
    for type_, name, replacement, _ in _special:
        setattr(type_, name, replacement)


def _restore() -> None:
    for module, _, own in _modules:
        module.__class__ = own
    for type_, name, replacement, mine in _special:
        if vars(type_).get(name) is not replacement:
            continue
        if mine is None:
            delattr(type_, name)
        else:
            setattr(type_, name, mine)
    if _written:
        _restore_bindings()
        _written.clear()


def pause() -> None:
    """Restores the originals everywhere for a while, for a compiler that identifies functions by
    identity. Attributes of modules are the originals for its own code (`COMPILERS`).
    """
    with _lock:
        State.paused += 1
        _restore_bindings()


def resume() -> None:
    """Ends a pause."""
    with _lock:
        State.paused = max(State.paused - 1, 0)  # a forked child may end what another thread began
        if holders and State.on:
            _use(list(_written.values()))
            for binding in itertools.chain(*_shadows.values()):
                compare_and_set(*binding)


def end(holder: Any) -> None:
    """Restores the originals, if no other outermost trace runs. May be called again."""
    with _lock:
        if _shadows:
            _end_shadows(holder)
        if len(holders) <= (holder in holders):
            _restore()
            if _written:
                _written.clear()
        holders.pop(holder, None)
        if _alone or _overdue:
            _forget(holder)


class _Again:
    """A function that is traced again, with replaced values."""

    __slots__ = ("__weakref__", "label", "running")

    def __init__(self, label: Callable[[], str]) -> None:
        self.label = label
        self.running = True


def _ufuncs_and_arrays(f: Any, made: Any, pair_of: PairOf) -> list[Binding]:
    """The bindings through which a function finds ufuncs and arrays that have a pair."""
    names: set[str] = set()
    found = bindings_of(f, made, pair_of, _known, _HOLD_ARRAYS, names, len(_written))[0]
    for module, replaced_class, _ in _modules:
        for name in filter(vars(module).__contains__, names):
            pair = pair_of(vars(module).get(name))
            if pair is not None:
                ufunc = _ReplacedUfunc(module, name, pair[1])
                found.append((replaced_class, name, None, ufunc))
    return found


@contextlib.contextmanager
def replacing(
    label: Callable[[], str],
    made: Any,
    pair_of: PairOf | None,
    *bindings: Binding,
    shadows: bool = True,
) -> Iterator[None]:
    """A context in which ufuncs and arrays, too, are replaced where a function finds them.

    Args:
      label: describes the function. made: the function that fungrad derived from it, and calls.
      pair_of: returns the pair of a ufunc or an array and its replacement for either of them, else
        None; None if none are replaced but by shadows.
      bindings: those that are replaced besides. shadows: whether the function finds shadows, if
        it needs them, without a trace.
    """
    holder = _Again(label)
    f, me = traced_function(label) or traced_function(made), get_ident()
    alone = me not in copies
    try:
        begin(holder, made, shadows)
        if pair_of is not None:
            copies.setdefault(me, pair_of)
            with _lock:
                _use([*_ufuncs_and_arrays(f, made, pair_of), *bindings])
        yield
    finally:
        holder.running = False
        end(holder)
        if alone:
            copies.pop(me, None)


def _forget_threads() -> None:
    """In a forked child: ends what other threads were tracing, which are not there."""
    me = get_ident()
    for holder in [holder for holder, thread in holders.items() if thread != me]:
        _end_shadows(holder)
        _forget(holder)
    _asking.clear()
    State.paused = 0
    if not holders:
        _restore()
        _written.clear()


forks.in_child(_forget_threads)
