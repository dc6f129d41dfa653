"""Finds the bindings of replaced functions outside of their modules: imported names
(`from math import sqrt`), cells of closures, defaults, attributes, items of dicts and lists.

The code of a traced function, and of the functions that it can call, is read once for such
names. They are bound to the replacements while the transform traces. A container that cannot be
changed (a tuple, a partial) is itself replaced where it is bound. Code of NumPy, of fungrad and of
Python's library is not read.
"""

from __future__ import annotations

import builtins
import dis
import functools
import operator
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fungrad.support.lazy import modules
from fungrad.support.snapshots import snapshot
from fungrad.tracing.code_origin import is_foreign
from fungrad.tracing.reachable_values import (
    CodeWalk,
    attribute,
    codes,
    contents,
    defaults,
    own_attributes,
    slots,
)

Binding = tuple[Any, Any, Any, Any]
"""The owner of a binding (a dict, list, class, function or cell), its key or name there, the object
in it, and the replacement."""
Watched = tuple[tuple[Mapping[Any, Any], Any, Any], ...]
"""Namespaces, names in them, and the values that decided what was read: None for numbers, arrays
and names that were not bound.
"""
Replaced = Callable[[Any], tuple[Any, Any] | None]
"""Returns the pair of a replaced function and its replacement for either of them, else None."""
Known = Callable[[Any, Any], Binding | None]
"""Returns the binding of a key of an owner to a replacement now, else None."""

UNREAD = frozenset(
    [*sys.stdlib_module_names, "fungrad", "numpy", "numba", "jax", "torch", "tensorflow", "dask",
     "distributed", "matplotlib", "pandas", "xarray", "pytest", "_pytest", "hypothesis", "IPython"]
    ) - {"__main__"}  # fmt: skip
"""The packages whose code is not read: it calls no function that would need a replacement, or
handles traced values itself."""
BUILTINS: dict[str, tuple[Any, Any]] = {}
"""By the names of builtin classes: each with its replacement, which modules get as a name of their
own while a transform traces.
"""
FURTHER: dict[str, Callable[[], list[Binding]]] = {}
"""By the name of a package, and by its name as an attribute: makes the further bindings that code
needs which names the package, or has a value from it.
"""
MOST = 20_000
"""The most functions that are read."""
CONTAINERS = frozenset([dict, list, OrderedDict, defaultdict, deque])
"""The classes whose items are bindings."""
KEPT = 512
"""The most functions whose names are remembered."""
KEPT_READINGS = 16
"""The most functions of which all is kept that was read by globals alone."""


def _read_by(module: Any) -> bool:
    return str(module).partition(".")[0] not in UNREAD


def replacement_for(value: Any, replaced: Replaced, depth: int = 3) -> Any:
    """The replacement of a function, or of a tuple, partial or static method that holds one; else
    None.
    """
    kind = type(value)
    if kind is MethodType and depth:  # of an instance that has a replacement
        pair = replaced(value.__self__)
        name = getattr(value.__func__, "__name__", "")
        return getattr(pair[1], name, None) if pair is not None else None
    if kind not in (staticmethod, functools.partial) and not _is_tuple(kind):
        pair = replaced(value)
        return None if pair is None else pair[1]
    if not depth:
        return None
    parts, named = _parts(value)
    items = [
        (part, replacement_for(part, replaced, depth - 1)) for part in (*parts, *named.values())
    ]
    if all(new is None for _, new in items):
        return None
    found = [old if new is None else new for old, new in items]
    if issubclass(kind, tuple):
        return _tuple_for(value, found, replaced)
    made = kind(*found[: len(parts)], **dict(zip(named, found[len(parts) :], strict=True)))
    if kind is functools.partial:
        vars(made).update(vars(value))
    return made


_tuples: WeakKeyDictionary[Replaced, dict[int, tuple[Any, Any]]] = WeakKeyDictionary()
"""By what replaces functions: the replacements of tuples. Each is one object wherever the tuple is
found, so that `choice is NUMPY` holds as before.
"""


def _tuple_for(value: Any, items: Sequence[Any], replaced: Replaced) -> Any:
    """The replacement of a tuple, with these items."""
    kind, known = type(value), _tuples.setdefault(replaced, {})
    own, ours = known.get(id(value), (None, ()))
    if own is value and all(map(operator.is_, ours, items)):
        return ours
    if len(known) >= KEPT:
        known.clear()
    made = tuple(items) if kind is tuple else kind._make(items)
    known[id(value)] = value, made
    return made


def _parts(value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The parts of a tuple, a partial or a static method."""
    if isinstance(value, tuple):
        return value, {}
    if type(value) is staticmethod:
        return (value.__func__,), {}
    return (value.func, *value.args), value.keywords


def read_binding(owner: Any, key: Any) -> Any:
    """The object that a key of an owner is bound to; None if there is none."""
    try:
        if type(owner) in CONTAINERS:
            return owner[key]
        return vars(owner).get(key) if isinstance(owner, type) else getattr(owner, key)
    except (LookupError, ValueError, AttributeError):  # a cell that is not filled, for one
        return None


def compare_and_set(owner: Any, key: Any, old: Any, new: Any) -> bool:
    """Binds a key of an owner to `new` if it is still bound to `old`. None stands for a global name
    that is not bound. Returns whether the key is bound to `new` then.
    """
    found = read_binding(owner, key)
    if found is old:
        if new is None and isinstance(owner, type):
            type.__delattr__(owner, key)
        elif new is None:
            del owner[key]
        elif type(owner) in CONTAINERS:
            owner[key] = new
        elif isinstance(owner, type):
            type.__setattr__(owner, key, new)
        else:
            object.__setattr__(owner, key, new)
    return found is old or found is new


class _OwnerRead:
    """The keys of one object that were read, and what they were bound to."""

    __slots__ = ("count", "held", "leaves", "owner", "space")

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.space: Any = vars(owner) if isinstance(owner, type) else owner
        """The dict or list that has the keys; None if they are attributes."""
        if not isinstance(owner, type) and type(owner) not in CONTAINERS:
            self.space = None
        self.count = 0 if self.space is None else len(self.space)
        self.held: dict[Any, Any] = {}
        self.leaves: set[Any] = set()
        """The keys of values that lead no further, which may change."""

    def values(self, keys: Iterable[Any]) -> list[Any]:
        """The values that the keys are bound to now; None where there is none."""
        if self.space is None or isinstance(self.space, (list, deque)):
            return [read_binding(self.owner, key) for key in keys]
        return list(map(self.space.get, keys))

    def has_more(self, matter: Callable[[Any], bool]) -> bool:
        """Whether there are more items that `matter` than were read."""
        if self.space is None or len(self.space) == self.count:
            return False
        listed = isinstance(self.space, (list, deque))
        items = enumerate(list(self.space)) if listed else snapshot(self.space).items()
        for key, item in items:
            if key not in self.held and key not in self.leaves and matter(item):
                return True
        self.count = len(self.space)
        return False


class _Reading:
    """What was read for a function. What it reaches by globals alone is kept (`by_globals`), and
    holds as long as the same objects are bound there. Numbers and arrays may change.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        """All names in the code read so far."""
        self.namespaces: list[tuple[Any, Any, bool]] = []
        """Namespaces of modules, instances and classes, the object that a replacement is written
        to, and whether the function reaches them by its globals alone (`shared`)."""
        self.seen: dict[int, tuple[Any, bool]] = {}
        """The objects that were read, by identity, and `shared`."""
        self.compared: set[tuple[int, str]] = set()
        """Globals, by identity, and names of builtin classes that code of them compares."""
        self.builtins: dict[tuple[int, Any], Binding] = {}
        """The bindings of builtin classes."""
        self.further: set[str] = set()
        """The names in FURTHER that were met."""
        self.read: dict[int, _OwnerRead] = {}
        """Those reached by globals alone, by the identity of the object that has them."""
        self.holding: list[tuple[Any, Any, Any]] = []
        """Those of them, with their values, that hold arrays or ufuncs in a tuple or partial."""

    def read_of(self, owner: Any) -> _OwnerRead:
        """What was read of an object, whose keys are looked through from now on."""
        found = self.read.get(id(owner))
        if found is None:
            found = self.read[id(owner)] = _OwnerRead(owner)
        return found

    def note(self, owner: Any, key: Any, value: Any) -> None:
        """Notes what a key is bound to."""
        found = self.read_of(owner)
        if _is_leaf(value):
            found.leaves.add(key)
            return
        known = found.held.get(key)
        found.held[key] = value
        if known is not value and _holds_arrays(value):
            self.holding.append((owner, key, value))

    def to_bind(self, matter: Callable[[Any], bool]) -> list[tuple[Any, Any, Any]] | None:
        """The owners, keys and values that may have other replacements in each trace: arrays,
        ufuncs, and what holds them. None if another binding has changed.
        """
        found = list(self.holding)
        for read in self.read.values():
            if read.has_more(matter):
                return None
            if not all(map(operator.is_, read.held.values(), read.values(read.held))):
                return None
            leaves = read.leaves
            for key, value in zip(leaves, read.values(leaves), strict=True) if leaves else ():
                if type(value) not in _NUMBERS:
                    if not _is_leaf(value):
                        return None
                    found.append((read.owner, key, value))
        return found

    def by_globals(self) -> _Reading:
        """Itself, without what the function reaches by its closure or by its arguments."""
        self.namespaces = [space for space in self.namespaces if space[2]]
        self.seen = {key: found for key, found in self.seen.items() if found[1]}
        return self


_readings: OrderedDict[Any, _Reading] = OrderedDict()
"""By the key of a function: what it reaches by globals alone."""


class _Reader(CodeWalk[bool]):
    """Reads the functions and objects that a function can call. The route to each is `shared`:
    whether all functions of the same code reach it.
    """

    def __init__(
        self, replaced: Replaced, known: Known, also: Collection[type] = (), key: Any = None
    ) -> None:
        super().__init__()
        self._replaced = replaced
        self._known = known
        self._also = also
        self._key = key
        """The key under which the reading is kept; None if it is not."""
        self.bindings: dict[tuple[int, Any], Binding] = {}
        self.watched: dict[tuple[int, Any], tuple[Mapping[Any, Any], Any, Any]] = {}
        """By the identity of a namespace, and a name in it: what the reading depends on."""
        self._all = _Reading()
        self.shared = True
        """Whether all functions of the same code have the bindings that were found."""
        kept = _readings.pop(key, None)
        bound = None if kept is None else kept.to_bind(self._may_matter)
        if kept is not None and bound is not None:
            self._all = kept
            for name in kept.further:
                self._further(name)
            self.bindings |= kept.builtins
            for owner, name, value in bound:
                self._bind(owner, name, value, True)
        self.names, self.namespaces = self._all.names, self._all.namespaces
        self.seen = self._all.seen

    def read(self, f: Any, made: Any) -> None:
        """Reads a function, the function `made` that fungrad derived from it, and all that they
        reach.
        """
        self.shared = replacement_for(f, self._replaced) is None
        self._held_by(made, f, False)
        self.enqueue(False, f)
        self.walk(len(self.seen) + MOST)
        if self._key is not None:
            if len(_readings) >= KEPT_READINGS:
                _readings.popitem(last=False)
            _readings[self._key] = self._all.by_globals()

    def enters(self, value: Any, shared: bool) -> bool:
        kind = type(value)
        shared = shared or kind is ModuleType or issubclass(kind, type)
        seen = self.seen.get(id(value))
        if value is None or _is_leaf(value) or (seen is not None and seen[1] >= shared):
            return False
        self.seen[id(value)] = value, shared
        return True

    def visit_module(self, value: ModuleType, shared: bool) -> None:
        if _read_by(vars(value).get("__name__", "")):
            names = vars(value)  # a module of another class may answer for them itself
            self.namespace(names, names if type(value) is ModuleType else None, True)

    def visit_fixed(self, value: Any, items: tuple[Any, ...], shared: bool) -> None:
        kind = type(value)
        if isinstance(value, tuple) and not _is_tuple(kind):
            self.visit_instance(value, shared)
        else:
            matter = callable if kind in (set, frozenset) else self._may_matter
            self.enqueue(shared, *filter(matter, items))

    def visit_container(self, value: Any, shared: bool) -> None:
        kind = type(value)
        if kind not in CONTAINERS:
            self.visit_instance(value, shared)
            return
        items = snapshot(value).items() if issubclass(kind, dict) else enumerate(list(value))
        if shared:
            self._all.read_of(value)
        for key in [k for k, item in items if self._may_matter(item)]:
            self._read_at(value, key, shared)

    def visit_function(self, f: FunctionType, shared: bool) -> None:
        if _read_by(f.__module__):
            self._code(f.__code__, f.__globals__)
        own = not _is_ours(f)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            if own and name != "__class__":  # which super() reads
                self._read_at(cell, "cell_contents", shared)
            else:
                self.enqueue(shared, read_binding(cell, "cell_contents"))
        if f.__defaults__ and own:
            self._read_at(f, "__defaults__", shared)
        self.enqueue(shared, f.__kwdefaults__, getattr(f, "__wrapped__", None))

    def _may_matter(self, item: Any) -> bool:
        """Whether an item may call a function, or is or may hold a value of the further classes to
        find.
        """
        if _may_call(item):
            return True
        kind = type(item)
        if not self._also or kind in PLAIN:
            return kind in self._also
        return kind in self._also or own_attributes(item) is not None or bool(slots(kind))

    def visit_instance(self, value: Any, shared: bool) -> None:
        own = own_attributes(value)
        home = str(type(value).__module__)
        if self._also and home.partition(".")[0] in sys.stdlib_module_names:  # SimpleNamespace
            if own is not None:
                self.namespace(own, own, shared)
        elif not _read_by(home):  # a transformed function of fungrad's
            wrapped = None if own is None else own.get("__wrapped__")
            self._held_by(value, wrapped, shared)
            self.enqueue(shared, wrapped, attribute(value, "func"))
        else:
            self.enqueue(shared, type(value))
            if own is not None:
                self.namespace(own, own, shared)
            for name in slots(type(value)) if self._also else ():
                self._read_at(value, name, shared)

    def visit_class(self, value: type, shared: bool) -> None:
        for base in value.__mro__:
            if (base is not value and id(base) in self.seen) or not _read_by(base.__module__):
                continue
            self.seen[id(base)] = base, True
            self.namespace(vars(base), base, True)
            for name, method in snapshot(vars(base)).items():
                if name[:2] == "__" and type(method) is FunctionType:  # called without being named
                    self._read_at(base, name, True)

    def namespace(self, space: Any, owner: Any, shared: bool) -> None:
        if shared:
            self._all.read_of(space if owner is None else owner)
        super().namespace(space, owner, shared)

    def look_up_new_names(self) -> set[str]:
        new = super().look_up_new_names()
        for name in FURTHER.keys() & new:
            self._further(name)
        return new

    def visit_attribute(self, space: Any, owner: Any, name: str, shared: bool) -> None:
        if owner is None:
            if shared:
                self._all.note(space, name, space.get(name))
            self.enqueue(shared, space.get(name))
        else:
            self._read_at(owner, name, shared)

    def _code(self, whole: CodeType, names: dict[str, Any]) -> None:
        self._all.read_of(names)
        watch = not _is_installed(names)
        for code in codes(whole):
            self.read_names(code.co_names)
            imports = _imports(code)
            for name in code.co_names:
                if watch:
                    self._watch(names, names, name, names.get(name))
                if name in names:
                    self._read_at(names, name, True)
                elif name in BUILTINS:
                    self._builtin(code, names, name)
                elif name in imports and _read_by(name):
                    self._watch(modules, modules, name, modules.get(name))
                    self.enqueue(True, modules.get(name))

    def _watch(self, space: Mapping[Any, Any], owner: Any, key: Any, value: Any) -> None:
        """Notes a name that the reading depends on, with its value outside of traces."""
        known = self._known(owner, key)
        own = value if known is None else known[2]
        self.watched[id(owner), key] = space, key, None if type(own) in PLAIN else own

    def _further(self, name: str) -> None:
        self._all.further.add(name)
        for binding in FURTHER[name]():
            self.bindings[id(binding[0]), binding[1]] = binding

    def _builtin(self, code: CodeType, names: dict[str, Any], name: str) -> None:
        """Notes the binding of a builtin class that a code names, unless it is compared."""
        own, ours = BUILTINS[name]
        if str(names.get("__name__")).partition(".")[0] == "scipy":
            return  # passes numbers on to compiled code, as of a search for a minimum
        if _is_compared(code, name):
            self._all.compared.add((id(names), name))
            self._all.builtins.pop((id(names), name), None)
            self.bindings.pop((id(names), name), None)
        elif getattr(builtins, name) is own and (id(names), name) not in self._all.compared:
            binding = names, name, None, ours
            self.bindings[id(names), name] = self._all.builtins[id(names), name] = binding

    def _read_at(self, owner: Any, key: Any, shared: bool) -> None:
        """Reads the value of a binding, and notes the binding if the value has a replacement."""
        value = read_binding(owner, key)
        if shared:
            self._all.note(owner, key, value)
            space = vars(owner) if isinstance(owner, type) else owner
            if callable(value) and isinstance(space, _NAMESPACES) and not _is_installed(owner):
                self._watch(space, owner, key, value)
        self._bind(owner, key, value, shared)
        if type(value) not in PLAIN:
            self.enqueue(shared, value)

    def _bind(self, owner: Any, key: Any, value: Any, shared: bool) -> None:
        """Notes a binding if its value has a replacement."""
        home = _package(value)
        if home in FURTHER:
            self._further(home)
        found = self._known(owner, key)
        if found is None:
            new = replacement_for(value, self._replaced)
            if new is not None:
                pair = self._replaced(value)
                old = value if pair is None else pair[0]
                if isinstance(owner, type) and type(old) is BuiltinFunctionType:
                    new = staticmethod(new)  # a builtin function does not become a method either
                found = owner, key, old, new
        if found is not None:
            self.bindings[id(owner), key] = found
            self.shared = self.shared and shared

    def _held_by(self, made: Any, value: Any, shared: bool) -> None:
        """Reads the bindings in `made` of the replaced function that it was derived from."""
        if replacement_for(value, self._replaced) is not None:
            for owner, key in _bindings_of(value, made, self._replaced):
                self._read_at(owner, key, shared)


def _bindings_of(value: Any, made: Any, replaced: Replaced) -> Iterator[tuple[Any, Any]]:
    """The bindings of a value in a function or object that fungrad derived from it, except in
    replacements.
    """
    seen: dict[int, Any] = {}
    waiting = [made]
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen[id(item)] = item
        bound: list[tuple[Any, Any]] = []
        if type(item) is MethodType:
            waiting.append(item.__self__)
        elif type(item) is FunctionType:
            bound = [(cell, "cell_contents") for cell in item.__closure__ or ()]
        elif (own := own_attributes(item)) is not None:
            bound = [(own, key) for key in list(own)]
        for owner, key in bound:
            found = read_binding(owner, key)
            if found is value:
                yield owner, key
            elif type(found) is MethodType or (_is_ours(found) and replaced(found) is None):
                waiting.append(found)


def _is_ours(value: Any) -> bool:
    """Whether a function or object is fungrad's, even if it carries the user's name and module."""
    if type(value) is FunctionType:
        return str(value.__globals__.get("__name__")).startswith("fungrad.")
    return str(type(value).__module__).startswith("fungrad.")


def _package(value: Any) -> str:
    """The two first names of the module that a module, function, class or instance is from."""
    if isinstance(value, ModuleType):
        home = vars(value).get("__name__")
    else:
        home = value.__module__ if type(value) in _NAMED else type(value).__module__
    return ".".join(str(home).split(".", 2)[:2])


_NAMED = (FunctionType, type)
_NAMESPACES = (dict, MappingProxyType)


def _is_installed(space: Any) -> bool:
    """Whether globals or a class are an installed package's, whose names stay bound."""
    if isinstance(space, dict):
        return is_foreign(str(space.get("__file__")))
    return is_foreign(str(attribute(modules.get(space.__module__), "__file__")))


def _is_compared(code: CodeType, name: str) -> bool:
    """Whether code compares a global name by identity: `type(x) is float`."""
    last = False
    for instruction in dis.get_instructions(code):
        if last and instruction.opname == "IS_OP":
            return True
        last = instruction.opname.startswith("LOAD_GLOBAL") and instruction.argval == name
    return False


def _imports(code: CodeType) -> set[str]:
    """The modules that code imports itself."""
    operations, arguments = code.co_code[::2], code.co_code[1::2]
    if _IMPORT not in operations:  # which is found in far less time than the arguments
        return set()
    found = zip(operations, arguments, strict=True)
    return {code.co_names[arg] for op, arg in found if op == _IMPORT}


_IMPORT = dis.opmap["IMPORT_NAME"]


def _may_call(value: Any) -> bool:
    return callable(value) or type(value) is staticmethod or _is_tuple(type(value))


def _is_tuple(kind: type) -> bool:
    """Whether a class is that of tuples, or of named ones."""
    return kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_make"))


def bindings_of(
    f: Any,
    made: Any,
    replaced: Replaced,
    known: Known,
    also: Collection[type] = (),
    names: set[str] | None = None,
    written: int = 0,
) -> tuple[list[Binding], bool, Watched]:
    """The bindings through which a function can call replaced functions, whether all functions of
    its code have the same, and the names that this depends on. `made` is the function that fungrad
    derived from it, and calls. `also` are the classes of further values that are read in dicts and
    lists. All names in the code that was read are added to `names`. `written` is how many keys
    are bound to replacements now.
    """
    key = (written, *key_of(f)) if also and f is not None else None
    reader = _Reader(replaced, known, also, key)
    reader.read(f, made)
    if names is not None:
        names |= reader.names
    return list(reader.bindings.values()), reader.shared, tuple(reader.watched.values())


def bindings_in(package: str, replaced: Replaced) -> list[Binding]:
    """The global names of replaced functions in all imported modules of a package."""
    found: list[Binding] = []
    inside = f"{package}."
    for name, module in snapshot(modules).items():
        if (name == package or name.startswith(inside)) and isinstance(module, ModuleType):
            names = vars(module)
            for key, value in snapshot(names).items():
                pair = replaced(value)
                if pair is not None:
                    found.append((names, key, *pair))
    return found


def key_of(f: Any) -> tuple[Any, ...]:
    """A key that functions share if they call the same functions: their code, their globals, and
    the code of the values that they close over.
    """
    if type(f) is not FunctionType:
        return (_kind_of(f),)
    cells = f.__closure__
    held = defaults(f) if cells is None else (*defaults(f), *contents(cells))
    kinds = [kind if (kind := type(value)) in PLAIN else _kind_of(value) for value in held]
    return ById(f.__code__), id(f.__globals__), *kinds


def codes_of(f: Any, depth: int = 4) -> tuple[Any, ...]:
    """The code of a function and of functions that it closes over: a key that neither state nor
    replacements that it finds change.
    """
    if isinstance(f, functools.partial):
        return codes_of(f.func, depth)
    if type(f) is MethodType:
        return type(f.__self__), *codes_of(f.__func__, depth)
    if type(f) is not FunctionType:
        return (type(f),)
    inner = [v for v in contents(f.__closure__ or ()) if type(v) in _CALLS and not _is_ours(v)]
    own = [
        v for v in inner if depth and str(v.__module__).partition(".")[0] not in ("numpy", "scipy")
    ]
    return ById(f.__code__), *[codes_of(v, depth - 1) for v in own]


_CALLS = FunctionType, MethodType, functools.partial


class ById:
    """A code object, compared by identity: Python compares code objects by content."""

    __slots__ = ("code",)

    def __init__(self, code: CodeType) -> None:
        self.code = code

    def __eq__(self, other: object) -> bool:
        return type(other) is ById and self.code is other.code

    def __hash__(self) -> int:
        return id(self.code)


PLAIN = frozenset([float, int, bool, str, type(None), np.ndarray, np.float64])
"""Classes of values that call no function."""
_NUMBERS = PLAIN - {np.ndarray}
_HOLDING = staticmethod, functools.partial


def _is_leaf(value: Any) -> bool:
    """Whether a value leads to no other: a number, an array or its stand-in, a ufunc."""
    kind = type(value)
    return (
        kind in PLAIN
        or isinstance(value, np.ufunc)  # or a stand-in for one
        or (issubclass(kind, np.ndarray) and kind.__module__[:8] == "fungrad.")
    )


_FEW = 32
"""The most items of a dict, list or tuple that tell functions of the same code apart."""


def _kind_of(value: Any, depth: int = 4) -> Any:
    """The functions that a value can call, to a limited depth: an object may hold itself."""
    kind = type(value)
    if kind in PLAIN:
        return kind
    if kind is BuiltinFunctionType or kind is ModuleType or issubclass(kind, type):
        return value
    held: Any = ()
    own: Any = kind
    if kind is FunctionType:
        own = ById(value.__code__)
        held = (*defaults(value), *contents(value.__closure__ or ()))
    elif kind is MethodType:
        held = value.__func__, value.__self__
    elif kind is dict or kind is list or kind is tuple:
        items = list(value.values() if kind is dict else value)
        held = filter(_may_call, items if len(value) <= _FEW else ())
    elif issubclass(kind, functools.partial):
        held = value.func, *filter(_may_call, value.args)
    elif (space := own_attributes(value)) is not None:
        calls = (FunctionType, BuiltinFunctionType, functools.partial, kind)
        held = [v for v in list(space.values()) if type(v) in calls]
    return (own, *[_kind_of(v, depth - 1) for v in held]) if depth else own


_NUMPYS = type(np.take)
"""The class of NumPy's functions that call a protocol; NumPy's own code for ndarrays is wrapped."""


def _holds_arrays(value: Any, depth: int = 3) -> bool:
    """Whether a tuple, partial or static method holds an array or a ufunc."""
    if not depth or not (isinstance(value, _HOLDING) or _is_tuple(type(value))):
        return type(value) not in _NUMBERS and _is_leaf(value)
    parts, named = _parts(value)
    return any(_holds_arrays(part, depth - 1) for part in (*parts, *named.values()))


def leads_on(value: Any) -> bool:
    """Whether a value may lead to code: all do but numbers, arrays, their stand-ins, ufuncs, and
    containers of data.
    """
    kind = type(value)
    if kind is dict or kind is list or kind is tuple:
        return any(map(_may_call, list(value.values() if kind is dict else value)))
    return not _is_leaf(value)


def traced_function(label: Any) -> Any:
    """The user's function that a trace runs, found in the closure of the trace's label."""
    if type(label) is FunctionType and label.__closure__:
        first = label.__closure__[0].cell_contents
        if type(first) is FunctionType and "__wrapped__" not in first.__dict__:
            home = first.__module__
            if home is None or home[:8] != "fungrad.":
                return first
    return _users(label)


def _users(f: Any) -> Any:
    """The user's function that one of fungrad's was derived from; None if there is none."""
    while type(f) is not _NUMPYS and (wrapped := attribute(f, "__wrapped__")) is not None:
        f = wrapped
    if type(f) not in (FunctionType, MethodType) or not str(f.__module__).startswith("fungrad."):
        return f
    if type(f) is MethodType:
        return _users(attribute(f.__self__, "f"))
    for value in contents(f.__closure__ or ()):
        if callable(value):
            found = _users(value)
            if found is not None:
                return found
    return None
