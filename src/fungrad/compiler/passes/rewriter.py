"""Drivers of passes over a Graph: `rewritten` replaces equations; `apply_rules` applies rules and
eliminates common subexpressions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import costs
from fungrad.compiler.passes.patterns import CONSTANT, Rule
from fungrad.ir.graph import Atom, Equation, Graph, Literal, PrimitiveLike, Variable, effectful
from fungrad.retracing.inlining import (
    Renaming,
    key_of,
    placed,
    renamed,
    rewired,
)

Replace = Callable[[Equation], Equation | tuple[Atom, ...]]


def applied(like: Equation, primitive: PrimitiveLike, *inputs: Atom, **params: Any) -> Equation:
    """An equation of a primitive with one output, in the place of another."""
    (type_,) = primitive.infer([atom.type for atom in inputs], params)
    return placed(like, primitive, inputs, (Variable(type_),), params)


def exchanged(inputs: tuple[Atom, ...], position: int, atom: Atom) -> tuple[Atom, ...]:
    """The inputs with the one at a position replaced."""
    return (*inputs[:position], atom, *inputs[position + 1 :])


def doubles(*atoms: Atom) -> bool:
    """Whether values are float64 or complex128: intermediate products of fewer bits overflow, or
    underflow, where the result does not.
    """
    return all(atom.type.dtype.char in "dD" for atom in atoms)


def computed_now(equation: Equation, values: Sequence[Any]) -> Any:
    """The value of an equation, as a constant of a Graph, which is read-only."""
    primitive: Any = equation.primitive
    value = primitive.eval(*values, **equation.params)
    if issubclass(type(value), np.ndarray):
        value.flags.writeable = False
    return value


def rewritten(graph: Graph, replace: Replace, names: Renaming | None = None) -> Graph:
    """The Graph with each equation replaced by another, or by atoms equal to its outputs.

    `replace` receives the equations in order, with their inputs renamed; `names` are initial
    renamings.
    """
    names = {} if names is None else dict(names)
    equations = []
    for equation in graph.equations:
        replaced = replace(rewired(equation, names))
        if isinstance(replaced, Equation):
            equations.append(replaced)
        else:
            names.update(zip(equation.outputs, replaced, strict=True))
    outputs = renamed(graph.outputs, names)
    return graph.replace(equations=tuple(equations), outputs=outputs)


class Writer:
    """Writes the equations of a simplified Graph in order, and records each value's definition.

    Each equation is simplified as it is written, also those that rules write; a common
    subexpression is computed once.
    """

    def __init__(self, graph: Graph, rules: Callable[[Any], Sequence[Rule]]) -> None:
        self._rules = rules
        """The rules of each primitive."""
        self._chosen: dict[Hashable, tuple[Rule, ...]] = {}
        self._of_primitive: dict[Any, tuple[Rule, ...]] = {}
        self._made: dict[Atom, Equation] = {}
        self._seen: dict[Hashable, Equation] = {}
        self._constants: dict[Atom, Any] = dict(graph.constants)
        self._reads = Counter(atom for e in graph.equations for atom in e.inputs)
        self._reads.update(graph.outputs)
        self._gone: dict[Atom, Equation] = {}
        """Equations whose output nothing reads any more, by that output; they do not count as users
        of their operands.
        """
        self._writing = 0
        """The nesting depth of rules that are writing."""
        self.covered: dict[Atom, int] = {}
        """The number of elements added to zeros to make a value, as far as a rule counted them."""
        self.equations: list[Equation] = []

    # --- definitions and uses of values -----------------------------------------------------------

    def definition(self, atom: Atom, *primitives: PrimitiveLike) -> Equation | None:
        """The equation that defines a value, if its primitive is one of these (any, if none are
        given).
        """
        equation = self._made.get(atom)
        if equation is None or (primitives and equation.primitive not in primitives):
            return None
        return equation

    def sole_use_definition(self, atom: Atom, *primitives: PrimitiveLike) -> Equation | None:
        """The definition, if the equation being rewritten, or one removed with it, is the only user
        of the value. It counts as removed, unless the rule fails or reads the value again.
        """
        equation = self.definition(atom, *primitives)
        if equation is None or not self.is_single_use(atom):
            return None
        self.release(atom)
        return equation

    def is_single_use(self, atom: Atom) -> bool:
        """Whether only the equation being rewritten, and those removed with it, read a value."""
        return self._reads[atom] <= 0

    def release(self, atom: Atom) -> None:
        """Counts a value's definition as removed if nothing reads it any more."""
        if self._reads[atom] <= 0 and atom not in self._gone:
            self._gone[atom] = equation = self._made[atom]
            for read in equation.inputs:
                self._reads[read] -= 1

    def mark(self) -> int:
        """The number of removed equations, for `restore`."""
        return len(self._gone)

    def restore(self, mark: int) -> None:
        """Undoes the removals since a mark."""
        while len(self._gone) > mark:
            _, equation = self._gone.popitem()
            self._reads.update(equation.inputs)

    def _use(self, atom: Atom, times: int = 1) -> None:
        self._reads[atom] += times
        equation = self._gone.pop(atom, None) if self._gone else None
        if equation is not None:
            for read in equation.inputs:
                self._use(read)

    def constant(self, atom: Atom) -> Any:
        """The value of a constant of the Graph, None for other atoms."""
        return self._constants.get(atom)

    # --- writing ----------------------------------------------------------------------------------

    def add(self, like: Equation, primitive: PrimitiveLike, *inputs: Atom, **params: Any) -> Atom:
        """The output of a primitive, added with the source line of an equation."""
        for atom in inputs:
            self._use(atom)
        return self.write(applied(like, primitive, *inputs, **params))[0]

    def write(self, equation: Equation) -> tuple[Atom, ...]:
        """Writes an equation; returns its outputs, or atoms equal to them."""
        reads = self._reads
        rules = self._rules_for(equation) if self._writing < costs.nested_rules else ()
        if rules:  # for them the equation does not count as a user of its inputs
            self._writing += 1
            for atom in equation.inputs:  # Counter's methods cost more than the rest of this
                reads[atom] -= 1
            for rule in rules:
                replaced = rule.applied(self, equation)
                if replaced is not None:
                    self._writing -= 1
                    return self._replaced(equation, (replaced,))
            self._writing -= 1
            for atom in equation.inputs:
                reads[atom] += 1
        key = None if effectful(equation) else key_of(equation)
        twin = equation if key is None else self._seen.setdefault(key, equation)
        if twin is not equation:
            for atom in equation.inputs:
                reads[atom] -= 1
            return self._replaced(equation, twin.outputs)
        self.equations.append(equation)
        for output in equation.outputs:
            self._made[output] = equation
        return equation.outputs

    def _rules_for(self, equation: Equation) -> tuple[Rule, ...]:
        """The rules that may match an equation, by the definitions of its inputs."""
        made, primitive = self._made, equation.primitive
        rules = self._of_primitive.get(primitive)
        if rules is None:
            rules = self._of_primitive[primitive] = tuple(self._rules(primitive))
        if not rules:
            return ()
        makers: list[Any] = []
        for atom in equation.inputs:
            maker = made.get(atom)
            if maker is not None:
                makers.append(maker.primitive)
            elif type(atom) is Literal:
                makers.append(Literal)
            elif atom in self._constants:
                makers.append(CONSTANT)
        key = (primitive, *makers)
        fitting = self._chosen.get(key)
        if fitting is None:
            fitting = tuple([r for r in rules if not r.of or not set(r.of).isdisjoint(makers)])
            self._chosen[key] = fitting
        return fitting

    def _replaced(self, equation: Equation, found: tuple[Atom, ...]) -> tuple[Atom, ...]:
        for output, atom in zip(equation.outputs, found, strict=True):
            self._use(atom, self._reads[output])
        return found


def apply_rules(graph: Graph, rules: Callable[[Any], Sequence[Rule]]) -> Graph:
    """The Graph with rules applied to its equations, and common subexpressions computed once.
    Equations that nothing reads any more stay.
    """
    writer = Writer(graph, rules)
    names: Renaming = {}
    for equation in graph.equations:
        outputs = writer.write(rewired(equation, names))
        if outputs is not equation.outputs:
            names.update(zip(equation.outputs, outputs, strict=True))
    outputs = renamed(graph.outputs, names)
    return graph.replace(equations=tuple(writer.equations), outputs=outputs)
