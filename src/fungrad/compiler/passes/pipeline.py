"""Passes over a Graph that is about to be run: inline calls, erase stops, simplify, prune.

They are for the Graph that runs, after all differentiation: a stop_gradient may be erased here, and
only here. Each pass is linear in the number of equations.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.rewriter import (
    Renaming,
    computed_now,
    copied,
    is_pure,
    placed,
    renamed,
    rewired,
    rewritten,
)
from fungrad.compiler.passes.simplify.blas_and_power_forms import choices
from fungrad.compiler.passes.simplify.exact_identities import simplified
from fungrad.compiler.passes.store_forwarding import forwarded
from fungrad.control_flow.call import is_call
from fungrad.ir.graph import Atom, Equation, Graph, Variable, inner_graphs
from fungrad.primitives.stop_gradient import stop, stop_order
from fungrad.retracing.graph_transforms import kept, pruned
from fungrad.retracing.inlining import Expansion, TooMany
from fungrad.tracing.graph_trace import stage


def inline(graph: Graph) -> Graph:
    """Puts the equations of called Graphs in the place of the calls.

    What is pure and reads the same as before is not written again, be it an equation or a call. A
    call stays a call where the equations would be more than costs.expanded_equations.
    """
    if not any(map(is_call, graph.equations)):
        return graph
    return _Calls(graph).expanded(graph)


class _Calls(Expansion):
    """Expands every call that does not have too many equations."""

    def called(self, equation: Equation) -> tuple[Atom, ...] | None:
        if not is_call(equation):
            return None
        inner = equation.params["graph"]
        if (
            self.limit < math.inf
            or len(self.equations) + _expanded_size(inner) <= costs.expanded_equations
        ):
            return self.of(inner, equation.inputs)
        before = len(self.equations), len(self.constants), len(self.known)
        self.limit = min(costs.expanded_equations, before[0] + costs.attempted_equations)
        try:
            return self.of(inner, equation.inputs)
        except TooMany:
            del self.equations[before[0] :]
            for held, size in ((self.constants, before[1]), (self.known, before[2])):
                while len(held) > size:
                    held.popitem()
            return None
        finally:
            self.limit = math.inf


def _called(equation: Equation) -> tuple[Any, ...]:
    """The key of a call: its Graph and its arguments."""
    arguments = [
        id(a) if isinstance(a, Variable) else (a.type, repr(a.value)) for a in equation.inputs
    ]
    return (id(equation.params["graph"]), *arguments)


def _expanded_size(graph: Graph) -> int:
    """How many equations a Graph has with those of its calls, each different one taken once."""

    def count() -> int:
        calls = {_called(e): e.params["graph"] for e in graph.equations if is_call(e)}
        others = sum(not is_call(e) for e in graph.equations)
        return others + sum(map(_expanded_size, calls.values()))

    result: int = kept(graph, "expanded size", count)
    return result


def expand(graph: Graph) -> Graph:
    """Replaces primitives declared `inline` by the operations of their `eval`. A compiled program
    takes no derivatives any more, so that it can fuse and write them.
    """
    if not any(e.primitive.inline for e in graph.equations):
        return graph
    constants, equations = list(graph.constants), list[Equation]()
    names: Renaming = {}
    for equation in graph.equations:
        read = rewired(equation, names)
        inner = _inside(read) if read.primitive.inline else None
        if inner is None:
            equations.append(read)
            continue
        constants += inner.constants
        local: Renaming = {id(v): a for v, a in zip(inner.inputs, read.inputs, strict=True)}
        for e in inner.equations:
            equations.append(
                placed(read, e.primitive, renamed(e.inputs, local), e.outputs, e.params)
            )
        found = renamed(inner.outputs, local)
        names.update({id(v): a for v, a in zip(equation.outputs, found, strict=True)})
    return graph.replace(
        constants=tuple(constants),
        equations=tuple(equations),
        outputs=renamed(graph.outputs, names),
    )


def _inside(equation: Equation) -> Graph | None:
    """The Graph of a primitive's `eval`; None where its types would differ."""
    primitive: Any = equation.primitive
    types = [atom.type for atom in equation.inputs]

    def run(*args: Any) -> Any:
        made = primitive.eval(*args, **equation.params)
        return list(made) if primitive.multiple else [made]

    names = [f"argument {i}" for i in range(len(types))]
    graph = stage(run, types, names, lambda: f"eval of `{primitive.name}`, declared inline")
    same = graph.output_types == [v.type for v in equation.outputs]
    return expand(inline(graph)) if same else None


def erase_stops(graph: Graph) -> Graph:
    """Reads through stop_gradient, which is the identity on values."""
    if not any(map(_is_stop, graph.equations)):
        return graph
    return rewritten(graph, lambda equation: equation.inputs if _is_stop(equation) else equation)


def _is_stop(equation: Equation) -> bool:
    return equation.primitive is stop or equation.primitive is stop_order


def fold(graph: Graph) -> Graph:
    """Constant folding: evaluates equations of constants with results of moderate size, unless they
    raise or warn.

    Without it the Hessian of Rosenbrock's function of 100 numbers takes 1.26 times the time.
    """
    return _folded(graph, costs.folded_constant) if graph.constants else graph


def fold_small(graph: Graph) -> Graph:
    """Constant folding of what the passes made, where a call of NumPy costs more than its work."""
    return _folded(graph, costs.small_array)


def _folded(graph: Graph, most: int) -> Graph:
    known = {id(v): value for v, value in graph.constants}
    constants = list(graph.constants)

    def replace(equation: Equation) -> Equation | tuple[Atom, ...]:
        given = [known.get(id(a)) if isinstance(a, Variable) else a.value for a in equation.inputs]
        if not given or any(value is None for value in given) or not _foldable(equation, most):
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


def _foldable(equation: Equation, most: int) -> bool:
    primitive: Any = equation.primitive
    alone = is_pure(equation) and not primitive.multiple
    return alone and all(v.type.size <= most for v in equation.outputs)


def _computed(equation: Equation, given: list[Any]) -> Any:
    """The value of an equation; None if evaluation raises or warns, which has to happen at run
    time.
    """
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


_LOOPS = ("fungrad.control_flow.scan", "fungrad.control_flow.while_loop")
_lightened = _of(_LOOPS, "fungrad.compiler.passes.loops.dce_licm", "lightened")
lighter = _of(_LOOPS, "fungrad.compiler.passes.loops.residual_rematerialisation", "lighter")
stacked = _of(_LOOPS, "fungrad.compiler.passes.loops.loop_fission", "stacked")
thinned = _of(
    ("fungrad.primitives.movement.stack_iota",),
    "fungrad.compiler.passes.jacobian_sparsity",
    "thinned",
)


def lighten(graph: Graph) -> Graph:
    """Drops unused carries of loops and hoists what does not change in them."""

    def body_passes(body: Graph) -> Graph:
        body = simplified(thinned(erase_stops(expand(inline(body)))))
        return forwarded(body, arrays=False)

    return _lightened(graph, body_passes)


def settle(graph: Graph) -> Graph:
    """The Graphs in a Graph with its own choice whether sums and products are regrouped."""

    def settled(value: Any) -> Any:
        if isinstance(value, Graph):
            return value.choosing(graph.reassociate)
        return tuple(map(settled, value)) if type(value) is tuple else value

    def replace(equation: Equation) -> Equation:
        if all(inner.reassociate is graph.reassociate for inner in inner_graphs(equation)):
            return equation
        params = {key: settled(value) for key, value in equation.params.items()}
        return copied(equation, equation.inputs, equation.outputs, params)

    return rewritten(graph, replace)


PASSES: tuple[Callable[[Graph], Graph], ...] = (
    inline,
    expand,
    settle,
    erase_stops,
    pruned,
    thinned,
    fold,
    lighten,
    lighter,
    stacked,
    simplified,
    forwarded,
    fold_small,
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
