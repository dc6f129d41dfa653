"""In which memory the values of a loop's iteration stand, and how long it is needed.

A value has memory of its own, or it may be a view of what it was made of. Liveness is that of
`last_uses`, of memory in place of values. Knows the IR.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.compiler.lowering.fusion.clustering import FusionCluster
from fungrad.ir.graph import Atom, Equation, Graph, Variable, last_uses
from fungrad.primitives.elementwise.family import select
from fungrad.support.record import Record

_NOTHING: frozenset[Variable] = frozenset()


def by_ufunc(equation: Equation) -> bool:
    """Whether an equation is one ufunc, and makes an array."""
    primitive: Any = equation.primitive
    ufunc = primitive.ufunc
    if ufunc is None or ufunc.nout != 1 or primitive is select or equation.params:
        return False
    return bool(equation.outputs[0].type.shape)


def owns(step: Equation | FusionCluster) -> bool:
    """Whether what a step makes is no view of what it reads."""
    return (
        isinstance(step, FusionCluster)
        or step.primitive.fresh
        or step.primitive.reduces is not None
        or by_ufunc(step)
    )


class _Access(Record):
    """The memory that a step reads, and the memory of its outputs."""

    inputs: frozenset[Variable]
    outputs: Sequence[Variable]


class AliasLiveness:
    """Of the steps of a loop's body, whose first `n` outputs are what the next iteration finds."""

    def __init__(self, steps: Sequence[Equation | FusionCluster], graph: Graph, n: int) -> None:
        self._bases: dict[Variable, frozenset[Variable]] = {}
        accesses = []
        for step in steps:
            read = _NOTHING.union(*map(self.bases, step.inputs))
            accesses.append(_Access(read, step.outputs))
            aliased = _NOTHING if owns(step) else read
            for v in step.outputs:
                self._bases[v] = aliased | {v}
        self.carried = _NOTHING.union(*map(self.bases, graph.outputs[:n]))
        """The memory that the next iteration may find."""
        kept = _NOTHING.union(*map(self.bases, graph.outputs))
        self.ended: list[list[Variable]] = list(last_uses(accesses, kept))
        """The memory that is needed no more behind each step."""

    def bases(self, atom: Atom) -> frozenset[Variable]:
        """The values in whose memory a value may stand."""
        if not isinstance(atom, Variable):
            return _NOTHING
        return self._bases.get(atom) or frozenset([atom])


__all__ = ["AliasLiveness", "by_ufunc", "owns"]
