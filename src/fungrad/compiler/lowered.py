"""What a compiled function says of itself: `jitted.lower(*args)`, `jitted.cache_info()`.

Knows the optimiser and the backend, which are imported when they are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fungrad.ir.graph import Graph, above
from fungrad.support import pytree
from fungrad.support.lazy import Module
from fungrad.support.record import Record

if TYPE_CHECKING:
    from fungrad.compiler.lowering import backend as straight
    from fungrad.compiler.passes import pipeline as passes
else:
    passes = Module("fungrad.compiler.passes.pipeline")
    straight = Module("fungrad.compiler.lowering.backend")


class CacheInfo(Record):
    """How often a jitted function found a Graph, made one, and how many it holds (of at most
    maxsize).
    """

    hits: int
    misses: int
    maxsize: int
    currsize: int


class Lowered:
    """What `jitted.lower(*args)` hands back: the Graph as traced, and as it is run."""

    def __init__(
        self,
        graph: Graph,
        out: pytree.TreeDef,
        paths: Sequence[str] = (),
        parts: Sequence[Graph] = (),
    ) -> None:
        self.graph = graph
        self.out = out
        self.paths = tuple(paths)
        """With `branches="guard"`: the paths taken so far, each with its questions and answers."""
        self.parts = tuple(parts) or (graph,)
        """The Graphs that are run one after the other: up to each question, and from the last."""

    @property
    def optimised(self) -> Graph:
        """The Graph that is run."""
        return passes.optimised(self.graph)

    @property
    def source(self) -> str:
        """The Python program that is run, one line an equation; behind it what it calls, each under
        its name: regions that go block by block, loops, branches.
        """
        return "\n\n".join([straight.source(part) for part in self.parts])

    def cost(self) -> Any:
        """What a call costs, counted without running it.

        Returns:
          A `fungrad.inspect.cost.cost.Cost`: operations, bytes read and written, bytes alive at
          once, equations, and what each pass of the optimiser removed. Printed, tables.

        >>> import numpy as np, fungrad as fg
        >>> found = fg.jit(lambda x: np.sum(np.exp(x))).lower(np.ones(10)).cost()
        >>> found.flops, found.transcendentals, found.peak.inputs
        (9, 10, 80)
        """
        return above.cost(self.graph)

    def __repr__(self) -> str:
        return repr(self.graph)


__all__ = ["CacheInfo", "Lowered"]
