"""In which memory the values of a loop's step stand, and how long it is needed.

A value has memory of its own, or it may be a view of what it was made of. Knows the IR.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fungrad.compiler.lowering.fusion.clustering import Region
from fungrad.compiler.lowering.fusion.row_access import REDUCTIONS
from fungrad.ir.graph import Atom, Equation, Graph, Variable
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.linalg.cholesky_qr import cholesky
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.primitives.movement.gather import scatter
from fungrad.primitives.movement.reshape_broadcast_cast import concatenate
from fungrad.primitives.movement.scatter import index_add
from fungrad.primitives.movement.stack_iota import stack

_OWN = (
    dot_general, select, concatenate, stack, scatter, index_add, solve, inv, cholesky, *REDUCTIONS,
)  # fmt: skip


def by_ufunc(equation: Equation) -> bool:
    """Whether an equation is one ufunc, and makes an array."""
    primitive: Any = equation.primitive
    ufunc = primitive.ufunc
    if ufunc is None or ufunc.nout != 1 or primitive is select or equation.params:
        return False
    return bool(equation.outputs[0].type.shape)


def owns(step: Equation | Region) -> bool:
    """Whether what a step makes is no view of what it reads."""
    return isinstance(step, Region) or step.primitive in _OWN or by_ufunc(step)


class Lifetimes:
    """Of the steps of a loop's body, whose first `n` outputs are what the next step finds."""

    def __init__(self, steps: Sequence[Equation | Region], graph: Graph, n: int) -> None:
        self._bases: dict[int, frozenset[int]] = {}
        last: dict[int, int] = {}
        for i, step in enumerate(steps):
            read = frozenset[int]().union(*map(self.bases, step.inputs))
            last.update(dict.fromkeys(read, i))
            for v in step.outputs:
                self._bases[id(v)] = frozenset([id(v)]) | (frozenset() if owns(step) else read)
                last[id(v)] = i
        for base in [b for a in graph.outputs for b in self.bases(a)]:
            last.pop(base, None)
        self.passed = frozenset[int]().union(*map(self.bases, graph.outputs[:n]))
        """What the next step may find, by identity."""
        self.ended: list[list[int]] = [[] for _ in steps]
        """The memory that is needed no more behind each step."""
        for base, i in last.items():
            self.ended[i].append(base)

    def bases(self, atom: Atom) -> frozenset[int]:
        """The values in whose memory a value may stand."""
        alone = frozenset([id(atom)]) if isinstance(atom, Variable) else frozenset[int]()
        return self._bases.get(id(atom), alone)


__all__ = ["Lifetimes", "by_ufunc", "owns"]
