"""Replacements of `float` and `complex`, and of the functions of the module cmath, while a
transform traces.

`float(x)` of a traced number is the traced number as a Python float. The name `float` of the
modules whose code is read is bound to a class while a transform traces: a subclass of float that is
equal to it, has its instances and gives NumPy its dtype. Code that compares classes by identity
(`type(x) is float`) keeps the builtin.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.numpy.protocol.operands import python_number
from fungrad.tracing import interception
from fungrad.tracing.bound_names import BUILTINS
from fungrad.tracing.created_arrays import Written, tracer_of
from fungrad.tracing.source_location import user_line
from fungrad.tracing.subclass_arrays import OfTraced, value_of
from fungrad.tracing.trace import EVAL, Tracer, current

NEVER_TRACED = frozenset([float, int, bool, complex, str, bytes, np.float64, np.int64])


def traced_in(value: Any, method: str) -> Any:
    """The traced number in a value, or that its own `__float__` or `__complex__` returns; None if
    there is none.
    """
    kind = type(value)
    if kind is Tracer or kind is Written:
        return tracer_of(value) if kind is Written else value
    if kind in NEVER_TRACED:
        return None
    give = getattr(kind, method, None)
    if issubclass(kind, OfTraced) and give is getattr(OfTraced, method):
        held = value_of(value)
        return held if type(held) is Tracer else None
    found = give(value) if type(give) is FunctionType else None
    return found if type(found) is Tracer else None


def _named(original: type, convert: Callable[..., Any]) -> Any:
    """A class that stands for a builtin class of numbers, and converts by `convert`."""

    class Meta(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if current() is not EVAL and args and not NEVER_TRACED.issuperset(map(type, args)):
                found = convert(*args, **kwargs)
                if found is not None:
                    return found
            return original(*args, **kwargs)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original)

        def __eq__(cls, other: object) -> bool:
            return other is original or other is cls

        def __hash__(cls) -> int:
            return hash(original)

        def __repr__(cls) -> str:
            return repr(original)

        def __reduce_ex__(cls, protocol: Any) -> Any:
            return getattr, (builtins, original.__name__)

    names = {
        "__slots__": (),
        "__module__": "builtins",
        "__doc__": original.__doc__,
        "dtype": np.dtype(original),
    }
    return Meta(original.__name__, (original,), names)


def _as_float(value: Any) -> Any:
    found = traced_in(value, "__float__")
    if found is None:
        return None
    if found.dtype.kind == "c":
        raise TypeError("float() argument must be a real number, not 'complex'")
    return python_number(found, np.dtype(float))


def _as_complex(real: Any = 0, imag: Any = None) -> Any:
    first = traced_in(real, "__complex__")
    second = None if imag is None else traced_in(imag, "__complex__")
    if first is None and second is None:
        return None
    whole = real if first is None else python_number(first, np.dtype(complex))
    if imag is None:
        return whole
    part = imag if second is None else python_number(second, np.dtype(complex))
    return whole + 1j * part


BUILTINS["float"] = float, _named(float, _as_float)
BUILTINS["complex"] = complex, _named(complex, _as_complex)


# --- cmath ----------------------------------------------------------------------------------------


def _number(name: str, value: Any) -> Any:
    value = tracer_of(value) if type(value) is Written else value
    if type(value) is not Tracer:
        return complex(value)
    if value.size != 1:
        raise ArgumentError(
            f"cmath.{name} takes a number, and was given a traced value of type "
            f"{value.type}{user_line()}. NumPy's functions take arrays."
        )
    return python_number(value, np.dtype(complex))


def _polar(z: Any) -> tuple[Any, Any]:
    return np.abs(z), np.angle(z)


def _log(z: Any, base: Any = None) -> Any:
    return np.log(z) if base is None else np.log(z) / np.log(base)


def _rect(r: Any, phi: Any) -> Any:
    return r * np.exp(1j * phi)


OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atanh": np.arctanh, "cos": np.cos, "cosh": np.cosh, "exp": np.exp,
    "isfinite": np.isfinite, "isinf": np.isinf, "isnan": np.isnan, "log": _log,
    "log10": np.log10, "phase": np.angle, "polar": _polar, "rect": _rect, "sin": np.sin,
    "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip
"""The functions of cmath, each by NumPy's functions."""


_TRACED = {Tracer, Written}
"""A set: `==` finds NumPy's class in that of arrays that a traced value was written into."""


def _replacing(
    name: str, original: Callable[..., Any], ours: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*args: Any) -> Any:
        if current() is not EVAL and any(type(arg) in _TRACED for arg in args):
            return ours(*[_number(name, arg) for arg in args])
        return original(*args)

    return function


def _replacements(module: ModuleType) -> dict[str, Any]:
    own = vars(module)
    return {name: _replacing(name, own[name], ours) for name, ours in OF_NUMBERS.items()}


interception.register_later("cmath", _replacements)
