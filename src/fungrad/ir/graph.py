"""Variable, Literal, Equation, Graph: the program as plain, frozen, picklable data.

A Graph is a list of equations in single-assignment form, each applying a primitive to atoms
(variables or literals). The IR does not depend on the primitives' rules: an equation refers to its
primitive, and holds the parameters and types.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from fungrad.ir.canonical import canonical, canonical_dtype
from fungrad.ir.printer import show
from fungrad.ir.types import Type, of_value
from fungrad.support.forks import cached_property
from fungrad.support.hooks import Hooks
from fungrad.support.lazy import Record


class PrimitiveLike(Protocol):
    """The attributes of a primitive that the IR needs: a name, a type rule, a call on values."""

    name: str
    module: str
    multiple: bool
    effect: bool
    pure: bool
    cuts: bool | frozenset[int]
    eval: Any
    cost: Any
    sections: Any
    view: bool
    commutative: bool
    inline: bool
    reduces: Any
    fresh: bool

    @property
    def ufunc(self) -> Any:
        """The ufunc (NumPy's, or one like it) that it applies, if any."""

    def __call__(self, *args: Any, **params: Any) -> Any: ...

    def infer(self, types: list[Type], params: dict[str, Any]) -> tuple[Type, ...]: ...


class Source(Record):
    """The user's line that made an equation."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


class Variable:
    """A value of a Graph, identified by the object's identity."""

    __slots__ = ("type",)

    def __init__(self, type: Type) -> None:
        self.type = type

    def __repr__(self) -> str:
        return f"Variable({self.type})"


class Literal:
    """A scalar constant written into an equation."""

    __slots__ = ("type", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.type = of_value(value)

    def __repr__(self) -> str:
        return str(self.value)


Atom = Variable | Literal


class Equation:
    """One application of a primitive: `outputs = primitive[params] inputs`.

    `backward` counts the backward walks of reverse mode that led to it: 0 in the user's function,
    1 in its gradient, 2 for the equations that the gradient of that adds.
    """

    __slots__ = ("backward", "inputs", "outputs", "params", "primitive", "scope", "source")

    def __init__(
        self,
        primitive: PrimitiveLike,
        inputs: tuple[Atom, ...],
        outputs: tuple[Variable, ...],
        params: dict[str, Any],
        source: Source | None = None,
        scope: str = "",
        backward: int = 0,
    ) -> None:
        self.primitive = primitive
        self.inputs = inputs
        self.outputs = outputs
        self.params = params
        self.source = source
        self.scope = scope
        self.backward = backward

    def __repr__(self) -> str:
        return f"Equation({self.primitive.name})"


class Above(Hooks):
    """Functions that methods of Graph call."""

    picture: Callable[[Graph], Any]
    save: Callable[[Graph, Any], None]
    cost: Callable[[Graph], Any]
    operations: Callable[[Graph], Any]
    explain: Callable[..., Any]


above = Above()


class Reassociation:
    """The setting `fg.config.reassociate`, for Graphs whose `reassociate` is None."""

    allowed = False


class Verification:
    """The setting `fg.config.verify`, for Graphs whose `verify` is None."""

    CHOICES = ("first", "always", "never")
    runs = os.environ.get("FUNGRAD_VERIFY", "first")


class Graph:
    """A traced function: inputs, constants with their values, equations, outputs.

    `print(graph)` shows it in the style of a jaxpr; `graph.show(source=True)` adds the user's
    lines. Graphs are never changed after they are made. They can be pickled.

    `reassociate` says whether passes may regroup sums and products, `verify` which runs of its
    program are compared with the evaluator: "first", "always" or "never". None leaves that to the
    settings.
    """

    def __init__(
        self,
        inputs: tuple[Variable, ...],
        constants: tuple[tuple[Variable, Any], ...],
        equations: tuple[Equation, ...],
        outputs: tuple[Atom, ...],
        name: str = "",
        reassociate: bool | None = None,
        verify: str | None = None,
    ) -> None:
        self.inputs = inputs
        self.constants = constants
        self.equations = equations
        self.outputs = outputs
        self.name = name
        self.reassociate = reassociate
        self.verify = verify

    @property
    def reassociates(self) -> bool:
        """Whether rewrites that are exact only without rounding errors are allowed."""
        return Reassociation.allowed if self.reassociate is None else self.reassociate

    @property
    def verified(self) -> str:
        """Which runs of its program are compared with the evaluator."""
        return Verification.runs if self.verify is None else self.verify

    def choosing(self, **options: Any) -> Graph:
        """The Graph with these options, `reassociate` or `verify`; made once, as its programs are
        kept on it.
        """
        if all(getattr(self, name) is value for name, value in options.items()):
            return self
        made: Graph = self.derived.setdefault(
            ("choosing", *options.items()), self.replace(**options)
        )
        return made

    def choosing_as(self, other: Graph) -> Graph:
        """The Graph with the options of another one."""
        return self.choosing(reassociate=other.reassociate, verify=other.verify)

    def replace(self, **parts: Any) -> Graph:
        """A Graph with other parts, named as the arguments of its class; the others stay."""
        given = {key: getattr(self, key) for key in _PARTS}
        return Graph(**{**given, **parts})

    @property
    def input_types(self) -> list[Type]:
        """The types of the inputs."""
        return [variable.type for variable in self.inputs]

    @property
    def output_types(self) -> list[Type]:
        """The types of the outputs."""
        return [atom.type for atom in self.outputs]

    @cached_property
    def last_uses(self) -> list[list[Variable]]:
        """For each equation, the variables that neither a later equation nor an output reads."""
        return list(last_uses(self.equations, self.outputs))

    @cached_property
    def effectful(self) -> bool:
        """Whether an equation, or one inside its Graphs, has an effect."""
        return any(map(effectful, self.equations))

    @cached_property
    def complex(self) -> bool:
        """Whether it, or a Graph inside, has complex values."""
        atoms = [a for e in self.equations for a in (*e.inputs, *e.outputs)]
        own = any(a.type.dtype.kind == "c" for a in (*self.inputs, *self.outputs, *atoms))
        return own or any(inner.complex for inner in self.subgraphs())

    @cached_property
    def derived(self) -> dict[Any, Any]:
        """A cache of objects derived from this Graph: derivatives, batched forms, programs."""
        return {}

    def subgraphs(self) -> Iterator[Graph]:
        """The Graphs in the parameters of the equations (bodies of calls, branches and loops)."""
        for equation in self.equations:
            yield from inner_graphs(equation)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("last_uses", None)
        state.pop("effectful", None)
        state.pop("complex", None)
        state.pop("derived", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"reassociate": None, "verify": None, **state})
        self.constants = tuple([(v, canonical(value)) for v, value in self.constants])
        for equation in self.equations:
            for key, value in equation.params.items():
                if isinstance(value, np.dtype):
                    equation.params[key] = canonical_dtype(value)

    def __repr__(self) -> str:
        return self.show()

    def show(self, source: bool = False) -> str:
        """The Graph as text; with `source`, each equation is followed by the user's file and
        line.
        """
        return show(self, source)

    def to_dot(self) -> str:
        """The Graph as a picture, in Graphviz's language: see `fungrad.draw`."""
        text: str = above.picture(self).to_dot()
        return text

    def to_mermaid(self) -> str:
        """The Graph as a picture, a Mermaid flowchart: see `fungrad.draw`."""
        text: str = above.picture(self).to_mermaid()
        return text

    def save(self, path: Any) -> None:
        """Writes the Graph to a file, in the format of the file's ending.

        Args:
          path: `x.html`, `x.svg`, `x.dot`, `x.mmd` for a picture (see `fungrad.draw`), or
            `x.fungrad` for the Graph itself (see `fungrad.save`).
        """
        above.save(self, path)

    def _repr_html_(self) -> str:
        page: str = above.picture(self)._repr_html_()
        return page

    def _repr_svg_(self) -> str | None:
        drawing: str | None = above.picture(self)._repr_svg_()
        return drawing


_PARTS = ("inputs", "constants", "equations", "outputs", "name", "reassociate", "verify")


def inner_graphs(equation: Equation) -> Iterator[Graph]:
    """The Graphs among the parameters of one equation."""
    return graphs_of(equation.params)


def graphs_of(params: dict[str, Any]) -> Iterator[Graph]:
    """The Graphs among parameters."""
    for value in params.values():
        if isinstance(value, Graph):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, Graph))


def with_graphs(params: dict[str, Any], change: Callable[[Graph], Graph]) -> dict[str, Any]:
    """The parameters with each Graph among them changed."""

    def changed(value: Any) -> Any:
        if isinstance(value, Graph):
            return change(value)
        if isinstance(value, tuple) and any(isinstance(item, Graph) for item in value):
            return tuple(map(changed, value))
        return value

    return {key: changed(value) for key, value in params.items()}


def free_variables(equations: Sequence[Equation]) -> list[Variable]:
    """The variables that equations read and none of them makes, in the order of the reads."""
    made = {variable for equation in equations for variable in equation.outputs}
    read = dict.fromkeys([atom for equation in equations for atom in equation.inputs])
    return [atom for atom in read if isinstance(atom, Variable) and atom not in made]


def effectful(equation: Equation) -> bool:
    """Whether an equation, or one inside its Graphs, has an effect."""
    if equation.primitive.effect or not equation.params:
        return equation.primitive.effect
    return any(graph.effectful for graph in inner_graphs(equation))


def last_uses(steps: Sequence[Any], outputs: Iterable[Any]) -> Iterator[list[Any]]:
    """Liveness: for each step (an object with inputs and outputs), the values that no later step
    reads, and that are not among the outputs.
    """
    live = set(outputs)
    ended: list[Any] = []
    for step in reversed(steps):
        ended.append(None)
        for atom in (*step.inputs, *step.outputs)[::-1]:
            if atom not in live and not isinstance(atom, Literal):
                live.add(atom)
                ended.append(atom)
    for _ in steps:
        dead: list[Any] = []
        while (variable := ended.pop()) is not None:
            dead.append(variable)
        yield dead
