"""The peak memory of a program: lifetimes of values along it, and views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fungrad.compiler.passes.pipeline import optimised
from fungrad.inspect.trip_counts import Bodies, bodies_of
from fungrad.ir.graph import Atom, Equation, Graph, Variable
from fungrad.ir.types import size_in_bytes
from fungrad.primitives.facts import is_view


class Peak(NamedTuple):
    """The live bytes, by kind, at the moment when their sum is largest.

    Inputs and constants are alive all the time; an output from the step that computes it.
    """

    inputs: int
    outputs: int
    constants: int
    intermediates: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)


def distinct_variables(atoms: Sequence[Atom]) -> list[Variable]:
    return list(dict.fromkeys([a for a in atoms if isinstance(a, Variable)]))


def peak(graph: Graph) -> Peak:
    """The peak of live bytes while the program of an optimised Graph runs."""
    return _Life(graph).peak()


class _Life:
    """The buffer and the last use of each value."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps = graph.equations
        self.root: dict[Atom, Atom] = {}
        self.last: dict[Atom, int] = {}
        for index, step in enumerate(self.steps):
            if is_view(step):
                source = step.inputs[0]
                self.root.update((v, self._root(source)) for v in step.outputs)
            for atom in (*step.inputs, *step.outputs):
                self.last[self._root(atom)] = index
        self.kept = {self._root(atom) for atom in graph.outputs}

    def _root(self, atom: Atom) -> Atom:
        return self.root.get(atom, atom)

    def peak(self) -> Peak:
        inputs = size_in_bytes(self.graph.input_types)
        constants = size_in_bytes(v.type for v, _ in self.graph.constants)
        outputs = intermediates = 0
        alive: dict[Atom, int] = {}
        most = Peak(inputs, 0, constants, 0)
        for index, step in enumerate(self.steps):
            for variable in step.outputs:
                if variable in self.root:
                    continue
                size = size_in_bytes([variable.type])
                if variable in self.kept:
                    outputs += size
                else:
                    alive[variable] = size
                    intermediates += size
            now = Peak(inputs, outputs, constants, intermediates + _inside(step))
            most = max(most, now, key=lambda found: found.total)
            for root in {self._root(atom) for atom in (*step.inputs, *step.outputs)}:
                if self.last[root] == index:
                    intermediates -= alive.pop(root, 0)
            inner = bodies_of(step)
            intermediates += 0 if inner is None else inner.held
        return most


def _inside(step: Equation) -> int:
    """The bytes that a step needs in addition to its inputs and outputs."""
    inner = bodies_of(step)
    return 0 if inner is None else inner.held + _most(inner)


def _most(inner: Bodies) -> int:
    found = [0]
    for body in inner.bodies:
        of_body = peak(optimised(body.graph))
        found.append(of_body.total - of_body.inputs + body.carried)
    return max(found)
