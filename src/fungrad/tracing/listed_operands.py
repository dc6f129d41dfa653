"""Ufuncs of lists with traced items: np.exp([x, 1.0]).

NumPy calls no protocol for the items of a list, and makes an object array of them. It asks each
item for `__array__` first, which notes here that a call met such a list. The function is then
traced once more, while the ufuncs that it can reach stand behind objects that convert lists first.
From then on its first trace has them. Functions that pass no such lists never pay for them.
"""

from __future__ import annotations

import functools
import opcode
import sys
from _thread import get_ident
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from fungrad.tracing import interception
from fungrad.tracing.created_arrays import holds_traced
from fungrad.tracing.refusals import Met
from fungrad.tracing.source_location import is_ours
from fungrad.tracing.trace import EVAL, OfOutlived, Tracer, current, registry

_CALLS = frozenset(opcode.opmap[n] for n in opcode.opmap if n.startswith(("CALL", "PRECALL")))
"""The instructions that call: operators of arrays cannot be replaced, and are not traced again."""


def _in_a_call(frame: FrameType) -> bool:
    """Whether the current instruction of the user's frame is a call, and asks for no name."""
    code = frame.f_code
    if code.co_code[frame.f_lasti] not in _CALLS or is_ours(code.co_filename):
        return False
    return "__array__" not in code.co_consts and "__array__" not in code.co_names


class _AsArray(OfOutlived):
    """`__array__`, which NumPy asks items of lists for."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is not None and current() is not EVAL and _in_a_call(sys._getframe(1)):
            Met.seen.add(("list", get_ident()))
        return super().__get__(instance, owner)


Tracer.__array__ = _AsArray(vars(Tracer)["__array__"].function)  # type: ignore[method-assign]


def _converted(value: Any) -> Any:
    """A list or tuple with traced items as an array; any other value itself."""
    listed = isinstance(value, (list, tuple)) and holds_traced(value)
    return registry.functions[np.asarray](value) if listed else value


class OfLists:
    """A ufunc that takes lists with traced items. It equals the ufunc, and is one to isinstance."""

    __slots__ = ("ufunc",)

    def __init__(self, ufunc: np.ufunc) -> None:
        self.ufunc = ufunc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.ufunc(*map(_converted, args), **kwargs)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return np.ufunc

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.ufunc, name)
        if name not in ("accumulate", "at", "outer", "reduce", "reduceat"):
            return found

        @functools.wraps(found)
        def method(*args: Any, **kwargs: Any) -> Any:
            return found(*map(_converted, args), **kwargs)

        return method

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.ufunc

    def __hash__(self) -> int:
        return hash(self.ufunc)

    def __repr__(self) -> str:
        return repr(self.ufunc)

    def __reduce__(self) -> Any:
        return _itself, (self.ufunc,)


def _itself(ufunc: np.ufunc) -> np.ufunc:
    return ufunc


made: dict[int, tuple[np.ufunc, OfLists]] = {}
"""The ufuncs that were replaced, and their replacements, by the identity of the ufunc."""


def pair_of(value: Any) -> tuple[Any, Any] | None:
    """A ufunc and its replacement, given either of them; else None."""
    if type(value) is OfLists:
        return value.ufunc, value
    if type(value) is not np.ufunc:
        return None
    if id(value) not in made:
        made[id(value)] = value, OfLists(value)
    return made[id(value)]


def meets_lists(label: Callable[[], str], f: Callable[..., Any]) -> bool:
    """Whether f has to be traced once more, since NumPy met a list with traced items while an
    outermost trace ran it. `label` describes the trace.
    """
    if current() is not EVAL or not Met.had("list"):
        return False
    return interception.take_lists(label, f, pair_of)
