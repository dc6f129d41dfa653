"""Rules: a table of rules by primitive, to which a decorator of each function adds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Rules(dict[Any, Any]):
    """A table by primitive.

    Args:
      made: makes an entry of a function and the facts beside it; None if the function is the entry.
    """

    def __init__(self, made: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self._made = made

    def rule(self, *primitives: Any, **facts: Any) -> Callable[[F], F]:
        """A decorator that enters a function for some primitives."""

        def enter(function: F) -> F:
            made = function if self._made is None else self._made(function, **facts)
            self.update(dict.fromkeys(primitives, made))
            return function

        return enter
