"""The loop IR: a lowered Graph as statements on NumPy arrays.

A Program is a list of nodes: allocate, view, call, copy, loop, free, return. They read and write
Values, which the printer names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.support.lazy import Record

FRESH, INVARIANT, BUFFER, ROW = "fresh", "invariant", "buffer", "row"
"""The memory of a value in a loop's body: new in each iteration, the same in all iterations, a
buffer of the loop (also the same in all, and contiguous), or a row of a stack.
"""


class Value:
    """A value of a program: computed, allocated or a parameter. Values are compared by identity.

    Args:
      stem: the beginning of its name.
      memory: the kind of its memory.
      rows: if it is a row, the expression of the stack that the loop iterates over.
    """

    __slots__ = ("memory", "rows", "stem")

    def __init__(self, stem: str = "v", memory: str = FRESH, rows: Expression | None = None):
        self.stem = stem
        self.memory = memory
        self.rows = rows

    @property
    def invariant(self) -> bool:
        """Whether its memory is the same in all iterations of the loop."""
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
    """The expression of a list of expressions."""
    text, inputs = joined(expressions)
    return Expression(f"[{text}]", inputs)


class Node:
    """A statement: a text with a field `{i}` for each input, and the values that it defines."""

    __slots__ = ("inputs", "outputs", "text")

    def __init__(
        self, text: str, inputs: Sequence[Value] = (), outputs: Sequence[Value] = ()
    ) -> None:
        self.text = text
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)

    def line(self, names: Sequence[str], outputs: Sequence[str]) -> str:
        """The line of Python, given the names of inputs and outputs."""
        made = self.text.format(*names)
        return f"{', '.join(outputs)} = {made}" if outputs else made


class Alloc(Node):
    """Memory without values."""

    __slots__ = ()


class View(Node):
    """Another view of the memory of its input."""

    __slots__ = ()


class Call(Node):
    """A call of a function, or an expression, of its inputs.

    Its outputs are new values. With `out` it writes into that value, which is also an input.
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
        """Whether the call returns a sequence of outputs."""

    def line(self, names: Sequence[str], outputs: Sequence[str]) -> str:
        made = self.text.format(*names)
        comma = "," if self.unpack else ""
        return f"{', '.join(outputs)}{comma} = {made}" if outputs else made


class Copy(Node):
    """Writes its last input into the memory of its first, or adds it there."""

    __slots__ = ()


class Return(Node):
    """Ends the program with the value of an expression."""

    __slots__ = ()

    def __init__(self, result: Expression) -> None:
        super().__init__(f"return {result.text}", result.inputs)


class Iterator(Record):
    """A loop variable, and the expression of the sequence that it iterates over."""

    value: Value
    over: Expression


class For:
    """A loop of known length: its body, and the updates of carried values after an iteration.

    Iterators that the body does not read are dropped as dead code.
    """

    __slots__ = ("body", "iterators", "length", "moves")

    outputs = ()

    def __init__(
        self,
        length: int,
        iterators: Sequence[Iterator],
        body: list[Any],
        moves: Sequence[tuple[Value, Value]],
    ) -> None:
        self.length = length
        self.body = body
        self.moves = [
            (carried, following) for carried, following in moves if carried is not following
        ]
        """Pairs: a carried value, and its value in the next iteration."""
        read = self.read
        self.iterators = [it for it in iterators if it.value in read]

    @property
    def read(self) -> set[Value]:
        """The values that an iteration reads."""
        found = {v for node in self.body for v in node.inputs}
        return found.union(*self.moves)

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that the loop reads from outside."""
        own = {it.value for it in self.iterators}
        own.update(v for node in self.body for v in node.outputs)
        return (*self.read - own, *(v for it in self.iterators for v in it.over.inputs))


class Free(Node):
    """Drops values."""

    __slots__ = ()

    def __init__(self, values: Sequence[Value]) -> None:
        super().__init__(f"del {', '.join(f'{{{i}}}' for i in range(len(values)))}", values)


class Program(Record):
    """A function: its parameters and its nodes, the last of which is a Return.

    `symbols` are the global values: the constants of a Graph. `reuse` says whether its outermost
    block deletes values after their last use and reuses their names.
    """

    name: str
    parameters: Sequence[Value]
    nodes: Sequence[Any]
    symbols: dict[Value, str]
    reuse: bool = False
