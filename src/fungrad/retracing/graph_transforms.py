"""Transforms of Graphs into Graphs. Each result is made once, and kept on the original Graph.

The reverse mode of a Graph is one joint trace of its outputs and its pullback, split in two:
equations that do not depend on the cotangents are the forward Graph, whose extra outputs are the
residuals; the rest is the backward Graph.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from fungrad.ir.graph import Atom, Equation, Graph, Variable, effectful
from fungrad.ir.types import Type
from fungrad.primitives.movement.reshape_broadcast_cast import with_batch
from fungrad.primitives.primitive import zeros
from fungrad.support.lazy import Record
from fungrad.tracing.graph_trace import stage
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.trace import Tracer
from fungrad.transforms.engine.batching import batched_call
from fungrad.transforms.engine.forward import pushed_forward
from fungrad.transforms.engine.reverse import linearized


class Differentiated(Record):
    """The two halves of the reverse mode of a Graph.

    forward: inputs -> (outputs, residuals). backward: (residuals, cotangents of the inexact
    outputs) -> the cotangents of the inputs at the positions `reached`, which the outputs depend
    on.
    """

    forward: Graph
    backward: Graph
    reached: tuple[int, ...]


class Pushed(Record):
    """The forward mode of a Graph: (inputs, tangents of the moved inputs) -> (outputs, tangents).

    `moving` are the positions of the outputs whose tangents it returns.
    """

    graph: Graph
    moving: tuple[int, ...]


class Batched(Record):
    """A Graph of a batch; `flags` tells which outputs have the batch axis (as axis 0)."""

    graph: Graph
    flags: tuple[bool, ...]


def memoised(graph: Graph, key: Hashable, make: Callable[[], Any]) -> Any:
    """Memoises `make` on a Graph, under a key. If threads make it at once, all get the same."""
    if key not in graph.derived:
        graph.derived.setdefault(key, make())
    return graph.derived[key]


def strong_type(type_: Type) -> Type:
    """The Type of tangents and cotangents of values of a Type: never weak."""
    return Type(type_.shape, type_.dtype)


def _stage(f: Callable[..., Any], types: Sequence[Type], graph: Graph, what: str) -> Graph:
    names = [f"input {i}" for i in range(len(types))]
    label = f"{what} of {graph.name or 'a graph'}"
    return stage(f, types, names, lambda: label, graph.name).choosing_as(graph)


def differentiate(graph: Graph, wanted: Sequence[bool]) -> Differentiated:
    """The reverse mode of a Graph with respect to the wanted inputs, which are inexact."""
    key = ("reverse", tuple(map(bool, wanted)))
    result: Differentiated = memoised(graph, key, lambda: _differentiate(graph, key[1]))
    return result


def _differentiate(graph: Graph, wanted: Sequence[bool]) -> Differentiated:
    whole, reached = joint(graph, wanted)
    return split(whole, len(graph.inputs), len(graph.outputs), reached)


def joint(graph: Graph, wanted: Sequence[bool]) -> tuple[Graph, tuple[int, ...]]:
    """One Graph of the outputs and their pullback: (inputs, cotangents) -> (outputs, cotangents).

    Also returns the positions of the inputs whose cotangents it has.
    """
    active = [i for i, want in enumerate(wanted) if want]
    cotangent_types = [strong_type(t) for t in graph.output_types if t.inexact]
    reached: list[int] = []

    def both(*values: Any) -> list[Any]:
        inputs = list(values[: len(graph.inputs)])
        given = iter(values[len(graph.inputs) :])

        def f(*xs: Any) -> list[Any]:
            merged = list(inputs)
            for i, x in zip(active, xs, strict=True):
                merged[i] = x
            return evaluate(graph, merged)

        outputs, pullback = linearized(
            f, [inputs[i] for i in active], lambda: f"grad of {graph.name}"
        )
        cotangents = pullback([next(given) if t.inexact else None for t in graph.output_types])
        known = [(i, c) for i, c in zip(active, cotangents, strict=True) if c is not None]
        reached.extend(i for i, _ in known)
        return [*outputs, *(c for _, c in known)]

    whole = _stage(both, [*graph.input_types, *cotangent_types], graph, "the gradient")
    return whole, tuple(reached)


def pullback_graph(graph: Graph, wanted: Sequence[bool]) -> Graph:
    """The pullback of a Graph, which computes what it needs of the outputs again: (inputs,
    cotangents of the inexact outputs) -> the cotangents of the wanted inputs.
    """

    def make() -> Graph:
        whole, reached = joint(graph, wanted)

        def f(*values: Any) -> list[Any]:
            cotangents = evaluate(whole, values)[len(graph.outputs) :]
            by_input = dict(zip(reached, cotangents, strict=True))
            return [
                by_input[i] if i in by_input else zeros(strong_type(t))
                for i, t in enumerate(graph.input_types)
                if wanted[i]
            ]

        return drop_dead(_stage(f, whole.input_types, graph, "the pullback"))

    result: Graph = memoised(graph, ("pullback", tuple(map(bool, wanted))), make)
    return result


def single_equation(primitive: Any, types: Sequence[Type], params: dict[str, Any]) -> Graph:
    """The Graph of one equation, a function of all its inputs."""
    inputs = tuple(map(Variable, types))
    outputs = tuple(map(Variable, primitive.infer(types, params)))
    return Graph(
        inputs, (), (Equation(primitive, inputs, outputs, params),), outputs, primitive.name
    )


def split(
    whole: Graph,
    inputs: int,
    outputs: int,
    reached: tuple[int, ...],
    saved: Callable[[Sequence[Equation]], set[Equation]] | None = None,
) -> Differentiated:
    """Splits a joint Graph by dependence on the cotangents, its inputs after the first `inputs`.

    `saved` returns the forward equations whose outputs may be residuals; the backward
    Graph recomputes other values that it needs. Without `saved` all may be residuals.

    Between scans, which copy residuals into stacks, a minimum cut chooses them afterwards. The
    tapes of other loops and of branches hold the arrays themselves: a cut there took 0.3 to 0.7 of
    the memory, but 1.5 to 2 times as long on arrays of 1,000 elements, and 0.8 to 1.4 on 20,000
    (van der Pol by Runge-Kutta, a damped iteration, a branch in a loop). `checkpoint=` saves more.
    """
    tainted = set(whole.inputs[inputs:])
    first: list[Equation] = []
    second: list[Equation] = []
    for equation in whole.equations:
        if any(atom in tainted for atom in equation.inputs):
            tainted.update(equation.outputs)
            second.append(equation)
        else:
            first.append(equation)
    known = {v for v, _ in whole.constants} | tainted
    if saved is not None:
        chosen = saved(first)
        again = [e for e in first if e not in chosen and not effectful(e)]
        known.update(v for equation in again for v in equation.outputs)
        ends = whole.outputs[outputs:]
        second = list(drop_dead(Graph((), (), (*again, *second), ends)).equations)
    used = [*[a for e in second for a in e.inputs], *whole.outputs[outputs:]]
    read = dict.fromkeys([a for a in used if isinstance(a, Variable)])
    kept_values = tuple([variable for variable in read if variable not in known])
    forward = drop_dead(
        whole.replace(
            inputs=whole.inputs[:inputs],
            equations=tuple(first),
            outputs=(*whole.outputs[:outputs], *kept_values),
        )
    )
    backward = drop_dead(
        whole.replace(
            inputs=(*kept_values, *whole.inputs[inputs:]),
            equations=tuple(second),
            outputs=whole.outputs[outputs:],
        )
    )
    return Differentiated(forward, backward, reached)


def split_at(values: Sequence[Any], widths: Sequence[int]) -> list[list[Any]]:
    """Splits values into groups of the given sizes."""
    result = []
    start = 0
    for width in widths:
        result.append(list(values[start : start + width]))
        start += width
    return result


def drop_dead(graph: Graph) -> Graph:
    """The Graph without equations and constants that no output depends on."""
    live = live_values(graph.equations, graph.outputs)
    equations = [e for e in graph.equations if _is_live(e, live)]
    constants = tuple([(v, value) for v, value in graph.constants if v in live])
    return graph.replace(constants=constants, equations=tuple(equations))


def live_values(equations: Sequence[Equation], outputs: Iterable[Atom]) -> set[Atom]:
    """The values that outputs of some equations, or their effects, depend on."""
    live = set(outputs)
    for equation in reversed(equations):
        if _is_live(equation, live):
            live.update(equation.inputs)
    return live


def _is_live(equation: Equation, live: set[Atom]) -> bool:
    return not live.isdisjoint(equation.outputs) or effectful(equation)


def jvp_graph(graph: Graph, moved: Sequence[bool]) -> Pushed:
    """The forward mode of a Graph with tangents of the moved inputs, which are inexact."""
    key = ("forward", tuple(map(bool, moved)))
    result: Pushed = memoised(graph, key, lambda: _push(graph, key[1]))
    return result


def _push(graph: Graph, moved: Sequence[bool]) -> Pushed:
    moving: list[int] = []
    tangent_types = [strong_type(t) for t, m in zip(graph.input_types, moved, strict=True) if m]

    def f(*values: Any) -> list[Any]:
        given = iter(values[len(graph.inputs) :])
        tangents = [next(given) if m else None for m in moved]
        outputs, pushed = pushed_forward(
            lambda *xs: evaluate(graph, xs), values[: len(graph.inputs)], tangents,
            lambda: f"jvp of {graph.name}",
        )  # fmt: skip
        moving.extend(i for i, t in enumerate(pushed) if t is not None)
        return [*outputs, *(t for t in pushed if t is not None)]

    whole = _stage(f, [*graph.input_types, *tangent_types], graph, "the derivative")
    return Pushed(whole, tuple(moving))


def batch(
    graph: Graph,
    batched: Sequence[bool],
    size: int,
    all_outputs: bool | tuple[bool, ...] = False,
) -> Batched:
    """A Graph of a batch of `size`. An output that does not depend on batched inputs gets the batch
    axis only if `all_outputs`, or its entry for the output, is True.
    """
    key = ("batch", tuple(batched), size, all_outputs)
    result: Batched = memoised(graph, key, lambda: _batch(graph, key[1], size, all_outputs))
    return result


def _batch(
    graph: Graph, batched: Sequence[bool], size: int, all_outputs: bool | tuple[bool, ...]
) -> Batched:
    flags: list[bool] = []
    types = [
        Type((size, *t.shape), t.dtype) if b else t
        for t, b in zip(graph.input_types, batched, strict=True)
    ]

    def f(*values: Any) -> list[Any]:
        outputs, found = batched_call(
            lambda *xs: evaluate(graph, xs), values, batched, size, lambda: f"vmap of {graph.name}"
        )
        asked = [all_outputs] * len(found) if isinstance(all_outputs, bool) else all_outputs
        flags.extend(b or a for b, a in zip(found, asked, strict=True))
        return [
            with_batch(x, b or not f, size) for x, b, f in zip(outputs, found, flags, strict=True)
        ]

    return Batched(_stage(f, types, graph, "vmap"), tuple(flags))


def stage_variant(
    graph: Graph, key: Hashable, types: Sequence[Type], f: Callable[..., Any], what: str
) -> Graph:
    """A Graph staged from `f`, which evaluates `graph` under a transform; memoised under a key."""
    result: Graph = memoised(graph, key, lambda: _stage(f, types, graph, what))
    return result


def reaches(graph: Graph, moved: Sequence[bool]) -> list[bool]:
    """Whether each output may depend differentiably on the given inputs. Inner Graphs are not
    examined, so that some outputs may be included needlessly.
    """
    live = {v for v, m in zip(graph.inputs, moved, strict=True) if m}
    for equation in graph.equations:
        cuts: Any = equation.primitive.cuts
        if cuts is True:
            continue
        if any(a in live and i not in cuts for i, a in enumerate(equation.inputs)):
            live.update(v for v in equation.outputs if v.type.inexact)
    return [atom in live for atom in graph.outputs]


def fixed_point_over_carry(
    graph: Graph,
    moved: Sequence[bool],
    carry: range,
    step: Callable[[Graph, Sequence[bool]], Sequence[bool]],
) -> list[bool]:
    """Which inputs of a loop's body have a property, when its outputs are the next carry: the least
    fixed point.

    `carry` are the positions of the carry among the inputs; `step` tells which outputs have the
    property if given inputs have it (`reaches`, or whether they are batched).
    """
    state = list(moved)
    while True:
        grown = step(graph, state)
        new = list(state)
        for position, has in zip(carry, grown, strict=False):
            new[position] = state[position] or bool(has)
        if new == state:
            return state
        state = new


def closed(graph: Graph) -> tuple[Graph, list[Any]]:
    """A Graph with its traced constants as its first inputs, and their values."""
    captured = [(v, value) for v, value in graph.constants if type(value) is Tracer]
    if not captured:
        return graph, []
    rest = tuple([(v, value) for v, value in graph.constants if type(value) is not Tracer])
    inputs = (*(v for v, _ in captured), *graph.inputs)
    return graph.replace(inputs=inputs, constants=rest), [x for _, x in captured]
