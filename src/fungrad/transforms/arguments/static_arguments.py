"""Static arguments: those of a call that are not traced, but make a program each.

Which a function may have, how two are told apart, and how they are put back among the others.
Knows Python's signatures; knows no trace.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.tracing.source_location import describe
from fungrad.transforms.arguments.binding import parameter_names


class Static:
    """A static argument: compared with its type, so that 1, 1.0 and True are different, in tuples,
    too, and 0.0 and -0.0.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and _same(self.value, other.value)

    def __repr__(self) -> str:
        return repr(self.value)


def _same(x: Any, y: Any) -> bool:
    """Whether two static values make the same program."""
    if type(x) is not type(y):
        return False
    if isinstance(x, tuple):
        return len(x) == len(y) and all(map(_same, x, y))
    if isinstance(x, (float, complex, np.inexact)):
        return repr(x) == repr(y)  # tells zeros by their signs, and nan is nan
    equal = x == y
    return equal if type(equal) is bool else bool(np.all(equal))


def joined(static: Any, positional: Any, named: Any) -> tuple[list[Any], dict[str, Any]]:
    """The positional arguments and the keywords of a call, the static ones at their places."""
    at = {place: item.value for place, item in static if isinstance(place, int)}
    rest = iter(positional)
    args = [at[i] if i in at else next(rest) for i in range(len(at) + len(positional))]
    return args, {
        **named,
        **{place: item.value for place, item in static if isinstance(place, str)},
    }


def check_static(f: Callable[..., Any], nums: Sequence[int], names: Sequence[str]) -> None:
    """Refuses static arguments that f does not have.

    Raises:
      ArgumentError: naming the first; left alone, it would be traced.
    """
    try:
        parameters = inspect.signature(f).parameters
    except (TypeError, ValueError):  # builtins without a signature
        return
    kinds = {p.kind for p in parameters.values()}
    count = len(parameter_names(f))
    unknown: list[Any] = []
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        unknown += [name for name in names if name not in parameters]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        unknown += [i for i in nums if not -count <= i < count]
    if unknown:
        raise ArgumentError(
            f"jit of {describe(f)} was told that {unknown[0]!r} is a static argument, but its "
            f"parameters are {', '.join(parameters)}."
        )


__all__ = ["Static", "check_static", "joined"]
