"""Reverse mode of loops and branches as Graphs without tapes.

A pullback is a function of the arguments and the cotangents, whatever its tape holds
(reverse_with_tape.py). So analyses, and programs that cannot keep a tape, take it as branches and
scans, and need no rules for records, pullbacks and tapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.control_flow.loop_bodies import body_counts
from fungrad.control_flow.reverse_with_tape import PULLBACKS, RECORDS, parted
from fungrad.control_flow.scan import scan, scan_pullback
from fungrad.control_flow.switch import switch, switch_pullback
from fungrad.ir.graph import Graph, Variable
from fungrad.ir.types import Type
from fungrad.retracing.graph_transforms import pullback_graph, single_equation


def uses_tape(primitive: Any) -> bool:
    """Whether a primitive makes or reads a tape."""
    return primitive in RECORDS or primitive in PULLBACKS


def without_tape(
    primitive: Any, types: Sequence[Type], params: dict[str, Any], steps: int
) -> Graph:
    """A record or a pullback as a Graph of the same inputs; the outputs are the same but the tape.

    Args:
      types: those of the inputs.
      steps: how many steps the pullback of a loop of unknown length takes. Where only a fixed point
        over the steps is asked for, any number will do.
    """
    rest = {key: value for key, value in params.items() if key not in ("wanted", "taped")}
    if primitive in RECORDS:
        return single_equation(RECORDS[primitive](), types, rest)
    wanted, taped = params["wanted"], params["taped"]
    args, tape, cotangents = parted(types, wanted, taped)
    if primitive is switch_pullback:
        branches = tuple([pullback_graph(b, wanted[1:]) for b in params["branches"]])
        pullback = single_equation(switch, [*args, *cotangents], {"branches": branches})
    elif primitive is scan_pullback:
        loop = single_equation(scan, args, {**rest, "checkpoint": None})
        pullback = pullback_graph(loop, wanted)
    else:
        first, _ = body_counts(rest)
        loop = single_equation(scan, args[first:], as_scan(rest, steps))
        unused = tuple(map(Variable, args[:first]))
        loop = loop.replace(inputs=(*unused, *loop.inputs))
        pullback = pullback_graph(loop, wanted)
    if not taped:
        return pullback
    at = len(args)
    inputs = (*pullback.inputs[:at], Variable(tape), *pullback.inputs[at:])
    return pullback.replace(inputs=inputs)


def as_scan(params: dict[str, Any], steps: int) -> dict[str, Any]:
    """The parameters of the scan of a number of steps that does what a `while_loop` does. It takes
    the loop's arguments without the constants of the condition.
    """
    return {"body": params["body"], "counts": body_counts(params)[1], "length": steps,
            "reverse": False, "unroll": 1, "checkpoint": None}  # fmt: skip
