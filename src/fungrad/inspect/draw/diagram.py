"""The diagram of every picture: nodes and edges, in bodies that nest.

Knows nothing of Graphs (build_diagram.py makes it of one), of layouts and of file formats.
"""

from __future__ import annotations

from dataclasses import dataclass, field

READABLE, MOST = 60, 20_000
"""How many nodes a picture shows at once unasked, and at most."""


@dataclass(slots=True)
class Node:
    """A box: an input, a constant, an output, an equation, or a group of equations.

    `body` is the number of the body that unfolds from it. `lane` is the pass that it is drawn in,
    `backward` the one that made its value; both count backward walks, as `Equation.backward` does.
    `stops` counts the stops inside, or is 1 for a stop itself.
    """

    kind: str
    title: str
    detail: str = ""
    type: str = ""
    bytes: int = 0
    lane: int = 0
    backward: int = 0
    family: str = "other"
    text: str = ""
    place: str = ""
    code: str = ""
    scope: str = ""
    stops: int = 0
    size: int = 0
    body: int | None = None
    folded: bool = False

    @property
    def summary(self) -> str:
        """How much is inside."""
        stops = f", {self.stops} ✂" if self.stops else ""
        return f"{self.size} equation{'s' * (self.size != 1)}{stops}"

    @property
    def heading(self) -> str:
        """The line at the top of an unfolded box."""
        detail = "" if self.kind == "group" else self.detail
        return " · ".join(filter(None, [self.title, detail, self.summary]))

    @property
    def spoken(self) -> str:
        """All that is known of the node, one fact a line."""
        inside = "" if self.body is None else self.summary
        size = f"{self.bytes} bytes" if self.bytes else ""
        facts = [self.text or self.title, size, inside, self.scope, self.place, self.code]
        return "\n".join(filter(None, facts))


@dataclass(slots=True)
class Edge:
    """A value that goes from a node to another; `cut` is "stop" or "zero" where no derivative
    passes.
    """

    source: int
    target: int
    value: str
    type: str
    bytes: int
    cut: str = ""
    name: str = ""


@dataclass(slots=True)
class Body:
    """The nodes and edges of one level."""

    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)


@dataclass(slots=True)
class Diagram:
    """All bodies of a picture; the first is the outermost."""

    title: str
    bodies: list[Body]

    @property
    def equations(self) -> int:
        """How many equations the outermost Graph holds, inner Graphs aside."""
        return sum(
            node.size if node.folded else 1
            for node in self.bodies[0].nodes
            if node.kind in ("operation", "group")
        )


def opened(found: Diagram, unfold: bool | None = None) -> set[str]:
    """The paths of the nodes to unfold: all, none, or (None) as many as stay readable.

    A path is the numbers of the nodes that lead to one, as `/3/0`.
    """
    result: set[str] = set()
    if unfold is False:
        return result
    room = (MOST if unfold else READABLE) - len(found.bodies[0].nodes)
    waiting = [(0, "")]
    while waiting:
        number, path = waiting.pop(0)
        for index, node in enumerate(found.bodies[number].nodes):
            if node.body is None:
                continue
            size = len(found.bodies[node.body].nodes)
            if size <= room:
                room -= size
                result.add(f"{path}/{index}")
                waiting.append((node.body, f"{path}/{index}"))
    return result


__all__ = ["Body", "Diagram", "Edge", "Node", "opened"]
