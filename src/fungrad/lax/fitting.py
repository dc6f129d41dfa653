"""Floor 8: whether carries and branches fit: the types that they take, and the errors where they
do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad import trees
from fungrad.errors import StructureMismatchError
from fungrad.ir.types import Type
from fungrad.primitives.shaping import convert, to_discrete
from fungrad.structural.staging import Staged, names_of, stage_tree, types_of
from fungrad.tracing.source import user_line
from fungrad.tracing.trace import typeof


def strong_leaf(value: Any, type_: Type) -> Any:
    """A leaf of a carry as an array of the type that the carry has: never weak."""
    found = typeof(value)
    if found == type_:
        return value
    if value.__class__ in (int, float, bool, complex):
        return type_.dtype.type(value)
    return (
        convert(value, dtype=type_.dtype)
        if type_.inexact
        else to_discrete(value, dtype=type_.dtype)
    )


def _promoted(before: Sequence[Type], after: Sequence[Type]) -> list[Type]:
    """The types of a carry that begins as Python numbers and goes on as arrays."""
    return [
        b if not b.weak else Type((), a.dtype if a.shape == () else b.dtype)
        for b, a in zip(before, after, strict=True)
    ]


def check_same(
    what: str, left: str, right: str, first: Sequence[Type], second: Sequence[Type], treedef: Any
) -> None:
    """Raises StructureMismatchError, both types side by side, where leaf types differ."""
    for path, a, b in zip(trees.paths(treedef), first, second, strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            rows = [
                f"    {p or 'the value'}: {x} | {y}"
                for p, x, y in zip(trees.paths(treedef), first, second, strict=True)
            ]
            raise StructureMismatchError(
                f"{what}{user_line()}: the types differ, first at {path or 'the value itself'}.\n"
                f"  {left} | {right}\n" + "\n".join(rows)
            )


def check_tree(what: str, expected: trees.TreeDef, got: trees.TreeDef) -> None:
    """Raises StructureMismatchError, naming the first difference, where two structures differ."""
    if expected != got:
        raise StructureMismatchError(
            f"{what}{user_line()}: the structures differ, first at "
            f"{trees.difference(expected, got)}.\n  {expected}\n  {got}"
        )


def carry_body(
    f: Callable[..., Any], call: Callable[[Any], Any], init: Any, extra: Any, what: str
) -> tuple[Staged, list[Any], trees.TreeDef, list[Type]]:
    """Stages a body whose output begins with the next carry, with the carry's types settled."""
    leaves, treedef, types = types_of(init, "init")
    _, extra_def, extra_types = extra
    both = trees.structure((0, 0))
    whole = trees.TreeDef(both.type, both.aux, (treedef, extra_def))
    names = [*names_of(treedef, "carry"), *names_of(extra_def, "x")]
    for _ in range(len(types) + 2):
        staged = stage_tree(f, call, whole, [*types, *extra_types], names, what)
        out = staged.types[: len(types)]
        settled = _promoted(types, out) if len(out) == len(types) else types
        if settled == types:
            break
        types = settled
    return staged, [strong_leaf(x, t) for x, t in zip(leaves, types, strict=True)], treedef, types
