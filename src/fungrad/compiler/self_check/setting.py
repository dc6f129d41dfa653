"""The setting `fg.config.verify`: which runs of programs are compared with the evaluator."""

from __future__ import annotations

from fungrad.errors import ArgumentError
from fungrad.ir.graph import Verification

CHOICES = ("first", "always", "never")


def checked_runs(value: str | None, name: str) -> str | None:
    """The value of a setting or argument of this name, checked.

    Raises:
      ArgumentError: if it is not "first", "always" or "never" (or None, for an argument).
    """
    if value is None and name != "fg.config.verify":
        return None
    if value not in CHOICES:
        raise ArgumentError(f'{name} has to be "first", "always" or "never", not {value!r}.')
    return value


def choose(value: str) -> None:
    """Sets the choice for functions without one, from their next call on."""
    Verification.runs = str(checked_runs(value, "fg.config.verify"))
