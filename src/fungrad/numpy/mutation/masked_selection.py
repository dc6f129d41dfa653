"""x[mask] of an unknown mask, which can be computed with and then written back.

`x[mask] += v` reads x[mask], adds, and writes. The number of elements depends on the mask. But if
the operands are numbers, or selected by the same mask, the result is np.where(mask, x + v, x),
computed for all elements. Two masks that are computed from the same values by the same equations
count as the same: x[x > 0] = y[x > 0]. Any other operation needs the elements, and raises the
error of the read.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from fungrad.errors import AbstractValueError
from fungrad.tracing.aliasing import fresh
from fungrad.tracing.trace import Tracer, alike, shape_of


class Selection(NDArrayOperatorsMixin):
    """The elements of `values` where a traced mask holds; the mask has the leading axes."""

    __slots__ = ("_error", "mask", "values")
    __array_priority__ = 2000.0

    def __init__(self, values: Any, mask: Tracer, error: AbstractValueError) -> None:
        self.values = values
        self.mask = mask
        self._error = error

    def by(self, mask: Any) -> bool:
        """Whether a mask is the one of this selection, or is computed alike."""
        return alike(mask, self.mask)

    def refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises the error of the line that read the elements, which are not known."""
        raise self._error

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        into = kwargs.pop("out", (self,))
        if method != "__call__" or kwargs or ufunc.nout != 1 or into != (self,):
            self.refuse()
        found = ufunc(*[self._operand(value) for value in inputs])
        if shape_of(found) != shape_of(self.values):
            self.refuse()
        return Selection(found, self.mask, self._error)

    def _operand(self, value: Any) -> Any:
        if type(value) is Selection:
            return value.values if self.by(value.mask) else self.refuse()
        return value if np.ndim(value) == 0 else self.refuse()

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        return self.refuse()

    __array__ = __array_function__ = __bool__ = __float__ = __int__ = __index__ = refuse
    __len__ = __iter__ = __getitem__ = __setitem__ = refuse

    def __repr__(self) -> str:
        return f"x[mask] of a mask {self.mask!r}"


def row_and_mask(x: Any, index: Any) -> tuple[Any, Any]:
    """x[i, mask] as x[i] and the mask; for another index the arguments themselves."""
    if type(index) is tuple and index and is_mask(index[-1]):
        *before, mask = index
        if before and all(type(entry) is int for entry in before):
            return x[tuple(before)], mask
    return x, index


def is_mask(index: Any) -> bool:
    """Whether an index is a traced mask."""
    return type(index) is Tracer and index.dtype == np.bool_


def selected(x: Any, mask: Any, error: AbstractValueError) -> Selection:
    """x[mask] of a mask that is not known.

    Raises:
      AbstractValueError: `error`, if it is no mask of the array's leading axes.
    """
    if not is_mask(mask) or not mask.ndim:
        raise error
    if mask.shape != x.shape[: mask.ndim]:
        raise error
    return Selection(fresh(x) if type(x) is Tracer else x.copy(), fresh(mask), error)
