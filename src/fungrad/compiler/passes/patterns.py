"""Rewrite rules as data: a pattern of equations, a guard, and the replacement.

    X, Y = AnyValue("x"), AnyValue("y")

    @rule(made((add, sub), X, once(neg, Y)), "x + -y is x - y")
    def _(writer, equation, x, y): ...

`made(mul, X, Y)` matches an output of `mul`, with its operands in either order; `once` one that
nothing else reads, so that it is not computed after the rewrite. A rule's function is called with
the values of the names, for each match of the pattern, until it returns a replacement. The rewriter
counts the uses that values lose and gain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from fungrad.ir.graph import Atom, Equation, Literal, PrimitiveLike
from fungrad.support.lazy import Record

CONSTANT = "constant"
"""Represents the definition of a constant of the Graph."""
Matched = dict[str, Any]


class Writer(Protocol):
    """The methods of the rewriter that patterns call; it counts the uses of values."""

    def definition(self, atom: Atom, *primitives: PrimitiveLike) -> Equation | None: ...
    def is_single_use(self, atom: Atom) -> bool: ...
    def release(self, atom: Atom) -> None: ...
    def mark(self) -> int: ...
    def restore(self, mark: int) -> None: ...


class AnyValue(Record):
    """Any value; the same one for all occurrences of the name."""

    name: str


class LiteralNumber(Record):
    """A literal number, equal to `value` if that is given."""

    name: str
    value: float | None = None


class OutputOf(Record):
    """An output of one of some primitives, with these operands (any, if none are given).

    With `once` nothing else may read it; `name` is its equation's name for the rule.
    """

    primitives: tuple[PrimitiveLike, ...]
    operands: tuple[Pattern, ...]
    once: bool
    name: str


Pattern = AnyValue | LiteralNumber | OutputOf


def made(primitives: Any, *operands: Pattern, name: str = "") -> OutputOf:
    """A value that one of the primitives computes."""
    several = primitives if isinstance(primitives, tuple) else (primitives,)
    return OutputOf(several, operands, False, name)


def once(primitives: Any, *operands: Pattern, name: str = "") -> OutputOf:
    """Such a value that nothing else reads."""
    return made(primitives, *operands, name=name)._replace(once=True)


class Rule(Record):
    """A rewrite of the equations that match a pattern.

    `replace(writer, equation, **names)` returns an atom equal to the output, or None. If `of` is
    given, one of its primitives (or a `Literal`, a `CONSTANT`) has to define an operand: the rule
    is tried for no other equation. `guard` has to hold for the equation.
    """

    pattern: OutputOf
    reason: str
    replace: Callable[..., Atom | None]
    of: tuple[Any, ...] = ()
    guard: Callable[[Equation], bool] | None = None

    def applied(self, writer: Writer, equation: Equation) -> Atom | None:
        """The replacement of an equation's output; None if the rule does not apply."""
        if self.guard is not None and not self.guard(equation):
            return None
        for names in _operands(writer, self.pattern, equation, (), {}):
            mark = writer.mark()
            replaced = self.replace(writer, equation, **names)
            if replaced is not None and replaced.type == equation.outputs[0].type:
                return replaced
            writer.restore(mark)
        return None


def rule(
    pattern: OutputOf, reason: str, *, of: Sequence[Any] = (),
    guard: Callable[[Equation], bool] | None = None,
) -> Callable[[Callable[..., Atom | None]], Rule]:  # fmt: skip
    """Decorates the function that returns the replacement; makes it a Rule."""
    makers = set(of)
    for operand in pattern.operands:
        if isinstance(operand, OutputOf):
            makers.update(operand.primitives)
        elif isinstance(operand, LiteralNumber):
            makers.add(Literal)
    return lambda replace: Rule(pattern, reason, replace, tuple(makers), guard)


Waiting = tuple[tuple[Pattern, Atom], ...]


def _matches(writer: Writer, waiting: Waiting, names: Matched) -> Iterator[Matched]:
    """The values of the names, for each match of values with their patterns."""
    if not waiting:
        yield names
        return
    (pattern, atom), *others = waiting
    rest = tuple(others)
    if isinstance(pattern, OutputOf):
        equation = writer.definition(atom, *pattern.primitives)
        if equation is None or (pattern.once and not writer.is_single_use(atom)):
            return
        mark = writer.mark()
        writer.release(atom)
        yield from _operands(writer, pattern, equation, rest, names)
        writer.restore(mark)
        return
    if isinstance(pattern, LiteralNumber):
        if not isinstance(atom, Literal):
            return
        if pattern.value is not None and not bool(atom.value == pattern.value):
            return
    if names.get(pattern.name, atom) is atom:
        yield from _matches(writer, rest, {**names, pattern.name: atom})


def _operands(
    writer: Writer, pattern: OutputOf, equation: Equation, rest: Waiting, names: Matched
) -> Iterator[Matched]:
    """The matches of an equation's operands, in both orders if it is commutative."""
    if pattern.name:
        names = {**names, pattern.name: equation}
    operands, inputs = pattern.operands, equation.inputs
    if not operands:
        yield from _matches(writer, rest, names)
    elif len(operands) == len(inputs):
        yield from _matches(writer, (*zip(operands, inputs, strict=True), *rest), names)
        alike = inputs[0] is inputs[-1] or all(isinstance(o, AnyValue) for o in operands)
        if equation.primitive.commutative and not alike:
            pairs = zip(operands, inputs[::-1], strict=True)
            yield from _matches(writer, (*pairs, *rest), names)
