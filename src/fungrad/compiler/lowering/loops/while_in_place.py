"""Lowers a while_loop on arrays to a `while` that writes the next carry over the one before.

The first carries are copied where something else may read them; each iteration then has the memory
that it needs, and what it does not read is dropped before it. Knows the lowering of equations, and
which values of them are arrays of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import numpy as np

from fungrad.compiler.lowering.array_lowering import ArrayLowering, LowerLoop, Runner, donatable
from fungrad.compiler.lowering.fusion.clustering import FusionCluster
from fungrad.compiler.lowering.program import (
    Call,
    Expression,
    Free,
    Program,
    Return,
    Value,
    While,
    listed,
    value,
)
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.passes.rewriter import is_pure
from fungrad.control_flow.call import compiled
from fungrad.control_flow.while_loop import while_loop
from fungrad.ir.graph import Equation, Graph, Variable


def lower(
    equation: Equation, donated: Collection[Variable], shared: bool, lower_loop: LowerLoop
) -> Runner | None:
    """The program of a while_loop, a function that returns its outputs; None where no carry can be
    written over.

    Args:
      equation: the loop.
      donated: inputs that may be written over, so that carries begin there without a copy.
      shared: of no meaning here: outputs are arrays of their own.
      lower_loop: lowers the loops of its body.
    """
    if equation.primitive is not while_loop:
        return None
    body, cond = optimised(equation.params["body"]), equation.params["cond"]
    first, second = equation.params["counts"]
    lowering = ArrayLowering(body, lower_loop, None)
    made, unread = _carries(lowering, second)
    if not made or not all(map(is_pure, cond.equations)):
        return None
    lowering.donate([body.inputs[second + i] for i in made])
    given = {place - first - second for place in donatable(equation.inputs, donated)}

    conditions = [Value() for _ in range(first)]
    values = [lowering.value(v) for v in body.inputs]
    carry = values[second:]
    array = lowering.constant("array", np.array)
    copies = [
        Call(f"{array}({{0}}, order='C')", [carry[i]], [carry[i]]) for i in made if i not in given
    ]
    dropped = [Free([carry[i] for i in unread])] if unread else []
    lowering.lower()
    moves = [(c, lowering.bound(a)) for c, a in zip(carry, body.outputs, strict=True)]
    fields = ", ".join("{}" for _ in (*conditions, *carry))
    holds = f"{lowering.constant('cond', compiled(cond))}({fields})[0]"
    loop = While(Expression(holds, (*conditions, *carry)), [*dropped, *lowering.nodes], moves)
    nodes = [*copies, loop, Return(listed([value(v) for v in carry]))]
    return lowering.runner(Program("run", [*conditions, *values], nodes, lowering.globals))


def _carries(lowering: ArrayLowering, constants: int) -> tuple[list[int], list[int]]:
    """The carries that are arrays of their own after each iteration, and those that none reads."""
    body: Graph = lowering.graph
    read = Counter(atom for step in lowering.steps for atom in step.inputs)
    read.update(body.outputs)
    fused = {v for step in lowering.steps if isinstance(step, FusionCluster) for v in step.outputs}
    made, unread = [], []
    for i, (before, after) in enumerate(zip(body.inputs[constants:], body.outputs, strict=True)):
        if not read[before]:
            unread.append(i)
        elif after in fused and read[after] == 1 and before.type.shape:
            made.append(i)
    return made, unread


__all__ = ["lower"]
