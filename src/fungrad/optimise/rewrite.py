"""Floor 6: the driver of passes that go along a Graph once and replace equations. Knows the IR."""

from __future__ import annotations

from collections.abc import Callable

from fungrad.ir.graph import Atom, Equation, Graph, Variable

Renaming = dict[int, Atom]
Replace = Callable[[Equation], Equation | tuple[Atom, ...]]


def renamed(atoms: tuple[Atom, ...], names: Renaming) -> tuple[Atom, ...]:
    """The atoms, or what stands for them by now."""
    return tuple([names.get(id(atom), atom) for atom in atoms])


def copied(equation: Equation, inputs: tuple[Atom, ...], outputs: tuple[Variable, ...]) -> Equation:
    """The equation with other inputs and outputs."""
    return Equation(
        equation.primitive, inputs, outputs, equation.params, equation.source, equation.scope,
        equation.backward,
    )  # fmt: skip


def rewritten(graph: Graph, replace: Replace, names: Renaming | None = None) -> Graph:
    """The Graph with each equation replaced by another, or by atoms that its outputs are equal to.

    `replace` sees the equations in their order, with their inputs already renamed; `names` are
    renamings that hold from the start.
    """
    names = {} if names is None else dict(names)
    equations = []
    for equation in graph.equations:
        found = replace(copied(equation, renamed(equation.inputs, names), equation.outputs))
        if isinstance(found, Equation):
            equations.append(found)
        else:
            names.update({id(v): a for v, a in zip(equation.outputs, found, strict=True)})
    outputs = renamed(graph.outputs, names)
    return Graph(graph.inputs, graph.constants, tuple(equations), outputs, graph.name)
