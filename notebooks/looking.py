"""What the notebooks share: the stopped region of a Graph, marked, and the memory of a pullback.

Knows fungrad's public functions and NumPy's allocator; nothing of any notebook.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import fungrad as fg
from fungrad.ir.graph import Variable


def stopped(graph: fg.Graph) -> list[bool]:
    """For each equation of a Graph, whether a stop keeps the gradient out of it.

    Either its results reach an output only through a stop, or they are made of stopped values only.
    """
    needed = {id(atom) for atom in graph.outputs}
    result = []
    for equation in reversed(graph.equations):
        reaches = any(id(variable) in needed for variable in equation.outputs)
        if reaches and equation.primitive.name != "stop_gradient":
            needed.update(id(atom) for atom in equation.inputs)
        result.append(not reaches)
    result.reverse()
    constants = {id(variable) for variable, _ in graph.constants}
    fixed: set[int] = set()
    for i, equation in enumerate(graph.equations):
        variables = [id(a) for a in equation.inputs if isinstance(a, Variable)]
        if equation.primitive.name == "stop_gradient":
            fixed.update(id(variable) for variable in equation.outputs)
        elif fixed.intersection(variables) and fixed.union(constants).issuperset(variables):
            fixed.update(id(variable) for variable in equation.outputs)
            result[i] = True
    return result


def marked(graph: fg.Graph) -> str:
    """The text of a Graph with a bar beside all that the gradient does not enter.

    >>> print(marked(fg.make_jaxpr(lambda x: x * fg.stop_gradient(np.exp(x), "weight"))(1.0)))
      { lambda a:f64[]. let
    ┃     b:f64[] = exp a
    ┗     c:f64[] = stop_gradient[name=weight] b
          d:f64[] = mul a c
        in (d,) }
    """
    regions = iter(zip(stopped(graph), graph.equations, strict=True))
    lines, margin = [], " "
    for line in str(graph).splitlines():
        starts = line.startswith("    ") and line[4] not in " ])"
        if starts and " = " in line:
            inside, equation = next(regions)
            margin = "┃" if inside else " "
            if equation.primitive.name == "stop_gradient":
                margin = "┗"
        elif not line.startswith("    "):
            margin = " "
        lines.append(f"{margin} {line}")
    return "\n".join(lines)


def held_bytes(f: Callable[..., Any], *args: Any) -> int:
    """The bytes of the arrays that are alive for a pullback's sake: what reverse mode keeps of f.

    Counts what NumPy allocated while `fg.vjp(f, *args)` ran and has not given back after it, but
    for what compiled loops keep for their next call.
    """
    tracemalloc.start()
    try:
        before = _array_bytes()
        pullback = fg.vjp(f, *args)[1]
        fg.clear_caches()
        after = _array_bytes()
        del pullback
    finally:
        tracemalloc.stop()
    return after - before


def _array_bytes() -> int:
    gc.collect()
    arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    snapshot = tracemalloc.take_snapshot().filter_traces([arrays])
    return sum(trace.size for trace in snapshot.traces)
