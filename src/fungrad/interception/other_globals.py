"""Functions of other packages' code that find other values by some of their global names.

A function of the same code with other globals does what the original does, in whatever version it
is installed. The names are looked up in the module's own globals when they are first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

from fungrad.tracing import interception


class Names(dict[str, Any]):
    """The globals of a function, with other values of a few names."""

    def __init__(self, own: dict[str, Any], names: Mapping[str, Any]) -> None:
        super().__init__(names)
        self.own = own

    def __missing__(self, name: str) -> Any:
        return self.own[name]


def with_names(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    """A function of the same code with other globals."""
    made = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__doc__ = function.__doc__
    return made


class _OfNumPy(dict[str, Any]):
    """The globals of functions of NumPy's own: fungrad's in place of those that are replaced, and
    the functions that they call with the same globals.
    """

    def __init__(self, own: dict[str, Any]) -> None:
        super().__init__()
        self.own = own

    def __missing__(self, name: str) -> Any:
        found = self.own[name]
        self[name] = found = _ours(found)
        return found


class _Module:
    """A module of NumPy's own, with fungrad's functions in place of those that are replaced."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return _ours(getattr(self._module, name))


def _ours(found: Any) -> Any:
    """What functions of NumPy's own call in place of what they name."""
    if isinstance(found, ModuleType):
        return _Module(found) if found.__name__.startswith("numpy.") else found
    pair = interception.replaced(found)
    if pair is not None:
        return pair[1]
    inside = type(found) is FunctionType and (found.__module__ or "").startswith("numpy")
    return by_ours(found) if inside else found


_spaces: dict[str, _OfNumPy] = {}
"""By the name of the module."""


def by_ours(function: FunctionType) -> FunctionType:
    """A function of NumPy's that calls fungrad's functions in place of those that are replaced."""
    own = function.__globals__
    names = _spaces.setdefault(own["__name__"], _OfNumPy(own))
    return with_names(function, names)
