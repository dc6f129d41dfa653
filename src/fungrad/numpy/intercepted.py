"""Floor 8: the functions of NumPy that ours replace while a transform traces.

NumPy asks a traced value nothing when it makes an array of it: `np.asarray(z)` is an object array,
whose `.imag` is 0, and `np.asarray(x, float)` asks each item for a plain number. Each function here
looks at its arguments: ours takes what holds traced values, NumPy's everything else. The object
array of one real floating array without a dtype stays NumPy's, since it can be written into.
Others, `np.take(table, i)` among them, ask their array for its protocol, and not the traced index.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fungrad.numpy.creation import array, asarray
from fungrad.tracing import interception
from fungrad.tracing.trace import EVAL, Tracer, current, registry

CONTAINERS = ("pandas",)
"""Packages that hand the arrays that they make to their own compiled code."""


def tracers(value: Any) -> Iterator[Tracer]:
    """The traced values of which NumPy would make items of an object array."""
    kind = type(value)
    if kind is Tracer:
        yield value
    elif isinstance(value, (list, tuple)):
        if any(issubclass(k, (Tracer, list, tuple, np.ndarray)) for k in set(map(type, value))):
            for item in value:
                yield from tracers(item)
    elif kind is np.ndarray and value.dtype.char == "O":
        yield from tracers(value.ravel().tolist())


def _intercepted(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """A function that hands traced values to ours, and everything else to the original."""

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        if current() is not EVAL and args and _is_ours(*args[:2], **kwargs):
            caller = str(sys._getframe(1).f_globals.get("__name__"))
            if caller.partition(".")[0] not in CONTAINERS:
                return ours(*args, **kwargs)
        return original(*args, **kwargs)

    return function


def _is_ours(value: Any, dtype: Any = None, **others: Any) -> bool:
    """Whether an array of a value, in a dtype if one is given, has to be a traced one."""
    if dtype is not None:
        return np.dtype(dtype).char != "O" and any(True for _ in tracers(value))
    if isinstance(value, (list, tuple)):
        return any(True for _ in tracers(value))
    return any(tracer.dtype.kind != "f" or not tracer.size for tracer in tracers(value))


def _require(a: Any, dtype: Any = None, requirements: Any = None) -> Any:
    """The array in a dtype. A traced array has no layout in memory that could be required."""
    return asarray(a, dtype)


def _ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    """The array in a dtype, with one axis at least, as NumPy's."""
    return array(a, dtype, ndmin=1)


def _asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    """The array in a dtype; raises where its numbers are known and not all finite."""
    x = asarray(a, dtype)
    value = x
    while type(value) is Tracer:
        value = value.value
    if value is not None:
        np.asarray_chkfinite(value)
    return x


INTERCEPTED: dict[str, Callable[..., Any]] = {
    "array": array,
    "asarray": asarray,
    "asanyarray": asarray,
    "ascontiguousarray": _ascontiguousarray,
    "asfortranarray": asarray,
    "asarray_chkfinite": _asarray_chkfinite,
    "require": _require,
}
"""The names in the module numpy, and what takes traced values in their place."""

BY_OTHERS = {
    np: ("delete", "eye", "insert", "repeat", "roll", "take", "tri", "tril", "triu"),
    np.linalg: ("lstsq", "matrix_rank", "pinv"),
}
"""The functions whose protocol NumPy asks of their array alone (of eye and tri: of nothing), though
an index, a shift, a diagonal or a tolerance may be traced."""


def _by_others(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function that reaches ours where any of its arguments is traced."""

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values()) if kwargs else args
        if current() is not EVAL and any(type(arg) is Tracer for arg in given):
            ours = registry.functions.get(original) or registry.later(original)
            if ours is not None:
                return ours(*args, **kwargs)
        return original(*args, **kwargs)

    return function


interception.register(
    np, {name: _intercepted(getattr(np, name), ours) for name, ours in INTERCEPTED.items()}
)
for _module, _names in BY_OTHERS.items():
    interception.register(_module, {name: _by_others(getattr(_module, name)) for name in _names})

__all__: list[str] = []
