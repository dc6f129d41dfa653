"""The mode for code that cannot be traced, and the function that attends to it.

In the mode "differences" the outermost transform of a program is run by `opaque.attempt`
(host/opaque_calls.py), which is None as long as no program asked for that mode.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import CodeType
from typing import Any

from fungrad.support.hooks import Hooks

MODES = ("error", "differences")


class Opaque(Hooks):
    """The function for code that cannot be traced, and the setting `fg.config.opaque`."""

    setting = "error"
    attempt: Callable[..., Any] | None = None
    """Runs a public function in the present mode: `attempt(f, args, kwargs)`; None if the mode has
    always been "error".
    """


opaque = Opaque()
replaced_code: dict[CodeType, CodeType] = {}
"""By the code that functions have while a transform runs opaque code plainly: their own code."""
chosen: ContextVar[str | None] = ContextVar("fungrad_opaque", default=None)
"""The mode of the innermost `fg.opaque` block; None outside of all."""


def mode() -> str:
    """The present mode."""
    return chosen.get() or opaque.setting
