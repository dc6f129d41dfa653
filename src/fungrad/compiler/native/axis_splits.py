"""Reshapes that join or split axes: every axis of a Graph becomes several axes where a reshape of
it, or of what is computed from it, has borders.

Then a reshape only renames axes, for which there are index maps. Arrays are in C order, so that
memory stays as it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fungrad.compiler.native.element_operations import TYPES
from fungrad.compiler.native.index_maps import movable
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.by_elements import elementwise
from fungrad.primitives.facts import sections_of
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    reduce_sum,
    reshape,
    transpose,
)
from fungrad.primitives.reduction.reduce import reduce_max, reduce_min
from fungrad.retracing.graph_transforms import memoised
from fungrad.retracing.inlining import copied, placed

Axis = tuple[Atom, int]
"""A value, and the number of one of its axes."""
Cuts = set[int]
"""The strides, in elements of an axis, at which it is split; each divides the next one."""


def joins_or_splits(equation: Equation) -> bool:
    """Whether an equation is a reshape that joins or splits axes."""
    if equation.primitive is not reshape or movable(equation):
        return False
    return equation.outputs[0].type.size > 0 and equation.outputs[0].type.dtype in TYPES


def with_split_axes(graph: Graph) -> Graph:
    """The Graph with its axes split, so that no reshape joins or splits any; the Graph itself if
    there is none that does, or they cannot be split.
    """
    if not any(map(joins_or_splits, graph.equations)):
        return graph
    found: Graph = memoised(graph, "split axes", lambda: _split(graph))
    return found


def _split(graph: Graph) -> Graph:
    splits = _Splits(graph)
    return splits.rewritten() if splits.found() else graph


class _Splits:
    """The cuts of all axes of a Graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.cuts: dict[Axis, Cuts] = {}
        given = [*graph.inputs, *[v for v, _ in graph.constants]]
        for value in [*given, *[v for e in graph.equations for v in e.outputs]]:
            self.cuts.update({(value, n): Cuts() for n in range(value.type.ndim)})

    def found(self) -> bool:
        """Finds the cuts; returns whether all axes can be split at theirs."""
        pairs, fixed = list[tuple[Axis, Axis]](), list[Axis]()
        for equation in self.graph.equations:
            if equation.primitive is not reshape:
                own = self._aligned(equation)
                pairs += own
                known = {axis for pair in own for axis in pair} | self._free(equation)
                fixed += [axis for axis in self._axes(equation) if axis not in known]
        reshapes = [e for e in self.graph.equations if e.primitive is reshape]
        before = -1
        while before != (now := sum(map(len, self.cuts.values()))):
            before = now
            for equation in (*reshapes, *reversed(reshapes)):
                if not self._through(equation):
                    return False
            for x, y in (*pairs, *reversed(pairs)):
                self.cuts[x] |= self.cuts[y]
                self.cuts[y] |= self.cuts[x]
        return not any(self.cuts[axis] for axis in fixed) and all(map(self._chain, self.cuts))

    def _chain(self, axis: Axis) -> bool:
        steps = [1, *sorted(self.cuts[axis]), axis[0].type.shape[axis[1]]]
        return all(b % a == 0 for a, b in itertools.pairwise(steps))

    def _axes(self, equation: Equation) -> Iterator[Axis]:
        for atom in (*equation.inputs, *equation.outputs):
            if not isinstance(atom, Literal):
                yield from [(atom, n) for n, length in enumerate(atom.type.shape) if length > 1]

    def _through(self, equation: Equation) -> bool:
        """Carries the cuts of one side of a reshape to the other; False if they do not fit."""
        atoms = [a for a in (*equation.inputs, *equation.outputs) if not isinstance(a, Literal)]
        borders = set[int]()
        for atom in atoms:
            for axis, stride, _ in self._strides(atom):
                borders |= {stride, *[stride * cut for cut in self.cuts[axis]]}
        for atom in atoms:
            for axis, stride, length in self._strides(atom):
                inside = [b for b in borders if stride < b < stride * length]
                if any(b % stride for b in inside):
                    return False
                self.cuts[axis] |= {b // stride for b in inside}
        return True

    def _strides(self, atom: Atom) -> Iterator[tuple[Axis, int, int]]:
        stride = 1
        for n, length in reversed(list(enumerate(atom.type.shape))):
            if length > 1:
                yield (atom, n), stride, length
            stride *= length

    def _aligned(self, equation: Equation) -> list[tuple[Axis, Axis]]:
        """The axes of operands that are axes of the result, from end to end."""
        (out, *more), inputs = equation.outputs, equation.inputs
        if more:
            return []
        axes = equation.params.get("axes", ())
        if elementwise(equation):
            along = [(a, n, n + out.type.ndim - a.type.ndim) for a in inputs
                     for n in range(a.type.ndim)]  # fmt: skip
        elif equation.primitive in REDUCED:
            rest = [n for n in range(inputs[0].type.ndim) if n not in axes]
            along = [(inputs[0], n, i) for i, n in enumerate(rest)]
        elif equation.primitive in (transpose, broadcast_to):
            section = (sections_of(equation) or [])[0]
            along = [(inputs[0], n, a.loop) for n, a in enumerate(section.place) if a is not None]
        else:
            return []
        pairs = [(a, n, m) for a, n, m in along if m >= 0 and not isinstance(a, Literal)]
        same = [(a, n, m) for a, n, m in pairs if a.type.shape[n] == out.type.shape[m]]
        return [((a, n), (out, m)) for a, n, m in same]

    def _free(self, equation: Equation) -> set[Axis]:
        """Axes that may have any cuts: of operands that are reduced, and of broadcast results."""
        if equation.primitive in REDUCED:
            return {(equation.inputs[0], n) for n in equation.params["axes"]}
        if equation.primitive is broadcast_to or elementwise(equation):
            return {(equation.outputs[0], n) for n in range(equation.outputs[0].type.ndim)}
        return set()

    # The Graph.

    def parts(self, atom: Atom) -> list[list[int]]:
        """The lengths of the axes that each axis of a value becomes."""
        found = []
        for n, length in enumerate(atom.type.shape):
            steps = [1, *sorted(self.cuts[atom, n]), length]
            found.append([b // a for a, b in itertools.pairwise(steps)][::-1])
        return found

    def rewritten(self) -> Graph:
        new: dict[Atom, Variable] = {}

        def made(value: Variable) -> Variable:
            shape = tuple(itertools.chain(*self.parts(value)))
            new[value] = Variable(Type(shape, value.type.dtype, value.type.weak))
            return new[value]

        inputs = tuple(map(made, self.graph.inputs))
        constants = [(made(v), x) for v, x in self.graph.constants]
        shaped = tuple([(v, x.reshape(v.type.shape) if v.type.ndim else x) for v, x in constants])
        equations = []
        for equation in self.graph.equations:
            given = tuple([a if isinstance(a, Literal) else new[a] for a in equation.inputs])
            outputs = tuple(map(made, equation.outputs))
            if equation.primitive is broadcast_to or elementwise(equation):
                padded = [self._padded(equation, a, x) for a, x in zip(equation.inputs, given,
                                                                       strict=True)]  # fmt: skip
                equations += [e for e in padded if isinstance(e, Equation)]
                given = tuple([x.outputs[0] if isinstance(x, Equation) else x for x in padded])
            rule = PARAMS.get(equation.primitive)
            params = rule(self, equation, outputs) if rule else equation.params
            equations.append(copied(equation, given, outputs, params))
        results = tuple([a if isinstance(a, Literal) else new[a] for a in self.graph.outputs])
        return Graph(inputs, shaped, tuple(equations), results, self.graph.name,
                     self.graph.reassociate)  # fmt: skip

    def _padded(self, equation: Equation, atom: Atom, x: Atom) -> Atom | Equation:
        """The operand of a broadcast; or its reshape, where it has one element along an axis that
        is split.
        """
        parts = self.parts(equation.outputs[0])[equation.outputs[0].type.ndim - atom.type.ndim :]
        shape = []
        for length, own in zip(atom.type.shape, parts, strict=True):
            shape += own if length == math.prod(own) else [1] * len(own)
        if tuple(shape) == x.type.shape:
            return x
        out = Variable(Type(tuple(shape), x.type.dtype, x.type.weak))
        return placed(equation, reshape, (x,), (out,), {"shape": out.type.shape})

    def places(self, atom: Atom) -> list[list[int]]:
        """The numbers of the axes that each axis of a value becomes."""
        counts = list(map(len, self.parts(atom)))
        return [list(range(end - n, end)) for n, end in zip(counts, itertools.accumulate(counts),
                                                             strict=True)]  # fmt: skip

    def params_of_axes(self, equation: Equation, outputs: Sequence[Variable]) -> dict[str, Any]:
        places = self.places(equation.inputs[0])
        axes = tuple(itertools.chain(*[places[axis] for axis in equation.params["axes"]]))
        return {**equation.params, "axes": axes}

    def params_of_shape(self, equation: Equation, outputs: Sequence[Variable]) -> dict[str, Any]:
        return {**equation.params, "shape": outputs[0].type.shape}


REDUCED = (reduce_sum, reduce_max, reduce_min)
PARAMS: Mapping[Any, Callable[..., dict[str, Any]]] = {
    **dict.fromkeys((*REDUCED, transpose), _Splits.params_of_axes),
    **dict.fromkeys((reshape, broadcast_to), _Splits.params_of_shape),
}
"""The parameters that depend on the axes."""
