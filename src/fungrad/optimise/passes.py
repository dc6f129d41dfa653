"""Floor 6: passes over a Graph that is about to be run: inline calls, erase stops, share, prune.

They are for the Graph that runs, after all differentiation: a stop_gradient may be erased here, and
only here. Each pass is linear in the number of equations.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.optimise.algebra import simplified
from fungrad.optimise.rewrite import Renaming, copied, renamed, rewritten
from fungrad.primitives.stopping import stop, stop_order
from fungrad.structural.call import call
from fungrad.structural.retrace import effectful, kept, pruned

SMALL = 1 << 16  # bytes of a constant that is compared with others


def inline(graph: Graph) -> Graph:
    """Puts the equations of called Graphs in the place of the calls."""
    if not any(map(_is_call, graph.equations)):
        return graph
    equations: list[Equation] = []
    constants = list(graph.constants)
    names: Renaming = {}

    def expand(inner: Graph, arguments: tuple[Atom, ...]) -> tuple[Atom, ...]:
        local: Renaming = {id(v): a for v, a in zip(inner.inputs, arguments, strict=True)}
        for variable, value in inner.constants:
            fresh = Variable(variable.type)
            local[id(variable)] = fresh
            constants.append((fresh, value))
        for equation in inner.equations:
            inputs = renamed(equation.inputs, local)
            if _is_call(equation):
                outputs = expand(equation.params["graph"], inputs)
                local.update({id(v): a for v, a in zip(equation.outputs, outputs, strict=True)})
                continue
            results = tuple([Variable(v.type) for v in equation.outputs])
            local.update({id(v): r for v, r in zip(equation.outputs, results, strict=True)})
            equations.append(copied(equation, inputs, results))
        return renamed(inner.outputs, local)

    for equation in graph.equations:
        inputs = renamed(equation.inputs, names)
        if _is_call(equation):
            outputs = expand(equation.params["graph"], inputs)
            names.update({id(v): a for v, a in zip(equation.outputs, outputs, strict=True)})
        else:
            equations.append(copied(equation, inputs, equation.outputs))
    outputs = renamed(graph.outputs, names)
    return Graph(graph.inputs, tuple(constants), tuple(equations), outputs, graph.name)


def _is_call(equation: Equation) -> bool:
    return equation.primitive is call and not equation.params.get("quiet")


def erase_stops(graph: Graph) -> Graph:
    """Reads through stop_gradient, which is the identity on values."""

    def replace(equation: Equation) -> Equation | tuple[Atom, ...]:
        stops = equation.primitive is stop or equation.primitive is stop_order
        return equation.inputs if stops else equation

    return rewritten(graph, replace)


def share(graph: Graph) -> Graph:
    """Computes equal equations once (common subexpressions)."""
    seen: dict[Hashable, Equation] = {}

    def replace(equation: Equation) -> Equation | tuple[Atom, ...]:
        key = None if effectful(equation) else _key(equation)
        if key is None:
            return equation
        twin = seen.setdefault(key, equation)
        return equation if twin is equation else twin.outputs

    return rewritten(graph, replace, _equal_constants(graph))


def _equal_constants(graph: Graph) -> Renaming:
    """Small constants that are equal bit for bit, by the first of them."""
    names: Renaming = {}
    first: dict[Hashable, Variable] = {}
    for variable, value in graph.constants:
        if isinstance(value, np.ndarray) and value.nbytes <= SMALL and not value.dtype.hasobject:
            key = (variable.type, value.tobytes())
            names[id(variable)] = first.setdefault(key, variable)
    return names


def _key(equation: Equation) -> Hashable:
    """What two equations have in common when they compute the same; None where that cannot be
    told.
    """
    atoms = tuple(
        [
            (atom.type, repr(atom.value)) if isinstance(atom, Literal) else id(atom)
            for atom in equation.inputs
        ]
    )
    params = tuple(
        [(k, id(v) if isinstance(v, Graph) else (type(v), v)) for k, v in equation.params.items()]
    )
    try:
        hash(params)
    except TypeError:
        return None
    return (equation.primitive, atoms, params)


PASSES: tuple[Callable[[Graph], Graph], ...] = (inline, erase_stops, simplified, share, pruned)


def optimised(graph: Graph) -> Graph:
    """The Graph after all passes, made once."""

    def make() -> Graph:
        result = graph
        for apply in PASSES:
            result = apply(result)
        return result

    result: Graph = kept(graph, "optimised", make)
    return result


__all__: list[Any] = ["PASSES", "erase_stops", "inline", "optimised", "share"]
