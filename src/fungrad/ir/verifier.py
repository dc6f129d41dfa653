"""The check that a Graph is well formed.

A Graph is well formed if every variable is defined exactly once and before its use, every
equation's outputs have the types that its primitive's rule infers, constants have the types of
their values, and the Graphs inside parameters are well formed and closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.errors import FungradError, InvalidGraphError
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable
from fungrad.ir.type_inference import Inference
from fungrad.ir.types import Type, of_value


def check_graph(graph: Graph) -> Graph:
    """Returns the Graph if it is well formed. A shared inner Graph is checked once.

    >>> import numpy as np, fungrad as fg
    >>> graph = fg.make_jaxpr(np.sin)(1.0)
    >>> check_graph(graph) is graph
    True

    Args:
      graph: what `make_jaxpr` returns, or a Graph made by hand.

    Raises:
      InvalidGraphError: naming the equation and what is wrong with it.
    """
    seen = {graph}
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        _check(current)
        for inner in current.subgraphs():
            if inner not in seen:
                seen.add(inner)
                waiting.append(inner)
    return graph


def _check(graph: Graph) -> None:
    """Checks one Graph without its inner Graphs."""
    defined: set[Atom] = set()
    inference = Inference()

    def define(variables: Sequence[Any], where: Callable[[], str]) -> None:
        for variable in variables:
            if not isinstance(variable, Variable):
                raise InvalidGraphError(f"{where()} defines {variable!r}, which is not a Variable.")
            if variable in defined:
                raise InvalidGraphError(
                    f"{where()} assigns a variable of type {variable.type} twice."
                )
            defined.add(variable)

    def use(atoms: Sequence[Atom], where: Callable[[], str]) -> None:
        for atom in atoms:
            if atom not in defined and not isinstance(atom, Literal):
                raise InvalidGraphError(
                    f"{where()} reads a variable of type {atom.type} before it is defined."
                )

    for variable, value in graph.constants:
        define([variable], lambda: "the list of constants")
        given = _type_of_constant(value)
        if given is not None and given != variable.type:
            raise InvalidGraphError(
                f"a constant of type {given!r} is declared as {variable.type!r}."
            )
    define(graph.inputs, lambda: "the list of inputs")

    def here() -> str:  # the text is made only for an error
        return f"equation {index} ({equation.primitive.name})"

    for index, equation in enumerate(graph.equations):  # noqa: B007 - `here` reads it
        use(equation.inputs, here)
        _check_types(equation, inference, here)
        define(equation.outputs, here)
    use(graph.outputs, lambda: "the list of outputs")


def _check_types(equation: Equation, inference: Inference, where: Callable[[], str]) -> None:
    try:
        inferred = inference.outputs(equation.primitive, equation.inputs, equation.params)
    except FungradError as error:
        raise InvalidGraphError(f"{where()} is ill-typed: {error.message}") from error
    declared = tuple([v.type for v in equation.outputs])
    if inferred != declared:
        raise InvalidGraphError(
            f"{where()} declares its outputs as {declared}, but they are {inferred}."
        )


def _type_of_constant(value: Any) -> Type | None:
    """The Type of a constant; None if it is traced, since its own trace checks it."""
    try:
        return of_value(value)
    except TypeError:
        return None
