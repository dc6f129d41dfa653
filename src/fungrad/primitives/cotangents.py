"""Cotangents of the backward walk that are more than an array: masked and collected ones.

Cotangents are added by `+`, with arrays, numbers and traced values on either side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray


class Masked:
    """A cotangent, or a factor of one, that is exactly zero where its mask is false; `cleared` is
    the index of these elements if it is known while tracing.
    """

    __slots__ = ("cleared", "mask", "value")
    __array_ufunc__ = None  # arrays leave a sum to this class
    dtype = None
    """It has that of no array, to which it has to be matched."""

    def __init__(self, value: Any, mask: Any, cleared: Any = None) -> None:
        self.value = value
        self.mask = mask
        self.cleared = cleared

    def __add__(self, other: Any) -> Any:
        if type(other) is Masked:
            return Masked(self.value + other.value, np.logical_or(self.mask, other.mask))
        return self.value + other

    def __radd__(self, other: Any) -> Any:
        return other + self.value


class Collected:
    """A cotangent that is summed in place, in an array that nothing else holds.

    So the cost of a read of a part of an array is that of the part, not of the array. `total` turns
    it into an ordinary cotangent before any rule gets it.

    Args:
      begun: the first term.
      own: whether nothing else holds that array, so that it need not be copied.
    """

    __slots__ = ("cleared", "mask", "value")
    __array_ufunc__ = None

    def __init__(self, begun: Any, own: bool = False) -> None:
        masked = type(begun) is Masked
        value = begun.value if masked else begun
        self.value = value if own else np.array(value, order="C")
        self.cleared: Any = None
        """The index of the elements that were cleared last: a lazy form of the mask."""
        self.mask = None
        if masked:  # which may broadcast against the value, as a condition of `where` does
            self.mask = np.array(np.broadcast_to(begun.mask, self.value.shape), order="C")

    def add(self, cotangent: Any, place: Callable[[np.ufunc, ndarray, Any], Any]) -> Collected:
        """Adds a cotangent of a part; `place(ufunc, array, values)` applies a ufunc there."""
        if type(cotangent) is not Masked:
            place(np.add, self.value, cotangent)
            self.unmask()
            return self
        place(np.add, self.value, cotangent.value)
        self._make_mask()
        if self.mask is not None:
            place(np.logical_or, self.mask, cotangent.mask)
        return self

    def unmask(self) -> None:
        """Drops the mask: any element may differ from zero."""
        self.mask = self.cleared = None

    def clear(self, index: Any) -> None:
        """Makes the elements x[index] exactly zero, and no others."""
        self.mask = None
        self.value[index] = 0
        self.cleared = index

    def _make_mask(self) -> None:
        if self.cleared is not None:
            self.mask = np.ones(self.value.shape, np.bool_)
            self.mask[self.cleared] = False
            self.cleared = None

    def __add__(self, cotangent: Any) -> Collected:
        return self.add(cotangent, _everywhere)

    def __radd__(self, other: Any) -> Any:
        return other + self.value

    def total(self) -> Any:
        """The final sum."""
        self._make_mask()
        return self.value if self.mask is None else Masked(self.value, self.mask)


def _everywhere(ufunc: np.ufunc, out: ndarray, values: Any) -> None:
    ufunc(out, values, out=out)
