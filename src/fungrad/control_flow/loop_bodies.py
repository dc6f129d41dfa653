"""The bodies of scans and while loops, and their derivatives and batches.

A body maps (consts, carry, a row of each of xs) to (next carry, a row of each of ys). The body of a
`while_loop` has no rows; before its arguments are the constants of the condition.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.primitives.movement.reshape_broadcast_cast import with_batch
from fungrad.primitives.primitive import or_zero, zeros
from fungrad.retracing.graph_transforms import (
    Batched,
    Differentiated,
    batch,
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

Counts = tuple[int, int]
"""The numbers of consts and of carries."""


class Parts(Record):
    """The arguments of a body, or values that correspond to them."""

    consts: list[Any]
    carry: list[Any]
    xs: list[Any]


def parts(values: Sequence[Any], counts: Counts) -> Parts:
    """Splits values that correspond to the arguments."""
    first, second = counts[0], counts[0] + counts[1]
    return Parts(list(values[:first]), list(values[first:second]), list(values[second:]))


def body_counts(params: dict[str, Any]) -> tuple[int, Counts]:
    """The number of a loop's arguments before those of its body, and the counts of the others."""
    if "cond" not in params:
        return 0, params["counts"]
    first, constants = params["counts"]
    return first, (constants, len(params["body"].outputs))


# --- forward mode ---------------------------------------------------------------------------------


class PushedLoop(Record):
    """A loop that pushes tangents, too.

    args, body, counts: those of the loop. types: of the carries' tangents. moving: the positions of
    the outputs that have tangents. widths: the numbers of carries, of their tangents and of ys.
    """

    args: list[Any]
    body: Graph
    counts: Counts
    types: list[Type]
    moving: list[int]
    widths: tuple[int, int, int]

    def outputs(self, results: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any]]:
        """The outputs and their tangents, from the results of the loop."""
        carry, carry_t, ys, ys_t = split_at(results, [*self.widths, len(results)])
        tangents: list[Any] = [None] * (len(carry) + len(ys))
        for i, tangent in zip(self.moving, [*carry_t, *ys_t], strict=True):
            tangents[i] = tangent
        return (*carry, *ys), tangents


def pushed(args: Sequence[Any], tangents: Sequence[Any], body: Graph, counts: Counts) -> PushedLoop:
    """The loop that pushes tangents of the arguments of a body."""
    constants, n = counts
    x, t, types = parts(args, counts), parts(tangents, counts), parts(body.input_types, counts)
    given = [v is not None for v in tangents]
    moved = fixed_point_over_carry(body, given, range(constants, constants + n), reaches)
    flags = parts(moved, counts)
    inner = jvp_graph(body, moved)
    moving = [i for i, m in enumerate(flags.carry) if m]
    y_moving = [i for i in inner.moving if i >= n]
    widths = [constants, sum(flags.consts), n, len(moving), len(x.xs), sum(flags.xs)]
    count = len(body.outputs)

    def f(*values: Any) -> list[Any]:
        c, ct, k, kt, s, st = split_at(values, widths)
        results = evaluate(inner.graph, [*c, *k, *s, *ct, *kt, *st])
        by_slot = dict(zip(inner.moving, results[count:], strict=True))
        carry_t = [
            by_slot[i] if i in by_slot else zeros(strong_type(body.output_types[i])) for i in moving
        ]
        return [*results[:n], *carry_t, *results[n:count], *(by_slot[i] for i in y_moving)]

    def moved_types(of: list[Type], which: list[bool]) -> list[Type]:
        return [strong_type(t) for t, m in zip(of, which, strict=True) if m]

    carry_types = moved_types(types.carry, flags.carry)
    new_types = [
        *types.consts, *moved_types(types.consts, flags.consts), *types.carry, *carry_types,
        *types.xs, *moved_types(types.xs, flags.xs),
    ]  # fmt: skip
    new_args = [
        *x.consts, *(v for v in t.consts if v is not None),
        *x.carry, *(or_zero(t.carry[i], x.carry[i]) for i in moving),
        *x.xs, *(v for v in t.xs if v is not None),
    ]  # fmt: skip
    return PushedLoop(
        new_args,
        stage_variant(body, ("loop_jvp", tuple(moved), counts), new_types, f, "the derivative"),
        (constants + widths[1], n + len(moving)),
        carry_types,
        [*moving, *y_moving],
        (n, len(moving), count - n),
    )


# --- batching -------------------------------------------------------------------------------------


def batched_inputs(body: Graph, counts: Counts, batched: Sequence[bool], size: int) -> list[bool]:
    """Which inputs of a body have the batch axis in some step."""
    constants, n = counts

    def step(graph: Graph, state: Sequence[bool]) -> Sequence[bool]:
        return batch(graph, state, size).flags[:n]

    return fixed_point_over_carry(body, batched, range(constants, constants + n), step)


def with_batch_axes(
    inner: Batched, body: Graph, flags: Sequence[bool], size: int, key: tuple[Hashable, ...]
) -> Graph:
    """A batched body whose outputs have the batch axis where `flags` say so."""
    if list(inner.flags) == list(flags):
        return inner.graph

    def f(*values: Any) -> list[Any]:
        outputs = evaluate(inner.graph, values)
        return [
            with_batch(x, b, size) if want else x
            for x, b, want in zip(outputs, inner.flags, flags, strict=True)
        ]

    return stage_variant(body, (*key, "all"), inner.graph.input_types, f, "vmap")


# --- reverse mode ---------------------------------------------------------------------------------


class Halves(Record):
    """A body differentiated with respect to the inputs that are `active`."""

    active: tuple[bool, ...]
    of: Differentiated


def halves_key(counts: Counts, wanted: Sequence[Any]) -> Hashable:
    """The key under which a body keeps its halves."""
    return ("halves", tuple(map(bool, wanted)), counts)


def halves_of(body: Graph, counts: Counts, wanted: Sequence[Any]) -> Halves:
    """The body, differentiated for cotangents of the wanted arguments; made once."""

    def make() -> Halves:
        constants, n = counts
        active = fixed_point_over_carry(
            body, [bool(w) for w in wanted], range(constants, constants + n), reaches
        )
        active = [a and t.inexact for a, t in zip(active, body.input_types, strict=True)]
        return Halves(tuple(active), differentiate(body, active))

    result: Halves = memoised(body, halves_key(counts, wanted), make)
    return result
