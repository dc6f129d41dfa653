"""Functions that are traced once more, with what they met.

NumPy calls no protocol for the items of a list, np.exp([x, 1.0]) or a * [x, 1.0], and makes an
object array of them; nor for an index, a[i] of a plain ndarray. It asks each item for `__array__`
first, which notes here that NumPy met such a list, and it raises an error for the index. The
function is then traced once more, while the ufuncs and arrays that it can reach, by globals,
closures, defaults, attributes, items and arguments (bound_names.py), stand behind objects that see
such operands first (stand_ins.py). From then on its first trace has them. So it is with traced
values that are written into plain arrays (shadows.py). Other functions never pay for it.
"""

from __future__ import annotations

import functools
import opcode
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

from fungrad.errors import AbstractValueError, UnsupportedArgumentError
from fungrad.tracing import interception, stand_ins
from fungrad.tracing.bound_names import KEPT, traced_function
from fungrad.tracing.code_origin import is_internal
from fungrad.tracing.refusals import Met
from fungrad.tracing.shadows import meets_stores
from fungrad.tracing.source_location import in_a_package, refused_index, user_line
from fungrad.tracing.trace import EVAL, OfOutlived, Tracer, current

T = TypeVar("T")

_CALLS = frozenset(
    n for name, n in opcode.opmap.items() if name.startswith(("CALL", "FOR_ITER", "PRECALL"))
)
_OPERATORS = frozenset(
    n for name, n in opcode.opmap.items() if name.startswith(("BINARY_OP", "COMPARE", "CONTAINS"))
)
"""The instructions in which NumPy computes with lists."""


class _AsArray(OfOutlived):
    """`__array__`, which NumPy asks items of lists for."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        frame = sys._getframe(1)
        if instance is not None and current() is not EVAL:
            _note(frame)
        return self.given_to(instance, frame)


def _note(frame: FrameType) -> None:
    """Notes that NumPy asked for `__array__`, if the frame, outside of fungrad and NumPy, computes
    now, and asks for no name.
    """
    code, name = frame.f_code, frame.f_code.co_filename
    instruction = code.co_code[frame.f_lasti]
    if is_internal(name):
        return
    if instruction in _OPERATORS and not in_a_package():  # who could rewrite one?
        Met.note("operator", user_line())
    elif instruction in _OPERATORS:
        Met.note("list")
    elif instruction in _CALLS and not interception.asks_by_name(frame):
        if "__array__" not in (*code.co_consts, *code.co_names):
            Met.note("list")


Tracer.__array__ = _AsArray(vars(Tracer)["__array__"].function)  # type: ignore[method-assign]

_with_them: dict[int, Any] = {}
"""By identity, the code of functions, and the classes of callables, whose first trace has
stand-ins.
"""


def _function(label: Callable[[], str], f: Callable[..., Any]) -> Any:
    """The user's function that a trace runs."""
    found: Any = traced_function(label) or traced_function(f)
    while type(found) is functools.partial:
        found = found.func
    return found


def _code(function: Any) -> Any:
    return getattr(function, "__code__", type(function))


def _indexes(error: Exception | None) -> bool:
    """Whether an error is that of an ndarray that was indexed by a traced value."""
    if isinstance(error, AbstractValueError):  # as a transform inside of this one raises it
        return error.indexes_array
    return isinstance(error, IndexError) and refused_index(error) is not None


def traced(run: Callable[[], T], label: Callable[[], str], f: Callable[..., Any]) -> T:
    """The result of `run()`, which traces f; it is called once more if that can do more.

    Args:
      run: makes a new trace, and runs f under it.
      label: describes the trace.
      f: the function that fungrad derived from the user's, which `label` or f itself holds.

    Raises:
      UnsupportedArgumentError: if a list with traced items meets an array that was not found.
    """
    has_them = bool(_with_them) and id(_code(_function(label, f))) in _with_them
    try:
        result = _with_stand_ins(run, label, f) if has_them else run()
    except Exception as error:
        if not _takes_more(label, f, has_them, error):
            raise
    else:
        if not Met.seen or not _takes_more(label, f, has_them, None):
            return result
    return traced(run, label, f)


def _with_stand_ins(run: Callable[[], T], label: Callable[[], str], f: Callable[..., Any]) -> T:
    arrays = not interception.has_shadows(_function(label, f))  # which take such operands, too
    pair_of = stand_ins.pairs(arrays)
    with interception.replacing(label, f, pair_of, stand_ins.OF_WRITABLE, shadows=False):
        return run()


def _takes_more(
    label: Callable[[], str], f: Callable[..., Any], has_them: bool, error: Exception | None
) -> bool:
    """Whether the next trace of f can do more than the last one, which has ended with an error, if
    one is given, and had stand-ins or not. Of lists and writes the outermost trace is told, of an
    index the innermost.
    """
    more = bool(Met.seen) and meets_stores(label, f, error is not None)
    line = listed = None
    if Met.seen and current() is EVAL:
        line, listed = Met.had("operator"), Met.had("list")
    if line is None and listed is None and not _indexes(error):
        return more
    function = _function(label, f)
    code = _code(function)
    if function is not None and interception.State.on and not has_them:
        if len(_with_them) >= KEPT:
            _with_them.clear()
        _with_them[id(code)] = code
        return True
    if line is not None and not more:
        raise UnsupportedArgumentError(
            f"A list with traced values in it was combined{line} with an array that fungrad did "
            "not find: NumPy makes an object array of it, whose dtype, .real and .imag are others. "
            "Make the list an array before, np.array([...]), or the other operand, np.array(a)."
        ) from error
    return more
