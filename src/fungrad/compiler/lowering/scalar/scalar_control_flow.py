"""Loops and branches as Python's own, in programs on numbers.

The stacks that a scan makes of its steps, and reads step by step, are lists with one tuple for each
step; the residuals of loops of unknown length too. Knows the structural primitives and the Writer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.scalar.scalar_codegen import (
    ZERO,
    Elements,
    Unsupported,
    Writer,
    assigned,
    flattened,
    is_zero,
    structural,
    text,
)
from fungrad.compiler.lowering.scalar.scalar_expressions import FLOAT
from fungrad.compiler.lowering.scalar.tuple_stacks import CHUNK, HELD, LISTED, Stack
from fungrad.control_flow.call import call
from fungrad.control_flow.scan import scan
from fungrad.control_flow.switch import switch, switch_pullback, switch_record
from fungrad.control_flow.while_loop import (
    halves_of,
    while_loop,
    while_loop_pullback,
    while_loop_record,
)
from fungrad.ir.graph import Equation, Graph
from fungrad.retracing.graph_transforms import differentiate

TRIPS = 10
"""How often the body of a loop of unknown length is assumed to run."""
STEP = 1_500
"""Nanoseconds of a step of a loop on arrays, besides its equations."""


def _named(writer: Writer, values: Sequence[Elements], types: Sequence[Any]) -> list[Elements]:
    """Names of their own for the elements of values, which a loop will change."""
    found = [writer.names(type_) for type_ in types]
    assigned(writer, flattened(found), flattened(values))
    return found


def _row(parts: Sequence[Any]) -> str:
    return "(" + "".join(f"{text(part)}, " for part in parts) + ")"


# --- loops of unknown length ----------------------------------------------------------------------


def _while(
    writer: Writer, equation: Equation, inputs: list[Elements], body: Graph, trail: str = ""
) -> list[Elements]:
    """A loop; with a trail, the residuals that the body gives besides are held in it."""
    first, second = equation.params["counts"]
    cond = equation.params["cond"]
    cond_consts, body_consts = inputs[:first], inputs[first : first + second]
    carry = _named(writer, inputs[first + second :], body.input_types[second:])

    def step() -> None:
        writer.arrays_cost += STEP * writer.weight
        (go,) = writer.graph(cond, [*cond_consts, *carry])
        writer.line(f"if not {text(go[()])}: break")
        results = writer.graph(body, [*body_consts, *carry])
        if trail:
            writer.line(f"{trail}.rows.append({_row(flattened(results[len(carry) :]))})")
        assigned(writer, flattened(carry), flattened(results[: len(carry)]))

    writer.block("while True:", step, TRIPS)
    return carry


def _while_loop(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    return _while(writer, equation, inputs, equation.params["body"])


def _object(name: str) -> Elements:
    found = np.empty((), object)
    found[()] = name
    return found


def _trail(writer: Writer, types: Sequence[Any], single: bool = False) -> str:
    """The name of an empty trail."""
    name = writer.fresh()
    writer.line(f"{name} = Trail({writer.constant(tuple(types))}, {single})")
    return name


def _while_record(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    params = equation.params
    halves = halves_of(params["wanted"], params["body"], params["counts"])
    trail = _trail(writer, halves.forward.output_types[len(params["body"].outputs) :])
    return [*_while(writer, equation, inputs, halves.forward, trail), _object(trail)]


def _while_pullback(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    params = equation.params
    wanted, body, counts = params["wanted"], params["body"], params["counts"]
    if not params["trailed"]:
        raise Unsupported("a pullback that records first")
    halves = halves_of(wanted, body, counts)
    first, constants = counts
    inexact = [i for i, t in enumerate(body.output_types) if t.inexact]
    trail, given = inputs[len(wanted)], inputs[len(wanted) + 1 :]
    types = halves.backward.input_types
    residuals = [writer.names(t) for t in types[: len(types) - len(given)]]
    cts = _named(writer, given, types[len(types) - len(given) :])
    totals = {
        i: _named(writer, [_zeros(t)], [t])[0]
        for i, t in enumerate(body.input_types[:constants])
        if wanted[first + i]
    }

    def step() -> None:
        writer.arrays_cost += STEP * writer.weight
        found = dict(
            zip(halves.reached, writer.graph(halves.backward, [*residuals, *cts]), strict=True)
        )
        for i, total in totals.items():
            if i in found:
                pairs = zip(total.reshape(-1), found[i].reshape(-1), strict=True)
                sums = [x if is_zero(y) else writer.total((x, y)) for x, y in pairs]
                assigned(writer, flattened([total]), sums)  # which begin with 0.0
        new = [found.get(constants + i, _zeros(t)) for i, t in zip(inexact, cts, strict=True)]
        assigned(writer, flattened(cts), flattened(new))

    head = f"for {_row(flattened(residuals))} in reversed({text(trail[()])}.rows):"
    writer.block(head if residuals else f"for _ in {text(trail[()])}.rows:", step, TRIPS)
    carry = dict(zip(inexact, cts, strict=True))
    result = [
        _zeros(a.type)
        for a, want in zip(equation.inputs[:first], wanted[:first], strict=True)
        if want
    ]
    result += totals.values()
    return result + [carry[i] for i, want in enumerate(wanted[first + constants :]) if want]


def _zeros(like: Any) -> Elements:
    found = np.empty(like.shape, object)
    found[...] = ZERO
    return found


# --- scans ----------------------------------------------------------------------------------------


def _scan(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Any]:
    params = equation.params
    body, length, reverse = params["body"], params["length"], params["reverse"]
    constants, n = params["counts"]
    consts = [writer.whole(x) for x in inputs[:constants]]
    start, xs = inputs[constants : constants + n], inputs[constants + n :]
    carry = _named(writer, [writer.whole(x) for x in start], body.input_types[constants:][:n])
    ys = body.output_types[n:]
    width = sum(t.size for t in ys)
    made = writer.fresh() if width else ""
    as_array = length * width > LISTED
    if length * width > HELD or (as_array and any(t.dtype != FLOAT for t in ys)):
        raise Unsupported("a long stack")
    writer.widths[made] = width
    rows = [writer.names(t) for t in body.input_types[constants + n :]]

    def step() -> None:
        writer.arrays_cost += STEP * writer.weight
        results = writer.graph(body, [*consts, *carry, *rows])
        if made:
            held = _row(flattened(results[n:]))
            writer.line(f"{list_} += {held}" if as_array else f"{list_}.append({held})")
        assigned(writer, flattened(carry), flattened(results[:n]))

    target, source = _head(writer, xs, rows, length, reverse)
    list_ = writer.fresh() if as_array else made
    if as_array:
        at, steps = writer.fresh(), writer.fresh()
        writer.line(f"{made} = empty(({length}, {width}))")
        writer.line(f"{steps} = iter({source})")

        def chunk() -> None:
            writer.line(f"{list_} = []")
            writer.block(f"for {target} in islice({steps}, {CHUNK}):", step, length)
            part = f"{made}[{at} : {at} + {CHUNK}]"
            writer.line(f"{part} = array({list_}).reshape(-1, {width})")

        writer.block(f"for {at} in range(0, {length}, {CHUNK}):", chunk)
        writer.cost += 40 * length * width
    else:
        if made:
            writer.line(f"{made} = []")
        writer.block(f"for {target} in {source}:", step, length)
    stacks: list[Any] = []
    start_at = 0
    for type_, output in zip(ys, equation.outputs[n:], strict=True):
        if not type_.size:
            stacks.append(np.empty(output.type.shape, object))
            continue
        stacks.append(Stack(made, output.type, start_at, type_.size, reverse, as_array))
        start_at += type_.size
    return [*carry, *stacks]


def _head(
    writer: Writer, xs: Sequence[Any], rows: Sequence[Elements], length: int, reverse: bool
) -> tuple[str, str]:
    """What the loop runs over: the pattern that a step's row is taken apart by, and the rows.

    What no one reads goes to `_`. Rows of a stack that is given twice get the names of the first.
    """
    columns: dict[str, list[str]] = {}
    stacks: dict[str, Stack] = {}
    for x, row in zip(xs, rows, strict=True):
        if not row.size:
            continue
        stack = x if isinstance(x, Stack) else _listed(writer, x, length)
        named = columns.setdefault(stack.name, ["_"] * writer.widths[stack.name])
        for column, at in enumerate(np.ndindex(row.shape), stack.start):
            if named[column] == "_":
                named[column] = row[at]
            row[at] = named[column]
        stacks[stack.name] = stack
    sources, targets = [], []
    for name, named in columns.items():
        forward = stacks[name].reverse == reverse
        if stacks[name].array:
            sources.append(f"rows({name})" if forward else f"rows({name}[::-1])")
        else:
            sources.append(name if forward else f"reversed({name})")
        targets.append(_row(named))
    if not sources:
        return "_", f"range({length})"
    if len(sources) == 1:
        return targets[0], sources[0]
    return ", ".join(targets), f"zip({', '.join(sources)})"


def _listed(writer: Writer, x: Elements, length: int) -> Stack:
    """A small array that a scan reads, as a list of tuples."""
    rows = x.reshape(length, math.prod(x.shape[1:]))
    name = writer.fresh()
    writer.line(f"{name} = [{', '.join(_row(list(row)) for row in rows)}]")
    writer.widths[name] = rows.shape[1]
    return Stack(name, None, 0, rows.shape[1], False)


# --- calls and branches ---------------------------------------------------------------------------


def _call(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    return writer.graph(equation.params["graph"], inputs)


def _branches(writer: Writer, index: Elements, count: int, outputs: list[Any], write: Any) -> None:
    """One block for each branch, which assigns the outputs."""
    for i in range(count):

        def branch(i: int = i) -> None:
            assigned(writer, flattened(outputs), flattened(write(i)))

        test = f"if {text(index[()])} <= {i}:" if i < count - 1 else "else:"
        writer.block("if True:" if count == 1 else "el" * (0 < i < count - 1) + test, branch)


def _switch(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    index, *operands = inputs
    branches = equation.params["branches"]
    outputs = [writer.names(output.type) for output in equation.outputs]
    _branches(writer, index, len(branches), outputs, lambda i: writer.graph(branches[i], operands))
    return outputs


def _switch_record(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    index, *operands = inputs
    branches, wanted = equation.params["branches"], equation.params["wanted"][1:]
    outputs = [writer.names(output.type) for output in equation.outputs]

    def write(i: int) -> list[Elements]:
        forward = differentiate(branches[i], wanted).forward
        results = writer.graph(forward, operands)
        count = len(outputs) - 1
        trail = _trail(writer, forward.output_types[count:], single=True)
        writer.line(f"{trail}.rows.append({_row(flattened(results[count:]))})")
        return [*results[:count], _object(trail)]

    _branches(writer, index, len(branches), outputs, write)
    return outputs


def _switch_pullback(writer: Writer, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    params = equation.params
    wanted, branches = params["wanted"], params["branches"]
    if not params["trailed"]:
        raise Unsupported("a pullback that records first")
    index, trail, given = inputs[0], inputs[len(wanted)], inputs[len(wanted) + 1 :]
    outputs = [writer.names(output.type) for output in equation.outputs]
    positions = [i for i, want in enumerate(wanted[1:]) if want]

    def write(i: int) -> list[Elements]:
        halves = differentiate(branches[i], wanted[1:])
        types = halves.backward.input_types
        residuals = [writer.names(t) for t in types[: len(types) - len(given)]]
        if residuals:
            writer.line(f"{_row(flattened(residuals))} = {text(trail[()])}.rows[0]")
        found = dict(
            zip(halves.reached, writer.graph(halves.backward, [*residuals, *given]), strict=True)
        )
        return [
            found[k] if k in found else _zeros(out)
            for k, out in zip(positions, outputs, strict=True)
        ]

    _branches(writer, index, len(branches), outputs, write)
    return outputs


def _whole(rule: Any) -> Any:
    """A rule that reads all its inputs as elements."""
    return lambda writer, equation, inputs: rule(
        writer, equation, [writer.whole(x) for x in inputs]
    )


structural.update(
    {
        while_loop: _whole(_while_loop),
        while_loop_record: _whole(_while_record),
        while_loop_pullback: _whole(_while_pullback),
        scan: _scan,
        call: _whole(_call),
        switch: _whole(_switch),
        switch_record: _whole(_switch_record),
        switch_pullback: _whole(_switch_pullback),
    }
)
