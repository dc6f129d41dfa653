"""Refusal: why an equation, or a Graph, has no program of some kind, as data.

A generator says what it does not accept from the equations alone. What shows only in the text, such
as its length, ends the writing by Refused, which `attempted` turns into data again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from fungrad.ir.graph import Equation
from fungrad.support.lazy import Record

T = TypeVar("T")


class Refusal(Record):
    """Why an equation, or a Graph, has no program.

    Attributes:
      equation: the equation at fault; None if it is none in particular.
      code: the kind of the reason: "form" (no generator has such code), "dtype", "small", "moves",
        "long", "time", "memory", "effects", "layout".
      reason: why, in words.
      sizes: the numbers of the reason, by name.
    """

    equation: Equation | None
    code: str
    reason: str
    sizes: Mapping[str, float]

    def __str__(self) -> str:
        if self.equation is None:
            return self.reason
        source, name = self.equation.source, self.equation.primitive.name
        line = "" if source is None else f" ({Path(source.file).name}:{source.line})"
        return f"{name}{line}: {self.reason}"


def refusal(
    reason: str, code: str = "form", equation: Equation | None = None, **sizes: float
) -> Refusal:
    """A Refusal by its reason; the rest has defaults."""
    return Refusal(equation, code, reason, sizes)


class Refused(Exception):
    """Ends the writing of a program.

    Args:
      reason: why, in words; or a Refusal, without the other arguments.
      code, equation, sizes: see `Refusal`.
    """

    def __init__(
        self, reason: str | Refusal, code: str = "form", equation: Equation | None = None,
        **sizes: float,
    ) -> None:  # fmt: skip
        made = refusal(reason, code, equation, **sizes) if isinstance(reason, str) else reason
        super().__init__(made.reason)
        self.refusal = made


def attempted(write: Callable[[], T]) -> T | Refusal:
    """What a function writes; the Refusal by which it ends."""
    try:
        return write()
    except Refused as ended:
        return ended.refusal
