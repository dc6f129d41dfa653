"""while_loops on arrays that write the next carry over the one before.

The first carries are copied where something else may read them; each step then has the memory that
it needs, and what no step reads is dropped before it. Knows the programs of Graphs, and which
values of them are arrays of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.lowering.backend import build
from fungrad.compiler.lowering.fusion.clustering import Region, scheduled
from fungrad.compiler.lowering.statement_codegen import loops, own
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.passes.rewriter import is_pure
from fungrad.control_flow.call import Runner, run
from fungrad.control_flow.while_loop import parts, while_loop
from fungrad.ir.graph import Equation, Graph, Variable


def in_place(equation: Equation, spare: Collection[Variable], shared: bool) -> Runner | None:
    """The program of a while_loop, a function that returns its outputs; None where no carry can be
    written over.

    Args:
      equation: the loop.
      spare: inputs that may be written over, so that carries begin there without a copy.
      shared: of no meaning here: outputs are arrays of their own.
    """
    params = equation.params
    body, cond, counts = optimised(params["body"]), params["cond"], params["counts"]
    made, unread = _carries(body, counts[1])
    if not made or not all(map(is_pure, cond.equations)):
        return None
    step = build(body, [body.inputs[counts[1] + i] for i in made])
    given = {place - sum(counts) for place in own(equation.inputs, spare)}
    copied = [i for i in made if i not in given]

    def loop(*args: Any) -> Sequence[Any]:
        cond_consts, body_consts, carry = parts(args, counts)
        del args
        for i in copied:
            carry[i] = np.array(carry[i], order="C")
        while run(cond, [*cond_consts, *carry])[0]:
            for i in unread:
                carry[i] = None
            carry = list(step(*body_consts, *carry))
        return carry

    loop.graphs = {"step": step, "cond": cond}  # type: ignore[attr-defined]
    return loop


loops[while_loop] = in_place


def _carries(body: Graph, constants: int) -> tuple[list[int], list[int]]:
    """The carries that are arrays of their own after each step, and those that no step reads."""
    steps = scheduled(body)
    read = Counter(id(atom) for step in steps for atom in step.inputs)
    read.update(id(atom) for atom in body.outputs)
    by_regions = {id(v) for step in steps if isinstance(step, Region) for v in step.outputs}
    made, unread = [], []
    for i, (before, after) in enumerate(zip(body.inputs[constants:], body.outputs, strict=True)):
        if not read[id(before)]:
            unread.append(i)
        elif id(after) in by_regions and read[id(after)] == 1 and before.type.shape:
            made.append(i)
    return made, unread


__all__ = ["in_place"]
