"""The layout of the boxes and lines of one level, by Graphviz's `dot` or by grandalf."""

from __future__ import annotations

import itertools
import math
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any, NamedTuple

from fungrad.errors import MissingExtraError
from fungrad.support.lazy import imported

Point = tuple[float, float]
Size = tuple[float, float]
BETWEEN, RANKS, MARGIN, INCH = 22.0, 36.0, 8.0, 72.0
"""The gaps between boxes of a rank and between ranks, the margin, and an inch, in pixels."""


class Placed(NamedTuple):
    """The centres of the boxes, a cubic spline for each line (3 k + 1 points), and the size."""

    centres: list[Point]
    splines: list[list[Point]]
    width: float
    height: float


def place(sizes: Sequence[Size], lines: Sequence[tuple[int, int]], lanes: Sequence[int]) -> Placed:
    """A layered layout, downwards along the lines; boxes of one lane stay together.

    Raises:
      MissingExtraError: where neither Graphviz nor grandalf is installed.
    """
    program = shutil.which("dot")
    if program is not None:
        return _by_dot(program, sizes, lines, lanes)
    try:
        graphs = imported("grandalf.graphs")
        layouts = imported("grandalf.layouts")
    except ImportError as error:
        raise MissingExtraError(
            f"A drawing as SVG needs a layout program ({error}). Install Graphviz (its `dot`), or "
            "pip install 'fungrad[draw]'; the HTML page needs neither."
        ) from error
    return _by_grandalf(graphs, layouts, sizes, lines, lanes)


def _by_dot(
    program: str, sizes: Sequence[Size], lines: Sequence[tuple[int, int]], lanes: Sequence[int]
) -> Placed:
    text = [
        f"digraph {{ nodesep={BETWEEN / INCH} ranksep={RANKS / INCH}",
        'node [shape=box fixedsize=true label=""] edge [dir=none]',
    ]
    for lane in sorted(set(lanes)):
        members = [i for i, of in enumerate(lanes) if of == lane]
        boxes = [
            f"{i} [width={sizes[i][0] / INCH:.4f} height={sizes[i][1] / INCH:.4f}]" for i in members
        ]
        inside = ";".join(boxes)
        text.append(f"subgraph cluster_{lane} {{ {inside} }}" if len(set(lanes)) > 1 else inside)
    text += [f"{tail} -> {head}" for tail, head in lines]
    done = subprocess.run(
        [program, "-Tplain"], input="\n".join(text) + "}", capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    width = height = 0.0
    centres: list[Point] = [(0.0, 0.0)] * len(sizes)
    paths: dict[tuple[int, int], list[Point]] = {}
    for line in done.stdout.replace("\\\n", "").splitlines():
        kind, *words = line.split()
        if kind == "graph":
            width, height = float(words[1]) * INCH, float(words[2]) * INCH
        elif kind == "node":
            centres[int(words[0])] = _pixels(words[1], words[2], height)
        elif kind == "edge":
            numbers = words[3 : 3 + 2 * int(words[2])]
            spline = [_pixels(x, y, height) for x, y in zip(*[iter(numbers)] * 2, strict=True)]
            paths[int(words[0]), int(words[1])] = spline
    splines = [paths[line] for line in lines]
    return Placed(centres, splines, width + 2 * MARGIN, height + 2 * MARGIN)


def _pixels(x: str, y: str, height: float) -> Point:
    return float(x) * INCH + MARGIN, height - float(y) * INCH + MARGIN


class _View:
    """A box for grandalf, which reads its size and writes its centre."""

    def __init__(self, size: Size) -> None:
        self.w, self.h = size
        self.xy: Point = (0.0, 0.0)


class _Route:
    """A line for grandalf, which writes the points on its way."""

    def __init__(self) -> None:
        self.points: list[Point] = []

    def setpath(self, points: Sequence[Point]) -> None:
        self.points = list(points)


def _by_grandalf(
    graphs: Any, layouts: Any, sizes: Sequence[Size], lines: Sequence[tuple[int, int]],
    lanes: Sequence[int],
) -> Placed:  # fmt: skip
    """The lanes side by side, and in each its connected parts side by side."""
    vertices = [graphs.Vertex(i) for i in range(len(sizes))]
    for vertex, size in zip(vertices, sizes, strict=True):
        vertex.view = _View(size)
    inside: dict[tuple[int, int], list[Point]] = {}
    left, height = MARGIN, 0.0
    for lane in sorted(set(lanes)):
        edges = {
            (a, b): graphs.Edge(vertices[a], vertices[b])
            for a, b in lines
            if lanes[a] == lane == lanes[b]
        }
        members = [v for v, of in zip(vertices, lanes, strict=True) if of == lane]
        for part in graphs.Graph(members, list(edges.values())).C:
            drawn = {key: edge for key, edge in edges.items() if edge.v[0].c is part}
            left, below = _part(layouts, part, drawn, inside, left)
            height = max(height, below)
        left += BETWEEN
    centres = [vertex.view.xy for vertex in vertices]
    splines = []
    for a, b in lines:
        through = inside.get((a, b), [])
        splines.append(_through(centres[a], sizes[a], centres[b], sizes[b], through))
    return Placed(centres, splines, left + MARGIN, height + MARGIN)


def _part(
    layouts: Any, part: Any, edges: dict[tuple[int, int], Any],
    inside: dict[tuple[int, int], list[Point]], left: float,
) -> tuple[float, float]:  # fmt: skip
    """Lays out a connected part from `left` on; returns its right and lower end."""
    for edge in edges.values():
        edge.view = _Route()
    layout = layouts.SugiyamaLayout(part)
    layout.xspace, layout.yspace = BETWEEN, RANKS
    layout.init_all()
    layout.draw()
    views = [vertex.view for vertex in part.sV]
    passed = [point for edge in edges.values() for point in edge.view.points]
    least = min(*(v.xy[0] - v.w / 2 for v in views), *(x for x, _ in passed), math.inf)
    dx, dy = left - least, MARGIN - min(v.xy[1] - v.h / 2 for v in views)
    for view in views:
        view.xy = (view.xy[0] + dx, view.xy[1] + dy)
    for key, edge in edges.items():
        inside[key] = [(x + dx, y + dy) for x, y in edge.view.points[1:-1]]
    right = max(*(v.xy[0] + v.w / 2 for v in views), *(x + dx for x, _ in passed), left)
    return right + BETWEEN, max(v.xy[1] + v.h / 2 for v in views)


def _through(a: Point, size_a: Size, b: Point, size_b: Size, inside: list[Point]) -> list[Point]:
    """A curve from the lower edge of a box through some points to the upper edge of another."""
    start, end = (a[0], a[1] + size_a[1] / 2), (b[0], b[1] - size_b[1] / 2)
    points = [start, *inside, end]
    if any(p[1] >= q[1] for p, q in itertools.pairwise(points)):
        return _between(a, size_a, b, size_b)
    spline = [start]
    for p, q in itertools.pairwise(points):
        middle = (p[1] + q[1]) / 2
        spline += [(p[0], middle), (q[0], middle), q]
    return spline


def _between(a: Point, size_a: Size, b: Point, size_b: Size) -> list[Point]:
    """A curve from the lower edge of a box to the upper edge of another, or from side to side."""
    if b[1] - size_b[1] / 2 > a[1] + size_a[1] / 2:
        start, end = (a[0], a[1] + size_a[1] / 2), (b[0], b[1] - size_b[1] / 2)
        middle = (start[1] + end[1]) / 2
        return [start, (start[0], middle), (end[0], middle), end]
    side = 1 if b[0] >= a[0] else -1
    start, end = (a[0] + side * size_a[0] / 2, a[1]), (b[0] - side * size_b[0] / 2, b[1])
    half = (start[0] + end[0]) / 2
    return [start, (half, start[1]), (half, end[1]), end]
