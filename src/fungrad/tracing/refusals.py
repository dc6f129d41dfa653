"""Floor 2: what Python asks of a traced value and may not have: numbers, and places to write to.

Each refusal names the user's line and the rewrite. Knows types, frames and errors; no trace.
"""

from __future__ import annotations

import opcode
import sys
from collections.abc import Iterable
from typing import Any

from fungrad.errors import (
    GradientCutError,
    ItemAssignmentError,
    MemoryAccessError,
    UnsupportedFunctionError,
)
from fungrad.ir.types import Type
from fungrad.tracing.source import in_a_package, user_line

_STORES = frozenset(
    [opcode.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in opcode.opmap]
)


def stored() -> bool:
    """Whether the method that calls this is asked for a number at `array[index] = tracer`.

    NumPy asks for it by the methods that `int(x)` calls, too, and says nothing of its purpose; the
    instruction that the caller's code stands at does.
    """
    frame = sys._getframe(2)
    return frame.f_code.co_code[frame.f_lasti] in _STORES


def refused_store(type_: Type) -> ItemAssignmentError:
    """The error for a traced value that is written into an ndarray."""
    return ItemAssignmentError(
        f"A traced value is written into an ndarray{user_line()}, which holds plain numbers "
        f"only: a number in it ({type_}) would lose its derivative, and be rounded where "
        "the ndarray holds integers or booleans. Build the array of its parts (np.stack, "
        "np.concatenate, np.where), or write `a = fg.numpy.at(a)[index].set(value)` for "
        "`a[index] = value`. On purpose: `a[index] = fg.stop_gradient(value)`."
    )


def refused_pickle(type_: Type) -> MemoryAccessError:
    """The error for a traced value that is pickled: what it stands for is in this process alone."""
    return MemoryAccessError(
        f"A traced value of type {type_} is pickled{user_line()}, to be kept in a file or sent to "
        "another process, which know nothing of the transform that runs. Do that outside of the "
        "transform; give other processes fg.stop_gradient(x), or call them by fg.external, with a "
        "derivative."
    )


def refused_memory(type_: Type, name: str, advice: str = "") -> MemoryAccessError:
    """The error for the memory of a traced value, which has none of its own."""
    return MemoryAccessError(
        f"{name} of a traced value of type {type_} was asked for{user_line()}: the memory of an "
        "array, which a traced value has not. Numbers read from there would have no derivative. "
        + (
            advice
            or "Compiled code that needs it is called by fg.external, with a derivative, or given "
            "fg.stop_gradient(x)."
        )
    )


def _full_name(func: Any) -> str:
    module = getattr(func, "__module__", None) or "numpy"  # a ufunc has none before NumPy 2.1
    return f"{module}.{getattr(func, '__name__', func)}"


ALIKE = 0.8
"""How much of a name another one has to share to be worth naming."""


def refused_function(func: Any, supported: Iterable[Any]) -> UnsupportedFunctionError:
    """The error for a function of NumPy without an implementation, naming the nearest of those that
    have one.
    """
    import difflib  # 2 ms, for a message

    name = _full_name(func)
    known = {f.__name__: _full_name(f) for f in supported}
    near = difflib.get_close_matches(name.rpartition(".")[2], known, n=1, cutoff=ALIKE)
    advice = f" The nearest supported function by name is {known[near[0]]}." if near else ""
    return UnsupportedFunctionError(
        f"{name} was called on a traced value{user_line()}, but fungrad has no implementation of "
        f"it.{advice} Write it of supported functions, declare a primitive with fungrad.extend, or "
        "call it on fg.stop_gradient(x) where no gradient is wanted."
    )


def refused_number(type_: Type, kind: str) -> GradientCutError:
    """The error for a traced value that Python makes a `float` or a `complex` of."""
    if in_a_package():
        remedy = (
            "A package that makes plain numbers or arrays of its arguments asked: give it "
            "fg.stop_gradient(x), or wrap its function by fg.external, with a derivative."
        )
    else:
        remedy = (
            "Write fg.numpy.asarray(x, dtype=float) for np.asarray(x, dtype=float), np.stack "
            "or `a = fg.numpy.at(a)[i].set(x)` for array[i] = x, and NumPy's function for "
            "Python's (np.sin for math.sin). To cut it on purpose: "
            f"{kind}(fg.stop_gradient(x))."
        )
    return GradientCutError(
        f"Python asked for {kind}() of a traced value of type {type_}{user_line()}, which "
        f"would cut its gradient silently. {remedy}"
    )


__all__ = [
    "refused_function",
    "refused_memory",
    "refused_number",
    "refused_pickle",
    "refused_store",
    "stored",
]
