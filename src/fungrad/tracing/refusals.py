"""Errors where Python needs the numbers or the memory of a traced value, which it cannot have.

Each error names the user's line and the rewrite.
"""

from __future__ import annotations

import linecache
import opcode
import re
import sys
from _thread import get_ident
from collections import ChainMap
from collections.abc import Iterable
from numbers import Number
from types import FrameType
from typing import Any, ClassVar

import numpy as np

from fungrad.errors import (
    GradientCutError,
    ItemAssignmentError,
    MemoryAccessError,
    UnsupportedFunctionError,
)
from fungrad.ir.types import Type
from fungrad.tracing import interception
from fungrad.tracing.code_origin import is_internal, is_library
from fungrad.tracing.source_location import (
    in_a_package,
    object_array,
    user_line,
    ways_out_here,
    written_name,
)
from fungrad.tracing.ways_out import call_at, looked_up_at, value_of

_STORES = frozenset(
    [opcode.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in opcode.opmap]
)
_BINARY_OP = opcode.opmap["BINARY_OP"]
_FILLS = frozenset(["fill", "put"])
"""The methods of an ndarray that ask for numbers and write them."""


class Met:
    """What NumPy met in traces that run, or have just run, and a second trace can take."""

    seen: ClassVar[dict[tuple[str, int], str]] = {}
    """"list" of traced items in a call, "operator" with such a list, or "store" of a traced value
    in a plain array, and the thread; each with the user's line of an operator.
    """

    @classmethod
    def note(cls, what: str, line: str = "") -> None:
        """Notes what this thread met."""
        cls.seen[what, get_ident()] = line

    @classmethod
    def had(cls, what: str) -> str | None:
        """The line where this thread met it, or None; forgets it."""
        return cls.seen.pop((what, get_ident()), None)


def hashed() -> bool:
    """Whether the method that calls this was called by `hash(tracer)`: sets and dicts are not."""
    frame = sys._getframe(2)
    code = frame.f_code
    if "hash" not in code.co_names:
        return False
    call = call_at(code, frame.f_lasti)
    return call is not None and getattr(call.func, "id", "") == "hash"


def keyed() -> bool:
    """Whether code outside of fungrad, NumPy and SciPy asks the method that calls this."""
    return not is_library(sys._getframe(2).f_code.co_filename)


def looked_up() -> dict[Any, Any]:
    """The plain numbers among the keys of the set or dict in which the code that calls the method
    that calls this looks a value up; empty if it does not, or they are not known.
    """
    return {key: key for key in _table(sys._getframe(2)) if issubclass(type(key), Number)}


def _table(frame: FrameType) -> Iterable[Any]:
    """The set or dict of the look-up that a frame does; empty if it does none, or it is unknown."""
    code = frame.f_code
    table = None if is_library(code.co_filename) else looked_up_at(code, frame.f_lasti)
    found = value_of(table, ChainMap(frame.f_locals, frame.f_globals)) if table else ()
    return found if isinstance(found, (dict, set, frozenset)) else ()


def stored() -> bool:
    """Whether the method that calls this was called by `array[index] = tracer`, or by a method that
    fills an array.

    NumPy gets the number by the same methods as `int(x)`; the current instruction of the caller's
    code tells the two apart.
    """
    frame = sys._getframe(2)
    code = frame.f_code
    if code.co_code[frame.f_lasti] in _STORES:
        return not isinstance(_table(frame), dict)
    if _FILLS.isdisjoint(code.co_names):
        return False
    call = call_at(code, frame.f_lasti)
    return call is not None and getattr(call.func, "attr", "") in _FILLS


_REMAINDERS = frozenset(
    [i for i, (_, sign) in enumerate(opcode._nb_ops) if sign in ("%", "%=")]  # type: ignore[attr-defined]
)
"""The arguments of BINARY_OP for `%`, which asks for the numbers of a text's right side."""
_TEXTS = frozenset(["format_float_positional", "format_float_scientific"])


def formatted() -> FrameType | None:
    """The frame of the user, if the method that calls this was called by `text % tracer`, or by a
    function of NumPy that makes a text of a number.

    Operators of numbers and arrays call a method of the tracer for `%`, and never ask for a float.
    """
    frame: Any = sys._getframe(2)
    code = frame.f_code
    if code.co_name in _TEXTS and frame.f_globals.get("__name__") == "numpy._core.arrayprint":
        while frame is not None and is_library(frame.f_code.co_filename):
            frame = frame.f_back
        return frame  # type: ignore[no-any-return]
    instruction, argument = code.co_code[frame.f_lasti : frame.f_lasti + 2]
    return frame if instruction == _BINARY_OP and argument in _REMAINDERS else None


_OFF = (
    "Arrays that are made while the transform runs could be written into, but "
    "fg.config.intercept is False. Build the array from its parts (np.stack, np.concatenate, "
    "np.where), or write `a = fg.numpy.at(a)[index].set(value)` for `a[index] = value`."
)


def _writable() -> str:
    """Advice for an array that has no shadow, with the user's own name for it."""
    name = written_name()
    return (
        "Arrays that the function finds (globals, closures, attributes, items, arguments) can hold "
        "traced values, and so can what NumPy computes from them; this one is made elsewhere, by "
        f"compiled code. Write into a copy: `{name} = np.array({name})` before. Where a package "
        "makes it by a name of its own (`from numpy import zeros`), name that: "
        'fg.intercept("package").'
    )


def _package() -> str:
    """The name of the package whose code runs the innermost line outside of fungrad and NumPy."""
    frame: Any = sys._getframe(1)
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return "package" if frame is None else str(frame.f_globals.get("__name__")).partition(".")[0]


def refused_store(type_: Type, function: str = "") -> ItemAssignmentError:
    """The error for a traced value that is written into an ndarray, by a function or by `=`."""
    Met.note("store")
    by = f" by {function}" * bool(function)
    if in_a_package():
        package = _package()
        advice = (
            "A package writes it: give it fg.stop_gradient(x), as for a plot, or, to differentiate "
            f'through it, name it: fg.intercept("{package}"). {ways_out_here()}'
        )
    else:
        advice = _writable() if interception.State.on else _OFF
        advice += " On purpose: `a[index] = fg.stop_gradient(value)`."
    return ItemAssignmentError(
        f"A traced value is written into an ndarray{user_line()}{by}, which can hold plain "
        f"numbers only: this value ({type_}) would lose its derivative. {advice}"
    )


def refused_pickle(type_: Type) -> MemoryAccessError:
    """The error for a traced value that is pickled: its transform is in this process alone."""
    return MemoryAccessError(
        f"A traced value of type {type_} is pickled{user_line()}, to be kept in a file or sent to "
        "another process, which cannot continue the transform that runs. Do that outside of the "
        "transform; give other processes fg.stop_gradient(x), or call them by fg.external, with a "
        "derivative."
    )


def refused_memory(type_: Type, name: str, advice: str = "") -> MemoryAccessError:
    """The error for access to the memory of a traced value, which has none."""
    return MemoryAccessError(
        f"{name} of a traced value of type {type_} was asked for{user_line()}, but a traced value "
        "has no memory with numbers: they would have no derivative. " + (advice or ways_out_here())
    )


def _full_name(func: Any) -> str:
    name = getattr(func, "__name__", str(func))
    own = getattr(np, name, None) is func  # NumPy names its module as that of each ufunc
    module = getattr(func, "__module__", None) or "numpy"  # a ufunc has none before NumPy 2.1
    return name if isinstance(func, np.ufunc) and not own else f"{module}.{name}"


ALIKE = 0.8
"""The least similarity (of difflib) of two names for one to be suggested for the other."""


def refused_function(func: Any, supported: Iterable[Any]) -> UnsupportedFunctionError:
    """The error for a function of NumPy without an implementation, naming the supported function
    with the nearest name.
    """
    import difflib  # 2 ms, for a message

    name = _full_name(func)
    known = {f.__name__: _full_name(f) for f in supported}
    near = difflib.get_close_matches(name.rpartition(".")[2], known, n=1, cutoff=ALIKE)
    advice = f" The nearest supported function by name is {known[near[0]]}." if near else ""
    return UnsupportedFunctionError(
        f"{name} was called on a traced value{user_line()}, but fungrad has no implementation of "
        f"it.{advice} Write it with supported functions, or declare a primitive by fungrad.extend. "
        f"{ways_out_here()}"
    )


def refused_number(type_: Type, asked: str) -> GradientCutError:
    """The error for the conversion of a traced value to plain numbers, as by `float()`."""
    stop = "fg.stop_gradient(x)"
    on_purpose = f"{stop}{asked}" if asked[0] == "." else f"{asked[:-1]}{stop})"
    bound = bound_before()
    objects = object_array()
    if objects:
        remedy = (
            f"`{objects}` is an array of objects, with which NumPy computes by Python's numbers. "
            f"Make it an array of numbers before: `{objects} = np.array({objects}.tolist())`."
        )
    elif bound:
        remedy = bound
    elif in_a_package():
        remedy = (
            "A package converts its arguments to plain numbers. Where it solves an equation or "
            f"minimises, use fg.custom_root. {ways_out_here()}"
        )
    else:
        remedy = (
            "Leave it as it is: NumPy's functions, those of math and of fungrad.scipy take traced "
            "values. Write fg.numpy.asarray(x, dtype=float) for np.asarray(x, dtype=float), "
            "np.stack or `a = fg.numpy.at(a)[i].set(x)` for array[i] = x. To cut it on purpose: "
            f"{on_purpose}. {ways_out_here()}"
        )
    return GradientCutError(
        f"Python asked for {asked} of a traced value of type {type_}{user_line()}, which "
        f"would cut its gradient silently. {remedy}"
    )


def bound_before() -> str:
    """Advice if the innermost line outside of fungrad names the original of a replaced function;
    empty if it names none.
    """
    frame = sys._getframe(1)
    while is_internal(frame.f_code.co_filename):
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    if not interception.State.on:
        return (
            "fungrad.config.intercept is False, so that functions of NumPy, math and SciPy, which "
            "need plain numbers, are not replaced: set it to True."
        )
    line = set(re.findall(r"\w+", linecache.getline(frame.f_code.co_filename, frame.f_lineno)))
    for name in (*frame.f_code.co_names, *frame.f_code.co_varnames, *frame.f_code.co_freevars):
        if line and name not in line:
            continue
        own = name in frame.f_locals
        value = (frame.f_locals if own else frame.f_globals).get(name)
        found = interception.replaced(value)
        if found is not None and found[0] is value:
            full = _full_name(found[0])
            package = str(frame.f_globals.get("__name__")).partition(".")[0]
            write = f"write {full} there" if own else f'call fg.intercept("{package}") once before'
            return f"`{name}` is {full} there, bound before the transform ran: {write}."
    return ""
