"""Equal Graphs as one (hash consing).

A loop in an eager function is recorded anew at each call. Its derivatives, batches and programs are
kept on its Graph, so they are made once for all calls if these have one Graph.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from fungrad.ir.graph import Graph
from fungrad.retracing.inlining import is_short, key_of_graph
from fungrad.support import forks

KEPT = 256
"""So many Graphs are kept, those that were used last."""

_graphs: dict[Hashable, Graph] = {}
_lock = forks.lock()


def interned(graph: Graph) -> Graph:
    """The first of the equal Graphs that were given.

    Equal Graphs have the same equations, made by the same lines of the user, and constants of the
    same bits. Graphs with long constants, or with functions as parameters, stay themselves.
    """
    key = _key(graph)
    if key is None:
        return graph
    with _lock:
        first = _graphs.pop(key, graph)
        _graphs[key] = first
        if len(_graphs) > KEPT:
            del _graphs[next(iter(_graphs))]
    return first


def forget() -> None:
    """Drops all Graphs."""
    with _lock:
        _graphs.clear()


def _key(graph: Graph) -> Hashable:
    """The key of a Graph; None if it is not kept."""
    if not all(is_short(value) for _, value in graph.constants):
        return None
    if any(_is_function(v) for e in graph.equations for v in e.params.values()):
        return None
    equations = key_of_graph(graph)
    if equations is None:
        return None
    made_by = tuple([(e.source, e.scope, e.backward) for e in graph.equations])
    return (equations, made_by, graph.name, graph.reassociate, graph.verify)


def _is_function(value: Any) -> bool:
    """Whether a parameter is, or holds, an object that equals itself alone, as functions do."""
    if type(value) is tuple:
        return any(map(_is_function, value))
    if value is None or isinstance(value, (Graph, type, np.ufunc)):
        return False
    kind: Any = type(value)
    return kind.__hash__ is object.__hash__
