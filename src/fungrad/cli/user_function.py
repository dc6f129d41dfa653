"""The command line's function: loads the file, binds values, runs, and checks the result.

An error of the user's code becomes an InputError that names the user's line, the cause and the fix.
"""

from __future__ import annotations

import inspect
import linecache
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from fungrad.cli.parse_values import InputError, listed, nearest
from fungrad.errors import FungradError
from fungrad.support import pytree
from fungrad.support.lazy import module_of_file
from fungrad.support.snapshots import snapshot

EVALUATED = "was being evaluated"
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass
class UserCall:
    """A user's function with the value of each argument, defaults included."""

    function: Callable[..., Any]
    name: str
    file: str
    signature: inspect.Signature
    values: dict[str, Any]
    allow_nan: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def __name__(self) -> str:
        """The name in fungrad's messages."""
        return self.name

    def __call__(self, replaced: Mapping[str, Any]) -> Any:
        """The function's result with some values replaced; the others are copied for the call."""
        bound = self.signature.bind_partial()
        extra = {}
        for name, value in self.values.items():
            value = replaced[name] if name in replaced else pytree.map(_copied, value)
            if name in self.signature.parameters:
                bound.arguments[name] = value
            else:
                extra[name] = value
        return self.function(*bound.args, **bound.kwargs, **extra)

    def types(self) -> str:
        """The arguments with their dtypes and shapes, for messages."""
        return ", ".join(f"{name} {type_text(value)}" for name, value in self.values.items())


def _copied(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def type_text(value: Any) -> str:
    """A value's type in a few characters.

    >>> type_text(np.zeros((2, 3))), type_text(1.0), type_text({"a": 2})
    ('float64[2,3]', 'float', 'dict(int)')
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return (
            f"{value.dtype}[{','.join(map(str, value.shape))}]" if value.ndim else str(value.dtype)
        )
    if isinstance(value, (dict, tuple, list)):
        return f"{type(value).__name__}({', '.join(map(type_text, pytree.leaves(value)))})"
    return type(value).__name__


def load_call(target: str, values: Mapping[str, Any], allow_nan: bool = False) -> UserCall:
    """The function `FILE.py:name` with its arguments bound, checked for NaN and infinities."""
    call = load_function(target)
    call.allow_nan = allow_nan
    call.values = _bound(call, values)
    for key, value in call.values.items():
        check_finite(value, f"argument {key}", allow_nan, "clean the data")
    return call


def load_function(target: str) -> UserCall:
    """The function `FILE.py:name`, without values."""
    path, _, name = target.rpartition(":")
    if not path or not name:
        raise InputError(
            f"{target!r} names no function; write FILE.py:function, as in model.py:loss."
        )
    module = _load(Path(path))
    function = getattr(module, name, None)
    if not callable(function):
        known = [
            key
            for key, value in snapshot(vars(module)).items()
            if callable(value)
            and not isinstance(value, type)
            and getattr(value, "__module__", None) == module.__name__
        ]
        raise InputError(
            f"{path} has no function {name!r}; it has {listed(known)}." + nearest(name, known)
        )
    if inspect.iscoroutinefunction(function):
        raise InputError(f"{name} in {path} is an `async def`; write it as a plain `def`.")
    try:
        signature = inspect.signature(function)
    except ValueError:
        raise InputError(
            f"{name} in {path} has no known signature; wrap it in a Python function (def)."
        ) from None
    return UserCall(function, name, str(Path(path).resolve()), signature, {})


def _load(path: Path) -> ModuleType:
    if path.suffix != ".py":
        raise InputError(f"{str(path)!r} is not a Python file; write FILE.py:function.")
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r} in {Path.cwd()}; check the path.")
    name = f"user_{path.stem}"
    module, execute = module_of_file(name, path.resolve())
    sys.path.insert(0, str(path.resolve().parent))  # as `python FILE.py` does
    try:
        with quiet([]):
            execute()
    except SyntaxError as error:
        raise InputError(
            f"{error.filename}:{error.lineno} is not valid Python: {error.msg}. Fix that line."
        ) from None
    except (Exception, SystemExit) as error:
        line = _user_line(error, str(path.resolve()))
        raise InputError(
            f"importing {path} failed{line}: {_what(error)}. The file has to run on its own; put "
            "code for scripts only under `if __name__ == '__main__':`."
        ) from None
    return module


def _bound(call: UserCall, given: Mapping[str, Any]) -> dict[str, Any]:
    parameters = call.signature.parameters
    named = [key for key, p in parameters.items() if p.kind not in VARIADIC]
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    for name in given:
        if name not in named and not takes_any:
            raise InputError(
                f"{call.name} has no argument {name!r}; it has {listed(named)}."
                + nearest(name, named)
            )
    missing = [
        key for key in named if key not in given and parameters[key].default is inspect._empty
    ]
    if missing:
        example = " ".join(f"--arg {key}=..." for key in missing)
        raise InputError(f"{call.name} needs {listed(missing)}; add: {example}")
    values = {key: given.get(key, parameters[key].default) for key in named}
    return values | {key: value for key, value in given.items() if key not in named}


def check_finite(value: Any, what: str, allow_nan: bool, mend: str) -> None:
    """Refuses NaN and infinities, naming the first place that holds one."""
    if allow_nan:
        return
    leaves, structure = pytree.flatten(value)
    for leaf, path in zip(leaves, pytree.paths(structure), strict=True):
        array = np.asarray(leaf)
        if array.dtype.kind not in "fc" or np.isfinite(array).all():
            continue
        bad = np.argwhere(~np.isfinite(array))
        first = tuple(int(i) for i in bad[0])
        holds = f"is {array}"
        if array.ndim:
            values = "value" if len(bad) == 1 else "values"
            where = f"the first at {list(first)} ({array[first]})"
            holds = f"holds {len(bad)} NaN or infinite {values} of {array.size}, {where}"
        raise InputError(f"{what}{path} {holds}; {mend}, or pass --allow-nan.")


def evaluate(call: UserCall) -> Any:
    """The function's value at its arguments, checked to be one finite real number."""
    with quiet(call.notes), user_code(call, EVALUATED):
        result = call({})
    _check_scalar(call, result)
    cause = f" First warning: {call.notes[0]}." if call.notes else ""
    if not call.allow_nan and not np.isfinite(result):
        raise InputError(
            f"{call.name} returned {float(result)}; give arguments inside its domain, or pass "
            f"--allow-nan, with which `fungrad why` names the line.{cause}"
        )
    return result


def _check_scalar(call: UserCall, result: Any) -> None:
    name = call.name
    if result is None:
        raise InputError(f"{name} returned None; it has to return one real number (a `return`?).")
    if not isinstance(result, (float, int, complex, np.ndarray, np.generic)):
        raise InputError(
            f"{name} returned a {type(result).__name__}; it has to return one real number only."
        )
    array = np.asarray(result)
    if array.shape != ():
        raise InputError(
            f"{name} returned an array of shape {array.shape}, and a gradient needs one number; "
            "return np.sum(...) or np.mean(...) of it, or one entry."
        )
    if array.dtype.kind != "f":
        raise InputError(
            f"{name} returned {array.dtype}, and a gradient needs a real float; return "
            "np.real(...) or np.abs(...) of a complex number, and compute integers as floats."
        )


def select(call: UserCall, wrt: Sequence[str]) -> list[str]:
    """The arguments to differentiate by: those of --wrt, or the first one; all real floats."""
    if not call.values:
        raise InputError(f"{call.name} takes no arguments; there is nothing to differentiate by.")
    names = list(dict.fromkeys(wrt)) or [next(iter(call.values))]
    for name in names:
        if name not in call.values:
            raise InputError(
                f"--wrt {name}: {call.name} has no argument {name!r}; it has {listed(call.values)}."
                + nearest(name, call.values)
            )
        leaves, structure = pytree.flatten(call.values[name])
        for leaf, path in zip(leaves, pytree.paths(structure), strict=True):
            if not is_real(leaf):
                floats = [key for key, value in call.values.items() if is_differentiable(value)]
                raise InputError(
                    f"cannot differentiate with respect to {name}{path}: it is "
                    f"{type_text(leaf)}, not a real float; write it as a float (1.0, or --arg "
                    f"{name}:float=...), or choose another with --wrt (floats here: "
                    f"{listed(floats)})."
                )
        if not sum(map(np.size, leaves)):
            raise InputError(f"cannot differentiate with respect to {name}: it holds no number.")
    return names


def is_real(leaf: Any) -> bool:
    """Whether a value is a Python float or a NumPy array or scalar of real floats."""
    return isinstance(leaf, float) or (
        isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind == "f"
    )


def is_differentiable(value: Any) -> bool:
    """Whether a value is a tree with real floats and nothing else."""
    leaves = pytree.leaves(value)
    return bool(leaves) and all(map(is_real, leaves))


@contextmanager
def quiet(notes: list[str]) -> Iterator[None]:
    """Collects warnings as notes with their file and line, instead of letting them reach stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield
    for warning in caught:
        note = f"{warning.message} ({warning.filename}:{warning.lineno})"
        if note not in notes:
            notes.append(note)


@contextmanager
def user_code(call: UserCall, doing: str) -> Iterator[None]:
    """Turns errors of the user's code into an InputError that names the user's line."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        line = _user_line(error, call.file)
        # NumPy wraps the error of float(x) for a traced value that is put into an array.
        told = next((e for e in (error, error.__cause__) if isinstance(e, FungradError)), None)
        if told is not None:
            line = "" if call.file in told.message else line
            text = f"{call.name} failed while it {doing}{line}. {told.message}"
            raise InputError(text) from error
        advice = f"Check the function or the arguments: {call.types()}."
        if doing != EVALUATED:
            advice = "It works on plain numbers; FUNGRAD_TRACEBACK=full shows where it fails now."
        raise InputError(
            f"{call.name} failed while it {doing}{line}: {_what(error)}. {advice}"
        ) from error


def _what(error: BaseException) -> str:
    text = str(error).strip().rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _user_line(error: BaseException, file: str) -> str:
    """` at FILE:LINE, `source``, of the innermost frame in the user's file, if there is one."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if frame.filename == file and frame.lineno:
            source = linecache.getline(file, frame.lineno).strip()
            return f" at {Path(file).name}:{frame.lineno}, `{source}`"
    return ""
