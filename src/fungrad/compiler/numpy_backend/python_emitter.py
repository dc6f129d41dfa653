"""Writes scalar programs as Python text, with a local variable for each number.

Operations that differ from NumPy's raise (a division by zero, an overflow, a root of a negative
number, an integer beyond 64 bits); then the program on arrays runs from the start instead. It also
runs where `np.errstate` asks for errors, since sums and products overflow silently here.
Functions round as in the C library, within 1 ulp of NumPy's own loops.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.compiler.loop_ir.printer import defined
from fungrad.compiler.numpy_backend.python_tapes import CHUNK, NumberTape, rows, tape_of
from fungrad.compiler.refusal import Refused
from fungrad.compiler.scalar.emitter import (
    BOOL,
    DTYPES,
    FLOAT,
    INT,
    TAPE_DTYPE,
    Costs,
    Number,
    Stack,
    WriteBlock,
    flattened,
    shaped,
)
from fungrad.control_flow.tape_type import TAPE, as_tape
from fungrad.primitives.facts import ScalarForm
from fungrad.runtime import error_state
from fungrad.support.lazy import Record

DEEPEST = 18
"""The maximum depth of nested blocks; Python allows 20. For deeper ones the outer Graph runs on
arrays, and inner Graphs as programs of their own."""
_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_NAMES = {
    "inf": math.inf, "nan": math.nan, "pow": math.pow, "sqrt": math.sqrt, "array": np.array,
    "empty": np.empty, "float64": np.float64, "int64": np.int64, "bool_": np.bool_,
    "islice": itertools.islice, "NumberTape": NumberTape, "tape_of": tape_of, "as_tape": as_tape,
    "rows": rows, "error_state": error_state.state, "USUAL": error_state.USUAL,
    "raises": error_state.raises,
}  # fmt: skip
"""The globals of scalar programs."""
_CASTS = {FLOAT: "float", INT: "int", BOOL: "bool"}
_SCALARS = {FLOAT: "float64", INT: "int64", BOOL: "bool_"}


class PythonRows(Record):
    """A list with a tuple for each step, or a matrix; `last_first` if the last step comes first."""

    name: str
    length: int
    width: int
    last_first: bool = False
    array: bool = False
    cost: float = 0.0
    part: str = ""
    """For an array, which is filled in parts: the list that the steps append to."""


class PythonEmitter:
    """The lines of a program; see `Emitter` for what the methods write.

    Args:
      costs: see `Costs`.
    """

    longest = costs.python_lines
    size = costs.scalar_elements
    dtypes: Sequence[np.dtype[Any]] = DTYPES
    long_arrays = False

    def __init__(self, costs: Costs) -> None:
        self.lines: list[str] = []
        self.used: set[str] = set()
        self._costs = costs
        self._namespace: dict[str, Any] = dict(_NAMES)
        self._arguments: list[tuple[str, Any, Any]] = []
        self._indent = 1
        self._count = 0

    # --- lines and names ----------------------------------------------------------------------

    def _line(self, text: str) -> None:
        if len(self.lines) >= costs.python_lines:
            raise Refused("too many operations")
        self.lines.append("    " * self._indent + text)

    def _fresh(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _named(self, expression: str, dtype: Any) -> Number:
        self._count += 1
        name = f"v{self._count}"
        self._line(f"{name} = {expression}")
        return Number(name, dtype)

    def _read(self, values: Sequence[Number]) -> list[str]:
        texts = [value.handle for value in values]
        self.used.update(texts)
        return texts

    def _row(self, values: Sequence[Number | None]) -> str:
        texts = ["_" if value is None else value.handle for value in values]
        self.used.update(texts)
        return "(" + "".join(f"{text}, " for text in texts) + ")"

    def _block(self, head: str, write: WriteBlock) -> None:
        if self._indent == DEEPEST:
            raise Refused("blocks nested too deeply")
        self._line(head)
        self._indent += 1
        before = len(self.lines)
        write()
        if len(self.lines) == before:
            self._line("pass")
        self._indent -= 1

    # --- operations ---------------------------------------------------------------------------

    def constant(self, number: Any, dtype: np.dtype[Any]) -> Number:
        return Number(f"({number!r})" if number < 0 else repr(number), dtype, number)

    def long_constant(self, array: Any, type_: Any) -> Stack:
        raise Refused(f"a constant of {type_}")

    def cost(self, form: ScalarForm, dtypes: Sequence[np.dtype[Any]], computed: Any) -> float:
        """Nanoseconds of a form on numbers of these dtypes, computed in dtype `computed`."""
        nanoseconds = float(getattr(self._costs, form.cost))
        if computed == FLOAT and form.widens:
            operands = dtypes[1:] if form.chooses else dtypes
            return nanoseconds + self._costs.operation * sum(t != FLOAT for t in operands)
        return nanoseconds

    def apply(
        self, operation: Any, operands: Sequence[Number], computed: Any, result: Any
    ) -> Number:
        return self.written(operation.scalar, operands, computed, result)

    def written(
        self, form: ScalarForm, operands: Sequence[Number], computed: Any, result: Any
    ) -> Number:
        """The result, of dtype `result`, of a form computed in dtype `computed`. If that is
        float64, the operands are converted to it, but for a condition.
        """
        texts = [value.handle for value in operands]
        self.used.update(texts)
        if computed == FLOAT and form.widens:
            for i, value in enumerate(operands):
                if value.dtype is not FLOAT and value.dtype != FLOAT and (i or not form.chooses):
                    texts[i] = f"float({texts[i]})"
        expression = form.expression
        if callable(expression):
            return self._named(f"{self._function(expression)}({', '.join(texts)})", result)
        if not isinstance(expression, str):
            expression = expression[result.kind]
        return self._named(expression.format(*texts), result)

    def _function(self, function: Callable[..., Any]) -> str:
        """The global name of a function: math's own have theirs, others none of a builtin's."""
        name = wished = getattr(function, "__name__", "")
        if vars(math).get(name) is not function:
            name = wished = f"f_{name}" if name.isidentifier() else "f_"
        count = 1
        while self._namespace.setdefault(name, function) is not function:
            count += 1
            name = f"{wished}_{count}"
        return name

    def sum_of_products(self, pairs: Sequence[tuple[Number, Number]], dtype: Any) -> Number:
        terms = [" * ".join(self._read(pair)) for pair in pairs]
        terms += ["0.0"] if dtype == FLOAT else []
        return self._named(" + ".join(terms), dtype)

    def pick(self, column: Sequence[Number], index: Number) -> Number:
        at = self._read([index])[0]
        return self._named(f"({', '.join(self._read(column))},)[{at}]", column[0].dtype)

    def check_overflow(self, value: Number) -> None:
        name = self._read([value])[0]
        self._line(f"if not {_LOWEST} <= {name} <= {_HIGHEST}: raise OverflowError")

    # --- variables and blocks -----------------------------------------------------------------

    def variables(self, dtypes: Sequence[np.dtype[Any]]) -> list[Number]:
        return [Number(self._fresh(), dtype) for dtype in dtypes]

    def assign(self, variables: Sequence[Number], values: Sequence[Number]) -> None:
        left = ", ".join([variable.handle for variable in variables])
        self._line(f"{left} = {', '.join(self._read(values))}")

    def while_loop(self, condition: Callable[[], Number], body: WriteBlock) -> None:
        def step() -> None:
            go = self._read([condition()])[0]
            self._line(f"if not {go}: break")
            body()

        self._block("while True:", step)

    def branch(self, index: Number, branches: Sequence[WriteBlock]) -> None:
        last = len(branches) - 1
        for i, write in enumerate(branches):
            test = f"if {self._read([index])[0]} <= {i}:" if i < last else "else:"
            self._block("if True:" if last == 0 else "el" * (0 < i < last) + test, write)

    # --- stacks -------------------------------------------------------------------------------

    def rows(self, length: int, types: Sequence[Any], reverse: bool) -> PythonRows:
        width = sum(t.size for t in types)
        array = length * width > costs.listed_elements
        if array and any(t.dtype != FLOAT for t in types if t.size):
            raise Refused("a long stack that is not of doubles")
        name = self._fresh()
        if not array:
            return PythonRows(name, length, width, reverse)
        cost = self._costs.append * length * width
        return PythonRows(name, length, width, reverse, True, cost, self._fresh())

    def table(self, rows: Sequence[Sequence[Number]], width: int) -> PythonRows:
        name = self._fresh()
        self._line(f"{name} = [{', '.join(self._row(row) for row in rows)}]")
        return PythonRows(name, len(rows), width)

    def unpack(self, rows: PythonRows, variables: Sequence[Sequence[Number | None]]) -> None:
        self.used.add(rows.name)
        shown = [
            f"({', '.join('_' if v is None else v.handle for v in row)},)" for row in variables
        ]
        self._line(f"{', '.join(reversed(shown) if rows.last_first else shown)}, = {rows.name}")

    def append(self, rows: PythonRows, values: Sequence[Number]) -> None:
        row = self._row(values)
        self._line(f"{rows.part} += {row}" if rows.array else f"{rows.name}.append({row})")

    def scan(
        self,
        length: int,
        reverse: bool,
        reads: Sequence[tuple[PythonRows, Sequence[Number | None]]],
        makes: PythonRows | None,
        step: WriteBlock,
    ) -> None:
        sources, targets = [], []
        for source, columns in reads:
            self.used.add(source.name)
            forward = source.last_first == reverse
            if source.array:
                sources.append(f"rows({source.name})" if forward else f"rows({source.name}[::-1])")
            else:
                sources.append(source.name if forward else f"reversed({source.name})")
            targets.append(self._row(columns))
        target, given = ", ".join(targets) or "_", ", ".join(sources) or f"range({length})"
        given = f"zip({given})" if len(sources) > 1 else given
        if makes is None or not makes.array:
            if makes is not None:
                self._line(f"{makes.name} = []")
            self._block(f"for {target} in {given}:", step)
            return
        at, steps = self._fresh(), self._fresh()
        self._line(f"{makes.name} = empty(({length}, {makes.width}))")
        self._line(f"{steps} = iter({given})")

        def chunk() -> None:
            self._line(f"{makes.part} = []")
            self._block(f"for {target} in islice({steps}, {CHUNK}):", step)
            part = f"{makes.name}[{at} : {at} + {CHUNK}]"
            self._line(f"{part} = array({makes.part}).reshape(-1, {makes.width})")

        self._block(f"for {at} in range(0, {length}, {CHUNK}):", chunk)

    # --- tapes --------------------------------------------------------------------------------

    def tape(self, types: Sequence[Any], single: bool) -> Number:
        constant = f"k{len(self._namespace)}"
        self._namespace[constant] = tuple(types)
        return self._named(f"NumberTape({constant}, {single})", TAPE_DTYPE)

    def push(self, tape: Number, values: Sequence[Number]) -> None:
        self._line(f"{self._read([tape])[0]}.rows.append({self._row(values)})")

    def pop(self, tape: Number, variables: Sequence[Number]) -> None:
        self._line(f"{self._row(variables)} = {self._read([tape])[0]}.rows[0]")

    def unwind(self, tape: Number, variables: Sequence[Number], step: WriteBlock) -> None:
        target = self._row(variables) if variables else "_"
        self._block(f"for {target} in reversed({self._read([tape])[0]}.rows):", step)

    # --- arguments, results, the function -----------------------------------------------------

    def argument(self, type_: Any) -> Any:
        """The next argument: its elements, or a Stack of its rows if it has many elements.

        Raises:
          Refused: if its dtype is none of `DTYPES`, or it is too long.
        """
        name = f"x{len(self._arguments)}"
        array: Any
        if type_ == TAPE:
            array = shaped([Number(f"{name}_t", TAPE_DTYPE)], ())
        elif type_.dtype not in DTYPES:
            raise Refused(str(type_))
        elif type_.size > self.size:
            length = type_.shape[0]
            width = type_.size // length
            rows = PythonRows(f"{name}r", length, width, array=type_.size > costs.listed_elements)
            array = Stack(rows, type_, 0, width)
        else:
            values = [Number(f"{name}_{i}", type_.dtype) for i in range(type_.size)]
            array = shaped(values, type_.shape)
        self._arguments.append((name, type_, array))
        return array

    def argument_conversions(self) -> list[tuple[Any, str]]:
        """The Type of each argument that is read, and the line that converts it to numbers."""
        lines = []
        for name, type_, value in self._arguments:
            if isinstance(value, Stack):
                parts, rows = [value.rows.name], value.rows
                line = f"{rows.name} = {name}.reshape({rows.length}, {rows.width})"
                line += "" if rows.array else ".tolist()"
            else:
                parts = [part.handle for part in flattened([value])]
                if type_ == TAPE:
                    line = f"{name}_t = tape_of({name})"
                elif type_.shape == ():
                    line = f"{name}_0 = {_CASTS[type_.dtype]}({name})"
                else:
                    line = f"{', '.join(parts)}, = {name}.ravel().tolist()"
            if not self.used.isdisjoint(parts):
                lines.append((type_, line))
        return lines

    def result(self, value: Any, type_: Any) -> str:
        """The expression of an output, from its elements or its Stack."""
        if isinstance(value, Stack):
            rows, columns = value.rows, f"{value.start}:{value.start + value.width}"
            self.used.add(rows.name)
            if rows.array:
                order = "::-1" if rows.last_first else ":"
                return f"{rows.name}[{order}, {columns}].copy().reshape({type_.shape})"
            text = f"reversed({rows.name})" if rows.last_first else rows.name
            part = f"[row[{columns}] for row in {text}]"
            return f"array({part}, '{type_.dtype.name}').reshape({type_.shape})"
        parts = self._read(flattened([value]))
        if type_ == TAPE:
            return f"as_tape({parts[0]})"
        if type_.shape == ():
            return parts[0] if type_.weak else f"{_SCALARS[type_.dtype]}({parts[0]})"
        made = f"array(({''.join(f'{p}, ' for p in parts)}), '{type_.dtype.name}')"
        return made if len(type_.shape) == 1 else f"{made}.reshape({type_.shape})"

    def function(
        self, name: str, begin: Sequence[str], results: Sequence[str], instead: Any
    ) -> Callable[..., Sequence[Any]]:
        """The function of the lines.

        Args:
          name: the name shown in tracebacks.
          begin: the first lines.
          results: the expressions that it returns.
          instead: the function of the same arguments that runs if this one gives up.
        """
        given = ", ".join(argument for argument, _, _ in self._arguments)
        text = [
            f"def run({given}):",
            "    if error_state() is not USUAL and raises():",
            f"        return instead({given})",
            "    try:",
            *(f"        {line}" for line in begin),
            *(f"    {line}" for line in self.lines),
            f"        return [{', '.join(results)}]",
            "    except (ZeroDivisionError, OverflowError, ValueError, IndexError):",
            f"        return instead({given})",
        ]
        self._namespace["instead"] = instead
        return defined("\n".join(text), f"<scalarised {name}>", self._namespace)
