"""Results of `jitted.lower(*args)` and `jitted.cache_info()`: stages and cache of a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fungrad.control_flow.call import built
from fungrad.ir.graph import Graph, above
from fungrad.support import pytree
from fungrad.support.lazy import Module, Record

if TYPE_CHECKING:
    from fungrad.compiler.lowering import backend
    from fungrad.compiler.passes import pipeline
else:
    pipeline = Module("fungrad.compiler.passes.pipeline")
    backend = Module("fungrad.compiler.lowering.backend")


class CacheInfo(Record):
    """How often a jitted function found a Graph and made one, and how many it holds now and at
    most.
    """

    hits: int
    misses: int
    maxsize: int
    currsize: int


class Lowered:
    """The result of `jitted.lower(*args)`: each stage of a compiled function.

    `graph` is the Graph as traced, `optimised` the Graph that runs, `clusters` its fused equations,
    `program` the loop IR, `source` the Python code that runs. All of them show the bodies of loops.
    """

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
        """The Graphs that run one after the other: one up to each question, and the rest."""

    @property
    def optimised(self) -> Graph:
        """The Graph that runs."""
        return pipeline.optimised(self.graph)

    @property
    def clusters(self) -> tuple[Any, ...]:
        """The fusion clusters: equations that run together, one tile of rows after the other;
        bodies of loops and branches included. Each prints as a Graph.

        >>> import numpy as np, fungrad as fg
        >>> fg.jit(lambda x: np.exp(x) * x).lower(np.ones(100_000)).clusters
        (cluster of 2 equations on 100000 rows:
        { lambda a:f64[100000]. let
            b:f64[100000] = exp a
            c:f64[100000] = mul b a
          in (c,) },)
        """
        return tuple([cluster for part in self.parts for cluster in backend.clusters(part)])

    @property
    def program(self) -> str:
        """The loop IR of the program that runs, with one node (Alloc, View, Call, Copy, For, While,
        Move, Free, Return) per line, in the order of `source`. Clusters are loops over tiles. Code
        on Python numbers is shown by `source` only.

        >>> import numpy as np, fungrad as fg
        >>> def decay(x, rates):
        ...     return fg.lax.scan(lambda c, r: (np.sin(c) * r, None), x, rates)[0]
        >>> print(fg.jit(decay).lower(np.ones(500), np.ones((9, 500))).program)
        def run(v0, v1):
            Call    v0, = scan(v0, v1)
            Free    del v1
            Return  return [v0]
        <BLANKLINE>
        # scan of run
        def scan(v0, x_0):
            Alloc   b_0 = empty((500,), float64)
            for v1 in x_0:
                Call    sin(v0, b_0)
                Call    v2 = b_0 * v1
                Move    v0 = v2
            Return  return [v0]
        """
        return "\n\n".join([backend.programs(part) for part in self.parts])

    @property
    def source(self) -> str:
        """The Python program that runs, followed by the functions that it calls: clusters, which
        run in tiles, loops and branches.
        """
        return "\n\n".join([backend.source(part) for part in self.parts])

    @property
    def native(self) -> str:
        """The LLVM IR and assembly of the native programs that run; "" if NumPy runs.

        Needs llvmlite.
        """
        runners: list[Any] = [built(part) for part in self.parts]
        for part in self.parts:
            runners += pipeline.optimised(part).derived.get("native clusters", ())
        found: list[Any] = [getattr(runner, "__self__", None) for runner in runners]
        return "\n\n".join([program.text() for program in found if hasattr(program, "text")])

    @property
    def refused(self) -> tuple[str, ...]:
        """Why code runs on NumPy although native code is chosen: a line for each generator of
        native code that was tried.
        """
        for part in self.parts:
            built(part)
        found = [pipeline.optimised(part).derived.get("refused", ()) for part in self.parts]
        return tuple([line for lines in found for line in lines])

    @property
    def checked(self) -> str:
        """What the program's first run was compared with: see `fg.config.verify`. If the check
        would have taken longer than the build, it is a shorter twin.

        >>> import numpy as np, fungrad as fg
        >>> f = fg.jit(np.sin)
        >>> f.lower(np.ones(3)).checked
        'it has not run yet'
        >>> y = f(np.ones(3))
        >>> f.lower(np.ones(3)).checked
        "the first run was compared with the evaluator's"
        """
        found = [part.derived.get("check", "it has not run yet") for part in self.parts]
        return "\n".join(dict.fromkeys(found))

    def cost(self) -> Any:
        """The cost of a call, counted without running it.

        Returns:
          A `fungrad.inspect.cost.Cost`: operations, bytes read and written, peak bytes,
          equations, and those that each pass of the optimiser removed. It prints as tables.

        >>> import numpy as np, fungrad as fg
        >>> found = fg.jit(lambda x: np.sum(np.exp(x))).lower(np.ones(10)).cost()
        >>> found.flops, found.transcendentals, found.peak.inputs
        (9, 10, 80)
        """
        return above.cost(self.graph)

    def __repr__(self) -> str:
        return repr(self.graph)
