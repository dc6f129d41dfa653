"""The interface of a target language for the scalarising walk.

The walk (scalarise.py) decides which operations on numbers a Graph needs; an Emitter writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from fungrad.compiler.refusal import Refused
from fungrad.support.lazy import Record

FLOAT, INT, BOOL = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)
DTYPES = (FLOAT, INT, BOOL)
TAPE_DTYPE = np.dtype(object)
WriteBlock = Callable[[], None]
Elements = Any
"""An object array of Numbers."""


class Number:
    """A number, or a tape, of the program that is written.

    Attributes:
      handle: its name or text in the target language; equal only for equal values.
      dtype: one of float64, int64, bool; object for a tape.
      number: the number itself if it is a constant, else None.
    """

    __slots__ = ("dtype", "handle", "number")

    def __init__(self, handle: Any, dtype: np.dtype[Any], number: Any = None) -> None:
        self.handle = handle
        self.dtype = dtype
        self.number = number


class Rows(Protocol):
    """Memory with a row of `width` numbers for each step of a scan; filling all costs `cost`."""

    width: int
    cost: float


class Stack(Record):
    """An array that is read row by row along an axis: consecutive columns of Rows."""

    rows: Any
    type: Any
    start: int
    width: int
    axis: int = 0


def shaped(values: Sequence[Number], shape: tuple[int, ...]) -> Elements:
    """Numbers as an array of a shape."""
    array = np.empty(len(values), object)
    array[:] = values
    return array.reshape(shape)


def boxed(value: Any) -> Elements:
    """A value as an array: NumPy's indexing returns a bare Number for one element."""
    return value if isinstance(value, np.ndarray) else shaped([value], ())


def flattened(values: Sequence[Any]) -> list[Number]:
    """The elements of all values, one after the other."""
    for value in values:
        if isinstance(value, Stack):
            raise Refused("a large array that is read as a whole")
    return [part for value in values for part in value.reshape(-1)]


class Costs(Record):
    """Costs in nanoseconds, to choose between a program on numbers and one on arrays.

    Each comment has an example, and its time by `timeit` of 100 such statements on local names, on
    one core of a busy x86-64 server with CPython 3.11 and NumPy 2. The figures in use are of an
    older machine; their ratios decide.
    """

    operation: float = 28  # v = x + y: 11
    absolute: float = 35  # v = abs(x): 18
    power: float = 40  # v = pow(x, y): 43
    conversion: float = 50  # v = float(n): 25
    function: float = 55  # v = sin(x): 27
    pick: float = 8  # each element of (x, y, z)[i]: 3, besides an operation
    assign: float = 4  # each name of a, b, c, d = x, y, z, w: 10; of two names 1
    append: float = 40  # each number appended to a list and converted; not measured again
    transfer: float = 300  # a.ravel().tolist(): 660 of ten; array((x, y)): 940
    element: float = 25  # each element of those; not measured again
    movement: float = 150  # a[1:]: 71; reshapes and transposes are dearer
    ufunc: float = 450  # a + b of ten doubles: 700
    step: float = 1_500  # a step of a loop on arrays, besides its equations; not measured again
    trips: int = 10  # how often the body of a loop of unknown length is assumed to run; a guess


class Emitter(Protocol):
    """Writes operations on numbers in the order of its calls."""

    longest: int
    """The maximum number of operations of a program."""
    size: int
    """The maximum number of elements of an array that is split into numbers."""
    dtypes: Sequence[np.dtype[Any]]
    """The dtypes of the numbers that it writes."""
    long_arrays: bool
    """Whether it writes long constants, and a row's values that are small stacks."""

    def constant(self, number: Any, dtype: np.dtype[Any]) -> Number:
        """A known number."""

    def long_constant(self, array: Any, type_: Any) -> Stack:
        """A constant array that is too long to be split into numbers."""

    def apply(
        self, operation: Any, operands: Sequence[Number], computed: Any, result: Any
    ) -> Number:
        """The result, of dtype `result`, of a primitive computed in dtype `computed`."""

    def sum_of_products(self, pairs: Sequence[tuple[Number, Number]], dtype: Any) -> Number:
        """x0 * y0 + x1 * y1 + ..., from left to right; for floats plus a zero, as in BLAS."""

    def pick(self, column: Sequence[Number], index: Number) -> Number:
        """The element at an index that is known when the program runs."""

    def check_overflow(self, value: Number) -> None:
        """Gives up if an integer differs from the result of 64-bit arithmetic."""

    def variables(self, dtypes: Sequence[np.dtype[Any]]) -> list[Number]:
        """New variables; `assign` sets them, and so do blocks that read rows or tapes."""

    def assign(self, variables: Sequence[Number], values: Sequence[Number]) -> None:
        """Sets variables, all at once: the values may be variables among them."""

    def while_loop(self, condition: Callable[[], Number], body: WriteBlock) -> None:
        """A loop of unknown length; calling the blocks writes their statements."""

    def branch(self, index: Number, branches: Sequence[WriteBlock]) -> None:
        """Runs the first branch whose position is at least the index, or else the last."""

    def rows(self, length: int, types: Sequence[Any], reverse: bool) -> Any:
        """Memory for the rows that a scan computes. A row holds values of these Types one after
        the other; a reversed scan appends its last row first.
        """

    def table(self, rows: Sequence[Sequence[Number]], width: int) -> Any:
        """Rows of these values."""

    def unpack(self, rows: Any, variables: Sequence[Sequence[Number | None]]) -> None:
        """Sets variables, a sequence for each row, to the numbers of all rows; None skips one."""

    def scan(
        self, length: int, reverse: bool, reads: Sequence[Any], makes: Any, step: WriteBlock
    ) -> None:
        """A loop of known length. `reads` has pairs: Rows, and for each of their columns the
        variable that a step reads it from, or None. `step` appends to the Rows `makes`.
        """

    def append(self, rows: Any, values: Sequence[Number]) -> None:
        """Appends the row of this step of a scan."""

    def tape(self, types: Sequence[Any], single: bool) -> Number:
        """An empty tape for records of values of these Types; `single` if it holds only one."""

    def push(self, tape: Number, values: Sequence[Number]) -> None:
        """Appends a record to a tape."""

    def pop(self, tape: Number, variables: Sequence[Number]) -> None:
        """Sets variables to the only record of a tape."""

    def unwind(self, tape: Number, variables: Sequence[Number], step: WriteBlock) -> None:
        """A loop over the records of a tape, the last one first; each sets the variables."""
