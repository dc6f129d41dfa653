"""The bytes that a Graph reads and writes, and those that are alive at once.

Follows the program that runs it: equations in their order, regions with the blocks that their
intermediates need, values dropped after their last use, views that share memory. Knows how regions
are found and written; runs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fungrad.compiler.lowering.fusion.clustering import FusionCluster, cluster_and_schedule
from fungrad.compiler.lowering.fusion.region_codegen import written
from fungrad.compiler.passes.pipeline import optimised
from fungrad.inspect.cost.trip_counts import Bodies, bodies_of, nbytes
from fungrad.ir.graph import Atom, Equation, Graph, Variable
from fungrad.primitives.facts import is_view
from fungrad.runtime.thread_pool import num_threads


class Peak(NamedTuple):
    """The bytes that are alive at the moment when they are most, by what they are.

    Inputs and constants are alive all the time; a value that will be an output counts as one from
    where it is made.
    """

    inputs: int
    outputs: int
    constants: int
    intermediates: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)


class Traffic(NamedTuple):
    """The bytes that the program's steps read and write; what stays in a block is not counted."""

    read: int = 0
    written: int = 0


def traffic(graph: Graph) -> Traffic:
    """The bytes that an optimised Graph's program reads and writes, bodies by the times they are
    run.
    """
    read = made = 0
    for step in cluster_and_schedule(graph):
        inner = None if isinstance(step, FusionCluster) else bodies_of(step)
        if inner is not None:
            found = [traffic(optimised(body.graph)) for body in inner.bodies]
            times = [body.times for body in inner.bodies]
            reads = [f.read * t for f, t in zip(found, times, strict=True)]
            writes = [f.written * t for f, t in zip(found, times, strict=True)]
            worst = max(range(len(found)), key=lambda i: (reads[i] + writes[i], -i))
            read += reads[worst] if inner.choice else sum(reads)
            made += writes[worst] if inner.choice else sum(writes)
        elif isinstance(step, FusionCluster) or not is_view(step):
            read += nbytes(atom.type for atom in _distinct(step.inputs))
            made += nbytes(v.type for v in step.outputs)
    return Traffic(read, made)


def _distinct(atoms: Sequence[Atom]) -> list[Variable]:
    return list({id(a): a for a in atoms if isinstance(a, Variable)}.values())


def peak(graph: Graph) -> Peak:
    """The most bytes that are alive at once while the program of an optimised Graph runs."""
    return _Life(graph).peak()


class _Life:
    """Which memory each value lies in, and how long it is needed."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps = cluster_and_schedule(graph)
        self.root: dict[int, int] = {}
        self.last: dict[int, int] = {}
        for index, step in enumerate(self.steps):
            if not isinstance(step, FusionCluster) and is_view(step):
                source = step.inputs[0]
                self.root.update((id(v), self._root(source)) for v in step.outputs)
            for atom in (*step.inputs, *step.outputs):
                self.last[self._root(atom)] = index
        self.kept = {self._root(atom) for atom in graph.outputs}

    def _root(self, atom: Atom) -> int:
        return self.root.get(id(atom), id(atom))

    def peak(self) -> Peak:
        inputs = nbytes(self.graph.input_types)
        constants = nbytes(v.type for v, _ in self.graph.constants)
        outputs = intermediates = 0
        alive: dict[int, int] = {}
        most = Peak(inputs, 0, constants, 0)
        for index, step in enumerate(self.steps):
            for variable in step.outputs:
                if id(variable) in self.root:
                    continue
                size = nbytes([variable.type])
                if id(variable) in self.kept:
                    outputs += size
                else:
                    alive[id(variable)] = size
                    intermediates += size
            now = Peak(inputs, outputs, constants, intermediates + _inside(step))
            most = max(most, now, key=lambda found: found.total)
            for root in {self._root(atom) for atom in (*step.inputs, *step.outputs)}:
                if self.last[root] == index:
                    intermediates -= alive.pop(root, 0)
            if not isinstance(step, FusionCluster):
                inner = bodies_of(step)
                intermediates += 0 if inner is None else inner.held
        return most


def _inside(step: Equation | FusionCluster) -> int:
    """The bytes that a step needs beside its inputs and outputs."""
    if isinstance(step, FusionCluster):
        return _blocks(step)
    inner = bodies_of(step)
    return 0 if inner is None else inner.held + _most(inner)


def _most(inner: Bodies) -> int:
    found = [0]
    for body in inner.bodies:
        of_body = peak(optimised(body.graph))
        found.append(of_body.total - of_body.inputs + body.carried)
    return max(found)


def _blocks(region: FusionCluster) -> int:
    """The buffers of a region, for as many threads as share it."""
    _, names = written(region)
    shared = num_threads() if names["shared"] else 1
    size: int = names["size"] * min(shared, -(-region.length // names["step"]))
    return size


__all__ = ["Peak", "Traffic", "peak", "traffic"]
