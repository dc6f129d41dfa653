"""Floor 6: finds clusters of elementwise equations over large arrays, which are worth running in
blocks.

Every equation gets a level: elementwise ones over one large shape odd levels, all others even ones,
each at least as high as what it reads, so that what stands on one level needs nothing of a later
one. The large elementwise equations of one level and shape are a cluster. Knows the IR and which
primitives are ufuncs; runs nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from fungrad.ir.graph import Equation, Graph, Variable
from fungrad.primitives.elementwise import select

LARGE = 32_768
"""The smallest number of elements for which blocks pay (measured: benchmarks/fusion.py)."""


class Cluster(NamedTuple):
    """Elementwise equations over one shape, what they read from outside, and what is read of
    them.
    """

    shape: tuple[int, ...]
    equations: list[Equation]
    inputs: list[Variable]
    outputs: list[Variable]


def blockable(equation: Equation) -> bool:
    """Whether an equation is an elementwise one over a large array that can write into a given
    buffer.
    """
    if len(equation.outputs) != 1 or equation.params:
        return False
    if equation.primitive.ufunc is None and equation.primitive is not select:
        return False
    type_ = equation.outputs[0].type
    return type_.size >= LARGE and all(a.type.dtype.kind != "O" for a in equation.inputs)


def scheduled(graph: Graph) -> list[Equation | Cluster]:
    """The equations in an order in which clusters stand together; clusters of one equation are
    none.
    """
    level_of: dict[int, int] = {}
    cluster_of: dict[int, tuple[int, tuple[int, ...]]] = {}
    groups: dict[tuple[int, tuple[int, ...]], list[Equation]] = {}
    others: dict[int, list[Equation]] = {}
    for equation in graph.equations:
        found = blockable(equation)
        shape = equation.outputs[0].type.shape if found else ()
        level = 1 if found else 0
        for atom in equation.inputs:
            before = level_of.get(id(atom), 0)
            if found and before % 2 and cluster_of[id(atom)][1] != shape:
                before += 2  # a cluster of another shape on the same level might come later
            elif not found and before % 2:
                before += 1
            level = max(level, before)
        level += found and level % 2 == 0
        level += not found and level % 2 == 1
        for output in equation.outputs:
            level_of[id(output)] = level
            if found:
                cluster_of[id(output)] = (level, shape)
        if found:
            groups.setdefault((level, shape), []).append(equation)
        else:
            others.setdefault(level, []).append(equation)
    result: list[Equation | Cluster] = []
    read_by = _readers(graph)
    for level in sorted({*others, *(key[0] for key in groups)}):
        result.extend(others.get(level, ()))
        for key, equations in groups.items():
            if key[0] == level:
                result.append(
                    _cluster(key[1], equations, read_by) if len(equations) > 1 else equations[0]
                )
    return result


def _readers(graph: Graph) -> dict[int, set[int]]:
    """For each variable the equations that read it, by identity; 0 stands for the Graph's
    outputs.
    """
    result: dict[int, set[int]] = {}
    for equation in graph.equations:
        for atom in equation.inputs:
            result.setdefault(id(atom), set()).add(id(equation))
    for atom in graph.outputs:
        result.setdefault(id(atom), set()).add(0)
    return result


def _cluster(
    shape: tuple[int, ...], equations: list[Equation], read_by: dict[int, set[int]]
) -> Cluster:
    mine = {id(equation) for equation in equations}
    inner = {id(equation.outputs[0]) for equation in equations}
    inputs: dict[int, Variable] = {}
    for equation in equations:
        for atom in equation.inputs:
            if isinstance(atom, Variable) and id(atom) not in inner:
                inputs[id(atom)] = atom
    outputs = [
        equation.outputs[0]
        for equation in equations
        if read_by.get(id(equation.outputs[0]), set()) - mine
    ]
    return Cluster(shape, equations, list(inputs.values()), outputs)


__all__ = ["Cluster", "blockable", "scheduled"]
