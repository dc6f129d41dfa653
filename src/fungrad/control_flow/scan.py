"""`scan`, the primitive: a loop of a known number of steps over the leading axis of arrays.

`scan(*consts, *carry, *xs, body=, counts=, length=, reverse=, unroll=, checkpoint=)`: the body maps
(consts, carry, one slice of each of xs) to (next carry, ys), and the ys are stacked. Its
derivatives are scans of the body's derivatives: reverse mode stacks the residuals of the steps and
scans them backwards, or with `checkpoint` keeps few carries and runs the steps again (see
loop_reverse.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.control_flow.call import run, whole_loop_or_steps
from fungrad.control_flow.loop_bodies import (
    Counts,
    Halves,
    batched_inputs,
    halves_of,
    parts,
    pushed,
    with_batch_axes,
)
from fungrad.control_flow.loop_reverse import order_of, replay
from fungrad.control_flow.reverse_with_tape import BatchedForm, Reverse, Rules
from fungrad.ir.graph import Atom, Graph
from fungrad.ir.types import Type
from fungrad.primitives.movement.reshape_broadcast_cast import moveaxis, with_batch
from fungrad.primitives.primitive import Primitive, or_zero, zeros
from fungrad.retracing.graph_transforms import batch, memoised, split_at, stage_variant, strong_type
from fungrad.support.lazy import Record
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.trace import typeof


def _eval(
    *args: Any,
    body: Graph,
    counts: Counts,
    length: int,
    reverse: bool,
    unroll: int,
    checkpoint: Any,
) -> Any:
    consts, carry, xs = parts(args, counts)
    n = counts[1]
    stacks = [np.empty((length, *t.shape), t.dtype) for t in body.output_types[n:]]
    for i in order_of(length, reverse):
        results = run(body, [*consts, *carry, *[x[i] for x in xs]])
        carry = list(results[:n])
        for stack, y in zip(stacks, results[n:], strict=True):
            stack[i] = y
    return (*carry, *stacks)


def _type(*types: Type, body: Graph, counts: Counts, length: int, **params: Any) -> Any:
    n = counts[1]
    ys = [Type((length, *t.shape), t.dtype) for t in body.output_types[n:]]
    return (*body.output_types[:n], *ys)


# --- forward mode ---------------------------------------------------------------------------------


def _jvp(primals: Any, tangents: Any, *, body: Graph, counts: Counts, **params: Any) -> Any:
    new = pushed(primals, tangents, body, counts)
    return new.outputs(scan(*new.args, body=new.body, counts=new.counts, **params))


# --- batching -------------------------------------------------------------------------------------


def _batched(
    args: Any, batched: Any, size: int, *, body: Graph, counts: Counts, **params: Any
) -> BatchedForm:
    """The scan of a batch; in stacks the axis of examples is after that of the steps."""
    constants, n = counts
    state = batched_inputs(body, counts, batched, size)
    carry_flags = state[constants : constants + n]
    inner = batch(body, state, size)
    flags = [*carry_flags, *inner.flags[n:]]
    graph = with_batch_axes(inner, body, flags, size, ("scan_batch", tuple(state), size))
    x, given = parts(args, counts), parts(batched, counts)
    carry = [
        with_batch(v, have, size) if want else v
        for v, have, want in zip(x.carry, given.carry, carry_flags, strict=True)
    ]
    xs = [moveaxis(v, 1, 0) if b else v for v, b in zip(x.xs, given.xs, strict=True)]
    return BatchedForm(
        [*x.consts, *carry, *xs],
        {"body": graph, "counts": counts, **params},
        range(len(args)),
        [0] * (constants + n) + [1] * len(xs),
        [None if not b else int(i >= n) for i, b in enumerate(flags)],
    )


# --- reverse mode, residuals stacked --------------------------------------------------------------


def _origins(body: Graph, halves: Halves, counts: Counts) -> list[int]:
    """For each residual the position of the const that it is, or -1 if each step has its own."""
    forward = halves.of.forward
    position: dict[Atom, int] = {v: i for i, v in enumerate(forward.inputs[: counts[0]])}
    return [position.get(r, -1) for r in forward.outputs[len(body.outputs) :]]


def _stacking_body(body: Graph, halves: Halves, origins: Sequence[int]) -> Graph:
    """The forward half without residuals that are consts."""

    def make() -> Graph:
        graph = halves.of.forward
        count = len(body.outputs)
        own = tuple(r for r, h in zip(graph.outputs[count:], origins, strict=True) if h < 0)
        outputs = (*graph.outputs[:count], *own)
        return graph.replace(outputs=outputs)

    result: Graph = memoised(body, ("scan_forward", halves.active), make)
    return result


def _forward(args: Any, slots: Any, *, body: Graph, counts: Counts, **params: Any) -> Any:
    if params["checkpoint"] is not None:
        return _checkpointed.forward(args, slots, body=body, counts=counts, **params)
    halves = halves_of(body, counts, slots)
    origins = _origins(body, halves, counts)
    results = scan(*args, body=_stacking_body(body, halves, origins), counts=counts, **params)
    count = len(body.outputs)
    consts = [args[h] for h in origins if h >= 0]
    return results[:count], (results[count:], consts), [strong_type(typeof(a)) for a in args]


class _WithCotangents(Record):
    """The layout of a pullback: the positions of the consts, carries and xs that have cotangents,
    and of the ys.
    """

    consts: list[int]
    carry: list[int]
    xs: list[int]
    ys: list[int]


def _moved(body: Graph, halves: Halves, counts: Counts) -> _WithCotangents:
    constants, n = counts
    out, reached = body.output_types, set(halves.of.reached)
    return _WithCotangents(
        [i for i in range(constants) if i in reached],
        [i for i in range(n) if out[i].inexact],
        [i for i in range(constants + n, len(body.inputs)) if i in reached],
        [i for i in range(n, len(out)) if out[i].inexact],
    )


def _pullback_body(body: Graph, halves: Halves, moved: _WithCotangents, counts: Counts) -> Graph:
    """A backward step: residuals that are consts, sums of the consts' cotangents, the carries'
    cotangents, residuals of the step, cotangents of its ys -> sums, the carries' cotangents, those
    of its xs.
    """
    out = body.output_types
    constants, origins = counts[0], _origins(body, halves, counts)
    residuals = halves.of.forward.outputs[len(out) :]
    held = [body.input_types[h] for h in origins if h >= 0]
    own = [r.type for r, h in zip(residuals, origins, strict=True) if h < 0]
    widths = [len(held), len(moved.consts), len(moved.carry), len(own), len(moved.ys)]

    def back(*values: Any) -> list[Any]:
        res_held, totals, carry_cts, res_own, y_cts = split_at(values, widths)
        stacked, shared = iter(res_own), iter(res_held)
        given = [next(shared) if h >= 0 else next(stacked) for h in origins]
        pulled = evaluate(halves.of.backward, [*given, *carry_cts, *y_cts])
        by_input = dict(zip(halves.of.reached, pulled, strict=True))
        carry = [
            by_input[constants + i] if constants + i in by_input else zeros(strong_type(out[i]))
            for i in moved.carry
        ]
        totals = [total + by_input[i] for i, total in zip(moved.consts, totals, strict=True)]
        return [*totals, *carry, *(by_input[i] for i in moved.xs)]

    types = [
        *held,
        *(strong_type(body.input_types[i]) for i in moved.consts),
        *(strong_type(out[i]) for i in moved.carry),
        *map(strong_type, own),
        *(strong_type(out[i]) for i in moved.ys),
    ]
    return stage_variant(body, ("scan_vjp", halves.active), types, back, "the pullback")


def _vjp(
    cotangents: Any,
    saved: Any,
    args: Any,
    slots: Any,
    *,
    body: Graph,
    counts: Counts,
    **params: Any,
) -> list[Any]:
    if params["checkpoint"] is not None:
        pulled: list[Any] = _checkpointed.vjp(
            cotangents, saved, args, slots, body=body, counts=counts, **params
        )
        return pulled
    halves, out = halves_of(body, counts, slots), body.output_types
    moved = _moved(body, halves, counts)
    stacked, held = saved
    results = scan(
        *held,
        *(zeros(args[i]) for i in moved.consts),
        *(_given(cotangents[i], out[i], ()) for i in moved.carry),
        *stacked,
        *(_given(cotangents[i], out[i], (params["length"],)) for i in moved.ys),
        body=_pullback_body(body, halves, moved, counts),
        counts=(len(held), len(moved.consts) + len(moved.carry)),
        **{**params, "reverse": not params["reverse"]},
    )
    result: list[Any] = [None] * len(args)
    reached = [*moved.consts, *(counts[0] + i for i in moved.carry), *moved.xs]
    for i, cotangent in zip(reached, results, strict=True):
        result[i] = cotangent
    return result


def _given(cotangent: Any, type_: Type, axes: tuple[int, ...]) -> Any:
    full = Type((*axes, *type_.shape), type_.dtype)
    return or_zero(cotangent, full)


# --- reverse mode, steps run again ----------------------------------------------------------------


def _record(args: Any, wanted: Any, **params: Any) -> Any:
    return _eval(*args, **params), None


def _replay(
    args: Any, tape: Any, cotangents: Any, wanted: Any, *, body: Graph, counts: Counts, length: int,
    reverse: bool, unroll: int, checkpoint: Any,
) -> list[Any]:  # fmt: skip
    return replay(body, counts, args, tape, cotangents, wanted, checkpoint,
                  order_of(length, reverse), lambda carry: True)  # fmt: skip


_checkpointed = Reverse("scan", __name__, Rules(_record, _replay, _batched), lambda: scan)
scan_record = _checkpointed.record
scan_pullback = _checkpointed.pullback

scan: Primitive = Primitive(
    "scan",
    eval=whole_loop_or_steps(lambda: scan, _eval),
    type=_type,
    jvp=_jvp,
    vjp=_vjp,
    forward=_forward,
    batch=_checkpointed.batch,
    multiple=True,
)
"""The last carry, and the stacked ys."""
