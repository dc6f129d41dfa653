"""Values of settings and of arguments that are one of few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.errors import ArgumentError


def one_of(choices: Sequence[str], value: Any, name: str) -> str:
    """The value of a setting or an argument of this name, checked.

    Raises:
      ArgumentError: if it is none of the choices.
    """
    if value not in choices:
        *others, last = [f'"{choice}"' for choice in choices]
        text = f"{', '.join(others)} or {last}"
        raise ArgumentError(f"{name} has to be {text}, not {value!r}.")
    return str(value)
