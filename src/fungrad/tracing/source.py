"""Floor 2: the user's file and line. Knows Python frames and which folder is fungrad's own.

Also drops fungrad's own frames from tracebacks (FUNGRAD_TRACEBACK=full keeps them).
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import re
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from fungrad.errors import FungradError
from fungrad.ir.graph import Source

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_SCIPY = re.compile(r"[\\/](?:site|dist)-packages[\\/]scipy[\\/](\w+)[\\/]")
# Shipped programs that use fungrad as a user does: their frames are the user's.
_PROGRAMS = (os.path.join(_PACKAGE, "demo"),)

F = TypeVar("F", bound=Callable[..., Any])


@functools.lru_cache(maxsize=4096)
def _is_library(filename: str) -> bool:
    if filename.startswith(_PROGRAMS):
        return False
    libraries = (_PACKAGE, _NUMPY, "<__array_function__")
    return filename.startswith(libraries) or bool(_SCIPY.search(filename))


# One object for a line, however often it is run: a long trace holds one for each equation.
_source = functools.lru_cache(maxsize=4096)(Source)


def user_source() -> Source | None:
    """The innermost frame outside fungrad, NumPy and SciPy; None where there is none."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not _is_library(code.co_filename):
            return _source(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


def user_line() -> str:
    """The user's line as text for messages: ` at file:line (function)`, or nothing."""
    source = user_source()
    return "" if source is None else f" at {source}"


def describe(f: Callable[..., Any]) -> str:
    """The name of a function with the place of its definition, for messages: that of the user,
    whatever is wrapped around it.
    """
    f = inspect.unwrap(f)
    name = getattr(f, "__name__", type(f).__name__)
    code = getattr(f, "__code__", None)
    return f"`{name}`" if code is None else f"`{name}` ({code.co_filename}:{code.co_firstlineno})"


def _without_library_frames(traceback: types.TracebackType | None) -> types.TracebackType | None:
    kept = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            kept.append(traceback)
        traceback = traceback.tb_next
    result: types.TracebackType | None = None
    for item in reversed(kept):
        result = types.TracebackType(result, item.tb_frame, item.tb_lasti, item.tb_lineno)
    return result


_ADVICE = {
    "loop of ufunc does not support argument": (
        "np.array made an array of objects of traced values and plain numbers, of which NumPy's "
        "ufuncs take traced values only, and numpy.linalg's nothing. Make it by "
        "fg.numpy.array([...]), or by np.stack."
    ),
    "a single integer, got 'Tracer(": (
        "NumPy needs a number here, and a traced value is only known as a type. Make it an "
        "argument that is not traced (jit: static_argnames), or call the function without tracing "
        "it."
    ),
}
_ADVICE["from dtype('O') to"] = _ADVICE["loop of ufunc does not support argument"]
"""What to add to NumPy's own messages, which name no cause that a user could mend."""


def _is_traced(value: Any) -> bool:
    """Whether a local variable of SciPy's is a traced value, or an ndarray made of some."""
    if isinstance(value, (tuple, list)):
        return any(_is_traced(v) for v in value)
    objects = isinstance(value, np.ndarray) and value.dtype == object
    return objects or type(value).__module__ == "fungrad.tracing.trace"


def _called_of_scipy(traceback: types.TracebackType | None) -> tuple[str, str] | None:
    """The package of SciPy and the function that the user called (`special`, `logsumexp`), where
    SciPy's own Python code failed with traced values; the function is empty where it is a method.
    """
    called = None
    traced = False
    while traceback is not None:
        code = traceback.tb_frame.f_code
        found = _SCIPY.search(code.co_filename)
        if found is not None:
            traced = traced or any(map(_is_traced, traceback.tb_frame.f_locals.values()))
            part, name = called or (found[1], "")
            part = found[1] if part.startswith("_") else part  # the wrappers of scipy._lib
            if not name and hasattr(sys.modules.get(f"scipy.{part}"), code.co_name):
                name = code.co_name
            called = part, name
        elif not _is_library(code.co_filename):
            called, traced = None, False
        traceback = traceback.tb_next
    return called if traced else None


def _advice_on_scipy(part: str, name: str) -> str:
    """What to call in place of a function of SciPy's."""
    lost = f"scipy.{part} makes ndarrays of its arguments, in which traced values get lost. "
    home = os.path.join(_PACKAGE, "scipy", part)
    if not (os.path.exists(home) or os.path.exists(f"{home}.py")):
        return f"{lost}fungrad has no {part} of its own: wrap SciPy's by fg.external."
    ours = importlib.import_module(f"fungrad.scipy.{part}")
    theirs = getattr(sys.modules.get(f"scipy.{part}"), name, None)
    if name and getattr(ours, name, None) is theirs:
        return f"{lost}fungrad has no {part}.{name} of its own: wrap SciPy's by fg.external."
    function = f"fungrad.scipy.{part}.{name}" if name else "the function from fungrad"
    return (
        f"{lost}Take {function} instead, with the same arguments: "
        f"`from fungrad.scipy import {part}`."
    )


def _advise(error: BaseException, traceback: types.TracebackType | None) -> None:
    """Adds to an error what the user can do, where its text or its traceback tell."""
    advices = [advice for text, advice in _ADVICE.items() if text in str(error)]
    called = _called_of_scipy(traceback)
    advices = advices if called is None else [_advice_on_scipy(*called)]
    for advice in advices:
        if advice not in getattr(error, "__notes__", ()):
            error.add_note(advice)


def boundary(f: F) -> F:
    """Wraps a public function so that errors leave it without fungrad's own frames."""

    @functools.wraps(f)
    def public(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except Exception as error:
            if os.environ.get("FUNGRAD_TRACEBACK") == "full":
                raise
            short = _without_library_frames(error.__traceback__)
            cause = error.__cause__
            if isinstance(cause, FungradError) and not isinstance(error, FungradError):
                # `a[:] = x` on an ndarray: NumPy says "setting an array element with a sequence".
                _advise(cause, error.__traceback__)
                raise cause.with_traceback(short) from None
            if isinstance(error, (TypeError, ValueError, AttributeError)):
                _advise(error, error.__traceback__)
            raise error.with_traceback(short)  # noqa: B904 - the same error, without our frames

    return cast(F, public)
