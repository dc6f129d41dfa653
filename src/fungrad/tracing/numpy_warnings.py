"""NumPy's warnings at the user's line.

NumPy warns at the line that calls it, which is one of fungrad's. So while a public function runs,
NumPy's error settings make it call a reporter, which issues the warning at the user's line.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any

import numpy as np

from fungrad.support.lazy import imported


def warn_at(frame: FrameType | None, text: str, category: type[Warning]) -> None:
    """Issues a warning at the line that a frame runs."""
    if frame is None:  # a thread of a compiled program
        warnings.warn(text, category, stacklevel=2)
        return
    # Python drops warnings of modules whose name is None.
    module, registry = frame.f_globals.get("__name__") or "<unknown>", "__warningregistry__"
    warnings.warn_explicit(
        text, category, frame.f_code.co_filename, frame.f_lineno, module,
        frame.f_globals.setdefault(registry, {}),
    )  # fmt: skip


# The variable that np.errstate sets; np.errstate itself takes a tenth of a small gradient's time.
_settings: ContextVar[Any] = getattr(
    imported("numpy._core.umath"), "_extobj_contextvar", ContextVar("settings", default=None)
)
KEPT = 16
"""How many of NumPy's settings are remembered, each with its reporting settings."""


settings: Callable[[], Any] = _settings.get
set_settings: Callable[[Any], Any] = _settings.set


class NumPyWarnings:
    """Reports NumPy's warnings at the frame that `user_frame` finds."""

    def __init__(self, user_frame: Callable[[], FrameType | None]) -> None:
        self._user_frame = user_frame
        self.current: Callable[[], Any] = lambda: None
        self.lowest: Any = None
        self.leave: Callable[[], bool]
        """Called first by a public function if `current()` is not `lowest`; returns whether the
        context was copied from a transform that has ended.
        """
        self.reporting: dict[Any, Any] = {None: None}
        """For each of NumPy's settings met, the settings that report in place of a warning."""
        self._replaced: dict[Any, Any] = {}
        """The former, by the latter."""

    def write(self, message: str) -> None:
        """Issues a message of NumPy's (`divide by zero encountered in log`) as a warning."""
        text = message.removeprefix("Warning: ").rstrip("\n")
        warn_at(self._user_frame(), text, RuntimeWarning)

    def _settings_for(self, settings: Any) -> Any:
        if np.geterrcall() not in (None, self):  # the user has installed a handler
            return settings
        warned: Any = {kind: "log" for kind, how in np.geterr().items() if how == "warn"}
        with np.errstate(call=self, **warned):
            found = _settings.get()
        if len(self.reporting) > KEPT:
            self.reporting.clear()
            self._replaced.clear()
        self.reporting[settings] = self.reporting[found] = found
        self._replaced[found] = settings
        return found

    def begin(self) -> tuple[Any, Any]:
        """NumPy's error settings, and those with which its warnings come from the user's line,
        which the caller sets until it calls `end(result)`.
        """
        if self.current() is not self.lowest and self.leave():
            _settings.set(self._replaced.get(_settings.get(), _settings.get()))
        present = _settings.get()
        return present, self.reporting.get(present) or self._settings_for(present)

    def end(self, begun: tuple[Any, Any]) -> None:
        """Restores NumPy's error settings. May be called again where an interrupt cut it short.

        np.seterr and np.setbufsize make new settings, even when they restore old ones. A change by
        the function that ran, as by np.seterr(all="raise"), is kept.
        """
        before, found = begun
        present = _settings.get()
        if present is found or present is before:
            _settings.set(before)
            return
        changed = np.geterr()
        _settings.set(found)
        inside = np.geterr()
        _settings.set(before)
        kinds: Any = dict(set(changed.items()) - set(inside.items()))
        if kinds:
            np.seterr(**kinds)
