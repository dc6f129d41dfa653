"""Loops and branches at known values as scans and plain equations, for traces that observe values.

Reverse mode gives loops and branches opaque tapes. At known values a `while_loop` is a scan of as
many steps, and a branch is one Graph; their reverse mode is made of equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.control_flow.call import run
from fungrad.control_flow.reverse_with_tape import parted
from fungrad.control_flow.scan import scan, scan_pullback
from fungrad.control_flow.switch import switch, switch_pullback
from fungrad.control_flow.tape_type import as_tape
from fungrad.control_flow.unroll import RECORDS, value_of
from fungrad.control_flow.while_loop import parts, while_loop, while_loop_pullback
from fungrad.custom_rules.custom_vjp_jvp import custom
from fungrad.primitives.primitive import or_zero
from fungrad.tracing.captured_arrays import NO_GUARDS
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.trace import typeof
from fungrad.transforms.engine.reverse import linearized

PULLBACKS: dict[Any, Any] = {
    scan_pullback: scan,
    switch_pullback: switch,
    while_loop_pullback: while_loop,
}
"""By a pullback primitive of reverse mode: the primitive that it differentiates."""


def opens(primitive: Any, params: dict[str, Any]) -> bool:
    """Whether `opened` can compute a primitive: not a function of other libraries."""
    if primitive is custom:
        return bool(params["rule"].functions.closes)
    return primitive in RECORDS or primitive in PULLBACKS


def opened(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> tuple[Any, ...]:
    """The outputs of a primitive that `opens`, by equations and scans under the current trace.

    The tape of a record is empty: its pullback here does without one.
    """
    if primitive is custom:
        graph = params["graph"]
        return tuple(params["rule"].run(*args) if graph is None else evaluate(graph, args))
    rest = {key: value for key, value in params.items() if key not in ("wanted", "taped")}
    if primitive in RECORDS:
        return (*_forward(RECORDS[primitive], args, rest), as_tape(None))
    return _backward(PULLBACKS[primitive], args, params, rest)


def _forward(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> tuple[Any, ...]:
    if primitive is while_loop:
        x = parts(args, params["counts"])
        counts = (len(x.body), len(x.carry))
        outputs = scan(
            *x.body, *x.carry, body=params["body"], counts=counts, length=_steps(x, params),
            reverse=False, unroll=1, checkpoint=None,
        )  # fmt: skip
        return tuple(outputs)
    if primitive is switch:
        branches = params["branches"]
        index = min(max(int(value_of(args[0])), 0), len(branches) - 1)
        return tuple(evaluate(branches[index], args[1:]))
    return tuple(scan(*args, **{**params, "checkpoint": None}))


def _steps(x: Any, params: dict[str, Any]) -> int:
    """The number of steps of a `while_loop`."""
    cond, body, carry = ([value_of(v) for v in part] for part in (x.cond, x.body, x.carry))
    count = 0
    while run(params["cond"], [*cond, *carry])[0]:
        carry = list(run(params["body"], [*body, *carry]))
        count += 1
    return count


def _backward(
    primitive: Any, values: Sequence[Any], params: dict[str, Any], rest: dict[str, Any]
) -> tuple[Any, ...]:
    wanted = params["wanted"]
    args, _, cotangents = parted(values, wanted, params["taped"])
    active = [i for i, want in enumerate(wanted) if want]

    def f(*xs: Any) -> tuple[Any, ...]:
        merged = list(args)
        for i, x in zip(active, xs, strict=True):
            merged[i] = x
        return _forward(primitive, merged, rest)

    label = f"grad of {primitive.name}"
    outputs, pullback = linearized(f, [args[i] for i in active], lambda: label, NO_GUARDS)
    given = iter(cotangents)
    found = pullback([next(given) if typeof(o).inexact else None for o in outputs])
    return tuple([or_zero(c, args[i]) for i, c in zip(active, found, strict=True)])
