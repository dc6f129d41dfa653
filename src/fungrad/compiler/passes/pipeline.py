"""The passes over a Graph before it runs: inline calls, erase stops, simplify, prune.

They run after all differentiation: a stop_gradient may be erased here, and only here. Each pass is
linear in the number of equations.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.rewriter import computed_now, rewritten
from fungrad.compiler.passes.simplify.driver import (
    choices,
    simplify,
    simplify_moves,
    simplify_outer_products,
)
from fungrad.control_flow.call import is_call
from fungrad.ir.graph import Atom, Equation, Graph, Variable, inner_graphs
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.movement.gather import scatter
from fungrad.primitives.movement.reshape_broadcast_cast import concatenate
from fungrad.primitives.movement.scatter import index_add, index_set
from fungrad.primitives.movement.stack_iota import stack
from fungrad.primitives.stop_gradient import stop, stop_order
from fungrad.retracing.graph_transforms import drop_dead, memoised
from fungrad.retracing.inlining import (
    Expansion,
    TooMany,
    copied,
    is_pure,
    placed,
)
from fungrad.support.lazy import imported
from fungrad.tracing.graph_trace import stage


def inline(graph: Graph) -> Graph:
    """Replaces calls by the equations of their Graphs, and primitives declared `inline` by the
    operations of their `eval`, which the compiler can fuse: no derivative rule is needed any more.

    A pure equation or call with the same operands as an earlier one is not written again. A call
    stays if the result would exceed costs.expanded_equations equations. A Graph with more than
    costs.repeated_equations that several calls run is compiled once, and its calls stay.
    """
    if not any(is_call(e) or e.primitive.inline for e in graph.equations):
        return graph
    return _Inlining(graph).expanded(graph)


class _Inlining(Expansion):
    """Expands inline primitives, and every call that does not have too many equations."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.staged: list[Graph] = []
        """The Graphs of inline primitives: `constants` has the ids of their variables."""
        self._calls = _counted_calls(graph)

    def called(self, equation: Equation) -> tuple[Atom, ...] | None:
        if equation.primitive.inline:
            inlined = _inside(equation)
            if inlined is None:
                return None
            self.staged.append(inlined)
            return self.of(inlined, equation.inputs)
        if not is_call(equation):
            return None
        inner, size = equation.params["graph"], len(self.equations)
        attempted, most = costs.attempted_equations, costs.expanded_equations - size
        if self._calls[inner] > 1:
            attempted = most = min(costs.repeated_equations, most)
        if self.limit < math.inf or expanded_size(inner) <= most:
            return self.of(inner, equation.inputs)
        before = size, len(self.constants), len(self.known)
        self.limit = size + min(attempted, most)
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


def _counted_calls(graph: Graph) -> Counter[Graph]:
    """How many calls run each of the Graphs that a Graph and its callees call, by their ids."""
    counts: Counter[Graph] = Counter()
    waiting = [graph]
    while waiting:
        called = [e.params["graph"] for e in waiting.pop().equations if is_call(e)]
        waiting += dict.fromkeys(g for g in called if g not in counts)
        counts.update(called)
    return counts


def _called(equation: Equation) -> tuple[Any, ...]:
    """The key of a call: its Graph and arguments."""
    arguments = [a if isinstance(a, Variable) else (a.type, repr(a.value)) for a in equation.inputs]
    return (equation.params["graph"], *arguments)


def repeats(graph: Graph) -> bool:
    """Whether several calls in a Graph, or in its callees, run one Graph."""
    return max(_counted_calls(graph).values(), default=0) > 1


def expanded_size(graph: Graph) -> int:
    """The number of equations of a Graph with those of its calls; equal calls count once."""

    def count() -> int:
        calls = {_called(e): e.params["graph"] for e in graph.equations if is_call(e)}
        others = sum(not is_call(e) for e in graph.equations)
        return others + sum(map(expanded_size, calls.values()))

    result: int = memoised(graph, "expanded size", count)
    return result


def _inside(equation: Equation) -> Graph | None:
    """The Graph of a primitive's `eval`; None if its types would differ."""
    primitive: Any = equation.primitive
    types = [atom.type for atom in equation.inputs]

    def run(*args: Any) -> Any:
        made = primitive.eval(*args, **equation.params)
        return list(made) if primitive.multiple else [made]

    names = [f"argument {i}" for i in range(len(types))]
    graph = stage(run, types, names, lambda: f"eval of `{primitive.name}`, declared inline")
    if graph.output_types != [v.type for v in equation.outputs]:
        return None
    graph = inline(graph)
    equations = [
        placed(equation, e.primitive, e.inputs, e.outputs, e.params) for e in graph.equations
    ]
    return graph.replace(equations=tuple(equations))


def erase_stops(graph: Graph) -> Graph:
    """Reads through stop_gradient, which is the identity on values."""
    if not any(map(_is_stop, graph.equations)):
        return graph
    return rewritten(graph, lambda equation: equation.inputs if _is_stop(equation) else equation)


def _is_stop(equation: Equation) -> bool:
    return equation.primitive is stop or equation.primitive is stop_order


def fold(graph: Graph) -> Graph:
    """Constant folding: evaluates equations on constants if the result is of moderate size, or not
    larger than the constants, and nothing raises or warns.

    Without it Hessians of Rosenbrock's function cost 1.48 times as much (calls and elements of
    `ablation`).
    """
    known = dict(graph.constants)
    constants = list(graph.constants)

    def replace(equation: Equation) -> Equation | tuple[Atom, ...]:
        given = [known.get(a) if isinstance(a, Variable) else a.value for a in equation.inputs]
        if not given or any(value is None for value in given) or not _foldable(equation):
            return equation
        value = _computed(equation, given)
        if value is None:
            return equation
        (output,) = equation.outputs
        known[output] = value
        constants.append((output, value))
        return equation.outputs

    folded = rewritten(graph, replace)
    return folded.replace(constants=tuple(constants))


def _foldable(equation: Equation) -> bool:
    primitive: Any = equation.primitive
    alone = is_pure(equation) and not primitive.multiple
    largest = min(max(a.type.size for a in equation.inputs), costs.folded_alike)
    most = max(costs.folded_constant, largest)
    most = costs.small_array if primitive.view else most  # views are no work
    return alone and all(v.type.size <= most for v in equation.outputs)


def _computed(equation: Equation, given: list[Any]) -> Any:
    """The value of an equation; None if it raises or warns, which has to happen at run time."""
    with np.errstate(all="raise"):
        try:
            return computed_now(equation, given)
        except Exception:  # raised again at run time, with the user's line
            return None


def _of(modules: Sequence[str], where: str, name: str) -> Callable[..., Graph]:
    """A pass for primitives of some modules, imported when a Graph first has one of them."""

    def apply(graph: Graph, *args: Any) -> Graph:
        if not any(equation.primitive.module in modules for equation in graph.equations):
            return graph
        result: Graph = getattr(imported(where), name)(graph, *args)
        return result

    apply.__name__ = name
    return apply


_LOOPS = ("fungrad.control_flow.scan", "fungrad.control_flow.while_loop")
_simplify_loops = _of(_LOOPS, "fungrad.compiler.passes.loops.dce_licm", "simplify_loops_by")
rematerialise_residuals = _of(
    _LOOPS, "fungrad.compiler.passes.loops.residual_rematerialisation", "rematerialise_residuals"
)
split_loops = _of(_LOOPS, "fungrad.compiler.passes.loops.loop_fission", "split_loops")
propagate_diagonals = _of(
    ("fungrad.primitives.movement.stack_iota",),
    "fungrad.compiler.passes.jacobian_sparsity",
    "propagate_diagonals",
)


values_with_vectors = _of(
    ("fungrad.primitives.linalg.spectra",),
    "fungrad.compiler.passes.simplify.factors",
    "values_with_vectors",
)
products_with_vectors = _of(
    ("fungrad.primitives.linalg.solve",),
    "fungrad.compiler.passes.simplify.factors",
    "products_with_vectors",
)
forward_stores = _of(
    ("fungrad.primitives.movement.scatter", "fungrad.primitives.movement.gather"),
    "fungrad.compiler.passes.store_forwarding",
    "forward_stores",
)


def simplify_loops(graph: Graph) -> Graph:
    """Drops unused carries of loops and hoists loop-invariant equations."""

    def body_passes(body: Graph) -> Graph:
        body = simplify(propagate_diagonals(erase_stops(inline(body))))
        return forward_stores(body, False)

    return _simplify_loops(graph, body_passes)


def settle(graph: Graph) -> Graph:
    """Gives inner Graphs the `reassociate` choice of the Graph."""

    def settled(value: Any) -> Any:
        if isinstance(value, Graph):
            return value.choosing(reassociate=graph.reassociate)
        return tuple(map(settled, value)) if type(value) is tuple else value

    def replace(equation: Equation) -> Equation:
        if all(inner.reassociate is graph.reassociate for inner in inner_graphs(equation)):
            return equation
        params = {key: settled(value) for key, value in equation.params.items()}
        return copied(equation, equation.inputs, equation.outputs, params)

    return rewritten(graph, replace)


def may_have_loops(equations: Sequence[Equation]) -> bool:
    """Whether equations may have a loop that Python ran: there are many, or they join or write as
    many values as a loop has steps.
    """
    products = sum([e.primitive is dot_general for e in equations])
    if len(equations) + costs.rerolled_product * products >= costs.rerolled_equations:
        return True
    if len(equations) < 2 * costs.rerolled_steps:
        return False
    writes = sum([e.primitive in (scatter, index_add, index_set) for e in equations])
    joined = [len(e.inputs) for e in equations if e.primitive in (stack, concatenate)]
    return max(writes, *joined, 0) >= costs.rerolled_steps


def reroll_loops(graph: Graph) -> Graph:
    """Makes loops that Python ran while the function was traced scans again."""
    if not may_have_loops(graph.equations):
        return graph
    first = drop_dead(forward_stores(simplify_moves(graph)))
    result: Graph = imported("fungrad.compiler.passes.loops.reroll").reroll(first)
    return graph if result is first else result


PASSES: tuple[Callable[[Graph], Graph], ...] = (
    inline,
    settle,
    erase_stops,
    drop_dead,
    propagate_diagonals,
    reroll_loops,
    simplify_loops,
    rematerialise_residuals,
    split_loops,
    products_with_vectors,
    simplify_outer_products,
    values_with_vectors,
    simplify,
    forward_stores,
    fold,
    settle,  # for the Graphs that loop passes moved out of loops
    drop_dead,
)


def optimised(graph: Graph) -> Graph:
    """The Graph after all passes, made once."""
    key = ("optimised", choices(graph))

    def make() -> Graph:
        result = graph
        for apply in PASSES:
            result = apply(result)
        return as_optimised(result)

    result: Graph = memoised(graph, key, make)
    return result


def as_optimised(graph: Graph) -> Graph:
    """The Graph, which `optimised` does not change."""
    graph.derived["optimised", choices(graph)] = graph
    return graph
