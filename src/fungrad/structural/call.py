"""Floor 5: `call`, the primitive that applies a Graph: what a jitted function is to every
transform.

Its rules are calls of the transformed Graph, made once and kept on it. How a Graph is run on arrays
is the backend's business: `run` is the seam, the reference evaluator until a backend replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.primitives.declare import Primitive, zeros
from fungrad.structural.retrace import batch, differentiate, kept, push, strong
from fungrad.tracing.evaluate import evaluate
from fungrad.tracing.trace import typeof
from fungrad.transforms.batching import Unbatched

Runner = Callable[..., Sequence[Any]]


class Backend:
    """Turns a checked Graph into a function of its inputs that returns its outputs."""

    def compile(self, graph: Graph) -> Runner:
        """The reference backend: the evaluator."""
        return lambda *args: evaluate(graph, args)


_backend = Backend()


def use(backend: Backend) -> None:
    """Makes a backend the one that Graphs are compiled with from now on."""
    global _backend
    _backend = backend


def compiled(graph: Graph) -> Runner:
    """The function of arrays that runs a Graph, made once."""
    runner: Runner = kept(graph, "compiled", lambda: _backend.compile(graph))
    return runner


def run(graph: Graph, args: Sequence[Any]) -> Sequence[Any]:
    """The outputs of a Graph on arrays."""
    return compiled(graph)(*args)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, graph: Graph, **quiet: bool) -> Any:
    pushed = push(graph, [t is not None for t in tangents])
    results = call(*primals, *(t for t in tangents if t is not None), graph=pushed.graph, **quiet)
    count = len(graph.outputs)
    out_tangents: list[Any] = [None] * count
    for position, tangent in zip(pushed.moving, results[count:], strict=True):
        out_tangents[position] = tangent
    return results[:count], out_tangents


def _forward(args: Sequence[Any], wanted: Sequence[Any], *, graph: Graph, **quiet: bool) -> Any:
    halves = differentiate(graph, [bool(w) for w in wanted])
    results = call(*args, graph=halves.forward, **quiet)
    count = len(graph.outputs)
    return results[:count], results[count:], [typeof(arg) for arg in args]


def _vjp(
    cotangents: Sequence[Any], residuals: Any, args: Sequence[Type], wanted: Sequence[Any],
    *, graph: Graph, **quiet: bool,
) -> list[Any]:  # fmt: skip
    halves = differentiate(graph, [bool(w) for w in wanted])
    given = [
        zeros(strong(t)) if c is None else c
        for c, t in zip(cotangents, graph.output_types, strict=True)
        if t.inexact
    ]
    found = call(*residuals, *given, graph=halves.backward, **quiet)
    result: list[Any] = [None] * len(args)
    for position, cotangent in zip(halves.reached, found, strict=True):
        result[position] = cotangent
    return result


def _batch(
    args: Sequence[Any], batched: Sequence[bool], size: int, *, graph: Graph, **quiet: bool
) -> Any:
    new = batch(graph, batched, size)
    outputs = call(*args, graph=new.graph, **quiet)
    return [o if b else Unbatched(o) for o, b in zip(outputs, new.flags, strict=True)]


def _eval(*args: Any, graph: Graph, quiet: bool = False) -> Any:
    if not quiet:
        return tuple(run(graph, args))
    with np.errstate(all="ignore"):
        return tuple(run(graph, args))


call: Primitive = Primitive(
    "call",
    eval=_eval,
    type=lambda *types, graph, quiet=False: tuple(graph.output_types),
    jvp=_jvp,
    vjp=_vjp,
    forward=_forward,
    batch=_batch,
    multiple=True,
)
"""`call(*args, graph=, quiet=)`: the outputs of a Graph, as a tuple.

A quiet call computes what is partly thrown away (a branch not taken): NumPy shall not warn of it.
"""
