"""`scan`, the primitive: a loop of a known number of steps over the leading axis of arrays.

`scan(*consts, *carry, *xs, body=, counts=, length=, reverse=, unroll=, checkpoint=)`: the body maps
(consts, carry, one slice of each of xs) to (next carry, ys), and the ys are stacked. Its
derivatives are scans of the body's derivatives: reverse mode stacks the residuals of the steps and
scans them backwards, or with `checkpoint` keeps few carries and runs the steps again (see
scan_reverse.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.control_flow.call import run, whole_loop_or_steps
from fungrad.control_flow.reverse_with_tape import Reverse, Rules
from fungrad.control_flow.scan_reverse import Counts, Plan, order_of, parts, plan, replay
from fungrad.control_flow.while_loop import for_output, spread_wanted
from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.primitives.movement.reshape_broadcast_cast import moveaxis
from fungrad.primitives.primitive import Primitive, or_zero, zeros
from fungrad.retracing.graph_transforms import (
    batch,
    broadcast_batch,
    fixed_point_over_carry,
    jvp_graph,
    memoised,
    reaches,
    split_at,
    stage_variant,
    strong_type,
)
from fungrad.support.lazy import Record
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.trace import typeof
from fungrad.transforms.engine.batching import Unbatched


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
    constants, n = counts
    x, t = parts(primals, counts), parts(tangents, counts)
    carry_at = range(constants, constants + n)
    moved = fixed_point_over_carry(body, [v is not None for v in tangents], carry_at, reaches)
    flags = parts(moved, counts)
    pushed = jvp_graph(body, moved)
    moving = [i for i, m in enumerate(flags.carry) if m]
    y_moving = [i for i in pushed.moving if i >= n]
    widths = [constants, sum(flags.consts), n, len(moving), len(x.xs), sum(flags.xs)]

    def f(*values: Any) -> list[Any]:
        c, ct, k, kt, s, st = split_at(values, widths)
        results = evaluate(pushed.graph, [*c, *k, *s, *ct, *kt, *st])
        found = dict(zip(pushed.moving, results[len(body.outputs) :], strict=True))
        carry_t = [
            found[i] if i in found else zeros(strong_type(body.output_types[i])) for i in moving
        ]
        outputs = results[: len(body.outputs)]
        return [*outputs[:n], *carry_t, *outputs[n:], *(found[i] for i in y_moving)]

    types = parts(body.input_types, counts)

    def tangent_types(of: list[Type], which: list[bool]) -> list[Type]:
        return [strong_type(t) for t, m in zip(of, which, strict=True) if m]

    new_types = [
        *types.consts, *tangent_types(types.consts, flags.consts),
        *types.carry, *tangent_types(types.carry, flags.carry),
        *types.xs, *tangent_types(types.xs, flags.xs),
    ]  # fmt: skip
    new_body = stage_variant(body, ("scan_jvp", tuple(moved)), new_types, f, "the derivative")
    carry_t = [or_zero(t.carry[i], x.carry[i]) for i in moving]
    results = scan(
        *x.consts, *(v for v in t.consts if v is not None), *x.carry, *carry_t,
        *x.xs, *(v for v in t.xs if v is not None),
        body=new_body, counts=(constants + widths[1], n + len(moving)), **params,
    )  # fmt: skip
    ys = len(body.outputs) - n
    carry, carry_t, stacks, stacks_t = split_at(results, [n, len(moving), ys, len(y_moving)])
    out_tangents: list[Any] = [None] * len(body.outputs)
    for i, tangent in zip([*moving, *y_moving], [*carry_t, *stacks_t], strict=True):
        out_tangents[i] = tangent
    return (*carry, *stacks), out_tangents


# --- batching -------------------------------------------------------------------------------------


def _batched_arguments(
    args: Any, batched: Any, size: int, body: Graph, counts: Counts
) -> tuple[list[Any], Graph, list[bool]]:
    """Arguments and body of the batched scan, and for each output of the body if it is batched."""
    constants, n = counts
    x, flags = parts(args, counts), parts(batched, counts)

    def step(graph: Graph, state: Sequence[bool]) -> Sequence[bool]:
        return batch(graph, state, size).flags[:n]

    state = fixed_point_over_carry(body, batched, range(constants, constants + n), step)
    carry_flags = state[constants : constants + n]
    inner = batch(body, state, size)
    out_flags = [*carry_flags, *inner.flags[n:]]

    def f(*values: Any) -> list[Any]:
        outputs = evaluate(inner.graph, values)
        return [
            broadcast_batch(o, have, size) if want else o
            for o, have, want in zip(outputs, inner.flags, out_flags, strict=True)
        ]

    graph = inner.graph
    if list(inner.flags) != out_flags:
        graph = stage_variant(
            body, ("scan_batch", tuple(state), size), inner.graph.input_types, f, "vmap"
        )
    carry = [
        broadcast_batch(v, have, size) if want else v
        for v, have, want in zip(x.carry, flags.carry, carry_flags, strict=True)
    ]
    xs = [moveaxis(v, 1, 0) if b else v for v, b in zip(x.xs, flags.xs, strict=True)]
    return [*x.consts, *carry, *xs], graph, out_flags


def _batch(
    args: Any, batched: Any, size: int, *, body: Graph, counts: Counts, **params: Any
) -> Any:
    new, graph, flags = _batched_arguments(args, batched, size, body, counts)
    return _unstacked(scan(*new, body=graph, counts=counts, **params), flags, counts[1])


def _unstacked(outputs: Sequence[Any], flags: Sequence[bool], n: int) -> list[Any]:
    """The outputs with the batch axis first; in stacked ones it is after the scan's axis."""
    return [
        Unbatched(o) if not b else o if i < n else moveaxis(o, 1, 0)
        for i, (o, b) in enumerate(zip(outputs, flags, strict=True))
    ]


# --- reverse mode, residuals stacked --------------------------------------------------------------


def _stacking_body(body: Graph, how: Plan) -> Graph:
    """The forward half without residuals that are consts."""

    def make() -> Graph:
        graph = how.halves.forward
        count = len(body.outputs)
        own = tuple(r for r, h in zip(graph.outputs[count:], how.held, strict=True) if h < 0)
        outputs = (*graph.outputs[:count], *own)
        return graph.replace(outputs=outputs)

    result: Graph = memoised(body, ("scan_forward", tuple(how.active)), make)
    return result


def _forward(args: Any, slots: Any, *, body: Graph, counts: Counts, **params: Any) -> Any:
    if params["checkpoint"] is not None:
        return _checkpointed.forward(args, slots, body=body, counts=counts, **params)
    how = plan(body, counts, slots)
    results = scan(*args, body=_stacking_body(body, how), counts=counts, **params)
    count = len(body.outputs)
    consts = [args[h] for h in how.held if h >= 0]
    return results[:count], (results[count:], consts), [strong_type(typeof(a)) for a in args]


class _Moved(Record):
    """The layout of a pullback: the positions of the consts, carries and xs that have cotangents,
    and of the ys.
    """

    consts: list[int]
    carry: list[int]
    xs: list[int]
    ys: list[int]


def _moved(body: Graph, how: Plan, counts: Counts) -> _Moved:
    constants, n = counts
    out, reached = body.output_types, set(how.halves.reached)
    return _Moved(
        [i for i in range(constants) if i in reached],
        [i for i in range(n) if out[i].inexact],
        [i for i in range(constants + n, len(body.inputs)) if i in reached],
        [i for i in range(n, len(out)) if out[i].inexact],
    )


def _pullback_body(body: Graph, how: Plan, moved: _Moved, constants: int) -> Graph:
    """A backward step: residuals that are consts, sums of the consts' cotangents, the carries'
    cotangents, residuals of the step, cotangents of its ys -> sums, the carries' cotangents, those
    of its xs.
    """
    out = body.output_types
    residuals = how.halves.forward.outputs[len(out) :]
    held = [body.input_types[h] for h in how.held if h >= 0]
    own = [r.type for r, h in zip(residuals, how.held, strict=True) if h < 0]
    widths = [len(held), len(moved.consts), len(moved.carry), len(own), len(moved.ys)]

    def back(*values: Any) -> list[Any]:
        res_held, totals, carry_cts, res_own, y_cts = split_at(values, widths)
        stacked, shared = iter(res_own), iter(res_held)
        given = [next(shared) if h >= 0 else next(stacked) for h in how.held]
        found = evaluate(how.halves.backward, [*given, *carry_cts, *y_cts])
        by_input = dict(zip(how.halves.reached, found, strict=True))
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
    return stage_variant(body, ("scan_vjp", tuple(how.active)), types, back, "the pullback")


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
        found: list[Any] = _checkpointed.vjp(
            cotangents, saved, args, slots, body=body, counts=counts, **params
        )
        return found
    how, out = plan(body, counts, slots), body.output_types
    moved = _moved(body, how, counts)
    stacked, held = saved
    results = scan(
        *held,
        *(zeros(args[i]) for i in moved.consts),
        *(_given(cotangents[i], out[i], ()) for i in moved.carry),
        *stacked,
        *(_given(cotangents[i], out[i], (params["length"],)) for i in moved.ys),
        body=_pullback_body(body, how, moved, counts[0]),
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


def _batch_record(args: Any, batched: Any, size: int, wanted: Any, **params: Any) -> Any:
    args, batched = spread_wanted(args, batched, wanted, size)
    body, counts = params.pop("body"), params.pop("counts")
    new, graph, flags = _batched_arguments(args, batched, size, body, counts)
    *outputs, tape = scan_record(*new, wanted=wanted, body=graph, counts=counts, **params)
    return [*_unstacked(outputs, flags, counts[1]), Unbatched(tape)]


def _batch_replay(
    args: Any, tape: Any, cotangents: Any, batched: Any, ct_batched: Any, size: int, wanted: Any,
    *, body: Graph, counts: Counts, **params: Any,
) -> Any:  # fmt: skip
    args, batched = spread_wanted(args, batched, wanted, size)
    new, graph, flags = _batched_arguments(args, batched, size, body, counts)
    positions = [i for i, t in enumerate(body.output_types) if t.inexact]
    cts = []
    for i, c, have in zip(positions, cotangents, ct_batched, strict=True):
        c = for_output(c, have, flags[i], size)
        cts.append(moveaxis(c, 0, 1) if flags[i] and i >= counts[1] else c)
    held = () if tape is None else (tape,)
    found = scan_pullback(
        *new,
        *held,
        *cts,
        wanted=wanted,
        taped=tape is not None,
        body=graph,
        counts=counts,
        **params,
    )
    xs_from = counts[0] + counts[1]
    return [
        moveaxis(c, 1, 0) if i >= xs_from else c
        for i, c in zip([i for i, want in enumerate(wanted) if want], found, strict=True)
    ]


_checkpointed = Reverse(
    "scan", __name__, Rules(_record, replay, _batch_record, _batch_replay), lambda: scan
)
scan_record = _checkpointed.record
scan_pullback = _checkpointed.pullback

scan: Primitive = Primitive(
    "scan",
    eval=whole_loop_or_steps(lambda: scan, _eval),
    type=_type,
    jvp=_jvp,
    vjp=_vjp,
    forward=_forward,
    batch=_batch,
    multiple=True,
)
"""The last carry, and the stacked ys."""
