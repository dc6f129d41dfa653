"""Unrolls structural equations under the current trace, and finds values at a kink.

`unfold` evaluates the Graphs of a call, branch or loop equation by equation, so that a trace that
examines values gets each one with its own line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.control_flow.call import call
from fungrad.control_flow.loop_bodies import parts
from fungrad.control_flow.loop_reverse import order_of
from fungrad.control_flow.scan import scan
from fungrad.control_flow.switch import switch
from fungrad.control_flow.while_loop import parts as loop_parts
from fungrad.control_flow.while_loop import while_loop
from fungrad.primitives.movement.reshape_broadcast_cast import stack_first
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.trace import value_under
from fungrad.transforms.engine.batching import take_first

UNFOLDED = {call, switch, while_loop, scan}
"""Primitives that `unfold` can evaluate; upper folders add those that hold one Graph."""


def unfolds(primitive: Any) -> bool:
    """Whether a primitive is a call, a branch or a loop of Graphs that `unfold` can evaluate."""
    return primitive in UNFOLDED


def size_of(primitive: Any, params: dict[str, Any]) -> int:
    """The fewest equations that unfolding makes; for a `while_loop`, those of one step."""
    if primitive is scan:
        return len(params["body"].equations) * int(params["length"])
    if primitive is switch:
        return max(len(branch.equations) for branch in params["branches"])
    return len(params["body" if primitive is while_loop else "graph"].equations)


def unfold(
    primitive: Any, args: Sequence[Any], params: dict[str, Any], most_steps: int = sys.maxsize
) -> tuple[Any, ...]:
    """The outputs of a primitive that `unfolds`, by its inner equations.

    After `most_steps` steps a `while_loop` continues as a loop.
    """
    if primitive is scan:
        return _scan(args, **params)
    if primitive is while_loop:
        return _while(args, params, most_steps)
    if primitive is switch:
        branches = params["branches"]
        index = min(max(int(value_under(args[0])), 0), len(branches) - 1)
        return tuple(evaluate(branches[index], args[1:]))
    with np.errstate(all="ignore" if params.get("quiet") else None):
        return tuple(evaluate(params["graph"], args))


def _scan(
    args: Sequence[Any], *, body: Any, counts: Any, length: int, reverse: bool, **_: Any
) -> tuple[Any, ...]:
    consts, carry, xs = parts(args, counts)
    n = counts[1]
    rows: dict[int, list[Any]] = {}
    for i in order_of(length, reverse):
        results = evaluate(body, [*consts, *carry, *[take_first(x, i) for x in xs]])
        carry, rows[i] = results[:n], results[n:]
    if not rows:
        empty = [np.empty((0, *t.shape), t.dtype) for t in body.output_types[n:]]
        return (*carry, *empty)
    stacks = [stack_first([rows[i][k] for i in range(length)]) for k in range(len(rows[0]))]
    return (*carry, *stacks)


def _while(args: Sequence[Any], params: dict[str, Any], most_steps: int) -> tuple[Any, ...]:
    cond_consts, body_consts, carry = loop_parts(args, params["counts"])
    step = 0
    while value_under(evaluate(params["cond"], [*cond_consts, *carry])[0]):
        if step == most_steps:
            rest: tuple[Any, ...] = while_loop(*cond_consts, *body_consts, *carry, **params)
            return rest
        carry = evaluate(params["body"], [*body_consts, *carry])
        step += 1
    return tuple(carry)


def array_of(value: Any) -> np.ndarray[Any, Any] | None:
    """A value of floats or complex numbers as an array; None for all else."""
    value = value_under(value)
    if not isinstance(value, (np.ndarray, np.generic, float, complex)):
        return None
    array = np.asarray(value)
    return array if array.dtype.kind in "fc" else None


def holds_nan(value: Any) -> bool:
    """Whether a value holds a NaN."""
    array = array_of(value)
    return array is not None and bool(np.isnan(array).any())


def holds_inf(value: Any) -> bool:
    """Whether a value holds an infinity."""
    array = array_of(value)
    return array is not None and bool(np.isinf(array).any())


def kinks_at(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> int:
    """The number of values at which a primitive has no unique derivative (see docs/kinks.md)."""
    values = list(map(value_under, args))
    x = array_of(values[0]) if values else None
    if primitive.kink is None or x is None or not x.size or any(v is None for v in values):
        return 0
    with np.errstate(all="ignore"):
        return int(np.sum(primitive.kink(*values, **params)))


def sample(value: Any) -> str:
    """The first few numbers of a value, for messages."""
    value = value_under(value)
    if not isinstance(value, (np.ndarray, np.generic)):
        return repr(value)
    array = np.asarray(value)
    if not array.ndim:
        return str(array)
    flat = ", ".join(f"{entry:.4g}" for entry in array.ravel()[:4].tolist())
    return f"[{flat}{', ...' if array.size > 4 else ''}] of shape {array.shape}"
