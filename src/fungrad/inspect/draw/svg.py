"""A diagram as a plain SVG file, light or dark as the viewer.

The file uses the light colours of page/picture.css; one style sheet maps each to its dark colour.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

from fungrad.inspect.draw.diagram import Box, Diagram, Edge, Level, opened
from fungrad.inspect.draw.html import asset
from fungrad.inspect.draw.layout import Placed, Point, Size, place

HEADER, PAD, ROW = 30.0, 14.0, 16.0
FACE = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, Menlo, 'DejaVu Sans Mono', monospace"
WIDE = {"title": 8.3, "detail": 6.6, "type": 6.7}
"""The assumed width of a letter in each kind of text, in pixels."""


@functools.cache
def palettes() -> tuple[dict[str, str], dict[str, str]]:
    """The light and the dark colours of page/picture.css, by name."""
    light, dark = re.findall(r":root[^{]*\{([^}]*)\}", asset("picture.css"))[:2]
    colours = [dict(re.findall(r"--(\w+): (#\w+);", text)) for text in (light, dark)]
    return colours[0], colours[1]


class _Level(NamedTuple):
    """A body with its layout and the levels inside it."""

    body: Level
    edges: list[Edge]
    placed: Placed
    sizes: list[Size]
    inner: dict[int, Any]


def svg(found: Diagram, unfold: bool | None = None) -> str:
    """The SVG of a diagram; `unfold` as in `opened`.

    Raises:
      MissingExtraError: where no layout program is installed.
    """
    level = _laid_out(found, 0, "", opened(found, unfold))
    width, height = level.placed.width, level.placed.height
    light, dark = palettes()
    rules = "".join(
        f'[{kind}="{light[name]}"]{{{kind}:{dark[name]}}}'
        for name in light
        for kind in ("fill", "stroke")
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="{escape(FACE)}" role="img">'
        f"<title>{escape(found.title)}</title>"
        f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"
        f'<rect width="100%" height="100%" fill="{light["paper"]}"/>{_drawn(level)}</svg>\n'
    )


def _odd(node: Box) -> bool:
    """Whether a backward walk made the value of a node."""
    return node.backward % 2 == 1


def merged(edges: Sequence[Edge]) -> list[Edge]:
    """One edge for each pair of nodes; it is cut if all edges between them are."""
    pairs: dict[tuple[int, int], Edge] = {}
    for edge in edges:
        known = pairs.get((edge.source, edge.target))
        if known is None or (known.cut and not edge.cut):
            pairs[edge.source, edge.target] = edge
    return list(pairs.values())


def _laid_out(found: Diagram, number: int, path: str, unfolded: set[str]) -> _Level:
    body = found.bodies[number]
    inner = {
        i: _laid_out(found, node.body, f"{path}/{i}", unfolded)
        for i, node in enumerate(body.nodes)
        if node.body is not None and f"{path}/{i}" in unfolded
    }
    sizes = [_size(node, inner.get(i)) for i, node in enumerate(body.nodes)]
    edges = merged(body.edges)
    lines = []
    for edge in edges:
        back = body.nodes[edge.source].lane % 2 and body.nodes[edge.target].lane % 2
        lines.append((edge.target, edge.source) if back else (edge.source, edge.target))
    placed = place(sizes, lines, [node.lane for node in body.nodes])
    splines = [
        spline if line[0] == edge.source else spline[::-1]
        for edge, line, spline in zip(edges, lines, placed.splines, strict=True)
    ]
    return _Level(body, edges, placed._replace(splines=splines), sizes, inner)


def _rows(node: Box) -> list[tuple[str, str]]:
    rows = [("title", node.title)]
    if node.kind in ("enter", "leave"):
        return rows
    if node.body is not None:
        rows.append(("detail", node.summary))
    elif node.detail:
        rows.append(("detail", node.detail))
    if node.type and node.kind != "group":
        rows.append(("type", node.type if len(node.type) <= 34 else node.type[:33] + "…"))
    return rows


def _size(node: Box, inner: _Level | None) -> Size:
    if inner is not None:
        head = len(node.heading) * WIDE["title"] + 60
        return max(inner.placed.width + 2 * PAD, head), inner.placed.height + HEADER + PAD
    rows = _rows(node)
    wide = max(len(text) * WIDE[kind] for kind, text in rows)
    if node.kind in ("enter", "leave"):
        return wide + 14, 20.0
    return wide + 32, 14 + ROW * len(rows)


def _drawn(level: _Level) -> str:
    nodes = level.body.nodes
    parts = [
        _wire(edge, nodes[edge.source], nodes[edge.target], spline)
        for edge, spline in zip(level.edges, level.placed.splines, strict=True)
    ]
    for index, node in enumerate(nodes):
        (x, y), (w, h) = level.placed.centres[index], level.sizes[index]
        parts.append(_box(node, x - w / 2, y - h / 2, (w, h), level.inner.get(index)))
    return "".join(parts)


def _wire(edge: Edge, source: Box, target: Box, spline: list[Point]) -> str:
    light, _ = palettes()
    colour, dash = light["backward" if _odd(source) else "forward"], ""
    if source.backward < target.backward:
        dash = ' stroke-dasharray="1.5 4"'
    if edge.cut:
        colour = light["stop"]
        dash = ' stroke-dasharray="6 4"' if edge.cut == "stop" else ' stroke-dasharray="2 4"'
    start, *rest = [f"{x:.1f} {y:.1f}" for x, y in spline]
    parts = [
        f'<path d="M{start}C{" ".join(rest)}" fill="none" stroke="{colour}" '
        f'stroke-width="1.4"{dash}><title>{escape(f"{edge.value}: {edge.type}")}</title></path>'
    ]
    (x0, y0), (x1, y1) = spline[-2:]
    angle = math.degrees(math.atan2(y1 - y0, x1 - x0))
    parts.append(
        f'<path d="M0 0L-8 -3.6L-8 3.6Z" fill="{colour}" '
        f'transform="translate({x1:.1f} {y1:.1f}) rotate({angle:.0f})"/>'
    )
    if edge.cut == "stop":
        x, y = _middle(spline)
        parts.append(
            f'<g transform="translate({x:.1f} {y:.1f})" class="scissors">'
            f'<circle r="10" fill="{light["paper"]}"/><path transform="rotate(-90) scale(.9)" '
            'd="M-7 -5L4 4M-7 5L4 -4M6.6 3.8a2.4 2.4 0 1 0 .1 .1M6.6 -7a2.4 2.4 0 1 0 .1 .1" '
            f'fill="none" stroke="{colour}" stroke-width="1.5"/>'
            f'<text x="14" y="4" font-size="11" fill="{colour}">{escape(edge.name)}</text></g>'
        )
    return "".join(parts)


def _middle(spline: list[Point]) -> Point:
    """The point in the middle of a cubic spline."""
    segments = (len(spline) - 1) // 3
    if segments % 2 == 0:
        return spline[3 * (segments // 2)]
    p, q, r, s = spline[3 * (segments // 2) : 3 * (segments // 2) + 4]
    return tuple((a + 3 * b + 3 * c + d) / 8 for a, b, c, d in zip(p, q, r, s, strict=True))  # type: ignore[return-value]


def _box(node: Box, x: float, y: float, size: Size, inner: _Level | None) -> str:
    light, _ = palettes()
    w, h = size
    port, stop = node.family == "port", node.family == "stop"
    accent = light.get(node.family, light["backward" if _odd(node) else "group"])
    border = accent if port or stop else light["backward"] if _odd(node) else light["line"]
    dash = ' stroke-dasharray="5 3"' if stop or node.kind == "constant" else ""
    radius = min(h / 2, 14.0) if port or stop else 8
    fill = f'fill="{light["card"]}"'
    if inner is not None:
        fill = f'fill="{light["backward" if _odd(node) else "forward"]}" fill-opacity=".08"'
    parts = [
        f'<g transform="translate({x:.1f} {y:.1f})"><title>{escape(node.spoken)}</title>'
        f'<rect width="{w:.1f}" height="{h:.1f}" rx="{radius}" {fill} stroke="{border}"{dash}/>'
    ]
    if inner is not None:
        parts.append(_text("title", node.heading, 12, 20, light["ink"]))
        left = (w - inner.placed.width) / 2
        parts.append(f'<g transform="translate({left:.1f} {HEADER})">{_drawn(inner)}</g>')
    else:
        if not port:
            parts.append(f'<rect x="5" y="7" width="4" height="{h - 14}" rx="2" fill="{accent}"/>')
        for row, (kind, text) in enumerate(_rows(node)):
            ink = accent if stop and kind != "type" else light["ink" if not row else "muted"]
            top = (14 if h == 20 else 20) + ROW * row
            parts.append(_text(kind, text, w / 2 if port else 17, top, ink, port))
    return "".join([*parts, "</g>"])


def _text(kind: str, text: str, x: float, y: float, ink: str, middle: bool = False) -> str:
    face = f' font-family="{escape(MONO)}"' if kind == "type" else ""
    weight = ' font-weight="600" font-size="13"' if kind == "title" else ' font-size="11"'
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{ink}"{weight}{face}{anchor}>{escape(text)}</text>'
