"""One factorisation of each matrix, for Graphs with primitives of `shared_factors`."""

from __future__ import annotations

from typing import Any

from fungrad.ir.graph import Graph
from fungrad.support.lazy import Module

FACTORISED = frozenset(["cholesky", "cofactors", "det", "inv", "slogdet", "solve"])
"""The names of the primitives of `shared_factors`, which is imported for them."""
shared_factors: Any = Module("fungrad.compiler.numpy_backend.shared_factors")


def factorised_once(graph: Graph) -> Graph:
    """The Graph with one factorisation of each matrix for all equations that need its factors."""
    if any(equation.primitive.name in FACTORISED for equation in graph.equations):
        graph = shared_factors.with_shared_factors(graph)
    return graph
