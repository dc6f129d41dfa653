"""`r /= x` with a traced x and an ndarray r that only the name `r` holds.

Python binds the name to what the operator returns. So a new traced array can take the place of an
ndarray that nothing else holds, views included: CPython's reference count says so. Without such
counts (other interpreters, free threads), and where something else holds the array, it is refused.
A name that outlives the call, as an attribute, is bound to a shadow for the trace (shadows.py); it
is bound to a new array only if it has none.
"""

from __future__ import annotations

import opcode
import sys
from _thread import get_ident
from types import FrameType
from typing import Any

import numpy as np
from numpy import ndarray

from fungrad.tracing.code_origin import is_ours
from fungrad.tracing.in_place import COUNTED
from fungrad.tracing.interception import copies, neighbour

_BINARY_OP = opcode.opmap.get("BINARY_OP", -1)
_FIRST, _LAST = 13, 25
"""The arguments of BINARY_OP for operators like `+=`."""
_LOCAL = frozenset(opcode.opmap[name] for name in opcode.opmap if name.startswith("STORE_FAST"))
"""The instructions that bind local names."""


class _Probe:
    """Counts the references to an array in a call of `__array_ufunc__` by an operator like `+=`."""

    count = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        self.count = sys.getrefcount(kwargs["out"][0])
        return 0.0


def _held_by_a_name() -> int:
    """The reference count of an array in `__array_ufunc__` if one name alone holds it."""
    probe: Any = _Probe()
    array: Any = np.zeros(1)
    array += probe
    return int(probe.count)


ALONE = _held_by_a_name() if COUNTED else -1


def may_rebind(ufunc: np.ufunc, inputs: Any, out: Any, count: int) -> bool:
    """Whether a ufunc's result can take the place of the array that it would write into.

    Args:
      ufunc: the ufunc.
      inputs: its operands.
      out: the arrays that it would write into.
      count: the reference count of the first of these in `__array_ufunc__`.
    """
    if count != ALONE or len(out) != 1 or len(inputs) != 2 or inputs[0] is not out[0]:
        return False
    if type(out[0]) is not ndarray or out[0].base is not None or not out[0].flags.writeable:
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return False
    code, at = frame.f_code.co_code, frame.f_lasti
    if code[at] != _BINARY_OP or not _FIRST <= code[at + 1] <= _LAST:
        return False
    return code[neighbour(code, at, 2)] in _LOCAL or get_ident() in copies
