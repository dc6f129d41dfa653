"""Renaming and comparison of equations, and the inlining of called Graphs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import (
    Atom,
    Equation,
    Graph,
    Literal,
    PrimitiveLike,
    Variable,
    inner_graphs,
)
from fungrad.retracing.graph_transforms import memoised

Renaming = dict[Atom, Atom]


def renamed(atoms: tuple[Atom, ...], names: Renaming) -> tuple[Atom, ...]:
    """Substitutes variables; the identical tuple if nothing changes."""
    for atom in atoms:
        if atom in names:
            return tuple([names.get(atom, atom) for atom in atoms])
    return atoms


def placed(
    like: Equation,
    primitive: PrimitiveLike,
    inputs: tuple[Atom, ...],
    outputs: tuple[Variable, ...],
    params: dict[str, Any],
) -> Equation:
    """An equation with the source line, scope and count of backward passes of another one."""
    return Equation(primitive, inputs, outputs, params, like.source, like.scope, like.backward)


def copied(
    equation: Equation,
    inputs: tuple[Atom, ...],
    outputs: tuple[Variable, ...],
    params: dict[str, Any] | None = None,
) -> Equation:
    """The equation with other inputs and outputs, and other parameters if given."""
    params = equation.params if params is None else params
    return placed(equation, equation.primitive, inputs, outputs, params)


def rewired(equation: Equation, names: Renaming) -> Equation:
    """The equation with renamed inputs; the identical one if nothing changes."""
    inputs = renamed(equation.inputs, names)
    return equation if inputs is equation.inputs else copied(equation, inputs, equation.outputs)


def renewed(equation: Equation, names: Renaming) -> Equation:
    """The equation with renamed inputs and new outputs, which are added to `names`."""
    outputs = tuple([Variable(v.type) for v in equation.outputs])
    new = copied(equation, renamed(equation.inputs, names), outputs)
    names.update(zip(equation.outputs, outputs, strict=True))
    return new


def is_pure(equation: Equation) -> bool:
    """Whether the outputs of an equation, and of each one in its Graphs, depend on inputs alone,
    and it keeps no reference to them.
    """
    if not equation.primitive.pure or not equation.params:
        return equation.primitive.pure
    return all(map(_does_nothing_else, inner_graphs(equation)))


def _does_nothing_else(graph: Graph) -> bool:
    result: bool = memoised(graph, "pure", lambda: all(map(is_pure, graph.equations)))
    return result


def key_of(equation: Equation) -> Hashable:
    """A key that only equations of equal results share; None if a parameter is not hashable.

    Without parameters it contains numbers and text only, which the garbage collector skips.
    """
    atoms: list[Hashable] = [
        _number(atom.value, equation) if isinstance(atom, Literal) else id(atom)
        for atom in equation.inputs
    ]
    if equation.primitive.commutative and hash(atoms[0]) > hash(atoms[1]):
        if equation.outputs[0].type.dtype.kind != "c":
            atoms.reverse()
    if not equation.params:
        return (id(equation.primitive), *atoms)
    params = tuple([(k, key_part(v)) for k, v in equation.params.items()])
    try:
        hash(params)
    except TypeError:
        return None
    return (id(equation.primitive), *atoms, params)


def _number(value: Any, equation: Equation) -> Hashable:
    """The key of a literal: a double beside an array of doubles is like Python's number."""
    if type(value) is np.float64:
        others = [a.type for a in equation.inputs if isinstance(a, Variable)]
        if any(t.dtype == np.float64 and not t.weak for t in others):
            value = value.item()
    return (id(type(value)), repr(value))


def key_part(value: Any) -> Hashable:
    """The key of a parameter; those of 0.0, -0.0, 0 and False differ."""
    if isinstance(value, Graph):
        return id(value)
    if isinstance(value, (float, complex, np.generic)):
        return (type(value), repr(value))
    if type(value) is tuple:
        return tuple(map(key_part, value))
    key: Hashable = (type(value), value)
    return key


def key_of_graph(graph: Graph) -> Hashable:
    """A key that only Graphs of the same equations share, whatever their variables; None if a
    parameter is not hashable. It names short constants by their bits, and long ones, Graphs inside
    and functions by identity.
    """
    number = {v: n for n, v in enumerate((*graph.inputs, *[v for v, _ in graph.constants]))}
    types = tuple([v.type for v in number])
    constants = [_bits(value) if is_short(value) else id(value) for _, value in graph.constants]
    parts: list[Hashable] = [len(graph.inputs), types, *constants]

    def part(atom: Atom) -> Hashable:
        return (atom.type, key_part(atom.value)) if isinstance(atom, Literal) else number[atom]

    for equation in graph.equations:
        parts += [id(equation.primitive), len(equation.inputs), *map(part, equation.inputs)]
        parts += [(k, key_part(v)) for k, v in equation.params.items()]
        for v in equation.outputs:
            parts.append(v.type)
            number[v] = len(number)
    key = (*parts, *map(part, graph.outputs))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def is_short(constant: Any) -> bool:
    """Whether a constant is compared by its bits: a number, or an array of at most 4 kB."""
    if not isinstance(constant, np.ndarray):
        return isinstance(constant, (complex, float, int, np.generic))
    return constant.nbytes <= 4096 and not constant.dtype.hasobject


def _bits(constant: Any) -> Hashable:
    if not isinstance(constant, np.ndarray):
        return key_part(constant)
    return (constant.strides, constant.tobytes())


class TooMany(Exception):
    """Raised by an expansion that has more equations than its limit."""


class Expansion:
    """The equations of a Graph and of the Graphs that it calls; equal pure ones are shared.

    `g(x) + g(2 * x)`, nested n deep, has n**2 different equations among 2**n. `called` decides
    which calls are expanded.
    """

    def __init__(self, graph: Graph, limit: float = math.inf) -> None:
        self.limit = limit
        self.equations: list[Equation] = []
        self.constants = {v: (v, value) for v, value in graph.constants}
        """The new variables and the values of the constants of all Graphs, by their old
        variables.
        """
        self.known: dict[Any, tuple[Atom, ...]] = {}
        """The outputs of pure equations and calls, by their keys."""

    def called(self, equation: Equation) -> tuple[Atom, ...] | None:
        """Expands a call and returns its outputs; None for an equation that stays."""
        raise NotImplementedError

    def expanded(self, graph: Graph) -> Graph:
        """The Graph with its calls expanded.

        Raises:
          TooMany: if it has more equations than the limit.
        """
        outputs = self.of(graph, graph.inputs)
        return graph.replace(
            constants=tuple(self.constants.values()),
            equations=tuple(self.equations),
            outputs=outputs,
        )

    def of(self, graph: Graph, arguments: Sequence[Atom]) -> tuple[Atom, ...]:
        """Writes the equations of a Graph for some arguments; returns its outputs."""
        local: Renaming = dict(zip(graph.inputs, arguments, strict=True))
        for variable, value in graph.constants:
            fresh, _ = self.constants.setdefault(variable, (Variable(variable.type), value))
            local[variable] = fresh
        for equation in graph.equations:
            read = rewired(equation, local)
            key = key_of(read) if is_pure(read) else None
            outputs = None if key is None else self.known.get(key)
            if outputs is None:
                outputs = self.called(read)
                if outputs is None:
                    outputs = self._written(read)
                if key is not None:
                    self.known[key] = outputs
            local.update(zip(equation.outputs, outputs, strict=True))
        return renamed(graph.outputs, local)

    def _written(self, equation: Equation) -> tuple[Atom, ...]:
        if len(self.equations) >= self.limit:
            raise TooMany
        new = renewed(equation, {})
        self.equations.append(new)
        return new.outputs
