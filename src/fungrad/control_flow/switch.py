"""`switch`, the primitive that applies one of several Graphs (cond is a switch of two).

`switch(index, *operands, branches=)`: all branches take the operands and return outputs of the same
types; the index is a clamped integer or a boolean. Batched over the index it runs all branches and
selects; unselected results do not reach any derivative, not even as NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.control_flow.call import call, run
from fungrad.control_flow.reverse_with_tape import BatchedForm, Reverse, Rules
from fungrad.control_flow.while_loop import choose
from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import eq
from fungrad.primitives.elementwise.ufuncs import maximum, minimum
from fungrad.primitives.movement.reshape_broadcast_cast import to_discrete, with_batch
from fungrad.primitives.primitive import Primitive, zeros
from fungrad.primitives.stop_gradient import stop
from fungrad.retracing.graph_transforms import (
    batch,
    differentiate,
    jvp_graph,
    stage_variant,
    strong_type,
)
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.trace import typeof

Branches = tuple[Graph, ...]


def _chosen(index: Any, branches: Branches) -> int:
    return min(max(int(index), 0), len(branches) - 1)


def _eval(index: Any, *operands: Any, branches: Branches) -> Any:
    return tuple(run(branches[_chosen(index, branches)], operands))


def _jvp(primals: Any, tangents: Any, *, branches: Branches) -> Any:
    moved = [t is not None for t in tangents[1:]]
    pushed = [jvp_graph(branch, moved) for branch in branches]
    count = len(branches[0].outputs)
    moving = sorted({i for p in pushed for i in p.moving})
    given = [t for t in tangents[1:] if t is not None]
    new = tuple(
        _with_tangents(branch, p, moved, moving) for branch, p in zip(branches, pushed, strict=True)
    )
    results = switch(primals[0], *primals[1:], *given, branches=new)
    out_tangents: list[Any] = [None] * count
    for i, tangent in zip(moving, results[count:], strict=True):
        out_tangents[i] = tangent
    return results[:count], out_tangents


def _with_tangents(
    branch: Graph, pushed: Any, moved: Sequence[bool], moving: Sequence[int]
) -> Graph:
    """The pushed branch, with tangents for the outputs that have one in any branch."""
    count = len(branch.outputs)

    def f(*values: Any) -> list[Any]:
        results = evaluate(pushed.graph, values)
        by_slot = dict(zip(pushed.moving, results[count:], strict=True))
        rest = [
            by_slot[i] if i in by_slot else zeros(strong_type(branch.output_types[i]))
            for i in moving
        ]
        return [*results[:count], *rest]

    types = pushed.graph.input_types
    return stage_variant(
        branch, ("switch_jvp", tuple(moved), tuple(moving)), types, f, "the derivative"
    )


# --- batching -------------------------------------------------------------------------------------


def _batch(args: Any, batched: Any, size: int, *, branches: Branches) -> Any:
    if not batched[0]:
        return _reverse.batch(args, batched, size, branches=branches)
    index = _clamped(args[0], len(branches))
    operands = [with_batch(x, b, size) for x, b in zip(args[1:], batched[1:], strict=True)]
    result: Any = None
    for i, branch in enumerate(branches):
        mine = eq(index, i)
        # The other examples are constants here, so that they do not reach a derivative.
        safe = [choose(mine, x, stop(x, name=None)) for x in operands]
        graph = batch(branch, [True] * len(safe), size, all_outputs=True).graph
        outputs = call(*safe, graph=graph, quiet=True)  # the others' results are dropped
        result = outputs if result is None else [
            choose(mine, new, old) for new, old in zip(outputs, result, strict=True)
        ]  # fmt: skip
    return tuple(result)


def _batched(args: Any, batched: Any, size: int, *, branches: Branches) -> BatchedForm | None:
    if batched[0]:  # runs as a select
        return None
    # A value that no branch batches stays one: another branch or loop may depend on it.
    flags_of_branches = [batch(b, batched[1:], size).flags for b in branches]
    mapped = tuple(any(flags) for flags in zip(*flags_of_branches, strict=True))
    new = tuple(batch(b, batched[1:], size, all_outputs=mapped).graph for b in branches)
    axes = [0 if m else None for m in mapped]
    return BatchedForm(args, {"branches": new}, range(len(args)), [0] * len(args), axes)


def _clamped(index: Any, count: int) -> Any:
    index = to_discrete(index, dtype=np.dtype(np.int64))
    return minimum(maximum(index, 0), count - 1)


# --- reverse mode ---------------------------------------------------------------------------------


def _record(args: Any, wanted: Any, *, branches: Branches) -> Any:
    branch = branches[_chosen(args[0], branches)]
    results = run(differentiate(branch, wanted[1:]).forward, args[1:])
    count = len(branch.outputs)
    return tuple(results[:count]), results[count:]


def _replay(args: Any, residuals: Any, cotangents: Any, wanted: Any, *, branches: Branches) -> Any:
    branch = branches[_chosen(args[0], branches)]
    halves = differentiate(branch, wanted[1:])
    if residuals is None:
        residuals = run(halves.forward, args[1:])[len(branch.outputs) :]
    by_slot = dict(
        zip(halves.reached, run(halves.backward, [*residuals, *cotangents]), strict=True)
    )
    return [
        by_slot[i] if i in by_slot else strong_type(typeof(x)).zeros()
        for i, (x, want) in enumerate(zip(args[1:], wanted[1:], strict=True))
        if want
    ]


def _type(*types: Type, branches: Branches) -> Any:
    return tuple(branches[0].output_types)


_reverse = Reverse("switch", __name__, Rules(_record, _replay, _batched), lambda: switch)
switch_record = _reverse.record
switch_pullback = _reverse.pullback

switch: Primitive = Primitive(
    "switch",
    eval=_eval,
    type=_type,
    jvp=_jvp,
    vjp=_reverse.vjp,
    forward=_reverse.forward,
    batch=_batch,
    multiple=True,
)
"""Applies the branch that the index names."""
