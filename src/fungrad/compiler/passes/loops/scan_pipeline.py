"""What need not be done in each step of a scan leaves it: one large operation does the
work of many small ones.

Without sums of products behind them the gradient of an LSTM of one sequence takes 1.17 times the
time (reassociated: 1.33). Products before the loop are as fast inside (0.9 to 1.05): they are kept
for the bits of their results, which BLAS rounds otherwise.

What a scan multiplies of each x with a constant is multiplied before it, for all steps at once; a
sum of products that it carries is one product of the stacks behind it, as in backpropagation
through time by hand. Small arrays leave it in other equations, too (loop_fission.py). Sums of
cotangents are regrouped, and equal to rounding; those of the program only where that is asked for.
Knows `scan` and contractions.
"""

from __future__ import annotations

from typing import Any

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.loops.loop_fission import (
    added,
    move_before,
    move_behind,
    sum_behind,
    thin_out,
)
from fungrad.compiler.passes.loops.open_scan import Loop, on_numbers
from fungrad.compiler.passes.loops.reassociation import associated
from fungrad.compiler.passes.rewriter import Renaming, renamed, rewired
from fungrad.control_flow.scan import scan
from fungrad.ir.graph import Equation, Graph, Variable
from fungrad.ir.reassociation import regrouping
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.movement.reshape_broadcast_cast import reduce_sum


def stacked(graph: Graph) -> Graph:
    """The Graph with what its scans need not do in each step before and behind them."""
    if not any(e.primitive is scan for e in graph.equations):
        return graph
    regroup = regrouping(graph)
    equations: list[Equation] = []
    constants = list(graph.constants)
    names: Renaming = {}
    for equation in graph.equations:
        equation = rewired(equation, names)
        if equation.primitive is not scan or equation.params["length"] < 2:
            equations.append(equation)
            continue
        loop = Loop(equation)
        _multiply_before(loop)
        _sum_behind(loop, regroup)
        if not on_numbers(loop.body):
            sum_behind(loop, regroup)
            if regroup:
                associated(loop)
            move_before(loop)
            move_behind(loop)
            thin_out(loop)
        equations += loop.rewritten()
        constants += loop.constants
        names.update(loop.names)
    outputs = renamed(graph.outputs, names)
    return graph.replace(constants=tuple(constants), equations=tuple(equations), outputs=outputs)


def _multiply_before(loop: Loop) -> None:
    """Products of xs with what is the same in all steps."""
    fixed, stacks = loop.fixed(), {id(v) for v, _ in loop.xs}
    inside = []
    for equation in loop.equations:
        known = [id(a) in stacks or id(a) in fixed for a in equation.inputs]
        if (
            equation.primitive is dot_general
            and all(known)
            and sum(id(a) in stacks for a in equation.inputs) == 1
            and equation.outputs[0].type.size * loop.length <= costs.hoisted_stack
        ):
            equations, (stack,) = loop.for_all_steps([equation], equation.outputs)
            loop.before += equations
            loop.xs.append((equation.outputs[0], stack))
            stacks.add(id(equation.outputs[0]))
        else:
            inside.append(equation)
    loop.equations = inside


def _sum_behind(loop: Loop, regroup: bool) -> None:
    """Sums of products that a scan carries, and sums of what it stacks anyway."""
    made, reads = loop.made(), loop.reads()
    kept: list[Any] = []
    later: list[tuple[Any, Variable]] = []
    for item in loop.carry:
        term = added(item, made, reads, regroup)
        product = made.get(id(term)) if term is not None else None
        if term is None or product is None or reads[id(term)] != 1 or not _product(loop, product):
            if term is not None:
                later.append((item, term))
            kept.append(item)
            continue
        left, right = (loop.stack(a) for a in product.inputs)
        first, second = product.params["contract"]
        pairs = ((0, *(i + 1 for i in first)), (0, *(i + 1 for i in second)))
        loop.summed(item, product, dot_general, (left, right), contract=pairs, batch=((), ()))
    available = {id(v) for v, _ in (*loop.xs, *loop.ys)}
    for item, term in later:
        if id(term) in available and len(kept) < len(loop.carry):
            kept = [k for k in kept if k is not item]
            loop.summed(item, made.get(id(term)), reduce_sum, (loop.stack(term),), axes=(0,))
    loop.carry = kept
    loop.prune()


def _product(loop: Loop, equation: Equation) -> bool:
    """Whether an equation is a product of what steps make, of which there may be stacks."""
    if equation.primitive is not dot_general or equation.params["batch"][0]:
        return False
    fixed = loop.given(xs=False)
    return all(
        isinstance(a, Variable)
        and id(a) not in fixed
        and a.type.ndim > 0
        and a.type.size * loop.length <= costs.hoisted_stack
        for a in equation.inputs
    )
