"""A walk over the values that a function can reach: its closure and defaults, the items of
containers, the attributes of objects, and the globals that code names.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Generic, TypeVar

Route = TypeVar("Route")
"""What a walk notes of the way to a value: its name in the program, for one."""


class Walk(Generic[Route]):
    """Visits each value once. A subclass says what it reads in functions, modules, classes,
    containers and instances, and enqueues the values that it finds there.
    """

    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}
        """The values that were visited, by identity."""
        self._waiting: list[tuple[Any, Route]] = []

    def enqueue(self, route: Route, *values: Any) -> None:
        """Notes values that are visited later."""
        self._waiting += [(value, route) for value in values]

    def walk(self, most: int) -> None:
        """Visits the values that wait, and all that they lead to, until so many were seen."""
        while self._waiting and len(self.seen) < most:
            value, route = self._waiting.pop()
            if self.enters(value, route):
                self.visit(value, route)

    def enters(self, value: Any, route: Route) -> bool:
        """Whether a value is visited: the first time that it is met."""
        if id(value) in self.seen:
            return False
        self.seen[id(value)] = value
        return True

    def visit(self, value: Any, route: Route) -> None:
        """Reads a value by its class, without a question to the value: a proxy may not answer."""
        kind = type(value)
        if kind is FunctionType:
            self.visit_function(value, route)
        elif kind is MethodType:
            self.visit_method(value, route)
        elif kind is staticmethod or kind is classmethod:
            self.enqueue(route, value.__func__)
        elif kind is property:
            self.enqueue(route, value.fget, value.fset)
        elif issubclass(kind, functools.partial):
            self.visit_fixed(value, (value.func, *value.args, *value.keywords.values()), route)
        elif issubclass(kind, tuple) or kind is set or kind is frozenset:
            self.visit_fixed(value, tuple(value), route)
        elif issubclass(kind, (dict, list, deque)):
            self.visit_container(value, route)
        elif issubclass(kind, ModuleType):
            self.visit_module(value, route)
        elif issubclass(kind, type):
            self.visit_class(value, route)
        else:
            self.visit_instance(value, route)

    def visit_function(self, f: FunctionType, route: Route) -> None:
        """Reads a function of Python."""

    def visit_method(self, method: MethodType, route: Route) -> None:
        """Reads a bound method."""
        self.enqueue(route, method.__func__, method.__self__)

    def visit_fixed(self, value: Any, items: tuple[Any, ...], route: Route) -> None:
        """Reads the items of a partial, tuple or set, which nobody assigns."""
        self.enqueue(route, *items)

    def visit_container(self, value: Any, route: Route) -> None:
        """Reads a dict, list or deque."""

    def visit_module(self, value: ModuleType, route: Route) -> None:
        """Reads a module."""

    def visit_class(self, value: type, route: Route) -> None:
        """Reads a class."""

    def visit_instance(self, value: Any, route: Route) -> None:
        """Reads an object of any other class."""


class CodeWalk(Walk[Route]):
    """A walk that reads code, too. An attribute of a namespace (of an object, a class or a module)
    is reached if any code that was read names it, before or after the namespace is met.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        """All names in the code that was read."""
        self.namespaces: list[tuple[Any, Any, Route]] = []
        """Mappings of attributes, their owners, and the routes to them."""
        self._new: set[str] = set()
        """Names in the code that was read since the namespaces were looked through."""

    def walk(self, most: int) -> None:
        while (self._waiting or self._new) and len(self.seen) < most:
            super().walk(most)
            self.look_up_new_names()

    def read_names(self, names: Iterable[str]) -> None:
        """Notes the names in code."""
        self._new.update(names)

    def namespace(self, space: Any, owner: Any, route: Route) -> None:
        """Reads the attributes of a namespace that code names, now and later."""
        self.namespaces.append((space, owner, route))
        for name in sorted(self.names & space.keys()):
            self.visit_attribute(space, owner, name, route)

    def look_up_new_names(self) -> set[str]:
        """Reads the attributes that have new names, at once for all code that was read."""
        new, self._new = self._new - self.names, set()
        self.names |= new
        for space, owner, route in self.namespaces if new else ():
            for name in sorted(new & space.keys()):
                self.visit_attribute(space, owner, name, route)
        return new

    def visit_attribute(self, space: Any, owner: Any, name: str, route: Route) -> None:
        """Reads an attribute of a namespace that code names."""


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those inside of it."""
    yield code
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from codes(constant)


def attribute(value: Any, name: str) -> Any:
    """An attribute, or None. Does not call a `__getattr__`, which may import a module."""
    if type(value) is MethodType:
        value = value.__func__
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return None


def own_attributes(value: Any) -> dict[str, Any] | None:
    """The dict of an object's attributes; None if it has none."""
    found = attribute(value, "__dict__")
    return found if type(found) is dict else None


def slots(kind: type) -> list[str]:
    """The attributes that instances of a class have in slots."""
    own: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        own |= vars(base)
    return [name for name, value in own.items() if type(value) is MemberDescriptorType]


def defaults(f: FunctionType) -> tuple[Any, ...]:
    """The default values of a function's arguments."""
    named = f.__kwdefaults__
    return (f.__defaults__ or ()) + (tuple(named.values()) if named else ())


def contents(cells: Iterable[Any]) -> list[Any]:
    """The values of a closure, but those of cells that are not filled yet."""
    found = []
    for cell in cells:
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue
    return found
