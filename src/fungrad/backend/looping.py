"""Floor 6: while_loops on arrays that write the next carry over the one before.

The first carries are copied; each step then has the memory that it needs, and what no step reads is
dropped before it. Knows the programs of Graphs, and which values of them are arrays of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.backend.lines import alone
from fungrad.backend.regions import Region, scheduled
from fungrad.ir.graph import Equation, Graph, Variable
from fungrad.optimise.passes import optimised
from fungrad.optimise.rewrite import is_pure
from fungrad.structural.call import Runner, run
from fungrad.structural.loop import parts, while_loop

Build = Callable[[Graph, Sequence[Variable]], Runner]
"""Makes the program of a Graph that may write over some of its inputs."""


def in_place(equation: Equation, build: Build) -> Runner | None:
    """The program of a while_loop, a function that returns its outputs; None where no carry can be
    written over.
    """
    params = equation.params
    body, cond, counts = optimised(params["body"]), params["cond"], params["counts"]
    own, unread = _carries(body, counts[1])
    if not own or not all(map(is_pure, cond.equations)):
        return None
    step = build(body, [body.inputs[counts[1] + i] for i in own])

    def loop(*args: Any) -> Sequence[Any]:
        cond_consts, body_consts, carry = parts(args, counts)
        del args
        for i in own:
            carry[i] = np.array(carry[i], order="C")
        while run(cond, [*cond_consts, *carry])[0]:
            for i in unread:
                carry[i] = None
            carry = list(step(*body_consts, *carry))
        return carry

    return loop


alone[while_loop] = in_place


def _carries(body: Graph, constants: int) -> tuple[list[int], list[int]]:
    """The carries that are arrays of their own after each step, and those that no step reads."""
    steps = scheduled(body)
    read = Counter(id(atom) for step in steps for atom in step.inputs)
    read.update(id(atom) for atom in body.outputs)
    made = {id(v) for step in steps if isinstance(step, Region) for v in step.outputs}
    own, unread = [], []
    for i, (before, after) in enumerate(zip(body.inputs[constants:], body.outputs, strict=True)):
        if not read[id(before)]:
            unread.append(i)
        elif id(after) in made and read[id(after)] == 1 and before.type.shape:
            own.append(i)
    return own, unread


__all__ = ["in_place"]
