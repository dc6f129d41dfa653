"""Makes a diagram of a Graph: assigns each equation to a box and describes it."""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fungrad.inspect.draw.diagram import Box, Diagram, Edge, Fold, Level, folded
from fungrad.inspect.why.ablate_stops import is_stop
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable, free_variables
from fungrad.ir.printer import Letters, holds_graph, value_text

FAMILIES = {
    "algebra": ("contraction", "linalg", "fft", "polynomial_roots"),
    "reduce": ("reduction", "sort"),
    "move": ("movement", "primitive"),
    "control": (
        "control_flow",
        "custom_rules",
        "debugging",
        "host",
        "implicit",
        "rematerialisation",
    ),
    "stop": ("stop_gradient",),
}
"""The kinds of primitives that have a colour, with the parts of module names that tell them."""
PORTS = 12
"""The most values drawn one by one where they enter or leave a group; more are drawn by origin."""

READERS = 4
"""An input of a level with so many readers is drawn again beside them."""


def diagram(
    graph: Graph, inputs: Sequence[str] = (), outputs: Sequence[str] = (), title: str = ""
) -> Diagram:
    """The nodes and edges of a Graph; `inputs` and `outputs` are names to show, where known."""
    builder = _Builder()
    builder.whole(graph, inputs, outputs)
    return Diagram(title or graph.name or "graph", builder.bodies)


def family(equation: Equation) -> str:
    """The kind of a primitive: one of FAMILIES, "pointwise", or "other"."""
    primitive: Any = equation.primitive
    if primitive.name.startswith(("reduce_", "arg")):
        return "reduce"
    parts = primitive.module.removeprefix("fungrad.").split(".")
    for name, modules in FAMILIES.items():
        if any(part in modules for part in parts):
            return name
    return "pointwise" if primitive.partials is not None else "other"


class _Values:
    """The names and read counts of a Graph's variables."""

    def __init__(self, graph: Graph) -> None:
        self.names = Letters()
        self.backward: dict[Atom, int] = {}
        """The backward order of each variable, where known."""
        for variable in (*(v for v, _ in graph.constants), *graph.inputs):
            self.names.of(variable)
        for equation in graph.equations:
            for variable in equation.outputs:
                self.names.of(variable)
                self.backward[variable] = equation.backward
        self.reads = _reads(graph.equations)
        self.reads.update(graph.outputs)


def _reads(equations: Iterable[Equation]) -> Counter[Atom]:
    return Counter(atom for equation in equations for atom in equation.inputs)


def _constant_text(value: Any) -> str:
    """The title of a constant: its value, if it is short."""
    small = issubclass(type(value), (np.ndarray, np.generic)) and np.size(value) <= 4
    return np.array2string(np.asarray(value), precision=4) if small else "constant"


class _Builder:
    def __init__(self) -> None:
        self.bodies: list[Level] = []
        self._of_graph: dict[Graph, int] = {}

    def whole(
        self,
        graph: Graph,
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
        loop: tuple[int, int] | None = None,
    ) -> int:
        """The number of a Graph's level; Graphs that differ in names alone share one.

        `loop` holds the number of inputs that are the same in all steps, and of carried ones.
        """
        if graph in self._of_graph:
            return self._of_graph[graph]
        values = _Values(graph)
        level = _Level(self, values)
        self._of_graph[graph] = level.number
        if level.number == 0:  # the inputs of an inner Graph may be cotangents
            values.backward.update((v, 0) for v in graph.inputs)
        for variable, value in graph.constants:
            level.port("constant", variable, _constant_text(value))
        names = values.names
        same, carried = loop or (len(graph.inputs), 0)
        roles = [*[""] * same, *["carry "] * carried, *["each "] * len(graph.inputs)]
        titles = [role + names.of(v) for role, v in zip(roles, graph.inputs, strict=False)]
        titles[: len(inputs)] = inputs[: len(titles)]
        for run in _together(range(len(titles)), lambda i: _branch(titles[i])):
            level.ports("input", [graph.inputs[i] for i in run], _joined([titles[i] for i in run]))
        level.add(folded(graph.equations))
        ends = list(outputs[: len(graph.outputs)])
        for index, atom in enumerate(graph.outputs[len(ends) :], len(ends)):
            role = "stacked " if loop and index >= carried else ""
            ends.append(titles[same + index] if index < carried else role + names.of(atom))
        for run in _together(range(len(ends)), lambda i: _branch(ends[i])):
            title = _joined([ends[i] or names.of(graph.outputs[i]) for i in run])
            level.leave("output", [graph.outputs[i] for i in run], title)
        level.settle()
        return level.number

    def fold(
        self, fold: Fold, values: _Values, outside: dict[Atom, int]
    ) -> tuple[Box, list[Variable]]:
        """The node of a group, and the variables that it reads.

        `outside` maps a variable to the node of the outer level that makes it.
        """
        equations = list(fold.equations())
        made = [v for equation in equations for v in equation.outputs]
        inside = _reads(equations)
        entering = free_variables(equations)
        leaving = [v for v in made if values.reads[v] > inside[v]]
        level = _Level(self, values)
        level.enter(entering, outside)
        level.add(fold.items)
        level.hand_out(leaving)
        level.settle()
        lines = [e.source for e in equations if e.source]
        node = Box(
            "group", fold.label, fold.kind, lane=fold.backward, backward=fold.backward,
            family=fold.kind, folded=True,
            bytes=sum(v.type.nbytes for v in leaving), size=len(equations), body=level.number,
            place=f"{lines[0].file}:{lines[0].line} ({lines[0].function})" if lines else "",
            stops=sum(n.stops for n in self.bodies[level.number].nodes),
            scope=equations[0].scope,
        )  # fmt: skip
        return node, entering


class _Level:
    """One body under construction."""

    def __init__(self, builder: _Builder, values: _Values) -> None:
        self.builder = builder
        self.values = values
        self.body = Level()
        self.number = len(builder.bodies)
        builder.bodies.append(self.body)
        self._made: dict[Atom, int] = {}
        """The number of the node that makes a variable."""

    def _node(self, node: Box) -> int:
        self.body.nodes.append(node)
        return len(self.body.nodes) - 1

    def port(self, kind: str, variable: Variable, title: str) -> None:
        """Adds a value that comes from outside."""
        node = Box(kind, title, "", str(variable.type), variable.type.nbytes, family="port")
        node.text = self.values.names.binder(variable)
        node.backward = self.values.backward.get(variable, -1)
        self._made[variable] = self._node(node)

    def enter(self, variables: list[Variable], outside: dict[Atom, int]) -> None:
        """Adds the inputs of a group: one by one, or if many, one node for each origin."""
        for run in _together(variables, outside.get):
            self.ports("enter", run, self._named(run))

    def ports(self, kind: str, run: Sequence[Variable], title: str) -> None:
        """Adds values that come from outside, as one node."""
        self.port(kind, run[0], title)
        for variable in run[1:]:
            self._made[variable] = self._made[run[0]]
        self.body.nodes[-1].bytes = sum(v.type.nbytes for v in run)

    def hand_out(self, variables: list[Variable]) -> None:
        """Adds the outputs of a group, likewise."""
        for run in _together(variables, self._made.get):
            self.leave("leave", run[:1], self._named(run))
            self.body.nodes[-1].bytes = sum(v.type.nbytes for v in run)

    def _named(self, variables: list[Variable]) -> str:
        if len(variables) == 1:
            return self.values.names.of(variables[0])
        return f"{len(variables)} values"

    def leave(self, kind: str, atoms: Sequence[Atom], title: str) -> None:
        """Adds outputs, as one node."""
        atom = atoms[0]
        node = Box(kind, title, "", str(atom.type), atom.type.nbytes, family="port")
        node.text = f"{title} = {self.values.names.of(atom)}"
        node.backward = self.values.backward.get(atom, -1)
        node.bytes = sum(a.type.nbytes for a in atoms)
        number = self._node(node)
        for one in atoms:
            self._edge(one, number)

    def _edge(self, atom: Atom, target: int, cut: str = "", name: str = "") -> None:
        if isinstance(atom, Literal):
            return
        source = self._made[atom]
        type_ = atom.type
        value = self.values.names.of(atom)
        self.body.edges.append(Edge(source, target, value, str(type_), type_.nbytes, cut, name))

    def add(self, items: Sequence[Any]) -> None:
        """Adds the equations and groups of this level.

        They come pass by pass, so an equation may read a value that a later item computes.
        """
        for number, item in enumerate(items, len(self.body.nodes)):
            equations = item.equations() if isinstance(item, Fold) else (item,)
            self._made.update((v, number) for e in equations for v in e.outputs)
        for item in items:
            if isinstance(item, Fold):
                node, entering = self.builder.fold(item, self.values, self._made)
                number = self._node(node)
                for variable in entering:
                    self._edge(variable, number)
            else:
                self._operation(item)

    def _operation(self, equation: Equation) -> None:
        node = self._described(equation)
        number = self._node(node)
        graphs = {
            (f"{key}[{i}]" if isinstance(value, tuple) else key): graph
            for key, value in equation.params.items()
            for i, graph in enumerate(value if isinstance(value, tuple) else (value,))
            if isinstance(graph, Graph)
        }
        if graphs:
            node.body = self._inner(graphs, equation)
            node.stops = sum(n.stops for n in self.builder.bodies[node.body].nodes)
            node.size = sum(len(graph.equations) for graph in graphs.values())
        for position, atom in enumerate(equation.inputs):
            self._edge(atom, number, *_cut(equation, position))

    def _inner(self, graphs: dict[str, Graph], equation: Equation) -> int:
        """The body of an equation with inner Graphs: the only one's, or a group for each."""
        lane, counts = equation.backward, equation.params.get("counts")
        if len(graphs) == 1:
            (graph,) = graphs.values()
            return self.builder.whole(graph, loop=counts)
        level = _Level(self.builder, self.values)
        for key, graph in graphs.items():
            loop = None
            if counts is not None:  # the constants of a while loop's condition and body
                same = counts[key == "body"]
                loop = same, len(graph.inputs) - same
            number = self.builder.whole(graph, loop=loop)
            stops = sum(n.stops for n in self.builder.bodies[number].nodes)
            level._node(
                Box(
                    "group", key, graph.name, lane=lane, backward=lane, family="control",
                    stops=stops, size=len(graph.equations), body=number,
                )
            )  # fmt: skip
        return level.number

    def _described(self, equation: Equation) -> Box:
        names = self.values.names
        params = {
            k: value_text(v)
            for k, v in equation.params.items()
            if v is not None and not holds_graph(v)
        }
        reads = " ".join(names.of(a) for a in equation.inputs)
        makes = " ".join(names.binder(v) for v in equation.outputs) or "_"
        inside = " ".join(f"{k}={v}" for k, v in params.items())
        literals = [names.of(a) for a in equation.inputs if isinstance(a, Literal)]
        source = equation.source
        return Box(
            "operation",
            equation.primitive.name,
            _detail(equation, literals, inside),
            " ".join(str(v.type) for v in equation.outputs),
            sum(v.type.nbytes for v in equation.outputs),
            equation.backward,
            equation.backward,
            family(equation),
            f"{makes} = {equation.primitive.name}{f'[{inside}]' if inside else ''} {reads}",
            str(source) if source else "",
            linecache.getline(source.file, source.line).strip() if source else "",
            equation.scope,
            int(is_stop(equation.primitive)),
        )

    def _repeat_ports(self) -> None:
        """An input with many readers is drawn again, small, beside each but the first."""
        reads: dict[int, list[Edge]] = {}
        for edge in self.body.edges:
            reads.setdefault(edge.source, []).append(edge)
        for index, edges in reads.items():
            node = self.body.nodes[index]
            readers = sorted({e.target for e in edges}, key=lambda i: (self.body.nodes[i].lane, i))
            if node.kind not in ("input", "constant", "enter") or len(readers) < READERS:
                continue
            again = {reader: self._node(replace(node, kind="enter")) for reader in readers[1:]}
            for edge in edges:
                edge.source = again.get(edge.target, index)

    def settle(self) -> None:
        """Puts inputs into the lane of their readers and outputs into that of their makers."""
        self._repeat_ports()
        nodes = self.body.nodes
        for index, node in enumerate(nodes):
            if node.family != "port":
                continue
            reads = [e.target for e in self.body.edges if e.source == index]
            makes = [e.source for e in self.body.edges if e.target == index]
            others = [nodes[i].lane for i in (reads if node.kind[0] in "cei" else makes)]
            node.lane = min(others, default=0)
            if node.backward < 0:
                node.backward = node.lane


def _branch(path: str) -> str:
    """The part of a tree in which a leaf stands: `p[0]` of `p[0]['w']`."""
    return re.sub(r"(\[[^\[\]]*\]|\.\w+)$", "", path)


def _joined(titles: Sequence[str]) -> str:
    """The title of one node for several leaves."""
    return titles[0] if len(titles) == 1 else f"{_branch(titles[0])}: {len(titles)} arrays"


def _together(variables: Sequence[Any], key: Callable[[Any], Hashable]) -> list[list[Any]]:
    """The variables one by one, or grouped where there are more than PORTS."""
    if len(variables) <= PORTS:
        return [[variable] for variable in variables]
    groups: dict[Hashable, list[Any]] = {}
    for variable in variables:
        groups.setdefault(key(variable), []).append(variable)
    return list(groups.values())


def _cut(equation: Equation, position: int) -> tuple[str, str]:
    """The cut of an input's derivative: ("stop", its name), ("zero", ""), or ("", "") for none."""
    cuts: Any = equation.primitive.cuts
    if is_stop(equation.primitive):
        return "stop", _stop_text(equation)
    if not equation.inputs[position].type.inexact:
        return "", ""
    return ("zero", "") if cuts is True or (cuts and position in cuts) else ("", "")


def _stop_text(equation: Equation) -> str:
    name, order = equation.params["name"], equation.params.get("order", 1)
    return " ".join([f"“{name}”" if name else "", f"order ≥ {order}" if order > 1 else ""]).strip()


def _detail(equation: Equation, literals: list[str], params: str) -> str:
    """The line below the name of a primitive."""
    if is_stop(equation.primitive):
        return _stop_text(equation)
    if any(map(holds_graph, equation.params.values())):
        length = equation.params.get("length")
        return f"× {length}" if isinstance(length, int) else ""
    return _short(" ".join(filter(None, [*literals, params])))


def _short(text: str, width: int = 30) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
