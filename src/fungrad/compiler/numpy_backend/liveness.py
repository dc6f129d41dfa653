"""Liveness of memory: values may share it, as a view shares that of its base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.ir.graph import Atom, Equation, Graph, Variable, last_uses
from fungrad.primitives.elementwise.family import select
from fungrad.support.lazy import Record

_NOTHING: frozenset[Variable] = frozenset()


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
    return primitive.fresh or primitive.reduces is not None or by_ufunc(equation)


class _Access(Record):
    """The memory that a step reads, and the memory of its outputs."""

    inputs: frozenset[Variable]
    outputs: Sequence[Variable]


class AliasLiveness:
    """Liveness of memory over the steps of a loop's body, whose first `n` outputs are carries."""

    def __init__(self, graph: Graph, n: int) -> None:
        self._bases: dict[Variable, frozenset[Variable]] = {}
        accesses = []
        for step in graph.equations:
            read = _NOTHING.union(*map(self.bases, step.inputs))
            accesses.append(_Access(read, step.outputs))
            aliased = _NOTHING if owns(step) else read
            for v in step.outputs:
                self._bases[v] = aliased | {v}
        self.carried = _NOTHING.union(*map(self.bases, graph.outputs[:n]))
        """The memory that the next iteration may read."""
        kept = _NOTHING.union(*map(self.bases, graph.outputs))
        self.ended: list[list[Variable]] = list(last_uses(accesses, kept))
        """For each step, the memory whose last use it is."""

    def bases(self, atom: Atom) -> frozenset[Variable]:
        """The variables whose memory a value may share."""
        if not isinstance(atom, Variable):
            return _NOTHING
        return self._bases.get(atom) or frozenset([atom])
