"""Notes on errors that other packages raise because a traced value reached them.

NumPy, numba and compiled code name the object that they could not take. The note says why it was
there, and what to write.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from fungrad.errors import FungradError
from fungrad.ir.graph import Source
from fungrad.support.lazy import loaded
from fungrad.tracing.code_origin import is_library, origin
from fungrad.tracing.ways_out import names_given_at, names_in, ways_out

SAID = ("Tracer", "fungrad.tracing", "can't unbox array from PyObject")
"""Texts of errors about a traced value."""
UNBOXED = "bad argument type for built-in operation"
"""The error of a function that numba has compiled for numbers, and of others in C."""
_TRACING = "fungrad.tracing."
_AT = "was given to it at "
"""The words of a note that names the user's line."""


def _traced(values: Iterable[Any]) -> Any:
    """A traced value among others, in a tuple, list or dict of them, or an instance of a subclass
    of ndarray over one, if there is one.
    """
    for value in values:
        kind = type(value)
        if kind.__module__.startswith(_TRACING) and kind.__name__ == "Tracer":
            return value
        if "_fungrad_plain" in vars(kind):
            found = _traced([object.__getattribute__(value, "_fungrad_value")])
            if found is not None:
                return found
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


def _in_instances(values: Iterable[Any]) -> Any:
    """A traced value in the attributes of an instance among values, if there is one."""
    for value in values:
        attributes = getattr(value, "__dict__", None)
        if type(attributes) is dict and not isinstance(value, type):
            found = _traced(list(attributes.values()))
            if found is not None:
                return found
    return None


def _is_of(frame: FrameType, package: str) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == package


def _is_users(frame: FrameType) -> bool:
    """Whether a frame is of the user's code: of no package, nor of source that one generated."""
    code = frame.f_code
    generated = code.co_filename == "<string>" and code.co_name.startswith("__")
    return not generated and origin(code.co_filename) == "user"


class _Failure:
    """Where code that a traced value met has raised an error: the frames of its traceback."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.given = getattr(error, "__notes__", ())
        self.frames = frames = _frames(error.__traceback__)
        python = [i for i, (f, *_) in enumerate(frames) if not _is_compiled(f)]
        self.outside = [i for i in python if not is_library(frames[i][0].f_code.co_filename)]
        """The frames of others than fungrad and NumPy, by their positions."""
        self.users = [i for i in self.outside if _is_users(frames[i][0])]
        self.inside = bool(self.outside) and self.outside[-1] not in self.users
        """Whether the last of them is a package's."""
        self.compiled = bool(python) and python[-1] < len(frames) - 1
        self.said = any(words in str(error) for words in SAID)
        unboxed = str(error) == UNBOXED and loaded("numba") is not None
        self.of_numba = unboxed or type(error).__module__.startswith("numba.")

    def by_builtin(self) -> bool:
        """Whether a call of a function in C, which leaves no frame, raised an error of its own for
        a traced argument: `struct.pack("d", x)`.
        """
        last = self.users[-1] if self.users else -1
        asked = [frame.f_code.co_name for frame, *_ in self.frames[last + 1 :]][:1]
        if last != self.outside[-1] or asked not in ([], ["__index__"]):
            return False
        if type(self.error).__module__ == "builtins" and not isinstance(self.error, TypeError):
            return False
        frame, _, at = self.frames[last]
        given = names_given_at(frame.f_code, at)
        return _traced(map(frame.f_locals.get, given)) is not None

    def tracer(self) -> Any:
        """The traced value that was given to the code, if one is found there."""
        first = self.outside[-1]
        if self.users and self.of_numba:  # it fails far below its call
            first = self.users[-1]
        elif self.users and self.inside:  # a package may fail far below the call that got the value
            first = self.users[-1] + 1
        values = [v for f, *_ in reversed(self.frames[first:]) for v in list(f.f_locals.values())]
        found = _traced(values)
        return _in_instances(values) if found is None and self.inside else found

    def why(self) -> str:
        """Why the code does not take traced values, in one or two sentences."""
        if isinstance(self.error, AttributeError) and self.said:
            why = "It has the attributes of an ndarray, but no memory of its own."
        elif self.of_numba or "unbox" in str(self.error):
            why = "numba compiles for plain numbers and arrays, and cannot be traced."
        elif self.said or self.compiled:
            why = "That code takes plain numbers and arrays alone, as compiled code does."
        else:
            why = "If a plain call raises no such error, that code takes plain numbers alone."
        if any(_is_of(f, "pandas") for f, *_ in self.frames):
            why += " Convert pandas objects to arrays first, series.to_numpy()."
        return why

    def note(self, tracer: Any) -> str:
        """The text of the note."""
        frame, line, at = self.frames[self.outside[-1]]
        where = f" at {Source(frame.f_code.co_filename, line, frame.f_code.co_name)}"
        if self.inside and self.users:
            frame, line, at = self.frames[self.users[-1]]
            where += f", called at {Source(frame.f_code.co_filename, line, frame.f_code.co_name)}"
        type_ = "" if tracer is None else f" of type {tracer.owner.typeof(tracer)}"
        instead = ways_out(frame.f_code, at, names_in(frame))
        why = "" if self.given else f"{self.why()} "
        return f"A traced value{type_} was given to it{where}. {why}{instead}"


def add_note(error: BaseException) -> None:
    """Adds a note: where a traced value met code that does not take it, and what to write."""
    if isinstance(error, (FungradError, np.linalg.LinAlgError)):
        return
    failure = _Failure(error)
    if not failure.outside or any(_AT in note for note in failure.given):
        return
    tracer = failure.tracer()
    foreign = failure.inside or failure.compiled or failure.of_numba or failure.by_builtin()
    if failure.said or failure.given or (foreign and tracer is not None):
        error.add_note(failure.note(tracer))
