"""Floor 1: the grammar of the IR, machine-checked. Knows the data of the IR and each primitive's
type rule.

A Graph is well formed when every variable is defined exactly once and before its use, every
equation's outputs have the types that its primitive's rule infers, constants have the types of
their values, and the Graphs inside parameters are well formed and closed.
"""

from __future__ import annotations

from typing import Any

from fungrad.errors import FungradError, InvalidGraphError
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.ir.types import Type, of_value


def check_graph(graph: Graph) -> Graph:
    """Returns the Graph where it is well formed.

    Raises:
      InvalidGraphError: naming the equation and what is wrong with it.
    """
    defined: set[int] = set()

    def define(variable: Any, where: str) -> None:
        if not isinstance(variable, Variable):
            raise InvalidGraphError(f"{where} defines {variable!r}, which is not a Variable.")
        if id(variable) in defined:
            raise InvalidGraphError(f"{where} assigns a variable of type {variable.type} twice.")
        defined.add(id(variable))

    def use(atom: Atom, where: str) -> Type:
        if isinstance(atom, Literal):
            return atom.type
        if id(atom) not in defined:
            raise InvalidGraphError(
                f"{where} reads a variable of type {atom.type} before it is defined."
            )
        return atom.type

    for variable, value in graph.constants:
        define(variable, "the list of constants")
        found = _type_of_constant(value)
        if found is not None and found != variable.type:
            raise InvalidGraphError(f"a constant of type {found} is declared as {variable.type}.")
    for variable in graph.inputs:
        define(variable, "the list of inputs")
    for index, equation in enumerate(graph.equations):
        where = f"equation {index} ({equation.primitive.name})"
        _check_equation(equation, [use(atom, where) for atom in equation.inputs], where)
        for variable in equation.outputs:
            define(variable, where)
    for atom in graph.outputs:
        use(atom, "the list of outputs")
    for inner in graph.subgraphs():
        check_graph(inner)
    return graph


def _check_equation(equation: Equation, types: list[Type], where: str) -> None:
    try:
        inferred = equation.primitive.infer(types, equation.params)
    except FungradError as error:
        raise InvalidGraphError(f"{where} is ill-typed: {error.message}") from error
    declared = tuple(v.type for v in equation.outputs)
    if inferred != declared:
        raise InvalidGraphError(
            f"{where} declares its outputs as {declared}, but they are {inferred}."
        )


def _type_of_constant(value: Any) -> Type | None:
    """None for a constant that is itself traced: its own trace vouches for it."""
    try:
        return of_value(value)
    except TypeError:
        return None
