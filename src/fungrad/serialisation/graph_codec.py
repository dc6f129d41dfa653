"""Graphs as plain JSON data beside a list of arrays, and back.

A primitive is written by its name; reading looks it up among those that are declared, and imports
nothing but fungrad's own modules. Knows the IR and values; knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import SavedFileError
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Source, Variable
from fungrad.ir.types import of_value
from fungrad.primitives.primitive import Primitive, primitives
from fungrad.serialisation.declared_primitives import all_primitives
from fungrad.serialisation.value_codec import Unsavable, read_type, read_value, write_value
from fungrad.tracing.trace import Tracer


class Writer:
    """Collects the arrays and the Graphs of what is saved; inner Graphs come before outer ones."""

    def __init__(self, sources: bool) -> None:
        self.arrays: list[Any] = []
        self.graphs: list[Any] = []
        self._sources = sources
        self._numbers: dict[int, int] = {}

    def write(self, value: Any) -> Any:
        """A value as JSON."""
        return write_value(value, self)

    def graph(self, graph: Graph) -> int:
        """The number of a Graph, which is written once."""
        if id(graph) not in self._numbers:
            content = self._graph(graph)
            self._numbers[id(graph)] = len(self.graphs)
            self.graphs.append(content)
        return self._numbers[id(graph)]

    def _graph(self, graph: Graph) -> Any:
        numbers: dict[int, int] = {}
        types: list[Any] = []

        def define(variable: Variable) -> int:
            numbers[id(variable)] = len(numbers)
            types.append(self.write(variable.type)["type"])
            return numbers[id(variable)]

        def atom(found: Atom) -> Any:
            if isinstance(found, Literal):
                return {"literal": self.write(found.value)}
            return numbers[id(found)]

        constants = [[define(v), self._constant(value)] for v, value in graph.constants]
        inputs = [define(v) for v in graph.inputs]
        equations = []
        for equation in graph.equations:
            reads = [atom(a) for a in equation.inputs]
            primitive: Any = equation.primitive
            source = equation.source if self._sources else None
            equations.append(
                {
                    "primitive": [primitive.module, primitive.name],
                    "inputs": reads,
                    "outputs": [define(v) for v in equation.outputs],
                    "params": {k: self._param(equation, k, v) for k, v in equation.params.items()},
                    "source": None if source is None else list(source),
                    "scope": equation.scope,
                    "backward": equation.backward,
                }
            )
        choice = {} if graph.reassociate is None else {"reassociate": graph.reassociate}
        return {
            "name": graph.name,
            **choice,
            "types": types,
            "constants": constants,
            "inputs": inputs,
            "equations": equations,
            "outputs": [atom(a) for a in graph.outputs],
        }

    def _constant(self, value: Any) -> Any:
        if isinstance(value, Tracer):
            raise Unsavable(
                f"a traced value of type {value.type} that the Graph closes over; save it outside "
                "of the transform, or make the value an argument"
            )
        return self.write(value)

    def _param(self, equation: Equation, key: str, value: Any) -> Any:
        try:
            return self.write(value)
        except Unsavable as error:
            if "of the equation" in error.message:  # an inner Graph's equation has said it
                raise
            place = f" at {equation.source}" if equation.source else ""
            raise Unsavable(
                f"the parameter `{key}` of the equation `{equation.primitive.name}`{place}: "
                f"{error.message}"
            ) from None


class Reader:
    """Gives the Graphs of a file back, in the order in which they were written."""

    def __init__(self, arrays: Sequence[Any], longdouble: int) -> None:
        self.arrays = arrays
        self.longdouble = longdouble
        self.graphs: list[Graph] = []

    def read(self, found: Any) -> Any:
        """A value from JSON."""
        return read_value(found, self)

    def index(self, number: Any, among: Sequence[Any]) -> int:
        """A number that has to name one of a list."""
        if type(number) is not int or not 0 <= number < len(among):
            raise SavedFileError(f"it names the item {number!r} of {len(among)}.")
        return number

    def graph(self, content: Any) -> None:
        """Reads one more Graph, which may hold those before it."""
        variables = [Variable(read_type(item, self)) for item in content["types"]]

        def variable(number: Any) -> Variable:
            return variables[self.index(number, variables)]

        def atom(found: Any) -> Atom:
            if isinstance(found, dict):
                value = self.read(found["literal"])
                if of_value(value).shape:
                    raise SavedFileError("a literal is no scalar.")
                return Literal(value)
            return variable(found)

        equations = [
            Equation(
                _primitive(*item["primitive"]),
                tuple([atom(a) for a in item["inputs"]]),
                tuple([variable(v) for v in item["outputs"]]),
                {str(key): self.read(value) for key, value in item["params"].items()},
                _source(item["source"]),
                str(item["scope"]),
                int(item["backward"]),
            )
            for item in content["equations"]
        ]
        self.graphs.append(
            Graph(
                tuple([variable(v) for v in content["inputs"]]),
                tuple([(variable(v), self._constant(value)) for v, value in content["constants"]]),
                tuple(equations),
                tuple([atom(a) for a in content["outputs"]]),
                str(content["name"]),
                _choice(content.get("reassociate")),
            )
        )

    def _constant(self, found: Any) -> Any:
        value = self.read(found)
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        return value


def _choice(found: Any) -> bool | None:
    if found is not None and type(found) is not bool:
        raise SavedFileError(f"its choice whether to regroup is {found!r}.")
    return found


def _source(found: Any) -> Source | None:
    if found is None:
        return None
    file, line, function = found
    return Source(str(file), int(line), str(function))


def _primitive(module: str, name: str) -> Primitive:
    """A declared primitive.

    fungrad's own are looked for by their names alone, which are unique: a file outlives the
    modules of the version that wrote it.
    """
    found = primitives.get((module, name))
    if found is None and module.startswith("fungrad."):
        found = next((p for p in all_primitives().values() if _is_ours(p) and p.name == name), None)
    if found is None:
        raise SavedFileError(
            f"it uses the primitive {name!r} of the module {module!r}, which is not declared here: "
            "import the module that declares it first, or install the fungrad that wrote the file."
        )
    return found


def _is_ours(primitive: Primitive) -> bool:
    return primitive.module.startswith("fungrad.")


__all__ = ["Reader", "Writer"]
