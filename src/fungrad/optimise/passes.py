"""Floor 6: passes over a Graph that is about to be run: inline calls, erase stops, simplify, prune.

They are for the Graph that runs, after all differentiation: a stop_gradient may be erased here, and
only here. Each pass is linear in the number of equations.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import Atom, Equation, Graph, Variable, inner_graphs
from fungrad.ir.regrouping import chosen, regrouping
from fungrad.optimise.algebra import simplified
from fungrad.optimise.kernels import choices
from fungrad.optimise.rewrite import (
    Renaming,
    computed_now,
    copied,
    is_pure,
    renamed,
    renewed,
    rewired,
    rewritten,
)
from fungrad.optimise.slices import in_one
from fungrad.primitives.stopping import stop, stop_order
from fungrad.structural.call import call
from fungrad.structural.retrace import kept, pruned

FOLDED = 1 << 16
"""The most elements of a value that is computed when a function is compiled."""

EXPANDED = 1 << 17
"""The most equations that a Graph is given by its calls."""


def inline(graph: Graph) -> Graph:
    """Puts the equations of called Graphs in the place of the calls.

    A Graph that is called with the same arguments again is not expanded again, if it is pure. A
    call stays a call where the equations would be more than EXPANDED.
    """
    if not any(map(_is_call, graph.equations)):
        return graph
    equations: list[Equation] = []
    constants = list(graph.constants)
    names: Renaming = {}
    expanded: dict[Any, tuple[Atom, ...]] = {}

    def outputs_of(call: Equation) -> tuple[Atom, ...] | None:
        inner = call.params["graph"]
        key = _called(call)
        if key in expanded:
            return expanded[key]
        if len(equations) + _expanded_size(inner) > EXPANDED:
            return None
        found = expand(inner, call.inputs)
        if is_pure(call):
            expanded[key] = found
        return found

    def expand(inner: Graph, arguments: tuple[Atom, ...]) -> tuple[Atom, ...]:
        local: Renaming = {id(v): a for v, a in zip(inner.inputs, arguments, strict=True)}
        for variable, value in inner.constants:
            fresh = Variable(variable.type)
            local[id(variable)] = fresh
            constants.append((fresh, value))
        for equation in inner.equations:
            if _is_call(equation):
                outputs = outputs_of(rewired(equation, local))
                if outputs is not None:
                    local.update({id(v): a for v, a in zip(equation.outputs, outputs, strict=True)})
                    continue
            equations.append(renewed(equation, local))
        return renamed(inner.outputs, local)

    for equation in graph.equations:
        equation = rewired(equation, names)
        found = outputs_of(equation) if _is_call(equation) else None
        if found is None:
            equations.append(equation)
        else:
            names.update({id(v): a for v, a in zip(equation.outputs, found, strict=True)})
    outputs = renamed(graph.outputs, names)
    return graph.replace(constants=tuple(constants), equations=tuple(equations), outputs=outputs)


def _called(equation: Equation) -> tuple[Any, ...]:
    """What tells a call apart from others: the Graph and its arguments."""
    arguments = [
        id(a) if isinstance(a, Variable) else (a.type, repr(a.value)) for a in equation.inputs
    ]
    return (id(equation.params["graph"]), *arguments)


def _expanded_size(graph: Graph) -> int:
    """How many equations a Graph has with those of its calls, each different one taken once."""

    def count() -> int:
        calls = {_called(e): e.params["graph"] for e in graph.equations if _is_call(e)}
        others = sum(not _is_call(e) for e in graph.equations)
        return others + sum(map(_expanded_size, calls.values()))

    result: int = kept(graph, "expanded size", count)
    return result


def _is_call(equation: Equation) -> bool:
    return equation.primitive is call and not equation.params.get("quiet")


def erase_stops(graph: Graph) -> Graph:
    """Reads through stop_gradient, which is the identity on values."""
    if not any(map(_is_stop, graph.equations)):
        return graph
    return rewritten(graph, lambda equation: equation.inputs if _is_stop(equation) else equation)


def _is_stop(equation: Equation) -> bool:
    return equation.primitive is stop or equation.primitive is stop_order


def fold(graph: Graph) -> Graph:
    """Computes now what constants alone determine, if it is small and no number goes wrong."""
    known = {id(v): value for v, value in graph.constants}
    if not known:
        return graph
    constants = list(graph.constants)

    def replace(equation: Equation) -> Equation | tuple[Atom, ...]:
        given = [known.get(id(a)) if isinstance(a, Variable) else a.value for a in equation.inputs]
        if not given or any(value is None for value in given) or not _foldable(equation):
            return equation
        value = _computed(equation, given)
        if value is None:
            return equation
        (output,) = equation.outputs
        known[id(output)] = value
        constants.append((output, value))
        return equation.outputs

    found = rewritten(graph, replace)
    return found.replace(constants=tuple(constants))


def _foldable(equation: Equation) -> bool:
    primitive: Any = equation.primitive
    alone = is_pure(equation) and not primitive.multiple
    return alone and all(v.type.size <= FOLDED and not v.type.weak for v in equation.outputs)


def _computed(equation: Equation, given: list[Any]) -> Any:
    """The value of an equation; None where the run shall find it: what raises there, or warns."""
    with np.errstate(all="raise"):
        try:
            return computed_now(equation, given)
        except Exception:  # the run meets it again, and says so at the user's line
            return None


def _of(modules: Sequence[str], where: str, name: str) -> Callable[..., Graph]:
    """A pass that is for primitives of some modules, imported with the first Graph of such."""

    def apply(graph: Graph, *args: Any) -> Graph:
        if not any(equation.primitive.module in modules for equation in graph.equations):
            return graph
        found: Graph = getattr(importlib.import_module(where), name)(graph, *args)
        return found

    apply.__name__ = name
    return apply


_LOOPS = ("fungrad.structural.scan", "fungrad.structural.loop")
_lightened = _of(_LOOPS, "fungrad.optimise.loops", "lightened")
lighter = _of(_LOOPS, "fungrad.optimise.residuals", "lighter")
stacked = _of(_LOOPS, "fungrad.optimise.stacks", "stacked")
thinned = _of(("fungrad.primitives.stacking",), "fungrad.optimise.sparse", "thinned")


def lighten(graph: Graph) -> Graph:
    """Drops what loops need not carry, and computes before them what does not change in them."""
    return _lightened(graph, lambda body: in_one(simplified(thinned(erase_stops(inline(body))))))


def settle(graph: Graph) -> Graph:
    """The Graph, and those in it, with the choice made whether sums and products are regrouped:
    the outermost one's counts.
    """
    choice = regrouping(graph)

    def settled(value: Any) -> Any:
        if isinstance(value, Graph):
            return value if regrouping(value) is choice else chosen(value, choice)
        return tuple(map(settled, value)) if type(value) is tuple else value

    def replace(equation: Equation) -> Equation:
        if all(regrouping(inner) is choice for inner in inner_graphs(equation)):
            return equation
        params = {key: settled(value) for key, value in equation.params.items()}
        return copied(equation, equation.inputs, equation.outputs, params)

    return rewritten(graph.replace(reassociate=choice), replace)


PASSES: tuple[Callable[[Graph], Graph], ...] = (
    inline,
    settle,
    erase_stops,
    pruned,
    thinned,
    fold,
    lighten,
    lighter,
    stacked,
    simplified,
    in_one,
    settle,  # loops in loops have left them
    pruned,
)


def optimised(graph: Graph) -> Graph:
    """The Graph after all passes, made once."""

    key = ("optimised", choices(graph))

    def make() -> Graph:
        result = graph
        for apply in PASSES:
            result = apply(result)
        result.derived[key] = result  # it is what the passes make of it, too
        return result

    result: Graph = kept(graph, key, make)
    return result


__all__: list[Any] = ["PASSES", "erase_stops", "fold", "inline", "lighten", "optimised", "settle"]
