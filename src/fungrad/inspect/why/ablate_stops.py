"""ablate_stops: a function without some of its stop_gradients; cuts inside Graphs; savings.

A trace above those of the transforms passes stopped values on, and removes stops inside Graphs (of
jitted functions and loops). The savings of a stop are the equations, and the bytes of their
results, that reverse mode skips because of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fungrad.errors import ArgumentError
from fungrad.ir.graph import (
    Atom,
    Equation,
    Graph,
    Source,
    Variable,
    graphs_of,
    inner_graphs,
    with_graphs,
)
from fungrad.primitives.stop_gradient import stop, stop_order
from fungrad.retracing.graph_transforms import memoised
from fungrad.retracing.inlining import copied, renamed
from fungrad.support import pytree
from fungrad.tracing.source_location import describe
from fungrad.tracing.trace import Trace, Tracer, current
from fungrad.tracing.transformed_function import TransformedFunction

Names = frozenset[str] | None
"""The names of stops; None for all stops, named or not."""


def is_stop(primitive: Any) -> bool:
    """Whether a primitive is stop_gradient, of any order."""
    return primitive is stop or primitive is stop_order


def stops_in(graph: Graph) -> Iterator[Equation]:
    """The stops of a Graph and of the Graphs in it."""
    for equation in graph.equations:
        if is_stop(equation.primitive):
            yield equation
    for inner in graph.subgraphs():
        yield from stops_in(inner)


def without_stops(graph: Graph, names: Names) -> Graph:
    """The Graph with the stops of these names replaced by their operands."""
    if not any(names is None or e.params["name"] in names for e in stops_in(graph)):
        return graph
    result: Graph = memoised(graph, ("without_stops", names), lambda: _without(graph, names))
    return result


def _without(graph: Graph, names: Names) -> Graph:
    names_now: dict[Atom, Atom] = {}
    equations = []
    for equation in graph.equations:
        inputs = renamed(equation.inputs, names_now)
        if is_stop(equation.primitive) and (names is None or equation.params["name"] in names):
            names_now[equation.outputs[0]] = inputs[0]
            continue
        params = with_graphs(equation.params, lambda inner: without_stops(inner, names))
        equations.append(copied(equation, inputs, equation.outputs, params))
    return graph.replace(equations=tuple(equations), outputs=renamed(graph.outputs, names_now))


class AblateTrace(Trace):
    """Passes all to the trace below except the stops, which it replaces by their operands."""

    __slots__ = ("met", "names")

    def __init__(self, parent: Trace, label: Callable[[], str], names: Names) -> None:
        super().__init__(parent, label)
        self.names = names
        self.met: set[str | None] = set()

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        if is_stop(primitive):
            self.met.add(params["name"])
            if self.names is None or params["name"] in self.names:
                return args[0]
        graphs = list(graphs_of(params))
        if graphs:
            self.met |= {e.params["name"] for graph in graphs for e in stops_in(graph)}
            params = with_graphs(params, lambda inner: without_stops(inner, self.names))
        parent: Trace = self.parent  # type: ignore[assignment]
        return parent.process(primitive, args, params)


def ablate_stops(
    f: Callable[..., Any], names: str | Sequence[str] | None = None
) -> Callable[..., Any]:
    """A function without some of its stops, so that its gradient can be compared.

    >>> import fungrad as fg
    >>> def f(x):
    ...     return x * fg.stop_gradient(x, "weight")
    >>> float(fg.grad(f)(3.0)), float(fg.grad(fg.ablate_stops(f, "weight"))(3.0))
    (3.0, 6.0)

    Args:
      f: a function with `fg.stop_gradient(x, name)` or `with fg.no_gradient(name)` in it, also
        inside of jitted functions, branches and loops.
      names: the names of the stops to remove; by default all, with or without a name.

    Returns:
      A function with f's arguments and values, and the derivatives of f without these stops.
      (Gradients that f itself takes keep them.)

    Raises:
      ArgumentError: when it is differentiated or staged, and f has no stop of one of the names.
    """
    wanted = None if names is None else frozenset([names] if isinstance(names, str) else names)

    def run(*args: Any, **kwargs: Any) -> Any:
        trace = AblateTrace(current(), lambda: f"ablate_stops of {describe(f)}", wanted)
        result = trace.run(lambda: f(*args, **kwargs))
        traced = any(type(leaf) is Tracer for leaf in pytree.leaves((args, kwargs)))
        missing = sorted((wanted or frozenset()) - trace.met)
        if traced and missing:
            known = ", ".join(sorted(repr(name) for name in trace.met)) or "none"
            raise ArgumentError(
                f"{describe(f)} reaches no stop named {missing[0]!r} with these arguments; "
                f"its stops are: {known}."
            )
        return result

    return TransformedFunction(run, ablate_stops, f, names)


def inner_cuts(equation: Equation, position: int) -> list[Equation]:
    """The equations inside a structural equation that cut off its argument at a position."""
    stops: dict[Equation, None] = {}
    for graph, start, carried in _graphs(equation, position):
        flags = [i == start for i in range(len(graph.inputs))]
        while True:
            cuts, live = _followed(graph, flags)
            stops.update(dict.fromkeys(cuts))
            now = [f or (i in carried and live[carried[i]]) for i, f in enumerate(flags)]
            if now == flags:
                break
            flags = now
    return list(stops)


def _graphs(equation: Equation, position: int) -> Iterator[tuple[Graph, int, dict[int, int]]]:
    """Each Graph that reads the argument, with the argument's input number and the map from
    carried inputs to outputs.
    """
    params: dict[str, Any] = equation.params
    if "branches" in params:
        yield from ((branch, position - 1, {}) for branch in params["branches"] if position)
    elif "cond" in params:
        body, (first, consts) = params["body"], params["counts"]
        if position >= first:
            yield body, position - first, {consts + i: i for i in range(len(body.outputs))}
    elif "counts" in params:
        consts, n = params["counts"]
        yield params["body"], position, {consts + i: i for i in range(n)}
    else:
        yield from ((g, position, {}) for g in inner_graphs(equation) if position < len(g.inputs))


def _followed(graph: Graph, flags: list[bool]) -> tuple[list[Equation], list[bool]]:
    """The cuts reached from some inputs, and flags of the outputs that depend on them
    differentiably.
    """
    live = {v for v, f in zip(graph.inputs, flags, strict=True) if f and v.type.inexact}
    cuts: list[Equation] = []
    for equation in graph.equations:
        at = [i for i, atom in enumerate(equation.inputs) if atom in live]
        if not at:
            continue
        if any(True for _ in inner_graphs(equation)):
            for i in at:
                cuts += inner_cuts(equation, i)
        lost = equation.primitive.cuts
        through = [i for i in at if lost is not True and i not in (lost or ())]
        if len(through) < len(at):
            cuts.append(equation)
        if through:
            live.update(v for v in equation.outputs if v.type.inexact)
    return cuts, [atom in live for atom in graph.outputs]


class Stop(NamedTuple):
    """One stop of a function, and the equations and bytes that it saves."""

    name: str | None
    source: Source | None
    equations: int
    nbytes: int


class _Way(NamedTuple):
    """Flags of a Graph's differentiated outputs; the equations and bytes on the way to them."""

    outputs: list[bool]
    equations: int
    nbytes: int


def stops_of(graph: Graph, active: Sequence[bool]) -> list[Stop]:
    """Each name of a stop in a Graph, with the equations and bytes that it alone saves.

    `active` flags the differentiated inputs. Unnamed stops count as one, and are left out if they
    save nothing (vmap inserts some itself).
    """
    sources: dict[str | None, Source | None] = {}
    for equation in stops_in(graph):
        sources.setdefault(equation.params["name"], equation.source)
    before = _way(graph, active)
    result = []
    for name, source in sources.items():
        names: Names = frozenset([name])  # type: ignore[list-item]
        after = _way(without_stops(graph, names), active)
        saved = (after.equations - before.equations, after.nbytes - before.nbytes)
        if name is not None or saved[0]:
            result.append(Stop(name, source, *saved))
    return result


def _way(graph: Graph, active: Sequence[bool]) -> _Way:
    live = {v for v, a in zip(graph.inputs, active, strict=True) if a and v.type.inexact}
    inner: dict[Equation, tuple[int, int]] = {}
    for equation in graph.equations:
        flags = [isinstance(a, Variable) and a in live for a in equation.inputs]
        outputs, count, nbytes = _outputs(equation, flags)
        inner[equation] = (count, nbytes)
        live.update(
            v for v, o in zip(equation.outputs, outputs, strict=True) if o and v.type.inexact
        )
    outputs = [atom in live for atom in graph.outputs]
    needed = {atom for atom in graph.outputs if atom in live}
    total = size = 0
    for equation in reversed(graph.equations):
        if needed.isdisjoint(equation.outputs):
            continue
        needed.update(a for a in equation.inputs if a in live)
        count, nbytes = inner[equation]
        total += count
        size += nbytes
    return _Way(outputs, total, size)


def _outputs_of_loop(params: dict[str, Any], flags: list[bool]) -> _Way:
    """As `_outputs`, of a scan or while loop: flags of its carries grow from step to step."""
    body, counts = params["body"], params["counts"]
    if "cond" in params:
        flags = flags[counts[0] :]
        start, carry = counts[1], len(body.outputs)
    else:
        start, carry = counts
    while True:
        way = _way(body, flags)
        now = list(flags)
        for i in range(carry):
            now[start + i] = now[start + i] or way.outputs[i]
        if now == flags:
            break
        flags = now
    outputs = [o or f for o, f in zip(way.outputs[:carry], flags[start:], strict=False)]
    length = int(params.get("length", 1))
    return _Way([*outputs, *way.outputs[carry:]], way.equations, way.nbytes * length)


def _outputs(equation: Equation, flags: list[bool]) -> _Way:
    """Flags of an equation's differentiated outputs, and the equations and bytes it counts for."""
    params: dict[str, Any] = equation.params
    graphs = list(inner_graphs(equation))
    if not any(flags):
        return _Way([False] * len(equation.outputs), 0, 0)
    if params.get("counts") is not None and "body" in params:
        return _outputs_of_loop(params, flags)
    if "branches" in params:
        ways = [_way(branch, flags[1:]) for branch in graphs]
        outputs = [any(flags) for flags in zip(*[w.outputs for w in ways], strict=True)]
        return _Way(outputs, max(w.equations for w in ways), max(w.nbytes for w in ways))
    if len(graphs) == 1 and len(graphs[0].inputs) == len(flags) and "graph" in params:
        return _way(graphs[0], flags)
    cuts = equation.primitive.cuts
    if cuts is True or not any(f and i not in (cuts or ()) for i, f in enumerate(flags)):
        return _Way([False] * len(equation.outputs), 0, 0)
    nbytes = sum(v.type.nbytes for v in equation.outputs)
    return _Way([True] * len(equation.outputs), 1, nbytes)
