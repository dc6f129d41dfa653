"""The loop IR: what a lowered Graph does, statement by statement, on NumPy's arrays.

A Program is a list of nodes that allocate, view, call, copy, loop and return. They read and write
Values, which are objects: the printer gives them names when everything is decided. Knows neither
primitives nor Graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.support.record import Record

FRESH, INVARIANT, BUFFER, ROW = "fresh", "invariant", "buffer", "row"
"""Where a value of a loop's body stands: in memory that each iteration makes, in memory that is the
same in all of them, in a buffer of the loop (the same, too, and contiguous), in a row of a stack.
"""


class Value:
    """What a program computes, is given, or allocates; compared by identity.

    Args:
      stem: how its name begins.
      memory: where it stands.
      rows: of a row, the expression of the stack that the loop iterates over.
    """

    __slots__ = ("memory", "rows", "stem")

    def __init__(self, stem: str = "v", memory: str = FRESH, rows: Expression | None = None):
        self.stem = stem
        self.memory = memory
        self.rows = rows

    @property
    def invariant(self) -> bool:
        """Whether it is the same memory in all iterations."""
        return self.memory is INVARIANT or self.memory is BUFFER


class Expression(Record):
    """Text with a field `{}` for each value that it reads."""

    text: str
    inputs: tuple[Value, ...] = ()

    def then(self, suffix: str) -> Expression:
        """The expression with a suffix, such as an index."""
        return Expression(self.text + suffix, self.inputs)


def value(found: Value) -> Expression:
    """The expression of a value."""
    return Expression("{}", (found,))


def joined(expressions: Sequence[Expression]) -> Expression:
    """Expressions with commas between them."""
    text = ", ".join([e.text for e in expressions])
    return Expression(text, tuple([v for e in expressions for v in e.inputs]))


def listed(expressions: Sequence[Expression]) -> Expression:
    """The list of some expressions."""
    text, inputs = joined(expressions)
    return Expression(f"[{text}]", inputs)


class Node:
    """A statement: a text with a field `{i}` for each input; outputs are what it defines."""

    __slots__ = ("inputs", "outputs", "text")

    def __init__(
        self, text: str, inputs: Sequence[Value] = (), outputs: Sequence[Value] = ()
    ) -> None:
        self.text = text
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)

    def line(self, names: Sequence[str], outputs: Sequence[str]) -> str:
        """The line of Python, by the names of inputs and outputs."""
        made = self.text.format(*names)
        return f"{', '.join(outputs)} = {made}" if outputs else made


class Alloc(Node):
    """Memory without values."""

    __slots__ = ()


class View(Node):
    """Another view of the memory of its input."""

    __slots__ = ()


class Call(Node):
    """A function, or an expression, of its inputs.

    Its outputs are new values; with `out` it writes into that value, which then is an input.
    """

    __slots__ = ("out", "unpack")

    def __init__(
        self,
        text: str,
        inputs: Sequence[Value] = (),
        outputs: Sequence[Value] = (),
        out: Value | None = None,
        unpack: bool = False,
    ) -> None:
        self.text = text
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.out = out
        self.unpack = unpack
        """Whether the outputs come as a sequence."""

    def line(self, names: Sequence[str], outputs: Sequence[str]) -> str:
        made = self.text.format(*names)
        comma = "," if self.unpack else ""
        return f"{', '.join(outputs)}{comma} = {made}" if outputs else made


class Copy(Node):
    """Writes, or adds, its last input into memory of the first."""

    __slots__ = ()


class Acquire(Node):
    """Takes arrays and views of their rows from a stack cache: the outputs are what is held, the
    rows, and the arrays.
    """

    __slots__ = ()

    def line(self, names: Sequence[str], outputs: Sequence[str]) -> str:
        held, rows, *arrays = outputs
        return f"{held} = ({', '.join(arrays)},), {rows}, _ = {self.text}"


class Release(Node):
    """Gives what `Acquire` has taken back."""

    __slots__ = ()


class Return(Node):
    """Ends the program with the value of an expression."""

    __slots__ = ()

    def __init__(self, result: Expression) -> None:
        super().__init__(f"return {result.text}", result.inputs)


class Iterator(Record):
    """What a loop runs over: the values of an iteration, and the expression of all of them."""

    values: tuple[Value, ...]
    over: Expression
    packed: bool = False
    """Whether each item is a tuple of the values."""


class Loop:
    """The body of a loop, and the moves that hand its carried values to the next iteration."""

    __slots__ = ("body", "moves")

    outputs = ()

    def __init__(self, body: list[Any], moves: Sequence[tuple[Value, Value]]) -> None:
        self.body = body
        self.moves = [
            (carried, following) for carried, following in moves if carried is not following
        ]
        """Pairs: a carried value, and what it is in the next iteration."""

    @property
    def read(self) -> set[Value]:
        """What an iteration reads."""
        found = {v for node in self.body for v in node.inputs}
        return found.union(*self.moves)

    @property
    def inputs(self) -> tuple[Value, ...]:
        """What it reads that stands before it."""
        return tuple(self.read.difference(v for node in self.body for v in node.outputs))


class For(Loop):
    """A loop of a known length.

    Iterators of which the body reads nothing are dead code, and dropped.
    """

    __slots__ = ("iterators", "length")

    def __init__(
        self,
        length: int,
        iterators: Sequence[Iterator],
        body: list[Any],
        moves: Sequence[tuple[Value, Value]],
    ) -> None:
        super().__init__(body, moves)
        self.length = length
        read = self.read
        self.iterators = [it for it in iterators if not read.isdisjoint(it.values)]

    @property
    def inputs(self) -> tuple[Value, ...]:
        own = {v for it in self.iterators for v in it.values}
        found = [v for v in super().inputs if v not in own]
        return (*found, *(v for it in self.iterators for v in it.over.inputs))


class While(Loop):
    """A loop that goes on while a condition holds."""

    __slots__ = ("condition",)

    def __init__(
        self, condition: Expression, body: list[Any], moves: Sequence[tuple[Value, Value]]
    ) -> None:
        super().__init__(body, moves)
        self.condition = condition

    @property
    def inputs(self) -> tuple[Value, ...]:
        return (*super().inputs, *self.condition.inputs)


class Free(Node):
    """Drops values."""

    __slots__ = ()

    def __init__(self, values: Sequence[Value]) -> None:
        super().__init__(f"del {', '.join(f'{{{i}}}' for i in range(len(values)))}", values)


class Program(Record):
    """A function: its parameters and its nodes, of which the last one is a Return.

    `symbols` are the values that are global: the constants of a Graph. `reuse` says whether names
    are used again in its outermost block, and values dropped behind their last use. `helper` is a
    function that it calls.
    """

    name: str
    parameters: Sequence[Value]
    nodes: Sequence[Any]
    symbols: dict[Value, str]
    reuse: bool = False
    helper: Program | None = None


__all__ = [
    "BUFFER", "FRESH", "INVARIANT", "ROW", "Acquire", "Alloc", "Call", "Copy", "Expression", "For",
    "Free", "Iterator", "Loop", "Node", "Program", "Release", "Return", "Value", "View", "While",
    "joined", "listed", "value",
]  # fmt: skip
