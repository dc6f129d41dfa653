"""Floor 8: control flow as functions of Python functions and trees, with JAX's signatures.

Each stages its functions once, checks that the types fit, and calls a structural primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad import trees
from fungrad.errors import ArgumentError, StructureMismatchError
from fungrad.ir.types import Type
from fungrad.primitives.shaping import convert, to_discrete
from fungrad.structural import loop
from fungrad.structural.schedule import check_checkpoint
from fungrad.structural.staging import Staged, names_of, stage_tree, types_of
from fungrad.tracing.source import boundary, describe, user_line
from fungrad.tracing.trace import typeof


def _strong_leaf(value: Any, type_: Type) -> Any:
    """A leaf of a carry as an array of the type that the carry has: never weak."""
    found = typeof(value)
    if found == type_:
        return value
    if value.__class__ in (int, float, bool, complex):
        return type_.dtype.type(value)
    return convert(value, dtype=type_.dtype) if type_.inexact else to_discrete(value, dtype=type_.dtype)


def _promoted(before: Sequence[Type], after: Sequence[Type]) -> list[Type]:
    """The types of a carry that begins as Python numbers and goes on as arrays."""
    return [
        Type(a.shape, a.dtype if b.weak and b.shape == a.shape else b.dtype) if b.weak else b
        for b, a in zip(before, after, strict=True)
    ]


def _check_same(
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


def _check_tree(what: str, expected: trees.TreeDef, got: trees.TreeDef) -> None:
    if expected != got:
        raise StructureMismatchError(
            f"{what}{user_line()}: the structures differ, first at {trees.difference(expected, got)}.\n"
            f"  {expected}\n  {got}"
        )


def _carry_body(
    f: Callable[..., Any], call: Callable[[Any], Any], init: Any, extra: Any, what: str
) -> tuple[Staged, list[Any], trees.TreeDef, list[Type]]:
    """Stages a body whose output begins with the next carry, with the carry's types settled."""
    leaves, treedef, types = types_of(init, "init")
    extra_leaves, extra_def, extra_types = extra
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
    return staged, [_strong_leaf(x, t) for x, t in zip(leaves, types, strict=True)], treedef, types


_NOTHING: tuple[list[Any], trees.TreeDef, list[Type]] = ([], trees.structure(()), [])


@boundary
def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    *,
    checkpoint: str | int | None = None,
) -> Any:
    """Applies a body to a carry as long as a condition of it holds.

    Args:
      cond_fun: carry -> one boolean.
      body_fun: carry -> the next carry, a tree of the same structure, shapes and dtypes.
      init_val: the first carry.
      checkpoint: what reverse mode holds of the steps: None, the residuals of each; "binomial", O(log n)
        carries, each step being run O(log n) times; a number of bytes, carries that fit into it.

    Returns:
      The carry for which the condition does not hold. Both modes of differentiation work, whatever the
      number of steps.

    Raises:
      StructureMismatchError: where the body's output is no carry, or the condition no boolean.

    >>> import numpy as np, fungrad as fg
    >>> def newton_sqrt(a):
    ...     step = lambda x: 0.5 * (x + a / x)
    ...     return while_loop(lambda x: np.abs(x * x - a) > 1e-12, step, a)
    >>> float(fg.grad(newton_sqrt)(4.0))
    0.25
    """
    check_checkpoint(checkpoint)
    body, carry, treedef, types = _carry_body(
        body_fun, lambda both: body_fun(both[0]), init_val, _NOTHING, "the body of while_loop"
    )
    what = f"The body {describe(body_fun)} of while_loop has to return a carry like the one it gets"
    _check_tree(what, treedef, body.out)
    _check_same(what, "carry in", "carry out", types, body.types, treedef)
    cond = stage_tree(
        cond_fun, cond_fun, treedef, types, names_of(treedef, "carry"), "the condition of while_loop"
    )
    if len(cond.types) != 1 or cond.types[0].shape != () or cond.types[0].dtype != np.bool_:
        raise StructureMismatchError(
            f"The condition {describe(cond_fun)} of while_loop has to return one boolean{user_line()}, but it "
            f"returned {cond.types}."
        )
    out = loop.while_loop(
        *cond.captured, *body.captured, *carry,
        cond=cond.graph, body=body.graph, counts=(len(cond.captured), len(body.captured)),
        checkpoint=checkpoint,
    )  # fmt: skip
    return trees.unflatten(treedef, out)


__all__ = ["ArgumentError", "while_loop"]
