"""The steps of a scan: the parts of its arguments, its differentiated body, the backward walk.

`replay` is the reverse mode that runs the forward steps again, so that a long loop needs little
memory.

checkpoint=None keeps every step's residuals. "binomial" halves the loop recursively, so that at any
time O(log n) carries and the residuals of O(log n) steps are kept, and each step runs O(log n)
times (Griewank & Walther 2000, Algorithm 799, in the simple form that needs no schedule). An
integer is a budget in bytes: as many carries as fit into it are kept at equal distances, and each
interval is halved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.control_flow.call import run
from fungrad.errors import ArgumentError
from fungrad.ir.graph import Atom, Graph
from fungrad.retracing.graph_transforms import (
    Differentiated,
    differentiate,
    fixed_point_over_carry,
    reaches,
    strong_type,
)
from fungrad.support.lazy import Record
from fungrad.tracing.effects import muted

Carry = Sequence[Any]


def again(f: Callable[..., Any]) -> Callable[..., Any]:
    """f for steps that run a second time, without their prints."""

    def quiet(*args: Any) -> Any:
        token = muted.set(True)
        try:
            return f(*args)
        finally:
            muted.reset(token)

    return quiet


class Steps(Record):
    """A loop of a known number of steps.

    advance: `(carry, i) -> carry`. record: `(carry, i) -> (carry, residuals)`.
    back: `(residuals, i, state) -> state`, where the state holds the cotangents.
    """

    total: int
    advance: Callable[[Carry, int], Carry]
    record: Callable[[Carry, int], tuple[Carry, Any]]
    back: Callable[[Any, int, Any], Any]


def check_checkpoint(checkpoint: Any) -> None:
    """Raises ArgumentError if a `checkpoint=` argument is not valid."""
    if checkpoint is None or checkpoint == "binomial":
        return
    if not isinstance(checkpoint, int) or isinstance(checkpoint, bool) or checkpoint < 1:
        raise ArgumentError(
            f'checkpoint={checkpoint!r} is not None, "binomial" or a positive number of bytes.'
        )


def go_back(steps: Steps, carry: Carry, state: Any, checkpoint: Any) -> Any:
    """The state after the backward walk over all steps, last to first."""
    if checkpoint is None:
        return _recorded(steps, carry, 0, steps.total, state)
    stretch = max(1, math.ceil(math.log2(steps.total + 1)))
    if checkpoint == "binomial":
        return _halved(steps, carry, 0, steps.total, stretch, state)
    size = max(1, sum(getattr(x, "nbytes", 8) for x in carry))
    held = max(1, min(steps.total, checkpoint // size))
    length = max(1, math.ceil(steps.total / held))
    starts = []
    for i in range(steps.total):
        if i % length == 0:
            starts.append((i, carry))
        carry = steps.advance(carry, i)
    while starts:
        i, start = starts.pop()
        state = _halved(steps, start, i, min(i + length, steps.total), stretch, state)
    return state


def _recorded(steps: Steps, carry: Carry, low: int, high: int, state: Any) -> Any:
    tape = []
    for i in range(low, high):
        carry, residuals = steps.record(carry, i)
        tape.append(residuals)
    for i in reversed(range(low, high)):
        state = steps.back(tape.pop(), i, state)
    return state


def _halved(steps: Steps, carry: Carry, low: int, high: int, stretch: int, state: Any) -> Any:
    if high - low <= stretch:
        return _recorded(steps, carry, low, high, state)
    middle = (low + high) // 2
    later = carry
    for i in range(low, middle):
        later = steps.advance(later, i)
    state = _halved(steps, later, middle, high, stretch, state)
    del later
    return _halved(steps, carry, low, middle, stretch, state)


Counts = tuple[int, int]


class Parts(Record):
    """The arguments of a scan, or values that correspond to them."""

    consts: list[Any]
    carry: list[Any]
    xs: list[Any]


def parts(values: Sequence[Any], counts: Counts) -> Parts:
    """Splits values that correspond to the arguments; counts are those of consts and carry."""
    first, second = counts[0], counts[0] + counts[1]
    return Parts(list(values[:first]), list(values[first:second]), list(values[second:]))


def order_of(length: int, reverse: bool) -> Sequence[int]:
    """The numbers of the steps, in their order."""
    return range(length - 1, -1, -1) if reverse else range(length)


class Plan(Record):
    """The differentiated body for given wanted arguments."""

    active: list[bool]
    halves: Differentiated
    held: list[int]
    """The origin of each residual: the position of a const, or -1 if each step has its own."""


def plan(body: Graph, counts: Counts, wanted: Sequence[Any]) -> Plan:
    """The differentiated body for cotangents of the wanted arguments."""
    constants, n = counts
    active = fixed_point_over_carry(
        body, [bool(w) for w in wanted], range(constants, constants + n), reaches
    )
    active = [a and t.inexact for a, t in zip(active, body.input_types, strict=True)]
    halves = differentiate(body, active)
    position: dict[Atom, int] = {v: i for i, v in enumerate(halves.forward.inputs[:constants])}
    residuals = halves.forward.outputs[len(body.outputs) :]
    return Plan(active, halves, [position.get(r, -1) for r in residuals])


def replay(
    args: Any,
    tape: Any,
    cotangents: Any,
    wanted: Any,
    *,
    body: Graph,
    counts: Counts,
    length: int,
    reverse: bool,
    unroll: int,
    checkpoint: Any,
) -> list[Any]:
    """The cotangents of the wanted arguments; the forward steps run again."""
    constants, n = counts
    how = plan(body, counts, wanted)
    x = parts(args, counts)
    out = body.output_types
    inexact = [i for i in range(n) if out[i].inexact]
    y_given = list(cotangents[len(inexact) :])
    order = order_of(length, reverse)
    empty = [strong_type(t).zeros() for t in body.input_types]

    def inputs(carry: Any, i: int) -> list[Any]:
        return [*x.consts, *carry, *[v[order[i]] for v in x.xs]]

    def advance(carry: Any, i: int) -> Any:
        return run(body, inputs(carry, i))[:n]

    def record(carry: Any, i: int) -> Any:
        results = run(how.halves.forward, inputs(carry, i))
        return results[:n], results[len(out) :]

    totals = {i: empty[i] for i in range(constants) if wanted[i]}
    stacks = {
        i: np.zeros((length, *body.input_types[i].shape), body.input_types[i].dtype)
        for i in range(constants + n, len(body.inputs))
        if wanted[i]
    }

    def back(residuals: Any, i: int, state: Any) -> Any:
        sums, cts = state
        step = order[i]
        found = run(how.halves.backward, [*residuals, *cts, *[y[step] for y in y_given]])
        by_input = dict(zip(how.halves.reached, found, strict=True))
        for k, stack in stacks.items():
            if k in by_input:
                stack[step] = by_input[k]
        sums = {k: v + by_input[k] if k in by_input else v for k, v in sums.items()}
        return sums, [by_input.get(constants + k, empty[constants + k]) for k in inexact]

    steps = Steps(length, again(advance), again(record), back)
    totals, cts = go_back(steps, x.carry, (totals, list(cotangents[: len(inexact)])), checkpoint)
    carry_cts = dict(zip(inexact, cts, strict=True))
    result = [totals[i] for i in range(constants) if wanted[i]]
    result += [carry_cts[i] for i in range(n) if wanted[constants + i]]
    return result + list(stacks.values())
