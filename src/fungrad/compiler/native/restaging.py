"""Graphs that are rewritten by a trace of a function that runs their equations in another form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.passes.pipeline import as_optimised
from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.retracing.graph_transforms import drop_dead
from fungrad.tracing.graph_trace import stage
from fungrad.tracing.provenance import Provenance, replayed


def restaged(graph: Graph, run: Callable[..., Any], types: Sequence[Type], title: str) -> Graph:
    """The Graph of `run`, which computes what an optimised Graph does.

    Args:
      graph: the Graph.
      run: computes the outputs of arguments of the types.
      types: the types.
      title: what `run` is, for errors.
    """
    token = replayed.set(Provenance(None, "", 0))
    try:
        with np.errstate(all="ignore"):
            made = stage(run, types, [""] * len(types), lambda: title, graph.name)
    finally:
        replayed.reset(token)
    return as_optimised(drop_dead(made.choosing(reassociate=graph.reassociate)))
