"""`while_loop`, the primitive: a loop of an unknown number of steps, differentiable in both modes.

`while_loop(*cond_consts, *body_consts, *carry, cond=, body=, counts=, checkpoint=)`: `cond` maps
(cond consts, carry) to one boolean, `body` maps (body consts, carry) to the next carry. Reverse
mode keeps the residuals of each step in a growing list, or less with `checkpoint` (see
scan_reverse.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.control_flow.call import run, whole_loop_or_steps
from fungrad.control_flow.reverse_with_tape import Reverse, Rules
from fungrad.control_flow.scan_reverse import Steps, again, go_back
from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.movement.reshape_broadcast_cast import reshape
from fungrad.primitives.primitive import Primitive, or_zero, zeros
from fungrad.primitives.reduction.reduce import reduce_any
from fungrad.primitives.stop_gradient import stop
from fungrad.retracing.graph_transforms import (
    batch,
    broadcast_batch,
    differentiate,
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
from fungrad.tracing.trace import shape_of, typeof
from fungrad.transforms.engine.batching import Unbatched, take_first

Counts = tuple[int, int]


class Parts(Record):
    """The arguments of a loop, or values that correspond to them."""

    cond: list[Any]
    body: list[Any]
    carry: list[Any]


def parts(values: Sequence[Any], counts: Counts) -> Parts:
    """Splits values that correspond to the arguments."""
    first, second = counts[0], counts[0] + counts[1]
    return Parts(list(values[:first]), list(values[first:second]), list(values[second:]))


def _eval(*args: Any, cond: Graph, body: Graph, counts: Counts, checkpoint: Any) -> Any:
    cond_consts, body_consts, carry = parts(args, counts)
    while run(cond, [*cond_consts, *carry])[0]:
        carry = list(run(body, [*body_consts, *carry]))
    return tuple(carry)


def _jvp(
    primals: Any, tangents: Any, *, cond: Graph, body: Graph, counts: Counts, checkpoint: Any
) -> Any:
    x, t = parts(primals, counts), parts(tangents, counts)
    constants = counts[1]
    carry_at = range(constants, constants + len(x.carry))
    given = [v is not None for v in (*t.body, *t.carry)]
    moved = fixed_point_over_carry(body, given, carry_at, reaches)
    moving = [i for i, k in enumerate(carry_at) if moved[k]]
    const_moving = [i for i in range(constants) if moved[i]]
    pushed = jvp_graph(body, moved)
    n, c = len(x.carry), len(const_moving)

    def body_with_tangents(*values: Any) -> list[Any]:
        consts, const_t, carry, carry_t = split_at(values, [constants, c, n, len(moving)])
        results = evaluate(pushed.graph, [*consts, *carry, *const_t, *carry_t])
        found = dict(zip(pushed.moving, results[n:], strict=True))
        return [
            *results[:n],
            *(found[i] if i in found else zeros(strong_type(body.output_types[i])) for i in moving),
        ]

    types = body.input_types
    tangent_types = [strong_type(types[i]) for i in const_moving]
    carry_t_types = [strong_type(types[carry_at[i]]) for i in moving]
    new_body = stage_variant(
        body, ("while_jvp", tuple(moved)),
        [*types[:constants], *tangent_types, *types[constants:], *carry_t_types],
        body_with_tangents, "the derivative",
    )  # fmt: skip
    new_cond = stage_variant(
        cond, ("while_jvp", n, tuple(map(str, carry_t_types))), [*cond.input_types, *carry_t_types],
        lambda *values: evaluate(cond, values[: len(cond.inputs)]), "the condition",
    )  # fmt: skip
    carry_t = [or_zero(t.carry[i], x.carry[i]) for i in moving]
    results = while_loop(
        *x.cond, *x.body, *(t.body[i] for i in const_moving), *x.carry, *carry_t,
        cond=new_cond, body=new_body, counts=(counts[0], constants + c), checkpoint=checkpoint,
    )  # fmt: skip
    out_tangents: list[Any] = [None] * n
    for i, tangent in zip(moving, results[n:], strict=True):
        out_tangents[i] = tangent
    return results[:n], out_tangents


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
    flags = parts(batched, counts)
    n = len(flags.carry)
    carry_at = range(counts[1], counts[1] + n)

    def step(graph: Graph, state: Sequence[bool]) -> Sequence[bool]:
        return batch(graph, state, size).flags

    moved = fixed_point_over_carry(body, [*flags.body, *flags.carry], carry_at, step)
    carry = [moved[k] for k in carry_at]
    predicate = batch(cond, [*flags.cond, *carry], size)
    if predicate.flags[0] and not all(carry):  # finished examples keep different carries
        carry = [True] * n
        moved = [*moved[: counts[1]], *carry]
        predicate = batch(cond, [*flags.cond, *carry], size)
    inner = batch(body, moved, size)
    key = ("while_batch", tuple(batched), size)
    if not predicate.flags[0]:
        return BatchedLoop(predicate.graph, _all_batched(inner, body, carry, size, key), carry)
    cond_count = counts[0]

    def any_left(*values: Any) -> list[Any]:
        return [reduce_any(evaluate(predicate.graph, values)[0], axes=(0,))]

    def body_of_the_rest(*values: Any) -> list[Any]:
        cond_consts, body_consts, old = (
            values[:cond_count],
            values[cond_count : cond_count + counts[1]],
            values[-n:],
        )
        left = evaluate(predicate.graph, [*cond_consts, *old])[0]
        # A finished example runs on, but as a constant, so that it does not reach a derivative.
        running = [choose(left, x, stop(x, name=None)) for x in old]
        new = evaluate(inner.graph, [*body_consts, *running])
        return [
            choose(left, broadcast_batch(x, b, size), y)
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


def _all_batched(inner: Any, body: Graph, carry: Sequence[bool], size: int, key: Any) -> Graph:
    """The batched body with each carry output batched if its input is."""
    if list(inner.flags) == list(carry):
        graph: Graph = inner.graph
        return graph

    def f(*values: Any) -> list[Any]:
        outputs = evaluate(inner.graph, values)
        return [
            broadcast_batch(x, b, size) if want else x
            for x, b, want in zip(outputs, inner.flags, carry, strict=True)
        ]

    return stage_variant(body, (*key, "all"), inner.graph.input_types, f, "vmap")


def _batched_arguments(
    args: Sequence[Any],
    batched: Sequence[bool],
    size: int,
    *,
    cond: Graph,
    body: Graph,
    counts: Counts,
    checkpoint: Any,
) -> tuple[list[Any], dict[str, Any], list[bool], list[int]]:
    """Arguments and parameters of the batched loop, its carry flags, and each argument's new
    position.
    """
    loop = batched_loop(cond, body, counts, batched, size)
    x, flags = parts(args, counts), parts(batched, counts)
    carry = [
        broadcast_batch(v, have, size) if want else v
        for v, have, want in zip(x.carry, flags.carry, loop.carry, strict=True)
    ]
    again = x.cond if len(loop.body.inputs) > counts[1] + len(carry) else []
    new_counts = (counts[0], len(again) + counts[1])
    params = {"cond": loop.cond, "body": loop.body, "counts": new_counts, "checkpoint": checkpoint}
    positions = [i if i < counts[0] else i + len(again) for i in range(len(args))]
    return [*x.cond, *again, *x.body, *carry], params, loop.carry, positions


def _batch(args: Any, batched: Any, size: int, **params: Any) -> Any:
    new, new_params, carry, _ = _batched_arguments(args, batched, size, **params)
    outputs = while_loop(*new, **new_params)
    return [o if b else Unbatched(o) for o, b in zip(outputs, carry, strict=True)]


# --- reverse mode ---------------------------------------------------------------------------------


def halves_of(wanted: Any, body: Graph, counts: Counts) -> Any:
    """The body, differentiated for the wanted arguments of the loop; made once."""

    def make() -> Any:
        flags = parts(wanted, counts)
        carry_at = range(counts[1], counts[1] + len(flags.carry))
        active = fixed_point_over_carry(body, [*flags.body, *flags.carry], carry_at, reaches)
        active = [a and t.inexact for a, t in zip(active, body.input_types, strict=True)]
        return differentiate(body, active)

    return memoised(body, ("halves", wanted, counts), make)


def _record(
    args: Any, wanted: Any, *, cond: Graph, body: Graph, counts: Counts, checkpoint: Any
) -> Any:
    halves = halves_of(wanted, body, counts)
    x = parts(args, counts)
    carry, n = x.carry, len(x.carry)
    tape = []
    while run(cond, [*x.cond, *carry])[0]:
        results = run(halves.forward, [*x.body, *carry])
        carry = list(results[:n])
        tape.append(results[n:])
    return tuple(carry), tape


def _replay(
    args: Any,
    tape: Any,
    cotangents: Any,
    wanted: Any,
    *,
    cond: Graph,
    body: Graph,
    counts: Counts,
    checkpoint: Any,
) -> list[Any]:
    halves = halves_of(wanted, body, counts)
    x, flags = parts(args, counts), parts(wanted, counts)
    constants = counts[1]
    inexact = [i for i, t in enumerate(body.output_types) if t.inexact]
    empty = [strong_type(t).zeros() for t in body.input_types]

    def back(residuals: Any, i: int, state: Any) -> Any:
        totals, cts = state
        found = run(halves.backward, [*residuals, *cts])
        by_input = dict(zip(halves.reached, found, strict=True))
        totals = {k: v + by_input[k] if k in by_input else v for k, v in totals.items()}
        return totals, [by_input.get(constants + i, empty[constants + i]) for i in inexact]

    totals = {i: empty[i] for i, want in enumerate(flags.body) if want}
    state = (totals, list(cotangents))
    if tape is None:
        state = _replay_in_pieces(x, halves, cond, body, checkpoint, back, state)
    else:
        for residuals in reversed(tape):
            state = back(residuals, 0, state)
    totals, cts = state
    carry_cts = dict(zip(inexact, cts, strict=True))
    result = [
        strong_type(typeof(v)).zeros() for v, want in zip(x.cond, flags.cond, strict=True) if want
    ]
    result += [totals[i] for i, want in enumerate(flags.body) if want]
    result += [carry_cts[i] for i, want in enumerate(flags.carry) if want]
    return result


def _replay_in_pieces(
    x: Parts, halves: Any, cond: Graph, body: Graph, checkpoint: Any, back: Any, state: Any
) -> Any:
    n = len(x.carry)

    @again
    def advance(carry: Any, i: int) -> Any:
        return run(body, [*x.body, *carry])

    @again
    def record(carry: Any, i: int) -> Any:
        results = run(halves.forward, [*x.body, *carry])
        return results[:n], results[n:]

    count = 0
    carry: Any = x.carry
    if checkpoint is not None:  # otherwise the steps are counted by recording them
        while run(cond, [*x.cond, *carry])[0]:
            carry = advance(carry, count)
            count += 1
        return go_back(Steps(count, advance, record, back), x.carry, state, checkpoint)
    tape = []
    while run(cond, [*x.cond, *carry])[0]:
        carry, residuals = record(carry, 0)
        tape.append(residuals)
    while tape:
        state = back(tape.pop(), 0, state)
    return state


def _batch_record(args: Any, batched: Any, size: int, wanted: Any, **params: Any) -> Any:
    new, new_params, carry, positions = _batched_arguments(args, batched, size, **params)
    outputs = while_loop_record(
        *new, wanted=_moved_wanted(wanted, positions, len(new)), **new_params
    )
    return [o if b else Unbatched(o) for o, b in zip(outputs, [*carry, False], strict=True)]


def _moved_wanted(wanted: Any, positions: Sequence[int], count: int) -> tuple[bool, ...]:
    result = [False] * count
    for position, want in zip(positions, wanted, strict=True):
        result[position] = want
    return tuple(result)


def spread_wanted(
    args: Sequence[Any], batched: Sequence[bool], wanted: Sequence[bool], size: int
) -> tuple[list[Any], list[bool]]:
    """The arguments, with a batch axis added if a cotangent is wanted, which differs between
    examples.
    """
    new = [
        broadcast_batch(a, b, size) if w else a
        for a, b, w in zip(args, batched, wanted, strict=True)
    ]
    return new, [b or w for b, w in zip(batched, wanted, strict=True)]


def for_output(cotangent: Any, have: bool, want: bool, size: int) -> Any:
    """The cotangent of an output in the form of the output, which has a batch axis if `want`.

    An output without one depends on no wanted argument, since these were spread: it has none to
    give, and one example of a batch of cotangents (`have`) will do.
    """
    if want:
        return broadcast_batch(cotangent, have, size)
    return take_first(cotangent, 0) if have else cotangent


def _batch_replay(
    args: Any, tape: Any, cotangents: Any, batched: Any, ct_batched: Any, size: int, wanted: Any,
    **params: Any,
) -> Any:  # fmt: skip
    args, batched = spread_wanted(args, batched, wanted, size)
    new, new_params, carry, positions = _batched_arguments(args, batched, size, **params)
    inexact = [b for b, t in zip(carry, params["body"].output_types, strict=True) if t.inexact]
    cts = [
        for_output(c, have, want, size)
        for c, have, want in zip(cotangents, ct_batched, inexact, strict=True)
    ]
    held = () if tape is None else (tape,)
    return while_loop_pullback(
        *new, *held, *cts,
        wanted=_moved_wanted(wanted, positions, len(new)), taped=tape is not None, **new_params,
    )  # fmt: skip


def _batch_record_wanted(args: Any, batched: Any, size: int, wanted: Any, **params: Any) -> Any:
    args, batched = spread_wanted(args, batched, wanted, size)
    return _batch_record(args, batched, size, wanted, **params)


def _type(*types: Type, cond: Graph, body: Graph, counts: Counts, checkpoint: Any) -> Any:
    return tuple(body.output_types)


_reverse = Reverse(
    "while_loop", __name__,
    Rules(_record, _replay, _batch_record_wanted, _batch_replay), lambda: while_loop,
)  # fmt: skip
while_loop_record = _reverse.record
while_loop_pullback = _reverse.pullback

while_loop: Primitive = Primitive(
    "while_loop",
    eval=whole_loop_or_steps(lambda: while_loop, _eval),
    type=_type,
    jvp=_jvp,
    vjp=_reverse.vjp,
    forward=_reverse.forward,
    batch=_batch,
    multiple=True,
)
"""Applies the body while the condition holds; the carry at the end."""
