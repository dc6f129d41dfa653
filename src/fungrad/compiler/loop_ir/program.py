"""The loop IR: a lowered Graph as statements on NumPy arrays.

A Program is a list of nodes: allocate, view, call, copy, move, loop, branch, free, return. They
read and write Locals, which the printer names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from fungrad.support.lazy import Record


class Local:
    """A value of a program: computed or a parameter. Locals are compared by identity.

    Args:
      stem: the beginning of its name.
    """

    __slots__ = ("stem",)

    def __init__(self, stem: str = "v") -> None:
        self.stem = stem


class Expression(Record):
    """Text with a field `{}` for each value that it reads."""

    text: str
    inputs: tuple[Local, ...] = ()

    def then(self, suffix: str) -> Expression:
        """The expression with a suffix, such as an index."""
        return Expression(self.text + suffix, self.inputs)


def value(found: Local) -> Expression:
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


Argument = Local | str
"""An operand of a node: a value, or the text of a constant."""


def placed(operands: Sequence[Argument]) -> tuple[list[str], list[Local]]:
    """The fields of operands in the text of a node, and the values among them."""
    fields: list[str] = []
    inputs: list[Local] = []
    for operand in operands:
        if isinstance(operand, str):
            fields.append(operand)
        else:
            fields.append(f"{{{len(inputs)}}}")
            inputs.append(operand)
    return fields, inputs


class Node:
    """A statement: a text with a field `{i}` for each input, and the values that it defines.

    `unpack` says whether the text is a sequence of these values, `origin` what it computes: an
    equation or a cluster, or None.
    """

    __slots__ = ("inputs", "origin", "outputs", "text", "unpack")

    def __init__(
        self,
        text: str,
        inputs: Sequence[Local] = (),
        outputs: Sequence[Local] = (),
        unpack: bool = False,
    ) -> None:
        self.text = text
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.unpack = unpack
        self.origin: Any = None

    def line(self, names: Sequence[str], outputs: Sequence[str]) -> str:
        """The line of Python, given the names of inputs and outputs."""
        made = self.text.format(*names)
        return f"{', '.join(outputs)}{',' * self.unpack} = {made}" if outputs else made


class Call(Node):
    """A call of a function, or an expression, of its inputs.

    Its outputs are new values; without outputs it writes into an input.
    """

    __slots__ = ()


class Copy(Node):
    """Writes its last input into the memory of its first, or adds it there."""

    __slots__ = ()


class Push(Node):
    """Appends a record to a tape."""

    __slots__ = ()


class Exit(Node):
    """Leaves a loop, or the function by an error, if a condition holds."""

    __slots__ = ()


class Return(Node):
    """Ends the program with the value of an expression."""

    __slots__ = ()

    def __init__(self, result: Expression) -> None:
        super().__init__(f"return {result.text}", result.inputs)


class Move(Node):
    """Sets variables to operands, all at once.

    Args:
      pairs: the variables, each with its operand.
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: Iterable[tuple[Local, Argument]]) -> None:
        self.pairs = [pair for pair in pairs if pair[0] is not pair[1]]
        fields, inputs = placed([operand for _, operand in self.pairs])
        super().__init__(", ".join(fields), inputs, [variable for variable, _ in self.pairs])


class Block:
    """A statement with blocks of nodes: the text of each head, and the nodes under it.

    `own` are the values that a head sets.
    """

    __slots__ = ("own", "parts")

    outputs = ()
    origin = None

    def __init__(self, *parts: tuple[Expression, Sequence[Any]], own: Sequence[Local] = ()) -> None:
        self.parts = [(head, list(nodes)) for head, nodes in parts]
        self.own = own

    @property
    def inputs(self) -> tuple[Local, ...]:
        """The values that it reads from outside: before one of its nodes sets them."""
        inputs: dict[Local, None] = {}
        for head, nodes in self.parts:
            set_here = {*self.own}
            for node in (head, *nodes):
                inputs.update(dict.fromkeys([v for v in node.inputs if v not in set_here]))
                set_here.update(getattr(node, "outputs", ()))
        return tuple(inputs)


class Iterator(Record):
    """Loop variables, and the expression of the sequence.

    Each item is the value of the only variable, or is unpacked if `unpack`.
    """

    values: tuple[Local, ...]
    over: Expression
    unpack: bool = False


class For(Block):
    """A loop over sequences of one length: a number, or an expression of that length.

    Iterators that the body does not read are dropped as dead code.
    """

    __slots__ = ()

    def __init__(
        self, length: int | Expression, iterators: Sequence[Iterator], body: Sequence[Any]
    ) -> None:
        read = {v for node in body for v in node.inputs}
        kept = [it for it in iterators if not read.isdisjoint(it.values)]
        own = [v for it in kept for v in it.values]
        targets = [f"({'{}, ' * len(it.values)})" if it.unpack else "{}" for it in kept]
        steps = length if isinstance(length, Expression) else Expression(f"range({length})")
        over = joined([it.over for it in kept] or [steps])
        given = f"zip({over.text})" if len(kept) > 1 else over.text
        head = Expression(f"for {', '.join(targets) or '_'} in {given}:", (*own, *over.inputs))
        super().__init__((head, body), own=own)


def touched(nodes: Iterable[Any]) -> Iterable[Local]:
    """The values that nodes read or set, each time."""
    for node in nodes:
        if isinstance(node, Block):
            for head, inner in node.parts:
                yield from (*head.inputs, *touched(inner))
        else:
            yield from (*node.inputs, *node.outputs)


def coalesce(nodes: list[Any], touches: Counter[Local]) -> None:
    """Computes values in the variables that they are moved to, if nothing else reads them.

    Args:
      nodes: the nodes, which are changed.
      touches: how often each value is read or set.
    """
    for at, node in enumerate(nodes):
        for _, inner in node.parts if isinstance(node, Block) else ():
            coalesce(inner, touches)
        left = list(node.pairs) if isinstance(node, Move) else []
        for variable, source in list(left):
            made = next((n for n in nodes[:at] if source in n.outputs), None)
            if made is None or touches[source] != 2:  # type: ignore[index]
                continue
            others = [x for _, x in left if x is not source]
            between = touched(nodes[nodes.index(made) + 1 : at])
            if variable not in (*made.outputs, *others, *between):
                made.outputs = tuple([variable if v is source else v for v in made.outputs])
                left.remove((variable, source))
                nodes[at] = Move(left)


class Program(Record):
    """A function: its parameters and its nodes, the last of which is a Return.

    `symbols` are the global values: the constants of a Graph.
    """

    name: str
    parameters: Sequence[Local]
    nodes: Sequence[Any]
    symbols: dict[Local, str]
