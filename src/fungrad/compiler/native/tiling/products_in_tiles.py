"""Matrix products with elementwise work around them, one tile of rows after the other.

Native clusters of a tile's equations are called between NumPy's products; intermediates stay in
cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fungrad.compiler.native.clusters import LEAST_OFTEN, with_clusters
from fungrad.compiler.native.short_axes import times_vector
from fungrad.compiler.native.tiling.clusters import Cluster
from fungrad.compiler.native.tiling.row_access import multiplies
from fungrad.compiler.native.tiling.tiles import Runner, with_tiles
from fungrad.compiler.numpy_backend.array_lowering import tile_program
from fungrad.ir.graph import Graph
from fungrad.primitives.elementwise.by_elements import elementwise

Make = Callable[[Graph, float], Any]
"""Makes the native program of a Graph, given its number of runs per call; None if it is refused."""


def with_products_in_tiles(graph: Graph, make: Make) -> Graph:
    """The Graph, after the passes, with calls in place of the clusters that run in tiles."""

    def tile(cluster: Cluster, part: Graph) -> Runner | None:
        members = cluster.body.equations
        products = any(multiplies(e) and not times_vector(e) for e in members)
        if not (products and any(map(elementwise, members))):
            return None
        times = cluster.length / cluster.rows
        mixed = with_clusters(part, lambda inner: make(inner, times), LEAST_OFTEN)
        return None if mixed is None else tile_program(mixed)

    return with_tiles(graph, tile)
