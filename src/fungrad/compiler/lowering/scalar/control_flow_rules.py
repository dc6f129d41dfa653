"""Loops, branches and calls of scalarised values: rules of the walk.

The stacks that a scan makes of its steps, and reads step by step, are Rows, one for each step; the
residuals of loops of unknown length are records on a tape.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.scalar.emitter import (
    Elements,
    Stack,
    Unsupported,
    Value,
    boxed,
    flattened,
)
from fungrad.compiler.lowering.scalar.planning import Structural, Write
from fungrad.compiler.lowering.scalar.scalarise import Scalariser
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
from fungrad.retracing.graph_transforms import Differentiated, differentiate

# --- loops of unknown length ----------------------------------------------------------------------


def _while(
    walk: Scalariser,
    equation: Equation,
    inputs: list[Elements],
    body: Graph,
    tape: Value | None = None,
) -> list[Elements]:
    """A loop; with a tape, the residuals that the body gives besides are pushed on it."""
    first, second = equation.params["counts"]
    cond_consts, body_consts = inputs[:first], inputs[first : first + second]
    carry = walk.initialised(inputs[first + second :], body.input_types[second:])

    def condition() -> Value:
        (go,) = walk.graph(equation.params["cond"], [*cond_consts, *carry])
        found: Value = go[()]
        return found

    def step() -> None:
        results = walk.graph(body, [*body_consts, *carry])
        if tape is not None:
            walk.emitter.push(tape, flattened(results[len(carry) :]))
        walk.assign(carry, results[: len(carry)])

    walk.repeated(None, lambda: walk.emitter.while_loop(condition, step))
    return carry


def _while_loop(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    return _while(walk, equation, inputs, equation.params["body"])


def _while_halves(equation: Equation) -> Differentiated:
    params = equation.params
    found: Differentiated = halves_of(params["wanted"], params["body"], params["counts"])
    return found


def _while_record(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    forward = _while_halves(equation).forward
    tape = walk.emitter.tape(forward.output_types[len(equation.outputs) - 1 :], single=False)
    return [*_while(walk, equation, inputs, forward, tape), boxed(tape)]


def _tape(walk: Scalariser, equation: Equation, inputs: list[Elements], forward: Graph) -> Value:
    """The tape that a pullback of a loop is given, or that of a loop that it runs first."""
    count, carries = len(equation.params["wanted"]), len(equation.params["body"].output_types)
    if equation.params["trailed"]:
        found: Value = inputs[count][()]
        return found
    tape = walk.emitter.tape(forward.output_types[carries:], single=False)
    _while(walk, equation, inputs[:count], forward, tape)
    return tape


def _while_pullback(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    params = equation.params
    wanted, body, (first, constants) = params["wanted"], params["body"], params["counts"]
    halves = _while_halves(equation)
    inexact = [i for i, t in enumerate(body.output_types) if t.inexact]
    tape = _tape(walk, equation, inputs, halves.forward)
    given = inputs[len(wanted) + params["trailed"] :]
    types = halves.backward.input_types
    residuals = [walk.variables(t) for t in types[: len(types) - len(given)]]
    cts = walk.initialised(given, types[len(types) - len(given) :])
    totals = {
        i: walk.initialised([walk.zeros(t)], [t])[0]
        for i, t in enumerate(body.input_types[:constants])
        if wanted[first + i]
    }

    def step() -> None:
        results = walk.graph(halves.backward, [*residuals, *cts])
        found = dict(zip(halves.reached, results, strict=True))
        for i, total in totals.items():
            if i in found:
                dtype = body.input_types[i].dtype
                pairs = zip(total.reshape(-1), found[i].reshape(-1), strict=True)
                sums = [x if y.zero else walk.total((x, y), "add", dtype) for x, y in pairs]
                walk.assign([total], [np.array(sums, object)])  # which begin with 0.0
        new = [
            found[constants + i] if constants + i in found else walk.zeros(body.output_types[i])
            for i in inexact
        ]
        walk.assign(cts, new)

    walk.repeated(None, lambda: walk.emitter.unwind(tape, flattened(residuals), step))
    carry = dict(zip(inexact, cts, strict=True))
    result = [
        walk.zeros(a.type)
        for a, want in zip(equation.inputs[:first], wanted[:first], strict=True)
        if want
    ]
    result += totals.values()
    return result + [carry[i] for i, want in enumerate(wanted[first + constants :]) if want]


# --- scans ----------------------------------------------------------------------------------------


def _scan(walk: Scalariser, equation: Equation, inputs: list[Any]) -> list[Any]:
    params, emitter = equation.params, walk.emitter
    body, length, reverse = params["body"], params["length"], params["reverse"]
    constants, n = params["counts"]
    consts = [walk.whole(x) for x in inputs[:constants]]
    start, xs = inputs[constants : constants + n], inputs[constants + n :]
    carry = walk.initialised([walk.whole(x) for x in start], body.input_types[constants:][:n])
    types = body.output_types[n:]
    made = emitter.rows(length, types, reverse) if any(t.size for t in types) else None
    rows = [walk.variables(t) for t in body.input_types[constants + n :]]
    reads = _read_columns(walk, xs, rows, length)

    def step() -> None:
        results = walk.graph(body, [*consts, *carry, *rows])
        if emitter.long_arrays:
            results = [walk.whole(x) for x in results]
        if made is not None:
            emitter.append(made, flattened(results[n:]))
        walk.assign(carry, results[:n])

    walk.repeated(length, lambda: emitter.scan(length, reverse, reads, made, step))
    if made is not None:
        walk.cost += made.cost  # of long ones
    stacks: list[Any] = []
    column = 0
    for type_, output in zip(types, equation.outputs[n:], strict=True):
        if type_.size:
            stacks.append(Stack(made, output.type, column, type_.size))
        else:
            stacks.append(np.empty(output.type.shape, object))
        column += type_.size
    return [*carry, *stacks]


def _read_columns(
    walk: Scalariser, xs: Sequence[Any], rows: Sequence[Elements], length: int
) -> list[tuple[Any, list[Value | None]]]:
    """The Rows that a loop reads, each with the variables for its columns.

    None stands for a column that no one reads; one that is given twice has one variable.
    """
    found: dict[int, tuple[Any, list[Value | None]]] = {}
    for x, row in zip(xs, rows, strict=True):
        if not row.size:
            continue
        if isinstance(x, Stack):
            if x.axis:
                raise Unsupported("a loop across the rows of a stack")
            source, start = x.rows, x.start
        else:  # a small array
            source, start = walk.emitter.table(x.reshape(length, row.size), row.size), 0
        columns = found.setdefault(id(source), (source, [None] * source.width))[1]
        for column, place in enumerate(np.ndindex(row.shape), start):
            if columns[column] is None:
                columns[column] = row[place]
            row[place] = columns[column]
    return list(found.values())


# --- calls and branches ---------------------------------------------------------------------------


def _call(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    return walk.graph(equation.params["graph"], inputs)


def _branches(
    walk: Scalariser,
    equation: Equation,
    index: Elements,
    write: Callable[[Graph], Sequence[Elements]],
) -> list[Elements]:
    """One block for each branch, which assigns the outputs."""
    outputs = [walk.variables(output.type) for output in equation.outputs]

    def block(branch: Graph) -> None:
        walk.assign(outputs, write(branch))

    blocks = [functools.partial(block, branch) for branch in equation.params["branches"]]
    walk.emitter.branch(index[()], blocks)
    return outputs


def _switch(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    index, *operands = inputs
    return _branches(walk, equation, index, lambda branch: walk.graph(branch, operands))


def _switch_record(walk: Scalariser, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    index, *operands = inputs
    count = len(equation.outputs) - 1

    def write(branch: Graph) -> list[Elements]:
        forward = differentiate(branch, equation.params["wanted"][1:]).forward
        results = walk.graph(forward, operands)
        tape = walk.emitter.tape(forward.output_types[count:], single=True)
        walk.emitter.push(tape, flattened(results[count:]))
        return [*results[:count], boxed(tape)]

    return _branches(walk, equation, index, write)


def _switch_pullback(
    walk: Scalariser, equation: Equation, inputs: list[Elements]
) -> list[Elements]:
    wanted = equation.params["wanted"]
    trailed, count = equation.params["trailed"], len(wanted)
    index, given = inputs[0], inputs[count + trailed :]
    positions = [i for i, want in enumerate(wanted[1:]) if want]

    def write(branch: Graph) -> list[Elements]:
        halves = differentiate(branch, wanted[1:])
        types = halves.backward.input_types
        residuals = [walk.variables(t) for t in types[: len(types) - len(given)]]
        if residuals and trailed:
            walk.emitter.pop(inputs[count][()], flattened(residuals))
        elif residuals:
            residuals = walk.graph(halves.forward, inputs[1:count])[-len(residuals) :]
        results = walk.graph(halves.backward, [*residuals, *given])
        found = dict(zip(halves.reached, results, strict=True))
        return [
            found[k] if k in found else walk.zeros(output.type)
            for k, output in zip(positions, equation.outputs, strict=True)
        ]

    return _branches(walk, equation, index, write)


# --- the Graphs that they hold --------------------------------------------------------------------


def _whole(write: Write) -> Write:
    """A rule that reads all its inputs as elements."""
    return lambda walk, equation, inputs: write(walk, equation, [walk.whole(x) for x in inputs])


RULES: Mapping[Any, Structural] = {
    while_loop: Structural(
        _whole(_while_loop),
        lambda q: [(q.params["cond"], None), (q.params["body"], None)],
        loop=True,
    ),
    while_loop_record: Structural(
        _whole(_while_record),
        lambda q: [(q.params["cond"], None), (_while_halves(q).forward, None)],
        loop=True,
    ),
    while_loop_pullback: Structural(
        _whole(_while_pullback),
        lambda q: [
            (_while_halves(q).backward, None),
            *([] if q.params["trailed"] else RULES[while_loop_record].bodies(q)),
        ],
        loop=True,
        zeros=True,
    ),
    scan: Structural(_scan, lambda q: [(q.params["body"], max(q.params["length"], 1))], loop=True),
    call: Structural(_whole(_call), lambda q: [(q.params["graph"], 1)]),
    switch: Structural(_whole(_switch), lambda q: [(b, 1) for b in q.params["branches"]]),
    switch_record: Structural(
        _whole(_switch_record),
        lambda q: [
            (differentiate(b, q.params["wanted"][1:]).forward, 1) for b in q.params["branches"]
        ],
    ),
    switch_pullback: Structural(
        _whole(_switch_pullback),
        lambda q: [
            *[(differentiate(b, q.params["wanted"][1:]).backward, 1) for b in q.params["branches"]],
            *([] if q.params["trailed"] else RULES[switch_record].bodies(q)),
        ],
        zeros=True,
    ),
}
"""Of primitives that hold Graphs, how they are written."""

__all__ = ["RULES"]
