"""What functions that look at the values of a run demand of their call."""

from __future__ import annotations

from fungrad.errors import ArgumentError
from fungrad.tracing.trace import EVAL, current


def check_outermost(verb: str, needs: str) -> None:
    """Raises ArgumentError inside another transform, where there are no values.

    Args:
      verb: the public function that is called.
      needs: what it needs there, in a word.
    """
    if current() is not EVAL:
        raise ArgumentError(
            f"fg.{verb} needs {needs}, and inside of another transform there are only tracers: "
            f"call it outside, as fg.{verb}(fg.vmap(f))(xs)."
        )


def check_repetitions(repetitions: int | None) -> None:
    """Raises ArgumentError for a number of runs that is less than 1."""
    if repetitions is not None and repetitions < 1:
        raise ArgumentError(f"repetitions has to be 1 or more, or None, not {repetitions}.")
