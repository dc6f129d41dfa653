"""Rules for loops, branches and calls, and their forward and backward halves, for all walks.

The scalarising walk has a Number for each element, the walk of exported source (source_export) one
for each array. A walk decides which rows a scan reads and makes; an emitter writes the statements.
The residuals of loops of unknown length are records on a tape.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from fungrad.compiler.loop_ir.names import Names
from fungrad.compiler.scalar.array_walk import ArrayControlFlow
from fungrad.compiler.scalar.emitter import Elements, Number, boxed, flattened
from fungrad.compiler.scalar.planning import Structural, Write
from fungrad.compiler.scalar.structural import installed
from fungrad.control_flow.call import call
from fungrad.control_flow.loop_bodies import body_counts, halves_of
from fungrad.control_flow.reverse_with_tape import parted
from fungrad.control_flow.scan import scan
from fungrad.control_flow.switch import switch, switch_pullback, switch_record
from fungrad.control_flow.while_loop import while_loop, while_loop_pullback, while_loop_record
from fungrad.ir.graph import Equation, Graph
from fungrad.retracing.graph_transforms import Differentiated, differentiate, pullback_graph


class Walk(Protocol):
    """The methods of a walk that the rules call; Scalariser documents them."""

    @property
    def emitter(self) -> Any: ...

    def graph(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]: ...

    def repeated(self, length: int | None, write: Callable[[], None]) -> None: ...

    def variables(self, type_: Any) -> Elements: ...

    def zeros(self, type_: Any) -> Elements: ...

    def whole(self, value: Any) -> Elements: ...

    def initialised(self, values: Sequence[Any], types: Sequence[Any]) -> list[Elements]: ...

    def assign(self, variables: Sequence[Elements], values: Sequence[Any]) -> None: ...

    def accumulate(self, total: Elements, part: Elements, dtype: Any) -> None: ...

    def reads(self, xs: Sequence[Any], rows: Sequence[Elements], length: int) -> Any: ...

    def stacks(self, made: Any, types: Sequence[Any]) -> list[Any]: ...


# --- loops of unknown length ----------------------------------------------------------------------


def _while(
    walk: Walk, equation: Equation, inputs: list[Elements], recorded: bool = False
) -> list[Elements]:
    """A loop. If `recorded`, its forward half pushes the residuals of each step to a tape, the last
    result.
    """
    params, emitter = equation.params, walk.emitter
    body = _while_halves(equation).forward if recorded else params["body"]
    first, second = params["counts"]
    cond_consts, body_consts = inputs[:first], inputs[first : first + second]
    carry = walk.initialised(inputs[first + second :], body.input_types[second:])
    n = len(carry)
    tapes = [emitter.tape(body.output_types[n:], single=False)] if recorded else []

    def condition() -> Number:
        (go,) = walk.graph(params["cond"], [*cond_consts, *carry])
        holds: Number = go[()]
        return holds

    def step() -> None:
        results = walk.graph(body, [*body_consts, *carry])
        for tape in tapes:
            emitter.push(tape, flattened(results[n:]))
        walk.assign(carry, results[:n])

    walk.repeated(None, lambda: emitter.while_loop(condition, step))
    return [*carry, *map(boxed, tapes)]


def _while_halves(equation: Equation) -> Differentiated:
    params = equation.params
    first, counts = body_counts(params)
    return halves_of(params["body"], counts, params["wanted"][first:]).of


def _while_record(walk: Walk, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    return _while(walk, equation, inputs, recorded=True)


def _while_pullback(walk: Walk, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    params = equation.params
    wanted, body, (first, constants) = params["wanted"], params["body"], params["counts"]
    halves = _while_halves(equation)
    inexact = [i for i, t in enumerate(body.output_types) if t.inexact]
    args, tape, given = parted(inputs, wanted, params["taped"])
    if tape is None:
        tape = _while(walk, equation, args, recorded=True)[-1]
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
        by_slot = dict(zip(halves.reached, results, strict=True))
        for i, total in totals.items():
            if i in by_slot:
                walk.accumulate(total, by_slot[i], body.input_types[i].dtype)
        new = [
            by_slot[constants + i] if constants + i in by_slot else walk.zeros(body.output_types[i])
            for i in inexact
        ]
        walk.assign(cts, new)

    walk.repeated(None, lambda: walk.emitter.unwind(tape[()], flattened(residuals), step))
    carry = dict(zip(inexact, cts, strict=True))
    result = [
        walk.zeros(a.type)
        for a, want in zip(equation.inputs[:first], wanted[:first], strict=True)
        if want
    ]
    result += totals.values()
    return result + [carry[i] for i, want in enumerate(wanted[first + constants :]) if want]


# --- scans ----------------------------------------------------------------------------------------


def _scan(walk: Walk, equation: Equation, inputs: list[Any]) -> list[Any]:
    params, emitter = equation.params, walk.emitter
    body, length, reverse = params["body"], params["length"], params["reverse"]
    constants, n = params["counts"]
    consts = [walk.whole(x) for x in inputs[:constants]]
    start, xs = inputs[constants : constants + n], inputs[constants + n :]
    carry = walk.initialised([walk.whole(x) for x in start], body.input_types[constants:][:n])
    types = body.output_types[n:]
    made = emitter.rows(length, types, reverse) if any(t.size for t in types) else None
    rows = [walk.variables(t) for t in body.input_types[constants + n :]]
    reads = walk.reads(xs, rows, length)

    def step() -> None:
        results = walk.graph(body, [*consts, *carry, *rows])
        if emitter.long_arrays:
            results = [walk.whole(x) for x in results]
        if made is not None:
            emitter.append(made, flattened(results[n:]))
        walk.assign(carry, results[:n])

    walk.repeated(length, lambda: emitter.scan(length, reverse, reads, made, step))
    return [*carry, *walk.stacks(made, [v.type for v in equation.outputs[n : n + len(types)]])]


# --- calls and branches ---------------------------------------------------------------------------


def _call(walk: Walk, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    return walk.graph(equation.params["graph"], inputs)


def _branches(
    walk: Walk,
    equation: Equation,
    index: Elements,
    write: Callable[[Graph], Sequence[Elements]],
) -> list[Elements]:
    """Writes a block for each branch, which assigns the outputs."""
    outputs = [walk.variables(output.type) for output in equation.outputs]

    def block(branch: Graph) -> None:
        walk.assign(outputs, write(branch))

    blocks = [functools.partial(block, branch) for branch in equation.params["branches"]]
    walk.emitter.branch(index[()], blocks)
    return outputs


def _switch(walk: Walk, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    index, *operands = inputs
    return _branches(walk, equation, index, lambda branch: walk.graph(branch, operands))


def _switch_record(walk: Walk, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    index, *operands = inputs
    count = len(equation.outputs) - 1

    def write(branch: Graph) -> list[Elements]:
        forward = differentiate(branch, equation.params["wanted"][1:]).forward
        results = walk.graph(forward, operands)
        tape = walk.emitter.tape(forward.output_types[count:], single=True)
        walk.emitter.push(tape, flattened(results[count:]))
        return [*results[:count], boxed(tape)]

    return _branches(walk, equation, index, write)


def _switch_pullback(walk: Walk, equation: Equation, inputs: list[Elements]) -> list[Elements]:
    wanted = equation.params["wanted"]
    (index, *operands), tape, given = parted(inputs, wanted, equation.params["taped"])

    def write(branch: Graph) -> list[Elements]:
        if tape is None:
            return walk.graph(pullback_graph(branch, wanted[1:]), [*operands, *given])
        halves = differentiate(branch, wanted[1:])
        types = halves.backward.input_types
        residuals = [walk.variables(t) for t in types[: len(types) - len(given)]]
        if residuals:
            walk.emitter.pop(tape[()], flattened(residuals))
        results = walk.graph(halves.backward, [*residuals, *given])
        return _spread(walk, branch, wanted[1:], halves.reached, results)

    return _branches(walk, equation, index, write)


def _spread(
    walk: Walk, graph: Graph, wanted: Sequence[bool], reached: Sequence[int], results: list[Any]
) -> list[Elements]:
    """The cotangents of all wanted inputs, zeros for those that no cotangent reaches."""
    by_slot = dict(zip(reached, results, strict=True))
    return [
        by_slot[i] if i in by_slot else walk.zeros(t)
        for i, t in enumerate(graph.input_types)
        if wanted[i]
    ]


# --- the Graphs that they hold --------------------------------------------------------------------


class _Nameless:
    """The names of a program that is not printed."""

    def __getattr__(self, kind: str) -> Callable[..., str]:
        return lambda *_: ""


class _Bodies(ArrayControlFlow):
    """Lists the Graphs that a rule writes, and how often each runs; None if that is unknown."""

    def __init__(self) -> None:
        super().__init__(cast(Names, _Nameless()))
        self.found: list[tuple[Graph, int | None]] = []
        self._times: int | None = 1

    def graph(self, graph: Graph, inputs: Sequence[Elements]) -> list[Elements]:
        self.found.append((graph, self._times))
        return [self.variables(type_) for type_ in graph.output_types]

    def repeated(self, length: int | None, write: Callable[[], None]) -> None:
        self._times = None if length is None else max(length, 1)
        write()
        self._times = 1


def _rule(write: Write, loop: bool = False, tape: bool = False) -> Structural:
    def bodies(equation: Equation) -> list[tuple[Graph, int | None]]:
        walk = _Bodies()
        write(walk, equation, [walk.variables(a.type) for a in equation.inputs])
        return walk.found

    return Structural(write, bodies, loop, tape)


def _whole(write: Write) -> Write:
    """A rule whose inputs are all elements, no Stacks."""
    return lambda walk, equation, inputs: write(walk, equation, [walk.whole(x) for x in inputs])


RULES: Mapping[Any, Structural] = {
    while_loop: _rule(_whole(_while), loop=True),
    while_loop_record: _rule(_whole(_while_record), loop=True, tape=True),
    while_loop_pullback: _rule(_whole(_while_pullback), loop=True, tape=True),
    scan: _rule(_scan, loop=True),
    call: _rule(_whole(_call)),
    switch: _rule(_whole(_switch)),
    switch_record: _rule(_whole(_switch_record), tape=True),
    switch_pullback: _rule(_whole(_switch_pullback), tape=True),
}
"""The rules of primitives that hold Graphs."""

installed.rules = RULES
installed.complete = True
