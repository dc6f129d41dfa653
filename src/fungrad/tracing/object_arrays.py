"""Arrays of objects that the program makes while a transform traces: their items may be traced.

NumPy computes with the items one by one, and so do traced ones. Methods that ask each item for its
number, `a.astype(float)`, `a.mean()`, join them to one traced array here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from fungrad.ir.canonical import canonical_dtype
from fungrad.tracing.interception import State
from fungrad.tracing.trace import EVAL, current, registry

NUMBERS = "fciub"


class Objects(ndarray):
    """An array of objects, among them traced values."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return ndarray

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if return_scalar:
            return array[()]
        return objects(array) if array.dtype.char == "O" else array.view(ndarray)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """ndarray.astype, also of traced items."""
        joined = self._joined() if canonical_dtype(dtype).kind in NUMBERS else None
        if joined is None:
            return ndarray.astype(self, dtype, *args, **kwargs)
        return joined.astype(dtype)

    def _joined(self) -> Any:
        """The traced array of the items; None if none of them is traced."""
        if self.dtype.char != "O" or current() is EVAL or not registry.holds_traced(self):
            return None
        return registry.operand(self)

    def __repr__(self) -> str:
        return repr(self.view(ndarray))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.view(ndarray).__reduce_ex__(protocol)


def _reduction(name: str) -> Callable[..., Any]:
    own, function = getattr(ndarray, name), getattr(np, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        joined = self._joined()
        if joined is None:
            return own(self, *args, **kwargs)
        return registry.functions[function](joined, *args, **kwargs)

    method.__name__ = name
    return method


for _name in ("mean", "std", "var"):
    setattr(Objects, _name, _reduction(_name))


def objects(array: Any) -> Any:
    """An array of objects as `Objects`, if a transform traces; any other value itself.

    It owns its memory, so that it can be resized.
    """
    plain = type(array) is ndarray and array.dtype.char == "O"
    if not plain or not State.on or current() is EVAL:
        return array
    return array.view(Objects).copy("K")
