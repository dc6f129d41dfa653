"""Type inference, and the check that a Graph is well formed.

A Graph is well formed if every variable is defined exactly once and before its use, every
equation's outputs have the types that its primitive's rule infers, constants have the types of
their values, and the Graphs inside parameters are well formed and closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fungrad.errors import FungradError, InvalidGraphError
from fungrad.ir.graph import Atom, Equation, Graph, Literal, PrimitiveLike, Variable
from fungrad.ir.types import Type, of_value


class Inference:
    """The output Types of primitives in one Graph: equal Types are one object.

    The Types of an equation without parameters are cached by the identities of the primitive and
    its input Types, since most equations of a long Graph are like an earlier one.
    """

    __slots__ = ("_held", "_known", "_types")

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[Type, ...]] = {}
        self._held: list[Any] = []
        """The objects in the keys, kept so that no other object gets their identity."""
        self._types: dict[Any, Type] = {}

    def outputs(
        self, primitive: PrimitiveLike, inputs: Sequence[Atom], params: dict[str, Any]
    ) -> tuple[Type, ...]:
        """The Types of a primitive's outputs for these inputs."""
        if params:
            types = primitive.infer([atom.type for atom in inputs], params)
            return tuple([self.shared(type_) for type_ in types])
        key = (id(primitive), *[id(atom.type) for atom in inputs])
        found = self._known.get(key)
        if found is None:
            read = [atom.type for atom in inputs]
            found = tuple([self.shared(type_) for type_ in primitive.infer(read, params)])
            self._known[key] = found
            self._held.append((primitive, read))
        return found

    def shared(self, type_: Type) -> Type:
        """The one object for all Types equal to this one."""
        return self._types.setdefault((type_.shape, type_.dtype, type_.weak), type_)


def check_graph(graph: Graph) -> Graph:
    """Returns the Graph if it is well formed. A shared inner Graph is checked once.

    Raises:
      InvalidGraphError: naming the equation and what is wrong with it.

    >>> import numpy as np, fungrad as fg
    >>> graph = fg.make_jaxpr(np.sin)(1.0)
    >>> check_graph(graph) is graph
    True
    """
    seen = {id(graph)}
    waiting = [graph]
    while waiting:
        found = waiting.pop()
        _check(found)
        for inner in found.subgraphs():
            if id(inner) not in seen:
                seen.add(id(inner))
                waiting.append(inner)
    return graph


def _check(graph: Graph) -> None:
    """Checks one Graph without its inner Graphs."""
    defined: set[int] = set()
    inference = Inference()

    def define(variables: Sequence[Any], where: Callable[[], str]) -> None:
        for variable in variables:
            if not isinstance(variable, Variable):
                raise InvalidGraphError(f"{where()} defines {variable!r}, which is not a Variable.")
            if id(variable) in defined:
                raise InvalidGraphError(
                    f"{where()} assigns a variable of type {variable.type} twice."
                )
            defined.add(id(variable))

    def use(atoms: Sequence[Atom], where: Callable[[], str]) -> None:
        for atom in atoms:
            if id(atom) not in defined and not isinstance(atom, Literal):
                raise InvalidGraphError(
                    f"{where()} reads a variable of type {atom.type} before it is defined."
                )

    for variable, value in graph.constants:
        define([variable], lambda: "the list of constants")
        found = _type_of_constant(value)
        if found is not None and found != variable.type:
            raise InvalidGraphError(
                f"a constant of type {found!r} is declared as {variable.type!r}."
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
