"""The reverse of a long loop in little memory. Knows steps and carries; knows no Graph.

`recorded`: every step's residuals are held. `binomial`: the loop is cut in halves recursively, so
that at any time O(log n) carries and the residuals of O(log n) steps are held, and each step is run
O(log n) times (Griewank & Walther 2000, Algorithm 799, in the simple form that needs no schedule).
An integer is a budget
in bytes: as many carries as fit into it are held at equal distances, and each stretch is halved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from fungrad.errors import ArgumentError
from fungrad.support.record import Record

Carry = Sequence[Any]

muted: ContextVar[bool] = ContextVar("fungrad_muted", default=False)
"""Whether what runs now ran before and is only computed again, so that it shall not print twice."""


def again(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function f, for steps that ran before: what they print is left out."""

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
    """Raises ArgumentError where a `checkpoint=` argument means nothing."""
    if checkpoint is None or checkpoint == "binomial":
        return
    if not isinstance(checkpoint, int) or isinstance(checkpoint, bool) or checkpoint < 1:
        raise ArgumentError(
            f'checkpoint={checkpoint!r} is not None, "binomial" or a positive number of bytes.'
        )


def reverse(steps: Steps, carry: Carry, state: Any, checkpoint: Any) -> Any:
    """The state after all steps have been gone back from the last to the first."""
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
    trail = []
    for i in range(low, high):
        carry, residuals = steps.record(carry, i)
        trail.append(residuals)
    for i in reversed(range(low, high)):
        state = steps.back(trail.pop(), i, state)
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
