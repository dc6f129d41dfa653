"""Numbers of the program that is written, with Python's operators and NumPy's ufuncs.

Each writes its instructions at once, without a trace: forms of equations on matrices compute so.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from fungrad.compiler.native.element_operations import nanoseconds_of, type_of
from fungrad.compiler.native.native_forms import OPERATIONS
from fungrad.compiler.scalar.emitter import BOOL, FLOAT, Number
from fungrad.compiler.scalar.scalarise import Scalariser
from fungrad.primitives.elementwise import family, ufuncs
from fungrad.primitives.primitive import Primitive
from fungrad.support.snapshots import snapshot


@functools.cache
def _primitives() -> Mapping[Any, Primitive]:
    """By ufunc: fungrad's own primitive that applies it."""
    known = [
        p
        for home in (family, ufuncs)
        for p in snapshot(vars(home)).values()
        if type(p) is Primitive
    ]
    return {p.ufunc: p for p in known if type(p.ufunc) is np.ufunc}


class WrittenNumber(NDArrayOperatorsMixin):
    """A number of the program, as forms compute with it."""

    def __init__(self, on: Writing, number: Number) -> None:
        self.on, self.number = on, number

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.number.dtype

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *xs: Any) -> WrittenNumber:
        return self.on.apply(_primitives()[ufunc], *xs)


class Writing:
    """The `Arithmetic` of forms on numbers.

    Args:
      walk: writes the program.
      dtype: that of the numbers.
    """

    def __init__(self, walk: Scalariser, dtype: np.dtype[Any]) -> None:
        self._walk, self._dtype = walk, dtype
        self._emitter: Any = walk.emitter

    def apply(self, primitive: Any, *xs: Any) -> WrittenNumber:
        """The result of an elementwise primitive on numbers, Python's among them."""
        typed = [x.number.dtype for x in xs if type(x) is WrittenNumber]
        if primitive is family.select:  # of numbers by a bool
            typed = typed[1:]
        computed = np.result_type(*typed) if typed else self._dtype
        given = [self._number(x, computed) for x in xs]
        result = BOOL if primitive in OPERATIONS and OPERATIONS[primitive].tests else computed
        self._walk.pay(max(self._walk.costs.operation, nanoseconds_of(primitive)))
        return WrittenNumber(self, self._emitter.apply(primitive, given, computed, result))

    def _number(self, x: Any, dtype: np.dtype[Any]) -> Number:
        return x.number if type(x) is WrittenNumber else self._emitter.constant(x, dtype)

    def leave(self, condition: WrittenNumber) -> None:
        """Leaves the program to NumPy where a condition holds."""
        code = self._emitter.code
        self._emitter.must(code.binary("xor", self._emitter.value(condition.number), True))

    def select(self, condition: WrittenNumber, x: Any, y: Any) -> WrittenNumber:
        """x where a condition holds, else y."""
        return self.apply(family.select, condition, x, y)

    def typed(self, number: float, like: Any) -> WrittenNumber:
        """A number of the dtype of an element."""
        return WrittenNumber(self, self._emitter.constant(number, like.dtype))

    def double(self, x: WrittenNumber) -> WrittenNumber:
        """An element in double precision."""
        return WrittenNumber(self, self._converted(x.number, FLOAT))

    def _converted(self, number: Number, dtype: np.dtype[Any]) -> Number:
        return Number(self._emitter.converted(number, type_of(dtype)), dtype, number.number)

    def elements(self, numbers: Any) -> Any:
        """An array of numbers as the elements that forms compute with."""
        found = np.empty(numbers.shape, object)
        for index, number in np.ndenumerate(numbers):
            found[index] = WrittenNumber(self, self._converted(number, self._dtype))
        return found

    def numbers(self, elements: Any) -> Any:
        """Elements as numbers of the dtype."""
        found = np.empty(np.shape(elements), object)
        for index in np.ndindex(*found.shape):
            x = elements[index] if found.shape else elements
            found[index] = self._converted(self._number(x, self._dtype), self._dtype)
        return found
