"""Pictures of Graphs: `draw`, and the form of a Graph in a notebook."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from fungrad.errors import ArgumentError, MissingExtraError
from fungrad.inspect.draw.build_diagram import diagram
from fungrad.inspect.draw.dot_and_mermaid import to_dot, to_mermaid
from fungrad.inspect.draw.html import framed, page
from fungrad.inspect.draw.svg import svg
from fungrad.ir.graph import Graph
from fungrad.support import pytree
from fungrad.tracing.transformed_function import TransformedFunction
from fungrad.transforms.arguments import leaf_names
from fungrad.transforms.vmap_and_staging import make_jaxpr


class Picture:
    """A drawn Graph: a notebook shows it, and `save` writes it to a file.

    Args:
      graph: the Graph to draw, kept as the attribute `graph`.
      inputs: names of the inputs; by default letters, as in the printed Graph.
      outputs: names of the outputs.
      title: the heading; by default the name of the Graph.
      unfold: True to unfold all boxes, False for none, None for as many as stay readable.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
        title: str = "",
        unfold: bool | None = None,
    ) -> None:
        self.graph = graph
        self.unfold = unfold
        self._diagram = diagram(graph, inputs, outputs, title)

    def to_html(self) -> str:
        """A page that needs no network: folds, searches, zooms; light or dark."""
        return page(self._diagram, self.unfold)

    def to_svg(self) -> str:
        """A drawing, laid out by Graphviz or by grandalf.

        Raises:
          MissingExtraError: where neither is installed.
        """
        return svg(self._diagram, self.unfold)

    def to_dot(self) -> str:
        """The graph in Graphviz's language."""
        return to_dot(self._diagram, self.unfold)

    def to_mermaid(self) -> str:
        """The graph as a Mermaid flowchart, for Markdown pages."""
        return to_mermaid(self._diagram, self.unfold)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes `x.html`, `x.svg`, `x.dot` or `x.mmd` (Mermaid); the ending chooses.

        Raises:
          ArgumentError: for another ending.
        """
        target = Path(path)
        write = FORMS.get(target.suffix.lower())
        if write is None:
            raise ArgumentError(
                f"{target.name!r} does not name the form of the picture: end it in one of "
                f"{', '.join(FORMS)} (or .fungrad, to save the Graph itself)."
            )
        target.write_text(write(self), encoding="utf-8")

    def _repr_html_(self) -> str:
        return framed(self._diagram, self.unfold)

    def _repr_svg_(self) -> str | None:
        try:
            return self.to_svg()
        except MissingExtraError:  # a notebook then shows the other forms
            return None

    def __repr__(self) -> str:
        return f"<picture of {self._diagram.title}: {self._diagram.equations} equations>"


def save(graph: Graph, path: str | PathLike[str]) -> None:
    """Writes a picture of a Graph in the form of the path's ending (see `Picture.save`)."""
    Picture(graph).save(path)


FORMS: dict[str, Callable[[Picture], str]] = {
    ".html": Picture.to_html,
    ".svg": Picture.to_svg,
    ".dot": Picture.to_dot,
    ".mmd": Picture.to_mermaid,
}
"""The forms of a picture by the ending of its file."""


def draw(f: Callable[..., Any], *, unfold: bool | None = None) -> Callable[..., Picture]:
    """A function that draws the Graph of f at given arguments.

    >>> import numpy as np, fungrad as fg
    >>> fg.draw(fg.grad(lambda w: np.sum(np.sin(w))))(np.zeros(3))
    <picture of <lambda>: 5 equations>

    Args:
      f: a function, transformed or not: `fg.grad(f)` shows the forward and the backward pass.
      unfold: True to unfold all boxes, False for none, None for as many as stay readable.

    Returns:
      A function that takes f's arguments, uses only their types, and returns a `Picture`.
    """

    def run(*args: Any, **kwargs: Any) -> Picture:
        shapes: list[pytree.TreeDef] = []

        @functools.wraps(f)
        def observed(*args: Any, **kwargs: Any) -> Any:
            result = f(*args, **kwargs)
            shapes[:] = [pytree.structure(result)]
            return result

        graph = make_jaxpr(observed)(*args, **kwargs)
        inputs = leaf_names(f, [*range(len(args)), *kwargs], [*args, *kwargs.values()])
        paths = list(pytree.paths(shapes[0]))
        outputs = [f"output{path}" for path in paths]
        return Picture(graph, inputs, outputs, unfold=unfold)

    return TransformedFunction(run, draw, f, unfold=unfold)
