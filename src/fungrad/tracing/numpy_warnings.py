"""NumPy's warnings come from the user's line while a transform runs.

NumPy warns at the line that calls it, which is one of fungrad's. So its error settings have it log
to a reporter, in place of warning, for as long as a public function runs; the reporter issues the
warning at the user's line. Knows NumPy's settings, and a function that finds the user's frame.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any

import numpy as np

# The setting that np.errstate makes; itself it takes as long as a tenth of a small gradient.
_settings: ContextVar[Any] = getattr(
    importlib.import_module("numpy._core.umath"), "_extobj_contextvar", ContextVar("settings")
)
KEPT = 16
"""How many of NumPy's settings are remembered with those that report."""


class NumPyWarnings:
    """Reports NumPy's warnings at the frame that `user_frame` finds."""

    def __init__(self, user_frame: Callable[[], FrameType | None]) -> None:
        self._user_frame = user_frame
        self._reporting: dict[Any, Any] = {None: None}
        """For each of NumPy's settings met, those that report what it would warn of."""

    def write(self, message: str) -> None:
        """Warns of what NumPy says, as `divide by zero encountered in log`."""
        text = message.removeprefix("Warning: ").rstrip("\n")
        frame = self._user_frame()
        if frame is None:  # a thread of a compiled program
            warnings.warn(text, RuntimeWarning, stacklevel=2)
            return
        module, registry = frame.f_globals.get("__name__"), "__warningregistry__"
        warnings.warn_explicit(
            text, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno, module,
            frame.f_globals.setdefault(registry, {}),
        )  # fmt: skip

    def _settings_for(self, settings: Any) -> Any:
        if np.geterrcall() not in (None, self):  # the user has means of his own
            return settings
        warned: Any = {kind: "log" for kind, how in np.geterr().items() if how == "warn"}
        with np.errstate(call=self, **warned):
            found = _settings.get()
        if len(self._reporting) > KEPT:
            self._reporting.clear()
        self._reporting[settings] = self._reporting[found] = found
        return found

    def begin(self) -> tuple[Any, Any]:
        """Lets NumPy's warnings come from the user's line, until `end` of what it returns."""
        settings = _settings.get(None)
        found = self._reporting.get(settings) or self._settings_for(settings)
        return found, _settings.set(found)

    def end(self, begun: tuple[Any, Any]) -> None:
        """What NumPy does about errors is again what it was.

        np.seterr and np.setbufsize make new settings, also where they put back what there was. A
        function that changes how errors are treated, as np.seterr(all="raise") does, keeps that.
        """
        found, token = begun
        if _settings.get(None) is found:
            _settings.reset(token)
            return
        changed = np.geterr()
        _settings.set(found)
        inside = np.geterr()
        _settings.reset(token)
        kinds: Any = dict(set(changed.items()) - set(inside.items()))
        if kinds:
            np.seterr(**kinds)
