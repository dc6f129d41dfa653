"""Writes scalar programs as LLVM IR: a register for each number, native loops and branches.

The second emitter of the scalarising walk. Arithmetic is NumPy's to the bit; integers wrap.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.element_operations import TYPES, apply, convert, type_of
from fungrad.compiler.native.kernel import GIVEN_UP, kernel_function
from fungrad.compiler.native.llvm_ir import Module, Value, size_of
from fungrad.compiler.native.native_forms import OPERATIONS, Operation
from fungrad.compiler.native.rows_and_records import Column, Memory, Records, Rows
from fungrad.compiler.refusal import Refused
from fungrad.compiler.scalar.emitter import (
    TAPE_DTYPE,
    Number,
    Stack,
    WriteBlock,
    flattened,
    shaped,
)
from fungrad.primitives.elementwise.family import div
from fungrad.support.forks import cached_property

LEFT = {"exhausted": -1, "given_up": GIVEN_UP}
"""The basic blocks that leave a program early, and the status that it returns: memory ran out; the
NumPy program has to do the work.
"""


class Cell:
    """The state of a variable: a stack slot of the function, or a number in memory, loaded on use.

    Attributes:
      type: the type of the number.
      depth: the number of loops around it.
      pointer: the stack slot; None until the variable is set.
      read: writes the load of a number in memory; None if there is none.
      origin: the array and byte offset of a number in an array that is only read.
    """

    __slots__ = ("depth", "origin", "pointer", "read", "type")

    def __init__(self, type: str, depth: int) -> None:
        self.type = type
        self.depth = depth
        self.pointer: Value | None = None
        self.read: Callable[[], Value] | None = None
        self.origin: tuple[str, int] | None = None


class NativeEmitter:
    """The function of a program; `Emitter` documents the methods.

    Args:
      inputs: the number of arguments.
      outputs: the number of results.
      leaves: whether the program may return early, as with loops, records, or indices.
      records: whether loops or branches record residuals.
      longest: the most lines of IR.
    """

    size = tuned.numbers
    long_arrays = True
    dtypes: Sequence[np.dtype[Any]] = tuple(TYPES)

    def __init__(
        self, inputs: int, outputs: int, leaves: bool, records: bool, longest: int
    ) -> None:
        self.module = Module()
        self.leaves = leaves
        self.longest = longest
        self.code = code = kernel_function(self.module, "i32" if leaves else "void")
        if not leaves:
            code.copies = 0
        self.constants: list[Any] = []
        self._inputs, self._outputs = inputs, outputs
        self._known: dict[Cell, Value] = {}
        self._block = ""
        self._tapes: dict[Cell, list[str]] = {}
        self._records = Records(code, "exhausted") if records else None
        self._ticks = code.variable("i64")
        code.first(f"store i64 0, ptr {self._ticks.text}")

    @cached_property
    def memory(self) -> Memory:
        """The rows of loops and of long arrays."""
        return Memory(self.code)

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory; known after `finish`."""
        return self.memory.size if "memory" in vars(self) else 0

    # --- numbers ------------------------------------------------------------------------------

    def constant(self, number: Any, dtype: np.dtype[Any]) -> Number:
        return Number(self.code.constant(number, type_of(dtype), 1), dtype, number)

    def long_constant(self, array: Any, type_: Any) -> Stack:
        return self._along(self._constant(array), type_, int(np.argmax(type_.shape)))

    def value(self, number: Number) -> Value:
        """The register of a number, or of a variable's present value."""
        handle = number.handle
        if not isinstance(handle, Cell):
            found: Value = handle
            return found
        if self._block != self.code.block:  # loads of other blocks may not dominate this one
            self._known.clear()
            self._block = self.code.block
        held = self._known.get(handle)
        if held is None:
            held = self.code.get(handle.pointer) if handle.pointer else handle.read()  # type: ignore[misc]
            self._known[handle] = held
        return held

    def converted(self, number: Number, type: str) -> Value:
        """The register of a number, converted to another type."""
        if number.number is not None and number.handle.type != type:
            return self.code.constant(number.number, type, 1)
        return convert(self.code, self.value(number), type)

    def apply(
        self, operation: Any, operands: Sequence[Number], computed: Any, result: Any
    ) -> Number:
        self.check_length()
        given = [self.value(x) for x in operands]
        return Number(apply(self.code, operation, given, result, computed=computed), result)

    def check_length(self) -> None:
        """Refuses programs that take too long to compile."""
        if len(self.module) > self.longest:
            raise Refused("too many operations")

    def sum_of_products(self, pairs: Sequence[tuple[Number, Number]], dtype: Any) -> Number:
        type = type_of(dtype)
        products = [self.code.mul(*(self.converted(x, type) for x in pair)) for pair in pairs]
        total = products[0] if products else self.code.constant(0, type, 1)
        for product in products[1:]:
            total = self.code.add(total, product)
        return Number(self.code.add(total, 0.0) if dtype.kind == "f" else total, dtype)

    def pick(self, column: Sequence[Number], index: Number) -> Number:
        code, count, dtype = self.code, len(column), column[0].dtype
        place = self.converted(index, "i64")
        place = code.select(code.compare("slt", place, 0), code.add(place, count), place)
        self.must(code.compare("ult", place, count))
        values = [self.value(x) for x in column]
        if count <= tuned.selected:
            found = values[-1]
            for i in reversed(range(count - 1)):
                found = code.select(code.compare("eq", place, i), values[i], found)
            return Number(found, dtype)
        size = size_of(values[0].type)
        room = code.variable("i8", size * count)
        for i, value in enumerate(values):
            code.write(value, code.at(room, i * size))
        return Number(code.read(code.at(room, code.mul(place, size)), values[0].type), dtype)

    def check_overflow(self, value: Number) -> None:
        """Does nothing: NumPy's integers wrap."""

    def unbounded(self, equation: Any, operands: Sequence[Any]) -> None:
        """Prepares for an equation of Python integers: results that differ leave the program."""
        primitive, code = equation.primitive, self.code
        form = OPERATIONS.get(primitive, Operation())
        divides, compares = form.unbounded == "divides", form.tests
        if not (form.unbounded or compares) or (divides and operands[1] == 0):
            raise Refused(f"{primitive.name} of unbounded Python integers")
        code.overflown = "given_up"
        if divides and isinstance(operands[1], Value):
            self.must(convert(code, operands[1], "i1"))
        types = [a.type.dtype for a in equation.inputs]
        if primitive is div or (compares and len(set(types)) > 1):  # exact in Python
            for x in operands:
                if isinstance(x, Value) and x.type == "i64":
                    self.must(code.compare("ule", code.binary("add", x, 2**53), 2**54))

    def must(self, condition: Value) -> None:
        """Leaves the program to NumPy if a condition does not hold."""
        assert self.leaves, "a program that may leave says so before"
        on = self.code.label("on")
        self.code.branch(condition, on, "given_up")
        self.code.begin(on)

    # --- variables and blocks -----------------------------------------------------------------

    def variables(self, dtypes: Sequence[np.dtype[Any]]) -> list[Number]:
        depth = 0 if self._records is None else self._records.depth
        return [Number(Cell(_type_of(dtype), depth), dtype) for dtype in dtypes]

    def assign(self, variables: Sequence[Number], values: Sequence[Number]) -> None:
        cells = [variable.handle for variable in variables]
        found = [self.converted(x, cell.type) for x, cell in zip(values, cells, strict=True)]
        for cell, value, number in zip(cells, found, values, strict=True):
            self._set(cell, value)
            if number.dtype == TAPE_DTYPE and self._records is not None:
                self._records.keep(cell.depth)

    def _set(self, cell: Cell, value: Value) -> None:
        if cell.pointer is None:
            cell.pointer = self.code.variable(cell.type)
        self.code.set(cell.pointer, value)
        self._known.pop(cell, None)

    def while_loop(self, condition: Callable[[], Number], body: WriteBlock) -> None:
        self.code.while_loop(lambda: self.converted(condition(), "i1"), lambda: self._step(body))

    def branch(self, index: Number, branches: Sequence[WriteBlock]) -> None:
        place = self.converted(index, "i64")

        def write(i: int) -> None:
            if i == len(branches) - 1:
                branches[i]()
                return
            first = self.code.compare("sle", place, i)
            self.code.if_else(first, branches[i], lambda: write(i + 1))

        write(0)

    def _step(self, body: WriteBlock, steps: int | None = None) -> None:
        """The body of a loop: checks for signals, and frees records that nothing reads."""
        if self.leaves and (steps is None or steps > tuned.short_scan):
            self._look()
        if self._records is None:
            body()
        else:
            self._records.step(body)

    def _look(self) -> None:
        code = self.code
        now = code.add(code.get(self._ticks), 1)
        code.set(self._ticks, now)
        look, on, signalled = code.label("look"), code.label("on"), code.label("signalled")
        due = code.compare("eq", code.binary("and", now, tuned.signal_steps - 1), 0)
        code.branch(due, look, on, rare=True)
        code.begin(look)
        found = code.call("fg_signalled", "i32", [])
        code.branch(code.compare("eq", found, 0), on, signalled)
        code.begin(signalled)
        self._leave(found)
        code.begin(on)

    def _leave(self, result: Value | None = None) -> None:
        if self._records is not None:
            self._records.free()
        self.code.ret(result)

    # --- stacks -------------------------------------------------------------------------------

    def rows(self, length: int, types: Sequence[Any], reverse: bool) -> Rows:
        return self.memory.rows(length, [_type_of(t.dtype) for t in types for _ in range(t.size)])

    def table(self, rows: Sequence[Sequence[Number]], width: int) -> Rows:
        if not len(rows):
            return self.memory.rows(0, ["i1"] * width)  # never read
        found = self.memory.rows(len(rows), [_type_of(number.dtype) for number in rows[0]])
        for place, type in enumerate(found.types):
            found.columns.append(self._column(type, [row[place] for row in rows]))
        return found

    def _column(self, type: str, numbers: Sequence[Number]) -> Column:
        """A column of numbers; if they are in an array already, a view of it."""
        cells = [x.handle for x in numbers if isinstance(x.handle, Cell)]
        origins = [cell.origin for cell in cells if cell.origin is not None]
        if len(origins) == len(numbers):
            names, offsets = {name for name, _ in origins}, [offset for _, offset in origins]
            strides = set(np.diff(offsets).tolist()) or {0}
            if len(names) == len(strides) == 1:
                return self.memory.column(type, (names.pop(), offsets[0], strides.pop()))
        if all(x.number is not None for x in numbers):
            constant = np.array([x.number for x in numbers], numbers[0].dtype)
            return self.memory.column(type, (self._constant(constant), 0, size_of(type)))
        column = self.memory.column(type)
        for i, number in enumerate(numbers):
            column.put(self.code, self.code.constant(i, "i64", 1), self.converted(number, type))
        return column

    def _constant(self, array: Any) -> str:
        place = len(self.constants)
        self.constants.append(array)
        return self._array(f"%k{place}", self._inputs + self._outputs + place)

    def _array(self, name: str, place: int) -> str:
        """The pointer to an array, loaded at the start of the program."""
        self.code.first(f"getelementptr ptr, ptr %arrays, i64 {place}", f"{name}.at")
        self.code.first(f"load ptr, ptr {name}.at", name)
        return name

    def unpack(self, rows: Rows, variables: Sequence[Sequence[Number | None]]) -> None:
        for i, row in enumerate(variables):
            self._lies_in(rows, row, self.code.constant(i, "i64", 1))

    def _lies_in(self, rows: Rows, row: Sequence[Number | None], index: Value) -> None:
        for place, variable in enumerate(row):
            if variable is not None:
                cell: Cell = variable.handle
                if rows.length:
                    cell.read = functools.partial(self.memory.read, rows, place, index)
                else:  # never read
                    cell.read = functools.partial(self.code.constant, 0, cell.type, 1)

    def append(self, rows: Rows, values: Sequence[Number]) -> None:
        found = [self.converted(x, type) for x, type in zip(values, rows.types, strict=True)]
        self.memory.append(rows, found, [x.number is not None for x in values])
        if self._records is not None and any(x.dtype == TAPE_DTYPE for x in values):
            self._records.keep(0)

    def scan(
        self,
        length: int,
        reverse: bool,
        reads: Sequence[tuple[Rows, Sequence[Number | None]]],
        makes: Rows | None,
        step: WriteBlock,
    ) -> None:
        code = self.code

        def once(count: Value) -> None:
            index = code.sub(length - 1, count) if reverse else count
            if makes is not None:
                makes.index = index
            for rows, row in reads:
                self._lies_in(rows, row, index)
            self._step(step, length)

        code.for_range(0, length, once)

    # --- tapes --------------------------------------------------------------------------------

    def tape(self, types: Sequence[Any], single: bool) -> Number:
        (tape,) = self.variables([TAPE_DTYPE])
        self._set(tape.handle, self.code.constant(-1, "i64", 1))
        self._tapes[tape.handle] = [_type_of(t.dtype) for t in types for _ in range(t.size)]
        return tape

    def push(self, tape: Number, values: Sequence[Number]) -> None:
        assert self._records is not None
        types = self._tapes[tape.handle]
        found = [self.converted(x, type) for x, type in zip(values, types, strict=True)]
        self._records.keep(tape.handle.depth)
        self._set(tape.handle, self._records.push(self.value(tape), types, found))

    def pop(self, tape: Number, variables: Sequence[Number]) -> None:
        self._lies_in_record(self.value(tape), variables)

    def _lies_in_record(self, record: Value, variables: Sequence[Number]) -> None:
        assert self._records is not None
        types = [variable.handle.type for variable in variables]
        for place, variable in enumerate(variables):
            variable.handle.read = self._records.reader(record, types, place)

    def unwind(self, tape: Number, variables: Sequence[Number], step: WriteBlock) -> None:
        assert self._records is not None
        code, records = self.code, self._records
        place = code.initialised(self.value(tape))

        def once() -> None:
            record = code.get(place)
            before = records.previous(record)
            self._lies_in_record(record, variables)
            self._step(step)
            code.set(place, before)

        code.while_loop(lambda: code.compare("sge", code.get(place), 0), once)

    # --- arguments, results, the function -----------------------------------------------------

    def argument(self, place: int, type_: Any) -> Any:
        """An argument: its elements, or a Stack of its rows if it has many."""
        type, name = type_of(type_.dtype), self._array(f"%a{place}", place)
        if type_.size > tuned.numbers:
            axis = int(np.argmax(type_.shape))
            return self._along(name, type_, axis)
        variables = self.variables([type_.dtype] * type_.size)
        for i, variable in enumerate(variables):
            variable.handle.origin = (name, i * size_of(type))
            variable.handle.read = self._element(name, i * size_of(type), type)
        return shaped(variables, type_.shape)

    def _along(self, name: str, type_: Any, axis: int) -> Stack:
        """An array in memory as a Stack along an axis."""
        type, length = type_of(type_.dtype), type_.shape[axis]
        if type_.size // length > tuned.numbers:
            raise Refused(f"rows of {type_.size // length} numbers")
        offsets, stride = _places(type_.shape, axis, size_of(type))
        rows = Rows(length, [type] * len(offsets))
        rows.columns += [self.memory.column(type, (name, place, stride)) for place in offsets]
        return Stack(rows, type_, 0, len(offsets), axis)

    def _element(self, name: str, offset: int, type: str) -> Callable[[], Value]:
        """Loads an element of an argument once, at the start of the program."""
        first, found = self.code.first, f"{name}.{offset}"
        made: list[Value] = []

        def read() -> Value:
            if not made:
                held, at = "i8" if type == "i1" else type, f"{found}.at"
                first(f"getelementptr i8, ptr {name}, i64 {offset}", at)
                loaded = found + ".byte" * (type == "i1")
                made.append(first(f"load {held}, ptr {at}", loaded, held))
                if type == "i1":
                    made[:] = [first(f"icmp ne i8 {loaded}, 0", found, "i1")]
            return made[0]

        return read

    def result(self, place: int, value: Any, type_: Any) -> None:
        """Writes an output."""
        if not type_.size:
            return
        code, type = self.code, type_of(type_.dtype)
        name = self._array(f"%o{place}", self._inputs + place)
        pointer, size = Value(name, "ptr"), size_of(type)
        if not isinstance(value, Stack):
            for i, number in enumerate(flattened([value])):
                code.write(self.converted(number, type), code.at(pointer, i * size))
            return
        rows, start = value.rows, value.start
        columns = rows.columns[start : start + value.width]
        offsets, stride = _places(type_.shape, value.axis, size)
        if self.memory.lies_in(columns, name, type, offsets, stride):
            return

        def copy(index: Value) -> None:
            for i in range(value.width):
                found = convert(code, self.memory.read(rows, start + i, index), type)
                at = code.add(code.mul(index, stride), offsets[i])
                code.write(found, code.at(pointer, at))

        code.for_range(0, rows.length, copy)

    def finish(self) -> None:
        """Ends the function."""
        code = self.code
        self._leave(code.constant(0, "i32", 1) if self.leaves else None)
        if self.leaves:
            for label, result in LEFT.items():
                code.begin(label)
                self._leave(code.constant(result, "i32", 1))
        if "memory" in vars(self):
            self.memory.bind()


def _places(shape: Sequence[int], axis: int, size: int) -> tuple[list[int], int]:
    """The byte offsets of the first row's elements along an axis of an array, and the bytes between
    rows.
    """
    places = np.moveaxis(np.arange(math.prod(shape)).reshape(shape) * size, axis, 0)
    first = places.reshape(shape[axis], -1)
    return first[0].tolist(), math.prod(shape[axis + 1 :]) * size


def _type_of(dtype: Any) -> str:
    return "i64" if dtype == TAPE_DTYPE else type_of(dtype)
