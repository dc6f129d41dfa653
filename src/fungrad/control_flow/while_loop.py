"""`while_loop`, the primitive: a loop of an unknown number of steps, differentiable in both modes.

`while_loop(*cond_consts, *body_consts, *carry, cond=, body=, counts=, checkpoint=)`: `cond` maps
(cond consts, carry) to one boolean, `body` maps (body consts, carry) to the next carry. Reverse
mode keeps the residuals of each step in a growing list, or less with `checkpoint` (see
loop_reverse.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.control_flow.call import run, whole_loop_or_steps
from fungrad.control_flow.loop_bodies import (
    Counts,
    batched_inputs,
    body_counts,
    halves_of,
    pushed,
    with_batch_axes,
)
from fungrad.control_flow.loop_reverse import replay
from fungrad.control_flow.reverse_with_tape import BatchedForm, Reverse, Rules
from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.reshape_broadcast_cast import reshape, with_batch
from fungrad.primitives.primitive import Primitive
from fungrad.primitives.reduction.reduce import reduce_any
from fungrad.primitives.stop_gradient import stop
from fungrad.retracing.graph_transforms import batch, split_at, stage_variant, strong_type
from fungrad.support.lazy import Record
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.trace import shape_of, typeof


class LoopParts(Record):
    """The arguments of a loop, or values that correspond to them."""

    cond: list[Any]
    body: list[Any]
    carry: list[Any]


def parts(values: Sequence[Any], counts: Counts) -> LoopParts:
    """Splits values that correspond to the arguments."""
    return LoopParts(*split_at(values, [*counts, len(values)]))


def _eval(*args: Any, cond: Graph, body: Graph, counts: Counts, checkpoint: Any) -> Any:
    cond_consts, body_consts, carry = parts(args, counts)
    while run(cond, [*cond_consts, *carry])[0]:
        carry = list(run(body, [*body_consts, *carry]))
    return tuple(carry)


def _jvp(
    primals: Any, tangents: Any, *, cond: Graph, body: Graph, counts: Counts, checkpoint: Any
) -> Any:
    first, n = counts[0], len(body.outputs)
    new = pushed(primals[first:], tangents[first:], body, (counts[1], n))
    new_cond = stage_variant(
        cond, ("while_jvp", n, tuple(map(str, new.types))), [*cond.input_types, *new.types],
        lambda *values: evaluate(cond, values[: len(cond.inputs)]), "the condition",
    )  # fmt: skip
    results = while_loop(
        *primals[:first], *new.args, cond=new_cond, body=new.body, counts=(first, new.counts[0]),
        checkpoint=checkpoint,
    )  # fmt: skip
    return new.outputs(results)


# --- batching -------------------------------------------------------------------------------------


class BatchedLoop(Record):
    """A loop of a batch: its Graphs, and for each carry whether it has the batch axis."""

    cond: Graph
    body: Graph
    carry: list[bool]


def batched_loop(
    cond: Graph, body: Graph, counts: Counts, batched: Sequence[bool], size: int
) -> BatchedLoop:
    """The loop that runs all examples until the last one is done; finished ones keep their
    carry.
    """
    cond_count, constants = counts
    n = len(body.outputs)
    moved = batched_inputs(body, (constants, n), batched[cond_count:], size)
    predicate = batch(cond, [*batched[:cond_count], *moved[constants:]], size)
    if predicate.flags[0]:  # finished examples keep different carries
        moved[constants:] = [True] * n
        predicate = batch(cond, [*batched[:cond_count], *moved[constants:]], size)
    carry = moved[constants:]
    inner = batch(body, moved, size)
    key = ("while_batch", tuple(batched), size)
    if not predicate.flags[0]:
        return BatchedLoop(predicate.graph, with_batch_axes(inner, body, carry, size, key), carry)

    def any_left(*values: Any) -> list[Any]:
        return [reduce_any(evaluate(predicate.graph, values)[0], axes=(0,))]

    def body_of_the_rest(*values: Any) -> list[Any]:
        cond_consts, body_consts, old = parts(values, counts)
        left = evaluate(predicate.graph, [*cond_consts, *old])[0]
        # A finished example runs on, but as a constant, so that it does not reach a derivative.
        running = [choose(left, x, stop(x, name=None)) for x in old]
        new = evaluate(inner.graph, [*body_consts, *running])
        return [
            choose(left, with_batch(x, b, size), y)
            for x, y, b in zip(new, old, inner.flags, strict=True)
        ]

    types = inner.graph.input_types
    return BatchedLoop(
        stage_variant(cond, (*key, "any"), predicate.graph.input_types, any_left, "the condition"),
        stage_variant(
            body, (*key, "rest", cond),
            [*predicate.graph.input_types[:cond_count], *types], body_of_the_rest, "vmap",
        ),
        carry,
    )  # fmt: skip


def choose(mask: Any, x: Any, y: Any) -> Any:
    """x where a mask of examples holds, else y; both batched."""
    shape = (*shape_of(mask), *([1] * (len(shape_of(y)) - 1)))
    return select(reshape(mask, shape=shape), x, y)


def _batched(
    args: Sequence[Any], batched: Sequence[bool], size: int, *, cond: Graph, body: Graph,
    counts: Counts, checkpoint: Any,
) -> BatchedForm:  # fmt: skip
    loop = batched_loop(cond, body, counts, batched, size)
    x, flags = parts(args, counts), parts(batched, counts)
    carry = [
        with_batch(v, have, size) if want else v
        for v, have, want in zip(x.carry, flags.carry, loop.carry, strict=True)
    ]
    again = x.cond if len(loop.body.inputs) > counts[1] + len(carry) else []
    new_counts = (counts[0], len(again) + counts[1])
    return BatchedForm(
        [*x.cond, *again, *x.body, *carry],
        {"cond": loop.cond, "body": loop.body, "counts": new_counts, "checkpoint": checkpoint},
        [i if i < counts[0] else i + len(again) for i in range(len(args))],
        [0] * len(args),
        [0 if b else None for b in loop.carry],
    )


# --- reverse mode ---------------------------------------------------------------------------------


def _record(args: Any, wanted: Any, **params: Any) -> Any:
    body, (first, counts) = params["body"], body_counts(params)
    forward = halves_of(body, counts, wanted[first:]).of.forward
    x = parts(args, params["counts"])
    carry, n = x.carry, len(x.carry)
    tape = []
    while run(params["cond"], [*x.cond, *carry])[0]:
        results = run(forward, [*x.body, *carry])
        carry = list(results[:n])
        tape.append(results[n:])
    return tuple(carry), tape


def _replay(args: Any, tape: Any, cotangents: Any, wanted: Any, **params: Any) -> list[Any]:
    first, counts = body_counts(params)

    def goes_on(carry: Sequence[Any]) -> Any:
        return run(params["cond"], [*args[:first], *carry])[0]

    replayed = replay(
        params["body"], counts, args[first:], tape, cotangents, wanted[first:],
        params["checkpoint"], None, goes_on,
    )  # fmt: skip
    unused = zip(args[:first], wanted[:first], strict=True)
    return [*(strong_type(typeof(v)).zeros() for v, want in unused if want), *replayed]


def _type(*types: Type, cond: Graph, body: Graph, counts: Counts, checkpoint: Any) -> Any:
    return tuple(body.output_types)


_reverse = Reverse("while_loop", __name__, Rules(_record, _replay, _batched), lambda: while_loop)
while_loop_record = _reverse.record
while_loop_pullback = _reverse.pullback

while_loop: Primitive = Primitive(
    "while_loop",
    eval=whole_loop_or_steps(lambda: while_loop, _eval),
    type=_type,
    jvp=_jvp,
    vjp=_reverse.vjp,
    forward=_reverse.forward,
    batch=_reverse.batch,
    multiple=True,
)
"""Applies the body while the condition holds; the carry at the end."""
