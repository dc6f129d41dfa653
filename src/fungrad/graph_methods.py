"""The methods of a Graph that draw, save, measure or explain it."""

from __future__ import annotations

from typing import Any

from fungrad.ir.graph import Graph, above
from fungrad.support.lazy import Module

_archive = Module("fungrad.serialisation.archive")
_cost = Module("fungrad.inspect.cost")
_draw = Module("fungrad.inspect.draw.draw")
_explanation = Module("fungrad.inspect.speed.explanation")
_operations = Module("fungrad.inspect.speed.operations")


def _save(graph: Graph, path: Any) -> None:
    (_archive if str(path).lower().endswith(".fungrad") else _draw).save(graph, path)


above.picture = lambda graph: _draw.Picture(graph)
above.save = _save
above.cost = lambda graph: _cost.cost(graph)
above.operations = lambda graph: _operations.Operations(graph)
above.explain = lambda *args: _explanation.explained(*args)
above.complete = True
