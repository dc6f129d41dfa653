"""`iterate`, a function applied until nothing changes, without a derivative of its own.

The search of fixed_point, under every trace: `implicit` gives it its derivatives. Knows
staging.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.control_flow.call import run
from fungrad.custom_rules.closures_and_arguments import captured
from fungrad.errors import ArgumentError
from fungrad.ir.graph import Graph
from fungrad.primitives.primitive import Primitive
from fungrad.retracing.graph_transforms import batch, spread
from fungrad.support import pytree
from fungrad.tracing.trace import EVAL, current


def iterate(step: Callable[[Any], Any], start: Any, tol: float, maxiter: int) -> Any:
    """The fixed point of a function of a tree: run on arrays, otherwise one equation."""
    leaves, treedef = pytree.flatten(start)

    def flat(*values: Any) -> list[Any]:
        return pytree.leaves(step(pytree.unflatten(treedef, values)))

    if current() is EVAL:
        found = _search(lambda xs: flat(*xs), leaves, tol, maxiter)
    else:
        graph, closure = captured(flat, leaves, step)
        constants = len(closure)
        found = list(
            iteration(*closure, *leaves, graph=graph, constants=constants, tol=tol, maxiter=maxiter)
        )
    return pytree.unflatten(treedef, found)


def _search(
    f: Callable[[Sequence[Any]], Sequence[Any]], x: Sequence[Any], tol: float, maxiter: int
) -> list[Any]:
    for _ in range(maxiter):
        new = list(f(x))
        done = all(
            np.all(np.abs(np.subtract(b, a)) <= tol * (1.0 + np.abs(a)))
            for a, b in zip(x, new, strict=True)
        )
        x = new
        if done:
            return new
        if not all(np.all(np.isfinite(v)) for v in new):
            break
    raise ArgumentError(
        f"The iteration of a fixed point has not come to rest within maxiter={maxiter} steps and "
        f"the tolerance {tol}, or left the finite numbers. The function has to be a contraction "
        "near the solution: damp it, begin nearer, or raise maxiter or tol."
    )


def _eval(*args: Any, graph: Graph, constants: int, tol: float, maxiter: int) -> tuple[Any, ...]:
    fixed, start = args[:constants], args[constants:]
    return tuple(_search(lambda xs: list(run(graph, [*fixed, *xs])), start, tol, maxiter))


def _batch(
    args: Sequence[Any], batched: Sequence[bool], size: int,
    *, graph: Graph, constants: int, tol: float, maxiter: int,
) -> Any:  # fmt: skip
    flags = [*batched[:constants], *([True] * (len(args) - constants))]
    values = [
        x if b == flag else spread(x, b, size)
        for x, b, flag in zip(args, batched, flags, strict=True)
    ]
    inner = batch(graph, flags, size, all_outputs=True).graph
    return iteration(*values, graph=inner, constants=constants, tol=tol, maxiter=maxiter)


iteration: Primitive = Primitive(
    "fixed_point",
    eval=_eval,
    type=lambda *types, graph, constants, tol, maxiter: tuple(graph.output_types),
    batch=_batch,
    cuts=True,
    multiple=True,
)
"""`fixed_point(*constants, *start, graph=, constants=, tol=, maxiter=)`: the Graph, applied to what
it gave until that no longer changes."""

__all__ = ["iterate", "iteration"]
