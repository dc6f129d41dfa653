"""The user's file and line, for equations, messages and NumPy's warnings.

Errors leave public functions without fungrad's own frames (FUNGRAD_TRACEBACK=full keeps them), and
with advice on NumPy's, SciPy's and LAPACK's messages.
"""

from __future__ import annotations

import _thread
import functools
import inspect
import opcode
import os
import re
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.errors import (
    AbstractValueError,
    ArgumentError,
    FungradError,
    UnsupportedFunctionError,
)
from fungrad.ir.graph import Source
from fungrad.support.lazy import loaded
from fungrad.support.snapshots import snapshot
from fungrad.tracing.code_origin import FUNGRAD, is_internal, is_library, is_ours, origin
from fungrad.tracing.error_notes import add_note
from fungrad.tracing.numpy_warnings import NumPyWarnings, warn_at
from fungrad.tracing.ways_out import (
    name_of_written,
    names_in,
    object_array_at,
    ways_out,
    ways_out_of,
)


def no_factor(error: BaseException, line: str) -> set[str]:
    """Advice if LAPACK found a matrix singular, or not positive definite.

    `line` is the user's, as text. Returns nothing for another error, or for one with a note.
    """
    if not isinstance(error, np.linalg.LinAlgError) or hasattr(error, "__notes__"):
        return set()
    traceback, within = error.__traceback__, ""
    while traceback is not None:
        known = traceback.tb_frame.f_locals
        if traceback.tb_frame.f_code.co_name == "walk" and "cotangent" in known:
            within = f" in the derivative of `{known['primitive'].name}`"
        traceback = traceback.tb_next
    return {
        f"LAPACK met such a matrix{within}{line}. Where a matrix has no inverse, or no such "
        "factor, these functions have no derivative. Keep it regular, as by a + 1e-9 * np.eye(n), "
        "or take pinv or lstsq; fg.why(f)(*args) names the line of the function."
    }


_OURS = os.path.join(FUNGRAD, "scipy", "")
_SCIPY = r"[\\/](?:site|dist)-packages[\\/]scipy[\\/](\w+)[\\/]"


# One object for a line, however often it runs: a long trace refers to one in each equation.
_source = functools.lru_cache(maxsize=4096)(Source)


def _user_frame() -> types.FrameType | None:
    """The innermost frame outside fungrad, NumPy and SciPy; None if there is none."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_source() -> Source | None:
    """The file, line and function of the innermost frame outside fungrad, NumPy and SciPy."""
    frame = _user_frame()
    if frame is None:
        return None
    return _source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def raised_at(error: BaseException) -> Source | None:
    """The innermost line of an error's traceback outside fungrad, NumPy and SciPy."""
    traceback, line = error.__traceback__, None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not is_library(code.co_filename):
            line = Source(code.co_filename, traceback.tb_lineno, code.co_name)
        traceback = traceback.tb_next
    return line


def _is_installed(filename: str) -> bool:
    """Whether a file belongs to Python or to an installed package, and not to the user."""
    return origin(filename) in ("scipy", "python", "package")


def user_line() -> str:
    """The user's line as text for messages: ` at file:line (function)`, or nothing.

    If an installed package (pandas) is between, both its line and the user's that called it.
    """
    source = user_source()
    if source is None:
        return ""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and _is_installed(source.file):
        code = frame.f_code
        if origin(code.co_filename) == "user":
            caller = _source(code.co_filename, frame.f_lineno, code.co_name)
            return f" at {source}, called at {caller}"
        frame = frame.f_back
    return f" at {source}"


def ways_out_here() -> str:
    """The ways out of an error at the user's innermost line, with its names: see `ways_out`."""
    frame: types.FrameType | None = sys._getframe(1)
    outermost, called = None, False
    while frame is not None:
        file = frame.f_code.co_filename
        if origin(file) == "user":
            if outermost is not None and not called:  # the line calls a transform of it
                return ways_out_of(outermost)
            return ways_out(frame.f_code, frame.f_lasti, names_in(frame))
        called = _is_installed(file)
        outermost = frame.f_code if called else outermost
        frame = frame.f_back
    return ways_out(None, 0, {})


def written_name() -> str:
    """The user's name of the array that the innermost line writes into: see `name_of_written`."""
    frame = _user_frame()
    return "a" if frame is None else name_of_written(frame.f_code, frame.f_lasti)


def object_array() -> str:
    """The user's name of the array of objects whose method the innermost line calls; else empty."""
    frame = _user_frame()
    if frame is None:
        return ""
    return object_array_at(frame.f_code, frame.f_lasti, frame.f_locals)


def in_a_package() -> bool:
    """Whether an installed package, SciPy among them, and not the user, runs the current line."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not is_internal(filename):
            return _is_installed(filename)
        frame = frame.f_back
    return False


def describe(f: Callable[..., Any]) -> str:
    """The name of a function without its wrappers, and the place of its definition."""
    f = inspect.unwrap(f)
    name = getattr(f, "__name__", type(f).__name__)
    code = getattr(f, "__code__", None)
    return f"`{name}`" if code is None else f"`{name}` ({code.co_filename}:{code.co_firstlineno})"


def check_function(f: Any, verb: str) -> None:
    """Checks that `f` is callable.

    Raises:
      ArgumentError: naming the type that was given, most often that of the function's value.
    """
    if not callable(f):
        raise ArgumentError(
            f"{verb} takes a function, and was given a {type(f).__name__}{user_line()}. Give it "
            "the function f itself, in place of its value f(x)."
        )


def _without_library_frames(traceback: types.TracebackType | None) -> types.TracebackType | None:
    kept = []
    while traceback is not None:
        if not is_ours(traceback.tb_frame.f_code.co_filename):
            kept.append(traceback)
        traceback = traceback.tb_next
    result: types.TracebackType | None = None
    for item in reversed(kept):
        result = types.TracebackType(result, item.tb_frame, item.tb_lasti, item.tb_lineno)
    return result


_OBJECTS = (
    "An array of objects that holds traced values reached NumPy, which cannot compute with it. "
    "Make the array by fg.numpy.array([...]) or np.stack, which also take plain numbers."
)
_HOLDER = (
    "Code that needs a plain ndarray got an object that holds a traced array. "
    "Give that code fg.stop_gradient of it, or compute with the traced array itself."
)
_NUMBER = (
    "NumPy needs a number here, and of a traced value only the type is known. Make it an "
    "argument that is not traced (jit: static_argnames), or call the function without tracing "
    "it."
)
_BESIDE = (
    "Operators combine a traced value with arrays, numbers, lists, tuples, range and memoryview. "
    "Convert the other operand, for example by np.array(list(value))."
)
_ADVICE = {
    "'Tracer' and '": _BESIDE,
    "' and 'Tracer'": _BESIDE,
    "all returned NotImplemented from __array_ufunc__": _BESIDE,
    "loop of ufunc does not support argument": _OBJECTS,
    "from dtype('O') to": _OBJECTS,
    "not supported for the input types": _OBJECTS,
    "object arrays are not supported": _OBJECTS,
    "rray type object": _OBJECTS,
    "dtype object": _OBJECTS,
    "must be real number, not Tracer": _OBJECTS,
    "__array__ method not producing an array": _HOLDER,
    "a single integer, got 'Tracer(": _NUMBER,
    "Error setting single item of array": (
        "NumPy asked a traced value for a number, to write it into an ndarray, where its "
        "derivative would be lost. Build the array from its parts by np.stack or np.concatenate."
    ),
    "'Tracer' object cannot be interpreted as an integer": _NUMBER,
}
"""Notes on NumPy's messages, which name no cause that a user could mend."""


class _Refused(_thread._local):
    """The line that last used a traced value without a number as an index."""

    index: Source | None = None


REFUSED = _Refused()
_INDEXING = ("only integers, slices (`:`)", "arrays used as indices must be of integer")
"""The beginnings of NumPy's errors for an invalid index, which hide the cause."""


def refused_index(error: IndexError) -> AbstractValueError | None:
    """The error for an ndarray that was indexed by a traced value; None for another cause."""
    line = raised_at(error)
    if line is None or line != REFUSED.index or not str(error).startswith(_INDEXING):
        return None
    found = AbstractValueError(
        f"An ndarray was indexed by a traced value at {line}. It needs the numbers of an index, "
        "and of this one only the type is known. fungrad lets arrays that the function holds "
        "(globals, closures, attributes, arguments) take traced indices; this one is made or read "
        "elsewhere. Write np.take(a, i, axis=0) for a[i], and np.array(a)[i, j] for more axes, "
        "slices and masks."
    )
    found.indexes_array = True
    return found


def _is_traced(value: Any) -> bool:
    """Whether a local variable is a traced value, or an array of some."""
    if isinstance(value, (tuple, list)):
        return any(_is_traced(v) for v in value)
    objects = type(value) is np.ndarray and value.dtype == object
    return objects or str(type(value).__module__).startswith("fungrad.tracing.")


def _called_of_scipy(traceback: types.TracebackType | None) -> tuple[str, str, Any] | None:
    """The subpackage, the function (`special`, `logsumexp`; or `norm.logpdf`) and the user's line,
    if SciPy's own Python code failed with traced values. The function is empty if SciPy has no
    public name for it. None if the user called fungrad.scipy, which called SciPy.
    """
    called: tuple[str, str, Any] | None = None
    user: Source | None = None
    words: tuple[str, ...] = ()
    traced = ours = False
    while traceback is not None:
        code = traceback.tb_frame.f_code
        found = re.search(_SCIPY, code.co_filename)
        if found is not None:
            local = traceback.tb_frame.f_locals
            traced = traced or any(map(_is_traced, list(local.values())))
            part, name, _ = called or (found[1], "", user)
            part = found[1] if part.startswith("_") else part  # the wrappers of scipy._lib
            called = part, name or _public(part, code, local.get("self"), words), user
        elif not is_library(code.co_filename):
            user = Source(code.co_filename, traceback.tb_lineno, code.co_name)
            words = code.co_names
            called, traced, ours = None, False, False
        elif called is None:
            ours = ours or code.co_filename.startswith(_OURS)
        traceback = traceback.tb_next
    return called if traced and not ours else None


def _public(part: str, code: types.CodeType, instance: Any, words: tuple[str, ...]) -> str:
    """SciPy's public name for a function, or for a method of an instance (`norm.logpdf`). A
    decorated function's code has another name: then the name is sought among those that the user's
    code contains (`words`).
    """
    home = loaded(f"scipy.{part}")
    function = code.co_name
    if instance is None:
        if hasattr(home, function):
            return function
        found = [w for w in words if getattr(getattr(home, w, None), "__code__", None) is code]
        return found[0] if len(found) == 1 else ""
    kinds = {type(instance), type(getattr(instance, "dist", instance))}  # a frozen distribution
    method = "" if function in ("__init__", "__call__") else f".{function}"
    for name, value in snapshot(vars(home)).items() if home is not None else ():
        if value in kinds if isinstance(value, type) else type(value) in kinds:
            return f"{name}{method}"
    return ""


def _no_counterpart(part: str, name: str) -> str:
    return ""


_counterpart: Callable[[str, str], str] = _no_counterpart


def name_counterparts(find: Callable[[str, str], str]) -> None:
    """Installs the function that names fungrad's counterpart of a function of SciPy.

    It takes SciPy's module and the name in it and returns both as `stats.norm.logpdf`: the module
    alone if the name is not known, nothing if there is no counterpart.
    """
    global _counterpart
    _counterpart = find


def instead_of_scipy(part: str, name: str, line: Source | None) -> UnsupportedFunctionError:
    """The error for a function of SciPy on traced values, naming the one to call instead."""
    called = f"scipy.{part}.{name}" if name else f"A function of scipy.{part}"
    where = user_line() if line is None else f" at {line}"
    ours = _counterpart(part, name)
    if part == "optimize":
        advice = (
            "Take scipy.optimize.minimize without constraints, root or another function whose "
            "solution fungrad differentiates by its equation (docs/scipy.md), or give the equation "
            "to fg.custom_root yourself."
        )
    elif ours:
        take = (
            f"Take fungrad.scipy.{ours}" if name else f"Take the function of fungrad.scipy.{part}"
        )
        advice = f"{take}, with the same arguments: `from fungrad.scipy import {part}`."
    else:
        lacks = f"{part}.{name}" if name else part
        advice = f"fungrad has no {lacks} of its own: wrap SciPy's by fg.external."
    return UnsupportedFunctionError(
        f"{called} was called on a traced value{where}. {advice} SciPy makes ndarrays of its "
        'arguments, in which traced values get lost. `with fg.opaque("differences"):` around the '
        "derivative computes it by differences."
    )


def _advise(error: BaseException) -> None:
    """Adds advice to an error whose text is known."""
    notes = getattr(error, "__notes__", ())
    advices = {_ADVICE[known] for known in _ADVICE if known in str(error)}
    advices |= no_factor(error, user_line())
    for advice in advices.difference(notes):
        error.add_note(advice)


def strict() -> bool:
    """Whether defects of fungrad are errors that show where they come from."""
    return os.environ.get("FUNGRAD_STRICT", "") not in ("", "0")


_DEFECTS = (RuntimeError, AttributeError, KeyError, NameError, AssertionError, SystemError)
"""The classes of errors of fungrad's own code that are no answers of NumPy's to an argument."""
_MEANT = (FungradError, RecursionError, NotImplementedError, Warning)


def _is_defect(error: BaseException) -> bool:
    """Whether an error began in fungrad's own code, which did not raise it itself."""
    if isinstance(error, _MEANT) or not (strict() or isinstance(error, _DEFECTS)):
        return False
    traceback, last = error.__traceback__, None
    while traceback is not None:
        if origin(traceback.tb_frame.f_code.co_filename) != "python":
            last = traceback
        traceback = traceback.tb_next
    if last is None or not is_ours(last.tb_frame.f_code.co_filename):
        return False
    raised = last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE
    return isinstance(error, AssertionError) or last.tb_next is not None or not raised


_RAISE = opcode.opmap["RAISE_VARARGS"]


def shortened(error: Exception) -> Exception:
    """An error as it leaves a public function: without fungrad's own frames, and with advice. A
    defect of fungrad's keeps the frames.
    """
    if os.environ.get("FUNGRAD_TRACEBACK") == "full":
        return error
    short = error.__traceback__
    if not _is_defect(error):
        short = _without_library_frames(short)
    indexed = refused_index(error) if type(error) is IndexError else None
    if indexed is not None:
        indexed.__suppress_context__ = True  # the context is NumPy's error
        return indexed.with_traceback(short)
    mistaken = isinstance(error, (TypeError, ValueError, AttributeError))
    if mistaken and not isinstance(error, np.linalg.LinAlgError):
        called = _called_of_scipy(error.__traceback__)
        if called is not None:
            instead = instead_of_scipy(*called)
            line = called[2]
            if line is None or not _is_installed(line.file):
                instead.__cause__ = error.with_traceback(short)
                return instead
            error.add_note(instead.message)  # a package called SciPy
    cause = error.__cause__
    if isinstance(cause, FungradError) and not isinstance(error, FungradError):
        # `a[:] = x` on an ndarray: NumPy says "setting an array element with a sequence".
        cause.__cause__ = None  # and no context, which is NumPy's error
        return cause.with_traceback(short)
    if mistaken and not isinstance(error, FungradError):
        _advise(error)
    add_note(error)
    return error.with_traceback(short)


def warn_user(text: str, category: type[Warning]) -> None:
    """Issues a warning at the user's line."""
    warn_at(_user_frame(), text, category)


_warnings = NumPyWarnings(_user_frame)
begin_reporting = _warnings.begin
reporting = _warnings.reporting
end_reporting = _warnings.end


def begin_by(current: Callable[[], Any], lowest: Any, leave: Callable[[], bool]) -> None:
    """Makes each public function call `leave` first if `current()` is not `lowest`."""
    _warnings.current, _warnings.lowest, _warnings.leave = current, lowest, leave
