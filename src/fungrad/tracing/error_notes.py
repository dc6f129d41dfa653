"""Notes on errors that other packages raise because a traced value reached them, and NumPy's
warnings at the user's line.

NumPy, numba and compiled code name the object that they could not take. The note says why it was
there, and what to write.

NumPy warns at the line that calls it, which is one of fungrad's. So while a public function runs,
NumPy's error settings make it call a reporter, which issues the warning at the user's line.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from fungrad.errors import FungradError
from fungrad.ir.graph import Source
from fungrad.support.lazy import imported, loaded
from fungrad.tracing.ways_out import ways_out

SAID = ("Tracer", "fungrad.tracing", "can't unbox array from PyObject")
"""Texts of errors about a traced value."""
UNBOXED = "bad argument type for built-in operation"
"""The error of a function that numba has compiled for numbers, and of others in C."""
_TRACING = "fungrad.tracing."


def _traced(values: Iterable[Any]) -> Any:
    """A traced value among others, or in a tuple, list or dict of them, if there is one."""
    for value in values:
        kind = type(value)
        if kind.__module__.startswith(_TRACING) and kind.__name__ == "Tracer":
            return value
        if kind in (tuple, list, dict):
            found = _traced(value.values() if kind is dict else value)
            if found is not None:
                return found
    return None


def _frames(traceback: TracebackType | None) -> list[tuple[FrameType, int, int]]:
    found = []
    while traceback is not None:
        found.append((traceback.tb_frame, traceback.tb_lineno, traceback.tb_lasti))
        traceback = traceback.tb_next
    return found


def _is_compiled(frame: FrameType) -> bool:
    """Whether a frame is of code compiled by Cython: its file is unknown, or a relative path."""
    name = frame.f_code.co_filename
    return name == "<stringsource>" or not (name.startswith("<") or os.path.isabs(name))


def _is_of(frame: FrameType, package: str) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == package


def add_note(error: BaseException, is_library: Any, is_installed: Any) -> None:
    """Adds a note that says where a traced value met code that does not take it, and what to write.

    `is_library` and `is_installed` tell the files of fungrad and NumPy, and of packages.
    """
    if isinstance(error, (FungradError, np.linalg.LinAlgError)) or hasattr(error, "__notes__"):
        return
    said = any(words in str(error) for words in SAID)
    unboxed = str(error) == UNBOXED and loaded("numba") is not None
    numba = unboxed or type(error).__module__.startswith("numba.")
    frames = _frames(error.__traceback__)
    python = [i for i, (f, *_) in enumerate(frames) if not _is_compiled(f)]
    outside = [i for i in python if not is_library(frames[i][0].f_code.co_filename)]
    if not outside:
        return
    frame, line, at = frames[outside[-1]]
    inside = is_installed(frame.f_code.co_filename)
    compiled = python[-1] < len(frames) - 1
    users = [i for i in outside if not is_installed(frames[i][0].f_code.co_filename)]
    first = users[-1] if numba and users else outside[-1]  # numba fails far below its call
    tracer = _traced(v for f, *_ in reversed(frames[first:]) for v in f.f_locals.values())
    if not (said or ((inside or compiled or numba) and tracer is not None)):
        return
    where = f" at {Source(frame.f_code.co_filename, line, frame.f_code.co_name)}"
    if inside and users:
        caller, line, at = frames[users[-1]]
        frame = caller
        where += f", called at {Source(caller.f_code.co_filename, line, caller.f_code.co_name)}"
    type_ = "" if tracer is None else f" of type {tracer.owner.typeof(tracer)}"
    if isinstance(error, AttributeError) and said:
        why = "It has the attributes of an ndarray, but no memory of its own."
    elif numba or "unbox" in str(error):
        why = "numba compiles for plain numbers and arrays, and cannot be traced."
    elif said or compiled:
        why = "That code takes plain numbers and arrays alone, as compiled code does."
    else:
        why = "If a plain call raises no such error, that code takes plain numbers alone."
    if any(_is_of(f, "pandas") for f, *_ in frames):
        why += " Convert pandas objects to arrays first, series.to_numpy()."
    error.add_note(
        f"A traced value{type_} was given to it{where}. {why} "
        f"{ways_out(frame.f_code, at, frame.f_locals)}"
    )


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
