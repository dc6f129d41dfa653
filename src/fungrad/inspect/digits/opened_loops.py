"""Loops and branches at known values as scans and plain equations, for traces that observe values.

Reverse mode gives loops and branches opaque tapes. At known values a `while_loop` is a scan of as
many steps, and a branch is one Graph; their reverse mode is made of equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.control_flow.call import run
from fungrad.control_flow.reverse_with_tape import RECORDS
from fungrad.control_flow.scan import scan
from fungrad.control_flow.tape_type import as_tape
from fungrad.control_flow.unroll import unfold, unfolds
from fungrad.control_flow.while_loop import parts, while_loop_pullback, while_loop_record
from fungrad.control_flow.without_tape import as_scan, uses_tape, without_tape
from fungrad.custom_rules.custom_vjp_jvp import custom
from fungrad.inspect.why.ablate_stops import is_stop
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.trace import Trace, Tracer, typeof, value_under


class OpenedTrace(Trace):
    """Runs a program operation by operation, also in loops and branches, and without stops."""

    __slots__ = ()

    def __init__(self, parent: Trace, label: Callable[[], str]) -> None:
        super().__init__(parent, label)
        self.records = True

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        mine = [type(arg) is Tracer and arg.owner is self for arg in args]
        if not any(mine):
            return self.parent.process(primitive, args, params)  # type: ignore[union-attr]
        if is_stop(primitive):
            return args[0]
        if unfolds(primitive):
            return self.run(unfold, primitive, args, params)
        if opens(primitive, params):
            return self.run(opened, primitive, args, params)
        return self.operation(primitive, args, params, mine)

    def operation(self, primitive: Any, args: Any, params: Any, mine: Sequence[bool]) -> Any:
        """The results of an operation, some of whose arguments are this trace's own (`mine`)."""
        raise NotImplementedError


def opens(primitive: Any, params: dict[str, Any]) -> bool:
    """Whether `opened` can compute a primitive: not a function of other libraries."""
    if primitive is custom:
        return bool(params["rule"].functions.closes)
    return uses_tape(primitive)


def opened(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> tuple[Any, ...]:
    """The outputs of a primitive that `opens`, by equations and scans under the current trace.

    The tape of a record is empty: its pullback here does without one.
    """
    if primitive is custom:
        graph = params["graph"]
        return tuple(params["rule"].run(*args) if graph is None else evaluate(graph, args))
    steps = 0
    if primitive in (while_loop_record, while_loop_pullback):
        steps = _steps(args, params)
    if primitive is while_loop_record:
        first = params["counts"][0]
        outputs = scan(*args[first:], **as_scan(params, steps))
    else:
        types = [typeof(arg) for arg in args]
        outputs = evaluate(without_tape(primitive, types, params, steps), args)
    return (*outputs, as_tape(None)) if primitive in RECORDS else tuple(outputs)


def _steps(args: Sequence[Any], params: dict[str, Any]) -> int:
    """The number of steps of a `while_loop`, whose arguments come first."""
    x = parts(args[: sum(params["counts"]) + len(params["body"].outputs)], params["counts"])
    cond, body, carry = ([value_under(v) for v in part] for part in (x.cond, x.body, x.carry))
    count = 0
    while run(params["cond"], [*cond, *carry])[0]:
        carry = list(run(params["body"], [*body, *carry]))
        count += 1
    return count
