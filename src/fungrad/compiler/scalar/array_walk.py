"""The walk of loops and branches on arrays: it writes nodes of the loop IR.

`ArrayControlFlow` is walk and emitter of the rules of control_flow_rules.py, for programs on NumPy
and for exported source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.compiler.loop_ir.names import Names
from fungrad.compiler.loop_ir.program import (
    Argument,
    Block,
    Call,
    Copy,
    Exit,
    Expression,
    For,
    Iterator,
    Local,
    Move,
    Node,
    Push,
)
from fungrad.compiler.scalar.emitter import TAPE_DTYPE, Elements, boxed, flattened
from fungrad.compiler.scalar.emitter import Number as Array
from fungrad.control_flow.tape_type import TAPE
from fungrad.ir.graph import Graph
from fungrad.ir.types import Type


def handles(arrays: Sequence[Elements]) -> list[Any]:
    """The operands of arrays of the walk: of each the handle of its only Array."""
    return [array.handle for array in flattened(arrays)]


class ArrayControlFlow:
    """The nodes of loops and branches: both walk and emitter (see `Scalariser` and `Emitter`).

    An array of the walk is a single Array, whose handle is an operand of nodes.

    Args:
      names: the constants.
    """

    long_arrays = False

    def __init__(self, names: Names) -> None:
        self.names = names
        self.nodes: list[Any] = []

    @property
    def emitter(self) -> ArrayControlFlow:
        return self

    def graph(self, graph: Graph, inputs: Sequence[Elements]) -> list[Elements]:
        """Adds the nodes of a Graph; returns its outputs."""
        raise NotImplementedError

    # --- nodes ----------------------------------------------------------------------------------

    def expression(self, text: str, operands: Sequence[Argument]) -> Expression:
        """A text with a field `{}` for each operand."""
        fields = [x if isinstance(x, str) else "{}" for x in operands]
        inputs = tuple([x for x in operands if isinstance(x, Local)])
        return Expression(text.format(*fields), inputs)

    def node(self, kind: type[Node], text: str, operands: Sequence[Argument]) -> None:
        """Adds a statement; its text has a field `{}` for each operand."""
        self.nodes.append(kind(*self.expression(text, operands)))

    def call(
        self, text: str, operands: Sequence[Argument], types: Sequence[Any], unpack: bool = False
    ) -> list[Elements]:
        """Adds a call; returns its outputs, of the given Types."""
        variables = [self.variables(type_) for type_ in types]
        self.set(handles(variables), text, operands, unpack)
        return variables

    def set(
        self, outputs: Sequence[Any], text: str, operands: Sequence[Argument], unpack: bool = False
    ) -> None:
        """Sets values to an expression."""
        self.nodes.append(Call(*self.expression(text, operands), outputs, unpack=unpack))

    def block(self, write: Callable[[], None]) -> list[Any]:
        """The nodes that a function adds."""
        before, self.nodes = self.nodes, []
        write()
        nodes, self.nodes = self.nodes, before
        return nodes

    # --- the walk -------------------------------------------------------------------------------

    def repeated(self, length: int | None, write: Callable[[], None]) -> None:
        write()

    def variables(self, type_: Any) -> Elements:
        stem = "tape" if type_.dtype == TAPE_DTYPE else "v"
        return boxed(Array(Local(stem), type_.dtype))

    def whole(self, value: Elements) -> Elements:
        return value

    def zeros(self, type_: Any) -> Elements:
        return boxed(Array(self.names.filled("zeros", type_), type_.dtype))

    def assign(self, variables: Sequence[Elements], values: Sequence[Elements]) -> None:
        self.nodes.append(Move(zip(handles(variables), handles(values), strict=True)))

    def initialised(self, values: Sequence[Elements], types: Sequence[Any]) -> list[Elements]:
        variables = [self.variables(type_) for type_ in types]
        for variable, value in zip(variables, values, strict=True):
            self.assign([variable], [value])
        return variables

    def accumulate(self, total: Elements, part: Elements, dtype: Any) -> None:
        self.set(handles([total]), "{} + {}", handles([total, part]))

    def reads(self, xs: Sequence[Elements], rows: Sequence[Elements], length: int) -> Any:
        return list(zip(handles(rows), handles(xs), strict=True))

    def stacks(self, made: Any, types: Sequence[Any]) -> list[Elements]:
        return [self._empty(type_) for type_ in types] if made is None else made[1:]

    def _empty(self, type_: Any) -> Elements:
        return self.call(self.names.filled("empty", type_), (), [type_])[0]

    # --- the emitter ----------------------------------------------------------------------------

    def rows(self, length: int, types: Sequence[Any], reverse: bool) -> list[Any]:
        """The step, and the stacks of its rows."""
        whole = [Type((length, *t.shape), t.dtype) for t in types]
        return [Local("step"), *map(self._empty, whole)]

    def append(self, rows: list[Any], values: Sequence[Array]) -> None:
        step, *stacks = rows
        for stack, row in zip(handles(stacks), values, strict=True):
            self.node(Copy, "{}[{}] = {}", [stack, step, row.handle])

    def scan(
        self, length: int, reverse: bool, reads: Any, makes: Any, step: Callable[[], None]
    ) -> None:
        order = "[::-1]" if reverse else ""
        steps = Expression(f"range({length}){order}")
        iterators = [Iterator((row,), self.expression("{}" + order, [x])) for row, x in reads]
        if makes is not None:
            iterators.append(Iterator((makes[0],), steps))
        self.nodes.append(For(steps, iterators, self.block(step)))

    def while_loop(self, condition: Callable[[], Array], body: Callable[[], None]) -> None:
        tests: list[Argument] = []
        nodes = self.block(lambda: tests.append(condition().handle))
        head = self.expression("while {}:", tests)
        if nodes and (len(nodes) > 1 or nodes[0].outputs != tuple(tests)):
            head = Expression("while True:")
            nodes.append(Exit(*self.expression("if not {}: break", tests)))
        elif nodes:
            head, nodes = Expression(f"while {nodes[0].text}:", nodes[0].inputs), []
        self.nodes.append(Block((head, [*nodes, *self.block(body)])))

    def branch(self, index: Array, branches: Sequence[Callable[[], None]]) -> None:
        """Runs one of several blocks, chosen by a boolean or a clamped integer."""
        blocks = list(map(self.block, branches))
        texts = [f"if int({{}}) <= {i}:" for i in range(len(blocks) - 1)]
        if index.dtype.kind == "b" and len(blocks) == 2:
            texts, blocks = ["if {}:"], blocks[::-1]
        if not texts:
            self.nodes += blocks[0]
            return
        heads = [self.expression("el" * (i > 0) + t, [index.handle]) for i, t in enumerate(texts)]
        self.nodes.append(Block(*zip([*heads, Expression("else:")], blocks, strict=True)))

    def tape(self, types: Sequence[Any], single: bool) -> Array:
        if single:
            return Array(None, TAPE_DTYPE)  # its only record becomes the handle
        tape: Array = self.call("[]", (), [TAPE])[0][()]
        return tape

    def push(self, tape: Array, values: Sequence[Array]) -> None:
        record, given = f"({'{}, ' * len(values)})", [value.handle for value in values]
        if tape.handle is None:
            (tape.handle,) = handles(self.call(record, given, [TAPE]))
        else:
            self.node(Push, f"{{}}.append({record})", [tape.handle, *given])

    def pop(self, tape: Array, variables: Sequence[Array]) -> None:
        self.set([v.handle for v in variables], "{}", [tape.handle], unpack=True)

    def unwind(self, tape: Array, variables: Sequence[Array], step: Callable[[], None]) -> None:
        over = self.expression("reversed({})", [tape.handle])
        records = Iterator(tuple([v.handle for v in variables]), over, unpack=True)
        self.nodes.append(For(over, [records], self.block(step)))
