"""A diagram as text for other programs: Graphviz's DOT, and Mermaid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fungrad.inspect.draw.diagram import Box, Diagram, Edge, opened
from fungrad.inspect.draw.svg import palettes

End = tuple[Box, str, str]
"""An end of an edge: its node, the path of the node drawn for it, and its unfolded box or ""."""
KINDS = {"pointwise", "algebra", "reduce", "move", "control", "stop", "forward"}
"""The classes of nodes that have a colour in Mermaid."""
SHAPES = {"input": "ellipse", "output": "ellipse", "enter": "circle", "leave": "circle"}


def to_dot(found: Diagram, unfold: bool | None = None) -> str:
    """The DOT of a diagram: unfolded boxes are clusters, cut edges are dashed, red and crossed."""
    text = _Dot(found, opened(found, unfold))
    return "\n".join(
        [
            f"digraph {_quoted(found.title)} {{",
            "  compound=true",
            '  node [shape=box style="rounded,filled" fillcolor=white fontname="Helvetica"]',
            '  edge [fontname="Helvetica" fontsize=10]',
            *text.body(0, "", "  "),
            "}\n",
        ]
    )


def to_mermaid(found: Diagram, unfold: bool | None = None) -> str:
    """The Mermaid flowchart of a diagram: boxes are subgraphs, cut edges end in a cross."""
    text = _Mermaid(found, opened(found, unfold))
    lines = ["flowchart TB", *text.body(0, "", "  ")]
    light, _ = palettes()
    for name in sorted(text.kinds):
        lines.append(f"  classDef {name} stroke:{light[name]}")
    for name in sorted(text.wires, key="forward backward stop".index):
        numbers = ",".join(map(str, text.wires[name]))
        lines.append(f"  linkStyle {numbers} stroke:{light[name]}")
    return "\n".join(lines) + "\n"


class _Text:
    """The common part of both: the walk, and the ends of the edges of unfolded boxes."""

    def __init__(self, found: Diagram, unfolded: set[str]) -> None:
        self.found = found
        self.unfolded = unfolded

    def body(self, number: int, path: str, indent: str) -> Iterator[str]:
        body = self.found.bodies[number]
        for index, node in enumerate(body.nodes):
            here = f"{path}/{index}"
            if here in self.unfolded and node.body is not None:
                yield from self.box(node, here, indent)
            else:
                yield indent + self.node(node, here)
        done = set()
        for edge in body.edges:
            source, target = body.nodes[edge.source], body.nodes[edge.target]
            tail = self.end(source, f"{path}/{edge.source}", "leave", edge.value)
            head = self.end(target, f"{path}/{edge.target}", "enter", edge.value)
            if (tail, head, edge.cut) not in done:
                yield indent + self.edge(edge, (source, *tail), (target, *head))
            done.add((tail, head, edge.cut))

    def end(self, node: Box, path: str, kind: str, value: str) -> tuple[str, str]:
        """The paths of the node at an end of an edge, and of the box that it represents, or ""."""
        if path not in self.unfolded or node.body is None:
            return path, ""
        nodes = self.found.bodies[node.body].nodes
        ports = [i for i, n in enumerate(nodes) if n.kind == kind and n.title == value]
        if node.folded and ports:
            return f"{path}/{ports[0]}", ""
        first = 0 if kind == "enter" else len(nodes) - 1
        return self.end(nodes[first], f"{path}/{first}", kind, "")[0], path

    def box(self, node: Box, path: str, indent: str) -> Iterator[str]:
        raise NotImplementedError

    def node(self, node: Box, path: str) -> str:
        raise NotImplementedError

    def edge(self, edge: Edge, tail: End, head: End) -> str:
        raise NotImplementedError


def _name(path: str) -> str:
    return "n" + path.replace("/", "_")


def _label(node: Box) -> list[str]:
    rows = [node.title, node.detail if node.kind == "operation" else "", node.type]
    if node.kind in ("enter", "leave"):
        return [node.title]
    return [row for row in (rows if node.body is None else [node.title, node.summary]) if row]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


class _Dot(_Text):
    def box(self, node: Box, path: str, indent: str) -> Iterator[str]:
        light, _ = palettes()
        assert node.body is not None
        colour = light["backward" if node.backward % 2 else "group"]
        yield f"{indent}subgraph cluster{_name(path)} {{"
        yield f'{indent}  label={_quoted(node.heading)} color="{colour}" style=rounded'
        yield from self.body(node.body, path, indent + "  ")
        yield indent + "}"

    def node(self, node: Box, path: str) -> str:
        light, _ = palettes()
        colour = light.get(node.family, light["backward" if node.backward % 2 else "forward"])
        style: dict[str, Any] = {
            "label": "\n".join(_label(node)),
            "tooltip": node.spoken,
            "color": colour,
        }
        if node.kind in SHAPES:
            style["shape"] = SHAPES[node.kind]
        if node.family == "stop":
            style |= {"style": "rounded,dashed", "fontcolor": colour}
        return f"{_name(path)} [{_attributes(style)}]"

    def edge(self, edge: Edge, tail: End, head: End) -> str:
        light, _ = palettes()
        source, target = tail[0], head[0]
        odd = source.backward % 2 == 1
        style = {"color": light["backward" if odd else "forward"]}
        style["tooltip"] = f"{edge.value}: {edge.type}"
        if source.backward < target.backward:
            style["style"] = "dotted"
        if edge.cut:
            style |= {"color": light["stop"], "style": "dashed" if edge.cut == "stop" else "dotted"}
        if edge.cut == "stop":
            style |= {"label": f"✂ {edge.name}".strip(), "fontcolor": light["stop"]}
        if source.lane % 2 and target.lane % 2:  # drawn upwards, beside its forward equation
            style["dir"] = "back"
            tail, head = head, tail
        for key, (_, _, box) in (("ltail", tail), ("lhead", head)):
            if box:
                style[key] = "cluster" + _name(box)
        return f"{_name(tail[1])} -> {_name(head[1])} [{_attributes(style)}]"


def _attributes(style: dict[str, Any]) -> str:
    return " ".join(f"{key}={_quoted(value)}" for key, value in style.items())


class _Mermaid(_Text):
    def __init__(self, found: Diagram, unfolded: set[str]) -> None:
        super().__init__(found, unfolded)
        self.count = 0
        self.kinds: set[str] = set()
        self.wires: dict[str, list[int]] = {}

    def box(self, node: Box, path: str, indent: str) -> Iterator[str]:
        assert node.body is not None
        yield f"{indent}subgraph {_name(path)}[{_entities(node.heading)}]"
        yield from self.body(node.body, path, indent + "  ")
        yield indent + "end"

    def node(self, node: Box, path: str) -> str:
        left, right = ("([", "])") if node.family == "port" else ("[", "]")
        family = "forward" if node.family == "port" else node.family
        self.kinds |= {family} & KINDS
        kind = f":::{family}" if family in KINDS else ""
        label = _entities("\n".join(_label(node)))
        return f"{_name(path)}{left}{label}{right}{kind}"

    def edge(self, edge: Edge, tail: End, head: End) -> str:
        source, target = tail[0], head[0]
        kind = "stop" if edge.cut else "backward" if source.backward % 2 else "forward"
        self.wires.setdefault(kind, []).append(self.count)
        self.count += 1
        wire = "-.->" if source.backward < target.backward else "-->"
        if edge.cut:
            wire = f"-. {_entities(f'✂ {edge.name}'.strip())} .-x" if edge.cut == "stop" else "-.-x"
        return f"{_name(tail[2] or tail[1])} {wire} {_name(head[2] or head[1])}"


def _entities(text: str) -> str:
    """Text in quotes, with Mermaid's entities for characters of its grammar."""
    for letter, name in (("#", "35"), ("&", "amp"), ('"', "quot"), ("<", "lt"), (">", "gt")):
        text = text.replace(letter, f"\0{name};")
    return '"' + "<br>".join(text.replace("\0", "#").replace("`", "#96;").splitlines()) + '"'
