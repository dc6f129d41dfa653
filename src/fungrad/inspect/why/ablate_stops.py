"""ablate_stops, a function without some of its stop_gradients.

A trace above those of the transforms hands a stopped value on as it is; stops inside of Graphs (of
jitted functions and loops) are taken out of the Graph. Knows the primitives of stopping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fungrad.errors import ArgumentError
from fungrad.ir.graph import Atom, Equation, Graph
from fungrad.primitives.stop_gradient import stop, stop_order
from fungrad.retracing.graph_transforms import kept
from fungrad.support import pytree
from fungrad.tracing.source_location import describe
from fungrad.tracing.trace import Trace, Tracer, current
from fungrad.tracing.transformed_function import Transformed

Names = frozenset[str] | None
"""The stops that are meant; None for all, named or not."""


def is_stop(primitive: Any) -> bool:
    """Whether a primitive is stop_gradient, of whatever order."""
    return primitive is stop or primitive is stop_order


def stops_in(graph: Graph) -> Iterator[Equation]:
    """The stops of a Graph and of the Graphs in it."""
    for equation in graph.equations:
        if is_stop(equation.primitive):
            yield equation
    for inner in graph.subgraphs():
        yield from stops_in(inner)


def without_stops(graph: Graph, names: Names) -> Graph:
    """The Graph with the value that is stopped in the place of each stop that is meant."""
    if not any(names is None or e.params["name"] in names for e in stops_in(graph)):
        return graph
    result: Graph = kept(graph, ("without_stops", names), lambda: _without(graph, names))
    return result


def _without(graph: Graph, names: Names) -> Graph:
    renamed: dict[int, Atom] = {}

    def now(atoms: Sequence[Atom]) -> tuple[Atom, ...]:
        return tuple(renamed.get(id(atom), atom) for atom in atoms)

    equations = []
    for equation in graph.equations:
        inputs = now(equation.inputs)
        if is_stop(equation.primitive) and (names is None or equation.params["name"] in names):
            renamed[id(equation.outputs[0])] = inputs[0]
            continue
        params = {key: _inside(value, names) for key, value in equation.params.items()}
        equations.append(
            Equation(
                equation.primitive, inputs, equation.outputs, params, equation.source,
                equation.scope, equation.backward,
            )
        )  # fmt: skip
    return graph.replace(equations=tuple(equations), outputs=now(graph.outputs))


def _inside(value: Any, names: Names) -> Any:
    if isinstance(value, Graph):
        return without_stops(value, names)
    if isinstance(value, tuple) and any(isinstance(item, Graph) for item in value):
        return tuple(_inside(item, names) for item in value)
    return value


class AblateTrace(Trace):
    """Lets all pass to the trace below but the stops, whose values it hands on."""

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
        found: list[Graph] = []
        for value in params.values():
            items = value if isinstance(value, tuple) else (value,)
            found += [item for item in items if isinstance(item, Graph)]
        if found:
            self.met |= {e.params["name"] for graph in found for e in stops_in(graph)}
            params = {key: _inside(value, self.names) for key, value in params.items()}
        parent: Trace = self.parent  # type: ignore[assignment]
        return parent.process(primitive, args, params)


def ablate_stops(
    f: Callable[..., Any], names: str | Sequence[str] | None = None
) -> Callable[..., Any]:
    """A function without some of its stops, so that its gradient can be compared.

    Args:
      f: a function with `fg.stop_gradient(x, name)` or `with fg.no_gradient(name)` in it, also
        inside of jitted functions, branches and loops.
      names: the names of the stops to remove; by default all, with or without a name.

    Returns:
      A function with f's arguments, the same values, and the derivatives that there were without
      these stops. (A gradient that f itself takes is taken with them.)

    Raises:
      ArgumentError: when it is differentiated or staged, and f has no stop of one of the names.

    >>> import fungrad as fg
    >>> def f(x):
    ...     return x * fg.stop_gradient(x, "weight")
    >>> float(fg.grad(f)(3.0)), float(fg.grad(fg.ablate_stops(f, "weight"))(3.0))
    (3.0, 6.0)
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
                f"{describe(f)} has no stop named {missing[0]!r} on the way of these arguments; "
                f"its stops are: {known}."
            )
        return result

    return Transformed(run, ablate_stops, f, names)


__all__ = ["ablate_stops", "is_stop", "stops_in", "without_stops"]
