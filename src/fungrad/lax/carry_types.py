"""Whether carries and branches fit: the types that they take, and the errors where they
do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from fungrad.errors import StructureMismatchError
from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.primitives.movement.reshape_broadcast_cast import convert, to_discrete
from fungrad.retracing.stage_function import Staged, names_of, stage_tree, types_of
from fungrad.support import pytree
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import typeof


def strong_leaf(value: Any, type_: Type) -> Any:
    """A leaf of a carry as an array of the type that the carry has: never weak."""
    found = typeof(value)
    if found == type_:
        return value
    if type(value) in (int, float, bool, complex):
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
    for path, a, b in zip(pytree.paths(treedef), first, second, strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            rows = [
                f"    {p or 'the value'}: {x} | {y}"
                for p, x, y in zip(pytree.paths(treedef), first, second, strict=True)
            ]
            raise StructureMismatchError(
                f"{what}{user_line()}: the types differ, first at {path or 'the value itself'}.\n"
                f"  {left} | {right}\n" + "\n".join(rows)
            )


def check_tree(what: str, expected: pytree.TreeDef, got: pytree.TreeDef) -> None:
    """Raises StructureMismatchError, naming the first difference, where two structures differ."""
    if expected != got:
        raise StructureMismatchError(
            f"{what}{user_line()}: the structures differ, first at "
            f"{pytree.difference(expected, got)}.\n  {expected}\n  {got}"
        )


_ORDINARY = frozenset(map(np.dtype, ("bool", "int64", "float64", "complex128")))
"""The dtypes among which a Python number and an array of its dtype promote alike."""
_ordinary: ContextVar[_Ordinary | None] = ContextVar("fungrad_ordinary", default=None)
"""Of the outermost loop that is being staged."""


class _Ordinary:
    """Whether bodies have had only such dtypes, and how many are being staged on that."""

    __slots__ = ("holds", "hoping")

    def __init__(self) -> None:
        self.holds = True
        self.hoping = 0


class _OtherDtypes(Exception):
    """Ends the staging of the loops around one that has other dtypes."""


Stage = Callable[[Sequence[Type]], Staged]


def _as_arrays(
    stage: Stage, types: Sequence[Type], others: Sequence[Type]
) -> tuple[Staged, list[Type]] | None:
    """A body whose carry of Python numbers is taken as arrays at once, where that makes no
    difference: where it has ordinary dtypes alone. So loops in loops are staged once each.
    """
    state = _ordinary.get()
    if state is None or not state.holds or not any(t.weak for t in types):
        return None
    if all(t.dtype in _ORDINARY for t in (*types, *others)):
        firm = [Type(t.shape, t.dtype) for t in types]
        state.hoping += 1
        try:
            staged = stage(firm)
        except Exception:  # another dtype may be at fault: staged anew, it raises again if not
            staged = None
        finally:
            state.hoping -= 1
        if staged is not None and state.holds and _all_ordinary(staged.graph):
            out = staged.types[: len(types)]
            settled = _promoted(types, out) if len(out) == len(types) else firm
            return (staged, firm) if settled == firm else _settled(stage, settled)
    state.holds = False
    if state.hoping:
        raise _OtherDtypes
    return None


def _all_ordinary(graph: Graph) -> bool:
    seen = {id(graph)}
    waiting = [graph]
    while waiting:
        found = waiting.pop()
        atoms = [*found.inputs, *(v for v, _ in found.constants), *found.outputs]
        for equation in found.equations:
            atoms += equation.inputs
            atoms += equation.outputs
        if any(atom.type.dtype not in _ORDINARY for atom in atoms):
            return False
        inner = [g for g in found.subgraphs() if id(g) not in seen]
        seen.update(map(id, inner))
        waiting += inner
    return True


def _settled(stage: Stage, types: list[Type]) -> tuple[Staged, list[Type]]:
    """A body and its carry's types: Python numbers become arrays of the dtypes that they get."""
    for _ in range(len(types) + 2):
        staged = stage(types)
        out = staged.types[: len(types)]
        settled = _promoted(types, out) if len(out) == len(types) else types
        if settled == types:
            break
        types = settled
    return staged, types


def carry_body(
    f: Callable[..., Any], call: Callable[[Any], Any], init: Any, extra: Any, what: str
) -> tuple[Staged, list[Any], pytree.TreeDef, list[Type]]:
    """Stages a body whose output begins with the next carry, with the carry's types settled."""
    leaves, treedef, types = types_of(init, "init")
    _, extra_def, extra_types = extra
    both = pytree.structure((0, 0))
    whole = pytree.TreeDef(both.type, both.aux, (treedef, extra_def))
    names = [*names_of(treedef, "carry"), *names_of(extra_def, "x")]

    def stage(types: Sequence[Type]) -> Staged:
        return stage_tree(f, call, whole, [*types, *extra_types], names, what, rows=set())

    token = _ordinary.set(_ordinary.get() or _Ordinary())
    try:
        staged, types = _as_arrays(stage, types, extra_types) or _settled(stage, types)
    finally:
        _ordinary.reset(token)
    return staged, [strong_leaf(x, t) for x, t in zip(leaves, types, strict=True)], treedef, types
