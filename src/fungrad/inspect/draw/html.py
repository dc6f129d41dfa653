"""A diagram as one HTML file that needs nothing else: data, style, dagre, and the script."""

from __future__ import annotations

import functools
import html
import json
from dataclasses import fields
from importlib import resources
from operator import attrgetter
from string import Template

from fungrad.inspect.draw.diagram import Box, Diagram, Edge, opened

HEIGHT = 560
"""The height of a picture in a notebook, in pixels."""


@functools.cache
def asset(name: str) -> str:
    """The text of a file of page/."""
    return (
        resources.files("fungrad.inspect.draw").joinpath("page", name).read_text(encoding="utf-8")
    )


def page(found: Diagram, unfold: bool | None = None) -> str:
    """The HTML of a diagram; `unfold` as in `opened`."""
    of_node, of_edge = (attrgetter(*[f.name for f in fields(kind)]) for kind in (Box, Edge))
    data = {
        "title": found.title,
        "equations": found.equations,
        "fields": [f.name for f in fields(Box)],
        "open": sorted(opened(found, unfold)),
        "bodies": [
            [[of_node(node) for node in body.nodes], [of_edge(edge) for edge in body.edges]]
            for body in found.bodies
        ],
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Template(asset("page.html")).substitute(
        title=html.escape(found.title),
        style=asset("picture.css") + asset("page.css"),
        data=text.replace("<", "\\u003c").replace("\u2028", "\\u2028"),
        dagre=asset("dagre.min.js"),
        script=asset("page.js") + asset("page_actions.js"),
    )


def framed(found: Diagram, unfold: bool | None = None) -> str:
    """The page in its own frame, for a notebook: scripts of several pictures stay apart."""
    inside = html.escape(page(found, unfold), quote=True)
    return (
        f'<iframe srcdoc="{inside}" title="{html.escape(found.title, quote=True)}" '
        f'style="width: 100%; height: {HEIGHT}px; border: 1px solid #8884; border-radius: 8px" '
        'sandbox="allow-scripts allow-downloads"></iframe>'
    )
