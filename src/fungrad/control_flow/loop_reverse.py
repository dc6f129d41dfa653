"""The backward walk over the steps of a loop, with the residuals of its tape or of steps run again.

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
from fungrad.control_flow.loop_bodies import Counts, halves_of, parts
from fungrad.errors import ArgumentError
from fungrad.ir.graph import Graph
from fungrad.retracing.graph_transforms import strong_type
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
    """The steps of a loop.

    total: their number; None if `goes_on(carry)` decides.
    advance: `(carry, i) -> carry`. record: `(carry, i) -> (carry, residuals)`.
    back: `(residuals, i, state) -> state`, where the state holds the cotangents.
    """

    total: int | None
    goes_on: Callable[[Carry], Any]
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
    total = steps.total
    if checkpoint is None:
        return _recorded(steps, carry, 0, total, state)
    if total is None:
        total, last = 0, carry
        while steps.goes_on(last):
            last, total = steps.advance(last, total), total + 1
    stretch = max(1, math.ceil(math.log2(total + 1)))
    if checkpoint == "binomial":
        return _halved(steps, carry, 0, total, stretch, state)
    size = max(1, sum(getattr(x, "nbytes", 8) for x in carry))
    held = max(1, min(total, checkpoint // size))
    length = max(1, math.ceil(total / held))
    starts = []
    for i in range(total):
        if i % length == 0:
            starts.append((i, carry))
        carry = steps.advance(carry, i)
    while starts:
        i, start = starts.pop()
        state = _halved(steps, start, i, min(i + length, total), stretch, state)
    return state


def _recorded(steps: Steps, carry: Carry, low: int, high: int | None, state: Any) -> Any:
    tape: list[Any] = []
    i = low
    while steps.goes_on(carry) if high is None else i < high:
        carry, residuals = steps.record(carry, i)
        tape.append(residuals)
        i += 1
    while tape:
        i -= 1
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


def order_of(length: int, reverse: bool) -> Sequence[int]:
    """The numbers of the steps, in their order."""
    return range(length - 1, -1, -1) if reverse else range(length)


def replay(
    body: Graph,
    counts: Counts,
    args: Sequence[Any],
    tape: Any,
    cotangents: Sequence[Any],
    wanted: Sequence[bool],
    checkpoint: Any,
    order: Sequence[int] | None,
    goes_on: Callable[[Carry], Any],
) -> list[Any]:
    """The cotangents of the wanted arguments of a body.

    Args:
      tape: the residuals of each step; without one (None) the steps run again.
      order: the rows that the steps read, in their order; None if `goes_on(carry)` decides after
        each step, and there are no rows.
    """
    constants, n = counts
    halves = halves_of(body, counts, wanted).of
    x, out = parts(args, counts), body.output_types
    inexact = [i for i in range(n) if out[i].inexact]
    carry_cts, y_cts = list(cotangents[: len(inexact)]), list(cotangents[len(inexact) :])
    empty = [strong_type(t).zeros() for t in body.input_types]

    def row(xs: list[Any], i: int) -> list[Any]:
        return [] if order is None else [x[order[i]] for x in xs]

    def advance(carry: Carry, i: int) -> Carry:
        return run(body, [*x.consts, *carry, *row(x.xs, i)])[:n]

    def record(carry: Carry, i: int) -> Any:
        results = run(halves.forward, [*x.consts, *carry, *row(x.xs, i)])
        return results[:n], results[len(out) :]

    totals = {i: empty[i] for i in range(constants) if wanted[i]}
    stacks = {
        i: np.zeros((0 if order is None else len(order), *t.shape), t.dtype)
        for i, t in enumerate(body.input_types)
        if i >= constants + n and wanted[i]
    }

    def back(residuals: Any, i: int, state: Any) -> Any:
        sums, cts = state
        cotangents = run(halves.backward, [*residuals, *cts, *row(y_cts, i)])
        by_input = dict(zip(halves.reached, cotangents, strict=True))
        for k, stack in stacks.items():
            if k in by_input and order is not None:
                stack[order[i]] = by_input[k]
        sums = {k: v + by_input[k] if k in by_input else v for k, v in sums.items()}
        return sums, [by_input.get(constants + k, empty[constants + k]) for k in inexact]

    state: Any = totals, carry_cts
    if tape is None:
        total = None if order is None else len(order)
        steps = Steps(total, goes_on, again(advance), again(record), back)
        state = go_back(steps, x.carry, state, checkpoint)
    else:
        for residuals in reversed(tape):
            state = back(residuals, 0, state)
    totals, cts = state
    by_carry = dict(zip(inexact, cts, strict=True))
    result = [totals[i] for i in range(constants) if wanted[i]]
    result += [by_carry[i] for i in range(n) if wanted[constants + i]]
    return result + list(stacks.values())
