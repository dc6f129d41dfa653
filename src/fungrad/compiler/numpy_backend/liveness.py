"""Liveness of memory: values may share it, as a view shares that of its base."""

from __future__ import annotations

from typing import Any

from fungrad.ir.graph import Atom, Equation, Graph, Literal
from fungrad.primitives.elementwise.family import select


def by_ufunc(equation: Equation) -> bool:
    """Whether an equation is one call of a ufunc that returns an array."""
    primitive: Any = equation.primitive
    ufunc = primitive.ufunc
    if ufunc is None or ufunc.nout != 1 or primitive is select or equation.params:
        return False
    return bool(equation.outputs[0].type.shape)


def owns(equation: Equation) -> bool:
    """Whether the output of an equation is new memory, not a view of its inputs."""
    primitive: Any = equation.primitive
    if primitive.fresh or primitive.reduces is not None or by_ufunc(equation):
        return True
    return all(isinstance(atom, Literal) for atom in equation.inputs)


class AliasLiveness:
    """Liveness of memory over the steps of a loop's body, whose first `n` outputs are carries.

    Memory is in use as long as a value that may share it: backwards, what a step reads lives as
    long as the step's outputs, unless these are in new memory.
    """

    def __init__(self, graph: Graph, n: int) -> None:
        steps = graph.equations
        last: dict[Atom, int] = dict.fromkeys(graph.outputs, len(steps))
        self.carried: set[Atom] = set(graph.outputs[:n])
        """The memory that the next iteration may read."""
        for at in reversed(range(len(steps))):
            step = steps[at]
            ends = [last.setdefault(v, at) for v in step.outputs]
            aliasing = not owns(step)
            until = max([at, *ends]) if aliasing else at
            for atom in step.inputs:
                last[atom] = max(until, last.get(atom, at))
            if aliasing and not self.carried.isdisjoint(step.outputs):
                self.carried.update(step.inputs)
        self.ended: list[list[Atom]] = [[] for _ in steps]
        """For each step, the memory whose last use it is."""
        for atom, at in last.items():
            if at < len(steps):
                self.ended[at].append(atom)
