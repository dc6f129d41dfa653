"""Results of `jitted.lower(*args)` and `jitted.cache_info()`: stages and cache of a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fungrad.control_flow.call import backend as backend_of_graphs
from fungrad.control_flow.call import built
from fungrad.ir.graph import Graph, above
from fungrad.support import pytree
from fungrad.support.lazy import Module, Record

if TYPE_CHECKING:
    from fungrad.compiler.numpy_backend import backend
    from fungrad.compiler.passes import pipeline
else:
    pipeline = Module("fungrad.compiler.passes.pipeline")
    backend = Module("fungrad.compiler.numpy_backend.backend")


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

    `graph` is the Graph as traced, `optimised` the Graph that runs, `program` the loop IR, `source`
    the Python code that runs. All of them show the bodies of loops.
    """

    def __init__(
        self,
        graph: Graph,
        out: pytree.TreeDef,
        paths: Sequence[str] = (),
        parts: Sequence[Graph] = (),
        args: Sequence[Any] = (),
    ) -> None:
        self.graph = graph
        self.out = out
        self.args = args
        """The leaves of the arguments."""
        self.paths = tuple(paths)
        """The paths taken so far, each with its questions and answers, if it has branches."""
        self.parts = tuple(parts) or (graph,)
        """The Graphs that run one after the other: one up to each question, and the rest."""

    @property
    def optimised(self) -> Graph:
        """The Graph that runs."""
        return pipeline.optimised(self.graph)

    @property
    def program(self) -> str:
        """The loop IR of the program that runs, with one node (Call, Copy, For, While, Move, Free,
        Return) per line, in the order of `source`. Code on Python numbers is shown by `source`
        only.

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
        def scan(v0, v1):
            for v2 in v1:
                Call    v3 = sin(v0)
                Call    v0 = v3 * v2
            Free    del v1
            Return  return [v0]
        """
        return "\n\n".join([backend.programs(part) for part in self.parts])

    @property
    def source(self) -> str:
        """The program that runs, followed by the functions that it calls: loops, branches, and
        tiles of products. Native programs are listed first, with their loops; what they
        compute is shown as Python, too, which runs for arguments that they do not accept.
        """
        heads = [
            "\n".join([f"# kernel {n} is machine code:", *[f"#   {x}" for x in loops.split("\n")]])
            for n, loops in enumerate([kernel.loops for kernel in self.kernels], 1)
        ]
        return "\n\n".join([*heads, *[backend.source(part) for part in self.parts]])

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
    def refused(self) -> tuple[Any, ...]:
        """Why operations are not in native code although that is chosen: for each its equation, the
        code of the reason, the reason in words, and its numbers. Empty if all of them are native.

        >>> import numpy as np, fungrad as fg
        >>> fg.jit(lambda x: np.exp(x) * x).lower(np.ones(5)).refused
        ()
        """
        if backend_of_graphs().name != "native":
            return ()
        found = [above.operations(part).found() for part in self.parts]
        return tuple([one.refusal for part in found for one in part if one.refusal])

    @property
    def kernels(self) -> tuple[Any, ...]:
        """The native programs, in the order of their numbers in `explain()`: each with its `loops`,
        `llvm` and `assembly`.
        """
        found = [above.operations(part) for part in self.parts]
        return tuple([kernel for part in found for kernel in part.placed().kernels])

    def explain(self, repetitions: int | None = None) -> Any:
        """Where each operation runs, how long it takes, and why it is not native.

        Args:
          repetitions: the number of runs, the fastest of which is shown; None for as many as half
            a second allows.

        Returns:
          An `Explanation`, as `fg.explain_speed` returns it. It prints as tables.

        >>> import numpy as np, fungrad as fg
        >>> found = fg.jit(lambda x: np.sort(x) * 2.0).lower(np.ones(9)).explain(3)
        >>> {one.primitive: one.where for one in found.operations if one.source}
        {'sort': 'NumPy', 'mul': 'NumPy'}
        """
        return above.explain(self.graph, self.args, repetitions)

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
